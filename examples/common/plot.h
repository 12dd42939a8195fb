/* Points and a curve through them: as text on stdout, and by gnuplot where it is installed. */
#ifndef EXAMPLES_PLOT_H
#define EXAMPLES_PLOT_H

#include <stdint.h>

typedef struct example_plot_data {
    int64_t count;
    const float *x, *y; /* the points, '.' */
    const float *fit;   /* the curve's height at each x, 'o' */
    const char *svg;    /* where gnuplot draws to */
} example_plot_data;

/* Numbers that are not finite are left out. */
void example_plot(const example_plot_data *data);

#endif
