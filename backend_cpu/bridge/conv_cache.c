/* Convolution primitives and their scratch, kept per thread. Making one costs 0.1 to 10 ms (oneDNN
 * generates code), so a training loop must find them again; without sharing between threads nothing
 * is locked and scratch needs no owner. */
#include "backend_cpu/bridge/conv_private.h"

#if TERN_HAVE_ONEDNN

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;
static bool exit_key_made;
static dnnl_engine_t engine;
static _Thread_local conv_cache *here;

static void free_cache(void *data)
{
    conv_cache *cache = data;
    if (!cache)
        return;
    for (int i = 0; i < cache->count; i++)
        conv_entry_free(cache->entries[i]);
    for (int i = 0; i < CONV_PRODUCTS; i++)
        product_entry_free(cache->products[i]);
    for (int i = 0; i < CONV_BUFFER_COUNT; i++)
        free(cache->buffers[i].data);
    dnnl_stream_destroy(cache->stream);
    free(cache);
}

/* The C library calls it once more in the child of a fork that came in its middle. */
static void initialise(void)
{
    if (!exit_key_made)
        exit_key_made = pthread_key_create(&exit_key, free_cache) == 0;
    if (engine == NULL && dnnl_engine_create(&engine, dnnl_cpu, 0) != dnnl_success)
        engine = NULL;
}

dnnl_engine_t conv_engine(void)
{
    pthread_once(&once, initialise);
    return engine;
}

conv_cache *conv_cache_here(void)
{
    if (here)
        return here;
    dnnl_engine_t cpu = conv_engine();
    conv_cache *cache = calloc(1, sizeof *cache);
    if (!cache || !cpu || !exit_key_made ||
        dnnl_stream_create(&cache->stream, cpu, dnnl_stream_default_flags) != dnnl_success ||
        pthread_setspecific(exit_key, cache) != 0) {
        free_cache(cache);
        return NULL;
    }
    here = cache;
    return cache;
}

void *conv_buffer_get(conv_cache *cache, int index, size_t bytes)
{
    conv_buffer *buffer = &cache->buffers[index];
    if (buffer->bytes >= bytes)
        return buffer->data;
    /* Room to spare, so that a network's shapes settle after one step. */
    size_t rounded = (bytes + bytes / 8 + 4095) / 4096 * 4096;
    free(buffer->data);
    buffer->data = aligned_alloc(4096, rounded);
    buffer->bytes = buffer->data ? rounded : 0;
    return buffer->data;
}

static uint64_t hash_key(const conv_key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)];
    memcpy(words, key, sizeof words);
    uint64_t h = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        h = (h ^ words[i]) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    return h;
}

static conv_entry *find(conv_cache *cache, const conv_key *key, uint64_t hash)
{
    for (int i = 0; i < cache->count; i++) {
        conv_entry *e = cache->entries[i];
        if (e->hash == hash && memcmp(&e->key, key, sizeof *key) == 0)
            return e;
    }
    return NULL;
}

static void drop_oldest(conv_cache *cache)
{
    int oldest = 0;
    for (int i = 1; i < cache->count; i++)
        if (cache->entries[i]->used < cache->entries[oldest]->used)
            oldest = i;
    conv_entry *e = cache->entries[oldest];
    if (e->tensor[SLOT_W].own)
        cache->own_bytes -= e->tensor[SLOT_W].inner_bytes;
    conv_entry_free(e);
    cache->entries[oldest] = cache->entries[--cache->count];
}

conv_entry *conv_cache_get(conv_cache *cache, const conv_key *key)
{
    uint64_t hash = hash_key(key);
    conv_entry *e = find(cache, key, hash);
    if (!e) {
        e = calloc(1, sizeof *e);
        if (!e)
            return NULL;
        e->key = *key;
        e->hash = hash;
        if (!conv_entry_build(e, conv_engine())) {
            conv_entry_free(e);
            return NULL;
        }
        if (cache->count == CONV_CACHE_ENTRIES)
            drop_oldest(cache);
        cache->entries[cache->count++] = e;
        cache->created++;
    }
    e->used = ++cache->clock;
    return e;
}

void bridge_stats(cpu_blas_stats *out_stats)
{
    memset(out_stats, 0, sizeof *out_stats);
    if (!here)
        return;
    out_stats->primitives_created = here->created;
    out_stats->primitives_cached = (uint64_t)here->count;
    out_stats->weight_reorders = here->reorders;
    out_stats->scratch_bytes = here->own_bytes;
    for (int i = 0; i < CONV_BUFFER_COUNT; i++)
        out_stats->scratch_bytes += here->buffers[i].bytes;
}

void bridge_release_thread(void)
{
    if (!here)
        return;
    pthread_setspecific(exit_key, NULL);
    free_cache(here);
    here = NULL;
}

#else
#include <string.h>

void bridge_stats(cpu_blas_stats *out_stats)
{
    memset(out_stats, 0, sizeof *out_stats);
}

void bridge_release_thread(void)
{
}
#endif
