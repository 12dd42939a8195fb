/* What /dev, /proc and the library folders say of the driver, without loading anything. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cuda/probe.h"
#include "core/plugin.h"

enum { MOST_NODES = 32, DRIVER_TEXT = 96 };

/* Ignored in a set-user-id program, as the loader ignores LD_LIBRARY_PATH there. */
const char *core_probe_path(const char *path, char buffer[PATH_MAX])
{
    const char *root = secure_getenv("TERN_PROBE_ROOT");
    const int n = snprintf(buffer, PATH_MAX, "%s%s", root != NULL ? root : "", path);
    return n > 0 && n < PATH_MAX ? buffer : path;
}

/* 0 when the node can be opened, else errno. */
static int node_error(const char *path)
{
    char buffer[PATH_MAX];
    const int fd = open(core_probe_path(path, buffer), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno;
    (void)close(fd);
    return 0;
}

static bool exists(const char *path)
{
    char buffer[PATH_MAX];
    struct stat status;
    return stat(core_probe_path(path, buffer), &status) == 0;
}

void core_probe_kernel_driver(char version[32])
{
    char buffer[PATH_MAX], line[256] = "";
    version[0] = '\0';
    FILE *file = fopen(core_probe_path("/proc/driver/nvidia/version", buffer), "re");
    if (file == NULL)
        return;
    const char *read = fgets(line, sizeof line, file);
    (void)fclose(file);
    /* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build": the first
     * word that is a number with a point, in every flavour of the driver */
    for (const char *at = read; at != NULL && *at != '\0'; at += strcspn(at, " \t\n")) {
        at += strspn(at, " \t\n");
        const size_t n = strspn(at, "0123456789.");
        if (n > 0 && n < 32 && memchr(at, '.', n) != NULL && strcspn(at, " \t\n") == n) {
            memcpy(version, at, n);
            version[n] = '\0';
            return;
        }
    }
}

/* "the kernel driver 580.95.05 is loaded" */
static void say_driver(char text[DRIVER_TEXT])
{
    char version[32];
    core_probe_kernel_driver(version);
    if (version[0] != '\0')
        (void)snprintf(text, DRIVER_TEXT, "the kernel driver %s is loaded", version);
    else
        (void)snprintf(text, DRIVER_TEXT, "no NVIDIA kernel driver is loaded%s",
                       exists("/sys/module/nouveau") ? ", but nouveau" : "");
}

static core_reason say_node(const char *path, int error, char text[CORE_REASON_BYTES])
{
    char driver[DRIVER_TEXT];
    say_driver(driver);
    if (error == ENOENT || error == ENXIO || error == ENODEV) {
        (void)snprintf(text, CORE_REASON_BYTES, "%s %s; %s", path,
                       error == ENOENT ? "is missing" : "has no driver behind it", driver);
        return CORE_REASON_NO_DEVICE_NODE;
    }
    const bool forbidden = error == EACCES || error == EPERM;
    (void)snprintf(text, CORE_REASON_BYTES, "%s %s: %s; %s", path,
                   forbidden ? "may not be opened" : "cannot be opened", strerror(error), driver);
    if (forbidden)
        return CORE_REASON_NO_PERMISSION;
    /* EIO: the driver is behind it and cannot start the GPU */
    return error == EIO ? CORE_REASON_NO_DEVICE : CORE_REASON_NO_DEVICE_NODE;
}

/* The first device node that is there decides; none is as bad as a missing nvidiactl. */
static core_reason numbered_nodes(char text[CORE_REASON_BYTES])
{
    char path[32];
    int error = ENOENT;
    for (int i = 0; i < MOST_NODES; i++) {
        (void)snprintf(path, sizeof path, "/dev/nvidia%d", i);
        const int this_error = node_error(path);
        if (this_error == 0)
            return CORE_REASON_NONE;
        if (this_error != ENOENT && error == ENOENT)
            error = this_error;
    }
    return say_node(error == ENOENT ? "/dev/nvidia0" : "/dev/nvidia*", error, text);
}

/* Of WSL and Tegra. That one may not be opened is all that can be told of them. */
static core_reason other_nodes(const char *const paths[], char text[CORE_REASON_BYTES])
{
    for (int i = 0; paths[i] != NULL; i++) {
        const int error = node_error(paths[i]);
        if (error == EACCES || error == EPERM) {
            (void)snprintf(text, CORE_REASON_BYTES, "%s may not be opened: %s", paths[i],
                           strerror(error));
            return CORE_REASON_NO_PERMISSION;
        }
    }
    return CORE_REASON_NONE;
}

static bool is_of_wsl(const char *library)
{
    return strstr(library, "/wsl/") != NULL;
}

core_reason core_probe_nodes(const char *library, char text[CORE_REASON_BYTES])
{
    static const char *const always[] = { "/dev/nvidiactl", "/dev/nvidia-uvm" };
    static const char *const wsl[] = { "/dev/dxg", NULL };
    static const char *const tegra[] = { "/dev/nvmap", "/dev/nvgpu", "/dev/nvhost-gpu",
                                         "/dev/nvhost-ctrl", NULL };
    if (exists("/dev/dxg"))
        return other_nodes(wsl, text);
    if (exists("/dev/nvgpu") || exists("/dev/nvhost-gpu"))
        return other_nodes(tegra, text);
    if (is_of_wsl(library)) {
        (void)snprintf(text, CORE_REASON_BYTES,
                       "/dev/dxg is missing, through which WSL 2 reaches the GPU: wsl --update on "
                       "Windows, and its driver there; a container needs the node, too");
        return CORE_REASON_NO_DEVICE_NODE;
    }
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        const int error = node_error(always[i]);
        if (error != 0)
            return say_node(always[i], error, text);
    }
    return numbered_nodes(text);
}

/* A container need not have the nodes; it sees modules of its host's kernel, a Jetson's (nvgpu) among them. */
bool core_probe_speaks_of_one(void)
{
    static const char *const signs[] = { "/dev/nvidiactl",   "/dev/dxg",   "/dev/nvgpu",
                                         "/dev/nvhost-gpu",  "/dev/nvmap", "/sys/module/nvidia",
                                         "/sys/module/nvgpu" };
    char version[32];
    core_probe_kernel_driver(version);
    bool found = version[0] != '\0';
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        found |= exists(signs[i]);
    return found;
}

void core_probe_system(char text[CORE_PROBE_TEXT])
{
    char driver[DRIVER_TEXT], version[32];
    core_probe_kernel_driver(version);
    text[0] = '\0';
    if (exists("/dev/dxg")) {
        (void)snprintf(text, CORE_PROBE_TEXT,
                       "this is WSL, whose driver is installed on Windows and lies in "
                       "/usr/lib/wsl/lib");
    } else if (version[0] != '\0' || exists("/sys/module/nouveau")) {
        say_driver(driver);
        (void)snprintf(text, CORE_PROBE_TEXT, "%s%s", driver,
                       version[0] != '\0' ? ", its libraries are missing here (in a container: "
                                            "NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
                                          : "");
    }
}

bool core_probe_holds_driver(void)
{
    char buffer[PATH_MAX];
    struct stat driver, own;
    DIR *files = opendir("/proc/self/fd");
    bool found = false;
    if (files == NULL)
        return false;
    if (stat(core_probe_path("/dev/nvidia-uvm", buffer), &driver) == 0)
        for (const struct dirent *entry; !found && (entry = readdir(files)) != NULL;)
            found = fstatat(dirfd(files), entry->d_name, &own, 0) == 0 &&
                    own.st_dev == driver.st_dev && own.st_ino == driver.st_ino;
    (void)closedir(files);
    return found;
}

/* ---- libraries ---------------------------------------------------------------------------------- */

static bool describe_stray(bool found, const char *folder, size_t length,
                           char text[CORE_PROBE_TEXT])
{
    char path[PATH_MAX];
    struct stat status;
    const int n = snprintf(path, sizeof path, "%.*s/libcuda.so.1", (int)length, folder);
    if (length == 0 || n < 0 || n >= (int)sizeof path || lstat(path, &status) != 0)
        return false;
    char machine[CORE_PLUGIN_MACHINE], of_another[64];
    const char *fault = found ? "is what the loader finds"
                              : "is there, where the loader does not look or does not take it";
    if (stat(path, &status) != 0)
        fault = "is a link to nothing";
    else if (access(path, R_OK) != 0)
        fault = "may not be read";
    else if (status.st_size == 0)
        fault = "is empty";
    else if (core_plugin_file_is_foreign(path, machine)) {
        (void)snprintf(of_another, sizeof of_another, "is for another kind of machine: %s",
                       machine);
        fault = of_another;
    }
    (void)snprintf(text, CORE_PROBE_TEXT, "%.180s %s", path, fault);
    return true;
}

void core_probe_stray_library(bool found, char text[CORE_PROBE_TEXT])
{
    static const char usual[] =
        "/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64:/usr/lib:/usr/lib/wsl/lib:"
        "/usr/local/nvidia/lib64:/run/opengl-driver/lib:/usr/lib/x86_64-linux-gnu/nvidia/current:"
        "/usr/lib/aarch64-linux-gnu/nvidia:/usr/lib/aarch64-linux-gnu/tegra";
    const char *lists[] = { secure_getenv("LD_LIBRARY_PATH"), usual };
    text[0] = '\0';
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const char *at = lists[i]; at != NULL && *at != '\0';) {
            const size_t length = strcspn(at, ":");
            if (describe_stray(found, at, length, text))
                return;
            at += length + (at[length] == ':');
        }
}
