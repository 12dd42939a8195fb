/* The page of `tern memory-report`: one HTML text without anything from outside. Everything that can be
 * read is in the HTML itself; the script adds what hovering and clicking show. */
#ifndef TOOLS_TERN_PAGE_H
#define TOOLS_TERN_PAGE_H

#include "tools/tern/analysis.h"
#include "tools/tern/text.h"

typedef struct page {
    text html;
    text data; /* JSON for the script: see page/report.js */
    const snapshot *s;
    int32_t *place_of; /* place -> its number in the page's data, -1: not there yet */
    int32_t *places;   /* the other way */
    int32_t place_count;
} page;

/* The whole page; `title` is shown as it is. False without memory; to be freed in any case. */
bool page_make(const snapshot *s, const char *title, page *out);
void page_free(page *p);

/* A place's number in the page's data. */
int32_t page_place(page *p, int32_t place);

/* The parts, in their order on the page. */
void page_summary(page *p, const analysis *a);  /* figures, findings */
void page_timeline(page *p, const analysis *a); /* html, and "buckets" of the data */
void page_tables(page *p, const analysis *a);   /* sites, where the bytes are */
void page_segments(page *p, const analysis *a); /* html, and "segments" of the data */

/* page/report.css and page/report.js, put in by the build. */
extern const char page_css[], page_js[];
extern const unsigned page_css_bytes, page_js_bytes;

#endif
