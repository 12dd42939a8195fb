/* cuDNN: the library, opened at its first use, what its codes mean, a handle per device and stream, and
 * plans kept by shape. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_cuda/blas.h"
#include "backend_cuda/cudnn_calls.h"
#include "backend_cuda/library.h"

dnn_calls dnn;

/* Builds of cuDNN 9 for CUDA 12 and for CUDA 13 have one soname. */
static const char *unfit(void)
{
    static char why[96];
    const int major = (int)(dnn.cudnnGetCudartVersion() / 1000);
    if (major == CUDART_VERSION / 1000)
        return NULL;
    (void)snprintf(why, sizeof why, "it is built for CUDA %d, this plugin for CUDA %d", major,
                   CUDART_VERSION / 1000);
    return why;
}

static bool is_open(void)
{
    static const char *const files[] = { "libcudnn.so.9", NULL };
    static const char *const parts[] = { "libcudnn_graph.so.9", "libcudnn_ops.so.9",
                                         "libcudnn_cnn.so.9", NULL };
    static const char *const symbols[] = {
#define X(name) #name,
        DNN_CALLS(X)
#undef X
            NULL
    };
    static cuda_library library = { .name = "cuDNN",
                                    .files = files,
                                    .symbols = symbols,
                                    .functions = &dnn,
                                    .bytes = sizeof dnn,
                                    .parts = parts,
                                    .unfit = unfit,
                                    .without = "own kernels do convolutions, pooling, batch "
                                               "normalisation and recurrent layers" };
    /* cuDNN opens it by its soname alone, which the loader may find nowhere */
    (void)cuda_lt_open();
    return cuda_library_open(&library);
}

bool dnn_is_at_least(size_t number)
{
    return dnn.cudnnGetVersion() >= number;
}

bool cuda_dnn_usable(const tern_call *call)
{
    if (!call->host->cudnn_enabled())
        return false;
    const bool usable = is_open();
    cuda_return(call); /* opening may log */
    return usable;
}

static char version[32];

static void write_version(void)
{
    if (!is_open())
        return;
    const size_t n = dnn.cudnnGetVersion();
    (void)snprintf(version, sizeof version, "cuDNN %zu.%zu.%zu", n / 10000, n / 100 % 100, n % 100);
}

const char *cuda_dnn_version(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)is_open(); /* not in there: a callback of the log may ask again */
    (void)pthread_once(&once, write_version);
    return version;
}

/* ---- what codes mean ------------------------------------------------------------------------- */

/* Refused before anything was queued, also for want of one of its sub-libraries (where there is a handle, "not
 * initialized" is that): an own kernel can still do it. */
static bool is_refusal(cudnnStatus_t status)
{
    const int kind = (int)status / 1000;
    return kind == 2 || kind == 3 ||
           (kind == 1 &&
            (status != CUDNN_STATUS_NOT_INITIALIZED || !cuda_is_lost(cuda_sticky_error())));
}

static bool is_out_of_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
           status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

static const char *meaning_of(cudnnStatus_t status)
{
    static const char *const meanings[] = {
        "its header has no such code",       "it cannot start on this device",
        "it does not take these arguments",  "it does not support this case",
        "it failed inside or has no memory", "its work did not run on the device"
    };
    const int kind = (int)status / 1000;
    return meanings[kind >= 1 && kind <= 5 ? kind : 0];
}

/* "CUDNN_STATUS_BAD_PARAM (2000): it does not take these arguments: x->set is false" */
static void describe(cudnnStatus_t status, char *text, size_t size)
{
    char detail[CUDA_LIBRARY_TEXT - 160] = "";
    dnn.cudnnGetLastErrorString(detail, sizeof detail);
    (void)snprintf(text, size, "%s (%d): %s%s%s", dnn.cudnnGetErrorString(status), (int)status,
                   meaning_of(status), detail[0] != '\0' ? ": " : "", detail);
}

static uint64_t hash_of(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ p[i]) * UINT64_C(1099511628211);
    return hash;
}
#define HASH_START UINT64_C(14695981039346656037)

void dnn_say_once(const tern_call *call, const char *op, const char *reason)
{
    enum { MOST = 64 };
    static pthread_mutex_t saying = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t said[MOST];
    static int count;
    const uint64_t hash = hash_of(hash_of(HASH_START, op, strlen(op)), reason, strlen(reason));
    (void)pthread_mutex_lock(&saying);
    bool is_new = count < MOST;
    for (int i = 0; i < count; i++)
        is_new = is_new && said[i] != hash;
    if (is_new)
        said[count++] = hash;
    (void)pthread_mutex_unlock(&saying);
    if (!is_new)
        return;
    call->host->event(TERN_LOG_WARNING, "%s on cuda:%d: an own kernel instead of cuDNN: %s", op,
                      (int)call->dev.index, reason);
    cuda_return(call);
}

void *dnn_scratch(const tern_call *call, size_t bytes)
{
    const tern_host *host = call->host; /* of an older libtern: not so quietly */
    const bool quiet = host->size >= offsetof(tern_host, try_scratch) + sizeof host->try_scratch;
    void *data = (quiet ? host->try_scratch : host->scratch)(call, (int64_t)bytes);
    cuda_return(call);
    if (data == NULL)
        host->forget();
    return data;
}

tern_status_t dnn_settle(const tern_call *call, const char *op, const char *what,
                         cudnnStatus_t status, dnn_plan *plan, bool *out_done)
{
    char text[CUDA_LIBRARY_TEXT], place[64];
    if (status == CUDNN_STATUS_SUCCESS) {
        *out_done = true;
        return cuda_launched(call, cudaSuccess, what);
    }
    describe(status, text, sizeof text);
    if (is_refusal(status)) {
        if (!plan->kept ||
            status != CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER) /* not of the shape */
            __atomic_store_n(&plan->refused, true, __ATOMIC_RELAXED);
        dnn_say_once(call, op, text);
        return TERN_OK;
    }
    (void)snprintf(place, sizeof place, "%s in %s", what, op);
    return cuda_library_failed(
        call->dev.index, is_out_of_memory(status) ? TERN_ERR_OOM : TERN_ERR_BACKEND, place, text);
}

bool dnn_again(const tern_call *call, tern_status_t code, bool *tried)
{
    if (code != TERN_ERR_OOM || *tried)
        return false;
    *tried = true;
    call->host->forget();
    cuda_make_room(call);
    return true;
}

/* ---- handles --------------------------------------------------------------------------------- */

typedef struct stream_handle {
    cudaStream_t stream;
    cudnnHandle_t handle; /* NULL: could not be made for this stream */
} stream_handle;

enum { MOST_HANDLES = 64 };
static struct {
    int count;
    stream_handle of[MOST_HANDLES];
} handles[CUDA_MOST_DEVICES];
/* A handle serves one thread at a time. */
static pthread_mutex_t using = PTHREAD_MUTEX_INITIALIZER;

/* With the lock. When a device has too many streams, its first handle serves others, too. */
static stream_handle *find_handle(int device, cudaStream_t stream)
{
    stream_handle *shared = NULL;
    for (int i = 0; i < handles[device].count; i++) {
        stream_handle *h = &handles[device].of[i];
        if (h->stream == stream)
            return h;
        if (shared == NULL && h->handle != NULL)
            shared = h;
    }
    return handles[device].count < MOST_HANDLES ? NULL : shared;
}

static stream_handle *keep_handle(int device, cudaStream_t stream, cudnnHandle_t handle)
{
    stream_handle *h = &handles[device].of[handles[device].count++];
    *h = (stream_handle){ stream, handle };
    return h;
}

/* With the lock: the stream's handle, made if there is none. One that cannot be made is tried again where
 * `again` says so, else the stream does without from then on. NULL with success: it does. */
static cudnnStatus_t take_handle(int device, cudaStream_t stream, bool again, cudnnHandle_t *out)
{
    stream_handle *h = find_handle(device, stream);
    *out = NULL;
    if (h == NULL && handles[device].count < MOST_HANDLES) {
        const cudnnStatus_t status = dnn.cudnnCreate(out);
        if (status != CUDNN_STATUS_SUCCESS) {
            if (!again)
                (void)keep_handle(device, stream, NULL);
            return status;
        }
        h = keep_handle(device, NULL, *out);
    }
    *out = h != NULL ? h->handle : NULL;
    if (*out == NULL || h->stream == stream)
        return CUDNN_STATUS_SUCCESS;
    const cudnnStatus_t status = dnn.cudnnSetStream(*out, stream);
    h->stream = status == CUDNN_STATUS_SUCCESS ? stream : NULL;
    return status;
}

/* Of cudnnCreate: it says the first when the device is full, too. */
static bool may_want_memory(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_NOT_INITIALIZED || is_out_of_memory(status);
}

cudnnHandle_t dnn_enter(const tern_call *call, cudaStream_t stream, const char *op)
{
    char text[CUDA_LIBRARY_TEXT];
    cudnnHandle_t handle = NULL;
    (void)pthread_mutex_lock(&using);
    cudnnStatus_t status = take_handle(call->dev.index, stream, true, &handle);
    if (may_want_memory(status)) {
        (void)pthread_mutex_unlock(&using);
        cuda_make_room(call);
        (void)pthread_mutex_lock(&using);
        status = take_handle(call->dev.index, stream, false, &handle);
    }
    if (handle != NULL && status == CUDNN_STATUS_SUCCESS)
        return handle;
    if (status != CUDNN_STATUS_SUCCESS)
        describe(status, text, sizeof text);
    (void)pthread_mutex_unlock(&using);
    if (status != CUDNN_STATUS_SUCCESS)
        dnn_say_once(call, op, text);
    return NULL;
}

void dnn_leave(void)
{
    (void)pthread_mutex_unlock(&using);
}

tern_status_t dnn_run(const tern_call *call, cudaStream_t stream, const char *op, const char *what,
                      dnn_plan *plan,
                      cudnnStatus_t (*body)(dnn_plan *plan, cudnnHandle_t handle, const void *args),
                      const void *args, bool *out_done)
{
    tern_status_t code;
    bool tried = false;
    do {
        cudnnHandle_t handle = dnn_enter(call, stream, op);
        if (handle == NULL)
            return TERN_OK;
        const cudnnStatus_t status = body(plan, handle, args);
        dnn_leave();
        code = dnn_settle(call, op, what, status, plan, out_done);
    } while (dnn_again(call, code, &tried));
    return code;
}

/* ---- plans ----------------------------------------------------------------------------------- */

enum { HEADS = 1024, MOST_PLANS = 8192 };
static dnn_plan *plans[HEADS];
static int plan_count;
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

static dnn_plan **head_of(const dnn_key *key)
{
    return &plans[hash_of(HASH_START, key, sizeof *key) % HEADS];
}

/* With the lock. */
static dnn_plan *look_up(const dnn_key *key)
{
    dnn_plan *plan = *head_of(key);
    while (plan != NULL && memcmp(&plan->key, key, sizeof *key) != 0)
        plan = plan->next;
    return plan;
}

dnn_plan *dnn_find(const dnn_key *key)
{
    (void)pthread_mutex_lock(&planning);
    dnn_plan *plan = look_up(key);
    (void)pthread_mutex_unlock(&planning);
    return plan;
}

dnn_plan *dnn_new(const dnn_key *key)
{
    dnn_plan *plan = calloc(1, sizeof *plan);
    if (plan != NULL)
        plan->key = *key;
    return plan;
}

void dnn_drop(dnn_plan *plan)
{
    if (plan == NULL || plan->kept)
        return;
    if (plan->x != NULL)
        (void)dnn.cudnnDestroyTensorDescriptor(plan->x);
    if (plan->y != NULL)
        (void)dnn.cudnnDestroyTensorDescriptor(plan->y);
    if (plan->parameters != NULL)
        (void)dnn.cudnnDestroyTensorDescriptor(plan->parameters);
    if (plan->w != NULL)
        (void)dnn.cudnnDestroyFilterDescriptor(plan->w);
    if (plan->conv != NULL)
        (void)dnn.cudnnDestroyConvolutionDescriptor(plan->conv);
    if (plan->pool != NULL)
        (void)dnn.cudnnDestroyPoolingDescriptor(plan->pool);
    if (plan->rnn != NULL)
        (void)dnn.cudnnDestroyRNNDescriptor(plan->rnn);
    if (plan->steps_in != NULL)
        (void)dnn.cudnnDestroyRNNDataDescriptor(plan->steps_in);
    if (plan->steps_out != NULL)
        (void)dnn.cudnnDestroyRNNDataDescriptor(plan->steps_out);
    free(plan);
}

dnn_plan *dnn_keep(dnn_plan *plan)
{
    (void)pthread_mutex_lock(&planning);
    dnn_plan *other = look_up(&plan->key);
    if (other == NULL && plan_count < MOST_PLANS) {
        dnn_plan **head = head_of(&plan->key);
        plan->next = *head;
        plan->kept = true;
        *head = plan;
        plan_count++;
    }
    (void)pthread_mutex_unlock(&planning);
    if (other == NULL)
        return plan;
    dnn_drop(plan);
    return other;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

cudnnDataType_t dnn_type(int dtype)
{
    return dtype == TERN_F64    ? CUDNN_DATA_DOUBLE
           : dtype == TERN_F16  ? CUDNN_DATA_HALF
           : dtype == TERN_BF16 ? CUDNN_DATA_BFLOAT16
                                : CUDNN_DATA_FLOAT;
}

const void *dnn_one(int dtype)
{
    static const float one = 1;
    static const double wide_one = 1;
    return dtype == TERN_F64 ? (const void *)&wide_one : &one;
}

const void *dnn_zero(int dtype)
{
    static const float zero = 0;
    static const double wide_zero = 0;
    return dtype == TERN_F64 ? (const void *)&wide_zero : &zero;
}

bool dnn_takes(const int64_t dims[4])
{
    int64_t count = 1;
    for (int d = 0; d < 4; d++) {
        if (dims[d] < 1 || dims[d] > INT32_MAX / count)
            return false;
        count *= dims[d];
    }
    return true;
}

cudnnStatus_t dnn_describe_tensor(cudnnTensorDescriptor_t *tensor, int dtype, bool channels_last,
                                  const int64_t dims[4])
{
    const int n = (int)dims[0], c = (int)dims[1], h = (int)dims[2], w = (int)dims[3];
    if (*tensor == NULL)
        DNN_TRY(dnn.cudnnCreateTensorDescriptor(tensor));
    return channels_last ? dnn.cudnnSetTensor4dDescriptorEx(*tensor, dnn_type(dtype), n, c, h, w,
                                                            c * h * w, 1, w * c, c)
                         : dnn.cudnnSetTensor4dDescriptorEx(*tensor, dnn_type(dtype), n, c, h, w,
                                                            c * h * w, h * w, w, 1);
}
