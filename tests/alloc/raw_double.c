#include "tests/alloc/raw_double.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANGES = 4096, MAX_HANDLES = 4096 };

static const int64_t PAGE = 2 << 20;
static const uint64_t FIRST_ADDRESS = UINT64_C(0x7f0000000000);

/* Physical memory of virtual ranges. */
typedef struct raw_physical {
    int64_t bytes;
    int64_t mapped_pages;
    bool released;
} raw_physical;

struct raw_double {
    pthread_mutex_t lock;
    bool real;
    int64_t total, capacity, used; /* others on the device took total - capacity */
    int range_count;
    raw_range ranges[MAX_RANGES];      /* by address */
    raw_physical handles[MAX_HANDLES]; /* [0] is none; a free slot has no bytes */
    int64_t recorded[RAW_STREAMS], passed[RAW_STREAMS];
    int64_t events;
    char misuse[200];
};

raw_double *raw_create(int64_t capacity_bytes, bool real)
{
    raw_double *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    pthread_mutex_init(&d->lock, NULL);
    d->total = d->capacity = capacity_bytes;
    d->real = real;
    return d;
}

static void drop_range(raw_double *d, int i)
{
    if (d->real && d->ranges[i].kind == RAW_RANGE_PLAIN)
        free((void *)(uintptr_t)d->ranges[i].address);
    free(d->ranges[i].pages);
    d->range_count--;
    memmove(&d->ranges[i], &d->ranges[i + 1], (size_t)(d->range_count - i) * sizeof d->ranges[0]);
}

void raw_destroy(raw_double *d)
{
    if (d == NULL)
        return;
    while (d->range_count > 0)
        drop_range(d, d->range_count - 1);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static void lock(const raw_double *d)
{
    pthread_mutex_lock((pthread_mutex_t *)&d->lock);
}

static void unlock(const raw_double *d)
{
    pthread_mutex_unlock((pthread_mutex_t *)&d->lock);
}

static bool misused(raw_double *d, const char *call, uint64_t address, int64_t bytes,
                    const char *why)
{
    if (d->misuse[0] == '\0')
        snprintf(d->misuse, sizeof d->misuse, "%s(0x%llx, %lld): %s", call,
                 (unsigned long long)address, (long long)bytes, why);
    return false;
}

/* The range that holds the address, or -1. */
static int range_of(const raw_double *d, uint64_t address)
{
    for (int i = 0; i < d->range_count; i++) {
        const raw_range *r = &d->ranges[i];
        if (address >= r->address && address - r->address < (uint64_t)r->bytes)
            return i;
    }
    return -1;
}

static int64_t whole_pages(int64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* The lowest gap that fits; ranges start on pages. */
static uint64_t lowest_gap(const raw_double *d, int64_t bytes)
{
    uint64_t at = FIRST_ADDRESS;
    for (int i = 0; i < d->range_count; i++) {
        if (d->ranges[i].address >= at && d->ranges[i].address - at >= (uint64_t)bytes)
            break;
        at = d->ranges[i].address + (uint64_t)whole_pages(d->ranges[i].bytes);
    }
    return at;
}

static raw_range *insert(raw_double *d, uint64_t address, int64_t bytes, raw_kind kind)
{
    int i = d->range_count++;
    for (; i > 0 && d->ranges[i - 1].address > address; i--)
        d->ranges[i] = d->ranges[i - 1];
    d->ranges[i] = (raw_range){ .address = address, .bytes = bytes, .kind = kind };
    return &d->ranges[i];
}

uint64_t raw_alloc(raw_double *d, int64_t bytes)
{
    uint64_t address = 0;
    lock(d);
    if (bytes <= 0)
        misused(d, "alloc", 0, bytes, "not a size");
    else if (bytes <= d->capacity - d->used && d->range_count < MAX_RANGES) {
        address = d->real
                      ? (uint64_t)(uintptr_t)aligned_alloc((size_t)PAGE, (size_t)whole_pages(bytes))
                      : lowest_gap(d, bytes);
        if (address != 0) {
            insert(d, address, bytes, RAW_RANGE_PLAIN);
            d->used += bytes;
        }
    }
    unlock(d);
    return address;
}

bool raw_free(raw_double *d, uint64_t address, int64_t bytes)
{
    lock(d);
    const int i = range_of(d, address);
    bool good = i >= 0 && d->ranges[i].address == address && d->ranges[i].bytes == bytes &&
                d->ranges[i].kind == RAW_RANGE_PLAIN;
    if (good) {
        d->used -= bytes;
        drop_range(d, i);
    } else
        misused(d, "free", address, bytes, "no such live range");
    unlock(d);
    return good;
}

void raw_info(raw_double *d, int64_t *out_free, int64_t *out_total)
{
    lock(d);
    *out_free = d->capacity - d->used;
    *out_total = d->total;
    unlock(d);
}

uint64_t raw_reserve(raw_double *d, int64_t bytes)
{
    uint64_t address = 0;
    lock(d);
    uint32_t *pages = calloc((size_t)(bytes / PAGE) + 1, sizeof *pages);
    if (bytes <= 0 || bytes % PAGE != 0)
        misused(d, "reserve", 0, bytes, "not whole pages");
    else if (pages != NULL && d->range_count < MAX_RANGES) {
        address = lowest_gap(d, bytes);
        insert(d, address, bytes, RAW_RANGE_RESERVED)->pages = pages;
        pages = NULL;
    }
    free(pages);
    unlock(d);
    return address;
}

/* How many of the pages from `first` on have a handle. */
static int64_t mapped_pages(const raw_range *r, int64_t first, int64_t count)
{
    int64_t mapped = 0;
    for (int64_t i = first; i < first + count; i++)
        mapped += r->pages[i] != 0;
    return mapped;
}

bool raw_unreserve(raw_double *d, uint64_t address, int64_t bytes)
{
    lock(d);
    const int i = range_of(d, address);
    const bool good = i >= 0 && d->ranges[i].address == address && d->ranges[i].bytes == bytes &&
                      d->ranges[i].kind == RAW_RANGE_RESERVED &&
                      mapped_pages(&d->ranges[i], 0, bytes / PAGE) == 0;
    if (good)
        drop_range(d, i);
    else
        misused(d, "unreserve", address, bytes, "not reserved, or with pages mapped");
    unlock(d);
    return good;
}

uint32_t raw_handle(raw_double *d, int64_t bytes)
{
    uint32_t handle = 0;
    lock(d);
    if (bytes <= 0 || bytes % PAGE != 0)
        misused(d, "create", 0, bytes, "not whole pages");
    else if (bytes <= d->capacity - d->used) {
        for (uint32_t i = 1; i < MAX_HANDLES && handle == 0; i++)
            handle = d->handles[i].bytes == 0 ? i : 0;
        d->handles[handle] = (raw_physical){ .bytes = handle != 0 ? bytes : 0 };
        d->used += d->handles[handle].bytes;
    }
    unlock(d);
    return handle;
}

/* Physical memory goes back once it is neither held nor mapped. */
static void settle(raw_double *d, uint32_t handle)
{
    raw_physical *p = &d->handles[handle];
    if (!p->released || p->mapped_pages != 0)
        return;
    d->used -= p->bytes;
    *p = (raw_physical){ 0 };
}

/* The pages of [address, address + bytes) in a reserved range; NULL, with the misuse kept, when it is
 * no such thing. */
static raw_range *pages_of(raw_double *d, const char *call, uint64_t address, int64_t bytes,
                           int64_t *out_first)
{
    const int i = range_of(d, address);
    if (i < 0 || d->ranges[i].kind != RAW_RANGE_RESERVED || bytes <= 0 || bytes % PAGE != 0 ||
        (address - d->ranges[i].address) % (uint64_t)PAGE != 0 ||
        address + (uint64_t)bytes > d->ranges[i].address + (uint64_t)d->ranges[i].bytes) {
        misused(d, call, address, bytes, "not whole pages of a reserved range");
        return NULL;
    }
    *out_first = (int64_t)(address - d->ranges[i].address) / PAGE;
    return &d->ranges[i];
}

bool raw_map(raw_double *d, uint64_t address, int64_t bytes, uint32_t handle)
{
    int64_t first = 0;
    lock(d);
    const raw_range *r = pages_of(d, "map", address, bytes, &first);
    bool good = r != NULL;
    if (good && (handle == 0 || handle >= MAX_HANDLES || d->handles[handle].bytes != bytes ||
                 d->handles[handle].mapped_pages != 0))
        good = misused(d, "map", address, bytes, "not the size of a handle that is mapped nowhere");
    if (good && mapped_pages(r, first, bytes / PAGE) != 0)
        good = misused(d, "map", address, bytes, "some pages have a handle");
    for (int64_t i = first; good && i < first + bytes / PAGE; i++)
        r->pages[i] = handle;
    if (good)
        d->handles[handle].mapped_pages = bytes / PAGE;
    unlock(d);
    return good;
}

bool raw_unmap(raw_double *d, uint64_t address, int64_t bytes)
{
    int64_t first = 0;
    lock(d);
    const raw_range *r = pages_of(d, "unmap", address, bytes, &first);
    bool good = r != NULL;
    if (good && mapped_pages(r, first, bytes / PAGE) != bytes / PAGE)
        good = misused(d, "unmap", address, bytes, "some pages have no handle");
    for (int64_t i = first; good && i < first + bytes / PAGE; i++) {
        const uint32_t handle = r->pages[i];
        r->pages[i] = 0;
        d->handles[handle].mapped_pages--;
        settle(d, handle);
    }
    unlock(d);
    return good;
}

bool raw_release(raw_double *d, uint32_t handle)
{
    lock(d);
    const bool good = handle != 0 && handle < MAX_HANDLES && d->handles[handle].bytes != 0 &&
                      !d->handles[handle].released;
    if (good) {
        d->handles[handle].released = true;
        settle(d, handle);
    } else
        misused(d, "release", handle, 0, "no such handle is held");
    unlock(d);
    return good;
}

int64_t raw_record(raw_double *d, int stream)
{
    lock(d);
    const int64_t mark = ++d->recorded[stream];
    unlock(d);
    return mark;
}

bool raw_passed(raw_double *d, int stream, int64_t mark)
{
    lock(d);
    const bool passed = mark <= d->passed[stream];
    unlock(d);
    return passed;
}

void raw_wait(raw_double *d, int stream, int64_t mark)
{
    lock(d);
    if (mark > d->recorded[stream])
        misused(d, "event_synchronize", 0, mark, "never recorded");
    else if (mark > d->passed[stream])
        d->passed[stream] = mark;
    unlock(d);
}

void raw_wait_all(raw_double *d, int stream)
{
    lock(d);
    d->passed[stream] = d->recorded[stream];
    unlock(d);
}

void raw_event_made(raw_double *d)
{
    lock(d);
    d->events++;
    unlock(d);
}

void raw_event_gone(raw_double *d)
{
    lock(d);
    if (--d->events < 0)
        misused(d, "event_destroy", 0, 0, "more than were made");
    unlock(d);
}

void raw_advance(raw_double *d, int stream, int64_t n)
{
    lock(d);
    const int64_t ahead = d->recorded[stream] - d->passed[stream];
    d->passed[stream] += n < ahead ? n : ahead;
    unlock(d);
}

int64_t raw_marks_ahead(const raw_double *d, int stream)
{
    lock(d);
    const int64_t ahead = d->recorded[stream] - d->passed[stream];
    unlock(d);
    return ahead;
}

void raw_set_capacity(raw_double *d, int64_t bytes)
{
    lock(d);
    d->capacity = bytes;
    unlock(d);
}

int64_t raw_used(const raw_double *d)
{
    return d->used;
}

int64_t raw_live_handles(const raw_double *d)
{
    int64_t live = 0;
    for (int i = 1; i < MAX_HANDLES; i++)
        live += d->handles[i].bytes != 0;
    return live;
}

int64_t raw_live_ranges(const raw_double *d)
{
    return d->range_count;
}

int64_t raw_live_events(const raw_double *d)
{
    return d->events;
}

const char *raw_misuse(const raw_double *d)
{
    return d->misuse[0] != '\0' ? d->misuse : NULL;
}

static bool same_pages(const raw_range *x, const raw_range *y)
{
    for (int64_t i = 0; i < x->bytes / PAGE; i++) {
        if ((x->pages[i] == 0) != (y->pages[i] == 0))
            return false;
    }
    return true;
}

const char *raw_difference(const raw_double *a, const raw_double *b, char *text, int64_t text_bytes)
{
    const int count = a->range_count < b->range_count ? a->range_count : b->range_count;
    for (int i = 0; i < count; i++) {
        const raw_range *x = &a->ranges[i], *y = &b->ranges[i];
        if (x->address == y->address && x->bytes == y->bytes && x->kind == y->kind &&
            (x->kind == RAW_RANGE_PLAIN || same_pages(x, y)))
            continue;
        snprintf(text, (size_t)text_bytes, "range %d: 0x%llx+%lld or 0x%llx+%lld, or its pages", i,
                 (unsigned long long)x->address, (long long)x->bytes,
                 (unsigned long long)y->address, (long long)y->bytes);
        return text;
    }
    if (a->range_count == b->range_count)
        return NULL;
    snprintf(text, (size_t)text_bytes, "%d ranges or %d", a->range_count, b->range_count);
    return text;
}
