/* libtern_blas.so's one exported function, and what it can say about the libraries. */
#include "backend_cpu/bridge/bridge_private.h"
#include "backend_cpu/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if TERN_HAVE_BLAS
#include <cblas.h>
/* Weak: another CBLAS has none of these. */
extern void openblas_set_num_threads(int count) __attribute__((weak));
extern char *openblas_get_corename(void) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern int openblas_get_parallel(void) __attribute__((weak));
#endif
#if TERN_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#endif

bridge_setup bridge_state;

#if TERN_HAVE_BLAS
static bool names_one_of(const char *core, const char *const *names)
{
    for (; *names; names++)
        if (strcasecmp(core, *names) == 0)
            return true;
    return false;
}

/* bridge_setup.openblas_most for kernels of this name: tiny products for those that are older than
 * the CPU, small ones for those without special ones for small matrices. */
static int64_t most_for(const char *core)
{
    static const char *const avx512[] = { "SkylakeX", "Cooperlake", "SapphireRapids", NULL };
    static const char *const avx2[] = { "Haswell", "Zen", NULL };
    enum { TINY = 16 * 16 * 16, SMALL = 64 * 64 * 64 };
    if (names_one_of(core, bridge_state.tuning == CPU_AVX2 ? avx2 : avx512))
        return 0;
#if defined(__x86_64__)
    bool has_more = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    return names_one_of(core, avx2) && !has_more ? SMALL : TINY;
#else
    (void)avx2;
    return SMALL;
#endif
}

static void openblas_configure(void)
{
    bridge_state.openblas_most = most_for(openblas_get_corename ? openblas_get_corename() : "");
    if (!bridge_state.host->openblas_shared && openblas_set_num_threads) {
        /* The OpenMP variant sets the calling thread's default as well, which is the program's. */
        int saved = bridge_threads_begin(1);
        openblas_set_num_threads(1);
        bridge_threads_end(saved);
    }
}

/* openblas_get_config writes its text anew at each call, where another thread may be reading it. */
static void openblas_info(cpu_blas_info *info)
{
    static char config[256];
    (void)snprintf(config, sizeof config, "%s",
                   openblas_get_config ? openblas_get_config() : "unknown CBLAS");
    info->openblas_corename = openblas_get_corename ? openblas_get_corename() : "unknown CBLAS";
    info->openblas_config = config;
    info->openblas_threading = openblas_get_parallel ? openblas_get_parallel() : 0;
    info->openblas_shared = bridge_state.host->openblas_shared;
}
#else
static void openblas_configure(void)
{
}

static void openblas_info(cpu_blas_info *info)
{
    (void)info;
}
#endif

#if TERN_HAVE_ONEDNN
static const char *isa_name(dnnl_cpu_isa_t isa)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        { dnnl_cpu_isa_sse41, "sse41" },
        { dnnl_cpu_isa_avx, "avx" },
        { dnnl_cpu_isa_avx2, "avx2" },
        { dnnl_cpu_isa_avx2_vnni, "avx2_vnni" },
        { dnnl_cpu_isa_avx512_core, "avx512_core" },
        { dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni" },
        { dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16" },
#if DNNL_VERSION_MAJOR >= 3
        { dnnl_cpu_isa_avx2_vnni_2, "avx2_vnni_2" },
        { dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16" },
        { dnnl_cpu_isa_avx512_core_amx_fp16, "avx512_core_amx_fp16" },
#endif
        { dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx" }
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "other";
}

static void onednn_info(cpu_blas_info *info)
{
    static char version[48];
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
    info->onednn_version = version;
    info->onednn_isa = isa_name(dnnl_get_effective_cpu_isa());
    info->onednn_major = v->major;
    info->onednn_minor = v->minor;
    info->onednn_patch = v->patch;
}
#else
static void onednn_info(cpu_blas_info *info)
{
    (void)info;
}
#endif

/* Of f32, for measurements; those of own kernels do not come here. */
static gemm_way forced_way(void)
{
    static const struct {
        const char *name;
        gemm_way way;
    } ways[] = { { "openblas", GEMM_OPENBLAS },
                 { "onednn", GEMM_ONEDNN },
                 { "tiles", GEMM_TILES } };
    const char *wanted = getenv("TERN_CPU_GEMM");
    for (size_t i = 0; wanted != NULL && i < sizeof ways / sizeof *ways; i++)
        if (strcmp(wanted, ways[i].name) == 0)
            return ways[i].way;
    return GEMM_NONE;
}

static cpu_blas_info about; /* found out once, before other threads come */

static void configure(const cpu_blas_host *host)
{
    bridge_state.host = host;
    bridge_state.tuning = host->tuning;
    bridge_state.forced = forced_way();
    openblas_configure();
    openblas_info(&about);
    onednn_info(&about);
}

static void describe(cpu_blas_info *out_info)
{
    *out_info = about;
}

static const cpu_blas_table table = {
    .version = CPU_BLAS_VERSION,
    .size = sizeof(cpu_blas_table),
    .configure = configure,
    .info = describe,
    .gemm = bridge_gemm,
    .gemm_route = bridge_gemm_route,
    .conv2d = bridge_conv2d,
    .conv2d_kernel = bridge_conv2d_kernel,
    .stats = bridge_stats,
    .release_thread = bridge_release_thread,
};

__attribute__((visibility("default"))) const void *tern_blas_get(const char *name,
                                                                 uint32_t version);

/* NULL for another name or version than those of bridge.h. */
const void *tern_blas_get(const char *name, uint32_t version)
{
    return strcmp(name, "blas") == 0 && version == CPU_BLAS_VERSION ? &table : NULL;
}
