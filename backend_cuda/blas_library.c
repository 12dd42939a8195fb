/* cuBLAS and cuBLASLt as libraries: their functions, version, errors. */
#include <stdio.h>

#include "backend_cuda/blas.h"
#include "backend_cuda/library.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static cuda_blas_calls blas_calls;
static cuda_lt_calls lt_calls;

static const char *const blas_symbols[] = {
#define CALL(name) #name,
#include "backend_cuda/blas_calls.def"
#undef CALL
    NULL
};
static const char *const lt_symbols[] = {
#define LT_CALL(name) #name,
#include "backend_cuda/blas_calls.def"
#undef LT_CALL
    NULL
};

/* The version whose headers this was compiled with: calls keep their meaning within it. */
static const char *const blas_files[] = { "libcublas.so." STRING(CUBLAS_VER_MAJOR), NULL };
static const char *const lt_files[] = { "libcublasLt.so." STRING(CUBLAS_VER_MAJOR), NULL };

static cuda_library blas_library = { .name = "cuBLAS",
                                     .files = blas_files,
                                     .symbols = blas_symbols,
                                     .functions = &blas_calls,
                                     .bytes = sizeof blas_calls,
                                     .without = "matrix products run on tern's own kernels" };
static cuda_library lt_library = { .name = "cuBLASLt",
                                   .files = lt_files,
                                   .symbols = lt_symbols,
                                   .functions = &lt_calls,
                                   .bytes = sizeof lt_calls,
                                   .without = "a bias is added apart from its product" };

const cuda_blas_calls *cuda_blas_open(void)
{
    return cuda_library_open(&blas_library) ? &blas_calls : NULL;
}

const cuda_lt_calls *cuda_lt_open(void)
{
    return cuda_library_open(&lt_library) ? &lt_calls : NULL;
}

const char *cuda_blas_version(void)
{
    static char text[32];
    int major = 0, minor = 0;
    const cuda_blas_calls *blas = cuda_blas_open();
    if (blas == NULL || blas->cublasGetProperty(MAJOR_VERSION, &major) != CUBLAS_STATUS_SUCCESS ||
        blas->cublasGetProperty(MINOR_VERSION, &minor) != CUBLAS_STATUS_SUCCESS)
        return "";
    (void)snprintf(text, sizeof text, "cuBLAS %d.%d", major, minor);
    return text;
}

/* ---- errors ---------------------------------------------------------------------------------- */

typedef struct meaning {
    cublasStatus_t status;
    const char *name, *text;
} meaning;

#define NAMED(status) status, #status
static const meaning meanings[] = {
    { NAMED(CUBLAS_STATUS_NOT_INITIALIZED),
      "the library could not start on the device: the driver, the context or its memory" },
    { NAMED(CUBLAS_STATUS_ALLOC_FAILED), "the library found no memory of its own" },
    { NAMED(CUBLAS_STATUS_INVALID_VALUE), "an argument was refused" },
    { NAMED(CUBLAS_STATUS_ARCH_MISMATCH), "the device is too old for the call" },
    { NAMED(CUBLAS_STATUS_MAPPING_ERROR), "memory of the device could not be reached" },
    { NAMED(CUBLAS_STATUS_EXECUTION_FAILED), "the product could not be started on the device" },
    { NAMED(CUBLAS_STATUS_INTERNAL_ERROR), "the library failed inside" },
    { NAMED(CUBLAS_STATUS_NOT_SUPPORTED), "the library does not have this product" },
    { NAMED(CUBLAS_STATUS_LICENSE_ERROR), "the library found no license" },
};

/* Simulated devices know more than a status says: which work is not ordered after which. */
static const char *more_of(cublasStatus_t status)
{
    const cuda_blas_calls *blas = cuda_is_simulated() ? cuda_blas_open() : NULL;
    return blas != NULL ? blas->cublasGetStatusString(status) : "";
}

tern_status_t cuda_blas_check(int index, cublasStatus_t status, const char *what)
{
    static const meaning unknown = { CUBLAS_STATUS_SUCCESS, "a status without a name",
                                     "it is not in cuBLAS's documentation" };
    const meaning *m = &unknown;
    if (status == CUBLAS_STATUS_SUCCESS)
        return TERN_OK;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].status == status)
            m = &meanings[i];
    char text[CUDA_LIBRARY_TEXT];
    const char *more = more_of(status);
    (void)snprintf(text, sizeof text, "%s (%d): %s%s%s", m->name, (int)status, m->text,
                   more[0] != '\0' ? ": " : "", more);
    const bool full = status == CUBLAS_STATUS_ALLOC_FAILED;
    return cuda_library_failed(index, full ? TERN_ERR_OOM : TERN_ERR_BACKEND, what, text);
}
