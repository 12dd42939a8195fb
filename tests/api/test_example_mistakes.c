/* What the examples say of options, files and folders that are wrong or missing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/support/examples.h"
#include "tests/support/files.h"
#include "tests/support/sanitizer.h"

static void in_folder(const char *command)
{
    char line[2 * FILE_PATH_BYTES];
    (void)snprintf(line, sizeof line, "cd '%s' && %s", file_folder(), command);
    assert_int_equal(system(line), 0);
}

static void test_bad_options_end_with_2(void **state)
{
    (void)state;
    const char *bad[][2] = {
        { "--epochs x", "--epochs wants a whole number from 1 to 1000, not 'x'" },
        { "--epochs 0", "not '0'" },
        { "--batch 3x", "not '3x'" },
        { "--lr -1", "--lr wants a number above 0, not '-1'" },
        { "--lr nan", "not 'nan'" },
        { "--seed -3", "--seed wants" },
        { "--amp f16", "--amp wants off, bf16 or fp16, not 'f16'" },
        { "--steps 99999999999999999999", "--steps wants" },
        { "--device gpu", "gpu" },
        { "--json /proc/r.json", "--json wants a file in a folder that can be written" },
        { "--save /proc/a.run", "--save wants a file in a folder that can be written" },
        { "--nonsense", "usage: " },
        { "--nonsense", "cnn_mnist: unrecognized option '--nonsense'" },
        { "--data", "usage: " },
        { "mnist", "'mnist' is no option" },
        { "--save a --json a", "--json wants another file than --save, not 'a'" },
        { "--save ./a --json a", "--json wants another file than --save, not 'a'" },
        { "--save a --json \"$PWD/a\"", "--json wants another file than --save" },
        { "--save ../../../../../../../../proc/self/cwd/a --json .//a", "not './/a'" },
        { "--save link --json linked", "not 'linked'" },
        { "--load linked --json ./link", "--json wants another file than --load, not './link'" },
        { "--data linked --json link", "--json wants another file than the data, not 'link'" },
        { "--data link --save ./linked", "--save wants another file than the data" },
        { "--save /dev/null", "--save wants a regular file, which it replaces, not '/dev/null'" },
    };
    in_folder("echo old >linked && ln -s linked link");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        example_expect(2, "cnn_mnist", bad[i][0]);
        example_says(example_err, bad[i][1]);
    }
    in_folder("rm link linked");
}

/* A stored run names its text, which no option does. */
static void test_stored_text_is_not_written_over(void **state)
{
    (void)state;
    in_folder("yes 'a line of a text' | head -300 >lines.txt && cp lines.txt kept");
    example_expect(0, "char_gpt", "--data lines.txt --steps 1 --batch 2 --quiet --save text.run");
    example_expect(2, "char_gpt", "--load text.run --steps 2 --quiet --json ./lines.txt");
    example_says(example_err, "--json wants another file than the data, not './lines.txt'");
    example_expect(2, "char_gpt", "--load text.run --steps 2 --quiet --save lines.txt");
    example_expect(0, "char_gpt", "--load text.run --steps 2 --quiet --save text.run");
    in_folder("cmp lines.txt kept && rm lines.txt kept text.run");
}

/* A folder has files that no option names, packed or not; one that is missing would be read the next time. */
static void test_images_are_not_written_over(void **state)
{
    (void)state;
    const char *bad[][3] = {
        { "mlp_mnist", "--data set --save set/train-images-idx3-ubyte",
          "--save wants another file than the data, not 'set/train-images-idx3-ubyte'" },
        { "mlp_mnist", "--data set --json \"$PWD/set/t10k-labels-idx1-ubyte.gz\"",
          "--json wants another file than the data" },
        { "cnn_mnist", "--data set --json link", "--json wants another file than the data" },
        { "mlp_mnist", "--load set.run --save set/train-labels-idx1-ubyte",
          "--save wants another file than the data" },
        { "resnet_cifar", "--data set --save set/./data_batch_3.bin",
          "--save wants another file than the data" },
        { "resnet_cifar", "--data set --json set/cifar-10-batches-bin/test_batch.bin",
          "--json wants another file than the data" },
    };
    in_folder("mkdir -p set/cifar-10-batches-bin && cp *-ubyte *.bin set && cp -r set kept && "
              "ln -s set/t10k-images-idx3-ubyte link");
    example_expect(0, "mlp_mnist", "--data set --steps 1 --batch 8 --quiet --save set.run");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char options[256];
        (void)snprintf(options, sizeof options, "%s --steps 2 --quiet --no-test", bad[i][1]);
        example_expect(2, bad[i][0], options);
        example_says(example_err, bad[i][2]);
    }
    in_folder("mkdir data && mv set data/mnist"); /* where they are looked for */
    example_expect(2, "mlp_mnist", "--steps 1 --quiet --save data/mnist/train-images-idx3-ubyte");
    example_says(example_err, "--save wants another file than the data");
    example_expect(0, "mlp_mnist", "--steps 1 --quiet --no-test --save data/mnist/a.run");
    in_folder("rm data/mnist/a.run && diff -r data/mnist kept && rm -r data kept link set.run");
}

static void test_help_is_no_mistake(void **state)
{
    (void)state;
    example_expect(0, "cnn_mnist", "--help");
    example_says(example_out, "--threads N");
}

/* Whoever adds to a command asks for what stands last. */
static void test_last_device_is_the_one(void **state)
{
    (void)state;
    const char *options = "--data . --steps 1 --quiet --json r.json --device";
    char line[128];
    (void)snprintf(line, sizeof line, "%s auto --device cpu", options);
    example_expect(0, "mlp_mnist", line);
    assert_string_equal(example_err, ""); /* nobody looked for a GPU */
    in_folder("grep -q 'the CPU was asked for' r.json");
    (void)snprintf(line, sizeof line, "%s cpu --device auto", options);
    example_expect(0, "mlp_mnist", line);
    in_folder("! grep 'the CPU was asked for' r.json && rm r.json");
}

/* Without its last line a run has no result, though it has stored itself. */
static void test_results_that_do_not_arrive_are_an_error(void **state)
{
    (void)state;
    const char *full = "sh -c 'exec \"$@\" >/dev/full' sh", *closed = "sh -c 'exec \"$@\" >&-' sh";
    const char *plan = "--data . --steps 1 --quiet --save a.run";
    assert_int_equal(example_run(full, "mlp_mnist", plan), 1);
    example_says(example_err, "mlp_mnist: cannot write to stdout: No space left on device");
    assert_int_equal(example_run(closed, "mlp_mnist", "--data . --steps 1 --quiet"), 1);
    example_says(example_err, "mlp_mnist: cannot write to stdout: Bad file descriptor");
    assert_int_equal(example_run(full, "cnn_mnist", "--help"), 1);
    const char *const small[] = { "hello", "custom_op", "regression", "leak_loss", "leak_module" };
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        assert_int_equal(example_run(full, small[i], ""), 1);
    example_expect(0, "mlp_mnist", "--load a.run --steps 1 --quiet");
}

static void test_bad_files_end_with_1_and_their_path(void **state)
{
    (void)state;
    example_expect(1, "mlp_mnist", "--data nowhere --quiet");
    example_says(example_err, "'nowhere' holds neither train-images-idx3-ubyte nor");
    example_says(example_err, "try the folder with MNIST's four files");
    example_expect(1, "mlp_mnist", "--data . --load nowhere.run --quiet");
    example_says(example_err, "nowhere.run");
    const char *homeless = "env -u TERN_DATA -u XDG_CACHE_HOME HOME=.";
    assert_int_equal(example_run(homeless, "mlp_mnist", "--load nowhere.run --quiet"), 1);
    assert_null(strstr(example_err, "no complete MNIST")); /* nobody came to look for it */
    assert_int_equal(example_run(homeless, "char_gpt", "--load nowhere.run --quiet"), 1);
    assert_null(strstr(example_err, "made-up tales"));
    example_expect(1, "mlp_mnist", "--data . --load err.txt --quiet");
    example_says(example_err, "err.txt");
    in_folder("mkdir cut && head -c 100 train-images-idx3-ubyte >cut/train-images-idx3-ubyte");
    example_expect(1, "mlp_mnist", "--data cut --quiet");
    example_says(example_err, "'cut/train-images-idx3-ubyte': its header promises");
    example_says(example_err, "try to fetch it again");
    in_folder("rm -r cut");
}

/* Four files of IDX, as printf writes them, that hold no images, or images to test of another size. */
static void test_files_that_do_not_fit_end_with_1(void **state)
{
    (void)state;
    in_folder("mkdir odd && cp *-ubyte odd && "
              "printf '\\0\\0\\10\\3\\0\\0\\0\\2\\0\\0\\0\\1\\0\\0\\0\\1ab' "
              ">odd/t10k-images-idx3-ubyte && "
              "printf '\\0\\0\\10\\1\\0\\0\\0\\2\\1\\1' >odd/t10k-labels-idx1-ubyte");
    example_expect(1, "mlp_mnist", "--data odd --steps 1");
    example_says(example_err, "'odd' have 1 x 1 pixels, and the network takes 28 x 28");
    assert_null(strstr(example_out, "nan"));
    example_expect(0, "mlp_mnist", "--data odd --steps 1 --no-test --quiet");
    in_folder("printf '\\0\\0\\10\\3\\0\\0\\0\\0\\0\\0\\0\\34\\0\\0\\0\\34' "
              ">odd/train-images-idx3-ubyte && "
              "printf '\\0\\0\\10\\1\\0\\0\\0\\0' >odd/train-labels-idx1-ubyte");
    example_expect(1, "mlp_mnist", "--data odd --steps 1 --no-test");
    example_says(example_err, "'odd' holds nothing to train on");
    in_folder("cp odd/train-images-idx3-ubyte odd/t10k-images-idx3-ubyte && "
              "cp odd/train-labels-idx1-ubyte odd/t10k-labels-idx1-ubyte");
    example_expect(1, "mlp_mnist", "--data odd --steps 1"); /* --no-test would not help */
    example_says(example_err, "'odd' holds nothing to train on");
    in_folder("rm -r odd");
}

/* Nothing was right of nothing: that is no accuracy, nor a number of JSON. */
static void test_nothing_to_test_on_is_said(void **state)
{
    (void)state;
    in_folder("mkdir few && cp *-ubyte few && "
              "printf '\\0\\0\\10\\3\\0\\0\\0\\0\\0\\0\\0\\34\\0\\0\\0\\34' "
              ">few/t10k-images-idx3-ubyte && "
              "printf '\\0\\0\\10\\1\\0\\0\\0\\0' >few/t10k-labels-idx1-ubyte");
    example_expect(1, "mlp_mnist", "--data few --steps 1");
    example_says(example_err, "'few' holds nothing to test on; --no-test does without");
    example_expect(0, "mlp_mnist", "--data few --steps 1 --no-test");
    in_folder("rm -r few");
}

/* Nor need there be anything to test on then, but for --show. */
static void test_no_test_needs_nothing_to_test_on(void **state)
{
    (void)state;
    in_folder("mkdir -p data/mnist && cp train-* data_batch_* data/mnist && "
              "yes 'a line of a text' | head -c 100 >short.txt");
    example_expect(0, "mlp_mnist", "--data data/mnist --steps 1 --no-test --quiet");
    example_expect(0, "mlp_mnist", "--steps 1 --no-test");
    example_says(example_out, "data: MNIST in data/mnist\n");
    example_expect(1, "mlp_mnist", "--data data/mnist --steps 1 --no-test --show 2 --quiet");
    example_says(example_err, "'data/mnist' holds neither t10k-images-idx3-ubyte nor");
    example_expect(1, "mlp_mnist", "--data data/mnist --steps 1 --quiet");
    in_folder("mv data/mnist data/cifar10");
    example_expect(0, "resnet_cifar", "--steps 1 --batch 4 --no-test");
    example_says(example_out, "data: CIFAR-10 in data/cifar10\n");
    example_expect(0, "char_gpt", "--data short.txt --steps 1 --batch 2 --no-test --quiet");
    example_expect(1, "char_gpt", "--data short.txt --steps 1 --batch 2 --quiet");
    example_says(example_err, "'short.txt' holds too little to test on: 10 characters in its last");
    example_says(example_err, "--no-test does without");
    in_folder("rm -r data short.txt");
}

/* What --load finds is not what was meant: a file of another origin, data that was moved, a run that is over. */
static void test_what_was_loaded_is_explained(void **state)
{
    (void)state;
    char options[2 * FILE_PATH_BYTES];
    (void)snprintf(options, sizeof options,
                   "--load '%s/tests/golden/pytorch_net.safetensors' --quiet",
                   getenv("TERN_TEST_SOURCE"));
    example_expect(1, "mlp_mnist", options);
    example_says(example_err, "holds no run: --load wants a file of --save");
    in_folder("mkdir here && cp *-ubyte here");
    example_expect(0, "mlp_mnist", "--data here --steps 1 --quiet --save a.run");
    example_expect(0, "mlp_mnist", "--load a.run --steps 1");
    example_says(example_err, "the run in 'a.run' has 1 steps: none is left of --steps");
    in_folder("mv here there");
    example_expect(1, "mlp_mnist", "--load a.run --steps 2 --quiet");
    example_says(example_err, "the run in 'a.run' had its data in 'here': --data DIR says where");
    example_expect(0, "mlp_mnist", "--load a.run --steps 2 --quiet --data there");
    example_expect(1, "mlp_mnist", "--load a.run --steps 2 --quiet --data nowhere");
    assert_null(strstr(example_err, "had its data"));
    in_folder("rm -r there a.run");
    (void)snprintf(options, sizeof options, "\"$TERN_TEST_SOURCE/%s\" \"$TERN_TEST_SOURCE/%s\"",
                   "tests/golden/pytorch_net.safetensors", "tests/golden/pytorch_net.safetensors");
    example_expect(1, "load_from_pytorch", options);
    example_says(example_err, "pytorch_net.safetensors' holds no x");
}

/* Before the run, not at its end. */
static void test_what_cannot_be_written_is_found_out_first(void **state)
{
    (void)state;
    example_expect(2, "mlp_mnist", "--data . --save nowhere/a.run");
    example_says(example_err,
                 "--save wants a file in a folder that can be written, not 'nowhere/a.run'");
    example_expect(2, "mlp_mnist", "--data . --json nowhere/a.json");
    example_says(example_err, "--json wants a file in a folder that can be written");
    example_expect(2, "cnn_mnist", "--data . --save .");
    example_says(example_err, "--save wants a file, not a folder, not '.'");
    example_expect(2, "cnn_mnist", "--data . --json .");
    example_says(example_err, "--json wants a file, not a folder, not '.'");
    char
        options[600]; /* a name that fits by itself, but not with what stands behind it meanwhile */
    for (int i = 0; i < 2; i++) {
        (void)snprintf(options, sizeof options, "--data . --%s %0250d", i == 0 ? "save" : "json",
                       0);
        example_expect(2, "mlp_mnist", options);
        example_says(example_err, "wants a shorter name, not '000");
    }
    example_expect(2, "cnn_mnist", "--data . --device gpu");
    example_says(example_err, "--device wants auto, cpu, cuda or cuda:N, not 'gpu'");
}

/* The stored run names its data. */
static void test_names_that_cannot_be_stored_are_found_out_first(void **state)
{
    (void)state;
    in_folder("name=$(printf 'd\\377') && mkdir -p \"$name/mnist\" && cp *-ubyte \"$name\" && "
              "cp *-ubyte \"$name/mnist\"");
    const char *options = "--data \"$(printf 'd\\377')\" --steps 1 --quiet";
    char line[128];
    (void)snprintf(line, sizeof line, "%s --save a.run", options);
    example_expect(2, "mlp_mnist", line);
    example_says(example_err, "--data wants a name in UTF-8 for --save, not 'd\377'");
    example_expect(0, "mlp_mnist", options);
    const char *found = "TERN_DATA=\"$(printf 'd\\377')\"";
    assert_int_equal(example_run(found, "mlp_mnist", "--steps 1 --quiet --save a.run"), 2);
    example_says(example_err, "--data wants a name in UTF-8 for --save, not 'd\377/mnist'");
    in_folder("rm -r \"$(printf 'd\\377')\"");
}

/* The file that is written through a link is what must be there, or be made. */
static void test_links_that_end_nowhere_are_found_out_first(void **state)
{
    (void)state;
    in_folder(
        "mkdir to && ln -s nowhere/a into && ln -s ../into to/further && ln -s round about && "
        "ln -s about round && ln -s to/new new && ln -s ../a to/new");
    const char *const names[] = { "into", "to/further", "round" };
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        char options[128], words[128];
        (void)snprintf(options, sizeof options, "--data . --steps 1 --quiet --%s %s",
                       i % 2 ? "save" : "json", names[i / 2]);
        (void)snprintf(words, sizeof words,
                       "--%s wants a file in a folder that can be written, not '%s'",
                       i % 2 ? "save" : "json", names[i / 2]);
        example_expect(2, "mlp_mnist", options);
        example_says(example_err, words);
    }
    example_expect(2, "mlp_mnist", "--data . --steps 1 --quiet --save new --json a");
    example_says(example_err, "--json wants another file than --save, not 'a'");
    example_expect(0, "mlp_mnist", "--data . --steps 1 --quiet --save new");
    in_folder("test -f a && test -h new && test -h to/new && rm -r a to into new round about");
}

static void expect_text(const char *name, const char *wanted)
{
    static char text[EXAMPLE_TEXT_BYTES];
    example_read(name, text);
    assert_string_equal(text, wanted);
}

/* `around` writes a line to `all` before and behind the run. */
static void expect_results_between(const char *around, const char *options)
{
    (void)example_run(around, "mlp_mnist", options);
    in_folder("head -n 1 all | grep first && grep -q test_accuracy all && tail -n 1 all | grep "
              "last && rm all");
}

static void test_results_go_behind_what_an_open_file_has(void **state)
{
    (void)state;
    expect_results_between("sh -c '(echo first; \"$@\"; echo last) >all' sh",
                           "--data . --steps 1 --quiet --json /dev/stdout");
    expect_results_between("sh -c '(echo first >&2; \"$@\"; echo last >&2) 2>all' sh",
                           "--data . --steps 1 --quiet --json /dev/stderr");
}

/* The results that stdout's file holds by then would be lost. */
static void test_stored_run_wants_a_file_of_its_own(void **state)
{
    (void)state;
    const char *const names[] = { "/dev/stdout", "out.txt", "/dev/stderr", "/dev/fd/2" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char options[128];
        (void)snprintf(options, sizeof options, "--data . --steps 1 --quiet --save %s", names[i]);
        example_expect(2, "mlp_mnist", options);
        example_says(example_err, "--save wants a file of its own, which it replaces, not '");
    }
}

/* A link to the old file still has the old results, so nothing was written over them. */
static void test_results_are_written_beside_the_old_ones(void **state)
{
    (void)state;
    in_folder("echo old >r.json && chmod 600 r.json && ln r.json kept && ln -s r.json link.json");
    example_expect(0, "mlp_mnist", "--data . --epochs 1 --steps 1 --quiet --json link.json");
    expect_text("kept", "old\n");
    in_folder("test -h link.json && grep -q test_accuracy r.json");
    in_folder("ls -l r.json | grep -q '^-rw-------'");
    in_folder("mkfifo pipe && (cat pipe >/dev/null &)"); /* no file to be replaced */
    example_expect(0, "mlp_mnist", "--data . --epochs 1 --steps 1 --quiet --json pipe");
    in_folder("test -p pipe && rm r.json kept link.json pipe");
    in_folder("mkdir shut && mkfifo shut/pipe && chmod 555 shut && (cat shut/pipe >/dev/null &)");
    example_expect(0, "mlp_mnist", "--data . --epochs 1 --steps 1 --quiet --json shut/pipe");
    in_folder("chmod 755 shut && rm -r shut");
    (void)example_run("sh -c ': >r.json.tmp-$$-0 && : >r.json.tmp-$$ && exec \"$@\"' sh",
                      "mlp_mnist", "--data . --steps 1 --quiet --json r.json");
    in_folder("grep -q test_accuracy r.json && rm r.json r.json.tmp-*");
    in_folder("mkdir to && ln -s to/new.json link.json");
    example_expect(0, "mlp_mnist", "--data . --epochs 1 --steps 1 --quiet --json link.json");
    in_folder("test -h link.json && grep -q test_accuracy to/new.json && rm -r link.json to");
}

/* Files end after 1024 or 2048 bytes, by the shell's unit: LLVM's OpenMP wants one of 1024 for itself. Counts of a
 * coverage build go elsewhere. */
static void test_results_that_cannot_be_written_leave_the_old_ones(void **state)
{
    (void)state;
    if (HAS_THREAD_SANITIZER) {
        print_message("skipped: the thread sanitizer itself needs longer files\n");
        skip();
    }
    in_folder("echo old >r.json");
    const int status = example_run("trap '' XFSZ; ulimit -f 2; GCOV_PREFIX=counts", "mlp_mnist",
                                   "--data . --epochs 40 --batch 600 --quiet --json r.json");
    assert_int_equal(status, 1);
    example_says(example_err, "mlp_mnist: cannot write 'r.json': File too large");
    expect_text("r.json", "old\n");
    in_folder("test -z \"$(ls | grep tmp)\" && rm -rf r.json counts");
    assert_int_equal(example_run("trap '' XFSZ; ulimit -f 2; GCOV_PREFIX=counts", "mlp_mnist",
                                 "--data . --epochs 2 --batch 600 --quiet --save s.run"),
                     1);
    example_says(example_err, "mlp_mnist: --save failed after this epoch, the training goes on\n");
    example_says(example_out, "after 2 steps");
    in_folder("test -z \"$(ls | grep -e tmp -e s.run)\" && rm -rf counts && echo old >r.json");
    assert_int_equal(example_run("trap '' XFSZ; ulimit -f 2; GCOV_PREFIX=counts", "mlp_mnist",
                                 "--data . --steps 1 --quiet --save s.run --json r.json"),
                     1);
    expect_text("r.json", "old\n"); /* its results are short enough, but no run went well */
    in_folder("rm -rf counts r.json");
}

static void test_without_mnist_digits_are_drawn_and_said(void **state)
{
    (void)state;
    const int status =
        example_run("env -u TERN_DATA -u XDG_CACHE_HOME HOME=.", "mlp_mnist", "--steps 2");
    assert_int_equal(status, 0);
    example_says(example_err,
                 "no complete MNIST in data/mnist, $TERN_DATA/mnist or ~/.cache/tern/mnist");
    example_says(example_err, "try --data DIR; ./run demo --fetch gets the files");
    example_says(example_out, "data: the built-in drawn digits");
}

static void test_without_cifar_pictures_are_drawn_and_said(void **state)
{
    (void)state;
    const int status = example_run("env -u TERN_DATA -u XDG_CACHE_HOME HOME=.", "resnet_cifar",
                                   "--steps 2 --batch 4 --no-test");
    assert_int_equal(status, 0);
    example_says(example_err, "no complete CIFAR-10 in data/cifar10, $TERN_DATA/cifar10 or");
    example_says(example_out, "data: the built-in drawn pictures");
    example_expect(2, "resnet_cifar", "--show 3");
    example_says(example_err, "usage: ");
    example_expect(2, "mlp_mnist", "--augment");
    example_says(example_err, "usage: ");
    example_expect(0, "resnet_cifar", "--help");
    example_says(example_out, "--augment  ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_options_end_with_2),
        cmocka_unit_test(test_stored_text_is_not_written_over),
        cmocka_unit_test(test_images_are_not_written_over),
        cmocka_unit_test(test_help_is_no_mistake),
        cmocka_unit_test(test_last_device_is_the_one),
        cmocka_unit_test(test_results_that_do_not_arrive_are_an_error),
        cmocka_unit_test(test_bad_files_end_with_1_and_their_path),
        cmocka_unit_test(test_files_that_do_not_fit_end_with_1),
        cmocka_unit_test(test_nothing_to_test_on_is_said),
        cmocka_unit_test(test_no_test_needs_nothing_to_test_on),
        cmocka_unit_test(test_what_was_loaded_is_explained),
        cmocka_unit_test(test_what_cannot_be_written_is_found_out_first),
        cmocka_unit_test(test_names_that_cannot_be_stored_are_found_out_first),
        cmocka_unit_test(test_links_that_end_nowhere_are_found_out_first),
        cmocka_unit_test(test_results_go_behind_what_an_open_file_has),
        cmocka_unit_test(test_stored_run_wants_a_file_of_its_own),
        cmocka_unit_test(test_results_are_written_beside_the_old_ones),
        cmocka_unit_test(test_results_that_cannot_be_written_leave_the_old_ones),
        cmocka_unit_test(test_without_mnist_digits_are_drawn_and_said),
        cmocka_unit_test(test_without_cifar_pictures_are_drawn_and_said),
    };
    return cmocka_run_group_tests(tests, example_make_data, NULL);
}
