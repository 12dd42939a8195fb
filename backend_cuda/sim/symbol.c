/* Names of functions from the symbol table of the file that holds them: kernels are hidden, so that
 * dladdr does not know them. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend_cuda/sim/sim.h"

typedef struct image {
    struct image *next;
    uintptr_t base;
    const char *bytes;
    const ElfW(Sym) * symbols;
    size_t count;
    const char *names;
} image;

static image *images;

static const char *map_file(const char *path, size_t *out_bytes)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (file < 0)
        return NULL;
    const char *bytes = NULL;
    if (fstat(file, &info) == 0 && info.st_size > (off_t)sizeof(ElfW(Ehdr))) {
        void *mapped = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        bytes = mapped != MAP_FAILED ? mapped : NULL;
        *out_bytes = (size_t)info.st_size;
    }
    (void)close(file);
    return bytes;
}

static void find_table(image *found, size_t bytes)
{
    const ElfW(Ehdr) *head = (const void *)found->bytes;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shoff + (size_t)head->e_shnum * sizeof(ElfW(Shdr)) > bytes)
        return;
    const ElfW(Shdr) *sections = (const void *)(found->bytes + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB) {
            found->symbols = (const void *)(found->bytes + sections[i].sh_offset);
            found->count = sections[i].sh_size / sizeof(ElfW(Sym));
            found->names = found->bytes + sections[sections[i].sh_link].sh_offset;
        }
}

static const image *image_of(const Dl_info *info)
{
    const uintptr_t base = (uintptr_t)info->dli_fbase;
    for (const image *i = images; i != NULL; i = i->next)
        if (i->base == base)
            return i;
    image *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return NULL;
    fresh->base = base;
    size_t bytes = 0;
    fresh->bytes = map_file(info->dli_fname, &bytes);
    if (fresh->bytes == NULL)
        fresh->bytes = map_file("/proc/self/exe", &bytes);
    if (fresh->bytes != NULL)
        find_table(fresh, bytes);
    fresh->next = images;
    images = fresh;
    return fresh;
}

/* The raw name of the function that holds the address, or NULL. */
static const char *raw_name(uintptr_t address, uintptr_t *out_start)
{
    Dl_info info;
    if (dladdr((void *)address, &info) == 0)
        return NULL;
    const image *in = image_of(&info);
    if (in == NULL || in->symbols == NULL)
        return NULL;
    const bool fixed = ((const ElfW(Ehdr) *)(const void *)in->bytes)->e_type == ET_EXEC;
    const uintptr_t wanted = fixed ? address : address - in->base;
    for (size_t i = 0; i < in->count; i++) {
        const ElfW(Sym) *s = &in->symbols[i];
        if ((s->st_info & 0xF) == STT_FUNC && wanted >= s->st_value &&
            wanted < s->st_value + s->st_size) {
            *out_start = address - (wanted - s->st_value);
            return in->names + s->st_name;
        }
    }
    return NULL;
}

/* The last plain name in a mangled one: _ZN12_GLOBAL__N_15k_addIfEEvPT_ gives k_add. */
static void plain_name(const char *raw, char *text, size_t size)
{
    (void)snprintf(text, size, "%s", raw);
    if (strncmp(raw, "_Z", 2) != 0)
        return;
    const char *at = raw + 2;
    at += *at == 'N' || *at == 'L';
    at += *at == 'L';
    while (isdigit((unsigned char)*at)) {
        char *end;
        const long length = strtol(at, &end, 10);
        if (length <= 0 || (size_t)length > strlen(end))
            return;
        (void)snprintf(text, size, "%.*s", (int)length, end);
        at = end + length;
        at += *at == 'L';
    }
}

const char *sim_symbol(const void *function)
{
    typedef struct known {
        struct known *next;
        const void *function;
        char name[96];
    } known;
    enum { LISTS = 1024 }; /* about as many as there are kernels: each launch asks */
    static known *lists[LISTS];
    known **list = &lists[(uintptr_t)function / 16 % LISTS];
    for (const known *k = *list; k != NULL; k = k->next)
        if (k->function == function)
            return k->name;
    known *fresh = calloc(1, sizeof *fresh);
    if (fresh == NULL)
        return "a kernel";
    uintptr_t start = 0;
    const char *raw = raw_name((uintptr_t)function, &start);
    fresh->function = function;
    if (raw != NULL)
        plain_name(raw, fresh->name, sizeof fresh->name);
    else
        sim_place(function, fresh->name, sizeof fresh->name);
    fresh->next = *list;
    *list = fresh;
    return fresh->name;
}

void sim_place(const void *address, char *text, size_t size)
{
    Dl_info info;
    uintptr_t start = 0;
    char name[96];
    const char *raw = raw_name((uintptr_t)address, &start);
    if (raw != NULL) {
        plain_name(raw, name, sizeof name);
        (void)snprintf(text, size, "%s+0x%zx", name, (size_t)((uintptr_t)address - start));
    } else if (dladdr(address, &info) != 0) {
        const char *slash = strrchr(info.dli_fname, '/');
        (void)snprintf(text, size, "%s+0x%zx", slash != NULL ? slash + 1 : info.dli_fname,
                       (size_t)((uintptr_t)address - (uintptr_t)info.dli_fbase));
    } else {
        (void)snprintf(text, size, "?");
    }
}
