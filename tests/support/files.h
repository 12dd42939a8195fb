/* Files for tests: bytes in memory, IDX and gzip made by hand, a folder that is removed at the end. */
#ifndef TESTS_SUPPORT_FILES_H
#define TESTS_SUPPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct file_bytes {
    uint8_t *data;
    size_t count;
} file_bytes;

void file_bytes_add(file_bytes *bytes, const void *data, size_t count);
void file_bytes_free(file_bytes *bytes);

/* An IDX file: a type code, extents, and `count` bytes of elements as they are. */
file_bytes file_idx(uint8_t type, int ndim, const uint32_t *extents, const void *elements,
                    size_t count);
/* The same bytes in one gzip member of stored blocks. */
file_bytes file_gzip(const file_bytes *plain);

enum { FILE_PATH_BYTES = 512 };
/* A folder of this process, made at the first call and removed with its files at exit. */
const char *file_folder(void);
/* Path of a name in the folder; good until the next call. */
const char *file_path(const char *name);
/* Writes bytes to a name in the folder and frees them; the path is good until the next call. */
const char *file_write(const char *name, file_bytes bytes);
/* The bytes of a file; the caller frees them. */
file_bytes file_read(const char *path);
/* Path below TERN_TEST_DATA (or ../shared/data beside the checkout), or NULL when it is not there. */
const char *file_test_data(const char *below);

#endif
