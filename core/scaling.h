/* The gradient scaler's rows with all of their inputs, for amp/ (tern_attr_unscale, tern_attr_scale). */
#ifndef TERN_CORE_SCALING_H
#define TERN_CORE_SCALING_H

#include "tern/ops.h"

/* inverse and cause may be NULL. */
tern_status_t core_unscale(tern_site_t site, tern_tensor *grad, tern_tensor *inverse,
                           tern_tensor *found, tern_tensor *cause, int64_t index);
/* in: scale, tracker, found, skipped, cause, log; those from found on may be NULL. */
tern_status_t core_scale_update(tern_site_t site, tern_tensor *const *in,
                                const tern_attr_scale *options);

#endif
