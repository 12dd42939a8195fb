/* The first screen: six figures, and what stands out in words. */
#include <stdio.h>

#include "tools/tern/page.h"

static void tile(page *p, const char *name, int64_t bytes, const char *note)
{
    char size[TEXT_SIZE_BYTES];
    text_add(&p->html, "<div class=\"tile\"><dt>%s</dt><dd>%s</dd><p>%s</p></div>\n", name,
             text_size(bytes, size), note);
}

static int percent(int64_t part, int64_t whole)
{
    return whole > 0 ? (int)(100.0 * (double)part / (double)whole + 0.5) : 0;
}

static void tiles(page *p, const analysis *a)
{
    const analysis_totals *n = &a->now;
    char note[96], size[TEXT_SIZE_BYTES];
    text_add(&p->html, "<dl class=\"tiles\">\n");
    int64_t active = 0;
    for (int64_t i = 0; i < a->site_count; i++)
        active += a->sites[i].live_blocks;
    snprintf(note, sizeof note, "%lld blocks, %s asked for", (long long)active,
             text_size(n->requested, size));
    tile(p, "Allocated", n->allocated, note);
    snprintf(note, sizeof note, "in %lld segments", (long long)n->segments);
    tile(p, "Reserved", n->reserved, note);
    tile(p, "Peak allocated", a->peak_allocated,
         a->bucket_count == 0  ? "now: nothing was recorded"
         : a->counts_requested ? "in the trace, as asked for"
                               : "in the trace");
    snprintf(note, sizeof note, "%d %% of what is reserved", percent(n->free_bytes, n->reserved));
    tile(p, "Free in the cache", n->free_bytes, note);
    tile(p, "Largest free block", n->largest_free, "the most that fits without new memory");
    snprintf(note, sizeof note, "in %lld segments: all of it, or free pages",
             (long long)n->whole_segments);
    tile(p, "empty_cache returns", n->whole_bytes, note);
    text_add(&p->html, "</dl>\n");
}

/* ---- findings --------------------------------------------------------------------------------- */

static void finding(page *p, const char *kind, const char *words)
{
    text_add(&p->html, "<li class=\"%s\">", kind);
    text_html(&p->html, words);
    text_add(&p->html, "</li>\n");
}

static void oom_finding(page *p, const analysis *a, const analysis_oom *oom)
{
    const snapshot_event *e = &p->s->devices[a->device].events[oom->event];
    char words[640], size[4][TEXT_SIZE_BYTES];
    int used = snprintf(words, sizeof words,
                        "Out of memory: %s were asked for at %.200s, with %s "
                        "allocated and %s reserved",
                        text_size(e->size, size[0]), p->s->sites.text[p->s->site_of[e->place]],
                        text_size(oom->allocated, size[1]), text_size(oom->reserved, size[2]));
    if (e->address > 0 && e->address < 1ull << 53)
        used += snprintf(words + used, sizeof words - (size_t)used, "; the device had %s free",
                         text_size((int64_t)e->address, size[3]));
    const bool fits = oom->reserved - oom->allocated - oom->pending >= e->size;
    snprintf(words + used, sizeof words - (size_t)used, "%s",
             fits ? ". The cache held that much, in pieces: expandable_segments:True or a "
                    "max_split_size_mb keeps large blocks whole."
                  : ". The sites below say what held it.");
    finding(p, "bad", words);
}

static void cache_findings(page *p, const analysis_totals *n)
{
    char words[320], size[2][TEXT_SIZE_BYTES];
    if (n->split_bytes > n->reserved / 5) {
        snprintf(words, sizeof words,
                 "%s are free beside blocks in use, in %lld segments: empty_cache cannot return "
                 "them. The largest free block has %s.",
                 text_size(n->split_bytes, size[0]), (long long)n->split_segments,
                 text_size(n->largest_free, size[1]));
        finding(p, "note", words);
    }
    if (n->allocated - n->requested > n->allocated / 10) {
        snprintf(words, sizeof words, "%s of what is allocated is rounding: %d %%.",
                 text_size(n->allocated - n->requested, size[0]),
                 percent(n->allocated - n->requested, n->allocated));
        finding(p, "note", words);
    }
    if (n->pending > n->reserved / 100) {
        snprintf(words, sizeof words, "%s are let go but wait for the streams that used them.",
                 text_size(n->pending, size[0]));
        finding(p, "note", words);
    }
}

static void site_finding(page *p, const analysis *a)
{
    if (a->site_count < 2 || a->sites[0].site < 0 || a->now.allocated == 0 ||
        a->sites[0].live_bytes < a->now.allocated / 2)
        return;
    char words[480], size[TEXT_SIZE_BYTES];
    snprintf(words, sizeof words, "%d %% of what is allocated was made at %.300s (%s).",
             percent(a->sites[0].live_bytes, a->now.allocated), p->s->sites.text[a->sites[0].site],
             text_size(a->sites[0].live_bytes, size));
    finding(p, "note", words);
}

void page_summary(page *p, const analysis *a)
{
    enum { SHOWN = 5 };
    tiles(p, a);
    text_add(&p->html, "<ul class=\"findings\">\n");
    for (int64_t i = 0; i < a->oom_count && i < SHOWN; i++)
        oom_finding(p, a, &a->ooms[i]);
    if (a->oom_count > SHOWN) {
        char words[64];
        snprintf(words, sizeof words, "Out of memory %lld times more.",
                 (long long)(a->oom_count - SHOWN));
        finding(p, "bad", words);
    }
    site_finding(p, a);
    cache_findings(p, &a->now);
    text_add(&p->html, "</ul>\n");
}
