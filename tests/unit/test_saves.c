/* Saving a state: it leaves a whole file or the old one, and nothing beside it. */
#include "tests/support/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/target.h"
#include "tests/support/files.h"

/* Files in the test's folder whose name begins with `start`. */
static int count_files(const char *start)
{
    int count = 0;
    DIR *stream = opendir(file_folder());
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        count += strncmp(entry->d_name, start, strlen(start)) == 0;
    closedir(stream);
    return count;
}

static tern_state *one_number(double value)
{
    tern_state *state = tern_state_create();
    tern_state_set_number(state, "n", value);
    return state;
}

static double saved_number(const char *name)
{
    double value = NAN;
    tern_state *back = tern_state_load(file_path(name));
    tern_state_get_number(back, "n", &value);
    tern_state_free(back);
    return value;
}

static void test_a_save_replaces_a_file_and_keeps_its_mode(void **unused)
{
    (void)unused;
    tern_state *state = one_number(1);
    struct stat info;
    tern_state_save(state, file_path("mode"));
    assert_int_equal(chmod(file_path("mode"), 0640), 0);
    tern_state_set_number(state, "n", 2);
    tern_state_save(state, file_path("mode"));
    assert_no_error();
    assert_true(saved_number("mode") == 2);
    assert_int_equal(stat(file_path("mode"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(count_files("mode"), 1);
    tern_state_free(state);
}

static void test_a_save_goes_through_a_link(void **unused)
{
    (void)unused;
    tern_state *state = one_number(1);
    tern_state_save(state, file_path("real"));
    char link[2 * FILE_PATH_BYTES];
    snprintf(link, sizeof link, "%s", file_path("link"));
    assert_int_equal(symlink("real", link), 0);
    tern_state_set_number(state, "n", 2);
    tern_state_save(state, link);
    assert_no_error();
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_true(saved_number("real") == 2);
    tern_state_free(state);
}

static void assert_link(const char *name)
{
    struct stat info;
    assert_int_equal(lstat(file_path(name), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
}

/* From the folder of each link on. */
static void test_a_save_makes_the_end_of_a_link(void **unused)
{
    (void)unused;
    char folder[2 * FILE_PATH_BYTES], end[3 * FILE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", file_path("below"));
    snprintf(end, sizeof end, "%s/end", folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(symlink("below/second", file_path("first")), 0);
    assert_int_equal(symlink(end, file_path("below/second")), 0);
    assert_int_equal(symlink("../below/nowhere/end", file_path("below/lost")), 0);
    assert_int_equal(symlink("ring", file_path("ring")), 0);
    tern_state *state = one_number(3);
    tern_state_save(state, file_path("first"));
    assert_no_error();
    assert_true(saved_number("below/end") == 3);
    assert_link("first");
    assert_link("below/second");
    tern_state_save(state, file_path("below/lost"));
    assert_error(TERN_ERR_IO, "below/../below/nowhere/end: cannot write a file beside it: No such");
    assert_link("below/lost");
    tern_state_save(state, file_path("ring"));
    assert_error(TERN_ERR_IO, "ring: cannot find the file to write: Too many levels");
    assert_link("ring");
    assert_int_equal(count_files("ring") + count_files("first"), 2);
    assert_int_equal(unlink(end), 0);
    assert_int_equal(unlink(file_path("below/second")), 0);
    assert_int_equal(unlink(file_path("below/lost")), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left in it */
    tern_state_free(state);
}

/* A name that a file does not take is found before anything is written. */
static void test_a_save_of_a_bad_name_leaves_the_old_file(void **unused)
{
    (void)unused;
    tern_state *state = one_number(1);
    tern_state_save(state, file_path("old"));
    tern_state_set_number(state, "n", 2);
    tern_state_set_int(state, "__metadata__", 1);
    assert_int_equal(tern_state_save(state, file_path("old")), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "'__metadata__' is the file's own");
    assert_true(saved_number("old") == 1);
    assert_int_equal(count_files("old"), 1);
    tern_state_free(state);
}

/* The system takes the header and the first tensors, then no more. */
static void test_a_save_that_the_disk_cuts_short_leaves_the_old_file(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = one_number(1);
    tern_state_save(state, file_path("short"));
    assert_no_error();
    tern_state_set_number(state, "n", 2);
    tern_state_set(state, "large", tern_ones(TERN_SHAPE(1 << 16)));
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 100 << 10;
    void (*const handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const tern_status_t status = tern_state_save(state, file_path("short"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, TERN_ERR_IO);
    assert_error(TERN_ERR_IO, "short: cannot write: File too large");
    assert_true(saved_number("short") == 1);
    assert_int_equal(count_files("short"), 1);
    tern_state_free(state);
}

/* Can files be made that have no name yet? Not on every file system. */
static bool has_nameless_files(void)
{
    const int file = open(file_folder(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0)
        assert_int_equal(close(file), 0);
    return file >= 0;
}

/* The child dies of the signal that a file above its limit brings, while it writes. */
static void test_a_save_whose_process_is_killed_leaves_nothing_beside_the_old_file(void **unused)
{
    (void)unused;
    if (!has_nameless_files()) {
        print_message("skipped: this file system has no files without a name\n");
        skip();
    }
    TERN_SCOPE;
    tern_state *state = one_number(1);
    tern_state_save(state, file_path("killed"));
    assert_no_error();
    tern_state_set_number(state, "n", 2);
    /* no child of a fork has its parent's GPU */
    tern_state_set(state, "large", tern_ones(TERN_SHAPE(1 << 16), .device = TERN_CPU));
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit tight = { 100 << 10, 100 << 10 }, no_core = { 0, 0 };
        (void)signal(SIGXFSZ, SIG_DFL);
        if (setrlimit(RLIMIT_CORE, &no_core) == 0 && setrlimit(RLIMIT_FSIZE, &tight) == 0)
            (void)tern_state_save(state, file_path("killed"));
        _exit(0);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGXFSZ);
    assert_true(saved_number("killed") == 1);
    assert_int_equal(count_files("killed"), 1);
    tern_state_free(state);
}

/* From now on the system gives no file of this process a second name. */
static bool forbid_links(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As some sandboxes have it. */
static void test_a_save_needs_no_links(void **unused)
{
    (void)unused;
    enum { UNABLE = 77 };
    tern_state *state = one_number(1);
    tern_state_save(state, file_path("sandbox"));
    tern_state_set_number(state, "n", 2);
    const pid_t child = fork();
    if (child == 0)
        _exit(!forbid_links()                                           ? UNABLE
              : tern_state_save(state, file_path("sandbox")) == TERN_OK ? 0
                                                                        : 1);
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how) && WEXITSTATUS(how) == UNABLE) {
        print_message("skipped: this system lets no process forbid itself links\n");
        skip();
    }
    assert_int_equal(how, 0);
    assert_true(saved_number("sandbox") == 2);
    assert_int_equal(count_files("sandbox"), 1);
    tern_state_free(state);
}

/* What is no regular file is refused before a new file is made. */
/* What other threads say on stderr while a file is written does not go into it where stderr is closed. */
static void test_a_file_that_is_written_is_no_closed_stream(void **unused)
{
    (void)unused;
    core_target target;
    const int kept = dup(STDERR_FILENO);
    assert_true(kept > STDERR_FILENO);
    assert_int_equal(close(STDERR_FILENO), 0);
    const bool opened = core_target_open(NULL, "save", &target, file_path("closed"));
    core_target_write(&target, "all", 3);
    const bool heard = write(STDERR_FILENO, "more", 4) >= 0;
    const bool done = opened && core_target_commit(&target);
    assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(kept), 0);
    assert_true(done && !heard);
    file_bytes all = file_read(file_path("closed"));
    assert_int_equal(all.count, 3);
    file_bytes_free(&all);
}

static void test_a_save_onto_something_else_fails(void **unused)
{
    (void)unused;
    tern_state *state = one_number(1);
    char folder[2 * FILE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", file_path("folder"));
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(tern_state_save(state, folder), TERN_ERR_IO);
    assert_error(TERN_ERR_IO, "folder: not a regular file");
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(count_files("folder"), 0);
    tern_state_save(state, "/dev/null");
    assert_error(TERN_ERR_IO, "/dev/null: not a regular file");
    tern_state_save(state, "");
    assert_error(TERN_ERR_ARGUMENT, "the path is empty");
    tern_state_save(state, NULL);
    assert_error(TERN_ERR_ARGUMENT, "the path is NULL");
    tern_state_save(state, file_path("nowhere/file"));
    assert_error(TERN_ERR_IO, "No such file");
    tern_state_save(NULL, file_path("null"));
    assert_error(TERN_ERR_ARGUMENT, "state is NULL");
    tern_state_free(state);
}

static void test_nothing_happens_while_an_error_is_pending(void **unused)
{
    (void)unused;
    tern_state *state = one_number(1);
    tern_fail(TERN_ERR_STATE, "test", "pending");
    assert_int_equal(tern_state_save(state, file_path("pending")), TERN_ERR_STATE);
    assert_int_equal(tern_state_set_int(state, "m", 1), TERN_ERR_STATE);
    assert_null(tern_state_load(file_path("pending")));
    assert_null(tern_state_create());
    assert_error(TERN_ERR_STATE, "pending");
    assert_int_equal(count_files("pending"), 0);
    assert_int_equal(tern_state_tensors(state).count, 1);
    tern_state_free(state);
}

static void test_loading_what_is_not_there_says_why(void **unused)
{
    (void)unused;
    assert_null(tern_state_load(file_path("absent")));
    assert_error(TERN_ERR_IO, "absent: cannot open: No such file");
    assert_null(tern_state_load(file_folder()));
    assert_error(TERN_ERR_IO, "not a regular file");
    assert_null(tern_state_load(NULL));
    assert_error(TERN_ERR_ARGUMENT, "the path is NULL");
    file_bytes text = { NULL, 0 };
    file_bytes_add(&text, "hello, this is text", 19);
    assert_null(tern_state_load(file_write("text", text)));
    assert_error(TERN_ERR_FORMAT, "text: the length of the header is not possible");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_save_replaces_a_file_and_keeps_its_mode),
        cmocka_unit_test(test_a_save_goes_through_a_link),
        cmocka_unit_test(test_a_save_makes_the_end_of_a_link),
        cmocka_unit_test(test_a_save_of_a_bad_name_leaves_the_old_file),
        cmocka_unit_test(test_a_save_that_the_disk_cuts_short_leaves_the_old_file),
        cmocka_unit_test(test_a_save_whose_process_is_killed_leaves_nothing_beside_the_old_file),
        cmocka_unit_test(test_a_save_needs_no_links),
        cmocka_unit_test(test_a_file_that_is_written_is_no_closed_stream),
        cmocka_unit_test(test_a_save_onto_something_else_fails),
        cmocka_unit_test(test_nothing_happens_while_an_error_is_pending),
        cmocka_unit_test(test_loading_what_is_not_there_says_why),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
