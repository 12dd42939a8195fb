/* Frames as texts. Which frame counts as the user's own: Python's before those of C++ below it, and
 * none of PyTorch's own files; tern records one frame, the caller's. */
#include "tools/tern/snapshot_places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 8, FRAME_BYTES = 320, SCANNED_FRAMES = 200 };

static const char no_place[] = "no site recorded";

static int32_t add(snapshot *s, const char *stack, const char *site)
{
    const int32_t site_number = names_add(&s->sites, site);
    const int32_t place = site_number < 0 ? -1 : names_add(&s->stacks, stack);
    if (place < 0)
        return -1;
    if (place >= s->site_capacity) {
        const int32_t capacity = s->stacks.capacity;
        int32_t *list = realloc(s->site_of, (size_t)capacity * sizeof *list);
        if (list == NULL)
            return -1;
        s->site_of = list;
        s->site_capacity = capacity;
    }
    s->site_of[place] = site_number;
    return place;
}

bool snapshot_places_begin(snapshot *s)
{
    return add(s, no_place, no_place) == 0;
}

static const char *text_of(const cJSON *frame, const char *member)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(frame, member);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static long long line_of(const cJSON *frame)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(frame, "line");
    const double line = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return line > 0 && line < 1e9 ? (long long)line : 0;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* 3: the user's own; 2: Python's; 1: has a file; 0: nothing known. */
static int rank(const cJSON *frame)
{
    const char *file = text_of(frame, "filename");
    if (file[0] == '\0' || strcmp(file, "??") == 0)
        return 0;
    if (strstr(file, "/torch/") != NULL || file[0] == '<')
        return ends_with(file, ".py") ? 2 : 1;
    return ends_with(file, ".py") || ends_with(file, ".c") ? 3 : 1;
}

static const cJSON *own_frame(const cJSON *frames)
{
    const cJSON *best = frames->child;
    int scanned = 0;
    for (const cJSON *f = frames->child; f != NULL && scanned < SCANNED_FRAMES; f = f->next) {
        scanned++;
        if (rank(f) > rank(best))
            best = f;
    }
    return best;
}

/* The last two parts of a path say enough; the stack has the whole. */
static const char *short_path(const char *path)
{
    int slashes = 0;
    for (const char *at = path + strlen(path); at > path; at--)
        if (at[-1] == '/' && ++slashes == 2)
            return at;
    return path;
}

static void frame_text(const cJSON *frame, const char *file, char text[FRAME_BYTES])
{
    const char *name = text_of(frame, "name");
    const long long line = line_of(frame);
    if (line > 0)
        snprintf(text, FRAME_BYTES, "%.200s:%lld%s%.80s", file, line, name[0] ? " " : "", name);
    else
        snprintf(text, FRAME_BYTES, "%.200s%s%.80s", file, name[0] ? " " : "", name);
}

typedef struct stack_text {
    char text[(FRAMES + 1) * (FRAME_BYTES + 1)];
    size_t used;
} stack_text;

static void add_frame(stack_text *stack, const cJSON *frame)
{
    char text[FRAME_BYTES];
    frame_text(frame, text_of(frame, "filename"), text);
    stack->used += (size_t)snprintf(stack->text + stack->used, sizeof stack->text - stack->used,
                                    "%s%s", stack->used > 0 ? "\n" : "", text);
}

int32_t snapshot_place(snapshot *s, const cJSON *frames)
{
    if (!cJSON_IsArray(frames) || frames->child == NULL)
        return 0;
    const cJSON *own = own_frame(frames);
    stack_text stack = { .used = 0 };
    char site[FRAME_BYTES];
    bool own_shown = false;
    int shown = 0;
    for (const cJSON *f = frames->child; f != NULL && shown < FRAMES; f = f->next) {
        if (rank(f) == 0)
            continue;
        add_frame(&stack, f);
        own_shown = own_shown || f == own;
        shown++;
    }
    if (!own_shown)
        add_frame(&stack, own);
    frame_text(own, short_path(text_of(own, "filename")), site);
    return site[0] == '\0' ? 0 : add(s, stack.text, site);
}
