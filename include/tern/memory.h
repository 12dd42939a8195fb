/* Device memory: statistics, snapshots, limits, what happens when it is used up, pools, pinned memory.
 *
 * Every device has a caching allocator with PyTorch's behaviour: `allocated` and `reserved` after a
 * sequence of requests are PyTorch's for the same sequence. The CPU has the same one behind lists that
 * each thread keeps: what rests in them is no longer allocated, but cached; its settings are
 * TERN_CPU_CACHE (on, off, or the MiB that a thread's lists may keep) and tern_set_memory_settings.
 * Other devices' come from TERN_ALLOC_CONF, PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF (the first
 * that is set). TERN_NO_CACHE=1 or PYTORCH_NO_CUDA_MEMORY_CACHING switch caching off everywhere.
 * tern_memory, tern_memory_reset_peak and tern_empty_cache are in tern/device.h. */
#ifndef TERN_MEMORY_H
#define TERN_MEMORY_H

#include "tern/device.h"
#include "tern/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- statistics ---------------------------------------------------------------------------------- */

/* One number by torch.cuda.memory_stats' key: "allocated_bytes.all.peak", "num_ooms", ...
 * -1 for a key or a device that does not exist, as all of a kind before the first request for one, which this is not. A
 * device that was never used has zeros. */
TERN_API int64_t tern_memory_stat(tern_dev_t dev, const char *key);
/* The i-th key in alphabetical order, NULL past the last. */
TERN_API const char *tern_memory_stat_key(int64_t i);

typedef struct tern_memory_stat_t {
    int64_t current;
    int64_t peak;
    int64_t allocated; /* all increases so far */
    int64_t freed;     /* all decreases so far */
} tern_memory_stat_t;

typedef struct tern_memory_stats_t {
    /* sums over both pools; blocks, then bytes */
    tern_memory_stat_t allocation, segment, active, inactive_split;
    tern_memory_stat_t allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes;
    tern_memory_stat_t requested_bytes;
    int64_t num_alloc_retries, num_ooms, num_sync_all_streams;
    int64_t num_device_alloc, num_device_free;
} tern_memory_stats_t;
/* All at once; zeros for a device that has not been used. */
TERN_API tern_memory_stats_t tern_memory_stats(tern_dev_t dev);
/* Totals and counters become 0; current values and peaks stay. */
TERN_API void tern_memory_reset_accumulated(tern_dev_t dev);

/* The table that torch.cuda.memory_summary prints. Writes at most `bytes` with the ending zero and
 * returns the length of the whole text, like snprintf. */
TERN_API int64_t tern_memory_summary(tern_dev_t dev, bool abbreviated, char *buffer, int64_t bytes);

/* Free and total memory of a device, as its driver says; other processes count. On the CPU what the system
 * can give without swapping is free (MemAvailable: caches of files are), and no more than the limit of a container or
 * control group leaves, which then is the total. TERN_ERR_UNSUPPORTED where the backend cannot say. */
TERN_API tern_status_t tern_memory_info_at(tern_site_t site, tern_dev_t dev, int64_t *out_free,
                                           int64_t *out_total);
#define tern_memory_info(dev, out_free, out_total) \
    tern_memory_info_at(TERN_HERE, dev, out_free, out_total)

/* ---- snapshots ----------------------------------------------------------------------------------- */

/* Writes segments, blocks and history as JSON, in the form of torch.cuda.memory._snapshot(): "segments",
 * "device_traces", "allocator_settings". TERN_ALL_DEVICES: all; the CPU's number is the one behind theirs.
 * An inactive block of the CPU may be "held_by" a "thread_cache", or by "objects": tensors, graph nodes
 * and room for them. "device_free" of a refused request is -1 where the device does not say what it has
 * free. `tern memory-report` shows the file. */
TERN_API tern_status_t tern_memory_snapshot_at(tern_site_t site, tern_dev_t dev, const char *path);
#define tern_memory_snapshot(dev, path) tern_memory_snapshot_at(TERN_HERE, dev, path)

/* Keeps the last `max_entries` allocations, frees and segment events of one device; 0 switches off and
 * forgets them. While it is on, allocation is slower: on the CPU every request goes past the threads'
 * lists, and small data lies in blocks of its own. */
TERN_API tern_status_t tern_memory_record_history_at(tern_site_t site, tern_dev_t dev,
                                                     int64_t max_entries);
#define tern_memory_record_history(dev, max_entries) \
    tern_memory_record_history_at(TERN_HERE, dev, max_entries)

/* ---- limits and settings ---------------------------------------------------------------------------
 * Each is one device's: TERN_ALL_DEVICES is an error. Where a request for CUDA resolves to the CPU there is no such
 * device to set, and the CPU's memory is not limited for it: the arguments are checked, and nothing is done, which the log says. */

/* At most fraction * total of the device for this process (reserved bytes count). In [0, 1]. */
TERN_API tern_status_t tern_set_memory_fraction_at(tern_site_t site, tern_dev_t dev,
                                                   double fraction);
#define tern_set_memory_fraction(dev, fraction) \
    tern_set_memory_fraction_at(TERN_HERE, dev, fraction)
/* 1 when none was set. */
TERN_API double tern_memory_fraction(tern_dev_t dev);

/* The settings of a device again, in TERN_ALLOC_CONF's grammar; an unknown key is an error. Those of pinned
 * memory (pinned_*) are the process's, whichever device with such memory is named. */
TERN_API tern_status_t tern_set_memory_settings_at(tern_site_t site, tern_dev_t dev,
                                                   const char *settings);
#define tern_set_memory_settings(dev, settings) \
    tern_set_memory_settings_at(TERN_HERE, dev, settings)

/* ---- when memory is used up ------------------------------------------------------------------------ */

enum { TERN_OOM_SITES = 8 };
typedef struct tern_oom_site_t {
    tern_site_t site; /* NULL: not known */
    int64_t bytes, count;
} tern_oom_site_t;

/* What is known of the calling thread's last failed request. Bytes; -1 where unknown. */
enum { TERN_OOM_PROCESSES = 8 };
typedef struct tern_oom_process_t {
    int64_t pid;
    int64_t bytes; /* of the device's memory; -1: not known */
} tern_oom_process_t;

typedef struct tern_oom_info_t {
    tern_dev_t device;
    tern_site_t site;
    int64_t requested_bytes; /* as asked for */
    int64_t segment_bytes;   /* what the device was asked for: PyTorch's "Tried to allocate" */
    int64_t free_bytes, total_bytes;
    int64_t allowed_bytes; /* -1: no memory fraction */
    int64_t allocated_bytes, reserved_bytes;
    int64_t largest_free_bytes;    /* the largest cached block that this request could have had */
    int64_t returnable_bytes;      /* what tern_empty_cache would give back */
    int64_t fragmented_bytes;      /* free, but beside live blocks */
    int64_t other_processes_bytes; /* used on the device by others */
    /* The smallest change that would have let it fit: free this much. 0: there is room, but scattered. */
    int64_t missing_bytes;
    int64_t site_count;
    tern_oom_site_t
        sites[TERN_OOM_SITES]; /* live bytes, as asked for, by the line that made them, largest
                                * first; of the CPU those in blocks of more than 448 bytes */
    int64_t process_count;     /* that use the device, this one too; 0 where they are not known */
    tern_oom_process_t processes[TERN_OOM_PROCESSES];
} tern_oom_info_t;
/* False when the thread had none. The error's text says the same in words. `out_info` may be NULL. */
TERN_API bool tern_oom_info(tern_oom_info_t *out_info);

typedef enum tern_oom_policy {
    TERN_OOM_ERROR = 1, /* default */
    TERN_OOM_CPU /* factories and tern_to that the program calls itself continue on the CPU, with a
                  * warning; ops, modules and backward never do */
} tern_oom_policy_t;
/* Process-wide; TERN_OOM=error|cpu sets the first value. */
TERN_API void tern_set_oom_policy(tern_oom_policy_t policy);
TERN_API tern_oom_policy_t tern_get_oom_policy(void);
/* How many tensors the policy moved to the CPU. */
TERN_API int64_t tern_oom_fallback_count(void);

/* Called when a request is about to fail, by the thread that made it, without locks: may release
 * tensors. True: try again (at most 8 times for one request). NULL removes it, though a thread that is
 * about to call it may still do so. What the callback asks for itself and does not get leaves
 * no trace: its error is dropped, and tern_oom_info goes on to tell of the request. */
typedef bool (*tern_oom_callback)(const tern_oom_info_t *info, void *user);
TERN_API void tern_set_oom_callback(tern_oom_callback callback, void *user);

/* ---- memory of one's own --------------------------------------------------------------------------- */

typedef struct tern_raw_allocator_t {
    size_t size_;
    void *(*alloc)(int64_t bytes, int device, void *stream,
                   void *user); /* required; NULL: no memory */
    void (*free)(void *data, int64_t bytes, int device, void *stream, void *user); /* required */
    void *user;
    bool cached; /* keep the caching allocator on top; default: each request is a call */
} tern_raw_allocator_t;
/* Replaces where a device's memory comes from, the CPU's too (`device` is 0 then, `stream` NULL; data of
 * up to 448 bytes lies in its tensor's own memory). TERN_ERR_STATE once the device gave memory. A setting as those
 * above: nothing is done where a request for CUDA resolves to the CPU. Both are
 * called with locks of the device's memory: they may neither fork nor make or release its tensors. */
TERN_API tern_status_t tern_set_raw_allocator_at(tern_site_t site, tern_dev_t dev,
                                                 const tern_raw_allocator_t *raw);
#define tern_set_raw_allocator(dev, ...) \
    tern_set_raw_allocator_at(TERN_HERE, dev, TERN_OPTIONS_(tern_raw_allocator_t, __VA_ARGS__))

/* Bytes of a device for other libraries, counted like tensors; `stream` NULL or cudaStreamLegacy is the default stream,
 * cudaStreamPerThread is an error. */
TERN_API void *tern_memory_alloc_at(tern_site_t site, tern_dev_t dev, int64_t bytes, void *stream);
#define tern_memory_alloc(dev, bytes, stream) tern_memory_alloc_at(TERN_HERE, dev, bytes, stream)
/* NULL is fine; memory that tern_memory_alloc did not give is an error. */
TERN_API tern_status_t tern_memory_free_at(tern_site_t site, tern_dev_t dev, void *data);
#define tern_memory_free(dev, data) tern_memory_free_at(TERN_HERE, dev, data)

/* ---- pools ----------------------------------------------------------------------------------------- */

typedef struct tern_memory_pool tern_memory_pool;
typedef struct tern_memory_pool_args {
    size_t size_;
    tern_dev_t device; /* default: tern_default_device() */
    bool use_on_oom;   /* requests outside the pool may take its free blocks before they fail */
} tern_memory_pool_args;
/* NULL after an error. */
TERN_API tern_memory_pool *tern_memory_pool_create_at(tern_site_t site,
                                                      const tern_memory_pool_args *args);
#define tern_memory_pool_create(...) \
    tern_memory_pool_create_at(TERN_HERE, TERN_OPTIONS_(tern_memory_pool_args, __VA_ARGS__))
/* Tensors in it stay; its memory goes back when they are gone. Threads between begin and end go on in it: the pool may
 * be named until the last of them has ended. NULL is fine. */
TERN_API void tern_memory_pool_release(tern_memory_pool *pool);
/* Between begin and end the calling thread's tensors on the pool's device come from the pool, on the CPU
 * those of up to 448 bytes as well. Several threads may be in one pool; each ends what it began, and the end of a thread
 * ends what it left open. */
TERN_API tern_status_t tern_memory_pool_begin_at(tern_site_t site, tern_memory_pool *pool);
TERN_API tern_status_t tern_memory_pool_end_at(tern_site_t site, tern_memory_pool *pool);
#define tern_memory_pool_begin(pool) tern_memory_pool_begin_at(TERN_HERE, pool)
#define tern_memory_pool_end(pool) tern_memory_pool_end_at(TERN_HERE, pool)
/* 1 after create, 1 more between begin and end. */
TERN_API int64_t tern_memory_pool_users(const tern_memory_pool *pool);
/* As "segment_pool_id" in snapshots; never 0. */
TERN_API uint64_t tern_memory_pool_id(const tern_memory_pool *pool);

/* ---- pinned host memory ------------------------------------------------------------------------------ */

/* A copy of a CPU tensor in page-locked memory, laid out as tern_clone's, or the tensor itself when it is
 * there already. An error without a device that copies from such memory. */
TERN_API tern_tensor *tern_pin_at(tern_site_t site, tern_tensor *t);
#define tern_pin(t) tern_pin_at(TERN_HERE, t)
/* False for NULL and for tensors on devices. */
TERN_API bool tern_is_pinned(const tern_tensor *t);
/* One number by torch.cuda.host_memory_stats' key: "allocated_bytes.current" (handed out),
 * "reserved_bytes.current" (taken from the system), "num_host_alloc", "host_alloc_time.max", ...; -1 for an
 * unknown key. Newer PyTorch has other names: "allocations" and "allocated_bytes" are `segment` and
 * `reserved_bytes` here, "active_requests" is `active` (handed out, or waiting for a stream). */
TERN_API int64_t tern_host_memory_stat(const char *key);
/* Returns unused pinned memory to the system. */
TERN_API void tern_host_empty_cache(void);

#ifdef __cplusplus
}
#endif
#endif
