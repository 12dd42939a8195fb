/* Files that stay open. A program may be started with its standard streams closed (2>&-, a daemon): the next file gets
 * such a number, and what the program says there would be written into it. */
#ifndef TERN_CORE_DESCRIPTOR_H
#define TERN_CORE_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* The same file under a number that no standard stream has; -1, with errno, for -1 and where there is no other. */
static inline int core_descriptor_lift(int file)
{
    if (file < 0 || file > STDERR_FILENO)
        return file;
    const int high = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    (void)close(file);
    errno = error;
    return high;
}

#endif
