/* Copies with the elements elsewhere, and tensors made from nothing. */
#include "core/call.h"
#include "tests/ops/opinfo.h"
#include "tests/ref/ref.h"

/* clang-format off */

#define REAL(...) { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ } }
#define CHANCE(...) \
    { INPUT_REAL, .ndim = TERN_COUNT_(__VA_ARGS__), .dims = { __VA_ARGS__ }, .low = 0, .high = 1 }
#define NUMBERS(...) ((const int64_t[]){ __VA_ARGS__ })

/* Defines run_<name> and want_<name> of one input x. */
#define MOVE(name, expression, reference)                                   \
    static tern_tensor *run_##name(tern_tensor **in)                        \
    {                                                                       \
        tern_tensor *x = in[0];                                             \
        return expression;                                                  \
    }                                                                       \
    static value want_##name(const value *x) { return reference; }

MOVE(flip, tern_flip(x, TERN_DIMS(0, -1)), ref_flip(x, 5))
MOVE(flip_all, tern_flip(x, (tern_dims_t){ 0 }), ref_flip(x, 0xF))
MOVE(roll, tern_roll(x, TERN_SHAPE(1, -2), TERN_DIMS(0, 1)), ref_roll(x, NUMBERS(1, -2, 0)))
MOVE(roll_again, tern_roll(x, TERN_SHAPE(9, 2, -1), TERN_DIMS(1, 0, 1)), ref_roll(x, NUMBERS(2, 8)))
MOVE(pad, tern_pad(x, { 1, 2, 3, 0 }), ref_pad(x, NUMBERS(0, 3, 1), NUMBERS(0, 0, 2), TERN_PAD_CONSTANT))
MOVE(pad_cut, tern_pad(x, { -1, 2, 1, -2 }), ref_pad(x, NUMBERS(1, -1), NUMBERS(-2, 2), TERN_PAD_CONSTANT))
MOVE(pad_image, tern_pad(x, { 1, 1, 2, 0 }), ref_pad(x, NUMBERS(0, 0, 2, 1), NUMBERS(0, 0, 0, 1), TERN_PAD_CONSTANT))
MOVE(pad_reflect, tern_pad(x, { 3, 2, 1, 2 }, .mode = TERN_PAD_REFLECT),
     ref_pad(x, NUMBERS(0, 1, 3), NUMBERS(0, 2, 2), TERN_PAD_REFLECT))
MOVE(pad_reflect_cut, tern_pad(x, { -2, 3 }, .mode = TERN_PAD_REFLECT),
     ref_pad(x, NUMBERS(0, -2), NUMBERS(0, 3), TERN_PAD_REFLECT))
MOVE(pad_replicate, tern_pad(x, { 5, 2, 1, 7 }, .mode = TERN_PAD_REPLICATE),
     ref_pad(x, NUMBERS(0, 1, 5), NUMBERS(0, 7, 2), TERN_PAD_REPLICATE))
MOVE(pad_circular, tern_pad(x, { 3, 4, 1, 0 }, .mode = TERN_PAD_CIRCULAR),
     ref_pad(x, NUMBERS(1, 3), NUMBERS(0, 4), TERN_PAD_CIRCULAR))
MOVE(pad_circular_cut, tern_pad(x, { -1, 3, 2, -2 }, .mode = TERN_PAD_CIRCULAR),
     ref_pad(x, NUMBERS(2, -1), NUMBERS(-2, 3), TERN_PAD_CIRCULAR))
MOVE(pad_reflect_beyond, tern_pad(x, { -7, 4, 3, -5 }, .mode = TERN_PAD_REFLECT),
     ref_pad(x, NUMBERS(3, -7), NUMBERS(-5, 4), TERN_PAD_REFLECT))
MOVE(pad_replicate_beyond, tern_pad(x, { -7, 8, 9, -6 }, .mode = TERN_PAD_REPLICATE),
     ref_pad(x, NUMBERS(9, -7), NUMBERS(-6, 8), TERN_PAD_REPLICATE))
MOVE(tril, tern_tril(x, 0), ref_triangle(x, 0, false))
MOVE(tril_above, tern_tril(x, 2), ref_triangle(x, 2, false))
MOVE(triu, tern_triu(x, 0), ref_triangle(x, 0, true))
MOVE(triu_below, tern_triu(x, -2), ref_triangle(x, -2, true))

/* ---- made from nothing: the input gives the dtype, and of some the shape ---- */

static value lines(const value *x)
{
    (void)x;
    value out = value_new(1, NUMBERS(9));
    for (int64_t i = 0; i < 9; i++)
        out.data[i] = 2 + 5 * (double)i;
    return out;
}
MOVE(linspace, tern_linspace(2, 42, 9, tern_dtype(x)), lines(x))

static value diagonal(const value *x)
{
    (void)x;
    value out = value_new(2, NUMBERS(3, 5));
    for (int64_t i = 0; i < 3; i++)
        out.data[i * 5 + i] = 1;
    return out;
}
MOVE(eye, tern_eye(3, 5, tern_dtype(x)), diagonal(x))

/* The documented definition: element i takes half i % 2 of block i / 2. */
static uint64_t bits64(int64_t i, uint64_t call)
{
    uint32_t bits[4];
    tern_philox(7, call, (uint64_t)i / 2, bits);
    return (uint64_t)bits[2 * (i % 2) + 1] << 32 | bits[2 * (i % 2)];
}

/* The high word of bits times 100, by halves of 32 bits. */
static value below_100(const value *x)
{
    value out = value_copy(x);
    for (int64_t i = 0; i < out.numel; i++) {
        const uint64_t b = bits64(i, 0);
        out.data[i] = 3 + (double)(((b >> 32) * 100 + ((b & 0xFFFFFFFFu) * 100 >> 32)) >> 32);
    }
    return out;
}
static tern_tensor *drawn(tern_tensor *x)
{
    tern_seed(7);
    return tern_randint(3, 103, tern_shape(x), tern_dtype(x));
}
MOVE(randint, drawn(x), below_100(x))

static value coins(const value *x)
{
    value out = value_copy(x);
    for (int64_t i = 0; i < out.numel; i++) {
        uint32_t bits[4];
        tern_philox(7, 0, (uint64_t)i / 4, bits);
        out.data[i] = (double)(bits[i % 4] >> 8) * 0x1p-24 < x->data[i];
    }
    return out;
}
static tern_tensor *tossed(tern_tensor *x)
{
    tern_seed(7);
    return tern_bernoulli(x, NULL);
}
MOVE(bernoulli, tossed(x), coins(x))

static value coins_f64(const value *x)
{
    value out = value_copy(x);
    for (int64_t i = 0; i < out.numel; i++)
        out.data[i] = (double)(bits64(i, 0) >> 11) * 0x1p-53 < x->data[i];
    return out;
}
MOVE(bernoulli_f64, tossed(x), coins_f64(x))

#define CASE(row, label_, name, input)                                                       \
    { OPINFO(row), .label = label_, .in = { input }, .run = run_##name, .ref = want_##name,   \
      .differentiable = 1, .order = 2 }
#define MAKE(row, label_, name, input) \
    { OPINFO(row), .label = label_, .in = { input }, .run = run_##name, .ref = want_##name }

const opinfo opinfo_moves[] = {
    CASE(flip, "two dims", flip, REAL(2, 3, 4)),
    CASE(flip, "all of 4-D", flip_all, REAL(2, 3, 2, 3)),
    CASE(roll, "two dims", roll, REAL(2, 5, 3)),
    CASE(roll, "a dim twice", roll_again, REAL(3, 6)),
    CASE(pad, "zeros", pad, REAL(2, 3, 4)),
    CASE(pad, "taken away", pad_cut, REAL(4, 5)),
    CASE(pad, "4-D", pad_image, REAL(2, 3, 4, 5)),
    CASE(pad, "reflect", pad_reflect, REAL(2, 3, 4)),
    CASE(pad, "reflect, cut", pad_reflect_cut, REAL(2, 5)),
    CASE(pad, "replicate", pad_replicate, REAL(2, 3, 4)),
    CASE(pad, "circular", pad_circular, REAL(3, 4)),
    CASE(pad, "circular, cut", pad_circular_cut, REAL(4, 5)),
    CASE(pad, "reflect, more than all cut", pad_reflect_beyond, REAL(4, 5)),
    CASE(pad, "replicate, more than all cut", pad_replicate_beyond, REAL(4, 5)),
    MAKE(pad, "of nothing", pad_image, REAL(1, 1, 0, 0)),
    CASE(tril, "", tril, REAL(3, 4)),
    CASE(tril, "batch", tril_above, REAL(2, 2, 5, 4)),
    CASE(triu, "", triu, REAL(3, 4)),
    CASE(triu, "batch", triu_below, REAL(2, 2, 5, 4)),
    MAKE(triu, "far below", triu_below, REAL(2, 7)),
    MAKE(linspace, "", linspace, REAL(1)),
    MAKE(eye, "wide", eye, REAL(1)),
    { OPINFO(randint), .label = "definition", .in = { REAL(31, 37) }, .run = run_randint,
      .ref = want_randint, .skip_dtypes = B(TERN_BOOL), .why = "bool holds 0 and 1 alone" },
    { OPINFO(bernoulli), .label = "definition", .in = { CHANCE(31, 37) }, .run = run_bernoulli,
      .ref = want_bernoulli, .skip_dtypes = B(TERN_F64), .why = "f64 draws more bits" },
    { OPINFO(bernoulli), .label = "f64", .in = { CHANCE(31, 37) }, .run = run_bernoulli_f64,
      .ref = want_bernoulli_f64, .skip_dtypes = DT_FLOATS & ~B(TERN_F64), .why = "see above" },
};
const int opinfo_moves_count = sizeof opinfo_moves / sizeof *opinfo_moves;
