// What C++17 may use: everything but the option macros, in whose place stand the _at functions. Lint
// compiles this with g++ and clang++. It is never run.
#include "tern/tern.h"

// the dtype of an array is known from its type
static_assert(TERN_DTYPE_OF((const float *)nullptr) == TERN_F32, "a pointer");
static_assert(TERN_DTYPE_OF(nullptr) == TERN_DTYPE_NONE, "nothing");
static_assert(TERN_DTYPE_OF((void *)nullptr) == TERN_DTYPE_NONE, "bytes");

static tern_tensor *from_arrays()
{
    const double cube[2][1][2] = { { { 1, 2 } }, { { 3, 4 } } };
    static const bool flags[2] = { true, false };
    int64_t *const counts = nullptr;
    static_assert(TERN_DTYPE_OF(cube) == TERN_F64 && TERN_DTYPE_OF(flags) == TERN_BOOL, "arrays");
    static_assert(TERN_DTYPE_OF(counts) == TERN_I64 && TERN_DTYPE_OF(&cube) == TERN_F64, "others");
    tern_new_args args{};
    args.size_ = sizeof args;
    args.shape = TERN_SHAPE(2, 1, 2);
    return tern_from_data_at(TERN_HERE, cube, TERN_DTYPE_OF(cube), &args);
}

static tern_tensor *scaled(tern_tensor *x)
{
    TERN_SCOPE;
    tern_to_args to{};
    to.size_ = sizeof to;
    to.device = TERN_CPU;
    to.dtype = TERN_F64;
    tern_tensor *y = tern_to_at(TERN_HERE, x, &to);
    return tern_keep(tern_mul_at(TERN_HERE, tern_operand_tensor(y), tern_operand_float(2)));
}

// a number of any type beside a tensor
static tern_tensor *with_numbers(tern_tensor *x)
{
    short one = 1;
    x = tern_add(tern_mul(x, 2.0), tern_sub(1.5f, tern_pow(x, one)));
    x = tern_where(tern_gt(x, 0u), tern_clamp_min(x, int64_t{ -1 }), sizeof one);
    return tern_fill(tern_add_(x, true), 3);
}

int main()
{
    TERN_NO_GRAD;
    tern_new_args args{};
    args.size_ = sizeof args;
    const int rows = 1;
    args.shape = rows == 1 ? TERN_SHAPE(rows, 3u) : TERN_SCALAR_SHAPE;
    static const tern_dims_t last = TERN_DIMS(-1);
    if (last.ndim != 1 || args.shape.dims[1] != 3)
        return 1;
    tern_tensor *x = tern_relu(tern_ones_at(TERN_HERE, &args));
    if (!tern_dev_equal(tern_device(x), TERN_CPU) || tern_dev_equal(TERN_CUDA(0), TERN_EXT(0)))
        return 1;
    tern_print(tern_matmul(scaled(x), scaled(x)));
    tern_set_requires_grad(x, true);
    tern_print(with_numbers(from_arrays()));
    const float *elements = tern_data_as(float, x);
    tern_print(elements != nullptr ? x : nullptr);
    return tern_finish();
}
