/* What convolution and pooling share: pairs of options, unbatched images, layouts. */
#ifndef TERN_CORE_OPS_IMAGE_H
#define TERN_CORE_OPS_IMAGE_H

#include "core/compose.h"

/* Options are (height, width); a missing second takes the first, a missing first the default.
 * TERN_ZERO is a number that is not missing. */
void image_pair(int64_t out_pair[2], const int64_t given[2], int64_t missing);

/* False after an error: `pair` holds a number below `least` or one that would overflow. */
bool image_check_pair(core_call *call, const char *name, const int64_t pair[2], int64_t least);

/* What `cells` of a kernel cover, `dilation` apart; INT64_MAX: more than can be counted. */
int64_t image_covered(int64_t cells, int64_t dilation);

/* The one layout besides row-major: is it this tensor's, and not row-major too? */
bool image_channels_last(const tern_view *v);

/* [C, H, W] as a batch of one: runs `run` on it inside a frame and takes the batch away again. */
typedef tern_tensor *image_run(tern_site_t site, tern_tensor *x, const void *args);
tern_tensor *image_unbatched(tern_op_id id, tern_site_t site, tern_tensor *x, image_run *run,
                             const void *args);

#endif
