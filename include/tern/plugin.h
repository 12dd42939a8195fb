/* What a backend is: small versioned tables, and how kernels see tensors.
 * Tables grow at their end: a member that lies past a table's `size` counts as NULL.
 *
 * A plugin is a shared object that exports `tern_backend_get` (tern_backend_get_fn). It imports no
 * symbol of libtern: what it needs from the library comes in the tern_host table. Kernels never see
 * a tern_tensor; they see tern_view: pointer, sizes, strides.
 *
 * A kernel is a pure function of its tern_call: no thread-local reads, destination passed in. That
 * is what makes a recorded step replayable. */
#ifndef TERN_PLUGIN_H
#define TERN_PLUGIN_H

#include "tern/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_PLUGIN_VERSION 1u

enum {
    TERN_VIEW_CONTIGUOUS = 1u << 0, /* row-major without gaps */
    TERN_VIEW_DENSE = 1u << 1,      /* no gaps, no overlap, any order: numel elements from `data` */
    TERN_VIEW_NUMBER = 1u << 2      /* a number of the caller's, 0-dim on the CPU */
};

/* One tensor as a kernel sees it. Layout fixed by TERN_PLUGIN_VERSION. */
typedef struct tern_view {
    void *data; /* first element, offset applied; on a device a device pointer, NULL when empty */
    int64_t numel;
    uint8_t dtype; /* tern_dtype_t */
    uint8_t ndim;
    uint8_t flags; /* TERN_VIEW_* */
    uint8_t reserved;
    tern_dev_t dev;
    int64_t shape[TERN_MAX_DIMS];
    int64_t stride[TERN_MAX_DIMS]; /* in elements; 0 where broadcast */
} tern_view;

struct tern_call;

/* Whose a device address is. */
typedef struct tern_owner {
    char what[128]; /* "tensor f32 [10, 10]", "memory of 4096 bytes" */
    bool is_tensor;
    int64_t offset; /* of the address in it; not below `bytes`: past its end */
    int64_t bytes;
    tern_site_t site; /* that made it; NULL: not known */
} tern_owner;
/* Bits of tern_host.numerics: what tern/numerics.h sets, for kernels of a device. */
enum {
    TERN_NUMERICS_TF32_MATMUL = 1u << 0, /* f32 products may round their inputs to TF32 */
    TERN_NUMERICS_TF32_CONV = 1u << 1,
    TERN_NUMERICS_FP16_REDUCTION = 1u << 2, /* partial sums may be added in f16 */
    TERN_NUMERICS_FP16_SPLITK = 1u << 3,    /* and products be split along k */
    TERN_NUMERICS_BF16_REDUCTION = 1u << 4,
    TERN_NUMERICS_BF16_SPLITK = 1u << 5,
    TERN_NUMERICS_FP16_ACCUMULATION = 1u << 6,
    TERN_NUMERICS_CUDNN_BENCHMARK = 1u << 7,
    TERN_NUMERICS_CUDNN_DETERMINISTIC = 1u << 8,
    TERN_NUMERICS_DETERMINISTIC = 1u << 9, /* kernels that repeat bit for bit, or an error */
    TERN_NUMERICS_WARN_ONLY = 1u << 10,    /* with DETERMINISTIC: a line in the log instead */
    TERN_NUMERICS_CPU_BENCHMARK = 1u << 11
};

/* Services of the library for plugins. All may be called from any thread. */
typedef struct tern_host {
    uint32_t size;
    uint32_t version;
    /* Records the message for the calling thread and returns `code`. */
    tern_status_t (*fail)(tern_status_t code, const char *format, ...) TERN_PRINTF(2, 3);
    void (*event)(int level, const char *format, ...) TERN_PRINTF(2, 3);
    /* Memory of the kernel's device that lives until the kernel returns (on an asynchronous device:
     * until the work queued so far has run). NULL when there is none; the error is recorded. */
    void *(*scratch)(const struct tern_call *call, int64_t bytes);
    /* tern_cudnn_set_enabled. */
    bool (*cudnn_enabled)(void);
    /* The tensor, or else the memory, that an address of a device belongs to; false: none is known. A
     * best effort, also in a signal handler. */
    bool (*owner_of)(tern_dev_t dev, const void *address, tern_owner *out_owner);
    /* TERN_NUMERICS_* bits, as they are now. */
    uint32_t (*numerics)(void);
    /* Memory of the call's device for what libraries need between kernels of one stream: the same piece
     * at each call until the user clears it, so it is asked for at each. NULL: recorded. */
    void *(*workspace)(const struct tern_call *call, int64_t bytes);
    /* What fail, scratch or workspace recorded for the calling thread does not count: the kernel found
     * another way. */
    void (*forget)(void);
    /* tern_empty_cache: gives the device back what its caching allocator holds and nobody uses, for a
     * library that found no memory of its own. Waits for the device; not with a lock that a callback of
     * the log would want. */
    void (*empty_cache)(tern_dev_t dev);
    /* As scratch, for a kernel that can do with less or without: that there is none is not recorded, logged or told
     * to the user's callback. */
    void *(*try_scratch)(const struct tern_call *call, int64_t bytes);
} tern_host;

/* One call of a kernel. `in` and `out` hold n_in and n_out entries; an optional input that was not
 * given is NULL. For an in-place call out[i] == in[j]. All dtype, shape and device rules of the op
 * have been checked; outputs are allocated. Views may be on the stack: a backend that delays work
 * copies what it needs. A 0-dim input may lie on the CPU (dev.kind says so): it is read at launch; the
 * second one of mul and div is f32 beside f16 and bf16. */
typedef struct tern_call {
    uint32_t size;
    uint16_t n_in;
    uint16_t n_out;
    const tern_view *const *in;
    const tern_view *const *out;
    const void *attr; /* the op's attribute struct (tern/op_attr.h), or NULL */
    void *stream;     /* the backend's stream, NULL where it has one only */
    const tern_host *host;
    void *backend; /* tern_backend.context */
    tern_dev_t dev;
    int32_t threads; /* CPU: how many threads the kernel may use */
} tern_call;

typedef tern_status_t (*tern_kernel)(const tern_call *call);

typedef struct tern_kernel_entry {
    const char *op; /* name of the row in ops.def, e.g. "add" */
    tern_kernel kernel;
} tern_kernel_entry;

/* Raw memory of a device: what the caching allocator takes and returns, whole segments, seldom. An
 * address is at least 64-byte aligned. `stream` is where the memory will be used first. */
typedef struct tern_backend_memory {
    uint32_t size;
    /* NULL when there is not enough: no message needed. Any other reason is told with host->fail. */
    void *(*alloc)(void *context, int index, int64_t bytes, void *stream);
    /* Work queued on `stream` may still use the memory: free waits for it or is ordered after it. */
    void (*free)(void *context, int index, void *data, int64_t bytes, void *stream);
    /* Optional (NULL: unknown). */
    tern_status_t (*info)(void *context, int index, int64_t *out_free, int64_t *out_total);
    /* Optional, both or none: page-locked host memory that copies of this backend take as it is. */
    void *(*host_alloc)(void *context, int64_t bytes);
    void (*host_free)(void *context, void *data, int64_t bytes);
    /* Optional: as info, but without starting anything on the device that stays; what a start would take may count as
     * free. Anything but TERN_OK: not known, and no message needed. */
    tern_status_t (*peek)(void *context, int index, int64_t *out_free, int64_t *out_total);
} tern_backend_memory;

/* Virtual memory, for expandable segments. Sizes are multiples of granularity(). TERN_ERR_OOM from
 * create or map: there is not enough. */
typedef struct tern_backend_vmm {
    uint32_t size;
    int64_t (*granularity)(void *context, int index);
    tern_status_t (*reserve)(void *context, int index, int64_t bytes, void **out_address);
    tern_status_t (*unreserve)(void *context, int index, void *address, int64_t bytes);
    tern_status_t (*create)(void *context, int index, int64_t bytes, uint64_t *out_handle);
    tern_status_t (*map)(void *context, int index, void *address, int64_t bytes, uint64_t handle);
    tern_status_t (*unmap)(void *context, int index, void *address, int64_t bytes);
    tern_status_t (*release)(void *context, int index, uint64_t handle);
} tern_backend_vmm;

/* Copies of plain bytes; both sides dense. Ordered after the work queued so far on `stream`.
 * to_host returns when the bytes are there; from_host may return once the source has been read. The
 * _later forms are for page-locked memory: they return when the copy is queued, or is done. from_host_later
 * is for any: of memory that is not page-locked it returns once it has been read. */
typedef struct tern_backend_copy {
    uint32_t size;
    tern_status_t (*from_host)(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream);
    tern_status_t (*to_host)(void *context, int index, void *dst, const void *src, int64_t bytes,
                             void *stream);
    tern_status_t (*on_device)(void *context, int index, void *dst, const void *src, int64_t bytes,
                               void *stream);
    /* Optional. */
    tern_status_t (*from_host_later)(void *context, int index, void *dst, const void *src,
                                     int64_t bytes, void *stream);
    tern_status_t (*to_host_later)(void *context, int index, void *dst, const void *src,
                                   int64_t bytes, void *stream);
    /* Optional: between two devices of the backend, on a stream of the source's. */
    tern_status_t (*peer)(void *context, int to_index, void *dst, int from_index, const void *src,
                          int64_t bytes, void *stream);
} tern_backend_copy;

/* A stream is a handle of the backend's; NULL is the default stream of a device. */
typedef struct tern_backend_stream {
    uint32_t size;
    tern_status_t (*synchronize)(void *context, int index); /* all streams of the device */
    /* Optional: one stream. */
    tern_status_t (*synchronize_stream)(void *context, int index, void *stream);
    /* Optional, all four or none: more streams than the default one. `priority` is in the range; they
     * are never destroyed. wait_event: later work of the stream waits, the host does not; the event
     * may be of another device. */
    tern_status_t (*create)(void *context, int index, int priority, void **out_stream);
    tern_status_t (*priorities)(void *context, int index, int *out_lowest, int *out_highest);
    tern_status_t (*query)(void *context, int index, void *stream, bool *out_done);
    tern_status_t (*wait_event)(void *context, int index, void *stream, void *event);
} tern_backend_stream;

/* Marks in a stream's work. query: has the work before the record been done? */
typedef struct tern_backend_event {
    uint32_t size;
    tern_status_t (*create)(void *context, int index, void **out_event);
    tern_status_t (*record)(void *context, int index, void *event, void *stream);
    tern_status_t (*query)(void *context, int index, void *event, bool *out_done);
    tern_status_t (*synchronize)(void *context, int index, void *event);
    tern_status_t (*destroy)(void *context, int index, void *event);
    /* Optional, both or none: events that know their time; milliseconds between two that are done. */
    tern_status_t (*create_timed)(void *context, int index, void **out_event);
    tern_status_t (*elapsed)(void *context, int index, void *start, void *end, double *out_ms);
} tern_backend_event;

/* A device for reports; members that are not known stay zero (bytes: -1). */
typedef struct tern_backend_device {
    uint32_t size;
    int32_t capability; /* 90 */
    int32_t multiprocessors;
    bool simulated;
    char name[128];
    char uuid[48];
    char pci[16]; /* "0000:01:00.0" */
    int32_t warp_size, threads_per_multiprocessor;
    int64_t shared_bytes; /* of a block */
    int64_t l2_bytes;
    /* -1 where they are not known */
    int32_t utilization, memory_utilization; /* percent of a short while ago */
    int32_t temperature;                     /* degrees Celsius */
    int32_t clock_mhz;
} tern_backend_device;

typedef struct tern_backend_process {
    int64_t pid;
    int64_t bytes; /* of the device's memory; -1: not known */
} tern_backend_process;

typedef struct tern_backend_info {
    uint32_t size;
    int32_t driver_version, runtime_version; /* 13000 */
    const char *libraries;                   /* "cuBLAS 13.1, cuDNN 9.19"; NULL: none */
    tern_status_t (*device)(void *context, int index, tern_backend_device *out_device);
    /* Optional: processes that use a device, at most `most`. How many; -1: not known. */
    int (*processes)(void *context, int index, tern_backend_process *out, int most);
} tern_backend_info;

typedef struct tern_backend {
    uint32_t size;
    uint32_t version; /* TERN_PLUGIN_VERSION */
    const char *name; /* device strings use it: "test" gives "test", "test:1" (kind EXT) */
    int16_t kind;     /* TERN_KIND_CUDA or TERN_KIND_EXT */
    int16_t device_count;
    void *context;
    bool host_readable; /* the host may read device memory through the pointer */
    const tern_backend_memory *memory;
    const tern_backend_copy *copy;
    const tern_backend_stream *stream; /* NULL: work is done when a kernel returns */
    const tern_kernel_entry *kernels;  /* what is missing is unsupported there, and reported */
    int64_t kernel_count;
    const tern_backend_event *event; /* NULL: freed memory of several streams waits for them */
    const tern_backend_vmm *vmm;     /* NULL: no expandable segments */
    const tern_backend_info *info;   /* NULL: reports show the name and the count */
} tern_backend;

/* The one exported function of a plugin: returns its backend, or NULL with *out_why set to a text
 * that lives as long as the plugin. `host` lives as long as the process. Called by one thread at a time,
 * and again when a program loads the plugin again, which is refused. */
typedef const tern_backend *(*tern_backend_get_fn)(const tern_host *host, uint32_t version,
                                                   const char **out_why);
#define TERN_BACKEND_GET_NAME "tern_backend_get"

/* Optional second export of a CUDA plugin: what it needs of the driver and of devices,
 * so that the library can say so before it starts the plugin. Machine code for x.y runs on devices of
 * x.y and of the same x with a larger y, PTX for x.y on all from x.y on. */
typedef struct tern_backend_needs {
    uint32_t size;
    int32_t driver_version; /* the least (13000); 0: any */
    int32_t ptx;            /* least capability that the PTX in it is for (75); 0: it has none */
    int32_t code_count;
    const int32_t *code; /* capabilities that it has machine code for: 75, 80, 90 */
    /* The least driver that makes machine code of the PTX (13010): within a major version older drivers run
     * machine code of newer toolkits, but not their PTX. 0: any. */
    int32_t ptx_driver_version;
} tern_backend_needs;
typedef const tern_backend_needs *(*tern_backend_needs_fn)(void);
#define TERN_BACKEND_NEEDS_NAME "tern_backend_needs_get"

#ifdef __cplusplus
}
#endif
#endif
