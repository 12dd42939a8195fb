/* Modules and parts of a sequential, checkpointed. */
#include <stdlib.h>

#include "nn/internal.h"
#include "tern/checkpoint.h"

/* What is computed again: a module, or children of a sequential. */
typedef struct part {
    tern_site_t site; /* of the program's call, which errors and tensors name in backward, too */
    tern_module *module;
    int64_t from, to; /* of a sequential; 0, 0: the module as it is */
} part;

static tern_tensor *forward_part(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    const part *p = user;
    const tern_site_t outer = tern_site_begin(p->site);
    tern_tensor *y = p->to == 0 ? tern_forward(p->module, in[0])
                                : nn_forward_range(p->module, p->from, p->to, in[0]);
    tern_site_end(outer);
    return y;
}

static tern_tensor *checkpointed(tern_site_t site, const char *what, part given, tern_tensor *x)
{
    part *p = malloc(sizeof *p);
    if (p == NULL) {
        tern_fail_at(site, TERN_ERR_OOM, what, "no host memory for a checkpoint");
        return NULL;
    }
    *p = given;
    p->site = tern_site_current(site);
    return tern_checkpoint_at(site,
                              TERN_OPTIONS_(tern_checkpoint_args, .fn = forward_part, .inputs = &x,
                                            .count = 1, .user = p, .release = free));
}

tern_tensor *tern_checkpoint_forward_at(tern_site_t site, tern_module *m, tern_tensor *x)
{
    static const char what[] = "checkpoint_forward";
    if (tern_failed() || !nn_module_check(site, what, m))
        return NULL;
    if (!x) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the input is NULL");
        return NULL;
    }
    return checkpointed(site, what, (part){ .module = m }, x);
}

tern_tensor *tern_checkpoint_sequential_at(tern_site_t site, tern_module *sequential,
                                           int64_t segments, tern_tensor *x)
{
    static const char what[] = "checkpoint_sequential";
    if (tern_failed() || !nn_module_check(site, what, sequential))
        return NULL;
    const int64_t count = sequential->members_->child_count;
    if (!nn_is_sequential(sequential) || segments < 1 || segments > count) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     "%lld segments of a %s of %lld modules\n"
                     "  try a tern_sequential, and at least one module in each segment",
                     (long long)segments, sequential->type, (long long)count);
        return NULL;
    }
    if (!x) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the input is NULL");
        return NULL;
    }
    nn_frame frame = nn_enter(site);
    const int64_t size = count / segments;
    for (int64_t k = 0; k + 1 < segments; k++)
        x = checkpointed(site, what,
                         (part){ .module = sequential, .from = k * size, .to = (k + 1) * size }, x);
    x = nn_forward_range(sequential, (segments - 1) * size, count, x);
    return nn_leave_with(&frame, x);
}
