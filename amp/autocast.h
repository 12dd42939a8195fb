/* What the files of autocast share: a thread's cached casts and its counts. */
#ifndef TERN_AMP_AUTOCAST_H
#define TERN_AMP_AUTOCAST_H

#include "core/autocast.h"
#include "tern/amp.h"

/* A parameter and its cast on a stream: others are not ordered after it, and each has a cast of its own. Both are
 * retained, and so is the memory that was cast (tern_tensor_replace gives a parameter another), so an address is not
 * used again while it is a key. */
typedef struct amp_cached {
    tern_tensor *source; /* NULL: a free place of the table */
    void *stream;
    tern_tensor *cast;
    core_storage *storage; /* of the source when it was cast; what it saw of it, and its version */
    tern_view view;
    uint32_t version;
} amp_cached;

/* How often an op ran in one dtype. */
typedef struct amp_line {
    const tern_op *op; /* NULL: a free place of the table */
    uint8_t dtype;     /* of its first float input, casts done */
    uint8_t rule;      /* TERN_CAST_* */
    uint8_t kind;      /* of device */
    tern_amp_counts counts;
    int64_t order; /* of the first call */
} amp_line;

/* Open addressing, powers of two, at most half full. */
struct core_autocast {
    amp_cached *cache;
    int64_t cache_count, cache_capacity;
    amp_line *lines;
    int64_t line_count, line_capacity;
    tern_amp_counts total;
    int64_t native, library, widened; /* tern_cpu_half's when the counts were reset */
};

/* The thread's, made when it is not there yet; NULL without memory. */
struct core_autocast *amp_state(tern_thread *self);

/* Is it a tensor whose casts are kept: an f32 leaf that gets a gradient, no view of another? */
static inline bool amp_is_weight(const tern_tensor *t)
{
    return t->requires_grad && t->node == NULL && t->base == NULL && t->view.dtype == TERN_F32;
}
/* Input i, a weight, becomes its cast, made with history, whatever the grad mode is, when it is not
 * there or the weight has changed since. False with the error recorded. *out_made: it had to be made. */
bool amp_cast_weight(core_call *call, int i, tern_dtype_t dtype, bool *out_made);
void amp_cache_clear(tern_thread *self);

/* Counts a call whose inputs are cast already. */
void amp_count(core_call *call, int rule, tern_amp_counts what);

#endif
