/* What forward and backward of attention share; see attention_blocks.h. */
#include "backend_cpu/attention_blocks.h"

#include <math.h>

#include "backend_cpu/rows.h"

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

static int64_t piece_bytes(const attention_job *job)
{
    const int64_t features = larger(job->d, job->e);
    const int64_t rows = larger(job->queries, job->keys);
    return larger(cpu_gemm_scratch_most(rows, features), cpu_gemm_scratch_most(features, rows)) *
           job->stat_size;
}

attention_room cpu_attention_room(const attention_job *job, char *base, bool backward)
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

attention_block cpu_attention_block(const attention_job *job, const tern_view *v, int64_t b,
                                    int64_t h, int64_t first, int64_t count, char *room)
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

attention_block cpu_attention_target(const attention_job *job, const tern_view *v, int64_t b,
                                     int64_t h, int64_t first, char *room)
{
    if (job->dtype == job->stat)
        return (attention_block){ row_of(v, job->size, b, h, first), v->stride[2] };
    return (attention_block){ room, v->shape[3] };
}

void cpu_attention_put(const attention_job *job, const tern_view *v, int64_t b, int64_t h,
                       int64_t first, int64_t count, attention_block from)
{
    if (job->dtype == job->stat)
        return;
    for (int64_t r = 0; r < count; r++)
        cpu_from_f32(row_of(v, job->size, b, h, first + r), job->dtype,
                     (const float *)(void *)from.data + r * from.row, v->shape[3]);
}

/* ---- masks ------------------------------------------------------------------------------------ */

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
    uint8_t drawn[CPU_ATTENTION_KEYS + 2 * CPU_DROPOUT_GRAIN];
    for (int64_t r = 0; r < p->q_count; r++) {
        const int64_t row = (p->b * job->heads + p->h) * job->t + p->q0 + r;
        const int64_t first = row * job->s + p->k0, before = first % CPU_DROPOUT_GRAIN;
        CPU_ISA_PICK(cpu_dropout_mask)
        (drawn, job->attr->seed, job->attr->call, first - before, before + p->k_count, job->least);
        memcpy(keep + r * job->ld, drawn + before, (size_t)p->k_count);
    }
}

cpu_attention_rows cpu_attention_weighing(const attention_job *job, const attention_place *p,
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

void cpu_attention_scores(const attention_job *job, const attention_place *p, attention_block x,
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

void cpu_attention_mix(const attention_job *job, const attention_place *p, char *w, bool turned,
                       attention_block x, int64_t columns, attention_block out, bool add,
                       void *piece)
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

void cpu_attention_zero(const attention_job *job, attention_block x, int64_t rows, int64_t columns)
{
    for (int64_t r = 0; r < rows; r++)
        memset(x.data + r * x.row * job->stat_size, 0, (size_t)(columns * job->stat_size));
}

int64_t cpu_attention_seen(const attention_job *job, int64_t q_end)
{
    return job->attr->causal && q_end < job->s ? q_end : job->s;
}
