/* The tests' device: two devices of kind EXT, named "test". Their memory is an arena that the host
 * cannot touch (PROT_NONE) but while queued work runs, and work runs only when the host
 * synchronises or copies back. What this shows: nothing in the library reads device memory, everything
 * copies its call records, and frees are ordered with the work. */
#ifndef TEST_BACKEND_DEVICE_H
#define TEST_BACKEND_DEVICE_H

#include "tern/op_attr.h"
#include "tern/plugin.h"

enum { DEVICES = 2, MAX_IN = 8, MAX_OUT = 3, MAX_ATTR = 256, ARENA_BYTES = 64 << 20 };

/* A kernel call that waits: the views and attributes are copies. */
typedef struct work {
    struct work *next;
    tern_status_t (*run)(struct work *work);
    void (*body)(struct work *work); /* the arithmetic */
    int n_in, n_out;
    tern_view in[MAX_IN];
    bool has_in[MAX_IN];
    tern_view out[MAX_OUT];
    double host_value[MAX_IN]; /* of 0-dim CPU operands, read when the call is made */
    char attr[MAX_ATTR];
    void *staging; /* of a copy from the host; freed after it ran */
    void *dst;
    int64_t bytes;
} work;

/* Puts a call into the queue of its device. */
tern_status_t enqueue(const tern_call *call, void (*body)(work *w), size_t attr_bytes);
extern const tern_kernel_entry test_kernels[];
extern const int64_t test_kernel_count;

/* Element access for bodies, by linear index in row-major order. */
double get(const work *w, int input, int64_t i);
void put(const tern_view *view, int64_t i, double value);
double view_get(const tern_view *view, int64_t i);

#endif
