#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 72, HEIGHT = 20 };

typedef struct range {
    double low, high;
} range;

static range widened(range r, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        r.low = fmin(r.low, (double)values[i]);
        r.high = fmax(r.high, (double)values[i]);
    }
    return r;
}

/* Which of `cells` a value falls into. */
static int cell_of(double value, range r, int cells)
{
    const double share = r.high > r.low ? (value - r.low) / (r.high - r.low) : 0.5;
    return (int)lround(share * (cells - 1));
}

typedef struct canvas {
    char cells[HEIGHT][WIDTH + 1];
    range x, y;
} canvas;

static void mark(canvas *c, const float *x, const float *y, int64_t count, char sign)
{
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && isfinite(y[i]))
            c->cells[HEIGHT - 1 - cell_of((double)y[i], c->y, HEIGHT)]
                    [cell_of((double)x[i], c->x, WIDTH)] = sign;
}

static void plot_as_text(const example_plot_data *d)
{
    const range none = { INFINITY, -INFINITY };
    canvas c = { .x = widened(none, d->x, d->count),
                 .y = widened(widened(none, d->y, d->count), d->fit, d->count) };
    for (int row = 0; row < HEIGHT; row++) {
        memset(c.cells[row], ' ', WIDTH);
        c.cells[row][WIDTH] = '\0';
    }
    mark(&c, d->x, d->y, d->count, '.');
    mark(&c, d->x, d->fit, d->count, 'o');
    for (int row = 0; row < HEIGHT; row++)
        printf("%8.2f |%s\n", c.y.high - (c.y.high - c.y.low) * row / (HEIGHT - 1), c.cells[row]);
    printf("%9s+", "");
    for (int column = 0; column < WIDTH; column++)
        putchar('-');
    printf("\n%9s %-*.2f%*.2f\n", "", WIDTH / 2, c.x.low, WIDTH / 2, c.x.high);
}

static void send(FILE *gnuplot, const float *x, const float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && isfinite(y[i]))
            fprintf(gnuplot, "%.9g %.9g\n", (double)x[i], (double)y[i]);
    fputs("e\n", gnuplot);
}

static void plot_by_gnuplot(const example_plot_data *d)
{
    if (system("command -v gnuplot >/dev/null 2>&1") != 0)
        return;
    FILE *gnuplot = popen("gnuplot", "w");
    if (gnuplot == NULL)
        return;
    fprintf(gnuplot,
            "set terminal svg size 800, 500 background 'white'\nset output '%s'\n"
            "plot '-' title 'points' with points pointtype 7 pointsize 0.4, "
            "'-' smooth unique title 'fit' with lines linewidth 2\n",
            d->svg);
    send(gnuplot, d->x, d->y, d->count);
    send(gnuplot, d->x, d->fit, d->count);
    if (pclose(gnuplot) == 0)
        printf("drawn by gnuplot: %s\n", d->svg);
}

void example_plot(const example_plot_data *data)
{
    plot_as_text(data);
    plot_by_gnuplot(data);
}
