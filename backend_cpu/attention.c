/* Attention by blocks of queries and keys: scores of a block are made by the own matrix product, weighed
 * (isa/attention.c) and multiplied with the values while they are in the second-level cache. Half types
 * are widened by block and computed in f32. */
#include "backend_cpu/attention.h"

#include <math.h>

#include "backend_cpu/attention_blocks.h"
#include "backend_cpu/kernels.h"
#include "backend_cpu/rows.h"

enum {
    QUERIES = 64,   /* of a block */
    ROW_ALIGN = 16, /* rows of blocks end on whole vectors */
    PARTS = 4       /* per thread */
};

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
    const int64_t g = p.h / (job->heads / job->groups),
                  seen = cpu_attention_seen(job, q0 + p.q_count);
    const attention_block q = cpu_attention_block(job, job->q, p.b, p.h, q0, p.q_count, room->q);
    const attention_block y = cpu_attention_target(job, job->out[0], p.b, p.h, q0, room->y);
    start_rows(job, room);
    for (p.k0 = 0; p.k0 < seen; p.k0 += job->keys) {
        p.k_count = seen - p.k0 < job->keys ? seen - p.k0 : job->keys;
        const attention_block k =
            cpu_attention_block(job, job->k, p.b, g, p.k0, p.k_count, room->k);
        const attention_block v =
            cpu_attention_block(job, job->v, p.b, g, p.k0, p.k_count, room->v);
        cpu_attention_scores(job, &p, q, k, job->d, room->scores, room->piece);
        const cpu_attention_rows rows = cpu_attention_weighing(job, &p, room);
        if (job->stat == TERN_F64)
            CPU_ISA_PICK(cpu_attention_weigh_f64)(&rows);
        else
            CPU_ISA_PICK(cpu_attention_weigh_f32)(&rows);
        if (p.k0 > 0)
            multiply_rows(job, y, p.q_count, room->factor, false);
        cpu_attention_mix(job, &p, room->scores, false, v, job->e, y, p.k0 > 0, room->piece);
    }
    if (seen == 0)
        cpu_attention_zero(job, y, p.q_count, job->e);
    multiply_rows(job, y, p.q_count, room->sum, true);
    cpu_attention_put(job, job->out[0], p.b, p.h, q0, p.q_count, y);
    store_lse(job, &p, room);
}

/* ---- backward --------------------------------------------------------------------------------- */

/* Gradient times result, of each query of a head. */
static void fill_delta(const attention_job *job, int64_t b, int64_t h, attention_room *room,
                       char *out)
{
    for (int64_t q0 = 0; q0 < job->t; q0 += job->queries) {
        const int64_t count = job->t - q0 < job->queries ? job->t - q0 : job->queries;
        const attention_block y = cpu_attention_block(job, job->y, b, h, q0, count, room->y);
        const attention_block g = cpu_attention_block(job, job->grad, b, h, q0, count, room->grad);
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
    const attention_block q =
        cpu_attention_block(job, job->q, p->b, p->h, p->q0, p->q_count, room->q);
    const attention_block g =
        cpu_attention_block(job, job->grad, p->b, p->h, p->q0, p->q_count, room->grad);
    cpu_attention_scores(job, p, q, to->k, job->d, room->scores, room->piece);
    cpu_attention_scores(job, p, g, to->v, job->e, room->slopes, room->piece);
    cpu_attention_rows rows = cpu_attention_weighing(job, p, room);
    rows.delta = to->delta + p->q0 * job->stat_size;
    rows.lse =
        (char *)job->lse->data + ((p->b * job->heads + p->h) * job->t + p->q0) * job->stat_size;
    if (job->stat == TERN_F64)
        CPU_ISA_PICK(cpu_attention_slopes_f64)(&rows);
    else
        CPU_ISA_PICK(cpu_attention_slopes_f32)(&rows);
    cpu_attention_mix(job, p, room->scores, true, g, job->e, to->grad_v, to->add, room->piece);
    cpu_attention_mix(job, p, room->slopes, true, q, job->d, to->grad_k, to->add, room->piece);
    cpu_attention_mix(job, p, room->slopes, false, to->k, job->d, to->grad_q, p->k0 > 0,
                      room->piece);
}

/* Where the gradient of the i-th head's queries in a group is summed up. */
static attention_block queries_target(const attention_job *job, int64_t b, int64_t h, int64_t i,
                                      attention_room *room)
{
    char *own = room->grad_q != NULL ? room->grad_q + i * job->t * job->d * job->stat_size : NULL;
    return cpu_attention_target(job, job->out[0], b, h, 0, own);
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
    attention_grads to = { .k = cpu_attention_block(job, job->k, b, g, k0, count, room->k),
                           .v = cpu_attention_block(job, job->v, b, g, k0, count, room->v),
                           .grad_k = cpu_attention_target(job, job->out[1], b, g, k0, room->grad_k),
                           .grad_v =
                               cpu_attention_target(job, job->out[2], b, g, k0, room->grad_v) };
    for (int64_t i = 0; i < each; i++) {
        attention_place p = { .b = b, .h = g * each + i, .k0 = k0, .k_count = count };
        to.delta = room->delta + i * job->t * job->stat_size;
        backward_keys(job, &p, queries_target(job, b, p.h, i, room), &to, room);
    }
    if (!to.add) {
        cpu_attention_zero(job, to.grad_k, count, job->d);
        cpu_attention_zero(job, to.grad_v, count, job->e);
    }
    cpu_attention_put(job, job->out[1], b, g, k0, count, to.grad_k);
    cpu_attention_put(job, job->out[2], b, g, k0, count, to.grad_v);
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
            cpu_attention_zero(job, grad_q, job->t, job->d);
        cpu_attention_put(job, job->out[0], b, g * each + i, 0, job->t, grad_q);
    }
}

/* ---- running ---------------------------------------------------------------------------------- */

static void run_parts(const attention_job *job, int64_t begin, int64_t end, bool backward)
{
    for (int64_t part = begin; part < end; part++) {
        attention_room room =
            cpu_attention_room(job, job->scratch + part * job->part_bytes, backward);
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

/* The length of a block. clang 19 drops the limit of `n < most ? larger(n, 1) : most` (it hoists the inlined call
 * and with it what it knew of n). */
static int64_t block_of(int64_t n, int64_t most)
{
    return n < 1 ? 1 : n < most ? n : most;
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
    job->queries = block_of(job->t, QUERIES);
    job->keys = block_of(job->s, CPU_ATTENTION_KEYS);
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
    job->part_bytes = cpu_attention_room(job, NULL, backward).used;
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
