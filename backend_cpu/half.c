/* Which products and convolutions of half types are computed by instructions of their own. */
#include "backend_cpu/half.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cpu/cpu.h"
#include "tern/system.h"

#if defined(TERN_HAVE_X86_ISAS)
#include <cpuid.h>
#endif

typedef struct half_kind {
    cpu_half_cpu cpu; /* model -1: any */
    const char *name, *said;
} half_kind;

enum kind_number {
#define HALF_CPU(name, vendor, family, model, features, said) KIND_##name,
#define HALF_ROUTE(cpu, dtype, class, way, speed, source)
#include "backend_cpu/half_routes.def"
#undef HALF_CPU
#undef HALF_ROUTE
};

static const half_kind kinds[] = {
#define HALF_CPU(name, vendor, family, model, features, said) \
    { { CPU_VENDOR_##vendor, family, model, features }, #name, said },
#define HALF_ROUTE(cpu, dtype, class, way, speed, source)
#include "backend_cpu/half_routes.def"
#undef HALF_CPU
#undef HALF_ROUTE
};

typedef struct half_route {
    int kind;
    int dtype;
    cpu_half_class class;
    cpu_half_way way;
    double speed;
    const char *source;
} half_route;

#define SOURCE_MEASURED "measured"
#define SOURCE_REFERENCE "by its peak rate, not measured"
static const half_route routes[] = {
#define HALF_CPU(name, vendor, family, model, features, said)
#define HALF_ROUTE(cpu, dtype, class, way, speed, source) \
    { KIND_##cpu, TERN_##dtype, CPU_HALF_##class, CPU_HALF_##way, speed, SOURCE_##source },
#include "backend_cpu/half_routes.def"
#undef HALF_CPU
#undef HALF_ROUTE
};

/* ---- what the CPU is ------------------------------------------------------------------------- */

#if defined(TERN_HAVE_X86_ISAS)
/* The registers that the system saves for a program: AMX's are bits 17 and 18. */
static bool saves_tiles(void)
{
    uint32_t a, b, c, d, low, high;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0)
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3;
}

static unsigned half_features(void)
{
    uint32_t a, b, c, d, a1, b1, c1, d1;
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 ||
        __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1) == 0)
        return 0;
    const bool tiles = (d >> 24 & 1) != 0 && saves_tiles();
    return ((a1 >> 5 & 1) != 0 ? CPU_HAS_BF16 : 0u) | ((d >> 23 & 1) != 0 ? CPU_HAS_FP16 : 0u) |
           (tiles && (d >> 22 & 1) != 0 ? CPU_HAS_AMX : 0u) |
           (tiles && (a1 >> 21 & 1) != 0 ? CPU_HAS_AMX_FP16 : 0u);
}

cpu_half_cpu cpu_half_this(void)
{
    uint32_t a, b, c, d;
    cpu_half_cpu cpu = { .vendor = CPU_VENDOR_OTHER };
    if (__get_cpuid(0, &a, &b, &c, &d) == 0)
        return cpu;
    cpu.vendor = b == signature_AMD_ebx     ? CPU_VENDOR_AMD
                 : b == signature_INTEL_ebx ? CPU_VENDOR_INTEL
                                            : CPU_VENDOR_OTHER;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0)
        return cpu;
    const uint32_t base = (a >> 8) & 15;
    cpu.family = (int32_t)(base == 15 ? base + ((a >> 20) & 255) : base);
    cpu.model = (int32_t)(((a >> 4) & 15) | ((a >> 12) & 0xF0));
    cpu.features = half_features();
    return cpu;
}
#else
cpu_half_cpu cpu_half_this(void)
{
    return (cpu_half_cpu){ .vendor = CPU_VENDOR_OTHER };
}
#endif

/* The CPU's number in `kinds`, -1 for others. */
static int kind_of(const cpu_half_cpu *cpu)
{
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        const cpu_half_cpu *k = &kinds[i].cpu;
        if (k->vendor == cpu->vendor && k->family == cpu->family &&
            (k->model < 0 || k->model == cpu->model) && k->features == cpu->features)
            return i;
    }
    return -1;
}

const char *cpu_half_kind(const cpu_half_cpu *cpu)
{
    const int kind = kind_of(cpu);
    return kind < 0 ? NULL : kinds[kind].name;
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The kind's row, NULL where there is none. */
static const half_route *route_of(int kind, int dtype, cpu_half_class class)
{
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (routes[i].kind == kind && routes[i].dtype == dtype && routes[i].class == class)
            return &routes[i];
    return NULL;
}

static bool is_one_of(const char *wanted, const char *word)
{
    return wanted != NULL && strcmp(wanted, word) == 0;
}

static bool is_setting(const char *wanted)
{
    return is_one_of(wanted, "f32") || is_one_of(wanted, "native") || is_one_of(wanted, "library");
}

cpu_half_way cpu_half_way_of(const cpu_half_cpu *cpu, const char *wanted, int dtype,
                             cpu_half_class class)
{
    const bool own = dtype == TERN_BF16 && (cpu->features & CPU_HAS_BF16) != 0;
    if (is_one_of(wanted, "f32"))
        return CPU_HALF_F32;
    if (is_one_of(wanted, "library"))
        return CPU_HALF_LIBRARY;
    if (is_one_of(wanted, "native"))
        return !own ? CPU_HALF_F32 : class < CPU_HALF_CONV ? CPU_HALF_OWN : CPU_HALF_LIBRARY;
    const half_route *route = route_of(kind_of(cpu), dtype, class);
    return route != NULL ? route->way : CPU_HALF_F32;
}

/* Two bits per dtype and class, and one that says that they are known. */
static atomic_uint decided;
enum { KNOWN = 1 << 28 };

static int place_of(int dtype, cpu_half_class class)
{
    return 2 * ((dtype == TERN_BF16 ? CPU_HALF_CLASSES : 0) + (int)class);
}

static unsigned decide(void)
{
    const char *wanted = getenv("TERN_CPU_HALF");
    const cpu_half_cpu cpu = cpu_half_this();
    unsigned bits = KNOWN;
    for (int c = 0; c < CPU_HALF_CLASSES; c++) {
        const cpu_half_class class = (cpu_half_class)c;
        bits |= (unsigned)cpu_half_way_of(&cpu, wanted, TERN_F16, class)
                << place_of(TERN_F16, class);
        bits |= (unsigned)cpu_half_way_of(&cpu, wanted, TERN_BF16, class)
                << place_of(TERN_BF16, class);
    }
    /* threads that come here at the same time find the same */
    atomic_store_explicit(&decided, bits, memory_order_relaxed);
    return bits;
}

static cpu_half_way choice(int dtype, cpu_half_class class)
{
    unsigned bits = atomic_load_explicit(&decided, memory_order_relaxed);
    if (bits == 0)
        bits = decide();
    return (cpu_half_way)(bits >> place_of(dtype, class) & 3);
}

static cpu_half_class class_of(int64_t m, int64_t n, int64_t k)
{
    if (m * n * k <= 32768)
        return CPU_HALF_SMALL;
    return m < 8 ? CPU_HALF_FEW_ROWS : n <= 16 ? CPU_HALF_NARROW : CPU_HALF_WIDE;
}

cpu_half_way cpu_half_product_way(int dtype, int64_t m, int64_t n, int64_t k)
{
    const cpu_half_way way = choice(dtype, class_of(m, n, k));
    return way == CPU_HALF_OWN && cpu_isa() != CPU_ISA_AVX512 ? CPU_HALF_F32 : way;
}

cpu_half_way cpu_half_conv_way(int dtype, cpu_half_class pass)
{
    return choice(dtype, pass);
}

/* ---- what was done --------------------------------------------------------------------------- */

static _Thread_local int64_t counted[CPU_HALF_WAYS];

void cpu_half_count(cpu_half_way way, int64_t products)
{
    counted[way] += products;
}

typedef struct half_text {
    char *text;
    size_t bytes, length;
} half_text;

static void put(half_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(half_text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(t->text + t->length, t->bytes - t->length, format, arguments);
    va_end(arguments);
    if (n > 0)
        t->length += (size_t)n < t->bytes - t->length ? (size_t)n : t->bytes - t->length - 1;
}

static const char *instructions(unsigned features, int dtype)
{
    if (dtype == TERN_BF16)
        return features & CPU_HAS_AMX ? "AMX-BF16" : features & CPU_HAS_BF16 ? "AVX512-BF16" : NULL;
    return features & CPU_HAS_AMX_FP16 ? "AMX-FP16"
           : features & CPU_HAS_FP16   ? "AVX512-FP16"
                                       : NULL;
}

/* One dtype: its instructions and what is known of their speed. */
static void put_dtype(half_text *t, const cpu_half_cpu *cpu, int dtype)
{
    const int kind = kind_of(cpu);
    const char *name = instructions(cpu->features, dtype);
    if (name == NULL)
        return;
    if (t->length > 0)
        put(t, "; ");
    const half_route *wide = route_of(kind, dtype, CPU_HALF_WIDE);
    const half_route *conv = route_of(kind, dtype, CPU_HALF_CONV);
    if (wide == NULL) {
        put(t, "%s is there, nobody has measured it: f32 arithmetic", name);
        return;
    }
    put(t, "%s: %s at %.2f times the speed of f32", kinds[kind].said, name, wide->speed);
    if (conv != NULL && conv->speed != wide->speed)
        put(t, ", convolutions at %.2f", conv->speed);
    put(t, ", %s", wide->source);
}

void cpu_half_describe(const cpu_half_cpu *cpu, const char *wanted, char *text, size_t bytes)
{
    half_text t = { text, bytes, 0 };
    text[0] = '\0';
    if (is_setting(wanted))
        put(&t, "TERN_CPU_HALF=%s", wanted);
    else if (cpu->features == 0)
        put(&t, "the CPU has no AVX512-BF16, AVX512-FP16 or AMX");
    else {
        put_dtype(&t, cpu, TERN_BF16);
        put_dtype(&t, cpu, TERN_F16);
        if (kind_of(cpu) < 0)
            put(&t, " (bench_half --table measures)");
    }
}

void tern_cpu_half(tern_cpu_half_t *out_half)
{
    if (out_half == NULL)
        return;
    const cpu_half_cpu cpu = cpu_half_this();
    memset(out_half, 0, sizeof *out_half);
    out_half->native = counted[CPU_HALF_OWN];
    out_half->library = counted[CPU_HALF_LIBRARY];
    out_half->widened = counted[CPU_HALF_F32];
    cpu_half_describe(&cpu, getenv("TERN_CPU_HALF"), out_half->reason, sizeof out_half->reason);
}
