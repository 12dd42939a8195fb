/* SIGSEGV and SIGBUS. In a kernel: an error with thread and allocation, and the program goes on. Of
 * the host in device memory: a message that says what it touched, before the crash that it is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "backend_cuda/sim/sim.h"

enum { STACK_BYTES = 64 << 10, SIGNALS = 2 };

static const int signals[SIGNALS] = { SIGSEGV, SIGBUS };
static struct sigaction previous[SIGNALS];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t stack_key;

static const char *access_of(const void *context)
{
#if defined(__x86_64__)
    const ucontext_t *c = context;
    return c->uc_mcontext.gregs[REG_ERR] & 2 ? "write" : "read";
#else
    (void)context;
    return "access";
#endif
}

/* "12 bytes past the end of allocation #2 (...)" */
static void say_place(const char *view, char *text, size_t size)
{
    const sim_allocation *x = sim_memory_find(view);
    char what[256];
    if (x == NULL) {
        (void)snprintf(text, size, "where nothing is allocated");
        return;
    }
    sim_memory_describe(x, what, sizeof what);
    const long long at = view - x->view;
    if (at < x->bytes)
        (void)snprintf(text, size, "%lld bytes into %s", at, what);
    else
        (void)snprintf(text, size, "%lld bytes past the end of %s", at - x->bytes, what);
}

/* ---- in kernels ------------------------------------------------------------------------------ */

/* A kernel that follows a pointer stored in memory meets the view; true when it may go on. */
static bool open_if_live(const char *view)
{
    sim_allocation *x = sim_memory_find(view);
    if (x == NULL || !x->live || x->device < 0 || view >= x->view + x->bytes || x->opened)
        return false;
    sim_memory_open_view(x);
    return true;
}

static void fault_in_kernel(const siginfo_t *info, const void *context)
{
    char thread[160], place[400];
    const char *address = info->si_addr;
    int device = 0;
    sim_where(thread, sizeof thread);
    if (address == NULL && info->si_code == SI_KERNEL) {
        sim_report(cudaErrorMisalignedAddress, "misaligned access by %s", thread);
        sim_grid_fail(cudaErrorMisalignedAddress);
    }
    const char *view = sim_memory_is_ours(address, &device) ? address : sim_memory_view_of(address);
    if (view != NULL)
        say_place(view, place, sizeof place);
    else if ((uintptr_t)address < 65536)
        (void)snprintf(place, sizeof place, "through a null pointer");
    else
        (void)snprintf(place, sizeof place,
                       "of %p, which is no device memory (or the stack is full)", info->si_addr);
    sim_report(cudaErrorIllegalAddress, "illegal %s by %s: %s", access_of(context), thread, place);
    sim_grid_fail(cudaErrorIllegalAddress);
}

/* ---- of the host ----------------------------------------------------------------------------- */

static void say_owner(const tern_owner *owner, const char *access, int device, char *text,
                      size_t size)
{
    const bool past = owner->offset >= owner->bytes;
    const long long at = past ? owner->offset - owner->bytes : owner->offset;
    char where[32] = "in pinned memory";
    if (device >= 0)
        (void)snprintf(where, sizeof where, "on cuda:%d (simulated)", device);
    (void)snprintf(text, size, "tern: host %s %lld bytes %s %s %s%s%s%s\n", access, at,
                   past ? "past the end of" : "into", owner->what, where,
                   owner->site != NULL ? ", made at " : "", owner->site != NULL ? owner->site : "",
                   device < 0         ? ", while a copy is under way; wait for it first: "
                                        "tern_dev_synchronize, or an event"
                   : owner->is_tensor ? "; copy it with tern_cpu"
                                      : "; the host cannot reach it, kernels and copies can");
}

static void fault_of_host(const char *address, int device, const void *context)
{
    char place[400], text[640];
    tern_owner owner;
    const char *access = access_of(context);
    say_place(address, place, sizeof place);
    if (sim_owner_of(address, device, &owner))
        say_owner(&owner, access, device, text, sizeof text);
    else if (device < 0)
        (void)snprintf(text, sizeof text,
                       "tern: host %s while a copy is under way, %s; synchronise first\n", access,
                       place);
    else
        (void)snprintf(text, sizeof text,
                       "tern: host %s of device memory, %s; copy it to the host first: tern_cpu, "
                       "tern_read\n",
                       access, place);
    const ssize_t wrote = write(STDERR_FILENO, text, strlen(text));
    (void)wrote;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int device = 0;
    const bool ours = sim_memory_is_ours(info->si_addr, &device);
    if (sim_in_kernel()) {
        if (ours && open_if_live(info->si_addr))
            return;
        fault_in_kernel(info, context);
    }
    if (ours)
        fault_of_host(info->si_addr, device, context);
    /* who handled it before us sees it again */
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number)
            (void)sigaction(number, &previous[i], NULL);
}

/* ---- installing ------------------------------------------------------------------------------ */

static void free_stack(void *stack)
{
    const stack_t off = { .ss_flags = SS_DISABLE };
    (void)sigaltstack(&off, NULL);
    (void)munmap(stack, STACK_BYTES);
}

static void make_key(void)
{
    (void)pthread_key_create(&stack_key, free_stack);
}

/* Others (test frameworks, language runtimes) set handlers of their own at any time; ours comes first
 * and hands on what it does not know. */
static void install(int i)
{
    struct sigaction now;
    if (sigaction(signals[i], NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_signal)
        return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    /* a kernel's fault never returns: the signal must not stay blocked */
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    previous[i] = now;
    (void)sigaction(signals[i], &action, NULL);
}

static void give_stack(void)
{
    stack_t now;
    (void)pthread_once(&once, make_key);
    if (sigaltstack(NULL, &now) != 0 || !(now.ss_flags & SS_DISABLE))
        return;
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return;
    const stack_t own = { .ss_sp = stack, .ss_size = STACK_BYTES };
    (void)sigaltstack(&own, NULL);
    (void)pthread_setspecific(stack_key, stack);
}

void sim_signals_install(void)
{
    static _Thread_local bool ready;
    if (!ready)
        give_stack();
    ready = true;
    for (int i = 0; i < SIGNALS; i++)
        install(i);
}
