#include "tests/support/kernel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "backend_cpu/tuning.h"
#include "tests/support/check.h"

/* ---- arrays ---------------------------------------------------------------------------------- */

static karray make(tern_dtype_t dtype, int ndim, const int64_t *dims)
{
    karray a = { .view = { .numel = 1,
                           .dtype = (uint8_t)dtype,
                           .ndim = (uint8_t)ndim,
                           .flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE,
                           .dev = TERN_CPU } };
    for (int d = ndim - 1; d >= 0; d--) {
        a.view.shape[d] = dims[d];
        a.view.stride[d] = a.view.numel;
        a.view.numel *= dims[d];
    }
    a.view.data = calloc((size_t)a.view.numel + 1, (size_t)cpu_dtype_size((int)dtype));
    a.values = calloc((size_t)a.view.numel + 1, sizeof *a.values);
    assert_non_null(a.view.data);
    assert_non_null(a.values);
    return a;
}

void karray_set(karray *a, int64_t i, double value)
{
    char *place = (char *)a->view.data + i * cpu_dtype_size(a->view.dtype);
    cpu_store_f64(place, a->view.dtype, value);
    a->values[i] = cpu_load_f64(place, a->view.dtype);
}

karray karray_random(tern_dtype_t dtype, int ndim, const int64_t *dims, double low, double high,
                     uint64_t seed)
{
    karray a = make(dtype, ndim, dims);
    uint64_t state = seed * 2862933555777941757u + 3037000493u;
    for (int64_t i = 0; i < a.view.numel; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double u = (double)(state >> 11) * 0x1p-53;
        karray_set(&a, i, low + (high - low) * u);
    }
    return a;
}

karray karray_filled(tern_dtype_t dtype, int ndim, const int64_t *dims, double value)
{
    karray a = make(dtype, ndim, dims);
    for (int64_t i = 0; i < a.view.numel; i++)
        karray_set(&a, i, value);
    return a;
}

void karray_free(karray *a)
{
    free(a->view.data);
    free(a->values);
    a->view.data = NULL;
    a->values = NULL;
}

double karray_at(const karray *a, int64_t i)
{
    return cpu_load_f64((char *)a->view.data + i * cpu_dtype_size(a->view.dtype), a->view.dtype);
}

int64_t karray_place(const tern_view *view, int64_t i)
{
    if (view->flags & TERN_VIEW_CONTIGUOUS)
        return i;
    int64_t place = 0;
    for (int d = view->ndim - 1; d >= 0; d--) {
        place += i % view->shape[d] * view->stride[d];
        i /= view->shape[d];
    }
    return place;
}

double karray_at_place(const karray *a, int64_t i)
{
    return karray_at(a, karray_place(&a->view, i));
}

double *karray_in_order(const karray *a)
{
    double *values = malloc((size_t)a->view.numel * sizeof *values + 1);
    assert_non_null(values);
    for (int64_t i = 0; i < a->view.numel; i++)
        values[i] = karray_at_place(a, i);
    return values;
}

void karray_to_channels_last(karray *a)
{
    const int64_t *s = a->view.shape;
    const int64_t strides[4] = { s[1] * s[2] * s[3], 1, s[1] * s[3], s[1] };
    memcpy(a->view.stride, strides, sizeof strides);
    a->view.flags = TERN_VIEW_DENSE;
    for (int64_t i = 0; i < a->view.numel; i++)
        cpu_store_f64((char *)a->view.data +
                          karray_place(&a->view, i) * cpu_dtype_size(a->view.dtype),
                      a->view.dtype, a->values[i]);
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum { SCRATCH_MOST = 16 };
static void *scratch_blocks[SCRATCH_MOST];
static int scratch_count;
static int64_t scratch_bytes;
static char message[512];

static tern_status_t host_fail(tern_status_t code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return code;
}

static void *host_scratch(const tern_call *call, int64_t bytes)
{
    (void)call;
    assert_true(scratch_count < SCRATCH_MOST);
    void *block = malloc((size_t)bytes);
    memset(block, 0xFF, (size_t)bytes); /* NaN: nothing may count on zeros */
    scratch_blocks[scratch_count++] = block;
    scratch_bytes += bytes;
    return block;
}

static uint32_t numerics;

static uint32_t host_numerics(void)
{
    return numerics;
}

uint32_t kernel_set_numerics(uint32_t bits)
{
    const uint32_t before = numerics;
    numerics = bits;
    return before;
}

static int events;
static void host_event(int level, const char *format, ...)
{
    (void)level;
    (void)format;
    events++;
}

int kernel_events(void)
{
    return events;
}

static const tern_host host = { .size = sizeof(tern_host),
                                .version = TERN_PLUGIN_VERSION,
                                .fail = host_fail,
                                .event = host_event,
                                .scratch = host_scratch,
                                .numerics = host_numerics };

tern_status_t kernel_call(const kernel_run *run)
{
    const tern_view *in[KERNEL_MOST], *out[KERNEL_MOST];
    for (int i = 0; i < run->n_in; i++)
        in[i] = run->in[i] != NULL ? &run->in[i]->view : NULL;
    for (int i = 0; i < run->n_out; i++)
        out[i] = &run->out[i]->view;
    const tern_call call = { .size = sizeof call,
                             .n_in = (uint16_t)run->n_in,
                             .n_out = (uint16_t)run->n_out,
                             .in = in,
                             .out = out,
                             .attr = run->attr,
                             .host = &host,
                             .dev = TERN_CPU,
                             .threads = run->threads > 0 ? run->threads : 1 };
    message[0] = '\0';
    scratch_bytes = 0;
    const tern_status_t status = run->kernel(&call);
    while (scratch_count > 0)
        free(scratch_blocks[--scratch_count]);
    return status;
}

const char *kernel_message(void)
{
    return message;
}

int64_t kernel_scratch_bytes(void)
{
    return scratch_bytes;
}

void kernel_each_tuning(void (*body)(void *context), void *context)
{
    const int own = cpu_tuning();
    for (int tuning = CPU_ZEN5; tuning <= CPU_TUNINGS; tuning++) {
        cpu_tuning_chosen = tuning;
        body(context);
    }
    cpu_tuning_chosen = own;
}

void kernel_each_isa(void (*body)(void *context), void *context)
{
    const int best = cpu_isa_choose();
    /* an emulator's time is dear (tools/run/avx512.sh) */
    const bool best_alone = getenv("TERN_TEST_BEST_ISA") != NULL;
    for (int isa = best_alone ? best : CPU_ISA_BASE; isa <= best; isa++) {
        cpu_isa_chosen = isa;
        body(context);
    }
    cpu_isa_chosen = best;
}

/* ---- checks ---------------------------------------------------------------------------------- */

void kernel_expect(const char *what, int64_t i, double got, double want, double tolerance)
{
    if (isnan(want) ? isnan(got) : got == want)
        return;
    const double scale = fabs(want) > 1 ? fabs(want) : 1;
    if (!(fabs(got - want) <= tolerance * scale))
        fail_msg("%s, element %lld (%s): %.9g is not within %g of %.9g", what, (long long)i,
                 cpu_isa_name(cpu_isa()), got, tolerance * scale, want);
}

double kernel_tolerance(tern_dtype_t dtype, double f32_tolerance)
{
    const double rounding = dtype == TERN_F16 ? 0x1p-10 : dtype == TERN_BF16 ? 0x1p-7 : 0;
    return dtype == TERN_F64 ? 1e-12 : rounding > f32_tolerance ? rounding : f32_tolerance;
}

double kernel_product_limit(tern_dtype_t dtype)
{
    return dtype == TERN_F64            ? 1e-12
           : tern_dtype_is_float(dtype) ? kernel_tolerance(dtype, 2e-6)
                                        : 0;
}

karray kernel_operand(tern_dtype_t dtype, int ndim, const int64_t *dims, uint64_t seed)
{
    const double reach = tern_dtype_is_float(dtype) ? 1 : 3;
    return karray_random(dtype, ndim, dims, dtype == TERN_U8 ? 0 : -reach, reach, seed);
}
