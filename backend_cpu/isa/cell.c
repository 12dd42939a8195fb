/* Inner loops of recurrent cells. */
#include "backend_cpu/cell.h"
#include "backend_cpu/formulas.h"

#define T float
#define NAME(x) x##_f32
#define FN(x) f32_##x
#include "backend_cpu/isa/cell_type.h"
#undef T
#undef NAME
#undef FN

#define T double
#define NAME(x) x##_f64
#define FN(x) f64_##x
#include "backend_cpu/isa/cell_type.h"
