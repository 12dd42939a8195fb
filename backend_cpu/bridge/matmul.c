/* Matrix products of half types through oneDNN, which takes AMX, AVX512-FP16 or AVX512-BF16 where it
 * finds them. A primitive is kept per thread and shape, like those of convolutions. */
#include "backend_cpu/bridge/conv_private.h"

#if TERN_HAVE_ONEDNN

#include <stdlib.h>
#include <string.h>

/* Everything that decides a primitive. Bytes are compared, so it has no padding. */
typedef struct product_key {
    int64_t m, n, k, lda, ldb, ldc;
    int32_t dtype, trans_a, trans_b, has_bias;
} product_key;

struct product_entry {
    product_key key;
    uint64_t used;
    dnnl_primitive_t primitive; /* NULL: nothing but a reference kernel */
    dnnl_memory_t a, b, c, bias, scratch;
    size_t scratch_bytes;
};

static product_key key_of(const cpu_gemm_call *call, const gemm_block *g)
{
    product_key key;
    memset(&key, 0, sizeof key);
    key.m = g->m;
    key.n = g->n;
    key.k = g->k;
    key.lda = call->lda;
    key.ldb = call->ldb;
    key.ldc = call->ldc;
    key.dtype = (int32_t)call->dtype;
    key.trans_a = call->trans_a != 0;
    key.trans_b = call->trans_b != 0;
    key.has_bias = g->bias != NULL;
    return key;
}

typedef struct product_layouts {
    onednn_own a, b, c, bias;
} product_layouts;

static void free_layouts(product_layouts *l)
{
    onednn_free(&l->a);
    onednn_free(&l->b);
    onednn_free(&l->c);
    onednn_free(&l->bias);
}

static bool describe(onednn_own *out, int32_t dtype, int64_t rows, int64_t columns, int64_t pitch,
                     bool transposed)
{
    const dnnl_dims_t dims = { rows, columns };
    const dnnl_dims_t strides = { transposed ? 1 : pitch, transposed ? pitch : 1 };
    return onednn_by_strides(out, 2, dims, onednn_type(dtype), strides);
}

/* free_layouts ends what it gives, on failure too. */
static bool describe_all(const product_key *k, product_layouts *out)
{
    memset(out, 0, sizeof *out);
    return describe(&out->a, k->dtype, k->m, k->k, k->lda, k->trans_a != 0) &&
           describe(&out->b, k->dtype, k->k, k->n, k->ldb, k->trans_b != 0) &&
           describe(&out->c, k->dtype, k->m, k->n, k->ldc, false) &&
           describe(&out->bias, k->dtype, 1, k->n, k->n, false);
}

static bool make_memory(dnnl_memory_t *out, onednn_layout layout, dnnl_engine_t engine)
{
    return dnnl_memory_create(out, layout, engine, NULL) == dnnl_success;
}

/* An entry without a primitive is a success: the answer "unsupported" is worth keeping. */
static bool build_from(product_entry *e, const product_layouts *l, dnnl_engine_t engine)
{
    const bool has_bias = e->key.has_bias != 0;
    const onednn_layout a = onednn_layout_of(&l->a);
    const onednn_layout b = onednn_layout_of(&l->b);
    const onednn_layout c = onednn_layout_of(&l->c);
    const onednn_layout bias = has_bias ? onednn_layout_of(&l->bias) : NULL;
    dnnl_primitive_attr_t attr = onednn_attributes();
    dnnl_primitive_desc_t pd = attr ? onednn_matmul_first_fast(a, b, bias, c, attr, engine) : NULL;
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    if (!pd)
        return true;
    const onednn_layout scratch = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    e->scratch_bytes = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    const bool ok = make_memory(&e->a, a, engine) && make_memory(&e->b, b, engine) &&
                    make_memory(&e->c, c, engine) &&
                    (!has_bias || make_memory(&e->bias, bias, engine)) &&
                    (!e->scratch_bytes || make_memory(&e->scratch, scratch, engine)) &&
                    dnnl_primitive_create(&e->primitive, pd) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    return ok;
}

static bool build(product_entry *e, dnnl_engine_t engine)
{
    product_layouts layouts;
    const bool ok = !describe_all(&e->key, &layouts) || build_from(e, &layouts, engine);
    free_layouts(&layouts);
    return ok;
}

void product_entry_free(product_entry *e)
{
    if (!e)
        return;
    dnnl_primitive_destroy(e->primitive);
    dnnl_memory_destroy(e->a);
    dnnl_memory_destroy(e->b);
    dnnl_memory_destroy(e->c);
    dnnl_memory_destroy(e->bias);
    dnnl_memory_destroy(e->scratch);
    free(e);
}

/* The place of the key: its own, a free one, or that of the entry used longest ago. */
static int place_of(const conv_cache *cache, const product_key *key)
{
    int oldest = 0;
    for (int i = 0; i < CONV_PRODUCTS; i++) {
        const product_entry *e = cache->products[i];
        if (!e || memcmp(&e->key, key, sizeof *key) == 0)
            return i;
        if (e->used < cache->products[oldest]->used)
            oldest = i;
    }
    return oldest;
}

static product_entry *entry_of(conv_cache *cache, const product_key *key)
{
    product_entry **place = &cache->products[place_of(cache, key)];
    product_entry *e = *place;
    if (!e || memcmp(&e->key, key, sizeof *key) != 0) {
        e = calloc(1, sizeof *e);
        if (!e)
            return NULL;
        e->key = *key;
        if (!build(e, conv_engine())) {
            product_entry_free(e);
            return NULL;
        }
        product_entry_free(*place);
        *place = e;
        cache->created++;
    }
    e->used = ++cache->clock;
    return e;
}

static bool set_handle(dnnl_memory_t memory, const void *data)
{
    return dnnl_memory_set_data_handle(memory, (void *)(uintptr_t)data) == dnnl_success;
}

bool bridge_matmul(const cpu_gemm_call *call, const gemm_block *g)
{
    const product_key key = key_of(call, g);
    conv_cache *cache = conv_cache_here();
    product_entry *e = cache ? entry_of(cache, &key) : NULL;
    if (!e || !e->primitive)
        return false;
    void *scratch =
        e->scratch ? conv_buffer_get(cache, CONV_BUFFER_SCRATCH, e->scratch_bytes) : NULL;
    if (!set_handle(e->a, g->a) || !set_handle(e->b, g->b) || !set_handle(e->c, g->c) ||
        (e->bias && !set_handle(e->bias, g->bias)) ||
        (e->scratch && (!scratch || !set_handle(e->scratch, scratch))))
        return false;
    dnnl_exec_arg_t args[5] = { { DNNL_ARG_SRC, e->a },
                                { DNNL_ARG_WEIGHTS, e->b },
                                { DNNL_ARG_DST, e->c } };
    int count = 3;
    if (e->bias)
        args[count++] = (dnnl_exec_arg_t){ DNNL_ARG_BIAS, e->bias };
    if (e->scratch)
        args[count++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, e->scratch };
    const bool ok =
        dnnl_primitive_execute(e->primitive, cache->stream, count, args) == dnnl_success;
    return dnnl_stream_wait(cache->stream) == dnnl_success && ok;
}

#else
bool bridge_matmul(const cpu_gemm_call *call, const gemm_block *g)
{
    (void)call;
    (void)g;
    return false;
}
#endif
