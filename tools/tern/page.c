/* The frame of the page, and the data for its script. */
#include "tools/tern/page.h"

#include <stdlib.h>
#include <string.h>
#include <tern/base.h>

int32_t page_place(page *p, int32_t place)
{
    if (p->place_of[place] < 0) {
        p->place_of[place] = p->place_count;
        p->places[p->place_count++] = place;
    }
    return p->place_of[place];
}

static void head(page *p, const char *title)
{
    text *h = &p->html;
    text_add(h,
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"generator\" content=\"tern %d.%d.%d\">\n"
             "<link rel=\"icon\" href=\"data:,\">\n<title>Memory: ",
             TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
    text_html(h, title);
    text_add(h, "</title>\n<style>\n");
    text_bytes(h, page_css, page_css_bytes);
    text_add(h, "</style>\n</head>\n<body>\n<header><h1>Memory report</h1><p class=\"file\">");
    text_html(h, title);
    text_add(h,
             "</p></header>\n<noscript><p class=\"note\">Hovering over a chart needs JavaScript; "
             "everything else is here.</p></noscript>\n");
}

static void begin_device(page *p, int32_t device)
{
    const snapshot_device *d = &p->s->devices[device];
    text_add(&p->html, "<section class=\"device\" data-device=\"%d\">\n<h2>", (int)device);
    text_html(&p->html, d->name);
    text_add(&p->html, "</h2>\n");
    text_add(&p->data, "%s{\"name\":", device == 0 ? "" : ",");
    text_json(&p->data, d->name);
}

static bool add_device(page *p, int32_t device)
{
    analysis a;
    const bool made = analysis_make(p->s, device, &a);
    if (made) {
        begin_device(p, device);
        page_summary(p, &a);
        page_timeline(p, &a);
        page_tables(p, &a);
        page_segments(p, &a);
        text_add(&p->html, "</section>\n");
        text_add(&p->data, "}");
    }
    analysis_free(&a);
    return made;
}

static void add_places(page *p)
{
    const snapshot *s = p->s;
    text_add(&p->data, "],\"places\":[");
    for (int32_t i = 0; i < p->place_count; i++) {
        text_add(&p->data, "%s[%d,", i == 0 ? "" : ",", (int)s->site_of[p->places[i]]);
        text_json(&p->data, s->stacks.text[p->places[i]]);
        text_add(&p->data, "]");
    }
    text_add(&p->data, "]}");
}

static void foot(page *p)
{
    text *h = &p->html;
    text_add(h,
             "<footer>Written by tern memory-report %d.%d.%d</footer>\n"
             "<div id=\"tip\" hidden></div>\n<script type=\"application/json\" id=\"data\">",
             TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
    text_bytes(h, p->data.bytes, p->data.size);
    text_add(h, "</script>\n<script>\n");
    text_bytes(h, page_js, page_js_bytes);
    text_add(h, "</script>\n</body>\n</html>\n");
}

static bool begin(page *p, const snapshot *s)
{
    *p = (page){ .s = s };
    const size_t bytes = (size_t)s->stacks.count * sizeof *p->places;
    p->place_of = malloc(bytes);
    p->places = malloc(bytes);
    if (p->place_of == NULL || p->places == NULL)
        return false;
    memset(p->place_of, 0xff, bytes);
    return true;
}

bool page_make(const snapshot *s, const char *title, page *out)
{
    if (!begin(out, s))
        return false;
    head(out, title);
    text_add(&out->data, "{\"devices\":[");
    for (int32_t d = 0; d < s->device_count; d++)
        if (!add_device(out, d))
            return false;
    if (s->device_count == 0)
        text_add(&out->html,
                 "<p class=\"note\">The snapshot is empty: no segment was reserved, and no "
                 "event was recorded.</p>\n");
    add_places(out);
    foot(out);
    return !out->html.failed && !out->data.failed;
}

void page_free(page *p)
{
    text_free(&p->html);
    text_free(&p->data);
    free(p->place_of);
    free(p->places);
    *p = (page){ 0 };
}
