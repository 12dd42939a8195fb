/* See products.h. */
#include "products.h"

#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "tern/tern.h"

enum { MOST_LEAST = 4000, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* ---- shapes ---- */

void product_name(product_shape shape, char name[PRODUCT_NAME_BYTES])
{
    (void)snprintf(name, PRODUCT_NAME_BYTES, "%dx%dx%d:%c%c", shape.m, shape.k, shape.n,
                   shape.ta ? 'T' : 'N', shape.tb ? 'T' : 'N');
}

bool product_parse(const char *text, product_shape *out_shape)
{
    char ta, tb;
    if (sscanf(text, "%dx%dx%d:%c%c", &out_shape->m, &out_shape->k, &out_shape->n, &ta, &tb) != 5)
        return false;
    out_shape->ta = ta == 'T';
    out_shape->tb = tb == 'T';
    return out_shape->m > 0 && out_shape->k > 0 && out_shape->n > 0;
}

void product_check_range(const product_range *range)
{
    if (range->least < 1 || range->least > MOST_LEAST || range->most < 2 * range->least)
        bench_refuse("outside of 1 to 4000, or more than half of --most:", "--least");
    if (range->align < 1 || range->align > 256)
        bench_refuse("outside of 1 to 256:", "--align");
}

/* 0 to 1. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static int rounded_up(double extent, int64_t align)
{
    return (int)((lround(extent) + align - 1) / align * align);
}

product_shape product_draw(uint64_t *state, const product_range *range)
{
    for (;;) {
        int extent[3];
        for (int d = 0; d < 3; d++)
            extent[d] = rounded_up(8 * pow(2048 / 8, uniform(state)), range->align);
        const double mflop = 2e-6 * extent[0] * extent[1] * extent[2];
        const int op = (int)(3 * uniform(state));
        if (mflop >= (double)range->least && mflop <= (double)range->most)
            return (product_shape){
                .m = extent[0], .k = extent[1], .n = extent[2], .ta = op == 2, .tb = op == 1
            };
    }
}

/* ---- libraries ---- */

/* Their own signatures (cblas.h, dnnl.h, omp.h); NULL where they are absent. */
static struct {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                  int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*openblas_threads)(int count);
    int (*dnnl_sgemm)(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc);
    void (*omp_threads)(int count);
} libraries;

typedef struct loaded {
    const char *name; /* what its file's name begins with: versions differ between systems */
    void *handle;
} loaded;

static int is_loaded(struct dl_phdr_info *info, size_t bytes, void *user)
{
    (void)bytes;
    loaded *library = user;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;
    if (strncmp(file, library->name, strlen(library->name)) != 0)
        return 0;
    library->handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    return library->handle != NULL;
}

static void find(void *out_function, const char *file, const char *name)
{
    loaded library = { file, NULL };
    dl_iterate_phdr(is_loaded, &library);
    void *symbol = library.handle != NULL ? dlsym(library.handle, name) : NULL;
    memcpy(out_function, &symbol, sizeof symbol);
}

/* A product of doubles makes tern open them, with the kernels that fit the CPU; those of floats are its own up to a size. */
void product_find_libraries(void)
{
    TERN_SCOPE;
    tern_tensor *a = tern_ones(TERN_SHAPE(256, 256), .dtype = TERN_F64);
    (void)tern_matmul(a, a);
    find(&libraries.sgemm, "libopenblas", "cblas_sgemm");
    find(&libraries.openblas_threads, "libopenblas", "openblas_set_num_threads");
    find(&libraries.dnnl_sgemm, "libdnnl.so", "dnnl_sgemm");
    find(&libraries.omp_threads, "libgomp.so", "omp_set_num_threads");
}

bool product_has_library(product_library library)
{
    return library == PRODUCT_OPENBLAS ? libraries.sgemm != NULL : libraries.dnnl_sgemm != NULL;
}

void product_library_threads(product_library library, int threads)
{
    void (*set)(int) =
        library == PRODUCT_OPENBLAS ? libraries.openblas_threads : libraries.omp_threads;
    if (set != NULL)
        set(threads);
}

void product_by_library(product_library library, product_shape shape, const float *a,
                        const float *b, float *c)
{
    const int m = shape.m, k = shape.k, n = shape.n;
    const int lda = shape.ta ? m : k, ldb = shape.tb ? k : n;
    if (library == PRODUCT_OPENBLAS)
        libraries.sgemm(ROW_MAJOR, shape.ta ? TRANS : NO_TRANS, shape.tb ? TRANS : NO_TRANS, m, n,
                        k, 1, a, lda, b, ldb, 0, c, n);
    else
        (void)libraries.dnnl_sgemm(shape.ta ? 'T' : 'N', shape.tb ? 'T' : 'N', m, n, k, 1, a, lda,
                                   b, ldb, 0, c, n);
}
