/* Segments as bars with their blocks, drawn to one scale. Neighbours that would be narrower than two
 * pixels become one piece, so that a page has some ten thousand pieces at most. */
#include <stdlib.h>

#include "tools/tern/page.h"

enum { ROW = 1180, ROWS = 8, LEAST_WIDTH = 160, BAR_HEIGHT = 24, SEGMENTS = 400 };
static const double least_piece = 2;

/* A run of neighbouring blocks that is drawn as one. */
typedef struct piece {
    int64_t offset, size, requested, blocks;
    int64_t of_state[3]; /* bytes */
    const snapshot_block *largest;
} piece;

static const char *const state_class[] = {
    [SNAPSHOT_INACTIVE] = "f", [SNAPSHOT_ACTIVE] = "a", [SNAPSHOT_PENDING] = "w"
};

static snapshot_state main_state(const piece *run)
{
    snapshot_state most = SNAPSHOT_INACTIVE;
    for (int state = SNAPSHOT_ACTIVE; state <= SNAPSHOT_PENDING; state++)
        if (run->of_state[state] > run->of_state[most])
            most = (snapshot_state)state;
    return most;
}

static void add_to_piece(piece *run, const snapshot_block *b, uint64_t segment)
{
    if (run->blocks == 0)
        run->offset = (int64_t)(b->address - segment);
    run->size = (int64_t)(b->address - segment) + b->size - run->offset;
    run->requested += b->state != SNAPSHOT_INACTIVE ? b->requested : 0;
    run->of_state[b->state] += b->size;
    run->blocks++;
    if (run->largest == NULL || b->size > run->largest->size)
        run->largest = b;
}

/* HTML: a rectangle. Data: [address, size, requested, state, blocks, place], in the same order. */
static void draw_piece(page *p, const piece *run, double per_byte, bool is_first)
{
    const snapshot_state state = main_state(run);
    const double width = (double)run->size * per_byte;
    text_add(&p->html, "<rect class=\"%s\" x=\"%.1f\" width=\"%.1f\" height=\"%d\"/>",
             state_class[state], (double)run->offset * per_byte,
             width > 3   ? width - 1
             : width > 1 ? width - 0.3
                         : width,
             BAR_HEIGHT);
    text_add(&p->data, "%s[%llu,%lld,%lld,%d,%lld,%d]", is_first ? "" : ",",
             (unsigned long long)run->largest->address, (long long)run->size,
             (long long)run->requested, (int)state, (long long)run->blocks,
             (int)page_place(p, run->largest->place));
}

static void draw_blocks(page *p, const snapshot_segment *segment, double per_byte)
{
    piece run = { 0 };
    bool is_first = true;
    for (int64_t i = 0; i < segment->block_count; i++) {
        const snapshot_block *b = &p->s->blocks[segment->first_block + i];
        const bool is_wide = (double)b->size * per_byte >= least_piece;
        if (run.blocks > 0 && (is_wide || (double)run.size * per_byte >= least_piece)) {
            draw_piece(p, &run, per_byte, is_first);
            run = (piece){ 0 };
            is_first = false;
        }
        add_to_piece(&run, b, segment->address);
    }
    if (run.blocks > 0)
        draw_piece(p, &run, per_byte, is_first);
}

static int64_t bytes_in_use(const page *p, const snapshot_segment *segment)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < segment->block_count; i++) {
        const snapshot_block *b = &p->s->blocks[segment->first_block + i];
        sum += b->state != SNAPSHOT_INACTIVE ? b->size : 0;
    }
    return sum;
}

static const char *kind_of(const snapshot_segment *segment)
{
    if (segment->private_pool)
        return "private";
    return segment->page_bytes != 0 ? "expandable" : segment->small ? "small" : "large";
}

static void draw_segment(page *p, const snapshot_segment *segment, double scale, bool is_first)
{
    char size[TEXT_SIZE_BYTES];
    double width = (double)segment->size * scale;
    const bool is_widened = width < LEAST_WIDTH;
    width = is_widened ? LEAST_WIDTH : width > ROW ? ROW : width;
    const double used =
        segment->size > 0 ? 100 * (double)bytes_in_use(p, segment) / (double)segment->size : 0;
    text_add(&p->html,
             "<figure style=\"width:%.0fpx\"><figcaption>%s%s <span>%s, %.0f %% used</span>"
             "</figcaption><svg viewBox=\"0 0 %.0f %d\" preserveAspectRatio=\"none\">",
             width, is_widened ? "~" : "", text_size(segment->size, size), kind_of(segment), used,
             width, BAR_HEIGHT);
    text_add(&p->data, "%s[%llu,%lld,%lld,\"%s\",[", is_first ? "" : ",",
             (unsigned long long)segment->address, (long long)segment->size,
             (long long)segment->stream, kind_of(segment));
    draw_blocks(p, segment, segment->size > 0 ? width / (double)segment->size : 0);
    text_add(&p->data, "]]");
    text_add(&p->html, "</svg></figure>\n");
}

/* ---- the list --------------------------------------------------------------------------------- */

static int by_size(const void *left, const void *right)
{
    const snapshot_segment *a = *(const snapshot_segment *const *)left,
                           *b = *(const snapshot_segment *const *)right;
    if (a->size != b->size)
        return a->size < b->size ? 1 : -1;
    return a->address < b->address ? -1 : a->address > b->address;
}

/* The segments of the device, largest first; NULL without memory. */
static const snapshot_segment **sorted(const page *p, const analysis *a)
{
    const snapshot_segment **list = malloc(((size_t)a->now.segments + 1) * sizeof *list);
    int64_t count = 0;
    for (int64_t i = 0; list != NULL && i < p->s->segment_count; i++)
        if (p->s->segments[i].device == a->device)
            list[count++] = &p->s->segments[i];
    if (list != NULL)
        qsort(list, (size_t)count, sizeof *list, by_size);
    return list;
}

/* The largest takes a row, unless all together would then take more than ROWS. */
static double scale_of(const snapshot_segment *largest, int64_t reserved)
{
    const double by_row = ROW / ((double)largest->size + 1);
    const double by_page = (double)ROW * ROWS / ((double)reserved + 1);
    return by_row < by_page ? by_row : by_page;
}

static void draw_list(page *p, const analysis *a, const snapshot_segment **list)
{
    char size[TEXT_SIZE_BYTES];
    const int64_t shown = a->now.segments < SEGMENTS ? a->now.segments : SEGMENTS;
    const double scale = scale_of(list[0], a->now.reserved);
    int64_t left_out = a->now.reserved;
    text_add(&p->html, "<div class=\"segments\">\n");
    for (int64_t i = 0; i < shown; i++) {
        draw_segment(p, list[i], scale, i == 0);
        left_out -= list[i]->size;
    }
    text_add(&p->html, "</div>\n");
    if (shown < a->now.segments)
        text_add(&p->html, "<p class=\"note\">%lld smaller segments (%s) are not drawn.</p>\n",
                 (long long)(a->now.segments - shown), text_size(left_out, size));
}

void page_segments(page *p, const analysis *a)
{
    text_add(&p->html, "<h3>Segments and their blocks</h3>\n");
    text_add(&p->data, ",\"segments\":[");
    const snapshot_segment **list = sorted(p, a);
    if (list == NULL) {
        p->html.failed = true;
    } else if (a->now.segments == 0) {
        text_add(&p->html, "<p class=\"note\">Nothing is reserved.</p>\n");
    } else {
        text_add(&p->html,
                 "<p class=\"legend\"><i class=\"k-active\"></i>active"
                 "<i class=\"k-pending\"></i>awaiting free<i class=\"k-free\"></i>inactive"
                 "<span>bars to scale; ~ drawn wider</span></p>\n");
        draw_list(p, a, list);
    }
    text_add(&p->data, "]");
    free(list);
}
