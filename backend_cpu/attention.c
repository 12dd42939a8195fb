/* Attention by blocks of queries and keys: scores of a block are made by the own matrix product, weighed
 * (isa/attention.c) and multiplied with the values while they are in the second-level cache. Half types
 * are widened by block and computed in f32. */
#include "backend_cpu/attention.h"

#include <math.h>

#include "backend_cpu/gemm.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"
#include "tern/op_attr.h"

enum {
    QUERIES = 64, /* of a block */
    KEYS = 128,
    ROW_ALIGN = 16, /* rows of blocks end on whole vectors */
    PARTS = 4       /* per thread */
};

typedef struct attention_job {
    const tern_view *q, *k, *v, *mask, *grad, *y, *lse;
    const tern_view *out[3]; /* forward: y, lse; backward: of q, k, v */
    const tern_attr_attention *attr;
    int dtype, stat;         /* of the operands; computed in */
    int64_t size, stat_size; /* bytes */
    int64_t heads, groups, t, s, d, e;
    int64_t queries, keys, ld; /* of a block */
    int64_t blocks;            /* of queries */
    int32_t least;             /* of a uniform to stay */
    int64_t units, parts, part_bytes;
    char *scratch;
} attention_job;

/* Scratch of one part, cut off in order. */
typedef struct attention_room {
    char *base; /* NULL: only `used` is asked for */
    int64_t used;
    char *scores, *slopes, *bias, *q, *k, *v, *y, *grad, *grad_q, *grad_k, *grad_v;
    char *largest, *sum, *factor, *delta;
    uint8_t *keep;
    void *piece;
} attention_room;

/* Rows of adjacent elements of type `stat`. */
typedef struct attention_block {
    char *data;
    int64_t row;
} attention_block;

/* ---- scratch ---------------------------------------------------------------------------------- */

static char *cut(attention_room *room, int64_t bytes)
{
    char *start = room->base != NULL ? room->base + room->used : NULL;
    room->used += (bytes + 63) / 64 * 64;
    return start;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of scratch, for any product of at most n columns and depth k. */
static int64_t piece_elements(int64_t n, int64_t k)
{
    const int64_t columns = (n + CPU_GEMM_ALIGN - 1) / CPU_GEMM_ALIGN * CPU_GEMM_ALIGN;
    const bool is_cut = columns > CPU_GEMM_NC || k > CPU_GEMM_KC;
    return (is_cut ? CPU_GEMM_KC : k) *
               ((is_cut ? CPU_GEMM_NC + CPU_GEMM_ALIGN : columns) + CPU_GEMM_STRIP) +
           16;
}

static int64_t piece_bytes(const attention_job *job)
{
    const int64_t features = larger(job->d, job->e);
    const int64_t rows = larger(job->queries, job->keys);
    return larger(piece_elements(rows, features), piece_elements(features, rows)) * job->stat_size;
}

static attention_room room_at(const attention_job *job, char *base, bool backward)
{
    attention_room room = { .base = base };
    const int64_t block = job->queries * job->ld, size = job->stat_size;
    const bool widens = job->dtype != job->stat;
    room.scores = cut(&room, block * size);
    room.slopes = backward ? cut(&room, block * size) : NULL;
    room.bias = job->mask != NULL ? cut(&room, block * size) : NULL;
    room.keep = job->attr->p > 0 ? (uint8_t *)cut(&room, block) : NULL;
    room.largest = cut(&room, job->queries * size);
    room.sum = cut(&room, job->queries * size);
    room.factor = cut(&room, job->queries * size);
    room.delta = backward ? cut(&room, job->heads / job->groups * job->t * size) : NULL;
    room.q = widens ? cut(&room, job->queries * job->d * size) : NULL;
    room.k = widens ? cut(&room, job->keys * job->d * size) : NULL;
    room.v = widens ? cut(&room, job->keys * job->e * size) : NULL;
    room.y = widens ? cut(&room, job->queries * job->e * size) : NULL;
    room.grad = widens && backward ? cut(&room, job->queries * job->e * size) : NULL;
    room.grad_q =
        widens && backward ? cut(&room, job->heads / job->groups * job->t * job->d * size) : NULL;
    room.grad_k = widens && backward ? cut(&room, job->keys * job->d * size) : NULL;
    room.grad_v = widens && backward ? cut(&room, job->keys * job->e * size) : NULL;
    room.piece = cut(&room, piece_bytes(job));
    return room;
}

/* ---- operands --------------------------------------------------------------------------------- */

static char *row_of(const tern_view *v, int64_t size, int64_t b, int64_t h, int64_t first)
{
    return (char *)v->data + (b * v->stride[0] + h * v->stride[1] + first * v->stride[2]) * size;
}

/* Rows first .. first + count of a head, widened into `room` where they are of a half type. */
static attention_block block_of(const attention_job *job, const tern_view *v, int64_t b, int64_t h,
                                int64_t first, int64_t count, char *room)
{
    char *data = row_of(v, job->size, b, h, first);
    if (job->dtype == job->stat)
        return (attention_block){ data, v->stride[2] };
    const int64_t columns = v->shape[3];
    for (int64_t r = 0; r < count; r++)
        cpu_to_f32((float *)(void *)room + r * columns, data + r * v->stride[2] * job->size,
                   job->dtype, columns);
    return (attention_block){ room, columns };
}

/* Where results are summed up: their own memory, or f32 that `put` rounds. */
static attention_block target_of(const attention_job *job, const tern_view *v, int64_t b, int64_t h,
                                 int64_t first, char *room)
{
    if (job->dtype == job->stat)
        return (attention_block){ row_of(v, job->size, b, h, first), v->stride[2] };
    return (attention_block){ room, v->shape[3] };
}

static void put(const attention_job *job, const tern_view *v, int64_t b, int64_t h, int64_t first,
                int64_t count, attention_block from)
{
    if (job->dtype == job->stat)
        return;
    for (int64_t r = 0; r < count; r++)
        cpu_from_f32(row_of(v, job->size, b, h, first + r), job->dtype,
                     (const float *)(void *)from.data + r * from.row, v->shape[3]);
}

/* ---- masks ------------------------------------------------------------------------------------ */

typedef struct attention_place {
    int64_t b, h;        /* head of q */
    int64_t q0, q_count; /* queries */
    int64_t k0, k_count; /* keys */
} attention_place;

static double mask_at(const attention_job *job, const char *at)
{
    switch (job->mask->dtype) {
    case TERN_BOOL:
        return *(const uint8_t *)at != 0 ? 0 : -INFINITY;
    case TERN_F64:
        return *(const double *)(const void *)at;
    case TERN_F32:
        return (double)*(const float *)(const void *)at;
    default: {
        float wide;
        cpu_to_f32(&wide, at, job->mask->dtype, 1);
        return (double)wide;
    }
    }
}

static void fill_bias(const attention_job *job, const attention_place *p, char *bias)
{
    const tern_view *mask = job->mask;
    const int64_t size = cpu_dtype_size(mask->dtype);
    for (int64_t r = 0; r < p->q_count; r++) {
        const char *row =
            row_of(mask, size, p->b, p->h, p->q0 + r) + p->k0 * mask->stride[3] * size;
        for (int64_t i = 0; i < p->k_count; i++)
            cpu_stat_set(bias, job->stat, r * job->ld + i,
                         mask_at(job, row + i * mask->stride[3] * size));
    }
}

/* The mask of a dropout of all weights, of which these are some. */
static void fill_keep(const attention_job *job, const attention_place *p, uint8_t *keep)
{
    uint8_t drawn[KEYS + 2 * CPU_DROPOUT_GRAIN];
    for (int64_t r = 0; r < p->q_count; r++) {
        const int64_t row = (p->b * job->heads + p->h) * job->t + p->q0 + r;
        const int64_t first = row * job->s + p->k0, before = first % CPU_DROPOUT_GRAIN;
        CPU_ISA_PICK(cpu_dropout_mask)
        (drawn, job->attr->seed, job->attr->call, first - before, before + p->k_count, job->least);
        memcpy(keep + r * job->ld, drawn + before, (size_t)p->k_count);
    }
}

static cpu_attention_rows rows_of(const attention_job *job, const attention_place *p,
                                  attention_room *room)
{
    cpu_attention_rows rows = { .rows = p->q_count,
                                .columns = p->k_count,
                                .ld = job->ld,
                                .seen = job->attr->causal ? p->q0 + 1 - p->k0 : p->k_count,
                                .scale = job->attr->scale,
                                .scores = room->scores,
                                .bias = room->bias,
                                .keep = room->keep,
                                .keep_scale = job->attr->p < 1 ? 1 / (1 - job->attr->p) : 0,
                                .largest = room->largest,
                                .sum = room->sum,
                                .factor = room->factor,
                                .grad = room->slopes };
    if (room->bias != NULL)
        fill_bias(job, p, room->bias);
    if (room->keep != NULL)
        fill_keep(job, p, room->keep);
    return rows;
}

/* ---- products --------------------------------------------------------------------------------- */

static void multiply(const attention_job *job, cpu_product g, void *piece)
{
    g.by_dots = cpu_product_prefers_dots(&g);
    cpu_product_alone(job->stat, &g, piece);
}

/* out [queries, keys] = x y^T */
static void scores_of(const attention_job *job, const attention_place *p, attention_block x,
                      attention_block y, int64_t depth, char *out, void *piece)
{
    multiply(job,
             (cpu_product){ .m = p->q_count,
                            .n = p->k_count,
                            .k = depth,
                            .a = x.data,
                            .b = y.data,
                            .c = out,
                            .a_row = x.row,
                            .a_col = 1,
                            .b_row = 1,
                            .b_col = y.row,
                            .c_row = job->ld },
             piece);
}

/* out (+)= w x, or w^T x; w is a block of weights. */
static void mix(const attention_job *job, const attention_place *p, char *w, bool turned,
                attention_block x, int64_t columns, attention_block out, bool add, void *piece)
{
    multiply(job,
             (cpu_product){ .m = turned ? p->k_count : p->q_count,
                            .n = columns,
                            .k = turned ? p->q_count : p->k_count,
                            .a = w,
                            .b = x.data,
                            .c = out.data,
                            .a_row = turned ? 1 : job->ld,
                            .a_col = turned ? job->ld : 1,
                            .b_row = x.row,
                            .b_col = 1,
                            .c_row = out.row,
                            .accumulate = add },
             piece);
}

static void zero_rows(const attention_job *job, attention_block x, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        memset(x.data + r * x.row * job->stat_size, 0, (size_t)(columns * job->stat_size));
}

/* Keys that some of the queries up to q_end see. */
static int64_t seen_keys(const attention_job *job, int64_t q_end)
{
    return job->attr->causal && q_end < job->s ? q_end : job->s;
}

/* ---- forward ---------------------------------------------------------------------------------- */

static void multiply_rows(const attention_job *job, attention_block x, int64_t rows,
                          const void *factor, bool divide)
{
    void *data = x.data;
    if (job->stat == TERN_F64)
        CPU_ISA_PICK(cpu_attention_multiply_f64)(data, x.row, rows, job->e, factor, divide);
    else
        CPU_ISA_PICK(cpu_attention_multiply_f32)(data, x.row, rows, job->e, factor, divide);
}

static void start_rows(const attention_job *job, attention_room *room)
{
    for (int64_t r = 0; r < job->queries; r++) {
        cpu_stat_set(room->largest, job->stat, r, -INFINITY);
        cpu_stat_set(room->sum, job->stat, r, 0);
    }
}

static void store_lse(const attention_job *job, const attention_place *p, attention_room *room)
{
    const int64_t first = (p->b * job->heads + p->h) * job->t + p->q0;
    for (int64_t r = 0; r < p->q_count; r++) {
        const double sum = cpu_stat_at(room->sum, job->stat, r);
        const double lse = cpu_stat_at(room->largest, job->stat, r) + log(sum);
        cpu_stat_set(job->out[1]->data, job->stat, first + r, sum == 0 ? -INFINITY : lse);
    }
}

static void forward_unit(const attention_job *job, int64_t unit, attention_room *room)
{
    const int64_t row = unit / job->blocks, q0 = unit % job->blocks * job->queries;
    attention_place p = { .b = row / job->heads, .h = row % job->heads, .q0 = q0 };
    p.q_count = job->t - q0 < job->queries ? job->t - q0 : job->queries;
    const int64_t g = p.h / (job->heads / job->groups), seen = seen_keys(job, q0 + p.q_count);
    const attention_block q = block_of(job, job->q, p.b, p.h, q0, p.q_count, room->q);
    const attention_block y = target_of(job, job->out[0], p.b, p.h, q0, room->y);
    start_rows(job, room);
    for (p.k0 = 0; p.k0 < seen; p.k0 += job->keys) {
        p.k_count = seen - p.k0 < job->keys ? seen - p.k0 : job->keys;
        const attention_block k = block_of(job, job->k, p.b, g, p.k0, p.k_count, room->k);
        const attention_block v = block_of(job, job->v, p.b, g, p.k0, p.k_count, room->v);
        scores_of(job, &p, q, k, job->d, room->scores, room->piece);
        const cpu_attention_rows rows = rows_of(job, &p, room);
        if (job->stat == TERN_F64)
            CPU_ISA_PICK(cpu_attention_weigh_f64)(&rows);
        else
            CPU_ISA_PICK(cpu_attention_weigh_f32)(&rows);
        if (p.k0 > 0)
            multiply_rows(job, y, p.q_count, room->factor, false);
        mix(job, &p, room->scores, false, v, job->e, y, p.k0 > 0, room->piece);
    }
    if (seen == 0)
        zero_rows(job, y, p.q_count, job->e);
    multiply_rows(job, y, p.q_count, room->sum, true);
    put(job, job->out[0], p.b, p.h, q0, p.q_count, y);
    store_lse(job, &p, room);
}

/* ---- backward --------------------------------------------------------------------------------- */

/* Gradient times result, of each query of a head. */
static void fill_delta(const attention_job *job, int64_t b, int64_t h, attention_room *room,
                       char *out)
{
    for (int64_t q0 = 0; q0 < job->t; q0 += job->queries) {
        const int64_t count = job->t - q0 < job->queries ? job->t - q0 : job->queries;
        const attention_block y = block_of(job, job->y, b, h, q0, count, room->y);
        const attention_block g = block_of(job, job->grad, b, h, q0, count, room->grad);
        void *at = out + q0 * job->stat_size;
        const void *x = y.data, *z = g.data;
        if (job->stat == TERN_F64)
            CPU_ISA_PICK(cpu_attention_dots_f64)(at, x, y.row, z, g.row, count, job->e);
        else
            CPU_ISA_PICK(cpu_attention_dots_f32)(at, x, y.row, z, g.row, count, job->e);
    }
}

/* What the keys of a block get and give. */
typedef struct attention_grads {
    attention_block k, v, grad_q, grad_k, grad_v; /* grad_q: of the block's queries */
    const char *delta;                            /* of the head's queries */
    bool add;                                     /* to the keys' and values' */
} attention_grads;

static void backward_block(const attention_job *job, const attention_place *p,
                           const attention_grads *to, attention_room *room)
{
    const attention_block q = block_of(job, job->q, p->b, p->h, p->q0, p->q_count, room->q);
    const attention_block g = block_of(job, job->grad, p->b, p->h, p->q0, p->q_count, room->grad);
    scores_of(job, p, q, to->k, job->d, room->scores, room->piece);
    scores_of(job, p, g, to->v, job->e, room->slopes, room->piece);
    cpu_attention_rows rows = rows_of(job, p, room);
    rows.delta = to->delta + p->q0 * job->stat_size;
    rows.lse =
        (char *)job->lse->data + ((p->b * job->heads + p->h) * job->t + p->q0) * job->stat_size;
    if (job->stat == TERN_F64)
        CPU_ISA_PICK(cpu_attention_slopes_f64)(&rows);
    else
        CPU_ISA_PICK(cpu_attention_slopes_f32)(&rows);
    mix(job, p, room->scores, true, g, job->e, to->grad_v, to->add, room->piece);
    mix(job, p, room->slopes, true, q, job->d, to->grad_k, to->add, room->piece);
    mix(job, p, room->slopes, false, to->k, job->d, to->grad_q, p->k0 > 0, room->piece);
}

/* Where the gradient of the i-th head's queries in a group is summed up. */
static attention_block queries_target(const attention_job *job, int64_t b, int64_t h, int64_t i,
                                      attention_room *room)
{
    char *own = room->grad_q != NULL ? room->grad_q + i * job->t * job->d * job->stat_size : NULL;
    return target_of(job, job->out[0], b, h, 0, own);
}

/* One head's queries with the keys of one block. */
static void backward_keys(const attention_job *job, attention_place *p, attention_block grad_q,
                          attention_grads *to, attention_room *room)
{
    const int64_t first = job->attr->causal ? p->k0 / job->queries * job->queries : 0;
    for (p->q0 = first; p->q0 < job->t; p->q0 += job->queries) {
        p->q_count = job->t - p->q0 < job->queries ? job->t - p->q0 : job->queries;
        to->grad_q = grad_q;
        to->grad_q.data += p->q0 * grad_q.row * job->stat_size;
        backward_block(job, p, to, room);
        to->add = true;
    }
}

static void backward_key_block(const attention_job *job, int64_t b, int64_t g, int64_t k0,
                               attention_room *room)
{
    const int64_t count = job->s - k0 < job->keys ? job->s - k0 : job->keys;
    const int64_t each = job->heads / job->groups;
    attention_grads to = { .k = block_of(job, job->k, b, g, k0, count, room->k),
                           .v = block_of(job, job->v, b, g, k0, count, room->v),
                           .grad_k = target_of(job, job->out[1], b, g, k0, room->grad_k),
                           .grad_v = target_of(job, job->out[2], b, g, k0, room->grad_v) };
    for (int64_t i = 0; i < each; i++) {
        attention_place p = { .b = b, .h = g * each + i, .k0 = k0, .k_count = count };
        to.delta = room->delta + i * job->t * job->stat_size;
        backward_keys(job, &p, queries_target(job, b, p.h, i, room), &to, room);
    }
    if (!to.add) {
        zero_rows(job, to.grad_k, count, job->d);
        zero_rows(job, to.grad_v, count, job->e);
    }
    put(job, job->out[1], b, g, k0, count, to.grad_k);
    put(job, job->out[2], b, g, k0, count, to.grad_v);
}

/* A unit is what shares keys: nobody else adds to their gradients. The first keys are seen by all
 * queries, so they begin the queries' gradients. */
static void backward_unit(const attention_job *job, int64_t unit, attention_room *room)
{
    const int64_t b = unit / job->groups, g = unit % job->groups, each = job->heads / job->groups;
    for (int64_t i = 0; i < each; i++)
        fill_delta(job, b, g * each + i, room, room->delta + i * job->t * job->stat_size);
    for (int64_t k0 = 0; k0 < job->s; k0 += job->keys)
        backward_key_block(job, b, g, k0, room);
    for (int64_t i = 0; i < each; i++) {
        const attention_block grad_q = queries_target(job, b, g * each + i, i, room);
        if (job->s == 0)
            zero_rows(job, grad_q, job->t, job->d);
        put(job, job->out[0], b, g * each + i, 0, job->t, grad_q);
    }
}

/* ---- running ---------------------------------------------------------------------------------- */

static void run_parts(const attention_job *job, int64_t begin, int64_t end, bool backward)
{
    for (int64_t part = begin; part < end; part++) {
        attention_room room = room_at(job, job->scratch + part * job->part_bytes, backward);
        const int64_t last = (part + 1) * job->units / job->parts;
        for (int64_t i = part * job->units / job->parts; i < last; i++)
            if (backward)
                backward_unit(job, i, &room);
            else
                forward_unit(job, i, &room);
    }
}

static void run_forward(void *context, int64_t begin, int64_t end)
{
    run_parts(context, begin, end, false);
}

static void run_backward(void *context, int64_t begin, int64_t end)
{
    run_parts(context, begin, end, true);
}

static void fill_sizes(attention_job *job, const tern_view *q, const tern_view *k,
                       const tern_view *v)
{
    job->q = q;
    job->k = k;
    job->v = v;
    job->dtype = q->dtype;
    job->stat = q->dtype == TERN_F64 ? TERN_F64 : TERN_F32;
    job->size = cpu_dtype_size(job->dtype);
    job->stat_size = cpu_dtype_size(job->stat);
    job->heads = q->shape[1];
    job->groups = k->shape[1];
    job->t = q->shape[2];
    job->s = k->shape[2];
    job->d = q->shape[3];
    job->e = v->shape[3];
    job->queries = job->t < QUERIES ? larger(job->t, 1) : QUERIES;
    job->keys = job->s < KEYS ? larger(job->s, 1) : KEYS;
    job->ld = (job->keys + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    job->blocks = (job->t + job->queries - 1) / job->queries;
    job->least = (int32_t)ceil(job->attr->p * 0x1p24);
}

/* Products of `depth` features in all. */
static tern_status_t run(const tern_call *call, attention_job *job, int64_t depth, bool backward)
{
    const int64_t rows = job->q->shape[0] * job->heads * job->t;
    const int64_t flops = rows * job->s * (depth + 20);
    const int64_t bytes = (rows + job->k->shape[0] * job->groups * job->s) * depth * job->size;
    const int threads = cpu_threads(call, bytes, job->attr->causal ? flops / 2 : flops);
    job->parts = threads == 1 ? 1 : PARTS * threads;
    if (job->parts > job->units)
        job->parts = job->units;
    job->part_bytes = room_at(job, NULL, backward).used;
    job->scratch = call->host->scratch(call, job->parts * job->part_bytes);
    if (job->scratch == NULL)
        return TERN_ERR_OOM;
    cpu_parallel(threads, job->parts, 1, backward ? run_backward : run_forward, job);
    return TERN_OK;
}

tern_status_t cpu_scaled_dot_product_attention(const tern_call *call)
{
    attention_job job = { .attr = call->attr,
                          .mask = call->in[3],
                          .out = { call->out[0], call->out[1], NULL } };
    fill_sizes(&job, call->in[0], call->in[1], call->in[2]);
    job.units = job.q->shape[0] * job.heads * job.blocks;
    return job.units > 0 ? run(call, &job, job.d + job.e, false) : TERN_OK;
}

tern_status_t cpu_scaled_dot_product_attention_grad(const tern_call *call)
{
    attention_job job = { .attr = call->attr,
                          .grad = call->in[0],
                          .mask = call->in[4],
                          .y = call->in[5],
                          .lse = call->in[6],
                          .out = { call->out[0], call->out[1], call->out[2] } };
    fill_sizes(&job, call->in[1], call->in[2], call->in[3]);
    job.units = job.q->shape[0] * job.groups;
    return job.units > 0 ? run(call, &job, 3 * job.d + 2 * job.e, true) : TERN_OK;
}
