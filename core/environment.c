/* See environment.h. */
#include "core/environment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"

typedef struct variable {
    const char *name;
    const char *words; /* ", " between */
    const char *then;  /* what is done with another value */
} variable;

static const variable variables[] = {
    { "TERN_CPU_ISA", "base, avx2, avx512", "it has no effect" },
    { "TERN_CPU_TUNING", "zen5, zen4, intel, avx2", "it has no effect" },
    { "TERN_CPU_GEMM", "own, library, openblas, onednn, tiles, benchmark", "it has no effect" },
    { "TERN_CPU_BLAS", "on, off", "it has no effect" },
    { "TERN_CPU_HALF", "f32, native, library", "it has no effect" },
    { "TERN_OOM", "error, cpu", "error holds" },
    { "TERN_NO_CACHE", "0, 1", "1 holds" },
    { "TERN_CHECK_RELEASED", "0, 1", "1 holds" },
    { "TERN_CUDA_SYNC", "0, 1", "it has no effect" },
};

static bool is_one_of(const char *value, const char *words)
{
    const size_t length = strlen(value);
    for (const char *at = words; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, value, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    }
    return false;
}

void core_environment_complain(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&said))
        return;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const variable *v = &variables[i];
        const char *value = getenv(v->name);
        if (value != NULL && value[0] != '\0' && !is_one_of(value, v->words))
            core_log_warn("%s: '%.80s' is none of %s: %s", v->name, value, v->words, v->then);
    }
}
