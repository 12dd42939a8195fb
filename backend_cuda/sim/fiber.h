/* Fibers: stacks that one host thread switches between. */
#ifndef TERN_SIM_FIBER_H
#define TERN_SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sim_fiber {
    void *sp;    /* saved stack pointer, or a ucontext_t where there is no switch of our own */
    char *stack; /* lowest address, above a guard page; NULL for the host's own stack */
    size_t size; /* of the stack */
    void *fake;  /* address sanitizer: the fake stack */
    void *start; /* where there is no switch of our own: the first context */
    void (*entry)(void *user);
    void *user;
} sim_fiber;

/* A stack with a guard page below; false when there is no memory. */
bool sim_fiber_create(sim_fiber *fiber);
/* The next switch to `fiber` starts entry(user), which must never return. What ran there before is
 * abandoned. */
void sim_fiber_prepare(sim_fiber *fiber, void (*entry)(void *user), void *user);
void sim_fiber_switch(sim_fiber *from, sim_fiber *to);

#endif
