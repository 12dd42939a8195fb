/* The next step, where the system tells more than the reason does: a container, a pod, WSL, a kernel driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cuda/probe.h"

static bool exists(const char *path)
{
    char buffer[PATH_MAX];
    return access(core_probe_path(path, buffer), F_OK) == 0;
}

static bool in_a_pod(void)
{
    return getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

static bool in_a_container(void)
{
    return in_a_pod() || exists("/.dockerenv") || exists("/run/.containerenv");
}

static const char *start_it_with_gpus(void)
{
    return in_a_pod()
               ? "give the pod a GPU: resources: limits: nvidia.com/gpu: 1; kubectl describe "
                 "node shows whether a node has any"
               : "start the container with docker run --gpus all (podman: --device "
                 "nvidia.com/gpu=all); the host needs nvidia-container-toolkit";
}

static const char *take_it_back(void)
{
    return "use the GPU in its virtual machine, or take it back: tern explain no-driver-library";
}

/* "": the file that is named is to be mended. */
static const char *no_library(const core_probe *p, char text[CORE_PROBE_TEXT])
{
    char version[32];
    core_probe_stray_library(strstr(p->words, "No such file") == NULL, text);
    if (text[0] != '\0')
        return "";
    if (exists("/dev/dxg"))
        return "export LD_LIBRARY_PATH=/usr/lib/wsl/lib; where no libcuda.so.1 lies there, install "
               "NVIDIA's driver on Windows";
    if (in_a_container() && exists("/dev/nvidiactl")) /* not by the toolkit, or for graphics */
        return "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility and --gpus all "
               "in place of --device; the host needs nvidia-container-toolkit";
    if (in_a_container())
        return start_it_with_gpus();
    if (core_probe_card_is_kept())
        return take_it_back();
    core_probe_kernel_driver(version);
    if (version[0] == '\0')
        return "install NVIDIA's driver (Ubuntu: sudo ubuntu-drivers install), then restart";
    (void)snprintf(text, CORE_PROBE_TEXT,
                   "install the libraries of driver %s (Ubuntu: sudo apt install "
                   "libnvidia-compute-%.*s; Debian: sudo apt install libcuda1)",
                   version, (int)strcspn(version, "."), version);
    return text;
}

static const char *no_node(void)
{
    char version[32];
    if (exists("/dev/dxg"))
        return "";
    if (in_a_container())
        return start_it_with_gpus();
    if (core_probe_card_is_kept())
        return take_it_back();
    core_probe_kernel_driver(version);
    if (version[0] != '\0')
        return "run sudo nvidia-modprobe -c 0 -u";
    return exists("/sys/module/nouveau")
               ? "run echo blacklist nouveau | sudo tee /etc/modprobe.d/blacklist-nouveau.conf; "
                 "sudo update-initramfs -u (Fedora: sudo dracut --force); restart"
               : "run sudo modprobe nvidia && sudo nvidia-modprobe -c 0 -u; what modprobe's errors "
                 "mean: tern explain no-device-node";
}

void core_probe_step(core_reason reason, const core_probe *probe, char step[CORE_PROBE_TEXT])
{
    char text[CORE_PROBE_TEXT];
    const char *words = "";
    if (reason == CORE_REASON_NO_DRIVER_LIBRARY)
        words = no_library(probe, text);
    else if (reason == CORE_REASON_NO_DEVICE_NODE)
        words = no_node();
    else if (reason == CORE_REASON_INIT_FAILED)
        words = core_probe_next(probe->code);
    else if (reason == CORE_REASON_NO_DEVICE && core_probe_cards(text) == CORE_CARDS_SOME)
        words = "run nvidia-smi -L (with MIG switched on: has it instances?), then sudo dmesg | "
                "grep -i -e nvrm -e xid, which says why the driver takes no GPU";
    else if (reason == CORE_REASON_DRIVER_TOO_OLD && in_a_container())
        words =
            "install a newer driver on the host, not in the container; or a build of tern for an "
            "older CUDA";
    (void)snprintf(step, CORE_PROBE_TEXT, "%s", words);
}
