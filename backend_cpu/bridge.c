/* Finds and opens libtern_blas.so; see bridge.h.
 *
 * Why the environment is touched: OpenBLAS chooses its kernels in its constructor, from a list of
 * CPU models that is older than many CPUs. For a model that it does not know it takes kernels that
 * are 2 (AMD Zen 5: Haswell) to 5 times (Intel Emerald Rapids: Prescott) too slow, and the only way
 * to correct it is OPENBLAS_CORETYPE before it is loaded. So this file sets that variable, no
 * other, once, just before it opens the bridge, and only when
 *   - the user has not set it,
 *   - no OpenBLAS is in the process yet (then it is too late; the report says so), and
 *   - the CPU's own feature bits promise kernels that an old list may miss.
 * The variable stays set: child processes profit for the same reason. setenv is not safe beside a
 * getenv in another thread; a program for which that matters calls cpu_blas_get_report (through any
 * op or `tern_init`) before it starts threads, or sets the variable itself. */
#include "backend_cpu/bridge.h"
#include "backend_cpu/cpu.h"
#include "backend_cpu/tuning.h"
#include "core/lock.h"
#include "core/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_REASONS = 12, REASON_BYTES = 1400, PATH_BYTES = 1024 };

static const char bridge_file[] = "libtern_blas.so";
static const char core_variable[] = "OPENBLAS_CORETYPE";

static struct {
    char path[PATH_BYTES];
    char core[32];
    char core_reason[256];
    char reasons[MOST_REASONS][REASON_BYTES];
    const char *reason_list[MOST_REASONS];
    int reason_count;
    bool openblas_shared;
    char missing[2048];  /* the reasons in lines, cut */
    char asked_core[32]; /* what this file has set the variable to */
} found;

/* After the search: the table, or NULL. */
static _Atomic(const cpu_blas_table *) loaded;
static atomic_bool searched;

static void add_reason(const char *path, const char *why)
{
    if (found.reason_count == MOST_REASONS)
        return;
    char *text = found.reasons[found.reason_count];
    /* The end of a long message is lost, not the path. */
    if (snprintf(text, REASON_BYTES, "%s: %s", path, why) >= REASON_BYTES)
        text[REASON_BYTES - 2] = '~';
    found.reason_list[found.reason_count++] = text;
}

/* ------------------------------------------------------------------ the kernel choice */

static int is_openblas(struct dl_phdr_info *info, size_t size, void *out_is)
{
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char *file = slash ? slash + 1 : info->dlpi_name;
    if (file && strncmp(file, "libopenblas", 11) == 0)
        *(bool *)out_is = true;
    return 0;
}

static bool openblas_present(void)
{
    bool is_there = dlsym(RTLD_DEFAULT, "openblas_get_corename") != NULL;
    dl_iterate_phdr(is_openblas, &is_there);
    return is_there;
}

/* The name for OPENBLAS_CORETYPE that fits this CPU, or NULL where its own choice can stand.
 * Haswell is asked for by every CPU with AVX2 and without AVX-512: OpenBLAS has nothing newer for
 * those (its Zen kernels are Haswell's), and for models that it does not know it takes Prescott's.
 */
static const char *fitting_core(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
    if (avx512)
        return "SKYLAKEX";
    return avx2 ? "HASWELL" : NULL;
#else
    return NULL;
#endif
}

static void say_core(const char *core, const char *reason)
{
    snprintf(found.core, sizeof found.core, "%s", core ? core : "");
    snprintf(found.core_reason, sizeof found.core_reason, "%s", reason);
}

static bool ask_for_core(const char *core)
{
    say_core(core, "from this CPU's features: OpenBLAS's list of models may not know it");
    (void)snprintf(found.asked_core, sizeof found.asked_core, "%s", core);
    return setenv(core_variable, core, 1) == 0;
}

static void choose_core(void)
{
    const char *users = getenv(core_variable);
    if (found.asked_core[0] && users && strcmp(users, found.asked_core) == 0)
        return; /* set here, by a search that a fork cut short */
    const char *fitting = fitting_core();
    found.openblas_shared = openblas_present();
    if (users && *users)
        say_core(users, "OPENBLAS_CORETYPE was set by the user");
    else if (found.openblas_shared)
        say_core(NULL, "OpenBLAS was in the process before tern needed it: left as it is");
    else if (!fitting)
        say_core(NULL, "this CPU has no kernels that OpenBLAS could miss");
    else if (!ask_for_core(fitting))
        say_core(NULL, "OPENBLAS_CORETYPE could not be set: no memory");
}

/* ------------------------------------------------------------------ the search */

static const cpu_blas_table *table_of(void *library, const char *path)
{
    const void *(*get)(const char *, uint32_t) = NULL;
    void *symbol = dlsym(library, CPU_BLAS_SYMBOL);
    memcpy(&get, &symbol, sizeof get);
    if (!get) {
        add_reason(path, "has no function " CPU_BLAS_SYMBOL);
        return NULL;
    }
    const cpu_blas_table *table = get("blas", CPU_BLAS_VERSION);
    if (!table || table->version != CPU_BLAS_VERSION || table->size < sizeof *table) {
        add_reason(path, "was built for another version of tern");
        return NULL;
    }
    return table;
}

/* A number of threads as OpenBLAS reads it; 0 where there is none. */
static long threads_in(const char *variable)
{
    const char *text = getenv(variable);
    const long number = text ? strtol(text, NULL, 10) : 0;
    return number > 0 ? number : 0;
}

/* The most threads that OpenBLAS starts with; what the program asked OpenMP for is nothing to it. Its OpenMP builds of
 * old know OMP_NUM_THREADS alone and count all processors, those that the process may not use, too; the others take
 * their own variables first. Which of them will be loaded is not known yet. */
static size_t library_threads(void)
{
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    const long most = processors > 0 ? processors : 2;
    const long omp = threads_in("OMP_NUM_THREADS");
    const long goto_own = threads_in("GOTO_NUM_THREADS"),
               blas_own = threads_in("OPENBLAS_NUM_THREADS");
    const long own = blas_own ? blas_own : goto_own;
    const long asked = omp && own > omp ? own : omp;
    return (size_t)(asked && asked < most ? asked : most);
}

/* OpenBLAS takes 128 MiB for each thread while it is loaded, and where it does not get them (ulimit -v, ulimit -d, a
 * kernel that promises no more than it has) tries for ever, or crashes. One more for its code and oneDNN's. Tried
 * writable, as there: the limit of data counts nothing else. No page is touched. */
static bool has_room(void)
{
    const size_t bytes = (library_threads() + 1) << 27;
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED)
        (void)munmap(room, bytes);
    return room != MAP_FAILED;
}

/* Never unloaded: OpenBLAS and OpenMP keep threads inside it. */
static const cpu_blas_table *open_bridge(const char *path)
{
    char why[CORE_PLUGIN_WHY];
    void *library = core_plugin_file_open(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE, why);
    if (!library) {
        add_reason(path, why);
        return NULL;
    }
    const cpu_blas_table *table = table_of(library, path);
    if (!table)
        dlclose(library);
    return table;
}

static const cpu_blas_table *try_folder(const char *folder, size_t length)
{
    char path[PATH_BYTES];
    if (length == 0)
        return NULL;
    int n = snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, bridge_file);
    if (n < 0 || (size_t)n >= sizeof path) {
        add_reason(bridge_file, "a folder of the search path has too long a name");
        return NULL;
    }
    if (folder[0] != '/') {
        add_reason(path, "relative folders are not searched");
        return NULL;
    }
    const cpu_blas_table *table = open_bridge(path);
    if (table)
        memcpy(found.path, path, sizeof path);
    return table;
}

static const cpu_blas_table *try_plugin_path(void)
{
    const char *list = getenv("TERN_PLUGIN_PATH");
    const cpu_blas_table *table = NULL;
    while (list && *list && !table) {
        size_t length = strcspn(list, ":");
        table = try_folder(list, length);
        list += length + (list[length] == ':');
    }
    return table;
}

static const cpu_blas_table *try_beside_this_code(void)
{
    Dl_info info;
    if (!dladdr(bridge_file, &info) || !info.dli_fname)
        return NULL;
    /* A program names itself as it was started; its real folder takes one more step. */
    char *real = realpath(info.dli_fname, NULL);
    if (!real)
        return NULL;
    char *slash = strrchr(real, '/');
    const cpu_blas_table *table = slash ? try_folder(real, (size_t)(slash - real)) : NULL;
    free(real);
    return table;
}

static const cpu_blas_table *try_install_folder(void)
{
#ifdef TERN_INSTALL_LIBDIR
    return try_folder(TERN_INSTALL_LIBDIR, strlen(TERN_INSTALL_LIBDIR));
#else
    return NULL;
#endif
}

/* ------------------------------------------------------------------ the host's services */

typedef struct parts_run {
    cpu_blas_part run;
    void *context;
} parts_run;

static void run_range(void *context, int64_t begin, int64_t end)
{
    const parts_run *parts = context;
    for (int64_t i = begin; i < end; i++)
        parts->run(parts->context, i);
}

static void run_parts(int64_t parts, cpu_blas_part run, void *context)
{
    parts_run work = { run, context };
    cpu_parallel(parts > INT_MAX ? INT_MAX : (int)parts, parts, 1, run_range, &work);
}

static cpu_blas_host host = { .size = sizeof(cpu_blas_host), .run_parts = run_parts };

static void join_reasons(void)
{
    size_t used = 0;
    for (int i = 0; i < found.reason_count; i++, used += strlen(found.missing + used))
        (void)snprintf(found.missing + used, sizeof found.missing - used, "%.900s\n",
                       found.reasons[i]);
}

/* Anew in the child of a fork that came in the middle. */
static void search(void)
{
    const char *choice = getenv("TERN_CPU_BLAS");
    const cpu_blas_table *table = NULL;
    found.reason_count = 0;
    if (choice && strcmp(choice, "off") == 0) {
        add_reason(bridge_file, "TERN_CPU_BLAS=off");
        say_core(NULL, "OpenBLAS is not used");
    } else if (!has_room()) {
        add_reason(bridge_file,
                   "the limit of the process's memory (ulimit -v, ulimit -d) leaves less than its "
                   "libraries take: 128 MiB a thread (OMP_NUM_THREADS), and as much for "
                   "themselves");
        say_core(NULL, "OpenBLAS is not used");
    } else {
        choose_core();
        table = try_plugin_path();
        if (!table)
            table = try_beside_this_code();
        if (!table)
            table = try_install_folder();
    }
    if (table) {
        host.openblas_shared = found.openblas_shared;
        host.tuning = cpu_tuning();
        table->configure(&host);
    }
    join_reasons();
    atomic_store_explicit(&loaded, table, memory_order_release);
}

const cpu_blas_table *cpu_blas(void)
{
    core_once(CORE_LOCK_LIBRARIES, &searched, search);
    return atomic_load_explicit(&loaded, memory_order_relaxed);
}

void cpu_blas_get_report(cpu_blas_report *out_report)
{
    const cpu_blas_table *table = cpu_blas();
    memset(out_report, 0, sizeof *out_report);
    out_report->loaded = table != NULL;
    out_report->path = table ? found.path : NULL;
    out_report->core_wanted = found.core[0] ? found.core : NULL;
    out_report->core_reason = found.core_reason;
    out_report->reason_count = found.reason_count;
    out_report->reasons = found.reason_list;
    out_report->missing = table ? "" : found.missing;
    if (table)
        table->info(&out_report->info);
}
