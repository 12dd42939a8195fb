/* Thread counts and floating-point modes. The libraries never choose how many threads to use. */
#include "backend_cpu/bridge/bridge_private.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

int bridge_threads_allowed(int threads)
{
#ifdef _OPENMP
    return threads < 1 || omp_in_parallel() ? 1 : threads;
#else
    (void)threads;
    return 1;
#endif
}

/* omp_set_num_threads sets a variable of the calling thread, so calls from different threads do
 * not disturb each other. */
int bridge_threads_begin(int threads)
{
#ifdef _OPENMP
    int saved = omp_get_max_threads();
    if (saved != threads)
        omp_set_num_threads(threads);
    return saved == threads ? 0 : saved;
#else
    (void)threads;
    return 0;
#endif
}

void bridge_threads_end(int saved)
{
#ifdef _OPENMP
    if (saved)
        omp_set_num_threads(saved);
#else
    (void)saved;
#endif
}

unsigned bridge_modes_get(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return _mm_getcsr();
#else
    return 0;
#endif
}

unsigned bridge_modes_swap(unsigned modes)
{
#if defined(__x86_64__) || defined(__i386__)
    unsigned saved = _mm_getcsr();
    if (saved != modes)
        _mm_setcsr(modes);
    return saved;
#else
    return modes;
#endif
}
