/* A raw double as the raw interface of a caching allocator: every call is counted and may be told to
 * fail. Stream s of the double is the pointer value s, so 0 is the default stream.
 *
 * A call that is told to fail and that gives something back (free, destroy, unmap, release,
 * unreserve) does its work and then says that it failed; any other does nothing. */
#ifndef TESTS_ALLOC_RAW_TABLE_H
#define TESTS_ALLOC_RAW_TABLE_H

#include <pthread.h>

#include "core/alloc/alloc.h"
#include "tests/alloc/raw_double.h"

/* ORDER RAW_FN: names in raw_table.c. */
typedef enum raw_fn {
    RAW_ALLOC,
    RAW_FREE,
    RAW_INFO,
    RAW_EVENT_CREATE,
    RAW_EVENT_RECORD,
    RAW_EVENT_QUERY,
    RAW_EVENT_SYNC,
    RAW_EVENT_DESTROY,
    RAW_STREAM_SYNC,
    RAW_RESERVE,
    RAW_UNRESERVE,
    RAW_CREATE,
    RAW_MAP,
    RAW_UNMAP,
    RAW_RELEASE,
    RAW_FN_COUNT
} raw_fn;

enum {
    RAW_WITHOUT_EVENTS = 1u << 0,
    RAW_WITHOUT_VMM = 1u << 1,
    RAW_WITHOUT_INFO = 1u << 2,
    RAW_WITHOUT_STREAMS = 1u << 3
};

typedef struct raw_table {
    raw_double *d; /* borrowed */
    core_alloc_raw raw;
    core_alloc_vmm vmm;
    pthread_mutex_t lock;
    int64_t calls[RAW_FN_COUNT];
    int64_t fail_in[RAW_FN_COUNT]; /* calls until the failure; 0: none */
    int64_t fail_any_in;
    int64_t fail_more;  /* calls that fail after the one that fail_any asks for; 0 at first */
    int64_t failing;    /* of them still to come */
    tern_status_t code; /* of a failure asked for; TERN_ERR_BACKEND at first */
    int64_t failures;   /* asked for and done since the last was asked for */
} raw_table;

/* In place: table->raw refers to the table. */
void raw_table_init(raw_table *table, raw_double *d, unsigned without);
void raw_table_deinit(raw_table *table);

/* The k-th call of fn from now on fails with table->code (k = 1: the next); 0: none does. */
void raw_fail(raw_table *table, raw_fn fn, int64_t k);
/* The k-th call from now on, of whatever function. */
void raw_fail_any(raw_table *table, int64_t k);
/* How many have happened since the last one was asked for. */
int64_t raw_failures(raw_table *table);
int64_t raw_calls(raw_table *table, raw_fn fn);
const char *raw_fn_name(raw_fn fn);

#endif
