/* Ops that find elements by numbers that are data themselves. The common rules are those of tern/ops.h,
 * which includes this header. Numbers count from 0; one outside its dimension is an error: at once on the
 * CPU, on a device at the next wait, and its element is passed over. */
#ifndef TERN_INDEXING_H
#define TERN_INDEXING_H

#include "tern/base.h"
#include "tern/tensor.h"

/* clang-format off */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- indexing ------------------------------------------------------------------------------- */

/* weight [rows, ...], indices i64 or i32 of any shape -> [indices..., ...]. */
TERN_API tern_tensor *tern_embedding_at(tern_site_t, tern_tensor *weight, tern_tensor *indices);
#define tern_embedding(weight, indices) tern_embedding_at(TERN_HERE, weight, indices)
/* out[i][j] = x[index[i][j]][j] for dim 0, and so on; index i64, no larger than x elsewhere. */
TERN_API tern_tensor *tern_gather_at(tern_site_t, tern_tensor *x, int dim, tern_tensor *index);
#define tern_gather(x, dim, index) tern_gather_at(TERN_HERE, x, dim, index)

#ifdef __cplusplus
}
#endif
#endif
