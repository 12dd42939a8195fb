/* An op of one's own, outside the library: swish(x) = x sigmoid(x), with its gradient, checked against
 * differences, and compared with the library's own (silu). */
#include <stdio.h>
#include <tern/tern.h>

static tern_tensor *swish_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    tern_save(ctx, in[0]);
    return tern_mul(in[0], tern_sigmoid(in[0]));
}

static void swish_backward(tern_op_ctx *ctx, tern_tensor *grad, tern_tensor **grad_in)
{
    tern_tensor *x = tern_saved(ctx, 0), *s = tern_sigmoid(x);
    grad_in[0] = tern_mul(grad, tern_mul(s, tern_add(1.0, tern_mul(x, tern_sub(1.0, s)))));
}

static const tern_op swish = {
    .name = "swish", .inputs = 1, .forward = swish_forward, .backward = swish_backward
};

static tern_tensor *call_swish(tern_tensor *const *in, void *user)
{
    (void)user;
    return tern_apply(&swish, in[0]);
}

int main(void)
{
    tern_seed(1);
    tern_tensor *x = tern_randn(TERN_SHAPE(4, 5), .dtype = TERN_F64, .requires_grad = true);

    tern_tensor *y = tern_apply(&swish, x);
    tern_backward(tern_sum(y));
    tern_print(y);
    tern_print(tern_grad_of(x));

    tern_tensor *difference = tern_amax(tern_abs(tern_sub(y, tern_silu(x))));
    printf("largest difference from tern_silu: %.1e\n", tern_item(difference));
    if (tern_gradcheck(call_swish, &x, 1, .order = 2) == TERN_OK) {
        puts("gradients, and gradients of gradients, agree with differences");
    }
    return tern_finish() != 0 || fflush(stdout) != 0;
}
