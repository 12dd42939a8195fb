/* Elementwise loops for f32 and f64. */
#include "backend_cpu/elementwise.h"
#include "backend_cpu/formulas.h"
#include "backend_cpu/isa/lanes_exp.h"
#include "backend_cpu/isa/lanes_table.h"
#include "backend_cpu/isa/lanes_trig.h"
#include "backend_cpu/isa/stream_line.h"
#include "backend_cpu/tuning.h"

#define REAL 1
#define FLOATS_ YES
#define NUMBERS_ YES
#define WHOLE_ NO
#define ALL_ YES
#define NEGATIVE(a) ((a) < 0)
#define SUM(a, b) ((a) + (b))

#define T float
#define U float
#define TYPE f32
#define FN(name) f32_##name
#define LANES 16
#define STREAMS 1
#define MOD(a, b) mod
#include "backend_cpu/isa/elementwise_type.h"
#undef T
#undef U
#undef TYPE
#undef FN
#undef LANES
#undef STREAMS
#undef MOD

#define T double
#define U double
#define TYPE f64
#define FN(name) f64_##name
#define LANES 1
#define STREAMS 0
#define MOD(a, b) f64_fmod(a, b)
#include "backend_cpu/isa/elementwise_type.h"
