/* Libraries of CUDA that are not linked (cuBLAS, cuDNN, NVML): opened at their first use, so that the
 * plugin loads without them. Simulated devices have a loader and libraries of their own (sim/include/dlfcn.h). */
#ifndef TERN_BACKEND_CUDA_LIBRARY_H
#define TERN_BACKEND_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum { CUDA_LIBRARY_WHY = 384 };

/* A static object, its first part filled by who needs the library:
 *     typedef struct calls { __typeof__(&cudnnCreate) create; } calls;
 *     static const char *const files[] = { "libcudnn.so.9", NULL };
 *     static const char *const symbols[] = { "cudnnCreate", NULL };
 *     static calls dnn;
 *     static cuda_library library = { .name = "cuDNN", .files = files, .symbols = symbols,
 *                                     .functions = &dnn, .bytes = sizeof dnn }; */
typedef struct cuda_library {
    const char *name;           /* for people: "cuDNN" */
    const char *const *files;   /* sonames, tried in this order; NULL ends them */
    const char *const *symbols; /* all are needed; NULL ends them */
    void *functions;            /* a struct of as many function pointers, in the order of symbols */
    size_t bytes;               /* of it */
    /* Files that it opens itself at its first call and ends the process without: NULL, or NULL ends them. */
    const char *const *parts;
    /* NULL, or says why it cannot be used (NULL: it can); may call its functions. */
    const char *(*unfit)(void);
    const char *without; /* what takes over, for the one line of the log; NULL: no line */
    /* cuda_library_open's */
    int state; /* 0: not tried; else read with cuda_library_open */
    void *handle;
    char why[CUDA_LIBRARY_WHY]; /* "" where it is open */
} cuda_library;

/* Tries once per process, at the first call; any thread. True: every function may be called. False:
 * `why` names the files that were tried and what was wrong, and was logged once. */
bool cuda_library_open(cuda_library *library);

#endif
