/* Inner loops of the optimizer steps. */
#include <math.h>

#include "backend_cpu/step.h"

#define T float
#define NAME(x) x##_f32
#define SQRT sqrtf
#include "backend_cpu/isa/step_type.h"
#undef T
#undef NAME
#undef SQRT

#define T double
#define NAME(x) x##_f64
#define SQRT sqrt
#include "backend_cpu/isa/step_type.h"
