/* Every kind of error names the caller's line, in tern_error_site and in the text, whatever it is about. */
#include <limits.h>
#include <stdio.h>

#include "tests/support/check.h"

/* The pending error's text has `line` of this file, and its site is that unless `in_backward`; clears it. */
static void check_line(int line, bool in_backward)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "test_error_sites.c:%d", line);
    if (!tern_failed())
        fail_msg("line %d: no error", line);
    const char *site = tern_error_site();
    const size_t length = strlen(wanted);
    const bool here = strlen(site) >= length && strcmp(site + strlen(site) - length, wanted) == 0;
    if (here == in_backward || strstr(tern_error_text(), wanted) == NULL)
        fail_msg("line %d: the error is of %s, and says\n%s", line, site, tern_error_text());
    tern_error_clear();
}

/* The call, which must fail, stands on one line. */
#define FAILS_HERE(call)             \
    do {                             \
        (void)(call);                \
        check_line(__LINE__, false); \
    } while (0)

static tern_tensor *ones(int64_t rows, int64_t columns)
{
    return tern_ones(TERN_SHAPE(rows, columns));
}

static void test_shapes(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = ones(2, 3), *image = tern_ones(TERN_SHAPE(1, 2, 5, 5));
    FAILS_HERE(tern_add(a, ones(2, 4)));
    FAILS_HERE(tern_add_(a, tern_ones(TERN_SHAPE(2, 2, 3))));
    FAILS_HERE(tern_matmul(a, ones(2, 3)));
    FAILS_HERE(tern_linear(a, ones(4, 5), NULL));
    FAILS_HERE(tern_reshape(a, TERN_SHAPE(7)));
    FAILS_HERE(tern_view(tern_transpose(a, 0, 1), TERN_SHAPE(6)));
    FAILS_HERE(tern_select(a, 0, 2));
    FAILS_HERE(tern_sum(a, TERN_DIMS(2)));
    FAILS_HERE(tern_expand(a, TERN_SHAPE(5, 3)));
    FAILS_HERE(tern_conv2d(image, tern_ones(TERN_SHAPE(1, 3, 3, 3))));
    FAILS_HERE(tern_max_pool2d(image, { 9, 9 }));
    FAILS_HERE(tern_layer_norm(a, 1, .weight = ones(1, 4)));
    FAILS_HERE(tern_cross_entropy(a, tern_zeros(TERN_SHAPE(3), .dtype = TERN_I64)));
    FAILS_HERE(tern_zeros(TERN_SHAPE(INT64_MAX, 2)));
    FAILS_HERE(tern_zeros(TERN_SHAPE(-1)));
}

/* The call is an error of `name`, whatever it is made of. */
#define FAILS_AS(name, call)                                                        \
    do {                                                                            \
        char head[160];                                                             \
        (void)(call);                                                               \
        (void)snprintf(head, sizeof head, "%s:%d: %s: ", __FILE__, __LINE__, name); \
        if (strncmp(tern_error_text(), head, strlen(head)) != 0)                    \
            fail_msg("expected '%s', got '%s'", head, tern_error_text());           \
        check_line(__LINE__, false);                                                \
    } while (0)

static void test_ops_made_of_others(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = ones(2, 3), *line = tern_ones(TERN_SHAPE(1, 2, 5));
    tern_tensor *far = tern_full(7, TERN_SHAPE(2), .dtype = TERN_I64);
    tern_tensor *yes = tern_ones(TERN_SHAPE(2), .dtype = TERN_BOOL);
    FAILS_AS("conv1d", tern_conv1d(line, tern_ones(TERN_SHAPE(3, 4, 2))));
    FAILS_AS("conv_transpose1d", tern_conv_transpose1d(line, tern_ones(TERN_SHAPE(5, 4, 2))));
    FAILS_AS("interpolate", tern_interpolate(line, { -1 }));
    FAILS_AS("copy", tern_copy(a, ones(2, 4)));
    FAILS_AS("index", tern_index(a, far));
    FAILS_AS("index_put", tern_index_put(a, ones(2, 4), false, far));
    FAILS_AS("add", tern_add_(a, ones(2, 4)));
    FAILS_AS("relu6", tern_relu6(tern_ones(TERN_SHAPE(2), .dtype = TERN_BOOL)));
    tern_tensor *mean = tern_zeros(TERN_SHAPE(2));
    FAILS_AS("pow", tern_pow_(tern_expand(tern_slice(yes, 0, 0, 1), TERN_SHAPE(2)), true));
    FAILS_AS("unique_dim", tern_unique_dim(a, 2, NULL, NULL));
    FAILS_AS("median_all", tern_median_all(tern_ones(TERN_SHAPE(0), .dtype = TERN_I64)));
    FAILS_AS("split_sizes", tern_split_sizes(a, (int64_t[]){ 3 }, 1, 0, NULL, 0));
    FAILS_AS("item_int", (void)tern_item_int(a));
    FAILS_AS("print", tern_print(NULL));
    FAILS_AS("max_pool2d_layer", tern_max_pool2d_layer(-1));
    FAILS_AS("instance_norm", tern_instance_norm(line, .running_mean = mean));
    FAILS_AS("module_save", tern_module_save(NULL, "net.safetensors"));
    FAILS_AS("matmul", tern_matmul(a, tern_ones(TERN_SHAPE(3, 2), .dtype = TERN_F64)));
    FAILS_AS("mul", tern_mul(a, ones(2, 4)));
}

static void test_dtypes_and_values(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *a = ones(2, 3), *yes = tern_ones(TERN_SHAPE(2), .dtype = TERN_BOOL);
    FAILS_HERE(tern_neg(yes));
    FAILS_HERE(tern_embedding(a, a));
    FAILS_HERE(tern_softmax(yes, 0));
    FAILS_HERE(tern_dropout(a, 1.5, true));
    FAILS_HERE(tern_item(a));
    FAILS_HERE(tern_max(tern_ones(TERN_SHAPE(0)), 0, NULL));
    FAILS_HERE(tern_add_(tern_ones(TERN_SHAPE(2), .dtype = TERN_I64), 0.5));
}

static void test_nothing_given(void **state)
{
    (void)state;
    tern_tensor *none = NULL;
    FAILS_HERE(tern_sum(none));
    FAILS_HERE(tern_matmul(none, none));
    FAILS_HERE(tern_contiguous(none));
    FAILS_HERE(tern_backward(none));
    FAILS_HERE(tern_step(NULL));
    FAILS_HERE(tern_zero_grad(NULL));
    FAILS_HERE(tern_forward(NULL, none));
    FAILS_HERE(tern_idx_read(NULL));
    FAILS_HERE(tern_state_load(NULL));
}

static void test_devices(void **state)
{
    (void)state;
    tern_dev_t dev;
    const tern_dev_t absent = TERN_CUDA(99);
    FAILS_HERE(tern_dev_parse("gpu", &dev));
    tern_set_device_policy(TERN_REQUIRE);
    FAILS_HERE(tern_ones(TERN_SHAPE(2), .device = absent));
    FAILS_AS("default_stream", (void)tern_default_stream(absent));
    FAILS_HERE(tern_plugin_load("/nowhere/libtern_none.so"));
}

static void test_autograd(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *w = tern_ones(TERN_SHAPE(2, 3), .requires_grad = true);
    tern_tensor *loss = tern_sum(tern_mul(w, w));
    FAILS_HERE(tern_backward(tern_mul(w, w)));
    FAILS_HERE(tern_backward(ones(1, 1)));
    FAILS_HERE(tern_add_(w, 1));
    FAILS_HERE(tern_set_grad(w, ones(3, 2)));
    tern_backward(loss);
    tern_backward(loss); /* the site is that of the op that it fails in */
    check_line(__LINE__ - 1, true);
}

static void test_modules_and_optimizers(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *net = tern_linear_layer(3, 2);
    tern_optimizer *opt = tern_sgd(tern_parameters(net), .lr = 0.1);
    tern_state *empty = tern_state_create();
    assert_no_error();
    FAILS_HERE(tern_forward(net, ones(4, 5)));
    FAILS_HERE(tern_linear_layer(-1, 2));
    FAILS_HERE(tern_module_restore(net, empty));
    FAILS_HERE(tern_module_load(net, "/nowhere/net.safetensors"));
    FAILS_HERE(tern_adam(tern_parameters(net), .lr = -1));
    FAILS_HERE(tern_set_lr(opt, 7, 0.1));
    FAILS_HERE(tern_clip_grad_norm(tern_parameters(net), .max_norm = -1));
    FAILS_HERE(tern_cosine_schedule(opt, .steps = -1));
    FAILS_HERE(tern_grad_scaler_create(.growth_factor = 0.5));
    tern_state_free(empty);
    tern_optimizer_free(opt);
    tern_module_free(net);
}

typedef struct turning {
    tern_module base;
    int turns;
} turning;

static tern_tensor *worse_each_time(tern_module *self, tern_tensor *x)
{
    turning *m = (turning *)self;
    return tern_relu(m->turns++ == 0 ? x : tern_reshape(x, TERN_SHAPE(7)));
}

/* The library's own files, which call the modules, are nobody's lines: neither in forward nor when backward
 * computes again. */
static void test_checkpointed_modules(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *net = tern_sequential(tern_linear_layer(3, 2), tern_relu_layer(),
                                       tern_linear_layer(4, 2), tern_relu_layer());
    turning *own = TERN_MODULE(turning, worse_each_time);
    tern_tensor *x = tern_set_requires_grad(ones(2, 3), true);
    assert_no_error();
    FAILS_HERE(tern_checkpoint_forward(net, ones(4, 5)));
    FAILS_HERE(tern_checkpoint_sequential(net, 2, ones(4, 5)));
    FAILS_HERE(tern_checkpoint_sequential(net, 2, x));
    tern_backward(
        tern_sum(tern_checkpoint_forward(&own->base, x))); /* the reshape of the second call */
    check_line(__LINE__ - 1, false);
    tern_module_free(&own->base);
    tern_module_free(net);
}

static void test_data_and_files(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_dataset *digits = tern_digits(8, 1);
    assert_no_error();
    FAILS_HERE(tern_mnist("/nowhere", TERN_TRAIN));
    FAILS_HERE(tern_cifar10("/nowhere", TERN_TRAIN));
    FAILS_HERE(tern_idx_read("/nowhere/x.idx"));
    FAILS_HERE(tern_text_read("/nowhere/x.txt"));
    FAILS_HERE(tern_digits(-1, 1));
    FAILS_HERE(tern_loader_open(digits, .batch = -4));
    FAILS_HERE(tern_dataset_from_tensors(ones(2, 3), ones(3, 1)));
    FAILS_HERE(tern_safetensors_open("/dev/null"));
    FAILS_HERE(tern_state_save(NULL, "/nowhere/x.safetensors"));
    tern_dataset_free(digits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_dtypes_and_values),
        cmocka_unit_test(test_ops_made_of_others),
        cmocka_unit_test(test_nothing_given),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_autograd),
        cmocka_unit_test(test_modules_and_optimizers),
        cmocka_unit_test(test_checkpointed_modules),
        cmocka_unit_test(test_data_and_files),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
