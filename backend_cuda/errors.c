/* Codes of CUDA as errors of tern: name, number, meaning, device, the last launches, and whether the
 * context is lost. */
#include "backend_cuda/cuda.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 4 };

/* The newest launches of any thread, for messages. */
static _Atomic(const char *) launches[KEPT];
static _Atomic(void *) launch_streams[KEPT];
static atomic_uint launch_count;
static _Atomic(void (*)(const char *)) on_launch;

void cuda_on_launch(void (*listener)(const char *name))
{
    atomic_store_explicit(&on_launch, listener, memory_order_relaxed);
}

static void note_launch(const char *name, void *stream)
{
    const unsigned place = atomic_fetch_add(&launch_count, 1) % KEPT;
    atomic_store_explicit(&launch_streams[place], stream, memory_order_relaxed);
    atomic_store_explicit(&launches[place], name, memory_order_relaxed);
}

enum { OWN_STREAMS = 512 };

/* Streams of this backend are said by number, which repeats from run to run. */
static _Atomic(void *) own_streams[OWN_STREAMS];
static atomic_uint own_count;

void cuda_stream_made(void *stream)
{
    const unsigned place = atomic_fetch_add(&own_count, 1);
    if (place < OWN_STREAMS)
        atomic_store(&own_streams[place], stream);
}

const char *cuda_say_stream(void *stream, char text[CUDA_STREAM_TEXT])
{
    for (unsigned i = 0; i < OWN_STREAMS && stream != NULL; i++)
        if (atomic_load_explicit(&own_streams[i], memory_order_relaxed) == stream) {
            (void)snprintf(text, CUDA_STREAM_TEXT, "stream #%u", i + 1);
            return text;
        }
    (void)snprintf(text, CUDA_STREAM_TEXT, stream != NULL ? "stream %p" : "default stream", stream);
    return text;
}

/* "add, mul (stream #1)" */
static void say_launches(char *text, size_t size)
{
    size_t used = 0;
    const unsigned newest = atomic_load(&launch_count);
    text[0] = '\0';
    for (unsigned i = 1; i <= KEPT && i <= newest; i++) {
        char where[CUDA_STREAM_TEXT];
        const char *name = atomic_load(&launches[(newest - i) % KEPT]);
        void *stream = atomic_load(&launch_streams[(newest - i) % KEPT]);
        const int n = snprintf(text + used, size - used, "%s%s%s%s%s", i == 1 ? "" : ", ", name,
                               stream != NULL ? " (" : "",
                               stream != NULL ? cuda_say_stream(stream, where) : "",
                               stream != NULL ? ")" : "");
        if (n < 0 || used + (size_t)n >= size)
            return;
        used += (size_t)n;
    }
}

/* driver_types.h: after these "the process must be terminated". */
bool cuda_is_lost(cudaError_t code)
{
    const int n = (int)code;
    return n == 214 || n == 226 || n == 700 || n == 702 || n == 709 || n == 710 ||
           (n >= 714 && n <= 719) || n == 721 || n == 810 || n == 911;
}

/* What to try, for codes whose cause lies outside of the program; else "". */
static const char *advice_for(cudaError_t code)
{
    switch ((int)code) {
    case 2:
        return "; nvidia-smi lists who holds the GPU's memory";
    case 46:
        return "; another process may have the GPU alone: nvidia-smi -q -d COMPUTE shows its mode";
    case 98:
    case 209:
        return "; the plugin has no code for this GPU: build it with TERN_CUDA_ARCHS, or leave "
               "the GPU out by CUDA_VISIBLE_DEVICES";
    case 214:
        return "; nvidia-smi -q -d ECC shows whether the GPU wants a reset";
    case 221:
        return "; libnvidia-ptxjitcompiler.so.1, a part of the driver, is missing";
    case 222:
        return "; the driver is older than the plugin's CUDA: install a newer one, or build the "
               "plugin "
               "with TERN_CUDA_ARCHS for this GPU";
    case 223:
        return "; unset CUDA_DISABLE_PTX_JIT, or build the plugin with TERN_CUDA_ARCHS for this "
               "GPU";
    default:
        return "";
    }
}

/* What to do about a system that does not let a device work, as where it does not let the driver start; else "". The
 * simulator's 999 is what it finds wrong in a program. */
static const char *step_for(cudaError_t code)
{
    static const struct {
        int number;
        const char *next;
    } steps[] = {
#define CODE(number, words, next) { number, next },
#include "core/cuda/driver_codes.def"
#undef CODE
    };
    const int n = (int)code;
    const bool is_of_system = n == 3 || n == 102 || (n >= 302 && n <= 304) ||
                              (n >= 800 && !(n == cudaErrorUnknown && cuda_is_simulated()));
    for (size_t i = 0; is_of_system && i < sizeof steps / sizeof *steps; i++)
        if (steps[i].number == n)
            return steps[i].next;
    return "";
}

/* `text`: the code's name, number and meaning. `stream` is "" where none took part. */
static tern_status_t fail(int index, const char *stream, tern_status_t code, const char *what,
                          const char *text, bool lost)
{
    char last[256];
    say_launches(last, sizeof last);
    return cuda_host->fail(code, "%s on cuda:%d%s%s%s: %s%s%s%s", what, index,
                           cuda_is_simulated() ? " (simulated)" : "", stream[0] != '\0' ? ", " : "",
                           stream, text, last[0] != '\0' ? "; launched last: " : "", last,
                           lost ? "; the device is lost to this process: end it and start again"
                                : "");
}

static tern_status_t runtime_failed(int index, const char *stream, cudaError_t code,
                                    const char *what)
{
    char text[1400];
    if (!cuda_is_lost(code))
        (void)cudaGetLastError();
    const char *step = step_for(code);
    (void)snprintf(text, sizeof text, "%s (%d): %s%s%s%s", cudaGetErrorName(code), (int)code,
                   cudaGetErrorString(code), advice_for(code), step[0] != '\0' ? "; " : "", step);
    return fail(index, stream, code == cudaErrorMemoryAllocation ? TERN_ERR_OOM : TERN_ERR_BACKEND,
                what, text, cuda_is_lost(code));
}

tern_status_t cuda_check(int index, cudaError_t code, const char *what)
{
    return code == cudaSuccess ? TERN_OK : runtime_failed(index, "", code, what);
}

tern_status_t cuda_check_on(int index, void *stream, cudaError_t code, const char *what)
{
    char text[CUDA_STREAM_TEXT];
    return code == cudaSuccess ? TERN_OK
                               : runtime_failed(index, cuda_say_stream(stream, text), code, what);
}

/* A library has a runtime of its own (cudart is linked statically), which was told what a kernel broke; ours is
 * told at its next call. */
cudaError_t cuda_sticky_error(void)
{
    const cudaError_t code = cudaStreamQuery(NULL);
    if (!cuda_is_lost(code))
        (void)cudaGetLastError(); /* that work goes on, for example */
    return code;
}

tern_status_t cuda_library_failed(int index, tern_status_t code, const char *what, const char *text)
{
    char whole[1800];
    const cudaError_t beneath = cuda_sticky_error();
    if (!cuda_is_lost(beneath))
        return fail(index, "", code, what, text, false);
    (void)snprintf(whole, sizeof whole, "%s; %s (%d): %s", text, cudaGetErrorName(beneath),
                   (int)beneath, cudaGetErrorString(beneath));
    return fail(index, "", TERN_ERR_BACKEND, what, whole, true);
}

static bool waits_after_launch(void)
{
    static atomic_int wish; /* 0: not read, 1: no, 2: yes */
    int now = atomic_load_explicit(&wish, memory_order_relaxed);
    if (now == 0) {
        const char *text = getenv("TERN_CUDA_SYNC");
        now = text != NULL && strcmp(text, "1") == 0 ? 2 : 1;
        atomic_store_explicit(&wish, now, memory_order_relaxed);
    }
    return now == 2;
}

tern_status_t cuda_launched(const tern_call *call, cudaError_t code, const char *name)
{
    note_launch(name, call->stream);
    if (code != cudaSuccess)
        return cuda_check_on(call->dev.index, call->stream, code,
                             "launch"); /* the dispatcher names the op */
    void (*listener)(const char *) = atomic_load_explicit(&on_launch, memory_order_relaxed);
    if (listener != NULL)
        listener(name);
    if (!waits_after_launch())
        return TERN_OK;
    cudaStream_t stream = NULL;
    CUDA_TRY(cuda_enter(call, &stream));
    return cuda_wait(call->dev.index, stream, name);
}
