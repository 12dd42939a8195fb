/* See child.h. */
#include "tests/support/child.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static char said[1 << 16];
static size_t said_bytes;
static bool quiet;

static void listen(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)user;
    const int n = snprintf(said + said_bytes, sizeof said - said_bytes, "%s\n", text);
    if (n > 0 && said_bytes + (size_t)n < sizeof said)
        said_bytes += (size_t)n;
}

int child_said(const char *words)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, words)) != NULL; at++)
        n++;
    return n;
}

void child_fail(const char *file, int line, const char *what)
{
    if (!quiet)
        print_error("%s:%d: %s\n%s\nsaid:\n%s", file, line, what, tern_error_text(), said);
    exit(1);
}

bool child_ends_well(void (*body)(void *context), void *context)
{
    enum { LIMIT_SECONDS = 20 };
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        (void)alarm(LIMIT_SECONDS);
        body(context);
        _exit(0);
    }
    const bool ended = child > 0 && waitpid(child, &status, 0) == child;
    if (ended && WIFSIGNALED(status))
        print_error("ended by signal %d (%d: it hung)\n", WTERMSIG(status), SIGALRM);
    return ended && status == 0;
}

bool child_holds(void (*body)(void), child_machine machine)
{
    int status = 0;
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv("TERN_SIM_FAIL", machine.fail != NULL ? machine.fail : "", 1);
        (void)setenv("TERN_SIM_ABSENT", machine.absent != NULL ? machine.absent : "", 1);
        quiet = machine.quiet;
        tern_log_set_level(TERN_LOG_DEBUG);
        tern_log_set_callback(listen, NULL);
        tern_seed(3);
        body();
        tern_log_set_callback(NULL, NULL);
        exit(tern_finish() == TERN_OK ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

double child_distance(tern_tensor *there, tern_tensor *here)
{
    tern_tensor *a = tern_cast(tern_cpu(there), TERN_F64), *b = tern_cast(here, TERN_F64);
    return tern_item(tern_amax(tern_abs(tern_sub(a, b)))) / tern_item(tern_amax(tern_abs(b)));
}
