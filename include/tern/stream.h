/* Streams and events: the order of work on devices (rows S001-S029).
 *
 * Work of a device is queued on the calling thread's current stream of it, the default stream at first.
 * Streams are not ordered among each other unless one waits: before work of stream b uses what stream a
 * makes, b waits for a (tern_stream_wait_stream, or an event); and a tensor whose memory b uses past the
 * tensor's end is recorded (tern_record_stream). The CPU has one stream, whose work is done when a call
 * returns: waiting for it changes nothing. */
#ifndef TERN_STREAM_H
#define TERN_STREAM_H

#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams --------------------------------------------------------------------------------- */

/* A value; {0} is no stream. Nothing is to be freed. */
typedef struct tern_stream {
    tern_dev_t device;
    void *handle; /* the backend's own, a cudaStream_t; NULL: the device's default stream */
} tern_stream_t;

typedef struct tern_stream_args {
    size_t size_;
    tern_dev_t device; /* default: tern_default_device() */
    int priority;      /* 0 or negative: more urgent; cut to what the device has */
} tern_stream_args;
/* tern_stream_from_pool(dev) or tern_stream_from_pool(dev, .priority = -1): the next of 32 streams of
 * that priority, which live as long as the process; request 33 gives the first again (S003). They are
 * not ordered with the default stream (S004). {0} after an error. */
TERN_API tern_stream_t tern_stream_from_pool_at(tern_site_t site, const tern_stream_args *args);
#define tern_stream_from_pool(...) \
    tern_stream_from_pool_at(TERN_HERE, TERN_OPTIONS_(tern_stream_args, __VA_ARGS__))
/* A stream that another library made; it has to live while it is used, and as long as tensors that were recorded on
 * it (S008). cudaStreamLegacy is the default stream; cudaStreamPerThread, which is many, is an error. */
TERN_API tern_stream_t tern_stream_external_at(tern_site_t site, tern_dev_t dev, void *handle);
#define tern_stream_external(dev, handle) tern_stream_external_at(TERN_HERE, dev, handle)
/* The stream that each device has (S001). */
TERN_API tern_stream_t tern_default_stream_at(tern_site_t site, tern_dev_t dev);
#define tern_default_stream(dev) tern_default_stream_at(TERN_HERE, dev)

/* Where the calling thread's work for a device goes (S002). */
TERN_API tern_stream_t tern_current_stream_at(tern_site_t site, tern_dev_t dev);
#define tern_current_stream(dev) tern_current_stream_at(TERN_HERE, dev)
/* Makes the stream and its device the thread's current ones. {0} and the CPU's change nothing (S007). */
TERN_API tern_status_t tern_set_stream_at(tern_site_t site, tern_stream_t stream);
#define tern_set_stream(stream) tern_set_stream_at(TERN_HERE, stream)

/* Same device and handle (S012). */
static inline bool tern_stream_equal(tern_stream_t a, tern_stream_t b)
{
    return tern_dev_equal(a.device, b.device) && a.handle == b.handle;
}
/* 0, or negative for a stream from a pool of higher priority. */
TERN_API int tern_stream_priority(tern_stream_t stream);

/* Is all work done that was queued so far? Also true after an error, which is recorded (S011). */
TERN_API bool tern_stream_query_at(tern_site_t site, tern_stream_t stream);
#define tern_stream_query(stream) tern_stream_query_at(TERN_HERE, stream)
/* Waits for the work of this stream alone (S014), and reports faults that happened. */
TERN_API tern_status_t tern_stream_synchronize_at(tern_site_t site, tern_stream_t stream);
#define tern_stream_synchronize(stream) tern_stream_synchronize_at(TERN_HERE, stream)
/* Later work of `stream` starts when what `other` has queued so far is done; the host does not wait
 * (S009). */
TERN_API tern_status_t tern_stream_wait_stream_at(tern_site_t site, tern_stream_t stream,
                                                  tern_stream_t other);
#define tern_stream_wait_stream(stream, other) tern_stream_wait_stream_at(TERN_HERE, stream, other)

/* `stream`, one of the tensor's device or, of a pinned tensor, any, works with the tensor, too: after the tensor's end
 * its memory is not used again before that work is done (S025). Memory that tern did not allocate is the caller's affair
 * (S026). */
TERN_API tern_status_t tern_record_stream_at(tern_site_t site, tern_tensor *t,
                                             tern_stream_t stream);
#define tern_record_stream(t, stream) tern_record_stream_at(TERN_HERE, t, stream)

/* ---- events ---------------------------------------------------------------------------------- */

/* A mark in a stream's work. One thread at a time may use an event. */
typedef struct tern_event tern_event;
typedef struct tern_event_args {
    size_t size_;
    bool timing; /* it can tell times (S015) */
} tern_event_args;
/* Touches no device: the first record binds it to one. NULL without memory. */
TERN_API tern_event *tern_event_create_at(tern_site_t site, const tern_event_args *args);
#define tern_event_create(...) \
    tern_event_create_at(TERN_HERE, TERN_OPTIONS_(tern_event_args, __VA_ARGS__))
/* Waits that were asked for hold. NULL is fine. */
TERN_API void tern_event_release(tern_event *event);

/* Marks what `stream` has queued so far. A later record moves the mark; it has to be on the same device
 * (S016). */
TERN_API tern_status_t tern_event_record_at(tern_site_t site, tern_event *event,
                                            tern_stream_t stream);
#define tern_event_record(event, stream) tern_event_record_at(TERN_HERE, event, stream)
/* Later work of `stream`, of any device, starts when the event's mark is reached (S010, S017). An event
 * without a record is no mark: nothing waits. */
TERN_API tern_status_t tern_stream_wait_event_at(tern_site_t site, tern_stream_t stream,
                                                 tern_event *event);
#define tern_stream_wait_event(stream, event) tern_stream_wait_event_at(TERN_HERE, stream, event)
/* Has the mark been reached? True without a record (S018), and after an error. */
TERN_API bool tern_event_query_at(tern_site_t site, tern_event *event);
#define tern_event_query(event) tern_event_query_at(TERN_HERE, event)
/* Waits until the mark is reached; at once without a record (S019). What a kernel found in its data, as an index
 * outside, is told by a wait for a stream, a device or a copy to the CPU, not here. */
TERN_API tern_status_t tern_event_synchronize_at(tern_site_t site, tern_event *event);
#define tern_event_synchronize(event) tern_event_synchronize_at(TERN_HERE, event)
/* Milliseconds from one mark to the other; both made with .timing, recorded and reached (S020), else
 * NaN and an error. Of simulated devices they are modelled, not measured. */
TERN_API double tern_event_elapsed_at(tern_site_t site, tern_event *start, tern_event *end);
#define tern_event_elapsed(start, end) tern_event_elapsed_at(TERN_HERE, start, end)
/* The device of its records, {0} before the first; the backend's own event, NULL likewise. */
TERN_API tern_dev_t tern_event_device(const tern_event *event);
TERN_API void *tern_event_handle(const tern_event *event);

/* ---- finding waits --------------------------------------------------------------------------- */

typedef enum tern_sync_debug {
    TERN_SYNC_DEFAULT = 0,
    TERN_SYNC_WARN, /* the log gets a line for each call of the program that waits for a device */
    TERN_SYNC_ERROR /* such a call is an error and does not wait */
} tern_sync_debug_t;
/* Calls that wait without saying so by their name (T030): tern_item, tern_read, copies that block;
 * tern_dev_synchronize and tern_event_synchronize may always. Process-wide. */
TERN_API void tern_set_sync_debug_mode(tern_sync_debug_t mode);
TERN_API tern_sync_debug_t tern_sync_debug_mode(void);

/* ---- to the end of a block ------------------------------------------------------------------- */

typedef struct tern_device_guard {
    int16_t kind_, index_;
} tern_device_guard;
/* dev becomes the thread's current device until tern_device_leave; the CPU and a device without index
 * change nothing (D021, D024). Neither call touches hardware (D022). */
TERN_API tern_device_guard tern_device_enter_at(tern_site_t site, tern_dev_t dev);
#define tern_device_enter(dev) tern_device_enter_at(TERN_HERE, dev)
TERN_API void tern_device_leave(tern_device_guard *guard);

typedef struct tern_stream_guard {
    tern_device_guard device_;
    int16_t entered_;        /* index of the stream's device */
    uint16_t inner_, outer_; /* current streams: of that device, of the one that was current */
} tern_stream_guard;
/* tern_set_stream until tern_stream_leave, which restores streams and device (S006). */
TERN_API tern_stream_guard tern_stream_enter_at(tern_site_t site, tern_stream_t stream);
#define tern_stream_enter(stream) tern_stream_enter_at(TERN_HERE, stream)
TERN_API void tern_stream_leave(tern_stream_guard *guard);

#if defined(__GNUC__)
#define TERN_DEVICE(dev)                                \
    tern_device_guard TERN_JOIN(tern_device_, __LINE__) \
        __attribute__((cleanup(tern_device_leave), unused)) = tern_device_enter(dev)
#define TERN_STREAM(stream)                             \
    tern_stream_guard TERN_JOIN(tern_stream_, __LINE__) \
        __attribute__((cleanup(tern_stream_leave), unused)) = tern_stream_enter(stream)
#endif

#ifdef __cplusplus
}
#endif
#endif
