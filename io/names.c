/* A hash set of names that keeps their order, and checks of texts. */
#include <stdlib.h>
#include <string.h>

#include "core/utf8.h"
#include "io/internal.h"

/* FNV-1a, 64 bits. */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

/* The bucket that holds the name, or the empty one where it belongs. */
static int64_t *find_bucket(const io_names *set, const char *name)
{
    const uint64_t mask = (uint64_t)set->bucket_count - 1;
    uint64_t at = hash_text(name) & mask;
    while (set->buckets[at] && strcmp(set->names[set->buckets[at] - 1], name) != 0)
        at = (at + 1) & mask;
    return &set->buckets[at];
}

int64_t io_names_find(const io_names *set, const char *name)
{
    return set->bucket_count ? *find_bucket(set, name) - 1 : -1;
}

static bool grow_buckets(io_names *set)
{
    const int64_t count = set->bucket_count ? 2 * set->bucket_count : 64;
    int64_t *buckets = calloc((size_t)count, sizeof *buckets);
    if (!buckets)
        return false;
    free(set->buckets);
    set->buckets = buckets;
    set->bucket_count = count;
    for (int64_t i = 0; i < set->count; i++)
        *find_bucket(set, set->names[i]) = i + 1;
    return true;
}

static bool grow_list(io_names *set)
{
    const int64_t capacity = set->capacity ? 2 * set->capacity : 32;
    const char **names = realloc((void *)set->names, (size_t)capacity * sizeof *names);
    if (!names)
        return false;
    set->names = names;
    set->capacity = capacity;
    return true;
}

int64_t io_names_add(io_names *set, const char *name)
{
    if (set->count == set->capacity && !grow_list(set))
        return -1;
    if (2 * (set->count + 1) > set->bucket_count && !grow_buckets(set))
        return -1;
    set->names[set->count] = name;
    *find_bucket(set, name) = ++set->count;
    return set->count - 1;
}

void io_names_remove(io_names *set, int64_t place)
{
    memmove((void *)(set->names + place), set->names + place + 1,
            (size_t)(--set->count - place) * sizeof *set->names);
    memset(set->buckets, 0, (size_t)set->bucket_count * sizeof *set->buckets);
    for (int64_t i = 0; i < set->count; i++)
        *find_bucket(set, set->names[i]) = i + 1;
}

void io_names_clear(io_names *set)
{
    free((void *)set->names);
    free(set->buckets);
    *set = (io_names){ 0 };
}

bool io_is_utf8(const unsigned char *text, size_t bytes)
{
    size_t i = 0, next = 1;
    for (; i < bytes && next > 0; i += next)
        next = core_utf8_bytes((const char *)text + i, bytes - i);
    return next > 0;
}

char *io_copy_text(tern_site_t site, const char *what, const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        tern_fail_at(site, TERN_ERR_OOM, io_called(what), "no memory for a text of %zu bytes",
                     strlen(text));
    return copy;
}
