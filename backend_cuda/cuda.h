/* What the host side of the CUDA backend shares: devices, errors, the way into a kernel. */
#ifndef TERN_BACKEND_CUDA_CUDA_H
#define TERN_BACKEND_CUDA_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "tern/op_attr.h"
#include "tern/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_TRY(call)                        \
    do {                                      \
        const tern_status_t status_ = (call); \
        if (status_ != TERN_OK)               \
            return status_;                   \
    } while (0)

/* A mistake that only a kernel can see, e.g. an index outside its dimension: it is noted here, in
 * memory of the host that the device writes, the kernel skips, and the next wait reports it. */
typedef struct cuda_fault_slot {
    unsigned int kind; /* CUDA_FAULT_*, 0: none, CUDA_FAULT_BUSY: taken, the rest is on its way */
    unsigned int reserved;
    long long value, position, limit;
} cuda_fault_slot;

/* The number of an index that was noted, which is no number of anything: what takes numbers passes over it, as over
 * an index that is outside. */
#define CUDA_NOWHERE INT64_MIN

/* CHANCE: value is a double's bits. */
enum {
    CUDA_FAULT_INDEX = 1,
    CUDA_FAULT_ROW,
    CUDA_FAULT_CLASS,
    CUDA_FAULT_CHANCE,
    CUDA_FAULT_BUSY = 255
};

/* A call that names no stream means the device's own, CUDA's legacy null stream (S001). */
typedef struct cuda_device {
    cuda_fault_slot *slot; /* pinned; NULL: not opened */
    int multiprocessors;
    int capability;      /* 90 */
    bool has_mma;        /* cuda_attention_half_runs */
    bool reads_pageable; /* the host's memory by its own page tables (ATS, HMM) */
} cuda_device;

enum { CUDA_MOST_DEVICES = 64 };

/* The device, made current for the thread and opened at its first use. NULL after recording an
 * error. */
cuda_device *cuda_device_enter(int index);
/* For calls of no device, as page-locked memory's, which would start the thread's current one: the first
 * that was opened becomes current, if there is one. The device that is meant, then. */
int cuda_enter_any(void);
/* How many there are; 0 with *out_why set. Creates no context. */
int cuda_device_count(const char **out_why);
extern const tern_host *cuda_host;

/* For reports: versions, and what each device is. */
const tern_backend_info *cuda_info(void);
/* As nvidia-smi writes it, without a context; false: the device cannot be asked. */
enum { CUDA_UUID_BYTES = 48 };
bool cuda_uuid(int index, char text[CUDA_UUID_BYTES]);

/* The program asked for simulated devices. */
bool cuda_is_simulated(void);

/* Into a kernel: the call's device is current, *out_stream is where its work goes. */
tern_status_t cuda_enter(const tern_call *call, cudaStream_t *out_stream);
/* The same for a kernel that may find a mistake: *out_slot is where it notes it. */
tern_status_t cuda_enter_noting(const tern_call *call, cudaStream_t *out_stream,
                                cuda_fault_slot **out_slot);
/* Codes that stay: the device is lost to this process. */
bool cuda_is_lost(cudaError_t code);
/* What a kernel broke on the current device, if cuda_is_lost says so of it. */
cudaError_t cuda_sticky_error(void);
/* TERN_OK, or an error with the code's name and meaning, the device and what was launched last. */
tern_status_t cuda_check(int index, cudaError_t code, const char *what);
/* The same, with the stream, which is said by number if it was told here. */
void cuda_stream_made(void *stream);
tern_status_t cuda_check_on(int index, void *stream, cudaError_t code, const char *what);
enum { CUDA_STREAM_TEXT = 40 };
/* "stream #1", "default stream"; returns text. */
const char *cuda_say_stream(void *stream, char text[CUDA_STREAM_TEXT]);
enum { CUDA_LIBRARY_TEXT = 1280 }; /* a simulated library tells a race with both of its sides */
/* The error of a library's call; text: its code's name, number and meaning. The device is current; what a kernel
 * broke on it before is said, too. Returns `code`, or TERN_ERR_BACKEND when the device is lost. */
tern_status_t cuda_library_failed(int index, tern_status_t code, const char *what,
                                  const char *text);
/* Called after each launch that went well, by its thread: the op's name, which a launch does not know. */
void cuda_on_launch(void (*listener)(const char *name));
/* After a launch: notes it for later messages; with TERN_CUDA_SYNC=1 waits for it. */
tern_status_t cuda_launched(const tern_call *call, cudaError_t code, const char *name);
/* Waits, and reports faults of kernels and of the fault slot. */
tern_status_t cuda_wait(int index, cudaStream_t stream, const char *what);

/* After a copy of it was queued: memory of the host may be written again or freed, unless it is
 * page-locked. */
tern_status_t cuda_source_read(int index, const void *src, cudaStream_t stream);

/* Peer access does not cover memory that is mapped (vmm.c). From the first reservation on no more of it is
 * opened - copies of other pairs go over the host -, and what is mapped is opened to those who have it. */
void cuda_peers_end(void);
bool cuda_peer_reaches(int from_index, int to_index);

extern const tern_backend_memory cuda_memory;
extern const tern_backend_vmm cuda_vmm;
extern const tern_backend_copy cuda_copy_table;
extern const tern_backend_stream cuda_stream_table;
extern const tern_backend_event cuda_event_table;
extern const tern_kernel_entry cuda_kernels[];
extern const int64_t cuda_kernel_count;

int64_t cuda_dtype_size(int dtype);
/* Spreads row-major elements of like's dtype over `out`, which has like's shape. */
tern_status_t cuda_from_row_major(const tern_call *call, const tern_view *like,
                                  const tern_view *out, void *data);

/* Makes row-major elements of the output, in it or in scratch memory that is then spread over it. */
typedef cudaError_t (*cuda_make_fn)(const tern_call *call, void *data, cudaStream_t stream);
tern_status_t cuda_make(const tern_call *call, cuda_make_fn launch, const char *name);

/* After a line of the log: its callback may have used another device, so the call's is current again. A
 * device that fails here fails at what follows. */
void cuda_return(const tern_call *call);

/* For a library that found no memory: unused memory of the caching allocator goes back to the device. Not
 * with a lock. */
void cuda_make_room(const tern_call *call);

/* Scratch memory of the call's device, or NULL: recorded. The device is current again, since running out
 * of memory calls the user, who may have used another. */
static inline void *cuda_scratch(const tern_call *call, int64_t bytes)
{
    void *data = call->host->scratch(call, bytes);
    return cuda_device_enter(call->dev.index) != NULL ? data : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
