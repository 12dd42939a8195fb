/* A libcuda.so.1 that does what FAKE_* in the environment says: FAKE_INIT (a code, "hang" or "crash"),
 * FAKE_VERSION (13000), FAKE_DEVICES (1; fewer by CUDA_VISIBLE_DEVICES, of which it reads one index),
 * FAKE_NONE (100: the code where that leaves none),
 * FAKE_CAPABILITY (90; of several devices 90,61). As the real one it refuses a child of the process that started it (3),
 * which inherits the open node. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tern/base.h"

enum { INVALID = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100 };

static pid_t starter; /* 0: nobody */

TERN_API int cuInit(unsigned flags);
TERN_API int cuDriverGetVersion(int *out_version);
TERN_API int cuDeviceGetCount(int *out_count);
TERN_API int cuDeviceGet(int *out_device, int ordinal);
TERN_API int cuDeviceGetAttribute(int *out_value, int attribute, int device);

static int setting(const char *name, int otherwise)
{
    const char *value = getenv(name);
    return value != NULL ? atoi(value) : otherwise;
}

static int devices(void)
{
    const int count = setting("FAKE_DEVICES", 1);
    return setting("CUDA_VISIBLE_DEVICES", 0) < count ? count : 0;
}

static int start(void)
{
    char path[PATH_MAX];
    const char *root = getenv("TERN_PROBE_ROOT");
    if (starter == getpid())
        return 0;
    if (starter != 0)
        return NOT_INITIALIZED;
    starter = getpid();
    (void)snprintf(path, sizeof path, "%s/dev/nvidia-uvm", root != NULL ? root : "");
    (void)open(path, O_RDWR | O_CLOEXEC);
    return 0;
}

int cuInit(unsigned flags)
{
    const char *wish = getenv("FAKE_INIT");
    (void)flags;
    (void)!write(STDERR_FILENO, "noise of the driver\n", 20);
    if (wish != NULL && strcmp(wish, "hang") == 0)
        for (;;)
            (void)pause();
    if (wish != NULL && strcmp(wish, "crash") == 0)
        (void)raise(SIGSEGV);
    if (wish != NULL)
        return atoi(wish);
    const int code = devices() > 0 ? 0 : setting("FAKE_NONE", NO_DEVICE);
    return code == 0 ? start() : code;
}

int cuDriverGetVersion(int *out_version)
{
    *out_version = setting("FAKE_VERSION", 13000);
    return 0;
}

int cuDeviceGetCount(int *out_count)
{
    *out_count = devices();
    return starter == getpid() ? 0 : NOT_INITIALIZED;
}

int cuDeviceGet(int *out_device, int ordinal)
{
    *out_device = ordinal;
    return 0;
}

static int capability_of(int device)
{
    const char *value = getenv("FAKE_CAPABILITY");
    for (int i = 0; i < device && value != NULL; i++) {
        const char *comma = strchr(value, ',');
        value = comma != NULL ? comma + 1 : value;
    }
    return value != NULL ? atoi(value) : 90;
}

int cuDeviceGetAttribute(int *out_value, int attribute, int device)
{
    const int capability = capability_of(device);
    *out_value = attribute == 75 ? capability / 10 : capability % 10;
    return attribute == 75 || attribute == 76 ? 0 : INVALID;
}
