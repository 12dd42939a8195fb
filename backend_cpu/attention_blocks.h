/* Blocks of attention: scratch, operands and products that forward and backward share. */
#ifndef TERN_BACKEND_CPU_ATTENTION_BLOCKS_H
#define TERN_BACKEND_CPU_ATTENTION_BLOCKS_H

#include "backend_cpu/attention.h"
#include "backend_cpu/gemm.h"
#include "tern/op_attr.h"

enum { CPU_ATTENTION_KEYS = 128 }; /* of a block, at most */

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

/* Where a block of weights is. */
typedef struct attention_place {
    int64_t b, h;        /* head of q */
    int64_t q0, q_count; /* queries */
    int64_t k0, k_count; /* keys */
} attention_place;

/* Without a base: how much is used. */
attention_room cpu_attention_room(const attention_job *job, char *base, bool backward);

/* Rows first .. first + count of a head, widened into `room` where they are of a half type. */
attention_block cpu_attention_block(const attention_job *job, const tern_view *v, int64_t b,
                                    int64_t h, int64_t first, int64_t count, char *room);
/* Where results are summed up: their own memory, or f32 that cpu_attention_put rounds. */
attention_block cpu_attention_target(const attention_job *job, const tern_view *v, int64_t b,
                                     int64_t h, int64_t first, char *room);
void cpu_attention_put(const attention_job *job, const tern_view *v, int64_t b, int64_t h,
                       int64_t first, int64_t count, attention_block from);
void cpu_attention_zero(const attention_job *job, attention_block x, int64_t rows, int64_t columns);

/* What is known of the weights at a place before its scores are: bias and dropout are filled in. */
cpu_attention_rows cpu_attention_weighing(const attention_job *job, const attention_place *p,
                                          attention_room *room);
/* Keys that some of the queries up to q_end see. */
int64_t cpu_attention_seen(const attention_job *job, int64_t q_end);

/* out [queries, keys] = x y^T */
void cpu_attention_scores(const attention_job *job, const attention_place *p, attention_block x,
                          attention_block y, int64_t depth, char *out, void *piece);
/* out (+)= w x, or w^T x; w is a block of weights. */
void cpu_attention_mix(const attention_job *job, const attention_place *p, char *w, bool turned,
                       attention_block x, int64_t columns, attention_block out, bool add,
                       void *piece);

#endif
