/* Bytes of a file in memory, read in order, unpacked on the way when gzip packed them. Nothing here
 * knows tensors, so that readers and fuzzers share it. */
#ifndef DATA_BYTES_H
#define DATA_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file's content, owned. */
typedef struct data_file {
    const char *path;
    uint8_t *bytes;
    size_t count;
} data_file;

/* Reads a regular file whole. False after recording an error that names `path`; then nothing is
 * held. `path` is borrowed and must outlive the file. */
bool data_file_read(data_file *file, const char *what, const char *path);
void data_file_free(data_file *file);
enum { DATA_PROBLEM_BYTES = 128 };

/* True when a regular file of that name can be seen. */
bool data_file_exists(const char *path);
/* " (Permission denied)" and the like, when the folder itself is why nothing is found in it; else "". */
const char *data_folder_problem(const char *folder, char text[DATA_PROBLEM_BYTES]);

typedef struct data_stream {
    const uint8_t *bytes;
    size_t count;
    size_t at;           /* plain bytes taken so far */
    void *inflater;      /* z_stream of a packed stream, else NULL */
    bool ended;          /* the last packed part was taken and checked */
    const char *problem; /* why the stream ended early; NULL while all is well */
} data_stream;

/* Opens borrowed bytes; a gzip header makes the stream unpack. `problem` says what failed. */
void data_stream_open(data_stream *stream, const uint8_t *bytes, size_t count);
/* Copies up to `want` bytes; fewer only at the end or when `problem` is set. */
size_t data_stream_read(data_stream *stream, void *out, size_t want);
/* True at a sound end: everything was taken, and gzip's own checks passed. Takes a byte if there is
 * one, so ask it last. */
bool data_stream_ended(data_stream *stream);
/* The most bytes that the whole stream can give: what a header claims beyond it is a lie, found
 * before memory is asked for. */
uint64_t data_stream_bound(const data_stream *stream);
void data_stream_close(data_stream *stream);

#endif
