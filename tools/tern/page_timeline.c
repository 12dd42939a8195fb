/* Allocated and reserved over the trace, as SVG. One bucket is one pixel wide at 1280 px, and shows the
 * greatest and the least of its events. */
#include <stdio.h>

#include "tools/tern/page.h"

/* The drawing's own units: pixels of a page 1280 wide. */
static const double left = 78, right = 1190, top = 26, bottom = 246;
enum { WIDTH = 1200, HEIGHT = 276, MARKS = 12 };

typedef struct chart {
    page *p;
    const analysis *a;
    double per_column, per_byte;
} chart;

static double x_of(const chart *c, int64_t column)
{
    return left + (double)column * c->per_column;
}

static double y_of(const chart *c, int64_t bytes)
{
    return bottom - (double)bytes * c->per_byte;
}

/* ---- axes ------------------------------------------------------------------------------------- */

/* A power of two, so that labels are whole numbers of KiB, MiB or GiB; about four lines. */
static int64_t byte_step(int64_t greatest)
{
    int64_t step = 1;
    while (greatest / step >= 6)
        step *= 2;
    return step;
}

static void byte_axis(const chart *c, int64_t greatest)
{
    char size[TEXT_SIZE_BYTES];
    const int64_t step = byte_step(greatest);
    for (int64_t bytes = 0; bytes <= greatest; bytes += step) {
        const double y = y_of(c, bytes);
        text_add(&c->p->html,
                 "<path class=\"grid\" d=\"M%.0f %.1fH%.0f\"/>"
                 "<text class=\"tick\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                 left, y, right, left - 8, y + 4, text_size(bytes, size));
    }
}

/* 1, 2 or 5 times a power of ten, at least `least` and 1. */
static double round_step(double least)
{
    double step = 1;
    if (least <= step)
        return step;
    while (step < least)
        step *= 10;
    if (step / 5 >= least)
        return step / 5;
    return step / 2 >= least ? step / 2 : step;
}

static void time_label(double us, double step, char *buffer, size_t bytes)
{
    if (step >= 1e6)
        snprintf(buffer, bytes, "%.0f s", us / 1e6);
    else if (step >= 1e5)
        snprintf(buffer, bytes, "%.1f s", us / 1e6);
    else if (step >= 1e3)
        snprintf(buffer, bytes, "%.0f ms", us / 1e3);
    else
        snprintf(buffer, bytes, "%.0f us", us);
}

static void trace_axis(const chart *c)
{
    const analysis *a = c->a;
    const int64_t events = c->p->s->devices[a->device].event_count;
    const double span = a->has_times ? (double)(a->end_us - a->start_us) : (double)events;
    const double step = round_step(span / 8);
    for (double at = 0; at <= span; at += step) {
        char label[48];
        if (a->has_times)
            time_label(at, step, label, sizeof label);
        else
            snprintf(label, sizeof label, at == 0 ? "event %.0f" : "%.0f", at);
        text_add(&c->p->html,
                 "<text class=\"tick\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
                 left + at / span * (right - left), bottom + 20, label);
    }
}

/* ---- curves ----------------------------------------------------------------------------------- */

typedef int64_t (*level)(const analysis_bucket *b);

static int64_t high(const analysis_bucket *b)
{
    return b->high;
}
static int64_t low(const analysis_bucket *b)
{
    return b->low;
}
static int64_t end(const analysis_bucket *b)
{
    return b->end;
}
static int64_t reserved_high(const analysis_bucket *b)
{
    return b->reserved_high;
}
static int64_t reserved_end(const analysis_bucket *b)
{
    return b->reserved_end;
}

/* Steps: the level before an event holds up to it, its bucket reaches the extreme, the level after it
 * holds to the next. */
static void steps(const chart *c, int64_t start, level extreme, level after)
{
    text *h = &c->p->html;
    text_add(h, "M%.0f %.1f", left, y_of(c, start));
    for (int64_t i = 0; i < c->a->bucket_count; i++) {
        const analysis_bucket *b = &c->a->buckets[i];
        text_add(h, "H%.1fV%.1f", x_of(c, b->column), y_of(c, extreme(b)));
        if (extreme(b) != after(b))
            text_add(h, "h%.1fV%.1f", c->per_column < 1 ? c->per_column : 1, y_of(c, after(b)));
    }
    text_add(h, "H%.0f", right);
}

static void curves(const chart *c)
{
    text *h = &c->p->html;
    const analysis *a = c->a;
    text_add(h, "<path class=\"reserved-area\" d=\"");
    steps(c, a->start_reserved, reserved_high, reserved_end);
    text_add(h, "V%.0fH%.0fZ\"/>\n<path class=\"reserved-line\" d=\"", bottom, left);
    steps(c, a->start_reserved, reserved_high, reserved_end);
    text_add(h, "\"/>\n<path class=\"high\" d=\"");
    steps(c, a->start_allocated, high, end);
    text_add(h, "V%.0fH%.0fZ\"/>\n<path class=\"low\" d=\"", bottom, left);
    steps(c, a->start_allocated, low, end);
    text_add(h, "V%.0fH%.0fZ\"/>\n", bottom, left);
}

/* ---- marks ------------------------------------------------------------------------------------ */

static void peak_mark(const chart *c)
{
    const analysis *a = c->a;
    if (a->peak_event < 0)
        return;
    char size[TEXT_SIZE_BYTES];
    const double x = x_of(c, a->buckets[a->peak_bucket].column), y = y_of(c, a->peak_allocated);
    const bool at_right = x > right - 120;
    text_add(&c->p->html,
             "<circle class=\"peak\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>"
             "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">peak %s</text>\n",
             x, y, at_right ? x - 8 : x + 8, y - 6, at_right ? "end" : "start",
             text_size(a->peak_allocated, size));
}

static void oom_marks(const chart *c)
{
    const analysis *a = c->a;
    int64_t last = -1;
    for (int64_t i = 0; i < a->oom_count && i < ANALYSIS_OOMS; i++) {
        const int64_t column = a->buckets[a->ooms[i].bucket].column;
        const double x = x_of(c, column);
        if (column == last)
            continue;
        text_add(&c->p->html,
                 "<path class=\"oom\" d=\"M%.1f %.0fV%.0f\"/><path class=\"oom-head\" "
                 "d=\"M%.1f %.0fl-5 -9h10z\"/>",
                 x, top, bottom, x, top + 2);
        if (last < 0 || x_of(c, column) - x_of(c, last) > 40)
            text_add(&c->p->html,
                     "<text class=\"oom-label\" x=\"%.1f\" y=\"%.0f\" "
                     "text-anchor=\"%s\">out of memory</text>",
                     x > right - 90 ? x - 9 : x + 9, top - 6, x > right - 90 ? "end" : "start");
        text_add(&c->p->html, "\n");
        last = column;
    }
}

/* ---- data for hovering ------------------------------------------------------------------------ */

/* [column, events before its end, time, low, high, greatest reserved, largest alloc, its place] */
static void bucket_data(const chart *c)
{
    const analysis *a = c->a;
    const snapshot_event *events = c->p->s->devices[a->device].events;
    text *d = &c->p->data;
    text_add(d, ",\"columns\":%lld,\"timed\":%s,\"buckets\":[", (long long)a->columns,
             a->has_times ? "true" : "false");
    for (int64_t i = 0; i < a->bucket_count; i++) {
        const analysis_bucket *b = &a->buckets[i];
        const snapshot_event *largest = b->largest < 0 ? NULL : &events[b->largest];
        text_add(d, "%s[%lld,%lld,%lld,%lld,%lld,%lld,%lld,%lld,%d]", i == 0 ? "" : ",",
                 (long long)b->column, (long long)b->first, (long long)b->last,
                 (long long)(a->has_times ? events[b->first].time_us - a->start_us : 0),
                 (long long)b->low, (long long)b->high, (long long)b->reserved_high,
                 (long long)(largest ? largest->size : -1),
                 largest ? (int)page_place(c->p, largest->place) : 0);
    }
    text_add(d, "]");
}

static void draw(const chart *c, int64_t greatest)
{
    text *h = &c->p->html;
    text_add(
        h,
        "<svg class=\"timeline\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Allocated and "
        "reserved bytes over the trace\" data-left=\"%.0f\" data-right=\"%.0f\">\n",
        WIDTH, HEIGHT, left, right);
    byte_axis(c, greatest);
    trace_axis(c);
    curves(c);
    oom_marks(c);
    peak_mark(c);
    text_add(h, "<path class=\"cross\" d=\"M0 %.0fV%.0f\" visibility=\"hidden\"/>\n</svg>\n", top,
             bottom);
}

void page_timeline(page *p, const analysis *a)
{
    const snapshot_device *d = &p->s->devices[a->device];
    const int64_t most =
        a->peak_reserved > a->peak_allocated ? a->peak_reserved : a->peak_allocated;
    const int64_t greatest = most > 0 ? most : 1;
    const int64_t last_column = a->columns > 1 ? a->columns - (a->has_times ? 1 : 0) : 1;
    const chart c = { p, a, (right - left) / (double)last_column,
                      (bottom - top - 12) / (double)greatest };
    text_add(&p->html, "<h3>Over the trace</h3>\n");
    if (d->event_count == 0) {
        text_add(&p->html,
                 "<p class=\"note\">No events were recorded. Switch history on before the part "
                 "of the program that matters.</p>\n");
    } else {
        text_add(&p->html,
                 "<p class=\"legend\"><i class=\"k-active\"></i>allocated%s"
                 "<i class=\"k-reserved\"></i>reserved<i class=\"k-oom\"></i>out of memory"
                 "<span>%lld events</span></p>\n",
                 a->counts_requested ? " (as asked for)" : "", (long long)d->event_count);
        draw(&c, greatest);
    }
    bucket_data(&c);
}
