/* Reads CUDA_VISIBLE_DEVICES: see list.h. */
#include "core/visible/list.h"

#include <limits.h>
#include <string.h>

typedef core_visible_part part;

static int is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static part stripped(part p)
{
    while (p.length > 0 && is_blank(p.text[0])) {
        p.text++;
        p.length--;
    }
    while (p.length > 0 && is_blank(p.text[p.length - 1]))
        p.length--;
    return p;
}

static int same(part a, part b)
{
    return a.length == b.length && memcmp(a.text, b.text, (size_t)a.length) == 0;
}

static int begins(part p, const char *prefix)
{
    const size_t n = strlen(prefix);
    return (size_t)p.length >= n && memcmp(p.text, prefix, n) == 0;
}

/* One sign, then digits; what follows the digits is not looked at (D043, D046). A number that is too
 * large for an int is the largest int. Returns END_OF_TEXT, END_NEGATIVE or END_GARBAGE. */
static core_visible_end read_index(part p, int *out_index)
{
    int i = 0, value = 0, digits = 0;
    const int negative = p.length > 0 && p.text[0] == '-';
    if (p.length > 0 && (negative || p.text[0] == '+'))
        i++;
    for (; i < p.length && p.text[i] >= '0' && p.text[i] <= '9'; i++, digits++)
        value = value > (INT_MAX - 9) / 10 ? INT_MAX : 10 * value + (p.text[i] - '0');
    *out_index = value;
    if (digits == 0)
        return CORE_VISIBLE_END_GARBAGE;
    return negative && value > 0 ? CORE_VISIBLE_END_NEGATIVE : CORE_VISIBLE_END_OF_TEXT;
}

/* Numbers that no int holds are told apart by their text. */
static int repeats(const core_visible_list *list, part p, int index)
{
    const int by_number = list->form == CORE_VISIBLE_INDEX && index < INT_MAX;
    for (int i = 0; i < list->count; i++)
        if (by_number ? list->index[i] == index : same(list->part[i], p))
            return 1;
    return 0;
}

static core_visible_end read_element(core_visible_list *list, part *p, const char *prefix)
{
    int index = 0;
    if (list->form == CORE_VISIBLE_INDEX) {
        *p = stripped(*p);
        const core_visible_end end = read_index(*p, &index);
        if (end != CORE_VISIBLE_END_OF_TEXT)
            return end;
    } else if (!begins(*p, prefix)) {
        return CORE_VISIBLE_END_GARBAGE;
    }
    if (repeats(list, *p, index)) {
        list->count = 0;
        return CORE_VISIBLE_END_REPEATED;
    }
    if (list->count == CORE_VISIBLE_MOST)
        return CORE_VISIBLE_END_TOO_MANY;
    list->index[list->count] = index;
    list->part[list->count++] = *p;
    return CORE_VISIBLE_END_OF_TEXT;
}

static int bounded_length(const char *text)
{
    const size_t n = strlen(text);
    return n < INT_MAX ? (int)n : INT_MAX;
}

void core_visible_parse(const char *text, core_visible_list *out_list)
{
    memset(out_list, 0, sizeof *out_list);
    out_list->form = CORE_VISIBLE_ALL;
    out_list->end = CORE_VISIBLE_END_OF_TEXT;
    if (text == NULL)
        return;
    part rest = { text, bounded_length(text) };
    const part bare = stripped(rest);
    if (bare.length == 0 || same(bare, (part){ "-1", 2 })) {
        out_list->form = CORE_VISIBLE_NONE;
        return;
    }
    const char *prefix = begins(rest, "GPU-") ? "GPU-" : "MIG-";
    out_list->form = begins(rest, "GPU-")   ? CORE_VISIBLE_UUID
                     : begins(rest, "MIG-") ? CORE_VISIBLE_MIG
                                            : CORE_VISIBLE_INDEX;
    for (;;) {
        const char *comma = memchr(rest.text, ',', (size_t)rest.length);
        part p = { rest.text, comma != NULL ? (int)(comma - rest.text) : rest.length };
        out_list->end = read_element(out_list, &p, prefix);
        if (out_list->end != CORE_VISIBLE_END_OF_TEXT) {
            out_list->ended_by = p;
            return;
        }
        if (comma == NULL)
            return;
        rest.length -= (int)(comma + 1 - rest.text);
        rest.text = comma + 1;
    }
}

/* The one device whose UUID begins so, or -1 (D052). */
static int by_uuid(part p, int device_count, const char *const *uuids)
{
    int found = -1;
    for (int i = 0; i < device_count; i++)
        if (strncmp(uuids[i], p.text, (size_t)p.length) == 0) {
            if (found >= 0)
                return -1;
            found = i;
        }
    return found;
}

int core_visible_resolve(const core_visible_list *list, int device_count, const char *const *uuids,
                         int out_index[CORE_VISIBLE_MOST], core_visible_end *out_end)
{
    *out_end = list->end;
    if (list->form == CORE_VISIBLE_MIG || (list->form == CORE_VISIBLE_UUID && uuids == NULL))
        return list->count == 0 ? 0 : -1;
    const int all = list->form == CORE_VISIBLE_ALL;
    const int wanted = all ? device_count : list->count;
    int count = 0;
    for (int i = 0; i < wanted && count < CORE_VISIBLE_MOST; i++) {
        const int device = all ? i
                           : list->form == CORE_VISIBLE_INDEX
                               ? list->index[i]
                               : by_uuid(list->part[i], device_count, uuids);
        if (device < 0 || device >= device_count) {
            *out_end = device < 0 ? CORE_VISIBLE_END_UNKNOWN : CORE_VISIBLE_END_TOO_LARGE;
            return count;
        }
        for (int j = 0; j < count; j++)
            if (out_index[j] == device) {
                *out_end = CORE_VISIBLE_END_REPEATED;
                return 0;
            }
        out_index[count++] = device;
    }
    return count;
}

int core_visible_by_bus(const char *device_order)
{
    return device_order != NULL && strcmp(device_order, "PCI_BUS_ID") == 0;
}
