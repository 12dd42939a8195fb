/* The driver asked, as a rule in a child process: see probe.h. */
#include "core/cuda/probe.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tern/error.h"

enum { PATIENCE = 6 };                               /* the part of the time without a word */
enum { ATTRIBUTE_MAJOR = 75, ATTRIBUTE_MINOR = 76 }; /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_* */

typedef struct driver {
    int (*init)(unsigned flags);
    int (*version)(int *out_version);
    int (*count)(int *out_count);
    int (*get)(int *out_device, int ordinal);
    int (*attribute)(int *out_value, int attribute, int device);
} driver;

_Static_assert(sizeof(core_probe) <= 4096, "a report is one atomic write (PIPE_BUF)");

/* ---- its functions ------------------------------------------------------------------------------ */

static void find(void *library, const char *name, void *out_function)
{
    void *symbol = dlsym(library, name);
    memcpy(out_function, &symbol, sizeof symbol);
}

static void copy_text(char text[CORE_PROBE_TEXT], const char *from)
{
    (void)snprintf(text, CORE_PROBE_TEXT, "%s", from != NULL ? from : "");
}

/* `mode`: RTLD_NOLOAD, or 0. */
static bool find_driver(int mode, core_probe *p, driver *out_driver)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | mode);
    if (library == NULL) {
        copy_text(p->words, dlerror());
        return false;
    }
    find(library, "cuInit", &out_driver->init);
    find(library, "cuDriverGetVersion", &out_driver->version);
    find(library, "cuDeviceGetCount", &out_driver->count);
    find(library, "cuDeviceGet", &out_driver->get);
    find(library, "cuDeviceGetAttribute", &out_driver->attribute);
    if (out_driver->init == NULL || out_driver->count == NULL) {
        (void)snprintf(p->words, sizeof p->words, "libcuda.so.1: undefined symbol: %s",
                       out_driver->init == NULL ? "cuInit" : "cuDeviceGetCount");
        return false;
    }
    Dl_info info;
    void *address;
    memcpy(&address, &out_driver->init, sizeof address);
    if (dladdr(address, &info) != 0) {
        char *real = realpath(info.dli_fname, NULL);
        copy_text(p->library, real != NULL ? real : info.dli_fname);
        free(real);
    }
    return true;
}

bool core_probe_opens(core_probe *out_probe)
{
    driver d;
    *out_probe =
        (core_probe){ .outcome = CORE_PROBE_ANSWERED, .stage = CORE_PROBE_OPEN, .code = 1 };
    return find_driver(0, out_probe, &d);
}

static void ask_version(const driver *d, core_probe *p)
{
    int value = 0;
    if (d->version != NULL && d->version(&value) == 0)
        p->driver_version = value;
}

static void ask_devices(const driver *d, core_probe *p)
{
    if (d->get == NULL || d->attribute == NULL)
        return;
    for (int i = 0; i < p->device_count && i < CORE_PROBE_DEVICES; i++) {
        int device, major, minor;
        if (d->get(&device, i) == 0 && d->attribute(&major, ATTRIBUTE_MAJOR, device) == 0 &&
            d->attribute(&minor, ATTRIBUTE_MINOR, device) == 0)
            p->capability[i] = 10 * major + minor;
    }
}

/* ---- in the child ------------------------------------------------------------------------------ */

static void tell(int to, core_probe *p, int stage, int code)
{
    p->stage = stage;
    p->code = code;
    const ssize_t wrote = write(to, p, sizeof *p);
    if (wrote < 0)
        _exit(1);
}

static bool open_driver(int to, core_probe *p, driver *out_driver)
{
    tell(to, p, CORE_PROBE_OPEN, 0);
    const bool found = find_driver(0, p, out_driver);
    if (!found)
        tell(to, p, CORE_PROBE_OPEN, 1);
    return found;
}

static void ask(int to)
{
    core_probe p = { .outcome = CORE_PROBE_ANSWERED };
    driver d;
    if (!open_driver(to, &p, &d))
        return;
    tell(to, &p, CORE_PROBE_VERSION, 0);
    ask_version(&d, &p);
    tell(to, &p, CORE_PROBE_INIT, 0);
    int code = d.init(0);
    if (code != 0) {
        tell(to, &p, CORE_PROBE_INIT, code);
        return;
    }
    tell(to, &p, CORE_PROBE_COUNT, 0);
    int count = 0;
    code = d.count(&count);
    if (code != 0) {
        tell(to, &p, CORE_PROBE_COUNT, code);
        return;
    }
    p.device_count = count;
    ask_devices(&d, &p);
    tell(to, &p, CORE_PROBE_DONE, 0);
}

/* None of the program's handlers. What is sent to the whole group is for the program: if it ends, so does the
 * child. */
static void forget_handlers(void)
{
    static const int defaults[] = { SIGSEGV, SIGBUS, SIGILL,  SIGFPE, SIGABRT,
                                    SIGTRAP, SIGSYS, SIGCHLD, SIGCONT };
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, SIG_IGN);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        (void)signal(defaults[i], SIG_DFL);
}

/* The child must not outlive its parent, dump core, run the program's handlers or write anywhere. */
static _Noreturn void be_child(int end, bool unhide)
{
    forget_handlers();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* where standard ones were closed it is one of them */
    const int to = fcntl(end, F_DUPFD_CLOEXEC, 3);
    if (to < 0)
        _exit(1);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= 2 && nothing >= 0; fd++)
        (void)dup2(nothing, fd);
    if (unhide)
        (void)unsetenv("CUDA_VISIBLE_DEVICES");
    ask(to);
    _exit(0);
}

/* ---- in the parent ----------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void say_awaited(const core_probe *p, int64_t timeout_ms)
{
    tern_log_write(TERN_LOG_WARNING, NULL,
                   "CUDA's driver is awaited: for %.3g s so far, now it is in %s (GPUs without "
                   "persistence mode "
                   "start slowly, one after the other); it is given up after %.3g s "
                   "(TERN_PROBE_SECONDS)",
                   (double)(timeout_ms / PATIENCE) / 1000, core_probe_stage_name(p->stage),
                   (double)timeout_ms / 1000);
}

static bool is_answer(const core_probe *p)
{
    return p->stage == CORE_PROBE_DONE || p->code != 0;
}

/* Keeps the latest report; false when the time was over before the child answered or closed the pipe. */
static bool listen(int from, int64_t timeout_ms, core_probe *out_probe)
{
    const int64_t start = now_ms();
    int64_t deadline = start + timeout_ms / PATIENCE;
    for (;;) {
        const int64_t left = deadline - now_ms();
        struct pollfd wait = { .fd = from, .events = POLLIN };
        const int ready = poll(&wait, 1, left > 0 ? (int)left : 0);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0 && deadline < start + timeout_ms) {
            say_awaited(out_probe, timeout_ms);
            deadline = start + timeout_ms;
            continue;
        }
        if (ready <= 0)
            return false;
        core_probe report;
        const ssize_t got = read(from, &report, sizeof report);
        if (got == (ssize_t)sizeof report)
            *out_probe = report;
        else if (got >= 0 || errno != EINTR)
            return true;
        if (is_answer(out_probe)) /* its end may take seconds */
            return true;
    }
}

/* Waits for a child that has been killed or has ended, but not for one that the kernel cannot end.
 * Somebody else may have reaped it (a handler of SIGCHLD; the kernel, where it is ignored): then nothing
 * is known, 0. */
static int reap(pid_t child)
{
    int status = 0;
    for (int tries = 0; tries < 200; tries++) {
        const pid_t done = waitpid(child, &status, WNOHANG);
        if (done == child)
            return status;
        if (done < 0 && errno != EINTR)
            return 0;
        (void)poll(NULL, 0, 1);
    }
    return 0;
}

/* A driver that this process has started answers here, and refuses a child of it (3). The reference to its library
 * stays. */
static bool ask_here(core_probe *out_probe)
{
    core_probe p = { .outcome = CORE_PROBE_ANSWERED, .stage = CORE_PROBE_DONE };
    driver d;
    int count = 0;
    if (!find_driver(RTLD_NOLOAD, &p, &d) || d.count(&count) != 0)
        return false;
    p.device_count = count;
    ask_version(&d, &p);
    ask_devices(&d, &p);
    *out_probe = p;
    return true;
}

void core_probe_driver(bool unhide, int64_t timeout_ms, core_probe *out_probe)
{
    int ends[2];
    if (ask_here(out_probe))
        return;
    memset(out_probe, 0, sizeof *out_probe);
    out_probe->outcome = CORE_PROBE_IMPOSSIBLE;
    out_probe->stage = CORE_PROBE_START;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        out_probe->code = errno;
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        be_child(ends[1], unhide);
    }
    out_probe->code = child < 0 ? errno : 0;
    (void)close(ends[1]);
    if (child > 0) {
        const bool in_time = listen(ends[0], timeout_ms, out_probe);
        const bool answered = is_answer(out_probe);
        if (answered || !in_time)
            (void)kill(child, SIGKILL);
        const int status = reap(child);
        out_probe->outcome = answered   ? CORE_PROBE_ANSWERED
                             : !in_time ? CORE_PROBE_HUNG
                                        : CORE_PROBE_CRASHED;
        if (out_probe->outcome == CORE_PROBE_CRASHED && WIFSIGNALED(status))
            out_probe->code = WTERMSIG(status);
    }
    (void)close(ends[0]);
}
