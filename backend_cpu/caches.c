/* The size of the last level cache, from /sys: of sysconf's values the last level's is wrong on
 * some virtual machines (402 MB for 32). */
#include "backend_cpu/caches.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int64_t cpu_cache_size_of(const char *text)
{
    enum { DIGITS_MOST = 12 };
    int64_t size = 0;
    int digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < DIGITS_MOST; digits++)
        size = 10 * size + (*text++ - '0');
    const int shift = *text == 'K' ? 10 : *text == 'M' ? 20 : *text == 'G' ? 30 : 0;
    const char after = shift != 0 ? text[1] : *text;
    return digits == 0 || (after != 0 && after != '\n') ? 0 : size << shift;
}

/* A small file of one cache of the first CPU; false where there is none. */
static bool read_text(int index, const char *name, char *out, size_t room)
{
    char path[96];
    (void)snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t length = read(file, out, room - 1);
    close(file);
    out[length > 0 ? length : 0] = 0;
    return length > 0;
}

static int64_t find_cache_bytes(void)
{
    enum { INDEXES = 8, ROOM = 32 };
    char level[ROOM], type[ROOM], size[ROOM];
    char highest = '1'; /* of a first level nothing can be said */
    int64_t bytes = 0;
    for (int i = 0; i < INDEXES && read_text(i, "level", level, ROOM); i++) {
        if (level[0] <= highest || !read_text(i, "type", type, ROOM) ||
            !read_text(i, "size", size, ROOM) || strncmp(type, "Instruction", 11) == 0)
            continue;
        highest = level[0];
        bytes = cpu_cache_size_of(size);
    }
    return bytes <= 0 || bytes > CPU_CACHE_MOST ? CPU_CACHE_MOST : bytes;
}

int64_t cpu_cache_bytes(void)
{
    static int64_t found; /* threads that come here at the same time find the same */
    int64_t bytes = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (bytes == 0) {
        bytes = find_cache_bytes();
        __atomic_store_n(&found, bytes, __ATOMIC_RELAXED);
    }
    return bytes;
}
