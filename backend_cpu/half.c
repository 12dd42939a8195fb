/* Which products of half types are computed by instructions of their own. */
#include "backend_cpu/half.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tern/system.h"

#if defined(TERN_HAVE_X86_ISAS)
#include <cpuid.h>
#endif

typedef enum cpu_kind { CPU_OTHER, CPU_AMD_ZEN5, CPU_INTEL_EMERALD_RAPIDS } cpu_kind;
typedef enum shape_class { SHAPE_SMALL, SHAPE_FEW_ROWS, SHAPE_NARROW, SHAPE_WIDE } shape_class;
typedef enum half_way { WAY_F32, WAY_BF16 } half_way;
enum { SHAPE_CLASSES = 4 };

typedef struct half_route {
    cpu_kind cpu;
    int dtype;
    shape_class class;
    half_way way;
    double speed;
    const char *source;
} half_route;

#define SOURCE_MEASURED "measured"
#define SOURCE_REFERENCE "by its peak rate, not measured"
static const half_route routes[] = {
#define HALF_ROUTE(cpu, dtype, class, way, speed, source) \
    { CPU_##cpu, TERN_##dtype, SHAPE_##class, WAY_##way, speed, SOURCE_##source },
#include "backend_cpu/half_routes.def"
#undef HALF_ROUTE
};

static const struct {
    const char *name, *said;
} kinds[] = { { "OTHER", "this CPU" },
              { "AMD_ZEN5", "AMD Zen 5" },
              { "INTEL_EMERALD_RAPIDS", "Intel Emerald Rapids" } };

/* ---- what the CPU is ------------------------------------------------------------------------- */

static cpu_kind kind_of(uint32_t family, uint32_t model, bool amd)
{
    if (amd)
        return family == 0x1A ? CPU_AMD_ZEN5 : CPU_OTHER;
    return family == 6 && model == 0xCF ? CPU_INTEL_EMERALD_RAPIDS : CPU_OTHER;
}

const char *cpu_half_kind(uint32_t family, uint32_t model, bool amd)
{
    return kinds[kind_of(family, model, amd)].name;
}

#if defined(TERN_HAVE_X86_ISAS)
static cpu_kind this_cpu(void)
{
    uint32_t a, b, c, d;
    if (__get_cpuid(0, &a, &b, &c, &d) == 0)
        return CPU_OTHER;
    const bool amd = b == signature_AMD_ebx, intel = b == signature_INTEL_ebx;
    if ((!amd && !intel) || __get_cpuid(1, &a, &b, &c, &d) == 0)
        return CPU_OTHER;
    const uint32_t base = (a >> 8) & 15;
    return kind_of(base == 15 ? base + ((a >> 20) & 255) : base,
                   ((a >> 4) & 15) | ((a >> 12) & 0xF0), amd);
}

static bool has_bf16(void)
{
    __builtin_cpu_init();
    return cpu_isa() == CPU_ISA_AVX512 && __builtin_cpu_supports("avx512bf16");
}
#else
static cpu_kind this_cpu(void)
{
    return CPU_OTHER;
}
static bool has_bf16(void)
{
    return false;
}
#endif

/* ---- the choice ------------------------------------------------------------------------------ */

enum { KNOWN = 1 << 8 };
/* Bit c: bf16 products of shape class c are native; KNOWN once it is decided. */
static atomic_int decided;

static int decide(void)
{
    const char *wanted = getenv("TERN_CPU_HALF");
    const cpu_kind cpu = this_cpu();
    int bits = KNOWN;
    for (size_t i = 0; has_bf16() && i < sizeof routes / sizeof *routes; i++)
        if (routes[i].cpu == cpu && routes[i].way == WAY_BF16)
            bits |= 1 << routes[i].class;
    if (wanted != NULL && strcmp(wanted, "f32") == 0)
        bits = KNOWN;
    else if (wanted != NULL && strcmp(wanted, "native") == 0 && has_bf16())
        bits = KNOWN | ((1 << SHAPE_CLASSES) - 1);
    /* threads that come here at the same time find the same */
    atomic_store_explicit(&decided, bits, memory_order_relaxed);
    return bits;
}

static int choice(void)
{
    const int bits = atomic_load_explicit(&decided, memory_order_relaxed);
    return bits != 0 ? bits : decide();
}

static shape_class class_of(int64_t m, int64_t n, int64_t k)
{
    if (m * n * k <= 32768)
        return SHAPE_SMALL;
    return m < 8 ? SHAPE_FEW_ROWS : n <= 16 ? SHAPE_NARROW : SHAPE_WIDE;
}

bool cpu_half_native(int dtype, int64_t m, int64_t n, int64_t k)
{
    return dtype == TERN_BF16 && (choice() & 1 << class_of(m, n, k)) != 0 &&
           cpu_isa() == CPU_ISA_AVX512;
}

/* ---- what was done --------------------------------------------------------------------------- */

static _Thread_local int64_t native_products, widened_products;

void cpu_half_count(bool native, int64_t products)
{
    if (native)
        native_products += products;
    else
        widened_products += products;
}

/* The row of wide products, NULL for a CPU without rows. */
static const half_route *wide_route(cpu_kind cpu)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (routes[i].cpu == cpu && routes[i].class == SHAPE_WIDE)
            return &routes[i];
    return NULL;
}

static void describe(char *text, size_t bytes)
{
    const char *wanted = getenv("TERN_CPU_HALF");
    const half_route *row = wide_route(this_cpu());
    if (wanted != NULL && (strcmp(wanted, "f32") == 0 || strcmp(wanted, "native") == 0))
        (void)snprintf(text, bytes, "TERN_CPU_HALF=%s", wanted);
    else if (!has_bf16())
        (void)snprintf(text, bytes, "the CPU has no AVX512-BF16");
    else if (row == NULL)
        (void)snprintf(text, bytes, "nobody has measured this CPU's AVX512-BF16");
    else
        (void)snprintf(text, bytes, "%s: AVX512-BF16 at %.2f times the speed of f32, %s",
                       kinds[row->cpu].said, row->speed, row->source);
}

void tern_cpu_half(tern_cpu_half_t *out_half)
{
    memset(out_half, 0, sizeof *out_half);
    out_half->native = native_products;
    out_half->widened = widened_products;
    describe(out_half->reason, sizeof out_half->reason);
}
