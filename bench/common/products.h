/* Matrix products for benchmarks: their shapes, named or drawn, and the libraries that make them, called directly. */
#ifndef TERN_BENCH_PRODUCTS_H
#define TERN_BENCH_PRODUCTS_H

#include <stdbool.h>
#include <stdint.h>

/* [m, k] by [k, n]; ta, tb: A, or B, is stored transposed. */
typedef struct product_shape {
    int m, k, n;
    bool ta, tb;
} product_shape;

enum { PRODUCT_NAME_BYTES = 64 };
/* "64x784x128:NT": M, K, N and what is transposed. */
void product_name(product_shape shape, char name[PRODUCT_NAME_BYTES]);
/* False: `text` names none. */
bool product_parse(const char *text, product_shape *out_shape);

/* Which shapes are drawn: extents of 8 to 2048, evenly by their logarithms; NN, NT and TN alike. */
typedef struct product_range {
    int64_t least, most; /* MFLOP */
    int64_t align;       /* extents are its multiples */
} product_range;
/* Ends the program where --least, --most or --align is out of range. */
void product_check_range(const product_range *range);
/* The next one; the same for a seed, with which *state begins, on every machine. */
product_shape product_draw(uint64_t *state, const product_range *range);

typedef enum product_library {
    PRODUCT_OPENBLAS,
    PRODUCT_ONEDNN,
    PRODUCT_LIBRARIES
} product_library;
/* Makes tern open them, and finds them. They run as a program that links them would run them, with their own threads, but
 * with the OpenBLAS kernels that tern has chosen. */
void product_find_libraries(void);
bool product_has_library(product_library library);
/* How many threads the libraries start from now on. OpenBLAS has 1 while others are at work: its own would wait for work
 * on their cores. */
void product_library_threads(product_library library, int threads);
/* c = a b, row-major. */
void product_by_library(product_library library, product_shape shape, const float *a,
                        const float *b, float *c);

#endif
