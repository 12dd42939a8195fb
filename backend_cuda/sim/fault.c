/* Injected failures: "cudaMalloc@3=2" fails the third cudaMalloc from now with error 2,
 * "launch:k_sum@1=700" the first run of a kernel (sticky, as on a GPU), "*@9=2" the ninth call of
 * any name. Several are separated by commas; each fires once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/sim/sim.h"

enum { MOST_FAULTS = 16 };

typedef struct fault {
    char call[64];
    int64_t left; /* calls until it fires; 0: did */
    cudaError_t code;
} fault;

static fault faults[MOST_FAULTS];
static int fault_count;

static bool parse_one(const char *text, size_t length)
{
    char copy[128];
    if (fault_count == MOST_FAULTS || length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    fault *f = &faults[fault_count];
    long long k = 0;
    int code = 0;
    if (sscanf(copy, " %63[^@]@%lld=%d", f->call, &k, &code) != 3 || k < 1)
        return false;
    f->left = k;
    f->code = (cudaError_t)code;
    fault_count++;
    return true;
}

bool sim_fault_parse(const char *text)
{
    sim_fault_reset();
    while (*text != '\0') {
        const size_t length = strcspn(text, ",");
        if (!parse_one(text, length)) {
            sim_fault_reset();
            return false;
        }
        text += length + (text[length] == ',');
    }
    return true;
}

cudaError_t sim_fault(const char *call)
{
    cudaError_t code = cudaSuccess;
    for (int i = 0; i < fault_count; i++) {
        fault *f = &faults[i];
        const bool any = strcmp(f->call, "*") == 0 && strncmp(call, "launch:", 7) != 0;
        if (f->left == 0 || !(any || strcmp(f->call, call) == 0))
            continue;
        if (--f->left == 0 && code == cudaSuccess)
            code = f->code;
    }
    return code;
}

void sim_fault_reset(void)
{
    fault_count = 0;
}
