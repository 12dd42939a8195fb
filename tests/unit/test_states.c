/* States: names, numbers, texts and bytes; and saving, which leaves a whole file or the old one. */
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

#include "tests/support/files.h"

static tern_state *round_trip(const tern_state *state, const char *name)
{
    assert_int_equal(tern_state_save(state, file_path(name)), TERN_OK);
    tern_state *back = tern_state_load(file_path(name));
    assert_no_error();
    return back;
}

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

/* ---- what a state holds ----------------------------------------------------------------------- */

static void test_numbers_come_back_bit_for_bit(void **unused)
{
    (void)unused;
    tern_state *state = tern_state_create();
    tern_state_set_number(state, "third", 1.0 / 3);
    tern_state_set_number(state, "zero", -0.0);
    tern_state_set_number(state, "endless", INFINITY);
    tern_state_set_int(state, "least", INT64_MIN);
    tern_state_set_int(state, "odd", INT64_C(9007199254740993));
    tern_state *back = round_trip(state, "numbers");
    double third = 0, zero = 1, endless = 0;
    int64_t least = 0, odd = 0;
    tern_state_get_number(back, "third", &third);
    tern_state_get_number(back, "zero", &zero);
    tern_state_get_number(back, "endless", &endless);
    tern_state_get_int(back, "least", &least);
    tern_state_get_int(back, "odd", &odd);
    assert_no_error();
    assert_true(third == 1.0 / 3 && zero == 0 && signbit(zero) && isinf(endless));
    assert_true(least == INT64_MIN && odd == INT64_C(9007199254740993));
    assert_int_equal(tern_ndim(tern_state_get(back, "third")), 0);
    tern_state_free(state);
    tern_state_free(back);
}

static void test_bytes_and_texts_come_back(void **unused)
{
    (void)unused;
    const unsigned char bytes[5] = { 0, 255, 1, 0, 7 };
    unsigned char there[5] = { 0 };
    tern_state *state = tern_state_create();
    tern_state_set_bytes(state, "position", bytes, sizeof bytes);
    tern_state_set_bytes(state, "nothing", NULL, 0);
    tern_state_set_text(state, "position", "its own names");
    tern_state_set_text(state, "empty", "");
    tern_state *back = round_trip(state, "bytes");
    tern_state_get_bytes(back, "position", there, sizeof there);
    tern_state_get_bytes(back, "nothing", NULL, 0);
    assert_no_error();
    assert_memory_equal(there, bytes, sizeof bytes);
    assert_string_equal(tern_state_text(back, "position"), "its own names");
    assert_string_equal(tern_state_text(back, "empty"), "");
    tern_state_free(state);
    tern_state_free(back);
}

static void test_setting_a_name_again_replaces_in_place(void **unused)
{
    (void)unused;
    const int64_t before = tern_live_tensors();
    tern_state *state = tern_state_create();
    int64_t value = 0;
    tern_state_set_int(state, "a", 1);
    tern_state_set_int(state, "b", 2);
    tern_state_set_int(state, "a", 3);
    tern_state_set_text(state, "t", "old");
    tern_state_set_text(state, "t", "new");
    tern_state_get_int(state, "a", &value);
    assert_int_equal(value, 3);
    assert_int_equal(tern_state_tensors(state).count, 2);
    assert_string_equal(tern_state_tensors(state).names[0], "a");
    assert_int_equal(tern_state_text_keys(state).count, 1);
    assert_string_equal(tern_state_text(state, "t"), "new");
    assert_string_equal(tern_state_source(state), "state");
    assert_int_equal(tern_live_tensors(), before + 2);
    tern_state_free(state);
    assert_int_equal(tern_live_tensors(), before);
}

/* Shared, not copied: the file holds what the tensor is at the save. */
static void test_a_tensor_is_shared_until_the_save(void **unused)
{
    (void)unused;
    tern_state *state = tern_state_create();
    tern_tensor *t;
    {
        TERN_SCOPE;
        t = tern_zeros(TERN_SHAPE(2));
        tern_state_set(state, "t", t);
        tern_fill(t, 7);
    }
    assert_ptr_equal(tern_state_get(state, "t"), t);
    tern_state *back = round_trip(state, "shared");
    float values[2];
    tern_read(tern_state_get(back, "t"), TERN_F32, values, sizeof values);
    assert_true(values[0] == 7 && values[1] == 7);
    tern_state_free(state);
    tern_state_free(back);
}

static void test_many_names_are_found(void **unused)
{
    (void)unused;
    enum { COUNT = 500 };
    char name[32];
    tern_state *state = tern_state_create();
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "layers.%d.weight", i);
        tern_state_set_int(state, name, i);
    }
    tern_state *back = round_trip(state, "many");
    for (int i = 0; i < COUNT; i++) {
        int64_t value = -1;
        snprintf(name, sizeof name, "layers.%d.weight", i);
        tern_state_get_int(back, name, &value);
        assert_int_equal(value, i);
    }
    assert_null(tern_state_get(back, "layers.500.weight"));
    tern_state_free(state);
    tern_state_free(back);
}

/* ---- what a state refuses --------------------------------------------------------------------- */

static void test_names_and_values_are_checked(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_tensor *t = tern_ones(TERN_SHAPE(1));
    assert_int_equal(tern_state_set(state, "", t), TERN_ERR_ARGUMENT);
    assert_error(TERN_ERR_ARGUMENT, "name in UTF-8");
    tern_state_set(state, "\xff", t);
    assert_error(TERN_ERR_ARGUMENT, "name in UTF-8");
    tern_state_set(state, NULL, t);
    assert_error(TERN_ERR_ARGUMENT, "name in UTF-8");
    tern_state_set(NULL, "a", t);
    assert_error(TERN_ERR_ARGUMENT, "a state and a name");
    tern_state_set(state, "a", NULL);
    assert_error(TERN_ERR_ARGUMENT, "'a' is NULL");
    tern_state_set_text(state, "a", "\xc3(");
    assert_error(TERN_ERR_ARGUMENT, "not UTF-8");
    tern_state_set_text(state, "a", NULL);
    assert_error(TERN_ERR_ARGUMENT, "not UTF-8");
    tern_state_set_bytes(state, "a", NULL, 4);
    assert_error(TERN_ERR_ARGUMENT, "NULL");
    tern_state_set_bytes(state, "a", "x", -1);
    assert_true(tern_failed());
    tern_error_clear();
    assert_int_equal(tern_state_tensors(state).count, 0);
    assert_int_equal(tern_state_text_keys(state).count, 0);
    tern_state_free(state);
}

static void test_what_is_taken_out_must_be_what_is_there(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_state_set_number(state, "number", 0.5);
    tern_state_set(state, "pair", tern_zeros(TERN_SHAPE(2), TERN_I64));
    tern_state_set(state, "flag", tern_zeros(TERN_SHAPE(1), TERN_BOOL));
    int64_t whole = 11;
    double number = 11;
    unsigned char bytes[4] = { 11 };
    assert_int_equal(tern_state_get_int(state, "none", &whole), TERN_ERR_FORMAT);
    assert_error(TERN_ERR_FORMAT, "state: 'none' is missing");
    tern_state_get_int(state, "number", &whole);
    assert_error(TERN_ERR_FORMAT, "'number' is not one whole number");
    tern_state_get_int(state, "pair", &whole);
    assert_error(TERN_ERR_FORMAT, "'pair' is not one whole number");
    tern_state_get_number(state, "flag", &number);
    assert_error(TERN_ERR_FORMAT, "'flag' is not one number");
    tern_state_get_bytes(state, "number", bytes, 8);
    assert_error(TERN_ERR_FORMAT, "'number' is not as many bytes");
    assert_true(whole == 11 && number == 11 && bytes[0] == 11);
    assert_null(tern_state_get(state, "none"));
    assert_null(tern_state_get(NULL, "none"));
    assert_int_equal(tern_state_tensors(NULL).count, 0);
    assert_no_error();
    tern_state_free(state);
    tern_state_free(NULL);
}

/* ---- generators ------------------------------------------------------------------------------- */

static void test_a_generator_goes_on_where_it_was(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_generator *generator = tern_generator_create(UINT64_MAX - 4);
    tern_rand(TERN_SHAPE(3), .generator = generator);
    tern_state *state = tern_state_create();
    tern_generator_store(generator, state, "rng");
    tern_generator_store(generator, state, NULL);
    const double expected = tern_item(tern_rand(TERN_SCALAR_SHAPE, .generator = generator));
    tern_state *back = round_trip(state, "generator");
    assert_non_null(tern_state_get(back, "rng.seed"));
    assert_non_null(tern_state_get(back, "seed"));
    tern_generator_restore(generator, back, "rng");
    assert_no_error();
    assert_true(tern_item(tern_rand(TERN_SCALAR_SHAPE, .generator = generator)) == expected);
    tern_generator_restore(generator, back, "other");
    assert_error(TERN_ERR_FORMAT, "'other.seed' is missing");
    tern_state_free(state);
    tern_state_free(back);
    tern_generator_free(generator);
}

/* ---- saving ----------------------------------------------------------------------------------- */

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
    if (!has_nameless_files())
        skip();
    TERN_SCOPE;
    tern_state *state = one_number(1);
    tern_state_save(state, file_path("killed"));
    assert_no_error();
    tern_state_set_number(state, "n", 2);
    tern_state_set(state, "large", tern_ones(TERN_SHAPE(1 << 16)));
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
    if (WIFEXITED(how) && WEXITSTATUS(how) == UNABLE)
        skip();
    assert_int_equal(how, 0);
    assert_true(saved_number("sandbox") == 2);
    assert_int_equal(count_files("sandbox"), 1);
    tern_state_free(state);
}

/* What is no regular file is refused before a new file is made. */
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
        cmocka_unit_test(test_numbers_come_back_bit_for_bit),
        cmocka_unit_test(test_bytes_and_texts_come_back),
        cmocka_unit_test(test_setting_a_name_again_replaces_in_place),
        cmocka_unit_test(test_a_tensor_is_shared_until_the_save),
        cmocka_unit_test(test_many_names_are_found),
        cmocka_unit_test(test_names_and_values_are_checked),
        cmocka_unit_test(test_what_is_taken_out_must_be_what_is_there),
        cmocka_unit_test(test_a_generator_goes_on_where_it_was),
        cmocka_unit_test(test_a_save_replaces_a_file_and_keeps_its_mode),
        cmocka_unit_test(test_a_save_goes_through_a_link),
        cmocka_unit_test(test_a_save_makes_the_end_of_a_link),
        cmocka_unit_test(test_a_save_of_a_bad_name_leaves_the_old_file),
        cmocka_unit_test(test_a_save_that_the_disk_cuts_short_leaves_the_old_file),
        cmocka_unit_test(test_a_save_whose_process_is_killed_leaves_nothing_beside_the_old_file),
        cmocka_unit_test(test_a_save_needs_no_links),
        cmocka_unit_test(test_a_save_onto_something_else_fails),
        cmocka_unit_test(test_nothing_happens_while_an_error_is_pending),
        cmocka_unit_test(test_loading_what_is_not_there_says_why),
    };
    const int failed = check_run(tests, NULL, NULL);
    return failed + tern_finish();
}
