/* rand, randn, randint, bernoulli, randperm. docs/design/random.md says which bits make which element; an element
 * depends on (seed, draw, its row-major number) alone. */
#include "backend_cpu/random.h"

#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "core/philox.h"
#include "tern/op_attr.h"

typedef void (*groups_fn)(float *out, uint64_t seed, uint64_t draw, int64_t group, int64_t groups);

/* Any elements of a draw by a loop that makes whole groups. */
static void fill_part(groups_fn make, float *out, uint64_t seed, uint64_t draw, int64_t first,
                      int64_t n)
{
    float group[CPU_RANDOM_GROUP];
    while (n > 0) {
        const int64_t skip = first % CPU_RANDOM_GROUP, at = first / CPU_RANDOM_GROUP;
        int64_t count = n / CPU_RANDOM_GROUP * CPU_RANDOM_GROUP;
        if (skip == 0 && count > 0) {
            make(out, seed, draw, at, count / CPU_RANDOM_GROUP);
        } else {
            count = CPU_RANDOM_GROUP - skip < n ? CPU_RANDOM_GROUP - skip : n;
            make(group, seed, draw, at, 1);
            memcpy(out, group + skip, (size_t)count * sizeof *out);
        }
        out += count;
        first += count;
        n -= count;
    }
}

void cpu_uniform_f32(float *out, uint64_t seed, uint64_t draw, int64_t first, int64_t n)
{
    fill_part(CPU_ISA_PICK(cpu_random_uniforms), out, seed, draw, first, n);
}

void cpu_normal_f32(float *out, uint64_t seed, uint64_t draw, int64_t first, int64_t n)
{
    fill_part(CPU_ISA_PICK(cpu_random_normals), out, seed, draw, first, n);
}

/* ---- by dtype: elements first .. first + n - 1 at `out` -------------------------------------- */

typedef struct job {
    void (*fill)(struct job *j, void *out, int64_t first, int64_t n);
    void *out;
    int64_t size;
    uint64_t seed, draw;
    int dtype;
    int64_t low; /* randint */
    uint64_t range;
    const char *chances; /* bernoulli: of out's dtype */
    int64_t bad;         /* atomic: 1 where one is no probability */
} job;

static void uniforms_f32(job *j, void *out, int64_t first, int64_t n)
{
    cpu_uniform_f32(out, j->seed, j->draw, first, n);
}

static void normals_f32(job *j, void *out, int64_t first, int64_t n)
{
    cpu_normal_f32(out, j->seed, j->draw, first, n);
}

/* As many bits as a half type has below 1; rounding an f32 could give 1. */
static void uniforms_half(job *j, void *out, int64_t first, int64_t n)
{
    const float steps = j->dtype == TERN_F16 ? 0x1p11f : 0x1p8f;
    float block[CPU_BLOCK];
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
        cpu_uniform_f32(block, j->seed, j->draw, first + i, count);
        for (int64_t k = 0; k < count; k++)
            block[k] = floorf(block[k] * steps) / steps;
        cpu_from_f32((uint16_t *)out + i, j->dtype, block, count);
    }
}

static void normals_half(job *j, void *out, int64_t first, int64_t n)
{
    float block[CPU_BLOCK];
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
        cpu_normal_f32(block, j->seed, j->draw, first + i, count);
        cpu_from_f32((uint16_t *)out + i, j->dtype, block, count);
    }
}

static uint64_t bits64(const uint32_t *lanes)
{
    return (uint64_t)lanes[1] << 32 | lanes[0];
}

static void uniforms_f64(job *j, void *out, int64_t first, int64_t n)
{
    double *to = out;
    for (int64_t i = 0; i < n; i++) {
        uint32_t lanes[4];
        core_philox(j->seed, j->draw, (uint64_t)(first + i) / 2, lanes);
        to[i] = (double)(bits64(lanes + 2 * ((first + i) % 2)) >> 11) * 0x1p-53;
    }
}

static void normals_f64(job *j, void *out, int64_t first, int64_t n)
{
    double *to = out;
    for (int64_t i = 0; i < n; i++) {
        uint32_t lanes[4];
        core_philox(j->seed, j->draw, (uint64_t)(first + i) / 2, lanes);
        const double u = (double)((bits64(lanes) >> 11) + 1) * 0x1p-53;
        const double w = (double)(bits64(lanes + 2) >> 11) * (0x1p-53 * 6.28318530717958647692);
        to[i] = sqrt(-2.0 * log(u)) * ((first + i) % 2 ? sin(w) : cos(w));
    }
}

__extension__ typedef unsigned __int128 uint128;

/* `first` is a multiple of CPU_BLOCK. */
static void integers(job *j, void *out, int64_t first, int64_t n)
{
    uint32_t bits[2 * CPU_BLOCK];
    int64_t numbers[CPU_BLOCK];
    const cpu_convert_fn convert = cpu_converter(j->dtype, TERN_I64);
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
        CPU_ISA_PICK(cpu_random_bits)
        (bits, j->seed, j->draw, 2 * (first + i) / CPU_RANDOM_GROUP,
         2 * CPU_BLOCK / CPU_RANDOM_GROUP);
        for (int64_t k = 0; k < count; k++)
            numbers[k] = (int64_t)((uint64_t)j->low +
                                   (uint64_t)((uint128)bits64(bits + 2 * k) * j->range >> 64));
        convert((char *)out + i * j->size, numbers, count);
    }
}

/* `out` is the chances' own place in the result: same dtype, row-major. */
static void chances_f64(job *j, double *out, int64_t first, int64_t n)
{
    const double *p = (const double *)(const void *)j->chances + first;
    uniforms_f64(j, out, first, n);
    for (int64_t i = 0; i < n; i++) {
        if (!(p[i] >= 0 && p[i] <= 1))
            __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
        out[i] = out[i] < p[i];
    }
}

static void chances(job *j, void *out, int64_t first, int64_t n)
{
    float uniform[CPU_BLOCK], p[CPU_BLOCK];
    if (j->dtype == TERN_F64) {
        chances_f64(j, out, first, n);
        return;
    }
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
        cpu_uniform_f32(uniform, j->seed, j->draw, first + i, count);
        cpu_to_f32(p, j->chances + (first + i) * j->size, j->dtype, count);
        bool bad = false;
        for (int64_t k = 0; k < count; k++) {
            bad |= !(p[k] >= 0 && p[k] <= 1);
            uniform[k] = uniform[k] < p[k];
        }
        if (bad)
            __atomic_store_n(&j->bad, 1, __ATOMIC_RELAXED);
        cpu_from_f32((char *)out + i * j->size, j->dtype, uniform, count);
    }
}

static void fill_range(void *context, int64_t begin, int64_t end)
{
    job *j = context;
    j->fill(j, (char *)j->out + begin * j->size, begin, end - begin);
}

/* Row-major into `out`: directly, or by way of scratch memory. */
static tern_status_t run_job(const tern_call *call, const tern_attr_random *draw, job *j)
{
    enum { FLOPS = 40 };
    const tern_view *out = call->out[0];
    j->seed = draw->seed;
    j->draw = draw->call;
    j->dtype = out->dtype;
    j->size = cpu_dtype_size(out->dtype);
    j->out = out->data;
    if (out->numel == 0)
        return TERN_OK;
    if (!cpu_is_contiguous(out)) {
        j->out = call->host->scratch(call, out->numel * j->size);
        if (!j->out)
            return TERN_ERR_OOM;
    }
    const int threads = cpu_threads(call, out->numel * j->size, out->numel * FLOPS);
    cpu_parallel(threads, out->numel, CPU_BLOCK * 8, fill_range, j);
    if (j->out != out->data)
        cpu_copy_row_major(out, j->out, out->dtype, call);
    return TERN_OK;
}

tern_status_t cpu_rand(const tern_call *call)
{
    const int dtype = call->out[0]->dtype;
    job j = { .fill = dtype == TERN_F32   ? uniforms_f32
                      : dtype == TERN_F64 ? uniforms_f64
                                          : uniforms_half };
    return run_job(call, call->attr, &j);
}

tern_status_t cpu_randn(const tern_call *call)
{
    const int dtype = call->out[0]->dtype;
    job j = { .fill = dtype == TERN_F32   ? normals_f32
                      : dtype == TERN_F64 ? normals_f64
                                          : normals_half };
    return run_job(call, call->attr, &j);
}

tern_status_t cpu_randint(const tern_call *call)
{
    const tern_attr_randint *attr = call->attr;
    job j = { .fill = integers, .low = attr->low, .range = attr->range };
    return run_job(call, &attr->draw, &j);
}

static tern_status_t bad_chance(const tern_call *call)
{
    const tern_view *p = call->in[0];
    const int64_t size = cpu_dtype_size(p->dtype);
    int64_t i = 0;
    double value = 0;
    for (; i < p->numel; i++) {
        value = cpu_load_f64((const char *)p->data + i * size, p->dtype);
        if (!(value >= 0 && value <= 1))
            break;
    }
    return call->host->fail(TERN_ERR_ARGUMENT, "%g at position %lld is no probability in [0, 1]",
                            value, (long long)i);
}

tern_status_t cpu_bernoulli(const tern_call *call)
{
    job j = { .fill = chances, .chances = call->in[0]->data };
    const tern_status_t status = run_job(call, call->attr, &j);
    return status == TERN_OK && j.bad != 0 ? bad_chance(call) : status;
}

/* ---- randperm -------------------------------------------------------------------------------- */

/* Fisher-Yates from the end. */
static void shuffle(int64_t *order, int64_t n, const tern_attr_random *attr)
{
    uint32_t bits[CPU_RANDOM_GROUP];
    int64_t group = -1;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t wanted = i * 2 / CPU_RANDOM_GROUP;
        if (wanted != group) {
            group = wanted;
            CPU_ISA_PICK(cpu_random_bits)(bits, attr->seed, attr->call, group, 1);
        }
        const uint64_t draw = bits64(bits + i * 2 % CPU_RANDOM_GROUP);
        const int64_t other = (int64_t)((uint128)draw * (uint64_t)(i + 1) >> 64);
        const int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

tern_status_t cpu_randperm(const tern_call *call)
{
    const tern_view *out = call->out[0];
    const int64_t n = out->numel;
    const bool direct = out->dtype == TERN_I64 && cpu_is_contiguous(out);
    if (n == 0)
        return TERN_OK;
    int64_t *order = direct ? out->data : call->host->scratch(call, n * (int64_t)sizeof *order);
    if (!order)
        return TERN_ERR_OOM;
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    shuffle(order, n, call->attr);
    if (!direct)
        cpu_copy_row_major(out, order, TERN_I64, call);
    return TERN_OK;
}
