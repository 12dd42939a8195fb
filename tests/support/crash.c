/* See crash.h. */
#include "tests/support/crash.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

bool crash_text(void (*body)(void), char *text, size_t size)
{
    int pipes[2], status = 0;
    text[0] = '\0';
    if (pipe(pipes) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)signal(SIGSEGV, SIG_DFL); /* cmocka's, whose report is not wanted */
        body();
        _exit(0);
    }
    (void)close(pipes[1]);
    size_t used = 0;
    for (ssize_t n; used < size - 1 && (n = read(pipes[0], text + used, size - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    (void)close(pipes[0]);
    return child > 0 && waitpid(child, &status, 0) == child &&
           (WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0));
}
