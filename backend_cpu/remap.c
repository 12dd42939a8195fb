/* flip, roll, pad: each dimension's map is at most three pieces in which the input runs forwards,
 * backwards or not at all. The output is written line by line, as it lies; trailing dimensions that stay
 * as they are make one unit that is moved as a whole. */
#include "backend_cpu/caches.h"
#include "backend_cpu/convert.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "tern/op_attr.h"

/* Elements begin .. begin + count - 1 of the output are the input's from, from + step, ... */
typedef struct piece {
    int64_t begin, count, from;
    int step; /* -1, 0, 1 */
    bool value;
} piece;

enum { PIECES = 3, PIECE = 1 << 14, SHORT = 256, LONG_LINE = 2048, BLOCK = 1 << 13 };

typedef struct remap_axis {
    int64_t size, in_stride; /* extent of the output; bytes of the input */
    piece pieces[PIECES];
    int count;
} remap_axis;

typedef struct remap_job {
    remap_axis axes[TERN_MAX_DIMS]; /* as the output lies, the last one without gaps */
    int ndim;
    const char *in;
    char *out;
    int64_t unit; /* bytes that lie together on both sides */
    int64_t size; /* of an element */
    bool stream;
    _Alignas(8) char element[16]; /* what stands outside, again and again */
} remap_job;

/* Where a place outside of 0 .. n - 1 is found, and which way the input runs there. */
static piece outside_piece(int rule, int64_t place, int64_t n)
{
    const bool before = place < 0;
    switch (rule) {
    case TERN_OUTSIDE_REFLECT:
        return (piece){ .from = before ? -place : 2 * (n - 1) - place, .step = -1 };
    case TERN_OUTSIDE_NEAREST:
        return (piece){ .from = before ? 0 : n - 1, .step = 0 };
    case TERN_OUTSIDE_WRAP:
        return (piece){ .from = before ? place + n : place - n, .step = 1 };
    default:
        return (piece){ .value = true };
    }
}

static void add_piece(remap_axis *axis, piece p, int64_t begin, int64_t count)
{
    p.begin = begin;
    p.count = count;
    if (count > 0)
        axis->pieces[axis->count++] = p;
}

static void find_pieces(remap_axis *axis, const tern_attr_remap *attr, int d, int64_t n)
{
    const int64_t size = attr->size[d], start = attr->start[d];
    if (attr->flipped >> d & 1u) {
        add_piece(axis, (piece){ .from = n - 1, .step = -1 }, 0, size);
        return;
    }
    const int64_t left = start >= 0 ? 0 : -start < size ? -start : size;
    const int64_t last = n - start < size ? n - start : size; /* end of what is inside */
    const int64_t right = last > left ? last : left;
    add_piece(axis, outside_piece(attr->outside[d], start, n), 0, left);
    add_piece(axis, (piece){ .from = start + left, .step = 1 }, left, right - left);
    add_piece(axis, outside_piece(attr->outside[d], start + right, n), right, size - right);
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct block16 {
    char bytes[16];
} block16;

/* Short pieces are many: calling memcpy for each would cost more than the copy. `skip` is 0 where the
 * source is a block that repeats. */
static inline void move_bytes(char *to, const char *from, int64_t n, int64_t skip)
{
    block16 b;
    int64_t i = 0;
    if (n >= 16) {
        for (; i + 16 <= n; i += 16) {
            memcpy(&b, from + i * skip, sizeof b);
            memcpy(to + i, &b, sizeof b);
        }
        if (i < n) {
            memcpy(&b, from + (n - 16) * skip, sizeof b);
            memcpy(to + n - 16, &b, sizeof b);
        }
        return;
    }
    if (n & 8)
        memcpy(to, from, 8), i = 8;
    if (n & 4)
        memcpy(to + i, from + i * skip, 4), i += 4;
    if (n & 2)
        memcpy(to + i, from + i * skip, 2), i += 2;
    if (n & 1)
        to[i] = from[i * skip];
}

static void fill(const remap_job *job, char *to, int64_t bytes)
{
    if (bytes <= SHORT)
        move_bytes(to, job->element, bytes, 0);
    else
        cpu_set(to, job->element, job->size, bytes / job->size);
}

/* A part of a line: n units, those of the input `step` bytes apart. */
typedef struct part {
    int64_t to, from, n,
        step; /* bytes from the line's first unit, of the output and of the input */
    bool value;
} part;

/* The same part of `rows` lines. */
typedef struct part_rows {
    char *to;
    const char *from;
    int64_t to_step, from_step, rows;
} part_rows;

static void move_short(const part_rows *r, int64_t bytes, int64_t skip)
{
    char *to = r->to;
    const char *from = r->from;
    for (int64_t i = 0; i < r->rows; i++, to += r->to_step, from += r->from_step)
        if (bytes == 4)
            memcpy(to, from, 4);
        else
            move_bytes(to, from, bytes, skip);
}

static void move_line(const remap_job *job, const part *p, char *to, const char *from)
{
    const int64_t bytes = p->n * job->unit;
    if (p->step == job->unit && job->stream)
        CPU_ISA_PICK(cpu_stream_copy)(to, from, bytes);
    else if (p->step == job->unit)
        memcpy(to, from, (size_t)bytes);
    else if (job->unit == job->size)
        CPU_ISA_PICK(cpu_take_loop)(to, from, p->step, job->size, p->n);
    else
        for (int64_t i = 0; i < p->n; i++)
            memcpy(to + i * job->unit, from + i * p->step, (size_t)job->unit);
}

static void run_part(const remap_job *job, const part *p, part_rows r)
{
    const int64_t bytes = p->n * job->unit;
    if (p->value) {
        r.from = job->element;
        r.from_step = 0;
    }
    if (bytes <= SHORT && (p->value || p->step == job->unit || p->n == 1)) {
        move_short(&r, bytes, p->value ? 0 : 1);
        return;
    }
    for (int64_t i = 0; i < r.rows; i++, r.to += r.to_step, r.from += r.from_step)
        if (p->value)
            fill(job, r.to, bytes);
        else
            move_line(job, p, r.to, r.from);
}

/* The parts of units begin .. end of a line; how many. */
static int find_parts(const remap_job *job, int64_t begin, int64_t end, part *parts)
{
    const remap_axis *last = &job->axes[job->ndim - 1];
    int count = 0;
    for (int i = 0; i < last->count; i++) {
        const piece *p = &last->pieces[i];
        const int64_t first = p->begin > begin ? p->begin : begin;
        const int64_t stop = p->begin + p->count < end ? p->begin + p->count : end;
        if (first < stop)
            parts[count++] =
                (part){ .to = (first - begin) * job->unit,
                        .from = (p->from + (first - p->begin) * p->step) * last->in_stride,
                        .n = stop - first,
                        .step = p->step * last->in_stride,
                        .value = p->value };
    }
    return count;
}

/* The piece that element i of a dimension is in. */
static const piece *piece_of(const remap_axis *axis, int64_t i)
{
    const piece *p = axis->pieces;
    while (i >= p->begin + p->count)
        p++;
    return p;
}

/* Where the input goes on for element i of a dimension; NULL outside. */
static const char *enter(const remap_axis *axis, int64_t i, const char *in)
{
    const piece *p = piece_of(axis, i);
    return in == NULL || p->value ? NULL
                                  : in + (p->from + (i - p->begin) * p->step) * axis->in_stride;
}

/* A place in the output, and where the input is for the dimensions in front of each. */
typedef struct place {
    int64_t at[TERN_MAX_DIMS];
    const char *in[TERN_MAX_DIMS + 1];
} place;

/* Whole lines from a place on, `most` at most, for which the input goes on evenly. */
static int64_t count_lines(const remap_job *job, const place *p, int64_t most)
{
    const int last = job->ndim - 1;
    const int64_t fitting = BLOCK / (job->axes[last].size * job->unit);
    if (p->at[last] != 0 || most < 2 || fitting < 2 || last == 0)
        return 1;
    const piece *lines = piece_of(&job->axes[last - 1], p->at[last - 1]);
    const int64_t left = lines->begin + lines->count - p->at[last - 1];
    most = most < fitting ? most : fitting;
    return left < most ? left : most;
}

/* Units at[last] .. at[last] + n of `lines` lines. */
static void run_lines(const remap_job *job, const place *p, char *to, int64_t n, int64_t lines)
{
    const int last = job->ndim - 1;
    part_rows r = { .to_step = job->axes[last].size * job->unit, .rows = lines };
    if (p->in[last] == NULL) {
        fill(job, to, (lines - 1) * r.to_step + n * job->unit);
        return;
    }
    part parts[PIECES];
    const int count = find_parts(job, p->at[last], p->at[last] + n, parts);
    if (lines > 1)
        r.from_step =
            piece_of(&job->axes[last - 1], p->at[last - 1])->step * job->axes[last - 1].in_stride;
    for (int i = 0; i < count; i++) {
        r.to = to + parts[i].to;
        r.from = p->in[last] + parts[i].from;
        run_part(job, &parts[i], r);
    }
}

/* Units begin .. end of the output. */
static void run_units(void *context, int64_t begin, int64_t end)
{
    const remap_job *job = context;
    const int last = job->ndim - 1;
    const int64_t size = job->axes[last].size;
    int64_t rest = begin;
    place p;
    for (int d = last; d >= 0; d--) {
        p.at[d] = rest % job->axes[d].size;
        rest /= job->axes[d].size;
    }
    p.in[0] = job->in;
    for (int d = 0; begin < end;) {
        for (; d < last; d++)
            p.in[d + 1] = enter(&job->axes[d], p.at[d], p.in[d]);
        const int64_t left = size - p.at[last], n = left < end - begin ? left : end - begin;
        const int64_t lines = count_lines(job, &p, (end - begin) / size);
        run_lines(job, &p, job->out + begin * job->unit, n, lines);
        begin += n + (lines - 1) * size;
        p.at[last] = 0;
        d = last - 1;
        if (d >= 0)
            p.at[d] += lines;
        for (; d > 0 && p.at[d] == job->axes[d].size; d--) {
            p.at[d] = 0;
            p.at[d - 1]++;
        }
        d = d < 0 ? 0 : d;
    }
    if (job->stream)
        cpu_stream_end();
}

/* ---- setting up ------------------------------------------------------------------------------ */

static bool is_whole(const remap_axis *axis)
{
    const piece *p = axis->pieces;
    return axis->count == 1 && !p->value && p->from == 0 && (p->step == 1 || axis->size == 1);
}

static void set_axes(remap_job *job, const tern_call *call, const tern_view *in)
{
    const tern_view *out = call->out[0];
    int order[TERN_MAX_DIMS + 1] = { 0 };
    for (int d = 0; d < out->ndim; d++) { /* extents of 1 first: they lie anywhere */
        int i = d;
        for (; i > 0 && out->shape[order[i - 1]] != 1 &&
               (out->shape[d] == 1 || out->stride[order[i - 1]] < out->stride[d]);
             i--)
            order[i] = order[i - 1];
        order[i] = d;
    }
    for (int i = 0; i < out->ndim; i++) {
        remap_axis *axis = &job->axes[i];
        const int d = order[i];
        *axis = (remap_axis){ .size = out->shape[d], .in_stride = in->stride[d] * job->size };
        find_pieces(axis, call->attr, d, in->shape[d]);
    }
    job->ndim = out->ndim;
    while (job->ndim > 1 && is_whole(&job->axes[job->ndim - 1]) &&
           (job->axes[job->ndim - 1].in_stride == job->unit || job->axes[job->ndim - 1].size == 1))
        job->unit *= job->axes[--job->ndim].size;
    if (job->ndim == 0)
        job->axes[job->ndim++] = (remap_axis){ 1, 0, { { 0, 1, 0, 1, false } }, 1 };
}

/* Lines of a large input that jump from cache line to cache line are put together first. */
static tern_status_t straighten(const tern_call *call, const tern_view **in, tern_view *copy)
{
    enum { LINE = 64, IN_CACHE = 1 << 15 };
    const tern_view *x = *in, *out = call->out[0];
    const int64_t size = cpu_dtype_size(x->dtype);
    const int inner = (out->flags & TERN_VIEW_CONTIGUOUS) != 0 ? x->ndim - 1 : 1;
    if (x->numel * size <= IN_CACHE || x->shape[inner] == 1 || x->stride[inner] * size < LINE)
        return TERN_OK;
    tern_view plain = *x;
    plain.flags = 0;
    *in = copy;
    return cpu_scratch_copy(call, x, &plain, copy);
}

static tern_status_t remap(const tern_call *call)
{
    const tern_view *out = call->out[0], *in = call->in[0];
    const tern_attr_remap *attr = call->attr;
    tern_view copy;
    if (out->numel == 0)
        return TERN_OK;
    const tern_status_t status = straighten(call, &in, &copy);
    if (status != TERN_OK)
        return status;
    remap_job job = { .in = in->data, .out = out->data, .size = cpu_dtype_size(out->dtype) };
    job.unit = job.size;
    const bool whole = attr->value.kind != TERN_NUMBER_FLOAT;
    cpu_converter(out->dtype, whole ? TERN_I64 : TERN_F64)(
        job.element, whole ? (const void *)&attr->value.i : (const void *)&attr->value.f, 1);
    cpu_set(job.element, job.element, job.size, (int64_t)sizeof job.element / job.size);
    set_axes(&job, call, in);
    job.stream = cpu_writes_past(in->numel * job.size, out->numel * job.size) &&
                 job.axes[job.ndim - 1].size * job.unit >= LONG_LINE;
    const int64_t bytes = out->numel * job.size;
    cpu_parallel(cpu_threads(call, 2 * bytes, 0), bytes / job.unit, PIECE / job.unit + 1, run_units,
                 &job);
    return TERN_OK;
}

tern_status_t cpu_flip(const tern_call *call)
{
    return remap(call);
}

tern_status_t cpu_roll(const tern_call *call)
{
    return remap(call);
}

tern_status_t cpu_pad(const tern_call *call)
{
    return remap(call);
}
