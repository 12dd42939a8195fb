/* Draws digits: a style's curves are bent by a smooth random field, slanted, turned and scaled, then
 * inked with a round pen of changing pressure. Some are crossed by a stray stroke or
 * rubbed out in a spot, so that a good model still has something to get wrong. */
#include "data/digits.h"

#include <math.h>
#include <string.h>

#include "data/dataset.h"
#include "data/fail.h"
#include "data/scope.h"

enum { SPAN_STEPS = 5, FIELD_SIDE = 3, NOISE_SPECKS = 6 };

static const float stray_share = 0.15F;
static const float rubbed_share = 0.25F;

/* The uniform draws of one sample, in order. */
typedef struct digit_random {
    uint64_t seed, index, block;
    uint32_t words[4];
    int left;
} digit_random;

static float draw(digit_random *random, float low, float high)
{
    if (random->left == 0) {
        tern_philox(random->seed, random->index, random->block++, random->words);
        random->left = 4;
    }
    uint32_t word = random->words[--random->left];
    return low + (high - low) * ((float)(word >> 8) * 0x1p-24F);
}

/* Sums of uniforms: most samples are near the middle, a few are far off. */
static float draw_bell(digit_random *random, float reach)
{
    float a = draw(random, -1, 1);
    float b = draw(random, -1, 1);
    float c = draw(random, -1, 1);
    return reach * (a + b + c) / 3;
}

static int draw_index(digit_random *random, int count)
{
    int i = (int)draw(random, 0, (float)count);
    return i < count ? i : count - 1;
}

/* From a style's coordinates to pixels. */
typedef struct digit_hand {
    digit_point field[FIELD_SIDE][FIELD_SIDE]; /* how far a point is bent, on a grid over 0 .. 1 */
    float xx, xy, yx, yy;                      /* linear part, in pixels */
    digit_point middle;                        /* where (0.5, 0.5) comes to lie */
    float radius;                              /* of the pen, in pixels */
    float pressure[2];                         /* factors of it at both ends of a stroke */
    float softness, ink;
} digit_hand;

static digit_hand draw_hand(digit_random *random, float width)
{
    digit_hand hand;
    float bend = draw(random, 0.03F, 0.2F);
    for (int i = 0; i < FIELD_SIDE * FIELD_SIDE; i++) {
        hand.field[i / FIELD_SIDE][i % FIELD_SIDE] =
            (digit_point){ draw(random, -bend, bend), draw(random, -bend, bend) };
    }
    /* sine and cosine by the tangent of the half angle: exact in any C library */
    float t = draw_bell(random, 0.4F);
    float cosine = (1 - t * t) / (1 + t * t);
    float sine = 2 * t / (1 + t * t);
    float slant = 0.12F + draw_bell(random, 0.65F);
    float height = draw(random, 16, 20.5F);
    float across = height * width * draw(random, 0.75F, 1.3F);
    hand.xx = cosine * across;
    hand.xy = (-sine - cosine * slant) * height;
    hand.yx = sine * across;
    hand.yy = (cosine - sine * slant) * height;
    hand.middle = (digit_point){ 14 + draw_bell(random, 4.5F), 14 + draw_bell(random, 4.5F) };
    hand.radius = draw(random, 0.65F, 1.75F);
    hand.pressure[0] = draw(random, 0.75F, 1.2F);
    hand.pressure[1] = draw(random, 0.65F, 1.2F);
    hand.softness = draw(random, 0.8F, 1.5F);
    hand.ink = draw(random, 200, 255);
    return hand;
}

static float mix(float a, float b, float t)
{
    return a + (b - a) * t;
}

/* The field between its grid points, with a smooth weight so that strokes have no kinks. */
static digit_point bend_point(const digit_hand *hand, digit_point p)
{
    float scaled[2] = { p.x * (FIELD_SIDE - 1), p.y * (FIELD_SIDE - 1) };
    int cell[2];
    float t[2];
    for (int i = 0; i < 2; i++) {
        cell[i] = scaled[i] < 1 ? 0 : FIELD_SIDE - 2;
        float f = scaled[i] - (float)cell[i];
        f = f < 0 ? 0 : f > 1 ? 1 : f;
        t[i] = f * f * (3 - 2 * f);
    }
    const digit_point *top = &hand->field[cell[1]][cell[0]];
    const digit_point *bottom = &hand->field[cell[1] + 1][cell[0]];
    return (digit_point){
        p.x + mix(mix(top[0].x, top[1].x, t[0]), mix(bottom[0].x, bottom[1].x, t[0]), t[1]),
        p.y + mix(mix(top[0].y, top[1].y, t[0]), mix(bottom[0].y, bottom[1].y, t[0]), t[1])
    };
}

static digit_point place(const digit_hand *hand, digit_point p)
{
    digit_point bent = bend_point(hand, p);
    float x = bent.x - 0.5F;
    float y = bent.y - 0.5F;
    return (digit_point){ hand->middle.x + hand->xx * x + hand->xy * y,
                          hand->middle.y + hand->yx * x + hand->yy * y };
}

/* Catmull-Rom through b and c. */
static digit_point on_curve(digit_point a, digit_point b, digit_point c, digit_point d, float t)
{
    float t2 = t * t;
    float t3 = t2 * t;
    float wa = -t3 + 2 * t2 - t;
    float wb = 3 * t3 - 5 * t2 + 2;
    float wc = -3 * t3 + 4 * t2 + t;
    float wd = t3 - t2;
    return (digit_point){ (wa * a.x + wb * b.x + wc * c.x + wd * d.x) / 2,
                          (wa * a.y + wb * b.y + wc * c.y + wd * d.y) / 2 };
}

/* Squared distance of a point to the segment a b. */
static float distance2(digit_point a, digit_point b, float x, float y)
{
    float dx = b.x - a.x;
    float dy = b.y - a.y;
    float length2 = dx * dx + dy * dy;
    float t = length2 > 0 ? ((x - a.x) * dx + (y - a.y) * dy) / length2 : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    float ex = x - (a.x + t * dx);
    float ey = y - (a.y + t * dy);
    return ex * ex + ey * ey;
}

static int clamp_pixel(float at)
{
    return at < 0 ? 0 : at > DIGIT_SIDE - 1 ? DIGIT_SIDE - 1 : (int)at;
}

static void ink_segment(float *ink, digit_point a, digit_point b, float radius, float softness)
{
    float reach = radius + softness;
    int x0 = clamp_pixel((a.x < b.x ? a.x : b.x) - reach);
    int x1 = clamp_pixel((a.x > b.x ? a.x : b.x) + reach);
    int y0 = clamp_pixel((a.y < b.y ? a.y : b.y) - reach);
    int y1 = clamp_pixel((a.y > b.y ? a.y : b.y) + reach);
    for (int y = y0; y <= y1; y++) {
        float *row = &ink[y * DIGIT_SIDE];
        for (int x = x0; x <= x1; x++) { /* beyond the reach a value is negative, and no pixel is */
            float d2 = distance2(a, b, (float)x + 0.5F, (float)y + 0.5F);
            float value = (radius - sqrtf(d2)) / softness + 0.5F;
            value = value > 1 ? 1 : value;
            row[x] = value > row[x] ? value : row[x];
        }
    }
}

static void ink_stroke(float *ink, const digit_hand *hand, const digit_stroke *stroke)
{
    const digit_point *p = stroke->points;
    int last = stroke->count - 1;
    digit_point from = place(hand, p[0]);
    for (int i = 0; i < last; i++) {
        digit_point before = p[i > 0 ? i - 1 : 0];
        digit_point after = p[i + 2 <= last ? i + 2 : last];
        for (int step = 1; step <= SPAN_STEPS; step++) {
            float t = (float)step / SPAN_STEPS;
            digit_point to = place(hand, on_curve(before, p[i], p[i + 1], after, t));
            float along = ((float)i + t) / (float)last;
            float radius = hand->radius * mix(hand->pressure[0], hand->pressure[1], along);
            ink_segment(ink, from, to, radius, hand->softness);
            from = to;
        }
    }
}

/* A short line anywhere, as of a neighbouring word. */
static void stray_stroke(digit_random *random, float *ink, const digit_hand *hand)
{
    digit_point from = { draw(random, 0, DIGIT_SIDE), draw(random, 0, DIGIT_SIDE) };
    digit_point to = { from.x + draw_bell(random, 14), from.y + draw_bell(random, 14) };
    ink_segment(ink, from, to, hand->radius * 0.8F, hand->softness);
}

/* Takes the ink off a round spot. */
static void rub_out(digit_random *random, float *ink)
{
    digit_point spot = { 14 + draw_bell(random, 12), 14 + draw_bell(random, 12) };
    float radius = draw(random, 1.5F, 3.5F);
    for (int i = 0; i < DIGIT_SIDE * DIGIT_SIDE; i++) {
        float d2 =
            distance2(spot, spot, (float)(i % DIGIT_SIDE) + 0.5F, (float)(i / DIGIT_SIDE) + 0.5F);
        ink[i] = d2 < radius * radius ? ink[i] * (d2 / (radius * radius)) : ink[i];
    }
}

static void speckle(digit_random *random, uint8_t *pixels)
{
    int specks = draw_index(random, 2 * NOISE_SPECKS) - NOISE_SPECKS;
    for (int i = 0; i < specks; i++) {
        int at = draw_index(random, DIGIT_SIDE * DIGIT_SIDE);
        pixels[at] = (uint8_t)draw(random, 0, 160);
    }
}

int data_digit_draw(uint64_t seed, uint64_t index, uint8_t *pixels)
{
    digit_random random = { .seed = seed, .index = index };
    int digit = draw_index(&random, DIGIT_CLASSES);
    int styles = 0;
    while (styles < DIGIT_STYLES && data_digit_styles[digit][styles].count > 0) {
        styles++;
    }
    const digit_style *style = &data_digit_styles[digit][draw_index(&random, styles)];
    digit_hand hand = draw_hand(&random, style->width);
    float ink[DIGIT_SIDE * DIGIT_SIDE] = { 0 };
    for (int i = 0; i < style->count; i++) {
        ink_stroke(ink, &hand, &style->strokes[i]);
    }
    if (draw(&random, 0, 1) < stray_share) {
        stray_stroke(&random, ink, &hand);
    }
    if (draw(&random, 0, 1) < rubbed_share) {
        rub_out(&random, ink);
    }
    for (int i = 0; i < DIGIT_SIDE * DIGIT_SIDE; i++) {
        pixels[i] = (uint8_t)(ink[i] * hand.ink);
    }
    speckle(&random, pixels);
    return digit;
}

/* ---- the dataset ------------------------------------------------------------------------------ */

static tern_dataset *draw_all(int64_t count, uint64_t seed)
{
    DATA_SCOPE;
    tern_tensor *x = tern_empty(TERN_SHAPE(count, 1, DIGIT_SIDE, DIGIT_SIDE), .dtype = TERN_U8,
                                .device = TERN_CPU);
    tern_tensor *y = tern_empty(TERN_SHAPE(count), .dtype = TERN_U8, .device = TERN_CPU);
    uint8_t *pixels = tern_data(x);
    uint8_t *labels = tern_data(y);
    if (!pixels || !labels) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        labels[i] =
            (uint8_t)data_digit_draw(seed, (uint64_t)i, pixels + i * DIGIT_SIDE * DIGIT_SIDE);
    }
    tern_dataset *dataset = tern_dataset_from_tensors(x, y);
    return tern_dataset_normalize(dataset, .mean = { 0.1307 }, .deviation = { 0.3081 });
}

tern_dataset *tern_digits_at(tern_site_t site, int64_t count, uint64_t seed)
{
    static const char what[] = "digits";
    if (tern_failed()) {
        return NULL;
    }
    if (count < 1) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "count is %lld, not 1 or more",
                     (long long)count);
        return NULL;
    }
    tern_site_t previous = tern_site_begin(site);
    const char *outer = tern_calling_begin(what);
    tern_dataset *dataset = draw_all(count, seed);
    tern_calling_end(outer);
    tern_site_end(previous);
    return dataset;
}
