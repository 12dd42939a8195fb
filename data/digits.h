/* Digits drawn as strokes: descriptions in digit_strokes.c, drawing in digits.c. */
#ifndef DATA_DIGITS_H
#define DATA_DIGITS_H

#include <stdint.h>

enum {
    DIGIT_SIDE = 28,
    DIGIT_CLASSES = 10,
    DIGIT_STYLES = 4,
    STYLE_STROKES = 4,
    STROKE_POINTS = 12
};

typedef struct digit_point {
    float x, y; /* x to the right, y down, both about 0 .. 1 */
} digit_point;

/* A smooth curve through `count` points; a corner is where two strokes meet. */
typedef struct digit_stroke {
    int count;
    digit_point points[STROKE_POINTS];
} digit_stroke;

/* One way of writing a digit. */
typedef struct digit_style {
    int count;   /* strokes; 0: there is no such style */
    float width; /* of the digit, relative to its height */
    digit_stroke strokes[STYLE_STROKES];
} digit_style;

extern const digit_style data_digit_styles[DIGIT_CLASSES][DIGIT_STYLES];

/* Draws sample `index` of a seed into DIGIT_SIDE rows of DIGIT_SIDE bytes, ink bright on 0; returns
 * which digit it is. Plain arithmetic on the draws of Philox: the same pixels everywhere. */
int data_digit_draw(uint64_t seed, uint64_t index, uint8_t *pixels);

#endif
