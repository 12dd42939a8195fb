/* Ways of products in a file (backend_cpu/gemm_known.h): what a line is, which files are taken, what is added, and that
 * a later run goes by it. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_cpu/crowd.h"
#include "backend_cpu/gemm_known.h"
#include "backend_cpu/gemm_trial.h"
#include "tests/support/check.h"
#include "tests/support/files.h"
#include "tests/support/kernel.h"

static cpu_product product(int64_t m, int64_t k, int64_t n)
{
    return (cpu_product){
        .m = m, .n = n, .k = k, .a_row = k, .a_col = 1, .b_row = n, .b_col = 1, .c_row = n
    };
}

static const cpu_gemm_choice rows_of_two = { true, CPU_BLAS_BY_TABLE, CPU_BLAS_ROWS, 2 };
static const cpu_gemm_choice alone = { true, CPU_BLAS_BY_TABLE, CPU_BLAS_AS_PLANNED, 1 };

static bool is_same(const cpu_gemm_choice *a, const cpu_gemm_choice *b)
{
    return a->own == b->own && a->maker == b->maker && a->cut == b->cut && a->threads == b->threads;
}

/* The line of a product of f32 on two threads, on this machine or another. */
static void add_line(file_bytes *bytes, int64_t m, const cpu_gemm_choice *way, const char *machine)
{
    char here[CPU_GEMM_LINE_BYTES / 2], line[CPU_GEMM_LINE_BYTES];
    const cpu_product g = product(m, 90, 150);
    const cpu_gemm_key key = cpu_gemm_key_of(TERN_F32, &g, 2);
    cpu_gemm_machine(here);
    cpu_gemm_write_line(line, machine != NULL ? machine : here, &key, way);
    file_bytes_add(bytes, line, strlen(line));
}

static const cpu_gemm_choice *known(int64_t m)
{
    const cpu_product g = product(m, 90, 150);
    return cpu_gemm_known(TERN_F32, &g, 2);
}

static void expect_error(const char *path, tern_status_t code, const char *words)
{
    assert_int_equal(tern_cpu_set_benchmark_file(path), code);
    if (strstr(tern_error_text(), words) == NULL)
        fail_msg("'%s' is not in: %s", words, tern_error_text());
    assert_non_null(strstr(tern_error_text(), "test_gemm_known.c:"));
    tern_error_clear();
}

/* ---- lines --------------------------------------------------------------------------------------- */

static void test_lines(void **state)
{
    (void)state;
#define KEY "f32 20 30 40 40 1 30 1 30 1 0 2 "
    static const struct {
        const char *line;
        cpu_gemm_line is;
    } lines[] = {
        { KEY "onednn rows 2 here", CPU_GEMM_LINE_WAY },
        { KEY "own planned 1 here", CPU_GEMM_LINE_WAY },
        { "f64 20 30 40 40 1 30 1 30 0 1 1 openblas columns 1 here", CPU_GEMM_LINE_WAY },
        { KEY "onednn rows 2 there", CPU_GEMM_LINE_OTHER },
        { KEY "onednn rows 2 here ", CPU_GEMM_LINE_OTHER },
        { "# a remark", CPU_GEMM_LINE_OTHER },
        { " \t", CPU_GEMM_LINE_OTHER },
        { "", CPU_GEMM_LINE_OTHER },
        { KEY "onednn rows 3 here", CPU_GEMM_LINE_BAD }, /* more threads than there are */
        { KEY "onednn rows 0 here", CPU_GEMM_LINE_BAD },
        { KEY "mkl rows 2 here", CPU_GEMM_LINE_BAD },
        { KEY "onednn diagonals 2 here", CPU_GEMM_LINE_BAD },
        { KEY "onednn rows", CPU_GEMM_LINE_BAD }, /* cut */
        { KEY "onednn rows 2", CPU_GEMM_LINE_BAD },
        { "f64 20 30 40 40 1 30 1 30 0 0 1 onednn planned 1 here", CPU_GEMM_LINE_BAD },
        { "bf16 20 30 40 40 1 30 1 30 0 0 1 own planned 1 here", CPU_GEMM_LINE_BAD },
        { "f32 0 30 40 40 1 30 1 30 1 0 2 own planned 1 here", CPU_GEMM_LINE_BAD },
        { "f32 -20 30 40 40 1 30 1 30 1 0 2 own planned 1 here", CPU_GEMM_LINE_BAD },
        { "f32  20 30 40 40 1 30 1 30 1 0 2 own planned 1 here", CPU_GEMM_LINE_BAD },
        { "f32 99999999999999999999 30 40 40 1 30 1 30 1 0 2 own planned 1 here",
          CPU_GEMM_LINE_BAD },
        { "f32 20 30 40 40 1 30 1 30 2 0 2 own planned 1 here", CPU_GEMM_LINE_BAD },
        { "f32 20 30 40 40 1 30 1 30 1 0 5000 own planned 1 here", CPU_GEMM_LINE_BAD },
        { "{\"m\": 20}", CPU_GEMM_LINE_BAD },
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cpu_gemm_key key = { .m = 7 };
        cpu_gemm_choice way = { .threads = 7 };
        const cpu_gemm_line is = cpu_gemm_read_line(lines[i].line, "here", &key, &way);
        if (is != lines[i].is)
            fail_msg("'%s' is read as %d", lines[i].line, is);
        if (is != CPU_GEMM_LINE_WAY) {
            assert_int_equal(key.m, 7);
            assert_int_equal(way.threads, 7);
            continue;
        }
        char again[CPU_GEMM_LINE_BYTES];
        cpu_gemm_write_line(again, "here", &key, &way);
        again[strcspn(again, "\n")] = '\0';
        assert_string_equal(again, lines[i].line);
    }
}

/* ---- files --------------------------------------------------------------------------------------- */

static void test_a_file_is_gone_by(void **state)
{
    (void)state;
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, "# ways\n", 7);
    add_line(&bytes, 201, &rows_of_two, NULL);
    add_line(&bytes, 202, &alone, NULL);
    add_line(&bytes, 201, &alone, NULL); /* the first one holds */
    add_line(&bytes, 203, &alone, "another machine");
    file_bytes_add(&bytes, "f32 20 30", 9); /* whoever wrote it was interrupted */
    const char *path = file_write("ways", bytes);
    assert_int_equal(tern_cpu_set_benchmark_file(path), TERN_OK);
    assert_true(is_same(known(201), &rows_of_two));
    assert_true(is_same(known(202), &alone));
    assert_null(known(203));
    assert_null(known(204));
    const cpu_product g = product(201, 90, 150);
    assert_null(cpu_gemm_known(TERN_F32, &g, 1));
    assert_null(cpu_gemm_known(TERN_F64, &g, 2));
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
    assert_null(known(201));
}

static void test_many_ways(void **state)
{
    (void)state;
    enum { WAYS = 700 };
    file_bytes bytes = { NULL, 0 };
    for (int i = 0; i < WAYS; i++)
        add_line(&bytes, 1000 + i, i % 3 == 0 ? &alone : &rows_of_two, NULL);
    assert_int_equal(tern_cpu_set_benchmark_file(file_write("many", bytes)), TERN_OK);
    for (int i = 0; i < WAYS; i++)
        assert_true(is_same(known(1000 + i), i % 3 == 0 ? &alone : &rows_of_two));
    assert_null(known(1000 + WAYS));
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
}

static void test_files_that_are_none(void **state)
{
    (void)state;
    file_bytes good = { NULL, 0 }, bad = { NULL, 0 };
    add_line(&good, 201, &alone, NULL);
    file_bytes_add(&bad, "\n\x89PNG\r\n", 7);
    assert_int_equal(tern_cpu_set_benchmark_file(file_write("good", good)), TERN_OK);
    expect_error(file_write("bad", bad), TERN_ERR_FORMAT, "is no file of products: line 2 is none");
    expect_error(file_path("missing"), TERN_ERR_IO, "missing cannot be opened: No such file");
    expect_error(file_folder(), TERN_ERR_IO, "is no regular file");
    expect_error("/dev/zero", TERN_ERR_IO, "/dev/zero is no regular file");
    assert_int_equal(mkfifo(file_path("pipe"), 0600), 0);
    expect_error(file_path("pipe"), TERN_ERR_IO,
                 "is no regular file"); /* and nobody waits for it */
    expect_error("", TERN_ERR_ARGUMENT, "the path is empty");
    const int fd = open(file_path("large"), O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, 65 << 20), 0); /* takes no room */
    (void)close(fd);
    expect_error(file_path("large"), TERN_ERR_IO, "has more than 67108864 bytes");
    assert_true(is_same(known(201), &alone)); /* what was there before holds */
    tern_cpu_set_benchmark(true);
    expect_error(file_path("no/folder"), TERN_ERR_IO, "No such file");
    tern_cpu_set_benchmark(false);
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
}

static int64_t size_of(const char *name)
{
    struct stat status;
    return stat(file_path(name), &status) == 0 ? (int64_t)status.st_size : -1;
}

/* A file that is not there is made, but only where ways will be added. */
static void test_a_file_is_made(void **state)
{
    (void)state;
    tern_cpu_set_benchmark(true);
    assert_int_equal(tern_cpu_set_benchmark_file(file_path("new")), TERN_OK);
    assert_int_equal(size_of("new"), 0);
    tern_cpu_set_benchmark(false);
    assert_int_equal(tern_cpu_set_benchmark_file(file_path("new")),
                     TERN_OK); /* an empty one is fine */
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
}

/* ---- products ------------------------------------------------------------------------------------ */

enum { M = 310, K = 90, N = 150 };

typedef struct operands {
    karray a, b, out;
    kernel_run run;
} operands;

static void make_operands(operands *o)
{
    o->a = kernel_operand(TERN_F32, 2, (const int64_t[]){ M, K }, 1);
    o->b = kernel_operand(TERN_F32, 2, (const int64_t[]){ K, N }, 2);
    o->out = karray_filled(TERN_F32, 2, (const int64_t[]){ M, N }, 0);
    o->run = (kernel_run){ .kernel = cpu_gemm,
                           .threads = 2,
                           .in = { &o->a, &o->b },
                           .out = { &o->out },
                           .n_in = 2,
                           .n_out = 1 };
}

static void free_operands(operands *o)
{
    karray_free(&o->a);
    karray_free(&o->b);
    karray_free(&o->out);
}

/* As if that many calls had taken a second each; how many there can be. */
static int pretend_calls(int64_t m, int most)
{
    const cpu_product g = product(m, K, N);
    cpu_gemm_trial *trial = cpu_gemm_trial_of(TERN_F32, &g, 2, cpu_product_suits_library(&g));
    int calls = 0;
    assert_non_null(trial);
    while (calls < most && !cpu_gemm_trial_took(trial, 1))
        calls++;
    return calls;
}

/* Until a way is in the file: all calls but the last one are pretended, since on a busy machine few count. */
static void measure(operands *o)
{
    (void)pretend_calls(M, pretend_calls(M + 1, INT_MAX));
    for (int call = 0; size_of("measured") == 0; call++) {
        assert_true(call < 100000);
        *cpu_crowd_here() = (cpu_crowd){ .pause = 0 };
        assert_int_equal(kernel_call(&o->run), TERN_OK);
    }
    assert_int_equal(tern_cpu_set_benchmark_file(file_path("measured")), TERN_OK);
    assert_non_null(known(M));
}

/* Measured once, then gone by: with benchmark on and off, under deterministic algorithms; nothing is measured again. */
static void test_what_is_found_is_gone_by(void **state)
{
    (void)state;
    operands o;
    make_operands(&o);
    const uint32_t before = kernel_set_numerics(TERN_NUMERICS_CPU_BENCHMARK);
    tern_cpu_set_benchmark(true);
    assert_int_equal(tern_cpu_set_benchmark_file(file_path("measured")), TERN_OK);
    measure(&o);
    tern_cpu_set_benchmark(false);
    const int64_t size = size_of("measured");
    const int events = kernel_events();
    const uint32_t settings[] = { 0, TERN_NUMERICS_DETERMINISTIC, TERN_NUMERICS_CPU_BENCHMARK };
    const cpu_gemm_choice way = *known(M);
    float first[N];
    for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) {
        (void)kernel_set_numerics(settings[s]);
        for (int call = 0; call < 50; call++) {
            assert_int_equal(kernel_call(&o.run), TERN_OK);
            if (s == 0 && call == 0)
                memcpy(first, o.out.view.data, sizeof first);
            assert_memory_equal(o.out.view.data, first, sizeof first);
        }
    }
    assert_true(is_same(known(M), &way));
    assert_int_equal(kernel_events(), events);
    assert_int_equal(size_of("measured"), size);
    (void)kernel_set_numerics(before);
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
    free_operands(&o);
}

/* The file says how, whatever the tables say: ways of other makers give other bits, or the same ones by own kernels. */
static void test_each_way_that_a_file_may_name(void **state)
{
    (void)state;
    operands o;
    make_operands(&o);
    for (int maker = 0; maker < CPU_BLAS_MAKERS; maker++)
        for (int cut = 0; cut < CPU_BLAS_CUTS; cut++)
            for (int threads = 1; threads <= 2; threads++) {
                const cpu_gemm_choice way = { maker == 0, (cpu_blas_maker)maker, (cpu_blas_cut)cut,
                                              threads };
                file_bytes bytes = { NULL, 0 };
                add_line(&bytes, M, &way, NULL);
                assert_int_equal(tern_cpu_set_benchmark_file(file_write("each", bytes)), TERN_OK);
                assert_true(is_same(known(M), &way));
                assert_int_equal(kernel_call(&o.run), TERN_OK);
                for (int64_t i = 0; i < (int64_t)M * N; i += 37) {
                    double sum = 0;
                    for (int64_t k = 0; k < K; k++)
                        sum += o.a.values[i / N * K + k] * o.b.values[k * N + i % N];
                    kernel_expect("product", i, karray_at(&o.out, i), sum, 1e-5);
                }
            }
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
    free_operands(&o);
}

/* A way that cannot be added is said once, and products go on. */
static void test_a_file_that_cannot_be_added_to(void **state)
{
    (void)state;
    tern_cpu_set_benchmark(true);
    assert_int_equal(tern_cpu_set_benchmark_file(file_path("gone")), TERN_OK);
    tern_cpu_set_benchmark(false);
    assert_int_equal(unlink(file_path("gone")), 0);
    assert_int_equal(mkdir(file_path("gone"), 0700), 0);
    const cpu_product g = product(M, K, N);
    const cpu_gemm_key key = cpu_gemm_key_of(TERN_F32, &g, 2);
    cpu_gemm_note(&key, &alone);
    cpu_gemm_note(&key, &alone);
    assert_int_equal(tern_error_code(), TERN_OK);
    assert_int_equal(rmdir(file_path("gone")), 0);
    cpu_gemm_note(&key, &alone); /* made anew */
    assert_true(size_of("gone") > 0);
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
}

static void test_a_program_that_goes_elsewhere(void **state)
{
    (void)state;
    char folder[FILE_PATH_BYTES];
    assert_non_null(getcwd(folder, sizeof folder));
    assert_int_equal(chdir(file_folder()), 0);
    tern_cpu_set_benchmark(true);
    assert_int_equal(tern_cpu_set_benchmark_file("relative"), TERN_OK);
    tern_cpu_set_benchmark(false);
    assert_int_equal(chdir(folder), 0);
    const cpu_product g = product(M, K, N);
    const cpu_gemm_key key = cpu_gemm_key_of(TERN_F32, &g, 2);
    cpu_gemm_note(&key, &alone);
    assert_true(size_of("relative") > 0);
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
}

/* ---- the environment, threads ---------------------------------------------------------------------- */

/* In a child, since a process reads it once: 0 where it is as expected. */
static int child_finds(const char *value, bool way)
{
    const pid_t child = fork();
    if (child == 0) {
        (void)setenv("TERN_CPU_GEMM_FILE", value, 1);
        _exit((known(201) != NULL) == way && tern_error_code() == TERN_OK ? 0 : 1);
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The first test: no product has been asked for before. */
static void test_the_environment_names_a_file(void **state)
{
    (void)state;
    file_bytes bytes = { NULL, 0 };
    add_line(&bytes, 201, &alone, NULL);
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", file_write("from_environment", bytes));
    assert_int_equal(child_finds(path, true), 0);
    assert_int_equal(child_finds("/nowhere/at/all", false), 0);
    assert_int_equal(child_finds("", false), 0);
}

/* What the libraries say of themselves is the same however many ask: snprintf empties its text at first, OpenBLAS writes
 * its own anew at each call. */
static bool libraries_are_the_same(void)
{
    cpu_blas_report first, again;
    bool same = true;
    cpu_blas_get_report(&first);
    if (!first.loaded || first.info.onednn_version == NULL)
        return true;
    char version[64];
    (void)snprintf(version, sizeof version, "%s", first.info.onednn_version);
    for (int i = 0; i < 2000; i++) {
        cpu_blas_get_report(&again);
        same = same && strcmp(version, again.info.onednn_version) == 0;
    }
    return same && version[0] != '\0';
}

static void *reads_and_asks(void *path)
{
    for (int i = 0; i < 50; i++) {
        (void)known(201);
        if (tern_cpu_set_benchmark_file(path) != TERN_OK || !is_same(known(201), &alone) ||
            !libraries_are_the_same())
            return path;
    }
    return NULL;
}

static void test_threads_that_read_and_ask(void **state)
{
    (void)state;
    enum { THREADS = 3 };
    file_bytes bytes = { NULL, 0 };
    add_line(&bytes, 201, &alone, NULL);
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", file_write("threads", bytes));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reads_and_asks, path), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = path;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_int_equal(tern_cpu_set_benchmark_file(NULL), TERN_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_environment_names_a_file),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_a_file_is_gone_by),
        cmocka_unit_test(test_many_ways),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_a_file_is_made),
        cmocka_unit_test(test_what_is_found_is_gone_by),
        cmocka_unit_test(test_each_way_that_a_file_may_name),
        cmocka_unit_test(test_a_file_that_cannot_be_added_to),
        cmocka_unit_test(test_a_program_that_goes_elsewhere),
        cmocka_unit_test(test_threads_that_read_and_ask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
