/* Callbacks of the user in the middle of a call - out of memory, a line of the log - that use another
 * device: the call goes on on its own. Each case runs in a child, since a process opens libraries once. */
#include <stdlib.h>

#include "tests/support/child.h"

static const tern_dev_t dev0 = { TERN_KIND_CUDA, 0 }, dev1 = { TERN_KIND_CUDA, 1 };

/* Leaves cuda:1 as the thread's device in CUDA. */
static void visit(void)
{
    TERN_SCOPE;
    tern_tensor *there = tern_ones(TERN_SHAPE(4), .device = dev1);
    EXPECT(tern_item(tern_sum(tern_add(there, there))) == 8);
}

/* ---- out of memory ----------------------------------------------------------------------------- */

static tern_tensor *spare; /* a block that waits in the allocator once it is given back */
static int rescues;

static bool rescue(const tern_oom_info_t *info, void *user)
{
    (void)info, (void)user;
    if (spare == NULL)
        return false;
    tern_drop(spare);
    spare = NULL;
    rescues++;
    visit();
    return true;
}

/* From now on cuda:0 has no memory but `bytes` that the callback gives back, in one block. */
static void hold(int64_t bytes)
{
    spare = tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8, .device = dev0);
    rescues = 0;
    tern_set_oom_callback(rescue, NULL);
    EXPECT(tern_set_memory_fraction(dev0, 0) == TERN_OK);
}

static void let_go(void)
{
    EXPECT(tern_set_memory_fraction(dev0, 1) == TERN_OK);
    EXPECT(rescues == 1 && !tern_failed());
}

static double entropy(tern_tensor *x, tern_tensor *target)
{
    TERN_SCOPE;
    return tern_item(tern_cross_entropy(x, target));
}

static void a_kernel_without_scratch(void)
{
    enum {
        POSITIONS = 1 << 16
    }; /* more than the allocator's small blocks: from a segment of 20 MiB */
    TERN_SCOPE;
    tern_tensor *x = tern_randn(TERN_SHAPE(POSITIONS, 2), .device = dev0);
    tern_tensor *target = tern_zeros(TERN_SHAPE(POSITIONS), .dtype = TERN_I64, .device = dev0);
    const double before = entropy(x, target);
    hold((int64_t)20 << 20);
    const double after = entropy(x, target);
    let_go();
    EXPECT(after == before);
}

static void a_product_without_workspace(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(8, 8), .device = dev0);
    EXPECT(tern_item(tern_amax(tern_matmul(x, x))) == 8);
    tern_clear_workspaces(dev0);
    hold((int64_t)32 << 20);
    EXPECT(tern_item(tern_amax(tern_matmul(x, x))) == 8);
    let_go();
}

/* Its handle of cuBLAS is made after the callback. */
static void a_first_product_without_workspace(void)
{
    TERN_SCOPE;
    tern_tensor *x = tern_ones(TERN_SHAPE(8, 8), .device = dev0);
    tern_tensor *room = tern_empty(TERN_SHAPE(1), .device = dev0);
    (void)room; /* of the result: a small segment is there */
    hold((int64_t)32 << 20);
    EXPECT(tern_item(tern_amax(tern_matmul(x, x))) == 8);
    let_go();
}

static void test_out_of_memory_may_use_another_device(void **state)
{
    (void)state;
    assert_in_child(a_kernel_without_scratch, .fail = NULL);
    assert_in_child(a_product_without_workspace, .fail = NULL);
    assert_in_child(a_first_product_without_workspace, .fail = NULL);
}

/* ---- the log ----------------------------------------------------------------------------------- */

static const char *awaited; /* words of the line during which the other device is used */
static int lines;

static void look(tern_log_level_t level, tern_site_t site, const char *text, void *user)
{
    (void)level, (void)site, (void)user;
    if (strstr(text, awaited) == NULL)
        return;
    lines++;
    visit();
}

static void product_says(const char *words)
{
    TERN_SCOPE;
    awaited = words;
    tern_tensor *x = tern_ones(TERN_SHAPE(8, 8), .device = dev0);
    tern_log_set_callback(look, NULL);
    EXPECT(tern_item(tern_amax(tern_matmul(x, x))) == 8);
    EXPECT(lines == 1 && !tern_failed());
}

static void cublas_is_absent(void)
{
    product_says("cuBLAS is not used");
}

static void cublas_has_no_such_product(void)
{
    product_says("cuBLAS does not have this product");
}

static void convolution_says(const char *words)
{
    TERN_SCOPE;
    awaited = words;
    tern_tensor *x = tern_ones(TERN_SHAPE(2, 4, 8, 8), .device = dev0);
    tern_tensor *w = tern_ones(TERN_SHAPE(6, 4, 3, 3), .device = dev0);
    tern_log_set_callback(look, NULL);
    EXPECT(tern_item(tern_amax(tern_conv2d(x, w, NULL))) == 36);
    EXPECT(lines == 1 && !tern_failed());
}

static void cudnn_is_absent(void)
{
    convolution_says("cuDNN is not used");
}

static void cudnn_chooses(void)
{
    convolution_says("cuDNN takes");
}

static void cudnn_refuses(void)
{
    convolution_says("an own kernel instead of cuDNN");
}

static void test_the_log_may_use_another_device(void **state)
{
    (void)state;
    assert_in_child(cublas_is_absent, .absent = "cublas");
    assert_in_child(cublas_has_no_such_product,
                    .fail = "cublasGemmEx_64@1=15,cublasLtMatmulAlgoGetHeuristic@1=15");
    assert_in_child(cudnn_is_absent, .absent = "cudnn");
    assert_in_child(cudnn_chooses, .fail = NULL);
    assert_in_child(cudnn_refuses, .fail = "cudnnConvolutionForward@1=3000");
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory_may_use_another_device),
        cmocka_unit_test(test_the_log_may_use_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
