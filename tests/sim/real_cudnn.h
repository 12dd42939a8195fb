/* What is asked of simulated cuDNN and of the real library, where there is one, to compare their answers.
 * Descriptors need no device, so that the real library can be asked anywhere. */
#ifndef TERN_TESTS_SIM_REAL_CUDNN_H
#define TERN_TESTS_SIM_REAL_CUDNN_H

#include <cudnn.h>
#include <dlfcn.h>
#include <stdbool.h>

#include "tests/sim/sim_check.h"

#define assert_dnn(call) assert_int_equal(call, CUDNN_STATUS_SUCCESS)

/* The functions of these names, one after the other into `table`. False without one. */
static inline bool open_real_cudnn(const char *const *names, size_t count, void *table)
{
    void *handle = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL);
    if (handle == NULL)
        handle = dlopen("/usr/local/cuda/lib64/libcudnn.so.9", RTLD_LAZY | RTLD_LOCAL);
    for (size_t i = 0; handle != NULL && i < count; i++) {
        void *address = dlsym(handle, names[i]);
        if (address == NULL)
            return false;
        memcpy((char *)table + i * sizeof address, &address, sizeof address);
    }
    return handle != NULL;
}

enum { MOST_ANSWERS = 64 };
typedef struct answers {
    int status[MOST_ANSWERS], count;
} answers;

static inline void note(answers *a, cudnnStatus_t status)
{
    assert_true(a->count < MOST_ANSWERS);
    a->status[a->count++] = (int)status;
}

#endif
