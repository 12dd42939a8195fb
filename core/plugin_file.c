/* See plugin.h. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/plugin.h"

#if defined(__x86_64__)
enum { OWN_MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#else
enum { OWN_MACHINE = EM_NONE }; /* not known here: the loader tells */
#endif

static bool read_head(int file, ElfW(Ehdr) * out_head)
{
    return pread(file, out_head, sizeof *out_head, 0) == (ssize_t)sizeof *out_head &&
           memcmp(out_head->e_ident, ELFMAG, SELFMAG) == 0;
}

static bool is_foreign(int file, char machine[CORE_PLUGIN_MACHINE])
{
    static const struct {
        int number;
        const char *name;
    } names[] = { { EM_X86_64, "x86_64" },   { EM_AARCH64, "aarch64" }, { EM_386, "i386" },
                  { EM_PPC64, "powerpc64" }, { EM_RISCV, "riscv" },     { EM_ARM, "arm" } };
    ElfW(Ehdr) head;
    if (!read_head(file, &head) || OWN_MACHINE == EM_NONE || head.e_machine == OWN_MACHINE)
        return false;
    (void)snprintf(machine, CORE_PLUGIN_MACHINE, "machine %d of ELF", head.e_machine);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == head.e_machine)
            (void)snprintf(machine, CORE_PLUGIN_MACHINE, "%s", names[i].name);
    return true;
}

bool core_plugin_file_is_foreign(const char *path, char machine[CORE_PLUGIN_MACHINE])
{
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const bool foreign = file >= 0 && is_foreign(file, machine);
    if (file >= 0)
        (void)close(file);
    return foreign;
}

/* Up to which byte of the file the loader maps it; 0: it is no object of this machine, which the loader says
 * itself. */
static int64_t mapped_end(int file)
{
    ElfW(Ehdr) head;
    if (!read_head(file, &head) || head.e_phentsize != sizeof(ElfW(Phdr)))
        return 0;
    int64_t end = 0;
    for (int i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) part;
        const int64_t at = (int64_t)head.e_phoff + i * (int64_t)sizeof part;
        if (pread(file, &part, sizeof part, at) != (ssize_t)sizeof part)
            return 0;
        const int64_t part_end = (int64_t)(part.p_offset + part.p_filesz);
        if (part.p_type == PT_LOAD && part_end > end)
            end = part_end;
    }
    return end;
}

/* What lies behind the end of a file is mapped all the same, and ends the process where it is read (SIGBUS). The loader
 * waits at a pipe for somebody to write. */
static bool is_unfit(const char *path, char why[CORE_PLUGIN_WHY])
{
    char machine[CORE_PLUGIN_MACHINE];
    struct stat status;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool is_known = fstat(file, &status) == 0, is_pipe = is_known && S_ISFIFO(status.st_mode);
    const bool is_other = !is_pipe && is_foreign(file, machine);
    const int64_t wanted = is_pipe || is_other ? 0 : mapped_end(file);
    const bool is_cut = is_known && (int64_t)status.st_size < wanted;
    if (is_pipe)
        (void)snprintf(why, CORE_PLUGIN_WHY, "it is a pipe and no library");
    else if (is_other) /* of which the loader says that there is no such file */
        (void)snprintf(why, CORE_PLUGIN_WHY, "it is for another kind of machine: %s", machine);
    else if (is_cut)
        (void)snprintf(why, CORE_PLUGIN_WHY, "the file is cut: it has %lld bytes of at least %lld",
                       (long long)status.st_size, (long long)wanted);
    (void)close(file);
    return is_pipe || is_other || is_cut;
}

void *core_plugin_file_open(const char *path, int mode, char why[CORE_PLUGIN_WHY])
{
    if (is_unfit(path, why))
        return NULL;
    void *handle = dlopen(path, mode);
    if (handle != NULL)
        return handle;
    const char *words = dlerror();
    const size_t n = strlen(path);
    if (words != NULL && strncmp(words, path, n) == 0 && strncmp(words + n, ": ", 2) == 0)
        words += n + 2; /* the path is said by the caller */
    (void)snprintf(why, CORE_PLUGIN_WHY, "%s", words != NULL ? words : "the loader refused it");
    return NULL;
}
