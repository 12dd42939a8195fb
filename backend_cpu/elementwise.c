/* Elementwise kernels: cpu_<name> for each line of elementwise.def, and cpu_where.
 *
 * Inputs have the output's shape, any strides, or one element. Small contiguous calls go straight
 * to the inner loop. The rest is a job: operands in one layout are cut into linear ranges; other
 * ones are walked, row by row where rows are without gaps, else gathered into blocks on the stack.
 * Half types are widened to f32 block by block. An element's result depends on its operands alone,
 * so neither threads nor layout change bits. */
#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/elementwise.h"
#include "backend_cpu/has_zero.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/probability.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

enum {
    DIRECT = 4096, /* elements up to which one thread and ordinary stores are right in any case */
    FLUSH_FROM = 512, /* elements from which flushing denormals costs nothing against the loop */
    SHORT_ROW = 16,   /* rows of at least this many elements are passed on as they lie */
    STREAM_BLOCK =
        256, /* short turns of reading and writing keep prefetchers in step: 512 costs a tenth */
    CURVE_FLOPS = 20
};

static const cpu_loop no_loops[CPU_ELEMENT_COUNT];
#define LOOPS(isa)                                                                             \
    {                                                                                          \
        no_loops, cpu_loops_bool__##isa, cpu_loops_u8_##isa, cpu_loops_i8_##isa,               \
            cpu_loops_i16_##isa, cpu_loops_i32_##isa, cpu_loops_i64_##isa, no_loops, no_loops, \
            cpu_loops_f32_##isa, cpu_loops_f64_##isa                                           \
    }
#define NO_LOOPS                                                                                  \
    {                                                                                             \
        no_loops, no_loops, no_loops, no_loops, no_loops, no_loops, no_loops, no_loops, no_loops, \
            no_loops, no_loops                                                                    \
    }
/* By instruction set and dtype. Half types have none of their own; neither has 0, which stands for
 * an instruction set that is not chosen yet, so that the direct paths need no test for it. */
static const cpu_loop *const loops[][TERN_DTYPES] = {
    [0] = NO_LOOPS,
    [CPU_ISA_BASE] = LOOPS(base),
#if defined(TERN_HAVE_X86_ISAS)
    [CPU_ISA_AVX2] = LOOPS(avx2),
    [CPU_ISA_AVX512] = LOOPS(avx512),
#endif
};

/* ---- jobs ------------------------------------------------------------------------------------ */

typedef struct job {
    cpu_loop loop;
    cpu_loop stream_loop; /* NULL: by way of a buffer */
    const void *numbers;
    int inputs;
    int expand;              /* bit i: the loop takes no scalar as operand i */
    int64_t size[4];         /* bytes per element in memory: output, inputs */
    int64_t loop_size[4];    /* and as the loop sees it */
    bool half;               /* some input is: blocks go through buffers */
    cpu_convert_fn widen[3]; /* half inputs: to f32 */
    cpu_convert_fn narrow;   /* half output: from f32 */
    bool stream;             /* write past the caches */
    int scalars;             /* linear jobs */
    cpu_walk walk;
} job;

typedef struct block {
    _Alignas(64) char bytes[CPU_BLOCK * 8];
} block;

/* Operand i for one block: where it lies, or in `buffer`, widened or repeated. */
static const void *block_input(const job *j, int i, const char *in, int64_t n, int scalars,
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
static void run_block(const job *j, char *out, char *const *in, int64_t n, int scalars)
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

/* Any number of elements that lie without gaps. */
static void run_row(const job *j, char *out, char *const *in, int64_t n, int scalars)
{
    if (!j->half && !j->stream && (scalars & j->expand) == 0) {
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
    const job *j = context;
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
    const job *j = context;
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    while (begin < end) {
        const int64_t left = j->walk.shape[0] - cursor.at[0];
        const int64_t n = left < end - begin ? left : end - begin;
        run_row(j, cursor.data[0], cursor.data + 1, n, j->scalars);
        cpu_cursor_advance(&cursor, n);
        begin += n;
    }
    if (j->stream)
        cpu_stream_end();
}

static void run_gathered(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
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
static bool is_linear(job *j, const tern_view *const *views)
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
static bool has_plain_rows(job *j)
{
    const cpu_walk *walk = &j->walk;
    j->scalars = 0;
    if (walk->stride[0][0] != j->size[0] || walk->shape[0] < SHORT_ROW)
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

static tern_status_t run_job(const tern_call *call, job *j, const tern_view *const *inputs,
                             int64_t flops)
{
    const tern_view *views[4] = { call->out[0], 0, 0, 0 };
    tern_view copies[3];
    const int64_t n = views[0]->numel;
    if (n == 0)
        return TERN_OK;
    int64_t read = 0;
    bool in_place = false;
    for (int k = 0; k < j->inputs; k++)
        views[k + 1] = inputs[k];
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
    if (has_plain_rows(j)) {
        cpu_parallel(threads, n, CPU_BLOCK, run_rows, j);
        return TERN_OK;
    }
    j->stream = false;
    cpu_parallel(threads, n, CPU_BLOCK, run_gathered, j);
    return TERN_OK;
}

/* ---- the attribute's numbers ------------------------------------------------------------------ */

typedef union element_numbers {
    float f32[2];
    double f64[2];
    int64_t i64[2];
    int32_t i32[2];
    int16_t i16[2];
    int8_t i8[2];
    uint8_t u8[2];
} element_numbers;

/* As the loops of a dtype read them. */
static __attribute__((noinline)) const void *convert_numbers(const tern_attr_numbers *attr,
                                                             int dtype, element_numbers *out)
{
    for (int k = 0; k < 2; k++)
        switch (dtype) {
        case TERN_F64:
            out->f64[k] = attr->f[k];
            break;
        case TERN_I64:
            out->i64[k] = attr->i[k];
            break;
        case TERN_I32:
            out->i32[k] = (int32_t)attr->i[k];
            break;
        case TERN_I16:
            out->i16[k] = (int16_t)attr->i[k];
            break;
        case TERN_I8:
            out->i8[k] = (int8_t)attr->i[k];
            break;
        case TERN_U8:
        case TERN_BOOL:
            out->u8[k] = (uint8_t)attr->i[k];
            break;
        default:
            out->f32[k] = (float)attr->f[k];
        }
    return out;
}

/* The attribute of an elementwise op is tern_attr_numbers, or there is none. */
static const element_numbers no_numbers;
static inline const void *numbers_of(const tern_call *call, element_numbers *room)
{
    return __builtin_expect(call->attr == NULL, 1)
               ? &no_numbers
               : convert_numbers(call->attr, call->in[0]->dtype, room);
}

/* ---- kernels that need a job ------------------------------------------------------------------- */

/* All but what the direct path takes. `expand`: bits of the operands that may not be scalars. */
static __attribute__((noinline)) tern_status_t run_general(const tern_call *call,
                                                           cpu_element element, int inputs,
                                                           int expand, int64_t flops)
{
    const int dtype = call->in[0]->dtype;
    const bool half = dtype == TERN_F16 || dtype == TERN_BF16;
    job j;
    element_numbers room;
    j.numbers = numbers_of(call, &room);
    j.loop = loops[cpu_isa()][half ? TERN_F32 : dtype][element];
    if (!j.loop)
        return call->host->fail(TERN_ERR_UNSUPPORTED, "no kernel for this dtype on the CPU");
    j.stream_loop = dtype == TERN_F32 ? CPU_ISA_PICK(cpu_streams_f32)[element] : NULL;
    j.inputs = inputs;
    j.expand = expand;
    j.half = half;
    for (int k = 0; k < 3; k++) /* the scalar beside a half tensor may be f32 */
        j.widen[k] = half && k < inputs && call->in[k]->dtype == dtype
                         ? cpu_converter(TERN_F32, dtype)
                         : NULL;
    j.narrow = half && call->out[0]->dtype == dtype ? cpu_converter(dtype, TERN_F32) : NULL;
    int outside = 0;
    const cpu_probable p = { j.loop, j.numbers, dtype == TERN_F64 ? 8 : 4, &outside };
    if (element == CPU_ELEMENT_binary_cross_entropy)
        j.loop = cpu_probable_loop, j.numbers = &p;
    const tern_status_t status = run_job(call, &j, call->in, flops);
    return outside ? cpu_fail_improbable(call) : status;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Arrays of n elements of `size` bytes that meet but are not the same. */
static inline bool half_overlap(const void *a, const void *b, int64_t n, int64_t size)
{
    const uintptr_t apart = (uintptr_t)a - (uintptr_t)b, bytes = (uintptr_t)(n * size);
    return apart != 0 && (apart < bytes || -apart < bytes);
}

static __attribute__((noinline)) void run_flushed(cpu_loop loop, void *out, const void *a,
                                                  const void *b, int64_t n, int scalars,
                                                  const void *numbers)
{
    const uint32_t before = cpu_flush_begin();
    loop(out, a, b, NULL, n, scalars, numbers);
    cpu_flush_end(before);
}

/* Out of line is what few calls need, so that the others save no registers. */
static inline tern_status_t run_direct(cpu_loop loop, void *out, const tern_view *a,
                                       const tern_view *b, int64_t n, int scalars,
                                       const void *numbers)
{
    if (n == 0)
        return TERN_OK;
    if (__builtin_expect(n < FLUSH_FROM, 1))
        loop(out, a->data, b->data, NULL, n, scalars, numbers);
    else
        run_flushed(loop, out, a->data, b->data, n, scalars, numbers);
    return TERN_OK;
}

static inline cpu_loop direct_loop(int dtype, cpu_element element)
{
    return loops[__atomic_load_n(&cpu_isa_chosen, __ATOMIC_RELAXED)][dtype][element];
}

static __attribute__((noinline)) tern_status_t unary_range(const tern_call *call, cpu_loop loop,
                                                           cpu_element element, int64_t flops)
{
    const tern_view *out = call->out[0], *a = call->in[0];
    const int64_t n = out->numel;
    element_numbers room;
    if (!loop || (uint64_t)n > DIRECT || a->numel != n ||
        (out->flags & a->flags & TERN_VIEW_CONTIGUOUS) == 0 ||
        half_overlap(out->data, a->data, n, cpu_dtype_size(a->dtype)))
        return run_general(call, element, 1, 1, flops);
    return run_direct(loop, out->data, a, a, n, 0, numbers_of(call, &room));
}

/* One element has no layout: what is left of a kernel then is its loop. */
static inline tern_status_t unary(const tern_call *call, cpu_element element, int64_t flops)
{
    const tern_view *out = call->out[0], *a = call->in[0];
    const cpu_loop loop = direct_loop(a->dtype, element);
    if (!loop || out->numel != 1 || call->attr != NULL)
        return unary_range(call, loop, element, flops);
    loop(out->data, a->data, a->data, NULL, 1, 0, &no_numbers);
    return TERN_OK;
}

static __attribute__((noinline)) tern_status_t binary_range(const tern_call *call, cpu_loop loop,
                                                            cpu_element element, int expand,
                                                            int64_t flops)
{
    const tern_view *out = call->out[0], *a = call->in[0], *b = call->in[1];
    const int64_t n = out->numel;
    element_numbers room;
    const int scalars = (a->numel != n) | (b->numel != n) << 1;
    const int64_t size = cpu_dtype_size(a->dtype);
    if (!loop || (uint64_t)n > DIRECT || (scalars & expand) != 0 ||
        (out->flags & a->flags & b->flags & TERN_VIEW_CONTIGUOUS) == 0 ||
        (!(scalars & 1) && half_overlap(out->data, a->data, n, size)) ||
        (!(scalars & 2) && half_overlap(out->data, b->data, n, size)))
        return run_general(call, element, 2, expand, flops);
    return run_direct(loop, out->data, a, b, n, scalars, numbers_of(call, &room));
}

static inline tern_status_t binary(const tern_call *call, cpu_element element, int expand,
                                   int64_t flops)
{
    const tern_view *out = call->out[0], *a = call->in[0], *b = call->in[1];
    const cpu_loop loop = direct_loop(a->dtype, element);
    if (!loop || out->numel != 1 || call->attr != NULL)
        return binary_range(call, loop, element, expand, flops);
    loop(out->data, a->data, b->data, NULL, 1, 0, &no_numbers);
    return TERN_OK;
}

/* ---- whole divisors -------------------------------------------------------------------------- */

static tern_status_t divide(const tern_call *call, cpu_element element)
{
    const tern_view *b = call->in[1];
    const bool whole = b->dtype <= TERN_I64;
    if (whole && call->out[0]->numel > 0 && cpu_has_zero(call, b))
        return call->host->fail(TERN_ERR_ARGUMENT, "an integer is divided by zero");
    return binary(call, element, 0, CURVE_FLOPS);
}

/* ---- one per line ---------------------------------------------------------------------------- */

#define PLAIN1(call, element) unary(call, element, 1)
#define TEST(call, element) unary(call, element, 1)
#define CURVE1(call, element) unary(call, element, CURVE_FLOPS)
#define LANES1 CURVE1
#define PLAIN2(call, element) binary(call, element, 0, 1)
#define COMPARE(call, element) binary(call, element, 0, 1)
#define CURVE2(call, element)                                                       \
    (element == CPU_ELEMENT_binary_cross_entropy && !cpu_is_near_and_probable(call) \
         ? run_general(call, element, 2, 3, CURVE_FLOPS)                            \
         : binary(call, element, 3, CURVE_FLOPS))
#define CURVE3(call, element) run_general(call, element, 3, 7, CURVE_FLOPS)
#define DIVIDE2(call, element) divide(call, element)
#define ELEMENT(name, shape, ...)                   \
    tern_status_t cpu_##name(const tern_call *call) \
    {                                               \
        return shape(call, CPU_ELEMENT_##name);     \
    }
#include "backend_cpu/elementwise.def"

/* out = in[0] (bool) ? in[1] : in[2]; moves bits, so half types are plain two-byte elements. */
tern_status_t cpu_where(const tern_call *call)
{
    static const uint8_t log2_size[] = { 0, 0, 1, 0, 2, 0, 0, 0, 3 };
    const int64_t size = cpu_dtype_size(call->out[0]->dtype);
    job j = { .inputs = 3, .expand = 1 };
    j.loop = CPU_ISA_PICK(cpu_loops_where)[log2_size[size]];
    return run_job(call, &j, call->in, 2);
}
