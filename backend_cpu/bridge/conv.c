/* Runs a convolution: finds the primitive, brings the tensors into its layouts, executes. */
#include "backend_cpu/bridge/conv_private.h"

#if TERN_HAVE_ONEDNN

#include <stdlib.h>
#include <string.h>

static bool is_sane(const cpu_conv2d_shape *s)
{
    bool sizes = s->batch > 0 && s->in_channels > 0 && s->in_h > 0 && s->in_w > 0 &&
                 s->out_channels > 0 && s->kernel_h > 0 && s->kernel_w > 0;
    bool steps = s->stride_h > 0 && s->stride_w > 0 && s->pad_h >= 0 && s->pad_w >= 0 &&
                 s->dilation_h > 0 && s->dilation_w > 0 && s->groups > 0;
    return sizes && steps && s->in_channels % s->groups == 0 && s->out_channels % s->groups == 0 &&
           s->in_h + 2 * s->pad_h > s->dilation_h * (s->kernel_h - 1) &&
           s->in_w + 2 * s->pad_w > s->dilation_w * (s->kernel_w - 1);
}

static bool make_key(const cpu_conv2d_call *call, int threads, conv_key *out)
{
    const cpu_conv2d_shape *s = &call->shape;
    bool known = (s->format == CPU_CONV_NHWC || s->format == CPU_CONV_NCHW) &&
                 (s->weights == CPU_CONV_OIHW || s->weights == CPU_CONV_OHWI);
    bool typed = s->dtype == CPU_BLAS_F32 || s->dtype == CPU_BLAS_BF16 || s->dtype == CPU_BLAS_F16;
    if (!known || !typed || !is_sane(s))
        return false;
    memset(out, 0, sizeof *out);
    out->shape = *s;
    out->pass = (int32_t)call->pass;
    out->has_bias = call->bias != NULL && call->pass != CPU_CONV_BACKWARD_DATA;
    out->threads = threads;
    return true;
}

static bool set_handle(dnnl_memory_t memory, void *data)
{
    return dnnl_memory_set_data_handle(memory, data) == dnnl_success;
}

/* Points `inner` at this thread's buffer. Setting a handle zeroes the padding of the layout, so it
 * is done only when the buffer has moved; every kernel and reorder keeps the padding zero. */
static bool place_inner(conv_cache *cache, conv_tensor *t, int slot)
{
    void *data = conv_buffer_get(cache, slot, t->inner_bytes);
    if (!data)
        return false;
    if (t->inner_at != data && !set_handle(t->inner, data))
        return false;
    t->inner_at = data;
    return true;
}

static bool place_scratch(conv_cache *cache, conv_entry *e)
{
    if (!e->scratch_bytes)
        return true;
    void *data = conv_buffer_get(cache, CONV_BUFFER_SCRATCH, e->scratch_bytes);
    if (!data)
        return false;
    if (e->scratch_at != data && !set_handle(e->scratch, data))
        return false;
    e->scratch_at = data;
    return true;
}

static bool run_reorder(conv_cache *cache, conv_tensor *t, bool is_output)
{
    dnnl_exec_arg_t args[2] = { { DNNL_ARG_FROM, is_output ? t->inner : t->outer },
                                { DNNL_ARG_TO, is_output ? t->outer : t->inner } };
    return dnnl_primitive_execute(t->reorder, cache->stream, 2, args) == dnnl_success;
}

/* A reordered copy of w that belongs to the entry. *out_fresh: it holds these weights already. */
static bool place_own(conv_cache *cache, conv_tensor *w, const cpu_conv2d_call *call,
                      bool *out_fresh)
{
    if (!w->own) {
        w->own = aligned_alloc(64, (w->inner_bytes + 63) / 64 * 64);
        if (!w->own)
            return false;
        cache->own_bytes += w->inner_bytes;
        w->own_key = 0;
    }
    *out_fresh = w->own_key == call->weights_key && w->own_of == call->w && w->inner_at == w->own;
    if (w->inner_at != w->own && !set_handle(w->inner, w->own))
        return false;
    w->inner_at = w->own;
    w->own_key = call->weights_key;
    w->own_of = call->w;
    return true;
}

static bool place_weights(conv_cache *cache, conv_tensor *w, const cpu_conv2d_call *call)
{
    bool is_output = call->pass == CPU_CONV_BACKWARD_WEIGHTS;
    bool fresh = false;
    bool keep = call->weights_key != 0 && !is_output;
    if (!(keep ? place_own(cache, w, call, &fresh) : place_inner(cache, w, SLOT_W)))
        return false;
    if (is_output || fresh)
        return true;
    cache->reorders++;
    if (run_reorder(cache, w, false))
        return true;
    w->own_key = 0;
    return false;
}

/* The slot that the pass writes. */
static int output_slot(const cpu_conv2d_call *call)
{
    if (call->pass == CPU_CONV_FORWARD)
        return SLOT_Y;
    return call->pass == CPU_CONV_BACKWARD_DATA ? SLOT_X : SLOT_W;
}

static bool place_tensors(conv_cache *cache, conv_entry *e, const cpu_conv2d_call *call)
{
    void *data[SLOT_COUNT] = { call->x, call->w, call->y };
    for (int i = 0; i < SLOT_COUNT; i++) {
        conv_tensor *t = &e->tensor[i];
        if (!set_handle(t->outer, data[i]))
            return false;
        if (!t->inner)
            continue;
        if (i == SLOT_W ? !place_weights(cache, t, call) : !place_inner(cache, t, i))
            return false;
        if (i != SLOT_W && i != output_slot(call) && !run_reorder(cache, t, false))
            return false;
    }
    return place_scratch(cache, e) && (!e->bias || set_handle(e->bias, call->bias));
}

static dnnl_memory_t kernel_side(const conv_tensor *t)
{
    return t->inner ? t->inner : t->outer;
}

static bool execute(conv_cache *cache, conv_entry *e, int pass)
{
    bool forward = pass == CPU_CONV_FORWARD;
    bool writes_x = pass == CPU_CONV_BACKWARD_DATA;
    bool writes_w = pass == CPU_CONV_BACKWARD_WEIGHTS;
    dnnl_exec_arg_t args[5];
    int count = 0;
    args[count++] = (dnnl_exec_arg_t){ writes_x ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
                                       kernel_side(&e->tensor[SLOT_X]) };
    args[count++] = (dnnl_exec_arg_t){ writes_w ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
                                       kernel_side(&e->tensor[SLOT_W]) };
    args[count++] = (dnnl_exec_arg_t){ forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
                                       kernel_side(&e->tensor[SLOT_Y]) };
    if (e->bias)
        args[count++] = (dnnl_exec_arg_t){ forward ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, e->bias };
    if (e->scratch)
        args[count++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, e->scratch };
    return dnnl_primitive_execute(e->primitive, cache->stream, count, args) == dnnl_success;
}

static bool run(conv_cache *cache, conv_entry *e, const cpu_conv2d_call *call)
{
    conv_tensor *output = &e->tensor[output_slot(call)];
    bool ok = place_tensors(cache, e, call) && execute(cache, e, (int)call->pass) &&
              (!output->reorder || run_reorder(cache, output, true));
    return dnnl_stream_wait(cache->stream) == dnnl_success && ok;
}

static conv_entry *entry_of(const cpu_conv2d_call *call, int threads, conv_cache **out_cache,
                            cpu_blas_status *out_status)
{
    conv_key key;
    *out_status = CPU_BLAS_UNSUPPORTED;
    if (!make_key(call, threads, &key))
        return NULL;
    *out_status = CPU_BLAS_FAILED;
    *out_cache = conv_cache_here();
    conv_entry *e = *out_cache ? conv_cache_get(*out_cache, &key) : NULL;
    if (e && !e->kernel) {
        *out_status = CPU_BLAS_UNSUPPORTED;
        return NULL;
    }
    return e;
}

cpu_blas_status conv_run(const cpu_conv2d_call *call, int threads)
{
    conv_cache *cache;
    cpu_blas_status status;
    int saved = bridge_threads_begin(threads);
    conv_entry *e = entry_of(call, threads, &cache, &status);
    if (e)
        status = run(cache, e, call) ? CPU_BLAS_OK : CPU_BLAS_FAILED;
    bridge_threads_end(saved);
    return status;
}

const char *bridge_conv2d_kernel(const cpu_conv2d_call *call)
{
    cpu_conv2d_call first = *call;
    conv_split split = conv_split_of(call);
    conv_cache *cache;
    cpu_blas_status status;
    first.shape.batch = conv_first_image(call, &split, 1);
    int saved = bridge_threads_begin(split.inner_threads);
    conv_entry *e = entry_of(&first, split.inner_threads, &cache, &status);
    bridge_threads_end(saved);
    return e ? e->kernel : NULL;
}

#else
typedef int conv_without_onednn;
#endif
