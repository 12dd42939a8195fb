/* Device memory that nobody wrote, under valgrind's memcheck: it follows each bit through kernels and
 * copies. A kernel whose addresses or branches depend on such memory, and a copy of it to the host, are
 * reported with kernel, thread and tensor; valgrind's own report has the source line. Elsewhere, and
 * without valgrind's header when this was compiled, all of this is nothing. */
#ifndef TERN_SIM_UNDEFINED_H
#define TERN_SIM_UNDEFINED_H

#include <stddef.h>
#include <stdint.h>

#if TERN_HAVE_VALGRIND /* by cmake/cuda.cmake */
#include <valgrind/memcheck.h>
#define sim_is_watched() (RUNNING_ON_VALGRIND != 0)
#define sim_undefined_mark(address, bytes) ((void)VALGRIND_MAKE_MEM_UNDEFINED(address, bytes))
#define sim_defined_mark(address, bytes) ((void)VALGRIND_MAKE_MEM_DEFINED(address, bytes))
/* Offset of the first byte that nobody wrote, or -1; valgrind reports it, too. */
static inline int64_t sim_undefined_first(const void *address, size_t bytes)
{
    const uintptr_t at = (uintptr_t)VALGRIND_CHECK_MEM_IS_DEFINED(address, bytes);
    return at != 0 ? (int64_t)(at - (uintptr_t)address) : -1;
}
/* Rises with each of valgrind's reports. */
#define sim_undefined_uses() ((unsigned)VALGRIND_COUNT_ERRORS)
/* Stacks of fibers are no part of the host's. */
#define sim_watch_stack(low, bytes) ((void)VALGRIND_STACK_REGISTER(low, (low) + (bytes)))
#define sim_say(...) ((void)VALGRIND_PRINTF(__VA_ARGS__))
#else
#define sim_is_watched() 0
#define sim_undefined_mark(address, bytes) ((void)(address), (void)(bytes))
#define sim_defined_mark(address, bytes) ((void)(address), (void)(bytes))
static inline int64_t sim_undefined_first(const void *address, size_t bytes)
{
    (void)address, (void)bytes;
    return -1;
}
#define sim_undefined_uses() 0u
#define sim_watch_stack(low, bytes) ((void)0)
#define sim_say(...) ((void)0)
#endif

#endif
