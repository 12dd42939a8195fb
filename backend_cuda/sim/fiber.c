/* See fiber.h. Own switches for x86-64 and aarch64, ucontext elsewhere (some ten times slower: it
 * enters the kernel for the signal mask). */
#define _GNU_SOURCE
#include "backend_cuda/sim/fiber.h"
#include "backend_cuda/sim/undefined.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define USE_UCONTEXT 1
#endif

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

#ifdef HAVE_ASAN
#include <sanitizer/common_interface_defs.h>
enum { STACK_BYTES = 512 << 10 };
#else
enum { STACK_BYTES = 64 << 10 };
#endif
enum { GUARD_BYTES = 64 << 10 }; /* a multiple of every page size there is */

bool sim_fiber_create(sim_fiber *fiber)
{
    char *memory = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    if (mprotect(memory + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(memory, GUARD_BYTES + STACK_BYTES);
        return false;
    }
    sim_watch_stack(memory + GUARD_BYTES, STACK_BYTES);
    *fiber = (sim_fiber){ .stack = memory + GUARD_BYTES, .size = STACK_BYTES };
    return true;
}

/* ---- switching ------------------------------------------------------------------------------- */

/* Where the switch comes from: what a started fiber and the sanitizer need to know. One kernel runs at a time. */
static sim_fiber *coming, *leaving;

/* After arriving on a stack. */
static void arrived(sim_fiber *self)
{
#ifdef HAVE_ASAN
    const void *bottom = NULL;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
    if (leaving->stack == NULL) { /* the host's stack, whose bounds are known only now */
        leaving->user = (void *)(uintptr_t)bottom;
        leaving->size = size;
    }
#else
    (void)self;
#endif
}

__attribute__((noreturn, used)) static void fiber_main(void)
{
    sim_fiber *self = coming;
    arrived(self);
    self->entry(self->user);
    abort(); /* an entry that returned: there is nowhere to go */
}

#if defined(__x86_64__)
void sim_fiber_jump(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden sim_fiber_jump\n"
        ".globl sim_fiber_jump\n"
        ".type sim_fiber_jump, @function\n"
        "sim_fiber_jump:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size sim_fiber_jump, .-sim_fiber_jump\n");

static void prepare_stack(sim_fiber *fiber)
{
    void **top = (void **)(void *)(fiber->stack + fiber->size);
    *--top = NULL; /* the return address of fiber_main: none; keeps the stack aligned */
    *--top = (void *)(uintptr_t)fiber_main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    fiber->sp = top;
}
#elif defined(__aarch64__)
void sim_fiber_jump(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden sim_fiber_jump\n"
        ".globl sim_fiber_jump\n"
        ".type sim_fiber_jump, %function\n"
        "sim_fiber_jump:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size sim_fiber_jump, .-sim_fiber_jump\n");

static void prepare_stack(sim_fiber *fiber)
{
    void **base = (void **)(void *)(fiber->stack + fiber->size - 160);
    memset(base, 0, 160);
    base[11] = (void *)(uintptr_t)fiber_main; /* x30 */
    fiber->sp = base;
}
#else
static void sim_fiber_jump(void **save, void *to)
{
    ucontext_t here;
    *save = &here;
    (void)swapcontext(&here, to);
}

static void prepare_stack(sim_fiber *fiber)
{
    ucontext_t *context = fiber->start != NULL ? fiber->start : calloc(1, sizeof *context);
    fiber->sp = fiber->start = context;
    (void)getcontext(context);
    context->uc_stack.ss_sp = fiber->stack;
    context->uc_stack.ss_size = fiber->size;
    makecontext(context, fiber_main, 0);
}
#endif

void sim_fiber_prepare(sim_fiber *fiber, void (*entry)(void *user), void *user)
{
    fiber->entry = entry;
    fiber->user = user;
    fiber->fake = NULL;
    prepare_stack(fiber);
}

void sim_fiber_switch(sim_fiber *from, sim_fiber *to)
{
    coming = to;
    leaving = from;
#ifdef HAVE_ASAN
    const void *bottom = to->stack != NULL ? to->stack : to->user;
    __sanitizer_start_switch_fiber(&from->fake, bottom, to->size);
#endif
    sim_fiber_jump(&from->sp, to->sp);
    arrived(from);
}
