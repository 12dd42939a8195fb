/* Scans, for gradients of other ops. */
#ifndef TERN_CORE_OPS_SCAN_H
#define TERN_CORE_OPS_SCAN_H

#include "core/call.h"

/* For each element the product of those before it (reverse: behind it) along `dim`, which is 1 for the
 * first; x has a dimension and elements. */
tern_tensor *scan_products_before(tern_tensor *x, int dim, bool reverse);

#endif
