/* The simulator's own parts and what they call of each other. Everything behind sim_begin runs
 * under one lock, so that there are no races of ours to find. */
#ifndef TERN_SIM_H
#define TERN_SIM_H

#include <cuda_runtime_api.h>
#include <sim_abi.h>
#include <sim_control.h>

#include <stdbool.h>

#include "backend_cuda/sim/fiber.h"
#include "tern/plugin.h"

enum {
    SIM_DEVICES = 16,
    SIM_THREADS = 1024, /* of a block, at most */
    SIM_CLOCKS = 64,    /* streams that the order checker tells apart */
    SIM_DYNAMIC_SHARED = 48 << 10,
    SIM_PENDING = 8192 /* ops that may wait before the oldest run */
};

/* ---- settings (settings.c) ------------------------------------------------------------------- */

typedef enum sim_order { SIM_FORWARD, SIM_REVERSE, SIM_SHUFFLED } sim_order;
typedef enum sim_async { SIM_LAZY, SIM_EAGER, SIM_RANDOM } sim_async;

/* Speeds of the virtual clock, a model that is labelled so wherever it is shown. */
typedef struct sim_clock_model {
    const char *name;
    double pinned_bytes, pageable_bytes, device_bytes; /* per second */
    double copy_latency, launch_latency;               /* seconds */
} sim_clock_model;

typedef struct sim_settings {
    int devices;             /* visible ones */
    int number[SIM_DEVICES]; /* of each of them, counted over all */
    int64_t memory;          /* bytes of a device */
    sim_order order;
    uint64_t order_seed;
    sim_async async;
    uint64_t async_seed;
    bool races;
    bool peer;      /* devices reach each other's memory */
    bool staging;   /* devices do not read pageable memory themselves */
    bool mig;       /* each is a part of a GPU */
    int capability; /* 75: 7.5 */
    const sim_clock_model *clock;
} sim_settings;
extern sim_settings sim_config;
/* 16 bytes, of which the last is the number. */
void sim_uuid(int number, char bytes[16]);
/* "GPU-73696d75-..." */
void sim_uuid_text(int number, char *text, size_t size);
/* Reads the environment once, CUDA_VISIBLE_DEVICES too: it counts as the driver would. */
void sim_settings_load(void);
/* A variable was not understood. There are no devices then, rather than others than were asked for: a test
 * whose TERN_SIM_FAIL does not count would pass. */
bool sim_settings_misread(void);
uint64_t sim_random(uint64_t *state);

/* ---- memory (memory.c) ----------------------------------------------------------------------- */

struct sim_op;

/* A piece of device memory or of pinned host memory. `view` is what the program holds, `alias` what
 * kernels and copies use: two mappings of the same pages. */
enum { SIM_GRANULARITY = 2 << 20 }; /* of virtual memory */
typedef struct sim_page {
    uint64_t handle; /* of the memory that is mapped there; 0: none */
    bool open;
    unsigned reached; /* by which devices: bits */
} sim_page;

typedef struct sim_allocation {
    char *view;
    int64_t bytes;  /* as asked for */
    int64_t number; /* counted from 1, for messages */
    int device;     /* -1: pinned host memory */
    bool live;
    bool mapped;   /* asked for as cudaHostAllocMapped: see sim_order_access */
    bool opened;   /* a kernel follows pointers in memory: the view is readable until it ends */
    int in_flight; /* pinned: copies that are not done */
    void *caller;  /* who asked for it */
    struct sim_spot *spots; /* the order checker's */
    int spot_count;
    sim_page *pages; /* a reservation's; NULL: all of it is memory */
} sim_allocation;

/* NULL when the device is full. device -1: pinned host memory. */
sim_allocation *sim_memory_alloc(int device, int64_t bytes, void *caller);
/* The code of such a call that gave NULL: no memory, or no address space to simulate any in, which is reported. */
cudaError_t sim_memory_none(int device);
void sim_memory_free(sim_allocation *allocation);
/* Addresses without memory, on a boundary of SIM_GRANULARITY; NULL when there are none left. */
sim_allocation *sim_memory_reserve(int device, int64_t bytes, void *caller);
void sim_memory_unreserve(sim_allocation *reservation);
/* Pages that memory is mapped to are made usable (fresh), or end. */
bool sim_memory_open_pages(sim_allocation *reservation, int64_t first, int64_t count);
void sim_memory_close_pages(sim_allocation *reservation, int64_t first, int64_t count);
/* Bytes of a device that are taken, or given back. */
void sim_memory_use(int device, int64_t bytes);
/* Is all of the range memory that is there? */
bool sim_memory_holds(const sim_allocation *allocation, int64_t from, int64_t bytes);
/* The allocation (dead ones too) that holds the address or ends just before it; NULL: none is near. */
sim_allocation *sim_memory_find(const void *view);
/* Whether any device or pinned memory could lie there, allocated or not; *out_device of which. */
bool sim_memory_is_ours(const void *view, int *out_device);
/* Whether some allocation, dead or alive, was ever there. */
bool sim_memory_was_given(const void *view);
/* Where kernels and copies find it. */
void *sim_memory_alias(const void *view);
/* The program's address of a kernel's; NULL for one that is none. */
char *sim_memory_view_of(const void *alias);
int64_t sim_memory_used(int device);
/* Which bytes beside the allocation were written (they are whole again): "past the end of"; NULL: none. */
const char *sim_memory_overrun(const sim_allocation *allocation);
/* Memory that a library keeps for a handle on the device, or gives back; false: there is none left. */
bool sim_memory_for_handle(int device);
void sim_memory_of_handle_ends(int device);
/* Guards a pinned buffer while a copy is under way, and gives it back. */
void sim_memory_guard(sim_allocation *pinned, bool host_may_read);
void sim_memory_unguard(sim_allocation *pinned);
/* Pointers inside memory lead kernels to views: open until sim_memory_close_views. */
void sim_memory_open_view(sim_allocation *allocation);
void sim_memory_close_views(void);
void sim_memory_reset(void);
/* In a child of a fork: nothing that it does changes its parent's memory. Pinned memory goes on as a copy. */
void sim_memory_leave(void);
/* "allocation #3 (4096 bytes on cuda:0 (simulated), made by f+0x12)" */
void sim_memory_describe(const sim_allocation *allocation, char *text, size_t size);

/* ---- whose it is (owner.c) ------------------------------------------------------------------- */

/* What the library says of an address; device -1: pinned memory. False when nobody knows. */
bool sim_owner_of(const void *view, int device, tern_owner *out_owner);
/* "tensor f32 [4] on cuda:0 (simulated), made at x.c:3"; false: the allocation, as sim_memory_describe. */
bool sim_describe(const sim_allocation *allocation, const void *view, char *text, size_t size);
/* "stream #1", "the default stream", as the backend's own messages have it; its slot where there is none. */
void sim_describe_stream(const struct CUstream_st *stream, char *text, size_t size);
/* From here on the backend tells the names of ops that it launches (sim_order_name). */
void sim_owner_listen(void);

/* ---- signals (signals.c) --------------------------------------------------------------------- */

/* Faults in kernels become errors, faults of the host a message before the crash. */
void sim_signals_install(void);

/* ---- blocks (block.c) ------------------------------------------------------------------------ */

typedef struct sim_grid {
    dim3 grid, block;
    size_t dynamic_bytes;
    void (*run)(void *packed);
    void *packed;
    const char *name;
} sim_grid;

/* Runs all blocks; the error that stopped it, reported. */
cudaError_t sim_grid_run(const sim_grid *grid);
/* A kernel's thread is running on this host thread. */
bool sim_in_kernel(void);
/* "thread (1,0,0) of block (0,0,0) in k_add" */
void sim_where(char *text, size_t size);
/* Ends the running grid from inside a thread (or from its signal handler); does not return. */
void sim_grid_fail(cudaError_t code) __attribute__((noreturn));
extern sim_counts sim_counters;

/* ---- devices, threads, errors (device.c) ----------------------------------------------------- */

typedef struct sim_device {
    cudaError_t lost; /* a sticky error, or success */
    bool peers[SIM_DEVICES];
    double copy_in_free, copy_out_free, compute_free; /* virtual seconds */
    struct CUstream_st *null_stream;
} sim_device;
extern sim_device sim_devices[SIM_DEVICES];

/* Enters an API call: takes the lock, counts, injects. Not success: the call ends with that, as each does in a
 * child of a fork that came after the first one. */
cudaError_t sim_begin(const char *call);
/* The same for calls that touch a device: sticky errors too. */
cudaError_t sim_begin_device(const char *call);
/* Leaves it and notes the error of the calling thread. */
cudaError_t sim_end(cudaError_t code);
int sim_current_device(void);
/* A text for people about what went wrong; kept for cudaGetErrorString(code). */
void sim_report(cudaError_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- injected failures (fault.c) ------------------------------------------------------------- */

/* The error that the k-th call of that name is to have, or success. */
cudaError_t sim_fault(const char *call);
/* Parses "cudaMalloc@3=2,launch:k_sum@1=700,*@9=2"; false for nonsense. */
bool sim_fault_parse(const char *text);
void sim_fault_reset(void);

/* ---- streams (stream.c) ---------------------------------------------------------------------- */

/* Work that was asked for. Counted: by its stream until done, by events, by what waits for it. */
typedef struct sim_op {
    struct sim_op *next;
    struct CUstream_st *stream;
    struct sim_op *wait; /* done before this starts, or NULL */
    void (*run)(struct sim_op *op);
    void (*drop)(struct sim_op *op); /* frees what run needed; called once, also when lost */
    const char *what;
    int refs;
    bool done;
    uint32_t clock[SIM_CLOCKS];
    double begin, end; /* virtual seconds */
    /* copies and fills */
    char *dst;
    const char *src;
    size_t bytes;
    int value;
    void *snapshot;
    sim_allocation *pinned;
    /* launches */
    sim_grid grid;
    sim_allocation *written[8];
    int written_count;
} sim_op;

struct CUstream_st {
    int device;
    bool blocking; /* orders with the null stream */
    bool alive;
    int slot;      /* of the vector clocks */
    sim_op *first; /* not done yet */
    sim_op *last;  /* the newest, done or not; counted */
    double time;
    struct CUstream_st *next;
};

/* The stream of a handle (NULL: the current device's null stream); NULL for one that is none. */
struct CUstream_st *sim_stream_of(cudaStream_t stream);
/* A new op at the end of a stream, counted once for the caller, or NULL: no memory. */
sim_op *sim_op_new(struct CUstream_st *stream, const char *what);
/* Hands it to the stream: it may run at once or later. Releases the caller's count. */
void sim_op_submit(sim_op *op);
void sim_op_release(sim_op *op);
/* Runs what has to run before the host may know that `op` is done. */
void sim_op_wait(sim_op *op);
/* All of a device. */
void sim_device_wait(int device);
void sim_streams_reset(void);

/* ---- the order checker (order.c) ------------------------------------------------------------- */

/* Notes that `op` reads or writes what begins at `view`; false after reporting that it is not ordered
 * after another access. Small allocations count as one piece, in large ones (segments of a caching
 * allocator) each address is one of its own: some races are missed, none is made up. Memory that is mapped to
 * the host and the device is where they meet by atomic operations, which need no order: it is left out. */
bool sim_order_access(const sim_op *op, sim_allocation *allocation, const void *view, bool writes);
/* A slot of the clocks for a new stream, or -1: that stream is not checked. */
int sim_order_slot(void);
void sim_order_slot_free(int slot);
void sim_order_forget(sim_allocation *allocation);
void sim_order_host_saw(const sim_op *op);
/* `op` comes after what its stream did and what the host has seen; then after `other`, too. */
void sim_order_start(sim_op *op, const sim_op *previous);
void sim_order_after(sim_op *op, const sim_op *other);
/* What this thread launched last is the work of an op of that name. */
void sim_order_name(const char *name);
void sim_order_reset(void);

/* ---- the virtual clock (clock.c) ------------------------------------------------------------- */

typedef enum sim_engine {
    SIM_ENGINE_NONE,
    SIM_ENGINE_IN,
    SIM_ENGINE_OUT,
    SIM_ENGINE_COMPUTE
} sim_engine;
/* Sets begin and end of an op that keeps an engine busy for `seconds`. */
void sim_clock_place(sim_op *op, sim_engine engine, double seconds);
void sim_clock_host_waits(const sim_op *op);
void sim_clock_reset(void);

/* ---- libraries (library.c) ------------------------------------------------------------------- */

/* A simulated library is a list of functions that ends with a NULL name; library.c has the list of
 * libraries by soname. Its functions enter with sim_begin("cudnnCreate") and leave with
 * sim_end(cudaSuccess): an injected code is the library's own number. */
typedef struct sim_function {
    const char *name;
    void (*function)(void);
} sim_function;
extern const sim_function sim_cublas_functions[], sim_cublaslt_functions[], sim_nvml_functions[];
/* "cublas,cublasLtMatmul": libraries and functions that are not there when they are opened from now on. The
 * backend's way to the others is dlopen, as for real ones (include/dlfcn.h). */
void sim_library_hide(const char *names);

/* "4242:1048576": processes beside this one, and their bytes; false for nonsense. */
bool sim_nvml_set_processes(const char *text);

/* Work of a library on a stream: run(arguments) when its turn comes. NULL: no stream, no memory. The
 * caller fills *out_arguments, zero at first, then submits or cancels. */
sim_op *sim_work_new(cudaStream_t stream, const char *what, void (*run)(void *arguments),
                     size_t bytes, void **out_arguments);
/* The work reads or writes what lies there, at *out_alias when it runs. What no kernel could reach
 * becomes a fault of the work (700, sticky). False: not ordered after another access, reported. */
bool sim_work_use(sim_op *op, const char *name, const void *view, size_t bytes, bool writes,
                  void **out_alias);
void sim_work_submit(sim_op *op);
void sim_work_cancel(sim_op *op);

/* ---- names (symbol.c) ------------------------------------------------------------------------ */

/* The plain name of a function of this program, without parameters: "k_add"; lives for ever. */
const char *sim_symbol(const void *function);
/* "main+0x12", also of stripped code. */
void sim_place(const void *address, char *text, size_t size);

#endif
