/* Memory of simulated devices and pinned host memory.
 *
 * Each arena is one file in memory, mapped twice: the program holds addresses of a view that nobody
 * may touch (pinned memory: that the host may), kernels and copies use the alias. An allocation ends
 * where a page of the alias ends and the next one is closed, so that running past it faults; what
 * rounding to 256 bytes leaves in between, and to pages before it, holds patterns. Freed addresses are not given out again
 * until the address space is used up, so that use after free faults, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend_cuda/sim/sim.h"
#include "backend_cuda/sim/undefined.h"
#include "core/descriptor.h"

enum {
    PAGE = 4096,
    ALIGNMENT = 256,
    PINNED = SIM_DEVICES,
    ARENAS,
    SLACK_BYTE = 0xA5,
    HEAD_BYTE = 0xFF
};
enum { MOST_DEAD = 1 << 14, OF_HANDLE = 1 << 20 };
/* Valgrind has 128 GiB of addresses for the whole program. */
#define ARENA_BYTES ((int64_t)(sim_is_watched() ? 1 : 64) << 30)

typedef struct arena {
    char *view, *alias;
    int file;
    int error;             /* why it could not be opened when it was tried last; 0: it could */
    int64_t next;          /* first offset never used */
    int64_t used;          /* bytes in live allocations */
    sim_allocation **list; /* by address; dead ones stay for messages */
    int64_t count, room, dead;
} arena;

static arena arenas[ARENAS];
static int64_t numbers;
static sim_allocation *opened[64];
static int opened_count;

/* ---- arenas ---------------------------------------------------------------------------------- */

/* Pointers are found in kernels' structures by their value, and beside a 32-bit number may lie padding
 * with half of some old address. So what is given out begins at addresses whose lower half is no number
 * that kernels get; under valgrind, whose addresses are low, they are no two numbers that a walk
 * (walk.h) has side by side. NULL: there is no room. */
static void *place_for(int index, bool alias)
{
    const uintptr_t half = (uintptr_t)1 << 32, lower = 0x90000000u;
    if (sim_is_watched())
        return (void *)(((uintptr_t)(13 + index) << 32) + ((uintptr_t)(alias ? 2 : 1) << 30));
    const size_t room = (size_t)ARENA_BYTES + half;
    char *free_room =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (free_room == MAP_FAILED)
        return NULL;
    (void)munmap(free_room, room);
    return free_room + ((lower - (uintptr_t)free_room) & (half - 1));
}

/* What was got of it goes. */
static bool not_opened(arena *a, void *view, void *alias)
{
    a->error = errno;
    if (view != MAP_FAILED)
        (void)munmap(view, (size_t)ARENA_BYTES);
    if (alias != MAP_FAILED)
        (void)munmap(alias, (size_t)ARENA_BYTES);
    if (a->file >= 0)
        (void)close(a->file);
    return false;
}

static bool open_arena(arena *a, int index)
{
    if (a->view != NULL)
        return true;
    const int host_may = index == PINNED ? PROT_READ | PROT_WRITE : PROT_NONE;
    a->file = core_descriptor_lift(memfd_create("tern_sim", MFD_CLOEXEC));
    if (a->file < 0 || ftruncate(a->file, ARENA_BYTES) != 0)
        return not_opened(a, MAP_FAILED, MAP_FAILED);
    void *view = mmap(place_for(index, false), (size_t)ARENA_BYTES, host_may,
                      MAP_SHARED | MAP_NORESERVE, a->file, 0);
    void *alias = mmap(place_for(index, true), (size_t)ARENA_BYTES, PROT_NONE,
                       MAP_SHARED | MAP_NORESERVE, a->file, 0);
    if (view == MAP_FAILED || alias == MAP_FAILED)
        return not_opened(a, view, alias);
    (void)madvise(view, (size_t)ARENA_BYTES, MADV_DONTDUMP);
    (void)madvise(alias, (size_t)ARENA_BYTES, MADV_DONTDUMP);
    a->view = view;
    a->alias = alias;
    a->error = 0;
    a->next = PAGE;
    return true;
}

static int index_of(int device)
{
    return device < 0 ? PINNED : device;
}

static arena *arena_at(const void *address, bool alias, int *out_index)
{
    for (int i = 0; i < ARENAS; i++) {
        const char *base = alias ? arenas[i].alias : arenas[i].view;
        const char *p = address;
        if (base != NULL && p >= base && p < base + ARENA_BYTES) {
            *out_index = i;
            return &arenas[i];
        }
    }
    return NULL;
}

bool sim_memory_is_ours(const void *view, int *out_device)
{
    int index = 0;
    if (arena_at(view, false, &index) == NULL)
        return false;
    *out_device = index == PINNED ? -1 : index;
    return true;
}

bool sim_memory_was_given(const void *view)
{
    int index = 0;
    const arena *a = arena_at(view, false, &index);
    return a != NULL && (const char *)view < a->view + a->next;
}

void *sim_memory_alias(const void *view)
{
    int index = 0;
    const arena *a = arena_at(view, false, &index);
    return a != NULL ? a->alias + ((const char *)view - a->view) : NULL;
}

char *sim_memory_view_of(const void *alias)
{
    int index = 0;
    const arena *a = arena_at(alias, true, &index);
    return a != NULL ? a->view + ((const char *)alias - a->alias) : NULL;
}

/* ---- the list of allocations ----------------------------------------------------------------- */

static int64_t rounded(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Index of the last allocation that begins at or before the address, or -1. */
static int64_t last_before(const arena *a, const char *view)
{
    int64_t low = 0, high = a->count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (a->list[middle]->view <= view)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

sim_allocation *sim_memory_find(const void *view)
{
    int index = 0;
    const arena *a = arena_at(view, false, &index);
    const int64_t at = a != NULL ? last_before(a, view) : -1;
    return at >= 0 ? a->list[at] : NULL;
}

static void drop(sim_allocation *x)
{
    sim_order_forget(x);
    free(x->pages);
    free(x);
}

static void forget_dead(arena *a)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < a->count; i++) {
        if (a->list[i]->live)
            a->list[kept++] = a->list[i];
        else
            drop(a->list[i]);
    }
    a->count = kept;
    a->dead = 0;
}

static bool insert(arena *a, sim_allocation *fresh)
{
    if (a->count == a->room) {
        const int64_t room = a->room > 0 ? 2 * a->room : 256;
        void *list = realloc(a->list, (size_t)room * sizeof *a->list);
        if (list == NULL)
            return false;
        a->list = list;
        a->room = room;
    }
    const int64_t at = last_before(a, fresh->view) + 1;
    memmove(a->list + at + 1, a->list + at, (size_t)(a->count - at) * sizeof *a->list);
    a->list[at] = fresh;
    a->count++;
    return true;
}

/* Pages of an allocation and the closed one behind it. */
static int64_t span_of(int64_t bytes)
{
    return rounded(bytes > 0 ? bytes : 1, PAGE) + PAGE;
}

static int64_t start_of(const arena *a, const sim_allocation *x)
{
    return (x->view - a->view) / PAGE * PAGE;
}

/* Room for `span` bytes: fresh addresses while there are some, then gaps. -1: none. */
static int64_t find_room(arena *a, int64_t span)
{
    if (a->next + span <= ARENA_BYTES) {
        const int64_t at = a->next;
        a->next += span;
        return at;
    }
    forget_dead(a);
    int64_t at = PAGE;
    for (int64_t i = 0; i < a->count; i++) {
        const int64_t start = start_of(a, a->list[i]);
        if (start - at >= span)
            return at;
        at = start + span_of(rounded(a->list[i]->bytes, ALIGNMENT));
    }
    return ARENA_BYTES - at >= span ? at : -1;
}

cudaError_t sim_memory_none(int device)
{
    const int error = arenas[index_of(device)].error;
    if (error == 0)
        return cudaErrorMemoryAllocation;
    sim_report(
        cudaErrorOperatingSystem,
        "%s; the simulator wants %lld GiB of addresses for each device and for pinned memory",
        error == ENOMEM ? "no address space (ulimit -v)" : strerror(error),
        (long long)(2 * (ARENA_BYTES >> 30)));
    return cudaErrorOperatingSystem;
}

/* ---- taking and giving back ------------------------------------------------------------------ */

static char *alias_of(const sim_allocation *x)
{
    return sim_memory_alias(x->view);
}

static int64_t slack_of(const sim_allocation *x)
{
    return rounded(x->bytes, ALIGNMENT) - x->bytes;
}

/* From the beginning of its first page. */
static int64_t head_of(const sim_allocation *x)
{
    return (x->view - arenas[index_of(x->device)].view) % PAGE;
}

static void fill_fresh(const sim_allocation *x)
{
    memset(alias_of(x), 0xFF, (size_t)x->bytes); /* NaN: nobody wrote it */
    if (x->device >= 0) /* what the host writes to pinned memory goes to its view */
        sim_undefined_mark(alias_of(x), (size_t)x->bytes);
    memset(alias_of(x) + x->bytes, SLACK_BYTE, (size_t)slack_of(x));
    memset(alias_of(x) - head_of(x), HEAD_BYTE, (size_t)head_of(x)); /* NaN for who reads it */
}

sim_allocation *sim_memory_alloc(int device, int64_t bytes, void *caller)
{
    arena *a = &arenas[index_of(device)];
    const int64_t size = rounded(bytes > 0 ? bytes : 1, ALIGNMENT);
    const int64_t limit = device < 0 ? ARENA_BYTES / 4 : sim_config.memory;
    if (size > limit - a->used || !open_arena(a, index_of(device)))
        return NULL;
    if (a->dead > MOST_DEAD)
        forget_dead(a);
    const int64_t at = find_room(a, span_of(size));
    sim_allocation *x = at >= 0 ? calloc(1, sizeof *x) : NULL;
    if (x == NULL)
        return NULL;
    const int64_t pages = rounded(size, PAGE);
    x->view = a->view + at + (pages - size);
    x->bytes = bytes;
    x->device = device;
    x->live = true;
    x->caller = caller;
    if (mprotect(a->alias + at, (size_t)pages, PROT_READ | PROT_WRITE) != 0 || !insert(a, x)) {
        free(x);
        return NULL;
    }
    x->number = ++numbers;
    a->used += size;
    sim_counters.allocations++;
    fill_fresh(x);
    return x;
}

void sim_memory_free(sim_allocation *x)
{
    arena *a = &arenas[index_of(x->device)];
    const int64_t size = rounded(x->bytes > 0 ? x->bytes : 1, ALIGNMENT);
    const int64_t at = start_of(a, x), pages = rounded(size, PAGE);
    (void)mprotect(a->alias + at, (size_t)pages, PROT_NONE);
    if (x->device < 0)
        (void)mprotect(a->view + at, (size_t)pages, PROT_READ | PROT_WRITE);
    (void)fallocate(a->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, pages);
    x->live = false;
    a->used -= size;
    a->dead++;
}

/* ---- virtual memory --------------------------------------------------------------------------- */

sim_allocation *sim_memory_reserve(int device, int64_t bytes, void *caller)
{
    arena *a = &arenas[index_of(device)];
    if (bytes > ARENA_BYTES || !open_arena(a, index_of(device)))
        return NULL;
    const int64_t at = find_room(a, span_of(bytes + SIM_GRANULARITY));
    sim_allocation *x = at >= 0 ? calloc(1, sizeof *x) : NULL;
    if (x == NULL)
        return NULL;
    const uintptr_t first = (uintptr_t)(a->view + at) + SIM_GRANULARITY - 1;
    x->view =
        a->view + at + (first / SIM_GRANULARITY * SIM_GRANULARITY - (uintptr_t)(a->view + at));
    x->bytes = bytes;
    x->device = device;
    x->live = true;
    x->caller = caller;
    x->pages = calloc((size_t)(bytes / SIM_GRANULARITY), sizeof *x->pages);
    if (x->pages == NULL || !insert(a, x)) {
        free(x->pages);
        free(x);
        return NULL;
    }
    x->number = ++numbers;
    return x;
}

void sim_memory_unreserve(sim_allocation *x)
{
    x->live = false;
    arenas[index_of(x->device)].dead++;
}

bool sim_memory_open_pages(sim_allocation *x, int64_t first, int64_t count)
{
    char *alias = alias_of(x) + first * SIM_GRANULARITY;
    const size_t bytes = (size_t)(count * SIM_GRANULARITY);
    if (mprotect(alias, bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    for (int64_t i = first; i < first + count; i++) {
        if (!x->pages[i].open) { /* NaN: nobody wrote it */
            memset(alias + (i - first) * SIM_GRANULARITY, 0xFF, SIM_GRANULARITY);
            sim_undefined_mark(alias + (i - first) * SIM_GRANULARITY, SIM_GRANULARITY);
        }
        x->pages[i].open = true;
    }
    return true;
}

void sim_memory_close_pages(sim_allocation *x, int64_t first, int64_t count)
{
    const arena *a = &arenas[index_of(x->device)];
    char *view = x->view + first * SIM_GRANULARITY;
    const int64_t bytes = count * SIM_GRANULARITY;
    (void)mprotect(sim_memory_alias(view), (size_t)bytes, PROT_NONE);
    (void)fallocate(a->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, view - a->view, bytes);
    for (int64_t i = first; i < first + count; i++)
        x->pages[i] = (sim_page){ 0, false, 0 };
}

void sim_memory_use(int device, int64_t bytes)
{
    arenas[index_of(device)].used += bytes;
}

bool sim_memory_holds(const sim_allocation *x, int64_t from, int64_t bytes)
{
    if (!x->live || from < 0 || from + bytes > x->bytes)
        return false;
    for (int64_t at = from; x->pages != NULL && at < from + bytes;
         at = (at / SIM_GRANULARITY + 1) * SIM_GRANULARITY)
        if (!x->pages[at / SIM_GRANULARITY].open)
            return false;
    return true;
}

bool sim_memory_for_handle(int device)
{
    const bool room = sim_memory_used(device) + OF_HANDLE <= sim_config.memory;
    if (room)
        sim_memory_use(device, OF_HANDLE);
    return room;
}

void sim_memory_of_handle_ends(int device)
{
    sim_memory_use(device, -(int64_t)OF_HANDLE);
}

int64_t sim_memory_used(int device)
{
    return arenas[index_of(device)].used;
}

/* Whether all bytes are `value`; they are afterwards. */
static bool was_whole(char *bytes, int64_t n, int value)
{
    bool whole = true;
    for (int64_t i = 0; i < n; i++)
        whole = whole && (unsigned char)bytes[i] == value;
    if (!whole)
        memset(bytes, value, (size_t)n);
    return whole;
}

const char *sim_memory_overrun(const sim_allocation *x)
{
    const bool before = !was_whole(alias_of(x) - head_of(x), head_of(x), HEAD_BYTE);
    const bool behind = !was_whole(alias_of(x) + x->bytes, slack_of(x), SLACK_BYTE);
    return behind ? "past the end of" : before ? "before the beginning of" : NULL;
}

/* ---- guards ---------------------------------------------------------------------------------- */

static void protect_view(const sim_allocation *x, int protection)
{
    const arena *a = &arenas[index_of(x->device)];
    const int64_t size = rounded(x->bytes > 0 ? x->bytes : 1, ALIGNMENT);
    (void)mprotect(a->view + start_of(a, x), (size_t)rounded(size, PAGE), protection);
}

void sim_memory_guard(sim_allocation *pinned, bool host_may_read)
{
    pinned->in_flight++;
    protect_view(pinned, host_may_read ? PROT_READ : PROT_NONE);
}

void sim_memory_unguard(sim_allocation *pinned)
{
    if (--pinned->in_flight == 0 && pinned->live)
        protect_view(pinned, PROT_READ | PROT_WRITE);
}

void sim_memory_open_view(sim_allocation *x)
{
    if (x->opened || opened_count == (int)(sizeof opened / sizeof *opened))
        return;
    x->opened = true;
    opened[opened_count++] = x;
    protect_view(x, PROT_READ | PROT_WRITE);
}

void sim_memory_close_views(void)
{
    while (opened_count > 0) {
        sim_allocation *x = opened[--opened_count];
        x->opened = false;
        protect_view(x, PROT_NONE);
    }
}

void sim_memory_describe(const sim_allocation *x, char *text, size_t size)
{
    char where[96], device[32] = "pinned host memory";
    sim_place(x->caller, where, sizeof where);
    if (x->device >= 0)
        (void)snprintf(device, sizeof device, "cuda:%d (simulated)", x->device);
    (void)snprintf(text, size, "allocation #%lld (%lld bytes on %s, made by %s%s)",
                   (long long)x->number, (long long)x->bytes, device, where,
                   x->live ? "" : ", freed");
}

/* The host's pages are as they were and its own from now on, those of devices closed; without the file nothing is
 * given back. */
void sim_memory_leave(void)
{
    for (int i = 0; i < ARENAS; i++) {
        arena *a = &arenas[i];
        if (a->view == NULL || a->file < 0)
            continue;
        const int host_may = i == PINNED ? PROT_READ | PROT_WRITE : PROT_NONE;
        (void)mmap(a->view, (size_t)ARENA_BYTES, host_may, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
                   a->file, 0);
        (void)mprotect(a->alias, (size_t)ARENA_BYTES, PROT_NONE);
        (void)close(a->file);
        a->file = -1;
    }
}

void sim_memory_reset(void)
{
    sim_memory_close_views();
    for (int i = 0; i < ARENAS; i++) {
        arena *a = &arenas[i];
        if (a->view == NULL)
            continue;
        (void)munmap(a->view, (size_t)ARENA_BYTES);
        (void)munmap(a->alias, (size_t)ARENA_BYTES);
        (void)close(a->file);
        for (int64_t k = 0; k < a->count; k++)
            drop(a->list[k]);
        free(a->list);
        *a = (arena){ 0 };
    }
    numbers = 0;
}
