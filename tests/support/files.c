/* See files.h. */
#include "tests/support/files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void file_bytes_add(file_bytes *bytes, const void *data, size_t count)
{
    if (count == 0)
        return;
    bytes->data = realloc(bytes->data, bytes->count + count);
    if (!bytes->data)
        abort();
    memcpy(bytes->data + bytes->count, data, count);
    bytes->count += count;
}

void file_bytes_free(file_bytes *bytes)
{
    free(bytes->data);
    *bytes = (file_bytes){ NULL, 0 };
}

file_bytes file_idx(uint8_t type, int ndim, const uint32_t *extents, const void *elements,
                    size_t count)
{
    file_bytes bytes = { NULL, 0 };
    const uint8_t magic[4] = { 0, 0, type, (uint8_t)ndim };
    file_bytes_add(&bytes, magic, sizeof magic);
    for (int d = 0; d < ndim; d++) {
        const uint8_t big[4] = { (uint8_t)(extents[d] >> 24), (uint8_t)(extents[d] >> 16),
                                 (uint8_t)(extents[d] >> 8), (uint8_t)extents[d] };
        file_bytes_add(&bytes, big, sizeof big);
    }
    file_bytes_add(&bytes, elements, count);
    return bytes;
}

static uint32_t crc_of(const uint8_t *data, size_t count)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < count; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void add_little(file_bytes *bytes, uint32_t value, int count)
{
    for (int i = 0; i < count; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));
        file_bytes_add(bytes, &byte, 1);
    }
}

file_bytes file_gzip(const file_bytes *plain)
{
    enum { BLOCK = 65535 };
    file_bytes packed = { NULL, 0 };
    const uint8_t head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255 };
    file_bytes_add(&packed, head, sizeof head);
    size_t at = 0;
    do {
        const size_t left = plain->count - at;
        const uint32_t count = (uint32_t)(left < BLOCK ? left : BLOCK);
        const uint8_t is_last = left <= BLOCK;
        file_bytes_add(&packed, &is_last, 1);
        add_little(&packed, count, 2);
        add_little(&packed, ~count, 2);
        file_bytes_add(&packed, plain->data + at, count);
        at += count;
    } while (at < plain->count);
    add_little(&packed, crc_of(plain->data, plain->count), 4);
    add_little(&packed, (uint32_t)plain->count, 4);
    return packed;
}

static char folder[FILE_PATH_BYTES];

static void remove_tree(const char *name)
{
    DIR *stream = opendir(name);
    for (struct dirent *entry; stream && (entry = readdir(stream)) != NULL;) {
        char path[2 * FILE_PATH_BYTES];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (snprintf(path, sizeof path, "%s/%s", name, entry->d_name) >= (int)sizeof path)
            continue;
        if (unlink(path) != 0)
            remove_tree(path);
    }
    if (stream)
        closedir(stream);
    rmdir(name);
}

static void remove_folder(void)
{
    remove_tree(folder);
}

const char *file_folder(void)
{
    if (folder[0] == '\0') {
        const char *root = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/tern-test-XXXXXX", root ? root : "/tmp");
        if (!mkdtemp(folder))
            abort();
        atexit(remove_folder);
    }
    return folder;
}

const char *file_path(const char *name)
{
    static char path[2 * FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", file_folder(), name);
    return path;
}

const char *file_write(const char *name, file_bytes bytes)
{
    const char *path = file_path(name);
    FILE *stream = fopen(path, "wb");
    if (!stream || fwrite(bytes.data, 1, bytes.count, stream) != bytes.count || fclose(stream) != 0)
        abort();
    file_bytes_free(&bytes);
    return path;
}

file_bytes file_read(const char *path)
{
    file_bytes bytes = { NULL, 0 };
    uint8_t block[4096];
    FILE *stream = fopen(path, "rb");
    if (!stream)
        abort();
    for (size_t got; (got = fread(block, 1, sizeof block, stream)) > 0;)
        file_bytes_add(&bytes, block, got);
    fclose(stream);
    return bytes;
}

const char *file_test_data(const char *below)
{
    static char path[2 * FILE_PATH_BYTES];
    const char *root = getenv("TERN_TEST_DATA");
    const char *source = getenv("TERN_TEST_SOURCE");
    if (root)
        snprintf(path, sizeof path, "%s/%s", root, below);
    else
        snprintf(path, sizeof path, "%s/../shared/data/%s", source ? source : ".", below);
    return access(path, R_OK) == 0 ? path : NULL;
}
