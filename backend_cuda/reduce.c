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
    cuda_walk_part kept, gone;
    int64_t kept_count, gone_count;
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

static bool make_plan(plan *p, const tern_call *call, uint32_t dims, bool keepdim)
{
    const tern_view *in = call->in[0];
    const tern_view first = spread(in, call->out[0], dims, keepdim);
    const tern_view last = spread(in, call->out[call->n_out - 1], dims, keepdim);
    tern_view kept = first, gone = *in, source = *in;
    p->kept_count = p->gone_count = 1;
    for (int d = 0; d < in->ndim; d++) {
        const bool is_gone = (dims >> d & 1u) != 0;
        source.shape[d] = is_gone ? 1 : in->shape[d];
        gone.shape[d] = is_gone ? in->shape[d] : 1;
        p->kept_count *= source.shape[d];
        p->gone_count *= gone.shape[d];
    }
    kept.numel = p->kept_count;
    gone.numel = p->gone_count;
    const tern_view *const kept_views[3] = { &kept, &last, &source };
    const tern_view *const gone_views[1] = { &gone };
    if (p->gone_count == 0) /* a place to start from, where no element is */
        gone = (tern_view){ .numel = 1 };
    if (cuda_walk_parts(3, kept_views) != 1 || cuda_walk_parts(1, gone_views) != 1)
        return false;
    cuda_walk_plan(3, kept_views, 0, &p->kept);
    cuda_walk_plan(1, gone_views, 0, &p->gone);
    return true;
}

static void set_chunks(cuda_reduce_args *r, const plan *p)
{
    const bool beside = p->kept.walk.ndim > 0 && p->kept.walk.stride[0][2] == 1;
    if (p->gone_count <= SHORT || (beside && p->kept_count >= MANY_OUTPUTS)) {
        r->width = 1;
        r->chunks = cuda_chunks_of_columns(p->kept_count, p->gone_count);
        return;
    }
    const int64_t warp_long = p->kept_count >= WARP_MANY ? WARP_MANY_LONG : WARP_LONG;
    r->width = p->gone_count <= warp_long ? CUDA_WARP : CUDA_BLOCK;
    const int64_t wanted = (p->gone_count + CHUNK - 1) / CHUNK;
    const int64_t most = MOST_BLOCKS / p->kept_count;
    r->chunks = wanted < most ? wanted : most > 0 ? most : 1;
}

static tern_status_t run(const tern_call *call, uint32_t dims, bool keepdim, cuda_reduce_args *r,
                         const char *name)
{
    cudaStream_t stream = NULL;
    plan p;
    const tern_view *in = call->in[0];
    if (call->out[0]->numel == 0)
        return TERN_OK;
    if (!make_plan(&p, call, dims, keepdim))
        return call->host->fail(TERN_ERR_UNSUPPORTED, "2^31 outputs or elements of one and more");
    r->in = in->data;
    r->in_dtype = in->dtype;
    r->out_dtype = call->out[0]->dtype;
    r->count = p.gone_count;
    r->kept = &p.kept.walk;
    r->gone = &p.gone.walk;
    set_chunks(r, &p);
    if (r->chunks > 1) {
        r->cells = cuda_scratch(call, p.kept_count * r->chunks * CUDA_CELL_BYTES);
        if (r->cells == NULL)
            return TERN_ERR_OOM;
    }
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_launched(call, cuda_launch_reduce(r, stream), name);
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
