/* Threads: the host's for everything, the libraries' own for nothing. */
#include "backend_cpu/bridge/bridge_private.h"

/* From whichever OpenMP runtime oneDNN is bound to: looked up in the same scope as its own calls.
 * Weak, because a oneDNN without OpenMP brings none. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));
extern int omp_in_parallel(void) __attribute__((weak));

void bridge_run_parts(int64_t parts, cpu_blas_part run, void *context)
{
    if (parts == 1)
        run(context, 0);
    else
        bridge_state.host->run_parts(parts, run, context);
}

/* omp_set_num_threads sets a variable of the calling thread: no other one notices. */
int bridge_threads_begin(int threads)
{
    if (!omp_get_max_threads || !omp_set_num_threads)
        return 0;
    int saved = omp_get_max_threads();
    if (saved == threads)
        return 0;
    omp_set_num_threads(threads);
    return saved;
}

void bridge_threads_end(int saved)
{
    if (saved)
        omp_set_num_threads(saved);
}

bool bridge_inside_team(void)
{
    return omp_in_parallel && omp_in_parallel();
}
