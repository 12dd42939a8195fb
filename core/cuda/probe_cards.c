/* What the PCI bus has: whether there is a GPU for a driver to find at all. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cuda/probe.h"

enum {
    NVIDIA = 0x10de,
    AMD = 0x1002,
    DISPLAY = 0x03 /* class of graphics cards and accelerators */
};

typedef struct pci_bus {
    int devices, nvidias;
    bool is_kept;             /* the first of NVIDIA's, for a virtual machine */
    char first[128];          /* of NVIDIA's: "10de:2684, driver nouveau" */
    unsigned other, other_id; /* vendor and device of AMD's first; 0: none */
} pci_bus;

/* A number that a file of sysfs holds ("0x10de"); 0 when it cannot be read. */
static unsigned number_in(const char *folder, const char *device, const char *file)
{
    char path[PATH_MAX], text[32] = "";
    const int n = snprintf(path, sizeof path, "%s/%s/%s", folder, device, file);
    FILE *stream = n > 0 && n < (int)sizeof path ? fopen(path, "re") : NULL;
    if (stream == NULL)
        return 0;
    const char *read = fgets(text, sizeof text, stream);
    (void)fclose(stream);
    return read != NULL ? (unsigned)strtoul(text, NULL, 16) : 0;
}

/* "nouveau", "vfio-pci", "none". */
static void driver_of(const char *folder, const char *device, char name[32])
{
    char path[PATH_MAX], target[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s/driver", folder, device);
    const ssize_t length =
        n > 0 && n < (int)sizeof path ? readlink(path, target, sizeof target - 1) : -1;
    target[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(target, '/');
    (void)snprintf(name, 32, "%.31s", length <= 0 ? "none" : slash != NULL ? slash + 1 : target);
}

/* Drivers that hold a card back for a virtual machine: no driver of NVIDIA's gets it. */
static bool is_kept(const char *driver)
{
    static const char *const keepers[] = { "vfio-pci", "pci-stub", "xen-pciback" };
    for (size_t i = 0; i < sizeof keepers / sizeof *keepers; i++)
        if (strcmp(driver, keepers[i]) == 0)
            return true;
    return false;
}

static void add_device(pci_bus *bus, const char *folder, const char *device)
{
    const unsigned vendor = number_in(folder, device, "vendor");
    bus->devices += vendor != 0;
    if (number_in(folder, device, "class") >> 16 != DISPLAY)
        return;
    const unsigned id = number_in(folder, device, "device");
    if (vendor == AMD && bus->other == 0) {
        bus->other = vendor;
        bus->other_id = id;
    }
    if (vendor != NVIDIA || bus->nvidias++ > 0)
        return;
    char driver[32];
    driver_of(folder, device, driver);
    bus->is_kept = is_kept(driver);
    (void)snprintf(bus->first, sizeof bus->first, "%04x:%04x, driver %s%s", vendor, id, driver,
                   bus->is_kept ? ", which keeps it for a virtual machine" : "");
}

/* False: there is no such folder. */
static bool read_bus(pci_bus *bus)
{
    char folder[PATH_MAX];
    DIR *devices = opendir(core_probe_path("/sys/bus/pci/devices", folder));
    if (devices == NULL)
        return false;
    for (const struct dirent *entry; (entry = readdir(devices)) != NULL;)
        if (entry->d_name[0] != '.')
            add_device(bus, folder, entry->d_name);
    (void)closedir(devices);
    return true;
}

bool core_probe_card_is_kept(void)
{
    pci_bus bus = { 0 };
    return read_bus(&bus) && bus.is_kept;
}

core_cards core_probe_cards(char text[CORE_PROBE_TEXT])
{
    pci_bus bus = { 0 };
    text[0] = '\0';
    if (!read_bus(&bus) || bus.devices == 0)
        return CORE_CARDS_UNKNOWN;
    if (bus.nvidias > 0) {
        (void)snprintf(text, CORE_PROBE_TEXT, "this machine has %s (%s)",
                       bus.nvidias > 1 ? "NVIDIA GPUs" : "an NVIDIA GPU", bus.first);
        return CORE_CARDS_SOME;
    }
    if (core_probe_speaks_of_one())
        return CORE_CARDS_UNKNOWN;
    const int n = snprintf(text, CORE_PROBE_TEXT,
                           "this machine has no NVIDIA GPU (none of its %d PCI device%s is one)",
                           bus.devices, bus.devices == 1 ? "" : "s");
    if (bus.other != 0)
        (void)snprintf(text + n, CORE_PROBE_TEXT - (size_t)n,
                       "; AMD's %04x:%04x cannot be used: tern runs on CUDA and the CPU", bus.other,
                       bus.other_id);
    return CORE_CARDS_NONE;
}
