/* See fallback.h. */
#include "tests/support/fallback.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tern/system.h"
#include "tests/support/check.h"
#include "tests/support/files.h"

enum { NOBODY = 65534, HEADERS = 4096 /* bytes of a library, and more */ };

/* ---- the child ------------------------------------------------------------------------------------ */

static int mapped_cuda_libraries(void)
{
    char line[1024];
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "libcuda") != NULL || strstr(line, "libtern_cuda") != NULL ||
                 strstr(line, "libcudart") != NULL || strstr(line, "libnvidia") != NULL;
    if (maps != NULL)
        (void)fclose(maps);
    return count;
}

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_seconds(double seconds)
{
    FILE *file = fopen("seconds.txt", "w");
    if (file == NULL) /* nobody may not */
        return;
    (void)fprintf(file, "%.4f", seconds);
    (void)fclose(file);
}

/* From now on one file can be open beside those that are: no pipe, which is two. */
static bool leave_one_file(void)
{
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (next < 0)
        return false;
    (void)close(next);
    const rlim_t most = (rlim_t)next + 1;
    return setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most, most }) == 0;
}

/* TEST_CHOICE: "index of the best|of the automatic one|what the eighth one's error says". */
static void print_choice(void)
{
    printf("|%d|%d", tern_dev_best().index, tern_dev_auto().index);
    (void)tern_empty(TERN_SHAPE(2), .device = TERN_CUDA(7));
    printf("|%s", tern_error_text());
    tern_error_clear();
}

/* TEST_STARTED: CUDA is started by somebody else than tern, "here" or in the process that this one is forked from. */
static bool start_driver(const char *where)
{
    int (*init)(unsigned flags);
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library != NULL ? dlsym(library, "cuInit") : NULL;
    memcpy(&init, &symbol, sizeof init);
    if (init == NULL || init(0) != 0)
        return false;
    const pid_t child = strcmp(where, "here") != 0 ? fork() : 0;
    int status = 0;
    if (child != 0)
        _exit(waitpid(child, &status, 0) == child && status == 0 ? 0 : 4);
    return true;
}

int fallback_ask(void)
{
    const char *where = getenv("TEST_STARTED");
    if (where != NULL && !start_driver(where))
        return 3;
    if (getenv("TEST_AS_NOBODY") != NULL && geteuid() == 0 &&
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        return 3;
    if (getenv("TEST_FEW_FILES") != NULL && !leave_one_file())
        return 3;
    if (getenv("TEST_SWITCH_OFF") != NULL)
        tern_cuda_set_enabled(false);
    if (getenv("TEST_PREFER") != NULL)
        tern_set_device_policy(TERN_PREFER);
    int kind = 0;
    const double start = now();
    {
        TERN_SCOPE;
        tern_tensor *t = tern_empty(TERN_SHAPE(2), .device = TERN_CUDA(0));
        write_seconds(now() - start);
        if (t != NULL)
            kind = tern_device(t).kind;
        if (tern_cuda(t) != t) /* there already, or both NULL */
            kind = -1;
    }
    const int error = (int)tern_error_code();
    char text[2048];
    (void)snprintf(text, sizeof text, "%s", tern_error_text());
    tern_error_clear();
    tern_fallback_t why = { "", "", "" };
    (void)tern_dev_fallback(&why);
    printf("%s|%d|%d|%d|%s|%s|%s", why.code, kind, mapped_cuda_libraries(), error, why.text,
           why.next_step, text);
    if (getenv("TEST_CHOICE") != NULL)
        print_choice();
    if (getenv("TEST_AS_NOBODY") != NULL) {
        (void)fflush(NULL);
        _exit(0); /* nobody may not write the coverage preset's counters: gcov would complain */
    }
    return 0;
}

/* ---- the parent ----------------------------------------------------------------------------------- */

char fallback_answer[FALLBACK_BYTES], fallback_said[FALLBACK_BYTES];

void fallback_read(const char *name, char text[FALLBACK_BYTES])
{
    char path[2 * FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, FALLBACK_BYTES - 1, file)] = '\0';
    (void)fclose(file);
}

/* Starts this program with `settings` ("A=1 B=2") before it; its answer and what it wrote on stderr. */
void fallback_run(const char *settings)
{
    char command[8 * FILE_PATH_BYTES], self[FILE_PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    (void)snprintf(command, sizeof command,
                   "cd '%s' && env -u KUBERNETES_SERVICE_HOST -u CUDA_VISIBLE_DEVICES -u "
                   "TERN_SIM_DEVICES -u TERN_DEVICE_POLICY "
                   "TERN_PROBE_ROOT=\"$PWD\" TERN_PLUGIN_PATH=\"$PWD/plugin\" %s '%s' --ask "
                   ">out.txt 2>err.txt",
                   file_folder(), settings, self);
    const int status = system(command);
    fallback_read("out.txt", fallback_answer);
    fallback_read("err.txt", fallback_said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s ended with status %d:\n%s%s", settings, status, fallback_answer,
                 fallback_said);
}

static int fallback_lines(const char *text)
{
    int count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

/* Under `prefer`: the reason, the words, a CPU tensor, exactly one line, and require says the same. */
void fallback_expect(const char *settings, const char *code, const char *words)
{
    char start[64], both[1024];
    fallback_run(settings);
    (void)snprintf(start, sizeof start, "%s|%d|", code, TERN_KIND_CPU);
    if (strncmp(fallback_answer, start, strlen(start)) != 0 ||
        strstr(fallback_answer, words) == NULL)
        fail_msg("%s: not [%s] '%s' but:\n%s\n%s", settings, code, words, fallback_answer,
                 fallback_said);
    if (fallback_lines(fallback_said) != 1 ||
        strstr(fallback_said, "tern: using the CPU instead of CUDA: ") != fallback_said ||
        strstr(fallback_said, code) == NULL)
        fail_msg("%s: not one line on stderr but:\n%s", settings, fallback_said);
    (void)snprintf(both, sizeof both, "TERN_DEVICE_POLICY=require %s", settings);
    fallback_run(both);
    (void)snprintf(start, sizeof start, "%s|0|", code);
    (void)snprintf(both, sizeof both, "there is none: ");
    if (strncmp(fallback_answer, start, strlen(start)) != 0 ||
        strstr(fallback_answer, both) == NULL)
        fail_msg("%s under require: %s", settings, fallback_answer);
    assert_string_equal(fallback_said, "");
}

/* A device of the plugin, and no reason. */
void fallback_expect_usable(const char *settings)
{
    fallback_run(settings);
    if (strncmp(fallback_answer, "|2|", 3) != 0)
        fail_msg("%s: not usable but:\n%s\n%s", settings, fallback_answer, fallback_said);
}

int fallback_mapped(void)
{
    const char *at = strchr(strchr(fallback_answer, '|') + 1, '|');
    return atoi(at + 1);
}

/* ---- folders --------------------------------------------------------------------------------------- */

static void make_folder(const char *name)
{
    assert_true(mkdir(file_path(name), 0755) == 0);
}

static void copy(const char *from, const char *name)
{
    const char *folder = getenv("TERN_TEST_PLUGINS");
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : ".", from);
    file_bytes bytes = file_read(path);
    assert_true(bytes.count > 0);
    assert_int_equal(chmod(file_write(name, bytes), 0755), 0);
}

/* The plugin, wanting a library that no machine has. */
static void copy_lacking(void)
{
    static const char needed[] = "libc.so.6";
    file_bytes bytes = file_read(file_path("plugin/libtern_cuda.so"));
    char *at = memmem(bytes.data, bytes.count, needed, sizeof needed);
    assert_non_null(at);
    at[3] = 'q';
    (void)file_write("lacking/libtern_cuda.so", bytes);
}

/* A library that another machine would take. */
static void copy_foreign(const char *from, const char *name)
{
    enum { RISCV = 243, AT = 18 /* e_machine, both bytes in front */ };
    file_bytes bytes = file_read(file_path(from));
    assert_true(bytes.count > AT + 1);
    const uint16_t machine = RISCV;
    memcpy(bytes.data + AT, &machine, sizeof machine);
    (void)file_write(name, bytes);
}

static void write_text(const char *name, const char *text)
{
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, text, strlen(text));
    (void)file_write(name, bytes);
}

int fallback_make_folders(void **state)
{
    (void)state;
    static const char *const folders[] = {
        "plugin",
        "lacking",
        "driver",
        "short",
        "other",
        "dangling",
        "dev",
        "bare",
        "bare/proc",
        "bare/proc/driver",
        "bare/proc/driver/nvidia",
        "bare/dev",
        "closed",
        "closed/dev",
        "nouveau",
        "nouveau/sys",
        "nouveau/sys/module",
        "nouveau/sys/module/nouveau",
        "mounted",
        "mounted/dev",
        "mounted/dev/nvidia0",
        "broken",
        "broken/dev",
        "cut",
        "newer",
        "foreign",
        "boxed",
        "boxed/dev",
        "pipe",
        "wsl",
        "wsl/dev",
        "wsl/lib",
        "tegra",
        "tegra/dev",
    };
    assert_int_equal(chmod(file_folder(), 0777), 0);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        make_folder(folders[i]);
    copy("tern_fake_cuda.so", "plugin/libtern_cuda.so");
    copy("tern_fake_driver.so", "driver/libcuda.so.1");
    copy("tern_fake_driver.so", "other/libtern_cuda.so"); /* a library, but no plugin */
    copy("tern_fake_cuda.so", "other/libcuda.so.1");
    copy("tern_fake_cuda.so", "newer/libtern_cuda.so");
    assert_int_equal(mkfifo(file_path("pipe/libtern_cuda.so"), 0600), 0);
    copy_lacking();
    copy_foreign("plugin/libtern_cuda.so", "foreign/libtern_cuda.so");
    copy_foreign("driver/libcuda.so.1", "foreign/libcuda.so.1");
    write_text("short/libtern_cuda.so", "");
    write_text("short/libcuda.so.1", "");
    assert_int_equal(symlink("/nowhere/libcuda.so.580", file_path("dangling/libcuda.so.1")), 0);
    copy("tern_fake_driver.so", "wsl/lib/libcuda.so.1");
    write_text("boxed/.dockerenv", "");
    write_text("wsl/dev/dxg", "");
    write_text("tegra/dev/nvhost-gpu", "");
    write_text("tegra/dev/nvmap", "");
    assert_int_equal(chmod(file_path("wsl/dev/dxg"), 0), 0);
    assert_int_equal(chmod(file_path("tegra/dev/nvmap"), 0), 0);
    file_bytes part = file_read(file_path("plugin/libtern_cuda.so"));
    part.count = HEADERS; /* what it maps ends later, in a debug build before half of the file */
    (void)file_write("cut/libtern_cuda.so", part);
    write_text("dev/nvidiactl", "");
    write_text("dev/nvidia-uvm", "");
    write_text("dev/nvidia0", "");
    write_text("mounted/dev/nvidiactl", "");
    write_text("mounted/dev/nvidia-uvm", "");
    write_text("broken/dev/nvidiactl", "");
    write_text("broken/dev/nvidia-uvm", "");
    write_text("closed/dev/nvidiactl", "");
    assert_int_equal(chmod(file_path("closed/dev/nvidiactl"), 0), 0);
    write_text(
        "bare/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n");
    return 0;
}
