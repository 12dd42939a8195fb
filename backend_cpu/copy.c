/* copy: out[i] = (dtype of out) in[i], any strides on both sides; fill.
 *
 * Layouts that agree are one linear range. Rows without gaps on both sides go row by row. Where the
 * two sides run along different dimensions (transposes, channels_last to contiguous) 64 x 64 tiles
 * are transposed in registers. Anything else is packed into blocks. Bytes moved: one read and one
 * write of each element. `in` may overlap `out`: then it is copied first. */
#include <stdlib.h>

#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "backend_cpu/transpose.h"
#include "tern/op_attr.h"

enum {
    DIRECT_BYTES = 1 << 14, /* up to here setting up anything costs more than the copy */
    SHORT_ROW = 4,          /* elements */
    SHORT_SET = 8,          /* of one that is repeated */
    TILE = 64, /* elements along both sides; a tile of f64 and its target fill 64 KiB */
    PIECE = 4096
};

typedef struct job {
    cpu_convert_fn convert;
    bool same; /* dtype */
    bool stream;
    int64_t out_size, in_size;
    cpu_walk walk;
    int crosswise;            /* dimension along which the input runs */
    int64_t tiles_i, tiles_j; /* along dim 0, along `crosswise` */
} job;

/* ---- ranges without gaps --------------------------------------------------------------------- */

static inline void copy_row(const job *j, char *out, const char *in, int64_t n)
{
    if (j->same && !j->stream) {
        memcpy(out, in, (size_t)(n * j->out_size));
        return;
    }
    if (!j->stream) {
        j->convert(out, in, n);
        return;
    }
    if (j->same) {
        CPU_ISA_PICK(cpu_stream_copy)(out, in, n * j->out_size);
        return;
    }
    _Alignas(64) char buffer[CPU_BLOCK * 8];
    for (int64_t i = 0; i < n; i += CPU_BLOCK) {
        const int64_t count = n - i < CPU_BLOCK ? n - i : CPU_BLOCK;
        j->convert(buffer, in + i * j->in_size, count);
        CPU_ISA_PICK(cpu_stream_copy)(out + i * j->out_size, buffer, count * j->out_size);
    }
}

static void copy_linear(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    copy_row(j, j->walk.data[0] + begin * j->out_size, j->walk.data[1] + begin * j->in_size,
             end - begin);
    if (j->stream)
        cpu_stream_end();
}

static void copy_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    while (begin < end) {
        const int64_t left = j->walk.shape[0] - cursor.at[0];
        const int64_t n = left < end - begin ? left : end - begin;
        if (j->walk.stride[1][0] == 0) {
            char element[8];
            j->convert(element, cursor.data[1], 1);
            cpu_set(cursor.data[0], element, j->out_size, n);
        } else {
            copy_row(j, cursor.data[0], cursor.data[1], n);
        }
        cpu_cursor_next_row(&cursor);
        begin += n;
    }
    if (j->stream)
        cpu_stream_end();
}

static void copy_packed(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    _Alignas(64) char packed[CPU_BLOCK * 8], converted[CPU_BLOCK * 8];
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        const char *in = cpu_pack(&cursor, 1, j->in_size, n, packed);
        if (!j->same) {
            j->convert(converted, in, n);
            in = converted;
        }
        cpu_unpack(&cursor, 0, j->out_size, n, in);
        cpu_cursor_advance(&cursor, n);
    }
}

/* ---- transposing ----------------------------------------------------------------------------- */

typedef struct tile {
    char *out;
    const char *in;
    int64_t ni, nj;
} tile;

/* Tile `index`: along dim 0 they run fastest, then along `crosswise`, then outer elements. */
static tile find_tile(const job *j, int64_t index)
{
    const cpu_walk *walk = &j->walk;
    const int64_t i = index % j->tiles_i * TILE;
    index /= j->tiles_i;
    const int64_t k = index % j->tiles_j * TILE;
    index /= j->tiles_j;
    tile t = { walk->data[0] + i * walk->stride[0][0] + k * walk->stride[0][j->crosswise],
               walk->data[1] + i * walk->stride[1][0] + k * walk->stride[1][j->crosswise],
               walk->shape[0] - i, walk->shape[j->crosswise] - k };
    t.ni = t.ni < TILE ? t.ni : TILE;
    t.nj = t.nj < TILE ? t.nj : TILE;
    for (int d = 1; d < walk->ndim; d++) {
        if (d == j->crosswise)
            continue;
        const int64_t at = index % walk->shape[d];
        index /= walk->shape[d];
        t.out += at * walk->stride[0][d];
        t.in += at * walk->stride[1][d];
    }
    return t;
}

static void copy_tiles(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const int64_t out_stride = j->walk.stride[0][j->crosswise], in_stride = j->walk.stride[1][0];
    _Alignas(64) char buffer[TILE * TILE * 8];
    for (; begin < end; begin++) {
        const tile t = find_tile(j, begin);
        if (j->same) {
            cpu_transpose(t.out, out_stride, t.in, in_stride, t.ni, t.nj, j->in_size);
            continue;
        }
        cpu_transpose(buffer, TILE * j->in_size, t.in, in_stride, t.ni, t.nj, j->in_size);
        for (int64_t k = 0; k < t.nj; k++)
            j->convert(t.out + k * out_stride, buffer + k * TILE * j->in_size, t.ni);
    }
}

/* Both sides have a dimension without gaps, but not the same one. */
static bool find_crosswise(job *j)
{
    const cpu_walk *walk = &j->walk;
    if (walk->stride[0][0] != j->out_size)
        return false;
    for (int d = 1; d < walk->ndim; d++) {
        if (walk->stride[1][d] == j->in_size) {
            j->crosswise = d;
            j->tiles_i = (walk->shape[0] + TILE - 1) / TILE;
            j->tiles_j = (walk->shape[d] + TILE - 1) / TILE;
            return true;
        }
    }
    return false;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static int64_t count_tiles(const job *j)
{
    int64_t count = j->tiles_i * j->tiles_j;
    for (int d = 1; d < j->walk.ndim; d++)
        count *= d == j->crosswise ? 1 : j->walk.shape[d];
    return count;
}

void cpu_copy_views(const tern_view *out, const tern_view *in, const tern_call *call)
{
    const int64_t n = out->numel;
    job j = { .convert = cpu_converter(out->dtype, in->dtype),
              .same = out->dtype == in->dtype,
              .out_size = cpu_dtype_size(out->dtype),
              .in_size = cpu_dtype_size(in->dtype) };
    const int64_t bytes = n * (j.out_size + j.in_size);
    const int threads = cpu_threads(call, bytes, 0);
    j.stream = cpu_writes_past(n * j.in_size, n * j.out_size);
    if (in->numel == n && cpu_same_layout(out, in)) {
        j.walk.data[0] = out->data;
        j.walk.data[1] = in->data;
        cpu_parallel(threads, n, PIECE, copy_linear, &j);
        return;
    }
    const tern_view *const views[2] = { out, in };
    cpu_walk_init(&j.walk, 2, views);
    const int64_t in_stride = j.walk.stride[1][0];
    if (j.walk.stride[0][0] == j.out_size && (in_stride == j.in_size || in_stride == 0) &&
        j.walk.shape[0] >= (in_stride == 0 ? SHORT_SET : SHORT_ROW))
        cpu_parallel(threads, n, PIECE, copy_rows, &j);
    else if (find_crosswise(&j))
        cpu_parallel(threads, count_tiles(&j), 1, copy_tiles, &j);
    else
        cpu_parallel(threads, n, CPU_BLOCK, copy_packed, &j);
}

static __attribute__((noinline)) tern_status_t copy_general(const tern_call *call)
{
    const tern_view *out = call->out[0], *in = call->in[0];
    if (out->numel == 0)
        return TERN_OK;
    tern_view copy;
    if (cpu_spans_overlap(out, in)) {
        if (out->data == in->data && out->dtype == in->dtype && out->numel == in->numel &&
            cpu_same_strides(out, in))
            return TERN_OK;
        const tern_status_t status = cpu_scratch_copy(call, in, out, &copy);
        if (status != TERN_OK)
            return status;
        in = &copy;
    }
    cpu_copy_views(out, in, call);
    return TERN_OK;
}

tern_status_t cpu_copy(const tern_call *call)
{
    const tern_view *out = call->out[0], *in = call->in[0];
    const int64_t n = out->numel;
    const bool plain = (out->flags & in->flags & TERN_VIEW_CONTIGUOUS) != 0 && in->numel == n &&
                       (uint64_t)(n - 1) < DIRECT_BYTES / 8;
    const uintptr_t apart = (uintptr_t)out->data - (uintptr_t)in->data;
    if (!plain || apart < DIRECT_BYTES || -apart < DIRECT_BYTES)
        return copy_general(call);
    cpu_converter(out->dtype, in->dtype)(out->data, in->data, n);
    return TERN_OK;
}

/* ---- fill ------------------------------------------------------------------------------------ */

static void fill_linear(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    char *out = j->walk.data[0];
    if (!j->stream) {
        cpu_set(out + begin * j->out_size, j->walk.data[1], j->out_size, end - begin);
        return;
    }
    _Alignas(64) char block[CPU_BLOCK * 8];
    cpu_set(block, j->walk.data[1], j->out_size, CPU_BLOCK);
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        CPU_ISA_PICK(cpu_stream_copy)(out + begin * j->out_size, block, n * j->out_size);
    }
    cpu_stream_end();
}

tern_status_t cpu_fill(const tern_call *call)
{
    const tern_attr_fill *attr = call->attr;
    const tern_view *out = call->out[0];
    const int64_t n = out->numel, size = cpu_dtype_size(out->dtype);
    const bool exact = attr->value.kind != TERN_NUMBER_FLOAT;
    char element[8];
    cpu_converter(out->dtype, exact ? TERN_I64 : TERN_F64)(
        element, exact ? (const void *)&attr->value.i : (const void *)&attr->value.f, 1);
    if ((out->flags & (TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE)) == 0) {
        const tern_view value = { .data = element,
                                  .numel = 1,
                                  .dtype = out->dtype,
                                  .flags = TERN_VIEW_CONTIGUOUS | TERN_VIEW_DENSE };
        if (n > 0)
            cpu_copy_views(out, &value, call);
        return TERN_OK;
    }
    if (n * size <= DIRECT_BYTES) {
        cpu_set(out->data, element, size, n);
        return TERN_OK;
    }
    job j = { .out_size = size, .stream = cpu_writes_past(0, n * size) };
    j.walk.data[0] = out->data;
    j.walk.data[1] = element;
    cpu_parallel(cpu_threads(call, n * size, 0), n, CPU_BLOCK, fill_linear, &j);
    return TERN_OK;
}
