/* Devices: text, discovery, the current one, fallback. */
#ifndef TERN_DEVICE_H
#define TERN_DEVICE_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reads "cpu", "cuda", "cuda:3" (rows D001-D006). On failure *out_dev is {0,0} and the error quotes
 * the string. Touches no hardware: "cuda:99" parses anywhere. */
TERN_API tern_status_t tern_dev_parse_at(tern_site_t site, const char *text, tern_dev_t *out_dev);
#define tern_dev_parse(text, out_dev) tern_dev_parse_at(TERN_HERE, text, out_dev)

enum { TERN_DEV_NAME_BYTES = 32 };
/* Writes "cuda:1", or "cuda" when the index is unset; returns `buffer`. */
TERN_API const char *tern_dev_name(tern_dev_t dev, char buffer[TERN_DEV_NAME_BYTES]);

/* Devices of a kind that can be used now; 0 for a kind without a backend. Never fails. */
TERN_API int tern_dev_count(int kind);
/* Can this device be used now? An index that is unset asks for any. Never fails. */
TERN_API bool tern_dev_available(tern_dev_t dev);

/* The calling thread's current index for dev's kind becomes dev's (D016-D020); a request for it, so an error where
 * there is none under TERN_REQUIRE. The CPU, to which a request may have resolved, changes nothing. CUDA's own current
 * device of the thread is another thing: each call of tern's that reaches a device sets it to that one, and leaves it, so
 * a program with calls of CUDA's runtime sets it before them. */
TERN_API tern_status_t tern_dev_set_at(tern_site_t site, tern_dev_t dev);
#define tern_dev_set(dev) tern_dev_set_at(TERN_HERE, dev)
/* The calling thread's current device of a kind; TERN_CPU for a kind that there is not. */
TERN_API tern_dev_t tern_dev_current(int kind);

/* What factories use when no device is given; TERN_CPU at first. Per thread (D015). One without index is
 * the current device of its kind, also after tern_dev_set (D069). */
TERN_API tern_status_t tern_set_default_device_at(tern_site_t site, tern_dev_t dev);
#define tern_set_default_device(dev) tern_set_default_device_at(TERN_HERE, dev)
TERN_API tern_dev_t tern_default_device(void);
/* What float factories use when no dtype is given; f32 at first. Per thread; floats only. */
TERN_API tern_status_t tern_set_default_dtype_at(tern_site_t site, tern_dtype_t dtype);
#define tern_set_default_dtype(dtype) tern_set_default_dtype_at(TERN_HERE, dtype)
TERN_API tern_dtype_t tern_default_dtype(void);

/* The current CUDA device (tern_dev_set; at first cuda:0), or where the plugin has no code for that the first for which it
 * has, else the CPU (and one line that says why). Under TERN_REQUIRE it
 * is an error to have none. */
TERN_API tern_dev_t tern_dev_auto_at(tern_site_t site);
#define tern_dev_auto() tern_dev_auto_at(TERN_HERE)

typedef enum tern_device_policy {
    TERN_PREFER = 1,
    TERN_REQUIRE,
    TERN_CPU_ONLY
} tern_device_policy_t;
/* prefer (default): without a usable CUDA device every request for one resolves to the CPU, said
 * once; require: such a request is an error; cpu: as if none were visible. TERN_DEVICE_POLICY sets
 * the first value; as long as it is set to none of them, requests for CUDA are errors. */
TERN_API void tern_set_device_policy(tern_device_policy_t policy);

typedef struct tern_fallback {
    const char *code; /* stable reason code, e.g. "hidden-by-empty-list": `tern explain CODE` */
    const char *text;
    const char *next_step;
} tern_fallback_t;
/* True when a request for CUDA resolves to the CPU; then *out_why says why. The first call of this, of
 * tern_dev_count or of anything that asks for CUDA decides it: visible devices, plugin and driver are
 * looked at once, the driver in a child process that gets TERN_PROBE_SECONDS (60) to answer. */
TERN_API bool tern_dev_fallback(tern_fallback_t *out_why);

/* false: from here on as if no CUDA device were visible (reason "disabled-by-call"); called before the
 * first request no CUDA library is loaded. Tensors that live on a device stay there, and so does what is made of them
 * and beside them: results, .like, gradients, an optimizer's state. To go there from elsewhere is a request; to wait for
 * the device (tern_dev_synchronize), its streams, to free memory of it (tern_memory_free) and to write its snapshot are
 * none. */
TERN_API void tern_cuda_set_enabled(bool enabled);
TERN_API bool tern_cuda_enabled(void);
/* false: the CUDA backend uses its own kernels where it would call cuDNN. */
TERN_API void tern_cudnn_set_enabled(bool enabled);
TERN_API bool tern_cudnn_enabled(void);

typedef struct tern_best_args {
    size_t size_;
    int64_t bytes_needed;
    tern_fallback_t *why; /* written when the answer is the CPU; empty texts else */
} tern_best_args;
/* tern_dev_best(bytes) or tern_dev_best(bytes, .why = &why): the visible CUDA device with the most free
 * memory of those that have `bytes` free (the first of equals; a device that cannot tell counts as one
 * that has them), else the CPU: said like any fallback, an error under TERN_REQUIRE. NVML tells what is free, and a
 * context is started on the device that is chosen; without NVML on each visible device, where it stays. */
TERN_API tern_dev_t tern_dev_best_at(tern_site_t site, const tern_best_args *args);
#define tern_dev_best(...) tern_dev_best_at(TERN_HERE, TERN_OPTIONS_(tern_best_args, __VA_ARGS__))

/* Waits until all work of a device is done, and reports faults that happened there. */
TERN_API tern_status_t tern_dev_synchronize_at(tern_site_t site, tern_dev_t dev);
#define tern_dev_synchronize(dev) tern_dev_synchronize_at(TERN_HERE, dev)

typedef struct tern_memory_t {
    int64_t allocated_bytes;      /* in tensors now */
    int64_t reserved_bytes;       /* taken from the system now, in use or cached */
    int64_t peak_allocated_bytes; /* since the start or the last reset */
    int64_t peak_reserved_bytes;
    int64_t alloc_count;        /* requests so far */
    int64_t system_alloc_count; /* of them, those that went to the system */
} tern_memory_t;
TERN_API tern_memory_t tern_memory(tern_dev_t dev);
/* Peaks become what is in use now. */
TERN_API void tern_memory_reset_peak(tern_dev_t dev);
/* Returns cached, unused memory of a device to the system; TERN_ALL_DEVICES: of all, and the CPU. */
TERN_API void tern_empty_cache(tern_dev_t dev);
/* Gives the work memory that cuBLAS keeps per stream of a device back to its cache; the next product
 * takes it again. No thread may run products there meanwhile. */
TERN_API void tern_clear_workspaces(tern_dev_t dev);

/* Loads a backend plugin; its devices appear as the kind that its table names. */
TERN_API tern_status_t tern_plugin_load_at(tern_site_t site, const char *path);
#define tern_plugin_load(path) tern_plugin_load_at(TERN_HERE, path)

/* Threads that CPU kernels may use (default, and for 0: the processors this process may run on, but no more than its
 * control group's quota has time for: docker --cpus, limits.cpu of Kubernetes, CPUQuota of systemd). Process-wide;
 * results that depend on it (sums split by thread) repeat for the same number. */
TERN_API void tern_set_num_threads(int threads);
TERN_API int tern_num_threads(void);

#ifdef __cplusplus
}
#endif
#endif
