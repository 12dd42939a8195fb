/* Attention: what happens to scores between the matrix products. */
#include "backend_cpu/attention.h"

#include <math.h>

#include "backend_cpu/isa/lanes_exp.h"

#define S float
#define V f32_lanes
#define K(x) f32_##x
#define M(x) f32_lanes_##x
#define FN(x) x##_f32
#define EXP expf
#define LANES TILE_F32_LANES
#include "backend_cpu/isa/attention.inc"
#undef S
#undef V
#undef K
#undef M
#undef FN
#undef EXP
#undef LANES

#define S double
#define V f64_lanes
#define K(x) f64_##x
#define M(x) f64_lanes_##x
#define FN(x) x##_f64
#define EXP exp
#define LANES TILE_F64_LANES
#include "backend_cpu/isa/attention.inc"
