#include "tests/alloc/raw_table.h"

#include <stdlib.h>
#include <string.h>

/* ORDER RAW_FN */
/* clang-format off */
static const char *const fn_names[RAW_FN_COUNT] = {
    "alloc", "free", "info", "event_create", "event_record", "event_query", "event_synchronize",
    "event_destroy", "stream_synchronize", "reserve", "unreserve", "create", "map", "unmap",
    "release"
};
/* clang-format on */

static const int64_t GRANULARITY = 2 << 20;

#define TRY(call)                             \
    do {                                      \
        const tern_status_t status_ = (call); \
        if (status_ != TERN_OK)               \
            return status_;                   \
    } while (0)

/* A recorded event waits for a mark; one that never was recorded has passed. */
typedef struct raw_event {
    int stream;
    int64_t mark;
} raw_event;

const char *raw_fn_name(raw_fn fn)
{
    return fn_names[fn];
}

/* Counts the call. TERN_OK, or the code that it was told to fail with. */
static tern_status_t count(raw_table *t, raw_fn fn)
{
    pthread_mutex_lock(&t->lock);
    t->calls[fn]++;
    bool failed = t->fail_in[fn] > 0 && --t->fail_in[fn] == 0;
    if (t->failing > 0) {
        t->failing--;
        failed = true;
    }
    if (t->fail_any_in > 0 && --t->fail_any_in == 0) {
        t->failing = t->fail_more;
        failed = true;
    }
    t->failures += failed;
    const tern_status_t status = failed ? t->code : TERN_OK;
    pthread_mutex_unlock(&t->lock);
    return status;
}

static int number_of(const void *stream)
{
    return (int)(uintptr_t)stream;
}

static tern_status_t table_alloc(void *context, int64_t bytes, void *stream, void **out_data)
{
    raw_table *t = context;
    (void)stream;
    TRY(count(t, RAW_ALLOC));
    *out_data = (void *)(uintptr_t)raw_alloc(t->d, bytes);
    return *out_data != NULL ? TERN_OK : TERN_ERR_OOM;
}

static tern_status_t table_free(void *context, void *data, int64_t bytes, void *stream)
{
    raw_table *t = context;
    (void)stream;
    raw_free(t->d, (uint64_t)(uintptr_t)data, bytes);
    return count(t, RAW_FREE);
}

static tern_status_t table_info(void *context, int64_t *out_free, int64_t *out_total)
{
    raw_table *t = context;
    TRY(count(t, RAW_INFO));
    raw_info(t->d, out_free, out_total);
    return TERN_OK;
}

static tern_status_t table_event_create(void *context, void **out_event)
{
    raw_table *t = context;
    TRY(count(t, RAW_EVENT_CREATE));
    *out_event = calloc(1, sizeof(raw_event));
    if (*out_event == NULL)
        return TERN_ERR_OOM;
    raw_event_made(t->d);
    return TERN_OK;
}

static tern_status_t table_event_record(void *context, void *event, void *stream)
{
    raw_table *t = context;
    raw_event *e = event;
    TRY(count(t, RAW_EVENT_RECORD));
    e->stream = number_of(stream);
    e->mark = raw_record(t->d, e->stream);
    return TERN_OK;
}

static tern_status_t table_event_query(void *context, void *event, bool *out_done)
{
    raw_table *t = context;
    const raw_event *e = event;
    TRY(count(t, RAW_EVENT_QUERY));
    *out_done = raw_passed(t->d, e->stream, e->mark);
    return TERN_OK;
}

static tern_status_t table_event_synchronize(void *context, void *event)
{
    raw_table *t = context;
    const raw_event *e = event;
    TRY(count(t, RAW_EVENT_SYNC));
    raw_wait(t->d, e->stream, e->mark);
    return TERN_OK;
}

static tern_status_t table_event_destroy(void *context, void *event)
{
    raw_table *t = context;
    raw_event_gone(t->d);
    free(event);
    return count(t, RAW_EVENT_DESTROY);
}

static tern_status_t table_stream_synchronize(void *context, void *stream)
{
    raw_table *t = context;
    TRY(count(t, RAW_STREAM_SYNC));
    raw_wait_all(t->d, number_of(stream));
    return TERN_OK;
}

static int64_t table_granularity(void *context)
{
    (void)context;
    return GRANULARITY;
}

static tern_status_t table_reserve(void *context, int64_t bytes, void **out_address)
{
    raw_table *t = context;
    TRY(count(t, RAW_RESERVE));
    *out_address = (void *)(uintptr_t)raw_reserve(t->d, bytes);
    return *out_address != NULL ? TERN_OK : TERN_ERR_OOM;
}

static tern_status_t table_unreserve(void *context, void *address, int64_t bytes)
{
    raw_table *t = context;
    raw_unreserve(t->d, (uint64_t)(uintptr_t)address, bytes);
    return count(t, RAW_UNRESERVE);
}

static tern_status_t table_create(void *context, int64_t bytes, uint64_t *out_handle)
{
    raw_table *t = context;
    TRY(count(t, RAW_CREATE));
    *out_handle = raw_handle(t->d, bytes);
    return *out_handle != 0 ? TERN_OK : TERN_ERR_OOM;
}

static tern_status_t table_map(void *context, void *address, int64_t bytes, uint64_t handle)
{
    raw_table *t = context;
    TRY(count(t, RAW_MAP));
    return raw_map(t->d, (uint64_t)(uintptr_t)address, bytes, (uint32_t)handle) ? TERN_OK
                                                                                : TERN_ERR_BACKEND;
}

static tern_status_t table_unmap(void *context, void *address, int64_t bytes)
{
    raw_table *t = context;
    raw_unmap(t->d, (uint64_t)(uintptr_t)address, bytes);
    return count(t, RAW_UNMAP);
}

static tern_status_t table_release(void *context, uint64_t handle)
{
    raw_table *t = context;
    raw_release(t->d, (uint32_t)handle);
    return count(t, RAW_RELEASE);
}

static const core_alloc_vmm vmm_calls = { .granularity = table_granularity,
                                          .reserve = table_reserve,
                                          .unreserve = table_unreserve,
                                          .create = table_create,
                                          .map = table_map,
                                          .unmap = table_unmap,
                                          .release = table_release };

static const core_alloc_raw raw_calls_all = { .alloc = table_alloc,
                                              .free = table_free,
                                              .info = table_info,
                                              .event_create = table_event_create,
                                              .event_record = table_event_record,
                                              .event_query = table_event_query,
                                              .event_synchronize = table_event_synchronize,
                                              .event_destroy = table_event_destroy,
                                              .stream_synchronize = table_stream_synchronize };

void raw_table_init(raw_table *table, raw_double *d, unsigned without)
{
    memset(table, 0, sizeof *table);
    pthread_mutex_init(&table->lock, NULL);
    table->d = d;
    table->code = TERN_ERR_BACKEND;
    table->vmm = vmm_calls;
    table->raw = raw_calls_all;
    table->raw.context = table;
    table->raw.vmm = without & RAW_WITHOUT_VMM ? NULL : &table->vmm;
    if (without & RAW_WITHOUT_INFO)
        table->raw.info = NULL;
    if (without & RAW_WITHOUT_STREAMS)
        table->raw.stream_synchronize = NULL;
    if (without & RAW_WITHOUT_EVENTS) {
        table->raw.event_create = NULL;
        table->raw.event_record = NULL;
        table->raw.event_query = NULL;
        table->raw.event_synchronize = NULL;
        table->raw.event_destroy = NULL;
    }
}

void raw_table_deinit(raw_table *table)
{
    pthread_mutex_destroy(&table->lock);
}

void raw_fail(raw_table *table, raw_fn fn, int64_t k)
{
    pthread_mutex_lock(&table->lock);
    table->fail_in[fn] = k;
    table->failures = 0;
    pthread_mutex_unlock(&table->lock);
}

void raw_fail_any(raw_table *table, int64_t k)
{
    pthread_mutex_lock(&table->lock);
    table->fail_any_in = k;
    table->failing = 0;
    table->failures = 0;
    pthread_mutex_unlock(&table->lock);
}

int64_t raw_failures(raw_table *table)
{
    pthread_mutex_lock(&table->lock);
    const int64_t failures = table->failures;
    pthread_mutex_unlock(&table->lock);
    return failures;
}

int64_t raw_calls(raw_table *table, raw_fn fn)
{
    pthread_mutex_lock(&table->lock);
    const int64_t calls = table->calls[fn];
    pthread_mutex_unlock(&table->lock);
    return calls;
}
