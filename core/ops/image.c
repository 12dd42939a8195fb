/* See core/ops/image.h. */
#include "core/ops/image.h"

void image_pair(int64_t out_pair[2], const int64_t given[2], int64_t missing)
{
    out_pair[0] = given[0] != 0 ? given[0] : missing;
    out_pair[1] = given[1] != 0 ? given[1] : out_pair[0];
    for (int d = 0; d < 2; d++)
        if (out_pair[d] == TERN_ZERO)
            out_pair[d] = 0;
}

bool image_check_pair(core_call *call, const char *name, const int64_t pair[2], int64_t least)
{
    for (int d = 0; d < 2; d++) {
        if (pair[d] < least)
            return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%s is (%lld, %lld); the least is %lld",
                             name, (long long)pair[0], (long long)pair[1], (long long)least);
        if (pair[d] > INT32_MAX)
            return core_fail(call, TERN_ERR_ARGUMENT, NULL, "%s is (%lld, %lld): too large", name,
                             (long long)pair[0], (long long)pair[1]);
    }
    return true;
}

int64_t image_covered(int64_t cells, int64_t dilation)
{
    int64_t covered;
    return __builtin_mul_overflow(cells - 1, dilation, &covered) || covered == INT64_MAX
               ? INT64_MAX
               : covered + 1;
}

bool image_channels_last(const tern_view *v)
{
    return !(v->flags & TERN_VIEW_CONTIGUOUS) && core_view_channels_last(v);
}

tern_tensor *image_unbatched(tern_op_id id, tern_site_t site, tern_tensor *x, image_run *run,
                             const void *args)
{
    core_frame frame;
    core_compose_begin(&frame, id, site, 1, (tern_tensor *[]){ x });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame))
        out = run(site, tern_unsqueeze(x, 0), args);
    if (out != NULL)
        out = tern_squeeze(out, 0);
    return core_compose_end(&frame, out);
}
