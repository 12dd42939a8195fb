/* The log: what TERN_LOG and TERN_LOG_FILE let through. They are read once, so each case is a process of
 * its own: this program again, which emits one event per level. */
#include "tests/support/between.h"
#include "tests/support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/files.h"

extern char **environ;
static char self[FILE_PATH_BYTES]; /* this program */

/* ---- the other process ---------------------------------------------------------------------------- */

static int emit(bool raise_level)
{
    if (raise_level)
        tern_log_set_level(TERN_LOG_INFO);
    tern_log_set_level((tern_log_level_t)0); /* no level: nothing changes */
    tern_log_set_level((tern_log_level_t)99);
    tern_log_write(TERN_LOG_DEBUG, NULL, "a detail");
    tern_log_write(TERN_LOG_INFO, NULL, "some news %d", 7);
    tern_log_write(TERN_LOG_WARNING, "here.c:12", "a warning\n");
    tern_log_write(TERN_LOG_OFF, NULL, "never");
    tern_add(tern_ones(TERN_SHAPE(2)), tern_ones(TERN_SHAPE(3)));
    tern_error_clear();
    return tern_finish();
}

static atomic_int lines_written;

static void *write_a_line(void *user)
{
    tern_log_write(TERN_LOG_ERROR, user, "into a pipe");
    lines_written++;
    return NULL;
}

static bool next_byte_is(int fd, char wanted)
{
    char c = 0;
    return read(fd, &c, 1) == 1 && c == wanted;
}

/* A thread waits for a pipe: for its reader, or for room in it. Who does not write does not wait for that
 * thread, a fork neither. */
static int log_to_a_pipe(bool full)
{
    const char *path = getenv("TERN_LOG_FILE");
    pthread_t thread;
    int status = -1, filled = 0;
    (void)alarm(20);
    int fd = full ? open(path, O_RDWR | O_NONBLOCK) : -1;
    while (fd >= 0 && write(fd, "x", 1) == 1)
        filled++;
    if (pthread_create(&thread, NULL, write_a_line, (void *)(uintptr_t) "there.c:1") != 0)
        return 2;
    (void)usleep(100000);
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    tern_log_set_callback(NULL, NULL);
    if (waitpid(child, &status, 0) != child || status != 0 || lines_written != 0)
        return 3;
    if (!full)
        fd = open(path, O_RDONLY);
    else if (fcntl(fd, F_SETFL, 0) != 0)
        return 4;
    while (filled > 0 && next_byte_is(fd, 'x'))
        filled--;
    for (const char *c = "tern error: there.c:1: into a pipe\n"; *c != '\0'; c++)
        if (filled != 0 || !next_byte_is(fd, *c))
            return 5;
    return pthread_join(thread, NULL) == 0 && lines_written == 1 ? 0 : 6;
}

/* In turns with what the program itself writes on stderr. */
static int log_between(void)
{
    tern_log_write(TERN_LOG_WARNING, NULL, "one");
    (void)fputs("two\n", stderr);
    tern_log_write(TERN_LOG_WARNING, NULL, "three");
    (void)fputs("four\n", stderr);
    return 0;
}

enum { WRITERS = 4, LINES = 300 };

static void *write_lines(void *user)
{
    char words[LINES + 1];
    memset(words, *(const char *)user, LINES);
    words[LINES] = '\0';
    for (int i = 0; i < LINES; i++)
        tern_log_write(TERN_LOG_ERROR, NULL, "%s", words + i);
    return NULL;
}

static int log_from_threads(void)
{
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if (pthread_create(&threads[i], NULL, write_lines, &"abcd"[i]) != 0)
            return 2;
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(threads[i], NULL);
    return 0;
}

/* ---- running it ----------------------------------------------------------------------------------- */

/* What the other process leaves in the log file; "" for none. Good until the next call. */
static const char *log_of(const char *level, const char *mode)
{
    static char text[4096];
    pid_t child;
    int status = 0;
    char *const arguments[] = { self, (char *)(uintptr_t)mode, NULL };
    (void)unlink(file_path("log"));
    (void)setenv("TERN_LOG_FILE", file_path("log"), 1);
    if (level != NULL)
        (void)setenv("TERN_LOG", level, 1);
    else
        (void)unsetenv("TERN_LOG");
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    FILE *stream = fopen(file_path("log"), "r");
    const size_t length = stream != NULL ? fread(text, 1, sizeof text - 1, stream) : 0;
    text[length] = '\0';
    if (stream != NULL)
        (void)fclose(stream);
    return text;
}

#define ERROR_LINE "tern error: "
#define WARNING_LINE "tern warning: here.c:12: a warning\n"
#define INFO_LINE "tern info: some news 7\n"
#define DEBUG_LINE "tern debug: a detail\n"

static void expect(const char *text, bool errors, bool warnings, bool infos, bool debugs)
{
    const char *const lines[] = { ERROR_LINE, WARNING_LINE, INFO_LINE, DEBUG_LINE };
    const bool wanted[] = { errors, warnings, infos, debugs };
    for (int i = 0; i < 4; i++)
        if ((strstr(text, lines[i]) != NULL) != wanted[i])
            fail_msg("'%s' is %s:\n%s", lines[i], wanted[i] ? "missing" : "there", text);
    assert_null(strstr(text, "never"));
    if (errors) {
        assert_non_null(strstr(text, "test_log.c"));
        assert_non_null(strstr(text, "[2]"));
        assert_int_equal(text[strlen(text) - 1], '\n');
    }
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static void test_levels_let_through_what_they_say(void **state)
{
    (void)state;
    expect(log_of(NULL, "emit"), true, true, false, false);
    expect(log_of("", "emit"), true, true, false, false);
    expect(log_of("off", "emit"), false, false, false, false);
    expect(log_of("error", "emit"), true, false, false, false);
    expect(log_of("warning", "emit"), true, true, false, false);
    expect(log_of("info", "emit"), true, true, true, false);
    expect(log_of("debug", "emit"), true, true, true, true);
}

static void test_a_program_may_raise_the_level(void **state)
{
    (void)state;
    expect(log_of("error", "raise"), true, true, true, false);
}

static void test_a_level_that_is_none_is_said_once(void **state)
{
    (void)state;
    const char *text = log_of("loud", "emit");
    expect(text, true, true, false, false);
    const char *said = strstr(text, "TERN_LOG=loud is none of off, error, warning, info, debug");
    assert_non_null(said);
    assert_null(strstr(said + 1, "TERN_LOG=loud"));
}

static void test_a_level_is_shown_in_one_line(void **state)
{
    (void)state;
    assert_non_null(strstr(log_of("info\r\n", "emit"), "TERN_LOG=info\\r\\n is none of off"));
}

/* A run adds to the file; without a name, or with one that cannot be opened, nothing is written. */
static void test_the_file_grows(void **state)
{
    (void)state;
    int status = 0;
    pid_t child;
    char *const arguments[] = { self, (char *)(uintptr_t) "emit", NULL };
    const size_t once = strlen(log_of("warning", "emit"));
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    file_bytes all = file_read(file_path("log"));
    assert_int_equal(all.count, 2 * once);
    file_bytes_free(&all);
    const char *const nowhere[] = { "", "/nowhere/at/all" };
    for (int i = 0; i < 2; i++) {
        (void)setenv("TERN_LOG_FILE", nowhere[i], 1);
        assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

static void test_a_file_that_is_stderr_too(void **state)
{
    (void)state;
    static const char *const names[] = { "/dev/stderr", "/proc/self/fd/2", "said" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char command[1024], said[128];
        (void)snprintf(said, sizeof said, "%s", file_path("said"));
        (void)snprintf(command, sizeof command, "TERN_LOG_FILE='%s' exec '%s' between 2>'%s'",
                       names[i][0] == '/' ? names[i] : said, self, said);
        assert_int_equal(system(command), 0);
        file_bytes all = file_read(said);
        static const char wanted[] = "tern warning: one\ntwo\ntern warning: three\nfour\n";
        assert_int_equal(all.count, sizeof wanted - 1);
        assert_memory_equal(all.data, wanted, sizeof wanted - 1);
        file_bytes_free(&all);
    }
}

/* Where stderr is closed the log does not take its number, and what the program says there. */
static void test_a_file_is_no_closed_stream(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char command[1024], said[128];
        (void)snprintf(said, sizeof said, "%s", file_path(i == 0 ? "alone" : "stdout"));
        (void)snprintf(command, sizeof command,
                       i == 0 ? "TERN_LOG_FILE='%s' exec '%s' between 2>&-"
                              : "exec 2>&- >'%s'; TERN_LOG_FILE=/dev/stdout exec '%s' between",
                       said, self);
        assert_int_equal(system(command), 0);
        file_bytes all = file_read(said);
        static const char wanted[] = "tern warning: one\ntern warning: three\n";
        assert_int_equal(all.count, sizeof wanted - 1);
        assert_memory_equal(all.data, wanted, sizeof wanted - 1);
        file_bytes_free(&all);
    }
}

static int status_of(const char *mode)
{
    pid_t child;
    int status = -1;
    char *const arguments[] = { self, (char *)(uintptr_t)mode, NULL };
    (void)unsetenv("TERN_LOG");
    (void)setenv("TERN_LOG_FILE", file_path("log"), 1);
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_who_waits_for_a_pipe_has_no_lock(void **state)
{
    (void)state;
    static const char *const modes[] = { "unread", "full" };
    for (int i = 0; i < 2; i++) {
        (void)unlink(file_path("log"));
        assert_int_equal(mkfifo(file_path("log"), 0600), 0);
        assert_int_equal(status_of(modes[i]), 0);
    }
    (void)unlink(file_path("log"));
}

/* Each line is whole: a letter, as often as no line before it of that thread's. */
static void test_lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    static const char start[] = "tern error: ";
    int counts[WRITERS] = { 0 };
    (void)unlink(file_path("log"));
    assert_int_equal(status_of("threads"), 0);
    file_bytes all = file_read(file_path("log"));
    const char *at = (const char *)all.data, *end = at + all.count;
    while (at < end) {
        assert_true(end - at > (ptrdiff_t)sizeof start &&
                    strncmp(at, start, sizeof start - 1) == 0);
        at += sizeof start - 1;
        assert_between(*at, 'a', 'a' + WRITERS - 1);
        const int length = LINES - counts[*at - 'a']++;
        for (int i = 1; i < length; i++)
            assert_int_equal(at[i], at[0]);
        assert_int_equal(at[length], '\n');
        at += length + 1;
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(counts[i], LINES);
    file_bytes_free(&all);
}

/* ---- the callback, in this process ------------------------------------------------------------------- */

typedef struct heard {
    int events;
    tern_log_level_t level;
    tern_site_t site;
    char text[200];
} heard;

static void hear(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    heard *h = user;
    h->events++;
    h->level = level;
    h->site = site;
    (void)snprintf(h->text, sizeof h->text, "%s", text);
}

static void test_a_callback_hears_events_of_the_level(void **state)
{
    (void)state;
    heard h = { 0 };
    tern_log_set_callback(hear, &h);
    tern_log_set_level(TERN_LOG_WARNING);
    tern_log_write(TERN_LOG_INFO, NULL, "not this");
    assert_int_equal(h.events, 0);
    tern_log_write(TERN_LOG_WARNING, "here.c:1", "this %s", "one");
    assert_int_equal(h.events, 1);
    assert_int_equal(h.level, TERN_LOG_WARNING);
    assert_string_equal(h.site, "here.c:1");
    assert_string_equal(h.text, "this one");
    tern_fail(TERN_ERR_STATE, "test", "an error");
    assert_int_equal(h.events, 2);
    assert_int_equal(h.level, TERN_LOG_ERROR);
    assert_non_null(strstr(h.text, "test: an error"));
    tern_error_clear();
    tern_log_set_level(TERN_LOG_OFF);
    tern_log_write(TERN_LOG_ERROR, NULL, "not this either");
    assert_int_equal(h.events, 2);
    tern_log_set_level(TERN_LOG_DEBUG);
    tern_log_set_callback(NULL, NULL);
    tern_log_write(TERN_LOG_ERROR, NULL, "nobody listens");
    assert_int_equal(h.events, 2);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "between") == 0)
        return log_between();
    if (strcmp(mode, "threads") == 0)
        return log_from_threads();
    if (strcmp(mode, "full") == 0 || strcmp(mode, "unread") == 0)
        return log_to_a_pipe(mode[0] == 'f');
    if (argc > 1)
        return emit(strcmp(mode, "raise") == 0);
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return 1;
    (void)unsetenv("TERN_LOG");
    (void)unsetenv("TERN_LOG_FILE");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_callback_hears_events_of_the_level),
        cmocka_unit_test(test_levels_let_through_what_they_say),
        cmocka_unit_test(test_a_program_may_raise_the_level),
        cmocka_unit_test(test_a_level_that_is_none_is_said_once),
        cmocka_unit_test(test_a_level_is_shown_in_one_line),
        cmocka_unit_test(test_the_file_grows),
        cmocka_unit_test(test_a_file_that_is_stderr_too),
        cmocka_unit_test(test_a_file_is_no_closed_stream),
        cmocka_unit_test(test_who_waits_for_a_pipe_has_no_lock),
        cmocka_unit_test(test_lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
