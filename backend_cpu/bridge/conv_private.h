#ifndef TERN_BACKEND_CPU_CONV_PRIVATE_H
#define TERN_BACKEND_CPU_CONV_PRIVATE_H
/* Convolutions through oneDNN: a primitive with its memory objects, and the cache that keeps it. */

#include "backend_cpu/bridge/onednn.h"

#if TERN_HAVE_ONEDNN

/* Everything that decides a primitive. Bytes are compared, so it has no padding. */
typedef struct conv_key {
    cpu_conv2d_shape shape;
    int32_t pass;
    int32_t threads; /* oneDNN's own: 1, but for a forward pass over fewer images than threads */
    int32_t has_bias;
    int32_t reserved;
} conv_key;

typedef enum conv_slot { SLOT_X, SLOT_W, SLOT_Y, SLOT_COUNT } conv_slot;

/* One tensor of the primitive: as the caller has it, and as the kernel wants it. Where the two
 * agree `inner` is NULL and `reorder` too. */
typedef struct conv_tensor {
    dnnl_memory_t outer;
    dnnl_memory_t inner;
    dnnl_primitive_t reorder;
    size_t inner_bytes;
    void *inner_at;   /* buffer that `inner` points to now */
    void *own;        /* w only: a copy kept between calls, NULL before the first with a key */
    uint64_t own_key; /* weights_key of that copy, and where it came from */
    const void *own_of;
} conv_tensor;

typedef struct conv_entry {
    conv_key key;
    uint64_t hash;
    uint64_t used; /* the cache's clock at the last use */
    dnnl_primitive_t primitive;
    conv_tensor tensor[SLOT_COUNT];
    dnnl_memory_t bias;
    dnnl_memory_t scratch;
    size_t scratch_bytes;
    void *scratch_at;
    const char *
        kernel; /* oneDNN's name, the primitive's; NULL: nothing but a reference kernel, run tern's own */
} conv_entry;

/* A buffer that grows and is shared by the entries of one thread, since they run one at a time. */
typedef struct conv_buffer {
    void *data;
    size_t bytes;
} conv_buffer;

enum { CONV_BUFFER_SCRATCH = SLOT_COUNT, CONV_BUFFER_PARTIALS, CONV_BUFFER_COUNT };

enum { CONV_CACHE_ENTRIES = 64, CONV_PRODUCTS = 64 };

/* A product of half types (matmul.c). */
typedef struct product_entry product_entry;
void product_entry_free(product_entry *e);

typedef struct conv_cache {
    conv_entry *entries[CONV_CACHE_ENTRIES];
    int count;
    product_entry *products[CONV_PRODUCTS];
    uint64_t clock;
    dnnl_stream_t stream;
    conv_buffer buffers[CONV_BUFFER_COUNT];
    uint64_t created, reorders;
    size_t own_bytes;
} conv_cache;

/* conv_parts.c */

/* How a call is cut over its images. */
typedef struct conv_split {
    int64_t parts;
    int inner_threads;
} conv_split;

conv_split conv_split_of(const cpu_conv2d_call *call);
/* The first image of a part; of part `parts`: their number. */
int64_t conv_first_image(const cpu_conv2d_call *call, const conv_split *split, int64_t part);

/* conv.c */

/* Runs a call whole on the calling thread (`threads` of oneDNN's own). */
cpu_blas_status conv_run(const cpu_conv2d_call *call, int threads);

/* conv_cache.c */

/* The engine of the process; NULL when oneDNN has none. */
dnnl_engine_t conv_engine(void);
/* This thread's cache, made at first use and freed at thread exit; NULL: out of memory. */
conv_cache *conv_cache_here(void);
/* The entry of `key`, built if need be; the least recently used one makes room. NULL on failure. */
conv_entry *conv_cache_get(conv_cache *cache, const conv_key *key);
/* At least `bytes` in buffer `index`, 64-byte aligned; NULL: out of memory. Contents are lost. */
void *conv_buffer_get(conv_cache *cache, int index, size_t bytes);

/* conv_build.c */

/* Fills `entry` (zeroed but for its key). False on failure; then conv_entry_free cleans up.
 * An entry without a kernel is a success: the answer "unsupported" is worth keeping. */
bool conv_entry_build(conv_entry *entry, dnnl_engine_t engine);
void conv_entry_free(conv_entry *entry);
/* Extent of y for one of x; stride is not 0. */
int64_t conv_out_size(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation);

#endif
#endif
