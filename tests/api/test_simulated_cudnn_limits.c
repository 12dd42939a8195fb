/* What cuDNN wants of addresses, on simulated devices, whose library refuses others, of sizes, and how it speaks of
 * devices without TF32. Each case runs in a
 * child, since a process opens the library once. */
#include <stdlib.h>

#include "tests/support/child.h"

/* The numbers of `data` [n] in this shape, on the device, one element behind the start of memory. */
static tern_tensor *shifted(tern_tensor *data, tern_shape_t shape)
{
    tern_tensor *both = tern_to(tern_cat(0, tern_slice(data, 0, 0, 1), data), TERN_CUDA(0));
    return tern_view(tern_slice(both, 0, 1, tern_numel(data) + 1), shape);
}

static void convolve(tern_tensor *in[3], tern_tensor *out[3])
{
    tern_tensor *x = tern_set_requires_grad(tern_detach(in[0]), true);
    tern_tensor *w = tern_set_requires_grad(tern_detach(in[1]), true);
    out[0] = tern_conv2d(x, w);
    tern_backward(out[0], .gradient = in[2]);
    out[1] = tern_grad_of(x);
    out[2] = tern_grad_of(w);
    EXPECT(!tern_failed());
}

static void convolutions_get_aligned_copies(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2 * 3 * 5 * 5)), *w = tern_randn(TERN_SHAPE(4 * 3 * 9));
    tern_tensor *y = tern_randn(TERN_SHAPE(2 * 4 * 3 * 3)), *here[3], *there[3];
    convolve((tern_tensor *[]){ tern_view(x, TERN_SHAPE(2, 3, 5, 5)),
                                tern_view(w, TERN_SHAPE(4, 3, 3, 3)),
                                tern_view(y, TERN_SHAPE(2, 4, 3, 3)) },
             here);
    convolve((tern_tensor *[]){ shifted(x, TERN_SHAPE(2, 3, 5, 5)),
                                shifted(w, TERN_SHAPE(4, 3, 3, 3)),
                                shifted(y, TERN_SHAPE(2, 4, 3, 3)) },
             there);
    for (int i = 0; i < 3; i++)
        EXPECT(child_distance(there[i], here[i]) <= 2e-6);
    EXPECT(child_said("cuDNN takes") == 3);
    EXPECT(child_said("own kernel") == 0);
}

/* Half numbers between two words: own kernels, without asking. */
static void half_numbers_may_lie_anywhere(void)
{
    TERN_SCOPE;
    tern_tensor *flat = tern_to(tern_randn(TERN_SHAPE(2 * 3 * 4 * 4)), .dtype = TERN_F16);
    tern_tensor *here = tern_view(flat, TERN_SHAPE(2, 3, 4, 4));
    tern_tensor *there = shifted(flat, TERN_SHAPE(2, 3, 4, 4));
    tern_tensor *one = tern_ones(TERN_SHAPE(3));
    tern_tensor *x = tern_set_requires_grad(tern_detach(there), true);
    tern_tensor *one_there = tern_to(one, TERN_CUDA(0));
    tern_tensor *y = tern_batch_norm(x, one_there, one_there, .training = true);
    EXPECT(child_distance(y, tern_batch_norm(here, one, one, .training = true)) <= 4e-3);
    tern_backward(y, .gradient = there);
    EXPECT(child_distance(tern_avg_pool2d(there, { 2 }), tern_avg_pool2d(here, { 2 })) <= 4e-3);
    EXPECT(!tern_failed());
    EXPECT(child_said("own kernel") == 0);
}

static void recurrent_layers_may_read_anywhere(void)
{
    TERN_SCOPE;
    tern_tensor *flat = tern_to(tern_randn(TERN_SHAPE(3 * 2 * 4)), .dtype = TERN_F16);
    tern_tensor *x = shifted(flat, TERN_SHAPE(3, 2, 4));
    tern_module *gru = tern_gru_layer(4, 8);
    tern_module_to(gru, TERN_CUDA(0), .dtype = TERN_F16);
    tern_tensor *y = tern_forward(gru, x);
    EXPECT(child_distance(y, tern_cpu(tern_forward(gru, tern_clone(x)))) <= 4e-3);
    EXPECT(!tern_failed());
    EXPECT(child_said("own kernel") == 0);
}

static void test_addresses(void **state)
{
    (void)state;
    assert_in_child(convolutions_get_aligned_copies, 0);
    assert_in_child(half_numbers_may_lie_anywhere, 0);
    assert_in_child(recurrent_layers_may_read_anywhere, 0);
}

/* ---- sizes ------------------------------------------------------------------------------------- */

/* Padding of 2^30 on both sides, and as long steps: the second window is in the middle. */
static void what_is_long_is_an_own_kernel(void)
{
    TERN_SCOPE;
    const int64_t far = INT64_C(1) << 30;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 3, 3, 3), .device = TERN_CUDA(0));
    tern_tensor *w = tern_ones(TERN_SHAPE(4, 3, 3, 3), .device = TERN_CUDA(0));
    for (int i = 0; i < 2; i++)
        EXPECT(tern_item(tern_sum(tern_conv2d(x, w, .padding = { far }, .stride = { far }))) ==
               2 * 4 * 27);
    EXPECT(child_said("conv2d on cuda:0: an own kernel instead of cuDNN: sizes, steps") == 1);
    EXPECT(child_said("own kernel") == 1);
}

static void test_sizes(void **state)
{
    (void)state;
    assert_in_child(what_is_long_is_an_own_kernel, 0);
}

/* ---- devices before Ampere --------------------------------------------------------------------- */

static void devices_without_tf32_use_it_too(void)
{
    (void)setenv("TERN_SIM_CAPABILITY", "7.5", 1);
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(2, 3, 5, 5)), *w = tern_randn(TERN_SHAPE(4, 3, 3, 3));
    tern_tensor *y = tern_conv2d(tern_to(x, TERN_CUDA(0)), tern_to(w, TERN_CUDA(0)));
    tern_dev_info_t info;
    EXPECT(tern_dev_info(TERN_CUDA(0), &info) && info.capability == 75);
    EXPECT(child_distance(y, tern_conv2d(x, w)) <= 2e-6);
    EXPECT(child_said("cuDNN takes") == 1);
    EXPECT(child_said("own kernel") == 0);
}

static void test_capabilities(void **state)
{
    (void)state;
    assert_in_child(devices_without_tf32_use_it_too, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_capabilities),
    };
    (void)setenv("TERN_SIM_DEVICES", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
