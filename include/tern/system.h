/* What there is: devices, the CPU and its libraries, what was found of CUDA. For reports and for
 * programs that choose a device themselves. Texts live as long as the process. */
#ifndef TERN_SYSTEM_H
#define TERN_SYSTEM_H

#include "tern/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_DEV_LABEL_BYTES = 128 };

typedef struct tern_dev_info_t {
    char name[TERN_DEV_LABEL_BYTES]; /* the maker's */
    char uuid[48]; /* "GPU-...", of a part of a GPU "MIG-...", "" where it has none */
    bool simulated;
    int32_t capability;      /* 90: compute capability 9.0; 0: none or not known */
    int32_t multiprocessors; /* 0: not known */
    int64_t total_bytes;     /* -1: not known, as for the CPU */
    int64_t free_bytes;      /* of the device, other processes counted; -1: not known */
    int32_t driver_version;  /* 13000: CUDA 13.0; 0: none */
    int32_t runtime_version; /* of the CUDA runtime that the plugin brought */
    const char *libraries;   /* "cuBLAS 13.1, cuDNN 9.19", or "" */
    char pci[16];            /* "0000:01:00.0", or "" */
    int32_t warp_size, threads_per_multiprocessor; /* 0: not known */
    int64_t shared_bytes, l2_bytes;                /* of a block, of the device; 0: not known */
    /* what the driver's library (NVML) tells; -1: not known */
    int32_t utilization, memory_utilization; /* percent of a short while ago */
    int32_t temperature;                     /* degrees Celsius */
    int32_t clock_mhz;
} tern_dev_info_t;
/* False, and *out_info zero, for a device that cannot be used now. Makes no context where the backend
 * can avoid it. */
TERN_API bool tern_dev_info(tern_dev_t dev, tern_dev_info_t *out_info);

/* Can the device compute in bf16? false without it; CUDA devices from capability 8.0 on can; others, the
 * CPU among them, compute in f32 between bf16 tensors, which counts when `including_emulation` is true. */
TERN_API bool tern_bf16_supported(tern_dev_t dev, bool including_emulation);

/* What the search for CUDA came to; searches at the first call. */
typedef struct tern_cuda_report_t {
    const char *reason;         /* reason code; "" when CUDA is usable */
    const char *reason_text;    /* "" when it is usable */
    const char *visible;        /* CUDA_VISIBLE_DEVICES as it was read, NULL: not set */
    const char *plugin;         /* path of the plugin in use, or NULL */
    const char *tried;          /* where a plugin was looked for and what was wrong, lines; "" */
    const char *driver_library; /* file of libcuda, "" when it was not asked or not found */
    const char *kernel_driver;  /* version of the loaded kernel driver, "" for none */
    int32_t driver_version;     /* 13000; 0: not known */
    bool simulated;             /* TERN_SIM_DEVICES asked for simulated devices */
} tern_cuda_report_t;
TERN_API void tern_cuda_report(tern_cuda_report_t *out_report);

/* The CPU backend and what it opened; opens OpenBLAS and oneDNN if that has not happened yet. */
typedef struct tern_cpu_report_t {
    char model[TERN_DEV_LABEL_BYTES]; /* of the processor, "" when the system does not say */
    int32_t processors;               /* this process may run on */
    double quota;    /* of a container or control group: processors' worth of time; 0: no limit */
    int32_t threads; /* tern_num_threads() */
    const char *isa; /* instruction set of tern's kernels: base, avx2, avx512 */
    const char *tuning;              /* whose measurements they go by: zen5, zen4, intel, avx2 */
    const char *libraries;           /* path of libtern_blas.so in use, or NULL */
    const char *libraries_missing;   /* why it is not, lines; "" */
    char blas[TERN_DEV_LABEL_BYTES]; /* "OpenBLAS 0.3.21, kernels SkylakeX", or "" */
    char blas_reason[256];           /* why those kernels */
    char dnn[TERN_DEV_LABEL_BYTES];  /* "oneDNN 2.6.0, AVX512", or "" */
} tern_cpu_report_t;
TERN_API void tern_cpu_report(tern_cpu_report_t *out_report);

/* How the CPU computes products and convolutions of f16 and bf16: by instructions of its own where a table of measurements
 * says that they are faster, else in f32, converted in blocks. TERN_CPU_HALF=f32: always in f32; =native: by tern's AVX512-BF16
 * kernels and oneDNN's bf16 convolutions wherever there is AVX512-BF16; =library: by oneDNN, which takes AMX and AVX512-FP16. */
typedef struct tern_cpu_half_t {
    char reason[256]; /* "AMD Zen 5: AVX512-BF16 at 1.77 times the speed of f32, measured" */
    /* that this thread has asked for: by tern's bf16 kernels, by oneDNN's of half types, and in f32 */
    int64_t native, library, widened;
} tern_cpu_half_t;
TERN_API void tern_cpu_half(tern_cpu_half_t *out_half);

/* The i-th reason code that tern_dev_fallback can give ("hidden-by-empty-list"), NULL after the last. */
TERN_API const char *tern_reason_code(int i);

#ifdef __cplusplus
}
#endif
#endif
