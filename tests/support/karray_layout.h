/* Other ways for a karray to lie in memory; its values and their row-major numbers stay. */
#ifndef TESTS_SUPPORT_KARRAY_LAYOUT_H
#define TESTS_SUPPORT_KARRAY_LAYOUT_H

#include "tests/support/kernel.h"

typedef enum karray_layout {
    KARRAY_ROW_MAJOR,
    KARRAY_REVERSED, /* strides grow from the first dimension on: dense, transposed */
    KARRAY_GAPS,     /* every other element of something larger */
    KARRAY_SWAPPED,  /* the last two dimensions swapped, dense */
    KARRAY_LAYOUTS
} karray_layout;
const char *karray_layout_name(karray_layout layout);

void karray_relayout(karray *a, karray_layout layout);
/* Rows (the last dimension) without gaps, cut out of rows that are three elements longer. */
void karray_cut(karray *a);
/* Dimension `dim` gets stride 0: all its elements become the ones at index 0. */
void karray_repeat(karray *a, int dim);

#endif
