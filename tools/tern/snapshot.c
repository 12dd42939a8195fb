/* From JSON to checked tables. What is wrong is named by its place in the document, as in
 * "segments[3].blocks[7].size". */
#include "tools/tern/snapshot.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tern/snapshot_places.h"

typedef struct reader {
    snapshot *out;
    char *error;
    char path[96];                  /* of the object that is read */
    int64_t segment_sum, event_sum; /* bytes so far */
} reader;

/* No sum of a report can overflow when these do not. */
static const int64_t sum_limit = INT64_C(1) << 60;

static bool wrong(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(reader *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->error, SNAPSHOT_ERROR_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static bool no_memory(reader *r)
{
    return wrong(r, "not enough memory to read it");
}

/* ---- members ---------------------------------------------------------------------------------- */

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* A whole number that a double holds exactly. An absent member is `absent`, unless that is -1. */
static bool whole(reader *r, const cJSON *object, const char *name, int64_t absent, int64_t *out)
{
    static const double limit = 9007199254740992.0; /* 2^53 */
    const cJSON *item = member(object, name);
    if (item == NULL && absent >= 0) {
        *out = absent;
        return true;
    }
    if (item == NULL)
        return wrong(r, "%s has no '%s'", r->path, name);
    const double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(value >= 0) || value >= limit || floor(value) != value)
        return wrong(r, "%s.%s is not a whole number from 0 to 2^53", r->path, name);
    *out = (int64_t)value;
    return true;
}

/* A stream is a handle: any number; what is no number is 0. */
static int64_t stream_of(const cJSON *object)
{
    const cJSON *item = member(object, "stream");
    const double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
    return fabs(value) < 9e15 ? (int64_t)value : 0;
}

static bool flag(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    return cJSON_IsTrue(item) || (cJSON_IsNumber(item) && item->valuedouble != 0);
}

/* ---- devices ---------------------------------------------------------------------------------- */

static int32_t device_by_name(snapshot *s, const char *name)
{
    for (int32_t d = 0; d < s->device_count; d++)
        if (strcmp(s->devices[d].name, name) == 0)
            return d;
    if (s->device_count == SNAPSHOT_DEVICES)
        return -1;
    snprintf(s->devices[s->device_count].name, SNAPSHOT_NAME_BYTES, "%s", name);
    return s->device_count++;
}

/* A device is a number (PyTorch: of a CUDA device) or a name. */
static bool device_of(reader *r, const cJSON *item, int32_t *out)
{
    char name[SNAPSHOT_NAME_BYTES] = "device 0";
    if (cJSON_IsString(item))
        snprintf(name, sizeof name, "%.30s", item->valuestring);
    else if (cJSON_IsNumber(item) && item->valuedouble >= -1 && item->valuedouble < 4096)
        snprintf(name, sizeof name, "device %d", (int)item->valuedouble);
    else if (item != NULL)
        return wrong(r, "%s.device is neither a number nor a name", r->path);
    *out = device_by_name(r->out, name);
    return *out >= 0 || wrong(r, "more than %d devices", SNAPSHOT_DEVICES);
}

/* ---- segments and blocks ---------------------------------------------------------------------- */

static bool block_state(reader *r, const cJSON *item, snapshot_state *out)
{
    const cJSON *state = member(item, "state");
    const char *text = cJSON_IsString(state) ? state->valuestring : "";
    if (strcmp(text, "active_allocated") == 0 || strcmp(text, "active") == 0)
        *out = SNAPSHOT_ACTIVE;
    else if (strcmp(text, "active_pending_free") == 0 || strcmp(text, "active_awaiting_free") == 0)
        *out = SNAPSHOT_PENDING;
    else if (strcmp(text, "inactive") == 0)
        *out = SNAPSHOT_INACTIVE;
    else
        return wrong(r,
                     "%s.state is '%.40s', not active_allocated, active_pending_free or inactive",
                     r->path, text);
    return true;
}

/* Older PyTorch keeps the frames, and the size that was asked for, in a block's history. */
static const cJSON *newest_history(const cJSON *item)
{
    const cJSON *history = member(item, "history");
    return cJSON_IsArray(history) ? history->child : NULL;
}

static bool read_block(reader *r, const cJSON *item, const snapshot_segment *segment, uint64_t next,
                       snapshot_block *out)
{
    if (!cJSON_IsObject(item))
        return wrong(r, "%s is not an object", r->path);
    int64_t address;
    if (!whole(r, item, "size", -1, &out->size) || !block_state(r, item, &out->state) ||
        !whole(r, item, "address", (int64_t)next, &address))
        return false;
    const cJSON *history = newest_history(item);
    int64_t real_size = out->size;
    if (history != NULL && !whole(r, history, "real_size", out->size, &real_size))
        return false;
    if (!whole(r, item, "requested_size", real_size, &out->requested))
        return false;
    if (out->requested > out->size)
        out->requested = out->size;
    out->address = (uint64_t)address;
    if (out->address < next)
        return wrong(r, "%s begins inside the block before it", r->path);
    if (out->address - segment->address > (uint64_t)segment->size ||
        (uint64_t)out->size > (uint64_t)segment->size - (out->address - segment->address))
        return wrong(r, "%s lies outside its segment", r->path);
    const cJSON *frames = member(item, "frames");
    if (frames == NULL && history != NULL)
        frames = member(history, "frames");
    out->place = snapshot_place(r->out, frames);
    return out->place >= 0 || no_memory(r);
}

static bool read_blocks(reader *r, const cJSON *blocks, int64_t number, snapshot_segment *segment)
{
    snapshot *s = r->out;
    uint64_t next = segment->address;
    int64_t i = 0;
    segment->first_block = s->block_count;
    for (const cJSON *item = blocks->child; item != NULL; item = item->next) {
        snprintf(r->path, sizeof r->path, "segments[%lld].blocks[%lld]", (long long)number,
                 (long long)i++);
        snapshot_block *block = &s->blocks[s->block_count];
        if (!read_block(r, item, segment, next, block))
            return false;
        next = block->address + (uint64_t)block->size;
        s->block_count++;
        segment->block_count++;
    }
    return true;
}

/* Graph captures have pools of their own: an id other than (0, 0). */
static bool is_private(const cJSON *id)
{
    if (!cJSON_IsArray(id))
        return false;
    for (const cJSON *part = id->child; part != NULL; part = part->next)
        if (cJSON_IsNumber(part) && part->valuedouble != 0)
            return true;
    return false;
}

/* PyTorch's files do not say how large the pages of its expandable segments are: as they are by default. */
static bool read_pages(reader *r, const cJSON *item, snapshot_segment *out)
{
    enum { SMALL_PAGE = 2 << 20, LARGE_PAGE = 20 << 20 };
    if (!flag(item, "is_expandable"))
        return true;
    if (!whole(r, item, "page_size", out->small ? SMALL_PAGE : LARGE_PAGE, &out->page_bytes))
        return false;
    return out->page_bytes > 0 || wrong(r, "%s.page_size is 0", r->path);
}

static bool read_segment(reader *r, const cJSON *item, int64_t number, snapshot_segment *out)
{
    snprintf(r->path, sizeof r->path, "segments[%lld]", (long long)number);
    if (!cJSON_IsObject(item))
        return wrong(r, "%s is not an object", r->path);
    int64_t address;
    if (!whole(r, item, "total_size", -1, &out->size) || !whole(r, item, "address", -1, &address) ||
        !device_of(r, member(item, "device"), &out->device))
        return false;
    const cJSON *blocks = member(item, "blocks"), *type = member(item, "segment_type");
    if (!cJSON_IsArray(blocks))
        return wrong(r, "%s has no array 'blocks'", r->path);
    r->segment_sum += out->size;
    if (r->segment_sum > sum_limit)
        return wrong(r, "%s: the sizes of all segments add up to 2^60 bytes and more", r->path);
    out->address = (uint64_t)address;
    out->stream = stream_of(item);
    out->small = cJSON_IsString(type) && strcmp(type->valuestring, "small") == 0;
    out->private_pool = is_private(member(item, "segment_pool_id"));
    return read_pages(r, item, out) && read_blocks(r, blocks, number, out);
}

static bool read_segments(reader *r, const cJSON *segments)
{
    snapshot *s = r->out;
    if (!cJSON_IsArray(segments))
        return wrong(r, "no array 'segments': this is not a memory snapshot");
    int64_t blocks = 0, count = 0;
    for (const cJSON *item = segments->child; item != NULL; item = item->next) {
        const cJSON *list = member(item, "blocks");
        blocks += cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
        count++;
    }
    s->segments = calloc((size_t)count + 1, sizeof *s->segments);
    s->blocks = calloc((size_t)blocks + 1, sizeof *s->blocks);
    if (s->segments == NULL || s->blocks == NULL)
        return no_memory(r);
    for (const cJSON *item = segments->child; item != NULL; item = item->next) {
        if (!read_segment(r, item, s->segment_count, &s->segments[s->segment_count]))
            return false;
        s->segment_count++;
    }
    return true;
}

/* ---- events ----------------------------------------------------------------------------------- */

static snapshot_action action_of(const char *text)
{
    static const char *const actions[] = {
        [SNAPSHOT_ALLOC] = "alloc",
        [SNAPSHOT_FREE_REQUESTED] = "free_requested",
        [SNAPSHOT_FREE_COMPLETED] = "free_completed",
        [SNAPSHOT_SEGMENT_ALLOC] = "segment_alloc",
        [SNAPSHOT_SEGMENT_FREE] = "segment_free",
        [SNAPSHOT_SEGMENT_MAP] = "segment_map",
        [SNAPSHOT_SEGMENT_UNMAP] = "segment_unmap",
        [SNAPSHOT_OOM] = "oom",
        [SNAPSHOT_TAKEN] = "snapshot",
    };
    for (int i = 0; i < SNAPSHOT_OTHER; i++)
        if (strcmp(text, actions[i]) == 0)
            return (snapshot_action)i;
    return SNAPSHOT_OTHER;
}

static bool read_event(reader *r, const cJSON *item, snapshot_event *out)
{
    const cJSON *action = member(item, "action");
    if (!cJSON_IsString(action))
        return wrong(r, "%s has no text 'action'", r->path);
    out->action = action_of(action->valuestring);
    int64_t address = 0;
    const bool is_oom = out->action == SNAPSHOT_OOM;
    const cJSON *device_free = is_oom ? member(item, "device_free") : NULL;
    const char *address_name = device_free != NULL ? "device_free" : "addr";
    const bool untold = cJSON_IsNumber(device_free) && device_free->valuedouble == -1;
    if (!whole(r, item, "size", 0, &out->size) ||
        (!untold && !whole(r, item, address_name, 0, &address)))
        return false;
    r->event_sum += out->size;
    if (r->event_sum > sum_limit)
        return wrong(r, "%s: the sizes of all events add up to 2^60 bytes and more", r->path);
    out->address = (uint64_t)address;
    out->stream = stream_of(item);
    out->time_us = -1;
    if (member(item, "time_us") != NULL && !whole(r, item, "time_us", -1, &out->time_us))
        return false;
    out->place = snapshot_place(r->out, member(item, "frames"));
    return out->place >= 0 || no_memory(r);
}

static bool read_trace(reader *r, const cJSON *trace, int number, snapshot_device *device)
{
    if (!cJSON_IsArray(trace))
        return wrong(r, "device_traces[%d] is not an array", number);
    device->events = calloc((size_t)cJSON_GetArraySize(trace) + 1, sizeof *device->events);
    if (device->events == NULL)
        return no_memory(r);
    for (const cJSON *item = trace->child; item != NULL; item = item->next) {
        snprintf(r->path, sizeof r->path, "device_traces[%d][%lld]", number,
                 (long long)device->event_count);
        if (!read_event(r, item, &device->events[device->event_count]))
            return false;
        device->event_count++;
    }
    return true;
}

/* The n-th trace belongs to device n; empty ones (PyTorch lists every device) are left out. */
static bool read_traces(reader *r, const cJSON *traces)
{
    if (traces == NULL)
        return true;
    if (!cJSON_IsArray(traces))
        return wrong(r, "'device_traces' is not an array");
    int number = 0;
    for (const cJSON *trace = traces->child; trace != NULL; trace = trace->next, number++) {
        char name[SNAPSHOT_NAME_BYTES];
        if (cJSON_IsArray(trace) && trace->child == NULL)
            continue;
        snprintf(name, sizeof name, "device %d", number);
        const int32_t device = device_by_name(r->out, name);
        if (device < 0)
            return wrong(r, "more than %d devices", SNAPSHOT_DEVICES);
        if (!read_trace(r, trace, number, &r->out->devices[device]))
            return false;
    }
    return true;
}

/* ---- documents -------------------------------------------------------------------------------- */

/* A document that is cut begins as one, and at its end a bracket or a string is open. */
static bool is_cut(const char *text, const char *end)
{
    int64_t depth = 0;
    bool in_string = false;
    while (text < end && strchr(" \t\r\n", *text) != NULL)
        text++;
    const bool is_empty = text == end;
    if (!is_empty && *text != '{' && *text != '[')
        return false;
    for (; text < end; text++) {
        if (*text == '"')
            in_string = !in_string;
        else if (in_string)
            text += *text == '\\' && text + 1 < end;
        else
            depth += (*text == '{' || *text == '[') - (*text == '}' || *text == ']');
    }
    return is_empty || in_string || depth > 0;
}

/* Of `at` in the text: "line 3, column 7". */
static const char *place_of(const char *text, const char *at, char place[64])
{
    int64_t line = 1, column = 1;
    for (const char *c = text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    snprintf(place, 64, "line %lld, column %lld", (long long)line, (long long)column);
    return place;
}

static void not_json(const char *text, int64_t bytes, const char *at, char *error)
{
    char place[64];
    if (is_cut(text, text + bytes)) {
        snprintf(error, SNAPSHOT_ERROR_BYTES,
                 "the JSON breaks off after %lld bytes: a truncated file?", (long long)bytes);
        return;
    }
    const int shown = (int)(text + bytes - at < 20 ? text + bytes - at : 20);
    snprintf(error, SNAPSHOT_ERROR_BYTES, "not JSON at %s: '%.*s'", place_of(text, at, place),
             shown, at);
}

/* A second snapshot behind the first would not be reported, and nobody would know. */
static bool is_alone(reader *r, const char *text, const char *end, const char *at)
{
    char place[64];
    while (at < end && *at != '\0' && strchr(" \t\r\n", *at) != NULL)
        at++;
    return at == end || wrong(r, "something follows the snapshot at %s: one file holds one",
                              place_of(text, at, place));
}

static bool read_document(reader *r, const cJSON *root)
{
    if (!snapshot_places_begin(r->out))
        return no_memory(r);
    if (cJSON_IsArray(root)) /* torch.cuda.memory_snapshot(): the segments alone */
        return read_segments(r, root);
    if (!cJSON_IsObject(root))
        return wrong(r, "neither an object nor an array: this is not a memory snapshot");
    return read_segments(r, member(root, "segments")) &&
           read_traces(r, member(root, "device_traces"));
}

bool snapshot_parse(const char *text, int64_t bytes, snapshot *out,
                    char error[SNAPSHOT_ERROR_BYTES])
{
    reader r = { .out = out, .error = error };
    *out = (snapshot){ 0 };
    const char *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, (size_t)bytes, &end, 0);
    if (root == NULL) {
        not_json(text, bytes, end, error);
        return false;
    }
    const bool done = is_alone(&r, text, text + bytes, end) && read_document(&r, root);
    cJSON_Delete(root);
    if (!done)
        snapshot_free(out);
    return done;
}

void snapshot_free(snapshot *s)
{
    for (int32_t d = 0; d < s->device_count; d++)
        free(s->devices[d].events);
    free(s->segments);
    free(s->blocks);
    free(s->site_of);
    names_free(&s->stacks);
    names_free(&s->sites);
    *s = (snapshot){ 0 };
}
