/* Elementwise kernels: cpu_<name> for each line of elementwise.def, and cpu_where.
 *
 * Inputs have the output's shape, any strides, or one element. Small contiguous calls go straight
 * to the inner loop; the rest is a job (elementwise_job.h). */
#include "backend_cpu/elementwise_job.h"
#include "backend_cpu/has_zero.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/probability.h"
#include "tern/op_attr.h"

enum {
    DIRECT = 4096, /* elements up to which one thread and ordinary stores are right in any case */
    FLUSH_FROM = 512, /* elements from which flushing denormals costs nothing against the loop */
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

/* What a job takes from the call; `room` has to outlive it. `expand`: bits of the operands that may not
 * be scalars. */
static tern_status_t set_up(const tern_call *call, cpu_element element, int inputs, int expand,
                            element_numbers *room, cpu_job *j)
{
    const int dtype = call->in[0]->dtype;
    const bool half = dtype == TERN_F16 || dtype == TERN_BF16;
    j->numbers = numbers_of(call, room);
    j->loop = loops[cpu_isa()][half ? TERN_F32 : dtype][element];
    if (!j->loop)
        return call->host->fail(TERN_ERR_UNSUPPORTED, "no kernel for this dtype on the CPU");
    j->stream_loop = dtype == TERN_F32 ? CPU_ISA_PICK(cpu_streams_f32)[element] : NULL;
    j->inputs = inputs;
    j->expand = expand;
    j->half = half;
    for (int k = 0; k < 3; k++) /* the scalar beside a half tensor may be f32 */
        j->widen[k] = half && k < inputs && call->in[k]->dtype == dtype
                          ? cpu_converter(TERN_F32, dtype)
                          : NULL;
    j->narrow = half && call->out[0]->dtype == dtype ? cpu_converter(dtype, TERN_F32) : NULL;
    return TERN_OK;
}

/* All but what the direct path takes. */
static __attribute__((noinline)) tern_status_t run_general(const tern_call *call,
                                                           cpu_element element, int inputs,
                                                           int expand, int64_t flops)
{
    cpu_job j;
    element_numbers room;
    const tern_status_t status = set_up(call, element, inputs, expand, &room, &j);
    return status == TERN_OK ? cpu_job_run(call, &j, flops) : status;
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

static tern_status_t set_sign(const tern_call *call, cpu_element element);

static __attribute__((noinline)) tern_status_t unary_range(const tern_call *call, cpu_loop loop,
                                                           cpu_element element, int64_t flops)
{
    const tern_view *out = call->out[0], *a = call->in[0];
    const int64_t n = out->numel;
    element_numbers room;
    if (!loop && (a->dtype == TERN_F16 || a->dtype == TERN_BF16) &&
        (element == CPU_ELEMENT_neg || element == CPU_ELEMENT_abs))
        return set_sign(call, element);
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

/* neg and abs of a half type, on its bits. */
static tern_status_t set_sign(const tern_call *call, cpu_element element)
{
    const bool flips = element == CPU_ELEMENT_neg;
    int16_t bits = flips ? INT16_MIN : INT16_MAX;
    const tern_view mask = { .data = &bits,
                             .numel = 1,
                             .dtype = TERN_I16,
                             .flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE };
    tern_view a = *call->in[0], out = *call->out[0];
    a.dtype = out.dtype = TERN_I16;
    const tern_view *const in[2] = { &a, &mask }, *const to[1] = { &out };
    tern_call whole = *call;
    whole.in = in;
    whole.n_in = 2;
    whole.out = to;
    return binary(&whole, flips ? CPU_ELEMENT_bitwise_xor : CPU_ELEMENT_bitwise_and, 0, 1);
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

/* ---- probabilities --------------------------------------------------------------------------- */

/* All but few elements without gaps: blocks are looked at as the loop comes to them. */
static __attribute__((noinline)) tern_status_t watch_chances(const tern_call *call,
                                                             cpu_element element)
{
    cpu_job j;
    element_numbers room;
    int outside = 0;
    tern_status_t status = set_up(call, element, 2, 3, &room, &j);
    if (status != TERN_OK)
        return status;
    const cpu_probable p = { j.loop, j.numbers, call->in[0]->dtype == TERN_F64 ? 8 : 4, &outside };
    j.loop = cpu_probable_loop;
    j.numbers = &p;
    status = cpu_job_run(call, &j, CURVE_FLOPS);
    return outside ? cpu_fail_improbable(call) : status;
}

static inline tern_status_t chances(const tern_call *call, cpu_element element)
{
    return cpu_is_near_and_probable(call) ? binary(call, element, 3, CURVE_FLOPS)
                                          : watch_chances(call, element);
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* With one exponent for all: 1, 2, 3 and -1 take no more than products or a quotient, with the same special cases. */
static tern_status_t power(const tern_call *call, cpu_element element)
{
    const tern_view *a = call->in[0], *b = call->in[1], *out = call->out[0];
    if (b->numel != 1 || a->numel != out->numel || a->dtype != out->dtype)
        return binary(call, element, 3, CURVE_FLOPS);
    const double n = cpu_load_f64(b->data, b->dtype);
    const tern_view *twice[2] = { a, a };
    tern_call simple = *call;
    simple.in = twice;
    simple.n_in = 1;
    if (n == 1)
        return cpu_copy(&simple);
    if (n == 2)
        return unary(&simple, CPU_ELEMENT_square, 1);
    if (n == -1 && tern_dtype_is_float((tern_dtype_t)a->dtype))
        return unary(&simple, CPU_ELEMENT_reciprocal, 1);
    /* a half type would be rounded in between */
    if (n != 3 || (a->dtype != TERN_F32 && a->dtype != TERN_F64) || cpu_spans_overlap(a, out))
        return binary(call, element, 3, CURVE_FLOPS);
    simple.n_in = 2;
    const tern_status_t status = binary(&simple, CPU_ELEMENT_mul, 0, 1);
    if (status != TERN_OK)
        return status;
    twice[0] = out;
    return binary(&simple, CPU_ELEMENT_mul, 0, 1);
}

/* ---- one per line ---------------------------------------------------------------------------- */

#define PLAIN1(call, element) unary(call, element, 1)
#define TEST(call, element) unary(call, element, 1)
#define CURVE1(call, element) unary(call, element, CURVE_FLOPS)
#define LANES1 CURVE1
#define PLAIN2(call, element) binary(call, element, 0, 1)
#define COMPARE(call, element) binary(call, element, 0, 1)
#define CURVE2(call, element) binary(call, element, 3, CURVE_FLOPS)
#define CURVE3(call, element) run_general(call, element, 3, 7, CURVE_FLOPS)
#define DIVIDE2(call, element) divide(call, element)
#define CHANCE2(call, element) chances(call, element)
#define POWER2(call, element) power(call, element)
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
    cpu_job j = { .inputs = 3, .expand = 1 };
    j.loop = CPU_ISA_PICK(cpu_loops_where)[log2_size[size]];
    return cpu_job_run(call, &j, 2);
}
