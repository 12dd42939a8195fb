/* When results are written past the caches. The one place that decides it. */
#ifndef TERN_BACKEND_CPU_CACHES_H
#define TERN_BACKEND_CPU_CACHES_H

#include <stdbool.h>
#include <stdint.h>

/* What an op may count on of the last level cache: its size as the system tells it, at most
 * CPU_CACHE_MOST, for larger ones have many cores and, in a virtual machine, strangers. */
enum { CPU_CACHE_MOST = 32 << 20 };
int64_t cpu_cache_bytes(void);

/* Should an op that reads and writes so many bytes, each once, write past the caches? An ordinary
 * store first reads its line, and the results push out all else; but a next op would find them in
 * the cache. What is read decides: from half of the cache on results do not stay there with it, and
 * reading hides the slower stores. What only fills has nothing that hides them. */
static inline bool cpu_past_rule(int64_t cache, int64_t read, int64_t written)
{
    return read >= cache / 2 || written >= 2 * cache;
}
static inline bool cpu_writes_past(int64_t read, int64_t written)
{
    return cpu_past_rule(cpu_cache_bytes(), read, written);
}

/* "32768K", "1M" or "512" as bytes; 0 for what is none of these. */
int64_t cpu_cache_size_of(const char *text);

#endif
