/* A machine without a GPU: told apart from one whose driver or plugin is missing (support/fallback.h). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/fallback.h"
#include "tests/support/files.h"

static void make_folders_of(const char *path)
{
    char part[FILE_PATH_BYTES];
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        (void)mkdir(file_path(part), 0755); /* it may be there */
    }
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[FILE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    make_folders_of(path);
    file_bytes bytes = { NULL, 0 };
    file_bytes_add(&bytes, text, strlen(text));
    (void)file_write(path, bytes);
}

/* As sysfs has it; driver: NULL for none. */
static void put_device(const char *root, const char *address, const char *ids[3],
                       const char *driver)
{
    char folder[FILE_PATH_BYTES], path[2 * FILE_PATH_BYTES], target[FILE_PATH_BYTES];
    (void)snprintf(folder, sizeof folder, "%s/sys/bus/pci/devices/%s", root, address);
    put(folder, "vendor", ids[0]);
    put(folder, "device", ids[1]);
    put(folder, "class", ids[2]);
    if (driver == NULL)
        return;
    (void)snprintf(path, sizeof path, "%s/driver", folder);
    (void)snprintf(target, sizeof target, "../../../bus/pci/drivers/%s", driver);
    assert_int_equal(symlink(target, file_path(path)), 0);
}

#define IDS(vendor, device, class)           \
    (const char *[3])                        \
    {                                        \
        vendor "\n", device "\n", class "\n" \
    }

static int make_roots(void **state)
{
    (void)fallback_make_folders(state);
    /* the sound of a card that is passed on to another machine is no GPU */
    put_device("none", "0000:00:01.0", IDS("0x8086", "0x100e", "0x020000"), "e1000");
    put_device("none", "0000:00:02.0", IDS("0x10de", "0x22ba", "0x040300"), "snd_hda_intel");
    put_device("one", "0000:00:01.0", IDS("0x8086", "0x100e", "0x020000"), NULL);
    put_device("amd", "0000:03:00.0", IDS("0x1002", "0x744c", "0x030000"), "amdgpu");
    put_device("kept", "0000:01:00.0", IDS("0x10de", "0x2684", "0x030000"), "vfio-pci");
    put_device("several", "0000:01:00.0", IDS("0x10de", "0x2330", "0x030200"), NULL);
    put_device("several", "0000:02:00.0", IDS("0x10de", "0x2330", "0x030200"), NULL);
    put_device("tegra_bus", "0000:00:01.0", IDS("0x10de", "0x229e", "0x060400"), "pcieport");
    put("tegra_bus/dev", "nvmap", "");
    put_device("tegra_module", "0000:00:01.0", IDS("0x10de", "0x229e", "0x060400"), "pcieport");
    put("tegra_module/sys/module/nvgpu", "refcnt", "3\n");
    put_device("loaded", "0000:00:01.0", IDS("0x8086", "0x100e", "0x020000"), NULL);
    put("loaded/proc/driver/nvidia", "version", "NVRM version: NVIDIA UNIX x86_64  580.95.05\n");
    put_device("whole", "0000:01:00.0", IDS("0x10de", "0x2684", "0x030000"), "nvidia");
    put("whole/dev", "nvidiactl", "");
    put("whole/dev", "nvidia-uvm", "");
    put("whole/dev", "nvidia0", "");
    make_folders_of("masked/sys/bus/pci/devices/");
    return 0;
}

#define NO_PLUGIN "TERN_PLUGIN_PATH=\"$PWD\" TERN_PROBE_ROOT=\"$PWD/"

/* "built-without" in a build without CUDA. */
static const char *code_without_a_plugin(void)
{
    fallback_run("TERN_PLUGIN_PATH=\"$PWD\"");
    return strstr(fallback_answer, "built-without|") == fallback_answer ? "built-without"
                                                                        : "plugin-missing";
}

static void test_a_plugin_would_not_help(void **state)
{
    (void)state;
    fallback_expect(NO_PLUGIN "none\"", "no-gpu",
                    "this machine has no NVIDIA GPU (none of its 2 PCI devices is one)|");
    fallback_expect(NO_PLUGIN "one\"", "no-gpu", "(none of its 1 PCI device is one)|");
    fallback_expect(NO_PLUGIN "amd\"", "no-gpu",
                    "; AMD's 1002:744c cannot be used: tern runs on CUDA and the CPU");
    fallback_expect(NO_PLUGIN "none\" TERN_SIM_DEVICES=2", "plugin-missing", "libtern_sim.so");
}

static void test_a_plugin_would_help(void **state)
{
    (void)state;
    const char *code = code_without_a_plugin();
    fallback_expect(NO_PLUGIN "kept\"", code,
                    "; this machine has an NVIDIA GPU (10de:2684, driver vfio-pci, which keeps it "
                    "for a virtual machine)|");
    fallback_expect(NO_PLUGIN "several\"", code,
                    "; this machine has NVIDIA GPUs (10de:2330, driver none)|");
}

/* Where something else speaks of a GPU, or the bus is hidden, nothing is concluded from it. */
static void test_a_bus_that_does_not_tell(void **state)
{
    (void)state;
    static const char *const roots[] = { "tegra_bus", "tegra_module", "loaded",
                                         "masked",    "wsl",          "nowhere" };
    const char *code = code_without_a_plugin();
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        char settings[256];
        (void)snprintf(settings, sizeof settings, NO_PLUGIN "%s\"", roots[i]);
        fallback_expect(settings, code, "");
        assert_null(strstr(fallback_answer, "this machine has"));
    }
}

static void test_a_driver_would_not_help(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "TERN_PROBE_ROOT=\"$PWD/none\" FAKE_INIT=100", "no-gpu",
                    "this machine has no NVIDIA GPU");
    fallback_expect(PLUGIN "TERN_PROBE_ROOT=\"$PWD/none\" FAKE_DEVICES=0", "no-gpu",
                    "this machine has no NVIDIA GPU");
    /* its own words come first where it has any */
    fallback_expect(PLUGIN "TERN_PROBE_ROOT=\"$PWD/none\" FAKE_INIT=803", "init-failed", "803");
    if (dlopen("libcuda.so.1", RTLD_LAZY) != NULL) {
        print_message("skipped in part: this machine has a libcuda.so.1\n");
        return;
    }
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/none\"", "no-gpu", "this machine has no NVIDIA GPU");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/none\" TERN_PROBE_SECONDS=0 FAKE_BACKEND=refuse",
                    "no-gpu", "this machine has no NVIDIA GPU");
    /* somebody has put a driver there */
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/none\" LD_LIBRARY_PATH=\"$PWD/short\"",
                    "no-driver-library", "is empty; this machine has no NVIDIA GPU");
    fallback_expect("TERN_PROBE_ROOT=\"$PWD/kept\"", "no-driver-library",
                    "; this machine has an NVIDIA GPU (10de:2684, driver vfio-pci, which keeps it "
                    "for a virtual machine)|");
}

static void test_a_missing_device_is_named(void **state)
{
    (void)state;
    fallback_expect(PLUGIN "TERN_PROBE_ROOT=\"$PWD/kept\" FAKE_INIT=100", "no-device-node",
                    "; this machine has an NVIDIA GPU (10de:2684, driver vfio-pci, which keeps it "
                    "for a virtual machine)|use the GPU in its virtual machine, or take it back");
    fallback_expect(PLUGIN "TERN_PROBE_ROOT=\"$PWD/whole\" FAKE_INIT=100", "no-device",
                    "(cuInit gave 100); this machine has an NVIDIA GPU (10de:2684, driver "
                    "nvidia)|run nvidia-smi -L");
    fallback_expect(PLUGIN "TERN_PROBE_ROOT=\"$PWD/whole\" FAKE_DEVICES=0 FAKE_NONE=0", "no-device",
                    "the driver finds no device (cuDeviceGetCount counts 0); this machine has");
}

static void test_what_works_is_not_questioned(void **state)
{
    (void)state;
    fallback_expect_usable(PLUGIN "TERN_PROBE_ROOT=\"$PWD/none\"");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--ask") == 0)
        return fallback_ask();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plugin_would_not_help),
        cmocka_unit_test(test_a_plugin_would_help),
        cmocka_unit_test(test_a_bus_that_does_not_tell),
        cmocka_unit_test(test_a_driver_would_not_help),
        cmocka_unit_test(test_a_missing_device_is_named),
        cmocka_unit_test(test_what_works_is_not_questioned),
    };
    return cmocka_run_group_tests(tests, make_roots, NULL);
}
