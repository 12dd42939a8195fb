// What C++17 may use: all macros, with options in the order of their members in place of names. Lint compiles this
// with g++ and clang++, tests/install/documents.sh runs it.
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
    return tern_from_data(cube, TERN_SHAPE(2, 1, 2));
}

static tern_tensor *made(tern_dev_t dev, int64_t n)
{
    tern_tensor *x = tern_zeros(TERN_SHAPE(n, 3), TERN_F32, dev, true);
    x = tern_ones_like(tern_full_like(x, 2));
    x = tern_add(x, tern_randint_like(x, 0, 5));
    x = tern_gather(x, 0, tern_unsqueeze(tern_randperm(2), 1));
    x = tern_add(x, tern_randperm(3, TERN_I32));
    x = tern_add(x, tern_arange(0, 3, 1, TERN_F32));
    return tern_mul(x, tern_full(2.5, TERN_SHAPE(2, 3), TERN_F64));
}

// options by name: the function behind the macro
static tern_tensor *scaled(tern_tensor *x)
{
    TERN_SCOPE;
    tern_to_args to{};
    to.size_ = sizeof to;
    to.device = TERN_CPU;
    to.dtype = TERN_F64;
    tern_tensor *y = tern_to_at(TERN_HERE, tern_to(x, TERN_CPU), &to);
    return tern_keep(tern_mul_at(TERN_HERE, tern_operand_tensor(y), tern_operand_float(2)));
}

static tern_tensor *joined(tern_tensor *x)
{
    x = tern_cat(0, tern_stack(0, x, x, x), tern_unsqueeze(x, 0));
    return tern_sum(tern_einsum("ij,kj->ik", tern_select(x, 0, 0), tern_select(x, 0, 1)),
                    TERN_DIMS(1), true);
}

// a number of any type beside a tensor
static tern_tensor *with_numbers(tern_tensor *x)
{
    short one = 1;
    x = tern_add(tern_mul(x, 2.0), tern_sub(1.5f, tern_pow(x, one)));
    x = tern_where(tern_gt(x, 0u), tern_clamp_min(x, int64_t{ -1 }), sizeof one);
    return tern_fill(tern_add_(x, true), 3);
}

struct doubled {
    tern_module base;
    tern_module *inner;
};
static tern_tensor *forward(tern_module *self, tern_tensor *x)
{
    return tern_mul(tern_forward(((doubled *)self)->inner, x), 2);
}
static void forward_args(tern_module *self, tern_args *args)
{
    args->out[0] = tern_forward(((doubled *)self)->inner, args->in[0]);
}

static void trained()
{
    doubled *one = TERN_MODULE(doubled, forward), *other = TERN_MODULE(doubled, forward_args);
    one->inner = tern_module_add_child_at(TERN_HERE, &one->base, "inner", tern_linear_layer(3, 4));
    other->inner = tern_module_add_child_at(TERN_HERE, &other->base, "inner", tern_sequential());
    tern_module *net =
        tern_sequential(&one->base, tern_relu_layer(), tern_dropout_layer(0.1), &other->base);
    tern_optimizer *opt = tern_adam(tern_parameters(net), 1e-2);
    tern_args args = TERN_ARGS(tern_ones(TERN_SHAPE(2, 3)));
    tern_tensor *loss =
        tern_cross_entropy(tern_forward(net, args.in[0]), tern_zeros(TERN_SHAPE(2), TERN_I64));
    tern_backward(loss);
    tern_step(opt);
}

int main()
{
    tern_tensor *x = tern_relu(tern_ones(TERN_SHAPE(1, 3u)));
    static const tern_dims_t last = TERN_DIMS(-1);
    if (last.ndim != 1 || !tern_dev_equal(tern_device(x), TERN_CPU) ||
        tern_dev_equal(TERN_CUDA(0), TERN_EXT(0)))
        return 1;
    trained();
    tern_print(tern_matmul(scaled(x), tern_transpose(scaled(x), 0, 1)));
    tern_set_requires_grad(x, true);
    TERN_NO_GRAD;
    tern_print(with_numbers(from_arrays()));
    tern_print(joined(made(TERN_CPU, 2)));
    const float *elements = tern_data_as(float, x);
    tern_print(elements != nullptr ? x : nullptr);
    return tern_finish();
}
