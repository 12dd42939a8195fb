/* What the files of io/ share: names, files, text checks. */
#ifndef TERN_IO_INTERNAL_H
#define TERN_IO_INTERNAL_H

#include <stdio.h>

#include "tern/error.h"
#include "tern/io.h"

/* ---- a set of names: from text to place, without duplicates ----------------------------------- */

typedef struct io_names {
    const char **names; /* in the order in which they came; borrowed */
    int64_t count, capacity;
    int64_t *buckets; /* place + 1, 0 empty; open addressing, size a power of two */
    int64_t bucket_count;
} io_names;

/* Place of a name; -1 when it is not there. */
int64_t io_names_find(const io_names *set, const char *name);
/* Adds a name that is not there yet; its place, -1 without memory. The text must outlive the set. */
int64_t io_names_add(io_names *set, const char *name);
/* Those behind it move up. */
void io_names_remove(io_names *set, int64_t place);
void io_names_clear(io_names *set);

/* Is it UTF-8 (no overlong forms, no surrogates) without a NUL? */
bool io_is_utf8(const unsigned char *text, size_t bytes);
/* A copy of a text; NULL, with an error, without memory. */
char *io_copy_text(tern_site_t site, const char *what, const char *text);

/* What errors of the files name: the public function that the program called, where it is known, else `what`. */
const char *io_called(const char *what);

/* ---- files ------------------------------------------------------------------------------------ */

/* What bytes are read from: a file, or memory of the caller's. */
typedef struct io_source {
    int file;         /* -1: memory */
    const char *data; /* memory */
    int64_t bytes;
    char *name; /* for messages */
} io_source;
bool io_source_open(tern_site_t site, io_source *source, const char *path);
bool io_source_read(tern_site_t site, const io_source *source, int64_t offset, void *out,
                    int64_t bytes);
void io_source_close(io_source *source);

#endif
