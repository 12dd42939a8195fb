#include "data/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/fail.h"

#if TERN_HAVE_ZLIB
#include <zlib.h>
#endif

/* ---- files ----------------------------------------------------------------------------------- */

bool data_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

const char *data_folder_problem(const char *folder, char text[DATA_PROBLEM_BYTES])
{
    struct stat info;
    errno = 0;
    if (stat(folder, &info) == 0 && !S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
    } else if (errno == 0) {
        (void)access(folder, X_OK);
    }
    text[0] = '\0';
    if (errno != 0) {
        (void)snprintf(text, DATA_PROBLEM_BYTES, " (%s)", strerror(errno));
    }
    return text;
}

/* A file that shrinks or grows while it is read is an error, not a short result. */
static bool read_all(FILE *stream, data_file *file, const char *what)
{
    size_t got = fread(file->bytes, 1, file->count, stream);
    if (ferror(stream)) {
        DATA_FAIL(TERN_ERR_IO, what, "'%s': %s", file->path, strerror(errno));
        return false;
    }
    if (got != file->count || fgetc(stream) != EOF) {
        DATA_FAIL(TERN_ERR_IO, what, "'%s' changed its size while it was read", file->path);
        return false;
    }
    return true;
}

static bool read_stream(FILE *stream, data_file *file, const char *what)
{
    struct stat info;
    if (fstat(fileno(stream), &info) != 0) {
        DATA_FAIL(TERN_ERR_IO, what, "'%s': %s", file->path, strerror(errno));
        return false;
    }
    if (!S_ISREG(info.st_mode)) {
        DATA_FAIL(TERN_ERR_IO, what, "'%s' is not a regular file", file->path);
        return false;
    }
    file->count = (size_t)info.st_size;
    file->bytes = malloc(file->count + 1); /* an empty file is no failure */
    if (!file->bytes) {
        DATA_FAIL(TERN_ERR_OOM, what, "no memory for the %zu bytes of '%s'", file->count,
                  file->path);
        return false;
    }
    return read_all(stream, file, what);
}

/* Not waiting for a writer if the path is a pipe, which is refused; programs that are started get no
 * copy of the file. */
static FILE *open_stream(const char *path)
{
    const int number = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *stream = number >= 0 ? fdopen(number, "rb") : NULL;
    if (!stream && number >= 0) {
        const int reason = errno;
        close(number);
        errno = reason;
    }
    return stream;
}

bool data_file_read(data_file *file, const char *what, const char *path)
{
    *file = (data_file){ .path = path };
    FILE *stream = open_stream(path);
    if (!stream) {
        DATA_FAIL(TERN_ERR_IO, what, "'%s': %s", path, strerror(errno));
        return false;
    }
    bool done = read_stream(stream, file, what);
    fclose(stream);
    if (!done) {
        data_file_free(file);
    }
    return done;
}

void data_file_free(data_file *file)
{
    free(file->bytes);
    file->bytes = NULL;
    file->count = 0;
}

/* ---- streams --------------------------------------------------------------------------------- */

static bool is_gzip(const uint8_t *bytes, size_t count)
{
    return count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static size_t read_plain(data_stream *stream, void *out, size_t want)
{
    size_t left = stream->count - stream->at;
    size_t got = want < left ? want : left;
    if (got > 0) {
        memcpy(out, stream->bytes + stream->at, got);
    }
    stream->at += got;
    return got;
}

#if TERN_HAVE_ZLIB

enum { GZIP_WINDOW = 15 + 16, CHUNK_BYTES = 1 << 30 };

static void open_packed(data_stream *stream)
{
    z_stream *z = calloc(1, sizeof *z);
    if (!z || inflateInit2(z, GZIP_WINDOW) != Z_OK) {
        free(z);
        stream->problem = "no memory to unpack it";
        return;
    }
    stream->inflater = z;
}

/* zlib counts in 32 bits, so input is handed over in pieces. */
static void feed(data_stream *stream, z_stream *z)
{
    if (z->avail_in == 0 && stream->at < stream->count) {
        size_t left = stream->count - stream->at;
        z->next_in = (z_const Bytef *)(uintptr_t)(stream->bytes + stream->at);
        z->avail_in = (uInt)(left < CHUNK_BYTES ? left : CHUNK_BYTES);
        stream->at += z->avail_in;
    }
}

/* After the end of a member: true when another one follows; zero padding may. */
static bool next_member(data_stream *stream, z_stream *z)
{
    size_t unread = (size_t)z->avail_in + (stream->count - stream->at);
    const uint8_t *rest = stream->bytes + (stream->count - unread);
    if (is_gzip(rest, unread)) {
        if (inflateReset(z) == Z_OK) {
            return true;
        }
        stream->problem = "gzip: a further part cannot be unpacked";
        return false;
    }
    for (size_t i = 0; i < unread; i++) {
        if (rest[i] != 0) {
            stream->problem = "gzip: something else follows the packed data";
            return false;
        }
    }
    return false;
}

static const char *zlib_problem(int status)
{
    switch (status) {
    case Z_MEM_ERROR:
        return "no memory to unpack it";
    case Z_BUF_ERROR:
        return "gzip: the packed data is cut off";
    default:
        return "gzip: the packed data is corrupt";
    }
}

static size_t read_packed(data_stream *stream, void *out, size_t want)
{
    z_stream *z = stream->inflater;
    size_t got = 0;
    while (got < want && !stream->problem && !stream->ended) {
        size_t piece = want - got < CHUNK_BYTES ? want - got : CHUNK_BYTES;
        feed(stream, z);
        z->next_out = (Bytef *)out + got;
        z->avail_out = (uInt)piece;
        int status = inflate(z, Z_NO_FLUSH);
        got += piece - z->avail_out;
        if (status == Z_STREAM_END) {
            stream->ended = !next_member(stream, z);
        } else if (status != Z_OK) {
            stream->problem = zlib_problem(status);
        }
    }
    return got;
}

static void close_packed(data_stream *stream)
{
    inflateEnd(stream->inflater);
    free(stream->inflater);
    stream->inflater = NULL;
}

#else

static void open_packed(data_stream *stream)
{
    stream->problem =
        "it is packed, and this build of tern is without zlib: unpack it with gzip -d";
}

static size_t read_packed(data_stream *stream, void *out, size_t want)
{
    (void)stream;
    (void)out;
    (void)want;
    return 0;
}

static void close_packed(data_stream *stream)
{
    stream->inflater = NULL;
}

#endif

void data_stream_open(data_stream *stream, const uint8_t *bytes, size_t count)
{
    *stream = (data_stream){ .bytes = bytes, .count = count };
    if (is_gzip(bytes, count)) {
        open_packed(stream);
    }
}

size_t data_stream_read(data_stream *stream, void *out, size_t want)
{
    if (stream->problem) {
        return 0;
    }
    return stream->inflater ? read_packed(stream, out, want) : read_plain(stream, out, want);
}

bool data_stream_ended(data_stream *stream)
{
    uint8_t byte;
    return data_stream_read(stream, &byte, 1) == 0 && !stream->problem;
}

/* deflate packs at best 258 bytes into 2 bits. */
uint64_t data_stream_bound(const data_stream *stream)
{
    return stream->inflater ? (uint64_t)stream->count * 1032 : stream->count;
}

void data_stream_close(data_stream *stream)
{
    if (stream->inflater) {
        close_packed(stream);
    }
}
