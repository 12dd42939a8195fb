/* Who holds memory, and where the reserved bytes are. */
#include <stdio.h>

#include "tools/tern/page.h"

enum { SITES = 40 };

static const char *site_name(const page *p, const analysis_site *site)
{
    return site->site < 0 ? "allocated before the trace begins" : p->s->sites.text[site->site];
}

/* A size with its bar: `share` of the column's greatest. */
static void size_cell(page *p, int64_t bytes, int64_t greatest)
{
    char size[TEXT_SIZE_BYTES];
    text_add(&p->html,
             "<td class=\"n\" data-v=\"%lld\">%s</td><td class=\"bar\"><b style=\"width:%.1f%%\">"
             "</b></td>",
             (long long)bytes, text_size(bytes, size),
             greatest > 0 ? 100 * (double)bytes / (double)greatest : 0);
}

static void site_row(page *p, const analysis *a, const analysis_site *site)
{
    text_add(&p->html, "<tr data-site=\"%d\"><td class=\"site\">", (int)site->site);
    text_html(&p->html, site_name(p, site));
    text_add(&p->html, "</td>");
    size_cell(p, site->live_bytes, a->now.allocated);
    text_add(&p->html, "<td class=\"n\" data-v=\"%lld\">%lld</td>", (long long)site->live_blocks,
             (long long)site->live_blocks);
    size_cell(p, site->peak_bytes, a->peak_allocated);
    text_add(&p->html, "<td class=\"n\" data-v=\"%lld\">%lld</td></tr>\n",
             (long long)site->peak_blocks, (long long)site->peak_blocks);
}

/* Shown are the first SITES by live bytes, and of the others those that held most at the peak. */
static bool is_shown(const analysis *a, int64_t number)
{
    return number < SITES || a->sites[number].peak_bytes > a->peak_allocated / SITES;
}

static void site_table(page *p, const analysis *a)
{
    text_add(&p->html, "<div><h3>Sites</h3>\n");
    if (a->site_count == 0) {
        text_add(&p->html, "<p class=\"note\">Nothing is allocated.</p></div>\n");
        return;
    }
    text_add(&p->html,
             "<div class=\"scroll\"><table class=\"sites\"><thead><tr><th>made at</th><th "
             "class=\"n\" colspan=\"2\">live now"
             "</th><th class=\"n\">blocks</th><th class=\"n\" colspan=\"2\">at the peak</th>"
             "<th class=\"n\">blocks</th></tr></thead><tbody>\n");
    int64_t left_out = 0;
    for (int64_t i = 0; i < a->site_count; i++) {
        if (is_shown(a, i))
            site_row(p, a, &a->sites[i]);
        else
            left_out++;
    }
    text_add(&p->html, "</tbody></table></div>\n");
    if (left_out > 0)
        text_add(&p->html, "<p class=\"note\">%lld sites that hold less are left out.</p>\n",
                 (long long)left_out);
    text_add(&p->html, "</div>\n");
}

/* ---- where the bytes are ---------------------------------------------------------------------- */

static void byte_row(page *p, const char *name, int64_t bytes, const char *meaning)
{
    char size[TEXT_SIZE_BYTES];
    text_add(&p->html,
             "<tr><td>%s</td><td class=\"n\" title=\"%lld bytes\">%s</td><td>%s</td></tr>\n", name,
             (long long)bytes, text_size(bytes, size), meaning);
}

static void byte_table(page *p, const analysis *a)
{
    const analysis_totals *n = &a->now;
    char words[120];
    text_add(&p->html,
             "<div><h3>Where the reserved bytes are</h3>\n<table class=\"bytes\"><tbody>\n");
    byte_row(p, "Reserved", n->reserved, "taken from the device");
    byte_row(p, "Asked for", n->requested, "by tensors that live");
    byte_row(p, "Rounding", n->allocated - n->requested, "allocated beyond what was asked for");
    byte_row(p, "Awaiting free", n->pending, "let go; a stream may still use it");
    snprintf(words, sizeof words,
             "in %lld segments: without a block in use, or pages of expandable ones",
             (long long)n->whole_segments);
    byte_row(p, "Wholly free", n->whole_bytes, words);
    snprintf(words, sizeof words, "beside blocks in use, in %lld segments",
             (long long)n->split_segments);
    byte_row(p, "Free in pieces", n->split_bytes, words);
    byte_row(p, "Largest free block", n->largest_free, "");
    text_add(&p->html,
             "<tr><td>Fragmentation</td><td class=\"n\">%.0f %%</td><td>of the free bytes lie "
             "outside the largest free block</td></tr>\n</tbody></table></div>\n",
             n->free_bytes > 0 ? 100 * (1 - (double)n->largest_free / (double)n->free_bytes) : 0);
}

void page_tables(page *p, const analysis *a)
{
    text_add(&p->html, "<div class=\"tables\">\n");
    site_table(p, a);
    byte_table(p, a);
    text_add(&p->html, "</div>\n");
}
