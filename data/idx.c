#include "data/idx.h"

#include "data/bytes.h"
#include "data/fail.h"
#include "data/scope.h"
#include "tern/data.h"

static const char what[] = "idx_read";

typedef struct idx_header {
    tern_dtype_t dtype;
    tern_shape_t shape;
    uint64_t bytes; /* of the elements */
} idx_header;

static tern_dtype_t dtype_of(uint8_t code)
{
    switch (code) {
    case 0x08:
        return TERN_U8;
    case 0x09:
        return TERN_I8;
    case 0x0b:
        return TERN_I16;
    case 0x0c:
        return TERN_I32;
    case 0x0d:
        return TERN_F32;
    case 0x0e:
        return TERN_F64;
    default:
        return TERN_DTYPE_NONE;
    }
}

static bool read_magic(const char *name, data_stream *stream, idx_header *header)
{
    uint8_t magic[4];
    if (data_stream_read(stream, magic, sizeof magic) != sizeof magic) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': %s", name,
                  stream->problem ? stream->problem : "too short for an IDX file");
        return false;
    }
    if (magic[0] != 0 || magic[1] != 0) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s' is no IDX file: it begins with %02x %02x, not 00 00",
                  name, magic[0], magic[1]);
        return false;
    }
    header->dtype = dtype_of(magic[2]);
    if (header->dtype == TERN_DTYPE_NONE) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': element type 0x%02x is none of IDX's", name,
                  magic[2]);
        return false;
    }
    if (magic[3] < 1 || magic[3] > TERN_MAX_DIMS) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s' has %d dimensions; 1 to %d can be read", name,
                  magic[3], TERN_MAX_DIMS);
        return false;
    }
    header->shape = (tern_shape_t){ .set_ = TERN_GIVEN_, .ndim = magic[3] };
    return true;
}

static bool read_extents(const char *name, data_stream *stream, idx_header *header)
{
    uint8_t extents[4 * TERN_MAX_DIMS];
    size_t want = 4 * (size_t)header->shape.ndim;
    if (data_stream_read(stream, extents, want) != want) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': %s", name,
                  stream->problem ? stream->problem : "cut off in its header");
        return false;
    }
    /* Strides must not overflow either, so an extent of 0 counts as 1 until the end. */
    header->bytes = (uint64_t)tern_dtype_size(header->dtype);
    bool fits = true;
    bool is_empty = false;
    for (int d = 0; d < header->shape.ndim; d++) {
        const uint8_t *e = extents + 4 * d;
        uint32_t extent = (uint32_t)e[0] << 24 | (uint32_t)e[1] << 16 | (uint32_t)e[2] << 8 | e[3];
        header->shape.dims[d] = extent;
        is_empty = is_empty || extent == 0;
        fits = fits && !__builtin_mul_overflow(header->bytes, extent ? extent : 1, &header->bytes);
    }
    if (!fits || header->bytes > INT64_MAX) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': its extents overflow a size", name);
        return false;
    }
    if (is_empty) {
        header->bytes = 0;
    }
    if (header->bytes > data_stream_bound(stream)) {
        DATA_FAIL(TERN_ERR_FORMAT, what,
                  "'%s': its header promises %llu bytes, which its %zu bytes cannot hold\n"
                  "  try to fetch it again: it was cut short, or is no IDX file",
                  name, (unsigned long long)header->bytes, stream->count);
        return false;
    }
    return true;
}

static void swap_bytes(uint8_t *bytes, uint64_t count, int64_t size)
{
    for (uint64_t at = 0; at < count; at += (uint64_t)size) {
        for (int64_t i = 0, j = size - 1; i < j; i++, j--) {
            uint8_t kept = bytes[at + (uint64_t)i];
            bytes[at + (uint64_t)i] = bytes[at + (uint64_t)j];
            bytes[at + (uint64_t)j] = kept;
        }
    }
}

static bool is_little_endian(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one == 1;
}

static bool read_elements(const char *name, data_stream *stream, const idx_header *header,
                          uint8_t *out)
{
    size_t got = data_stream_read(stream, out, (size_t)header->bytes);
    if (got != header->bytes) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': %s: %zu of %llu bytes are there", name,
                  stream->problem ? stream->problem : "cut off", got,
                  (unsigned long long)header->bytes);
        return false;
    }
    if (!data_stream_ended(stream)) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': %s", name,
                  stream->problem ? stream->problem : "longer than its header says");
        return false;
    }
    int64_t size = tern_dtype_size(header->dtype);
    if (size > 1 && is_little_endian()) {
        swap_bytes(out, header->bytes, size);
    }
    return true;
}

static tern_tensor *read_stream(const char *name, data_stream *stream)
{
    idx_header header;
    if (!read_magic(name, stream, &header) || !read_extents(name, stream, &header)) {
        return NULL;
    }
    data_scope scope = data_scope_begin();
    tern_tensor *t = tern_empty(header.shape, .dtype = header.dtype, .device = TERN_CPU);
    /* An array without elements has no memory to read into, yet its end is checked. */
    uint8_t nothing;
    uint8_t *out = t && header.bytes > 0 ? tern_data(t) : &nothing;
    const bool done = t && out && read_elements(name, stream, &header, out);
    return data_scope_end_with(&scope, done ? t : NULL);
}

tern_tensor *data_idx_from_bytes(const char *name, const uint8_t *bytes, size_t count)
{
    data_stream stream;
    data_stream_open(&stream, bytes, count);
    tern_tensor *t = read_stream(name, &stream);
    data_stream_close(&stream);
    return t;
}

tern_tensor *data_idx_from_file(const char *path)
{
    data_file file;
    if (!data_file_read(&file, what, path)) {
        return NULL;
    }
    tern_tensor *t = data_idx_from_bytes(path, file.bytes, file.count);
    data_file_free(&file);
    return t;
}

tern_tensor *tern_idx_read_at(tern_site_t site, const char *path)
{
    if (tern_failed()) {
        return NULL;
    }
    if (!path) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "path is NULL");
        return NULL;
    }
    tern_site_t previous = tern_site_begin(site);
    const char *outer = tern_calling_begin(what);
    tern_tensor *t = data_idx_from_file(path);
    tern_calling_end(outer);
    tern_site_end(previous);
    return t;
}
