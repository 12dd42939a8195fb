/* The choice of instruction set, threads, single elements. */
#include "backend_cpu/cpu.h"

#include <stdlib.h>

#include "backend_cpu/convert.h"
#include "backend_cpu/crowd.h"
#include "backend_cpu/tuning.h"
#include "core/lock.h"

#if defined(TERN_HAVE_OPENMP) && TERN_HAVE_OPENMP
#include <omp.h>
#endif

/* ---- instruction sets ------------------------------------------------------------------------ */

int cpu_isa_chosen;

static int supported_isa(void)
{
#if defined(TERN_HAVE_X86_ISAS)
    __builtin_cpu_init();
    /* every CPU with AVX2 and FMA has F16C, too */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return CPU_ISA_BASE;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx512 ? CPU_ISA_AVX512 : CPU_ISA_AVX2;
#else
    return CPU_ISA_BASE;
#endif
}

int cpu_isa_choose(void)
{
    int isa = supported_isa();
    const char *wanted = getenv("TERN_CPU_ISA");
    for (int candidate = CPU_ISA_BASE; wanted && candidate < isa; candidate++) {
        if (strcmp(wanted, cpu_isa_name(candidate)) == 0)
            isa = candidate;
    }
    /* threads that come here at the same time find the same */
    __atomic_store_n(&cpu_isa_chosen, isa, __ATOMIC_RELAXED);
    return isa;
}

const char *cpu_isa_name(int isa)
{
    return isa == CPU_ISA_AVX512 ? "avx512" : isa == CPU_ISA_AVX2 ? "avx2" : "base";
}

/* ---- tunings --------------------------------------------------------------------------------- */

int cpu_tuning_chosen;

static int tuning_of_this_cpu(void)
{
    if (supported_isa() != CPU_ISA_AVX512)
        return CPU_AVX2;
#if defined(__x86_64__)
    if (__builtin_cpu_is("intel"))
        return CPU_INTEL;
    if (__builtin_cpu_is("amdfam19h"))
        return CPU_ZEN4;
#endif
    return CPU_ZEN5;
}

int cpu_tuning_choose(void)
{
    int tuning = tuning_of_this_cpu();
    const char *wanted = getenv("TERN_CPU_TUNING");
    for (int candidate = CPU_ZEN5; wanted && candidate <= CPU_TUNINGS; candidate++) {
        if (strcmp(wanted, cpu_tuning_name(candidate)) == 0)
            tuning = candidate;
    }
    /* threads that come here at the same time find the same */
    __atomic_store_n(&cpu_tuning_chosen, tuning, __ATOMIC_RELAXED);
    return tuning;
}

const char *cpu_tuning_name(int tuning)
{
    static const char *const names[CPU_TUNINGS + 1] = {
        [CPU_ZEN5] = "zen5", [CPU_ZEN4] = "zen4", [CPU_INTEL] = "intel", [CPU_AVX2] = "avx2"
    };
    return names[tuning];
}

/* ---- threads --------------------------------------------------------------------------------- */

int cpu_threads(const tern_call *call, int64_t bytes, int64_t flops)
{
    if (call->threads < 2 || (bytes < CPU_PARALLEL_BYTES && flops < CPU_PARALLEL_FLOPS))
        return 1;
#if defined(TERN_HAVE_OPENMP) && TERN_HAVE_OPENMP
    return omp_in_parallel() ? 1 : call->threads;
#else
    return 1;
#endif
}

static void run_whole(int64_t count, cpu_range_fn run, void *context)
{
    const uint32_t before = cpu_flush_begin();
    run(context, 0, count);
    cpu_flush_end(before);
}

#if defined(TERN_HAVE_OPENMP) && TERN_HAVE_OPENMP

/* A child of a fork would wait for threads of its parent's team, in calls of ours and of the libraries. So the
 * team of the thread that forks ends before, and both processes start one at their next call. */
static void end_team(void)
{
    (void)omp_pause_resource_all(omp_pause_soft);
}

__attribute__((constructor)) static void watch_forks(void)
{
    core_before_fork(end_team);
}

/* Each thread owns a stretch of the range and takes pieces from its front, so that it finds in its
 * cache what it wrote in the op before; one that is done takes pieces of the others' stretches. The
 * first piece is the owner's without asking: a line of memory that two cores write costs 0.1 us. */
enum { MAX_THREADS = 128, PIECES_PER_THREAD = 4 };
typedef struct stretch {
    _Alignas(64) int64_t next; /* piece; only where there are more than one */
    int64_t took;              /* nanoseconds that its owner worked */
} stretch;

/* What all threads read; in elements of the range. */
typedef struct team {
    int threads;
    int64_t count, share, piece;
    cpu_range_fn run;
    void *context;
} team;

static void run_piece(const team *t, int64_t begin, int64_t end)
{
    if (begin < t->count)
        t->run(t->context, begin, end < t->count ? end : t->count);
}

/* Thread `own` of `present`: OpenMP may give fewer than it was asked for. */
static void run_pieces(const team *t, stretch *stretches, int own, int present)
{
    for (int of = own; of < t->threads; of += present)
        run_piece(t, of * t->share, of * t->share + t->piece);
    if (t->piece == t->share)
        return;
    for (int i = 0; i < t->threads; i++) {
        const int of = (own + i) % t->threads;
        const int64_t end = (of + 1) * t->share;
        for (;;) {
            const int64_t begin =
                __atomic_fetch_add(&stretches[of].next, t->piece, __ATOMIC_RELAXED);
            if (begin >= end)
                break;
            run_piece(t, begin, begin + t->piece < end ? begin + t->piece : end);
        }
    }
}

/* The least time that one of the team was at work. */
static int64_t run_team(const team *whole, int64_t start)
{
    stretch stretches[MAX_THREADS];
    for (int i = 0; i < whole->threads && whole->piece < whole->share; i++)
        stretches[i].next = i * whole->share + whole->piece;
    int present = 1;
    const team t = *whole; /* beside what OpenMP hands over, so that no thread looks for it */
#pragma omp parallel num_threads(t.threads) firstprivate(t)
    {
        const int own = omp_get_thread_num();
        const int64_t begin = own == 0 ? start : cpu_crowd_clock();
        if (own == 0)
            present = omp_get_num_threads();
        const uint32_t before = cpu_flush_begin();
        run_pieces(&t, stretches, own, omp_get_num_threads());
        cpu_flush_end(before);
        stretches[own].took = cpu_crowd_clock() - begin;
    }
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < present; i++)
        shortest = stretches[i].took < shortest ? stretches[i].took : shortest;
    return shortest;
}

void cpu_parallel(int threads, int64_t count, int64_t grain, cpu_range_fn run, void *context)
{
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    const int64_t grains = (count + grain - 1) / grain;
    if (threads > grains)
        threads = (int)grains;
    cpu_crowd *crowd = cpu_crowd_here();
    const int64_t start = threads > 1 ? cpu_crowd_clock() : 0;
    if (threads < 2 || !cpu_crowd_free(crowd, start)) {
        if (count > 0)
            run_whole(count, run, context);
        return;
    }
    const int64_t share = (grains + threads - 1) / threads;
    const team whole = { .threads = threads,
                         .count = count,
                         .share = share * grain,
                         .piece = (share + PIECES_PER_THREAD - 1) / PIECES_PER_THREAD * grain,
                         .run = run,
                         .context = context };
    const int64_t shortest = run_team(&whole, start);
    cpu_crowd_note(crowd, start, cpu_crowd_clock(), shortest);
}

#else

void cpu_parallel(int threads, int64_t count, int64_t grain, cpu_range_fn run, void *context)
{
    (void)threads, (void)grain;
    if (count > 0)
        run_whole(count, run, context);
}

#endif

/* ---- elements -------------------------------------------------------------------------------- */

cpu_convert_fn cpu_converter(int out_dtype, int in_dtype)
{
    return CPU_ISA_PICK(cpu_converters)[TERN_DTYPES * in_dtype + out_dtype];
}

double cpu_load_f64(const void *data, int dtype)
{
    double value = 0;
    cpu_converter(TERN_F64, dtype)(&value, data, 1);
    return value;
}

void cpu_store_f64(void *data, int dtype, double value)
{
    cpu_converter(dtype, TERN_F64)(data, &value, 1);
}

void cpu_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

void cpu_set(void *out, const void *value, int64_t size, int64_t n)
{
    CPU_ISA_PICK(cpu_set_loop)(out, value, size, n);
}
