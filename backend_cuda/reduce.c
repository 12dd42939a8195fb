/* sum, mean, var, std, prod, norm, amax, amin, max, min, argmax, argmin: which dimensions stay, and how the work is cut. */
#include "backend_cuda/kernels.h"
#include "backend_cuda/launch.h"

enum {
    SHORT = 64,      /* so few elements are one thread's work */
    WARP_LONG = 256, /* so few elements are one warp's work, of many outputs more */
    WARP_MANY_LONG = 4096,
    WARP_MANY = 512,
    MANY_OUTPUTS = 256, /* so many lie beside each other that threads take them, cut into chunks */
    CHUNK = 1 << 14,    /* elements of a block */
    MOST_BLOCKS = 4096
};

typedef struct plan {
    tern_view first, last,
        source; /* outputs in the input's dimensions, and the input without what goes */
    cuda_walk gone;
    int64_t gone_count, parts;
} plan;

/* Out's strides spread over the input's dimensions. */
static tern_view spread(const tern_view *in, const tern_view *out, uint32_t dims, bool keepdim)
{
    tern_view v = *in;
    int from = 0;
    for (int d = 0; d < in->ndim; d++) {
        const bool gone = (dims >> d & 1u) != 0;
        v.shape[d] = gone ? 1 : in->shape[d];
        v.stride[d] = gone ? 0 : out->stride[from];
        from += !gone || keepdim;
    }
    return v;
}

/* What goes may have 2^31 elements where they need no walk. */
static bool plan_gone(plan *p, const tern_view *gone)
{
    const tern_view *const views[1] = { gone };
    int64_t stride;
    cuda_walk_part part;
    if (cuda_walk_parts(1, views) == 1)
        cuda_walk_plan(1, views, 0, &part);
    else if (cuda_walk_is_line(gone, &stride))
        part.walk = (cuda_walk){ .ndim = 1, .stride = { { stride } } };
    else
        return false;
    p->gone = part.walk;
    return true;
}

static void kept_views(const plan *p, const tern_view *views[3])
{
    views[0] = &p->first;
    views[1] = &p->last;
    views[2] = &p->source;
}

static bool make_plan(plan *p, const tern_call *call, uint32_t dims, bool keepdim)
{
    const tern_view *in = call->in[0], *kept[3];
    tern_view gone = *in;
    p->first = spread(in, call->out[0], dims, keepdim);
    p->last = spread(in, call->out[call->n_out - 1], dims, keepdim);
    p->source = *in;
    p->gone_count = 1;
    for (int d = 0; d < in->ndim; d++) {
        const bool is_gone = (dims >> d & 1u) != 0;
        p->source.shape[d] = is_gone ? 1 : in->shape[d];
        gone.shape[d] = is_gone ? in->shape[d] : 1;
        p->gone_count *= gone.shape[d];
    }
    p->first.numel = call->out[0]->numel;
    gone.numel = p->gone_count;
    if (p->gone_count == 0) /* a place to start from, where no element is */
        gone = (tern_view){ .numel = 1 };
    kept_views(p, kept);
    p->parts = cuda_walk_parts(3, kept);
    return plan_gone(p, &gone);
}

static void set_chunks(cuda_reduce_args *r)
{
    const int64_t outputs = r->kept->numel;
    const bool beside = r->kept->ndim > 0 && r->kept->stride[0][2] == 1;
    if (r->count <= SHORT || (beside && outputs >= MANY_OUTPUTS)) {
        r->width = 1;
        r->chunks = cuda_chunks_of_columns(outputs, r->count);
        return;
    }
    const int64_t warp_long = outputs >= WARP_MANY ? WARP_MANY_LONG : WARP_LONG;
    r->width = r->count <= warp_long ? CUDA_WARP : CUDA_BLOCK;
    const int64_t wanted = (r->count + CHUNK - 1) / CHUNK;
    const int64_t most = MOST_BLOCKS / outputs;
    r->chunks = wanted < most ? wanted : most > 0 ? most : 1;
}

static tern_status_t run_part(const tern_call *call, const plan *p, int64_t i, cuda_reduce_args r,
                              const char *name)
{
    cudaStream_t stream = NULL;
    cuda_walk_part kept;
    const tern_view *in = call->in[0], *views[3];
    kept_views(p, views);
    cuda_walk_plan(3, views, i, &kept);
    if (r.out != NULL)
        r.out = (char *)r.out + kept.offset[0] * cuda_dtype_size(call->out[0]->dtype);
    if (r.place != NULL)
        r.place += kept.offset[1];
    if (in->data != NULL)
        r.in = (const char *)in->data + kept.offset[2] * cuda_dtype_size(in->dtype);
    r.in_dtype = in->dtype;
    r.out_dtype = call->out[0]->dtype;
    r.count = p->gone_count;
    r.kept = &kept.walk;
    r.gone = &p->gone;
    set_chunks(&r);
    if (r.chunks > 1) {
        r.cells = cuda_scratch(call, kept.walk.numel * r.chunks * CUDA_CELL_BYTES);
        if (r.cells == NULL)
            return TERN_ERR_OOM;
    }
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_reduce(&r, stream), name);
}

static tern_status_t run(const tern_call *call, uint32_t dims, bool keepdim,
                         const cuda_reduce_args *r, const char *name)
{
    plan p;
    if (call->out[0]->numel == 0)
        return TERN_OK;
    if (!make_plan(&p, call, dims, keepdim))
        return call->host->fail(TERN_ERR_UNSUPPORTED,
                                "a result of 2^31 elements and more that lie in several "
                                "dimensions: reduce one dimension after the other");
    for (int64_t i = 0; i < p.parts; i++)
        CUDA_TRY(run_part(call, &p, i, *r, name));
    return TERN_OK;
}

static tern_status_t reduce(const tern_call *call, cuda_reduction kind, bool least,
                            const char *name)
{
    const tern_attr_reduce *attr = call->attr;
    cuda_reduce_args r = {
        .out = call->out[0]->data, .kind = kind, .correction = attr->correction, .least = least
    };
    return run(call, attr->dims, attr->keepdim != 0, &r, name);
}

#define REDUCTION(name, kind, least)                 \
    tern_status_t cuda_##name(const tern_call *call) \
    {                                                \
        return reduce(call, kind, least, #name);     \
    }
REDUCTION(sum, CUDA_SUM, false)
REDUCTION(mean, CUDA_MEAN, false)
REDUCTION(var, CUDA_VAR, false)
REDUCTION(std, CUDA_STD, false)
REDUCTION(prod, CUDA_PROD, false)
REDUCTION(amax, CUDA_EXTREME, false)
REDUCTION(amin, CUDA_EXTREME, true)

tern_status_t cuda_norm(const tern_call *call)
{
    const tern_attr_vector_norm *attr = call->attr;
    cuda_reduce_args r = { .out = call->out[0]->data, .kind = CUDA_NORM, .p = attr->p };
    return run(call, attr->dims, attr->keepdim != 0, &r, "norm");
}

static tern_status_t along(const tern_call *call, void *out, int64_t *place, bool least,
                           const char *name)
{
    const tern_attr_dim *attr = call->attr;
    cuda_reduce_args r = { .out = out, .place = place, .kind = CUDA_PLACE, .least = least };
    return run(call, call->in[0]->ndim > 0 ? 1u << attr->dim : 0u, attr->keepdim != 0, &r, name);
}

tern_status_t cuda_max(const tern_call *call)
{
    return along(call, call->out[0]->data, call->out[1]->data, false, "max");
}

tern_status_t cuda_min(const tern_call *call)
{
    return along(call, call->out[0]->data, call->out[1]->data, true, "min");
}

tern_status_t cuda_argmax(const tern_call *call)
{
    return along(call, NULL, call->out[0]->data, false, "argmax");
}

tern_status_t cuda_argmin(const tern_call *call)
{
    return along(call, NULL, call->out[0]->data, true, "argmin");
}
