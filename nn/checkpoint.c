/* Modules and parts of a sequential, checkpointed. */
#include <stdlib.h>

#include "nn/internal.h"
#include "tern/checkpoint.h"

static tern_tensor *forward_of(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    return tern_forward((tern_module *)user, in[0]);
}

tern_tensor *tern_checkpoint_forward_at(tern_site_t site, tern_module *m, tern_tensor *x)
{
    if (tern_failed() || !nn_module_check(site, "checkpoint_forward", m))
        return NULL;
    if (!x) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "checkpoint_forward", "the input is NULL");
        return NULL;
    }
    return tern_checkpoint_at(site, TERN_OPTIONS_(tern_checkpoint_args, .fn = forward_of,
                                                  .inputs = &x, .count = 1, .user = m));
}

typedef struct segment {
    tern_module *sequential;
    int64_t from, to;
} segment;

static tern_tensor *forward_segment(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    const segment *s = user;
    return nn_forward_range(s->sequential, s->from, s->to, in[0]);
}

static tern_tensor *checkpointed(tern_site_t site, segment range, tern_tensor *x)
{
    segment *s = malloc(sizeof *s);
    if (s == NULL) {
        tern_fail_at(site, TERN_ERR_OOM, "checkpoint_sequential", "no host memory for a segment");
        return NULL;
    }
    *s = range;
    return tern_checkpoint_at(site,
                              TERN_OPTIONS_(tern_checkpoint_args, .fn = forward_segment,
                                            .inputs = &x, .count = 1, .user = s, .release = free));
}

tern_tensor *tern_checkpoint_sequential_at(tern_site_t site, tern_module *sequential,
                                           int64_t segments, tern_tensor *x)
{
    if (tern_failed() || !nn_module_check(site, "checkpoint_sequential", sequential))
        return NULL;
    const int64_t count = sequential->members_->child_count;
    if (!nn_is_sequential(sequential) || segments < 1 || segments > count) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "checkpoint_sequential",
                     "%lld segments of a %s of %lld modules\n"
                     "  try a tern_sequential, and at least one module in each segment",
                     (long long)segments, sequential->type, (long long)count);
        return NULL;
    }
    if (!x) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "checkpoint_sequential", "the input is NULL");
        return NULL;
    }
    const int64_t size = count / segments;
    for (int64_t k = 0; k + 1 < segments; k++)
        x = checkpointed(site, (segment){ sequential, k * size, (k + 1) * size }, x);
    return nn_forward_range(sequential, (segments - 1) * size, count, x);
}
