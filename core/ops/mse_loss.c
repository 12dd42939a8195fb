/* Mean (or sum) of squared differences, made of simple ops. */
#include "core/compose.h"

tern_tensor *tern_mse_loss_at(tern_site_t site, tern_tensor *x, tern_tensor *y, int reduction)
{
    core_frame frame;
    core_compose_begin(&frame, TERN_OP_mse_loss, site, 2, (tern_tensor *[]){ x, y });
    tern_tensor *out = NULL;
    if (core_compose_check(&frame)) {
        if (reduction < 0 || reduction > TERN_NONE) {
            core_fail(&frame.call, TERN_ERR_ARGUMENT, "TERN_MEAN, TERN_SUM or TERN_NONE",
                      "%d is no reduction", reduction);
        } else if (core_compose_cast(&frame)) {
            tern_tensor *difference = tern_sub(frame.call.in[0], frame.call.in[1]);
            out = tern_mul(difference, difference);
            if (reduction != TERN_NONE)
                out = reduction == TERN_SUM ? tern_sum(out) : tern_mean(out);
        }
    }
    return core_compose_end(&frame, out);
}
