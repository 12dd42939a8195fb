/* Moving elements between strided memory and blocks without gaps; copies of inconvenient inputs. */
#ifndef TERN_BACKEND_CPU_STRIDED_H
#define TERN_BACKEND_CPU_STRIDED_H

#include "backend_cpu/cpu.h"

/* A place in a walk. */
typedef struct cpu_cursor {
    const cpu_walk *walk;
    int64_t at[TERN_MAX_DIMS];
    char *data[CPU_MAX_OPERANDS];
} cpu_cursor;

/* The place of element `index` (dim 0 runs fastest). */
void cpu_cursor_init(cpu_cursor *cursor, const cpu_walk *walk, int64_t index);
/* n elements further; past the end is allowed once. */
void cpu_cursor_advance(cpu_cursor *cursor, int64_t n);
/* To the start of the next row (dim 0), without a division; after the last comes the first. */
static inline void cpu_cursor_next_row(cpu_cursor *cursor)
{
    const cpu_walk *walk = cursor->walk;
    for (int k = 0; k < walk->operands && cursor->at[0] != 0; k++)
        cursor->data[k] -= cursor->at[0] * walk->stride[k][0];
    cursor->at[0] = 0;
    for (int d = 1; d < walk->ndim; d++) {
        for (int k = 0; k < walk->operands; k++)
            cursor->data[k] += walk->stride[k][d];
        if (++cursor->at[d] < walk->shape[d])
            return;
        for (int k = 0; k < walk->operands; k++)
            cursor->data[k] -= walk->shape[d] * walk->stride[k][d];
        cursor->at[d] = 0;
    }
}

/* The next n elements of an operand, without gaps: in `buffer`, or where they lie. */
char *cpu_pack(const cpu_cursor *cursor, int operand, int64_t size, int64_t n, char *buffer);
/* Where the next n elements may be written: in place if they lie without gaps, else `buffer`, from
 * which cpu_unpack then takes them. */
char *cpu_unpack_place(const cpu_cursor *cursor, int operand, int64_t size, int64_t n,
                       char *buffer);
void cpu_unpack(const cpu_cursor *cursor, int operand, int64_t size, int64_t n, const char *buffer);

/* Equal shape and strides (extents of 1 aside). */
bool cpu_same_strides(const tern_view *a, const tern_view *b);
/* `in` is large and runs against the order of `out`, so that walking it reads whole cache lines for
 * single elements. */
bool cpu_lies_crosswise(const tern_view *out, const tern_view *in);
/* A copy of `in` in scratch memory with the shape of `like`, and its order when `like` is dense. */
tern_status_t cpu_scratch_copy(const tern_call *call, const tern_view *in, const tern_view *like,
                               tern_view *out_copy);
/* The copy kernel for views that the caller made; they have elements and do not overlap. */
void cpu_copy_views(const tern_view *out, const tern_view *in, const tern_call *call);
/* From row-major memory with out's shape. */
void cpu_copy_row_major(const tern_view *out, void *data, int dtype, const tern_call *call);

#endif
