/* See elementwise_job.h. */
#include "backend_cpu/elementwise_job.h"

#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"

enum {
    SHORT_ROW = 4,         /* rows of at least this many elements are passed on as they lie; */
    SHORT_BLOCK_ROW = 256, /* to loops that want whole vectors, and of half types */
    PLAIN_FLOPS = 4,       /* loops of more want whole vectors */
    STREAM_BLOCK =
        256 /* short turns of reading and writing keep prefetchers in step: 512 costs a tenth */
};

typedef struct block {
    _Alignas(64) char bytes[CPU_BLOCK * 8];
} block;

/* Operand i for one block: where it lies, or in `buffer`, widened or repeated. */
static const void *block_input(const cpu_job *j, int i, const char *in, int64_t n, int scalars,
                               block *buffer)
{
    const bool scalar = (scalars >> i & 1) != 0;
    const bool repeat = scalar && (j->expand >> i & 1);
    if (!j->widen[i] && !repeat)
        return in;
    if (j->widen[i])
        j->widen[i](buffer->bytes, in, scalar ? 1 : n);
    if (repeat)
        cpu_set(buffer->bytes, j->widen[i] ? buffer->bytes : in, j->loop_size[i + 1], n);
    return buffer->bytes;
}

/* Up to CPU_BLOCK elements that lie without gaps (inputs in `scalars`: one element). */
static void run_block(const cpu_job *j, char *out, char *const *in, int64_t n, int scalars)
{
    block buffers[4];
    const void *operands[3] = { 0 };
    for (int i = 0; i < j->inputs; i++)
        operands[i] = block_input(j, i, in[i], n, scalars, &buffers[i]);
    void *result = j->narrow || j->stream ? buffers[3].bytes : out;
    j->loop(result, operands[0], operands[1], operands[2], n, scalars & ~j->expand, j->numbers);
    if (j->narrow && j->stream) {
        j->narrow(buffers[0].bytes, result, n);
        result = buffers[0].bytes;
    } else if (j->narrow) {
        j->narrow(out, result, n);
        return;
    }
    if (j->stream)
        CPU_ISA_PICK(cpu_stream_copy)(out, result, n * j->size[0]);
}

/* The loop takes operands as they lie, of any number of elements. */
static inline bool passes_on(const cpu_job *j, int scalars)
{
    return !j->half && !j->stream && (scalars & j->expand) == 0;
}

/* Any number of elements that lie without gaps. */
static void run_row(const cpu_job *j, char *out, char *const *in, int64_t n, int scalars)
{
    if (passes_on(j, scalars)) {
        j->loop(out, in[0], in[1], in[2], n, scalars, j->numbers);
        return;
    }
    if (j->stream && j->stream_loop && (scalars & j->expand) == 0) {
        j->stream_loop(out, in[0], in[1], in[2], n, scalars, j->numbers);
        return;
    }
    char *at[3] = { in[0], in[1], in[2] };
    const int64_t step = j->stream ? STREAM_BLOCK : CPU_BLOCK;
    for (int64_t i = 0; i < n; i += step) {
        const int64_t count = n - i < step ? n - i : step;
        run_block(j, out + i * j->size[0], at, count, scalars);
        for (int k = 0; k < j->inputs; k++)
            at[k] += (scalars >> k & 1) ? 0 : count * j->size[k + 1];
    }
}

static void run_linear(void *context, int64_t begin, int64_t end)
{
    const cpu_job *j = context;
    char *in[3] = { 0 };
    for (int k = 0; k < j->inputs; k++) {
        const int64_t skip = (j->scalars >> k & 1) ? 0 : begin * j->size[k + 1];
        in[k] = j->walk.data[k + 1] + skip;
    }
    run_row(j, j->walk.data[0] + begin * j->size[0], in, end - begin, j->scalars);
    if (j->stream)
        cpu_stream_end();
}

/* Rows (dim 0) without gaps; begin and end count elements. */
static void run_rows(void *context, int64_t begin, int64_t end)
{
    const cpu_job *j = context;
    const bool direct = passes_on(j, j->scalars);
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    while (begin < end) {
        const int64_t left = j->walk.shape[0] - cursor.at[0];
        const int64_t n = left < end - begin ? left : end - begin;
        if (direct)
            j->loop(cursor.data[0], cursor.data[1], cursor.data[2], cursor.data[3], n, j->scalars,
                    j->numbers);
        else
            run_row(j, cursor.data[0], cursor.data + 1, n, j->scalars);
        cpu_cursor_next_row(&cursor);
        begin += n;
    }
    if (j->stream)
        cpu_stream_end();
}

static void run_gathered(void *context, int64_t begin, int64_t end)
{
    const cpu_job *j = context;
    block buffers[4];
    char *in[3] = { 0 };
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        for (int k = 0; k < j->inputs; k++)
            in[k] = cpu_pack(&cursor, k + 1, j->size[k + 1], n, buffers[k].bytes);
        char *out = cpu_unpack_place(&cursor, 0, j->size[0], n, buffers[3].bytes);
        run_block(j, out, in, n, 0);
        if (out == buffers[3].bytes)
            cpu_unpack(&cursor, 0, j->size[0], n, out);
        cpu_cursor_advance(&cursor, n);
    }
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* All inputs lie as the output or are one element: sets job.scalars. */
static bool is_linear(cpu_job *j, const tern_view *const *views)
{
    const tern_view *out = views[0];
    j->scalars = 0;
    if ((out->flags & (TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE)) == 0)
        return false;
    for (int k = 0; k < j->inputs; k++) {
        if (views[k + 1]->numel != out->numel)
            j->scalars |= 1 << k;
        else if (!cpu_same_layout(out, views[k + 1]))
            return false;
    }
    return true;
}

/* Rows along dim 0 can be passed on as they lie: sets job.scalars. */
static bool has_plain_rows(cpu_job *j, int64_t flops)
{
    const cpu_walk *walk = &j->walk;
    const int64_t least = j->half || flops > PLAIN_FLOPS ? SHORT_BLOCK_ROW : SHORT_ROW;
    j->scalars = 0;
    if (walk->stride[0][0] != j->size[0] || walk->shape[0] < least)
        return false;
    for (int k = 0; k < j->inputs; k++) {
        if (walk->stride[k + 1][0] == 0)
            j->scalars |= 1 << k;
        else if (walk->stride[k + 1][0] != j->size[k + 1])
            return false;
    }
    return true;
}

/* Inputs that meet the output other than exactly, and inputs that lie crosswise to it where that
 * would cost more than a copy, are copied first. `copies` holds room for the new views. */
static tern_status_t replace_inputs(const tern_call *call, int inputs, const tern_view **views,
                                    tern_view *copies)
{
    const tern_view *out = views[0];
    for (int k = 1; k <= inputs; k++) {
        const tern_view *in = views[k];
        const bool exact = in->data == out->data && in->numel == out->numel &&
                           in->dtype == out->dtype && cpu_same_strides(in, out);
        const bool meets = !exact && cpu_spans_overlap(in, out);
        if (!meets && !cpu_lies_crosswise(out, in))
            continue;
        tern_view *copy = &copies[k - 1];
        const tern_status_t status = cpu_scratch_copy(call, in, out, copy);
        if (status != TERN_OK)
            return status;
        views[k] = copy;
    }
    return TERN_OK;
}

/* Bytes that operand k brings in: not what repeats, nor what an operand before it brings. */
static int64_t bytes_read(const tern_view *const *views, int k)
{
    const tern_view *v = views[k];
    int64_t n = v->numel;
    for (int i = 1; i < k; i++)
        if (views[i]->data == v->data && views[i]->numel == n)
            return 0;
    for (int d = 0; d < v->ndim; d++)
        if (v->stride[d] == 0 && v->shape[d] > 1)
            n /= v->shape[d];
    return n * cpu_dtype_size(v->dtype);
}

tern_status_t cpu_job_run(const tern_call *call, cpu_job *j, int64_t flops)
{
    const tern_view *views[4] = { call->out[0], 0, 0, 0 };
    tern_view copies[3];
    const int64_t n = views[0]->numel;
    if (n == 0)
        return TERN_OK;
    int64_t read = 0;
    bool in_place = false;
    for (int k = 0; k < j->inputs; k++)
        views[k + 1] = call->in[k];
    const tern_status_t status = replace_inputs(call, j->inputs, views, copies);
    if (status != TERN_OK)
        return status;
    for (int k = 0; k <= j->inputs; k++) {
        j->size[k] = cpu_dtype_size(views[k]->dtype);
        j->loop_size[k] = j->half && j->size[k] == 2 ? 4 : j->size[k];
        read += k > 0 ? bytes_read(views, k) : 0;
        in_place |= k > 0 && views[k]->data == views[0]->data;
        j->walk.data[k] = views[k]->data;
    }
    const int threads = cpu_threads(call, read + n * j->size[0], flops * n);
    j->stream = !in_place && cpu_writes_past(read, n * j->size[0]);
    if (is_linear(j, views)) {
        cpu_parallel(threads, n, CPU_BLOCK, run_linear, j);
        return TERN_OK;
    }
    cpu_walk_init(&j->walk, j->inputs + 1, views);
    if (has_plain_rows(j, flops)) {
        cpu_parallel(threads, n, CPU_BLOCK, run_rows, j);
        return TERN_OK;
    }
    j->stream = false;
    cpu_parallel(threads, n, CPU_BLOCK, run_gathered, j);
    return TERN_OK;
}
