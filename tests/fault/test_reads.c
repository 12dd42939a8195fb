/* Every read of a file fails in turn, or finds the file cut short: whichever reader it is, the error names the
 * file, and nothing is left behind or half taken over. This program stands between the readers and the C library. */
#include "tests/support/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/files.h"

/* ---- reads that go wrong ----------------------------------------------------------------------- */

typedef enum fault {
    FAULT_ERROR, /* the disk says no */
    FAULT_SHORT  /* the file was cut after it was opened */
} fault;

static long reads_left; /* to the one that goes wrong; 0: none does */
static fault what_happens;

static bool is_the_one(void)
{
    return reads_left > 0 && --reads_left == 0;
}

ssize_t pread(int file, void *out, size_t bytes, off_t offset)
{
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pread");
    if (!is_the_one())
        return real(file, out, bytes, offset);
    errno = EIO;
    return what_happens == FAULT_ERROR ? -1 : 0;
}

size_t fread(void *out, size_t size, size_t count, FILE *stream)
{
    static size_t (*real)(void *, size_t, size_t, FILE *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fread");
    if (!is_the_one())
        return real(out, size, count, stream);
    if (what_happens == FAULT_ERROR) /* so that the stream knows of it */
        (void)close(fileno(stream));
    return real(out, size, count / 2, stream);
}

/* ---- readers ----------------------------------------------------------------------------------- */

static tern_module *net;

static bool read_idx(void)
{
    TERN_SCOPE;
    return tern_idx_read(file_path("train-images-idx3-ubyte")) != NULL;
}

static bool read_packed(void)
{
    TERN_SCOPE;
    return tern_idx_read(file_path("packed.gz")) != NULL;
}

static bool keep_none(tern_dataset *dataset)
{
    tern_dataset_free(dataset);
    return dataset != NULL;
}

static bool read_mnist(void)
{
    return keep_none(tern_mnist(file_folder(), TERN_TRAIN));
}

static bool read_cifar(void)
{
    return keep_none(tern_cifar10(file_folder(), TERN_TRAIN));
}

static bool read_text(void)
{
    tern_text *text = tern_text_read(file_path("text"));
    tern_text_free(text);
    return text != NULL;
}

static bool read_state(void)
{
    tern_state *state = tern_state_load(file_path("net"));
    tern_state_free(state);
    return state != NULL;
}

static bool read_module(void)
{
    return tern_module_load(net, file_path("net")) == TERN_OK;
}

static const struct reader {
    const char *name;
    bool (*read)(void);
    long reads; /* at least */
} readers[] = {
    { "idx", read_idx, 1 },       { "gzip", read_packed, 1 }, { "mnist", read_mnist, 2 },
    { "cifar", read_cifar, 5 },   { "text", read_text, 1 },   { "state", read_state, 4 },
    { "module", read_module, 4 },
};
enum { READERS = sizeof readers / sizeof *readers };

/* ---- files ------------------------------------------------------------------------------------- */

static int write_files(void **state)
{
    (void)state;
    static const uint8_t zeros[3073] = { 0 };
    const uint32_t images[] = { 2, 28, 28 }, labels[] = { 2 };
    file_bytes idx = file_idx(0x08, 3, images, zeros, sizeof(uint8_t[2 * 28 * 28]));
    (void)file_write("packed.gz", file_gzip(&idx));
    (void)file_write("train-images-idx3-ubyte", idx);
    (void)file_write("train-labels-idx1-ubyte", file_idx(0x08, 1, labels, zeros, 2));
    for (int i = 0; i <= 5; i++) {
        char name[32];
        file_bytes record = { NULL, 0 };
        file_bytes_add(&record, zeros, sizeof zeros);
        (void)snprintf(name, sizeof name, i > 0 ? "data_batch_%d.bin" : "test_batch.bin", i);
        (void)file_write(name, record);
    }
    file_bytes text = { NULL, 0 };
    file_bytes_add(&text, "a text", 6);
    (void)file_write("text", text);
    net = tern_linear_layer(3, 2);
    tern_module_save(net, file_path("net"));
    return tern_failed() ? 1 : 0;
}

/* ---- each of them ------------------------------------------------------------------------------ */

static double digest(void)
{
    TERN_SCOPE;
    TERN_NO_GRAD;
    return tern_item(tern_sum(tern_module_tensor(net, "weight"))) +
           tern_item(tern_sum(tern_module_tensor(net, "bias")));
}

/* False when read k was not reached. */
static bool fails_cleanly(const struct reader *r, fault f, long k)
{
    const int64_t live = tern_live_tensors();
    TERN_NO_GRAD;
    (void)tern_init_constant(tern_module_tensor(net, "weight"), 7);
    const double before = digest();
    what_happens = f;
    reads_left = k;
    const bool done = r->read();
    const bool reached = reads_left == 0;
    reads_left = 0;
    if (done == reached || done == tern_failed())
        fail_msg("%s, read %ld: %s", r->name, k, done ? "it was not noticed" : tern_error_text());
    if (reached) {
        if (strstr(tern_error_text(), file_folder()) == NULL)
            fail_msg("%s, read %ld names no file: %s", r->name, k, tern_error_text());
        assert_error(TERN_ERR_IO, "");
        assert_true(digest() == before);
    }
    assert_no_error();
    assert_int_equal(tern_live_tensors(), live);
    return reached;
}

static void test_each_read_may_fail(void **state)
{
    (void)state;
    for (int i = 0; i < READERS; i++)
        for (int f = FAULT_ERROR; f <= FAULT_SHORT; f++) {
            long k = 1;
            while (fails_cleanly(&readers[i], (fault)f, k))
                k++;
            print_message("%s: %ld reads\n", readers[i].name, k - 1);
            assert_true(k > readers[i].reads);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_read_may_fail) };
    const int failed = cmocka_run_group_tests(tests, write_files, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
