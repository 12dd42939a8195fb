/* A scripted double of a device's raw memory: address ranges, virtual memory, and streams on which
 * nothing happens until the test says so.
 *
 * Addresses are a pure function of what is live (the lowest gap that fits, ranges may touch), so two
 * doubles that serve the same requests in any order give the same addresses. Time is counted in
 * marks: recording an event puts the next mark on its stream; the test lets marks pass.
 * Misuse is kept as a text instead of acted upon. raw_table.h makes it a raw interface that counts
 * and fails. All functions may be called from any thread. */
#ifndef TESTS_ALLOC_RAW_DOUBLE_H
#define TESTS_ALLOC_RAW_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>

enum { RAW_STREAMS = 16 };

typedef enum raw_kind { RAW_RANGE_PLAIN, RAW_RANGE_RESERVED } raw_kind;

typedef struct raw_range {
    uint64_t address;
    int64_t bytes;
    raw_kind kind;
    uint32_t *pages; /* of a reserved range: the handle mapped in each 2 MiB, 0: none */
} raw_range;

typedef struct raw_double raw_double;

/* real: ranges are memory of the process (no virtual memory then); else addresses that nobody may
 * touch. */
raw_double *raw_create(int64_t capacity_bytes, bool real);
/* Frees the double and whatever is left in it. */
void raw_destroy(raw_double *d);

/* What others on the device leave of it; not more than at first. */
void raw_set_capacity(raw_double *d, int64_t bytes);
int64_t raw_used(const raw_double *d);
/* Ranges, plain and reserved, handles and events that have not been given back. */
int64_t raw_live_handles(const raw_double *d);
int64_t raw_live_ranges(const raw_double *d);
int64_t raw_live_events(const raw_double *d);
/* The first misuse (a free of what is not live, a map of what is mapped, ...), or NULL. */
const char *raw_misuse(const raw_double *d);
/* NULL when both hold the same ranges with the same pages mapped, else what differs. */
const char *raw_difference(const raw_double *a, const raw_double *b, char *text,
                           int64_t text_bytes);

/* Raw calls. A failed one returns 0 or false and changes nothing. */
uint64_t raw_alloc(raw_double *d, int64_t bytes);
bool raw_free(raw_double *d, uint64_t address, int64_t bytes);
void raw_info(raw_double *d, int64_t *out_free, int64_t *out_total);
uint64_t raw_reserve(raw_double *d, int64_t bytes);
bool raw_unreserve(raw_double *d, uint64_t address, int64_t bytes);
/* A handle of physical memory, which counts against the capacity until it is released and mapped
 * nowhere. Sizes are whole pages. */
uint32_t raw_handle(raw_double *d, int64_t bytes);
/* The whole handle, once, into pages of a reserved range that have none. */
bool raw_map(raw_double *d, uint64_t address, int64_t bytes, uint32_t handle);
bool raw_unmap(raw_double *d, uint64_t address, int64_t bytes);
bool raw_release(raw_double *d, uint32_t handle);

/* The next mark of the stream, which has not passed yet. */
int64_t raw_record(raw_double *d, int stream);
bool raw_passed(raw_double *d, int stream, int64_t mark);
/* Waits: the stream's marks up to this one pass. */
void raw_wait(raw_double *d, int stream, int64_t mark);
void raw_wait_all(raw_double *d, int stream);
void raw_event_made(raw_double *d);
void raw_event_gone(raw_double *d);

/* The test lets n more marks of the stream pass, as many as there are. */
void raw_advance(raw_double *d, int stream, int64_t n);
int64_t raw_marks_ahead(const raw_double *d, int stream);

#endif
