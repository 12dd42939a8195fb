/* Convolutions that own kernels cannot number are refused: the host's side alone, without memory of that size. */
#include "backend_cuda/conv2d.c"
#include "tests/sim/sim_check.h"

static int launches;
static const char *said;

cudaError_t cuda_launch_conv2d(void *y, const void *x, const void *w, const void *bias, int dtype,
                               const cuda_conv_shape *s, cudaStream_t stream)
{
    (void)y, (void)x, (void)w, (void)bias, (void)dtype, (void)s, (void)stream;
    launches++;
    return cudaSuccess;
}

cudaError_t cuda_launch_conv2d_bias(void *y, const void *bias, int dtype, const cuda_conv_shape *s,
                                    cudaStream_t stream)
{
    (void)y, (void)bias, (void)dtype, (void)s, (void)stream;
    return cudaSuccess;
}

cudaError_t cuda_launch_conv2d_grad_input(void *x, const void *y, const void *w, int dtype,
                                          const cuda_conv_shape *s, cudaStream_t stream)
{
    return cuda_launch_conv2d(x, y, w, NULL, dtype, s, stream);
}

cudaError_t cuda_launch_conv2d_grad_weight(void *w, const void *y, const void *x, int dtype,
                                           const cuda_conv_shape *s, cudaStream_t stream)
{
    return cuda_launch_conv2d(w, y, x, NULL, dtype, s, stream);
}

/* No cuDNN, so nothing is laid out for it. */
bool cuda_dnn_usable(const tern_call *call)
{
    (void)call;
    return false;
}

tern_status_t cuda_dnn_convolve(const tern_call *call, cudaStream_t stream, cuda_dnn_pass pass,
                                const cuda_dnn_conv *conv, bool *out_done)
{
    (void)call, (void)stream, (void)pass, (void)conv, (void)out_done;
    return TERN_OK;
}

bool cuda_image_lies(const tern_view *view, bool channels_last)
{
    (void)view, (void)channels_last;
    return true;
}

bool cuda_image_is_ready(const tern_view *view, bool channels_last)
{
    return cuda_image_lies(view, channels_last);
}

tern_status_t cuda_image_as(const tern_call *call, cudaStream_t stream, const tern_view *view,
                            bool channels_last, void **out_data)
{
    (void)call, (void)stream, (void)view, (void)channels_last, (void)out_data;
    return TERN_OK;
}

tern_status_t cuda_image_from(const tern_call *call, cudaStream_t stream, const tern_view *view,
                              bool channels_last, void *data)
{
    (void)call, (void)stream, (void)view, (void)channels_last, (void)data;
    return TERN_OK;
}

tern_status_t cuda_enter(const tern_call *call, cudaStream_t *out_stream)
{
    (void)call;
    *out_stream = NULL;
    return TERN_OK;
}

cuda_device *cuda_device_enter(int index)
{
    (void)index;
    return NULL;
}

tern_status_t cuda_launched(const tern_call *call, cudaError_t code, const char *name)
{
    (void)call, (void)name;
    return code == cudaSuccess ? TERN_OK : TERN_ERR_BACKEND;
}

int64_t cuda_dtype_size(int dtype)
{
    (void)dtype;
    return sizeof(float);
}

tern_status_t cuda_sum(const tern_call *call)
{
    (void)call;
    return TERN_OK;
}

static tern_status_t fail_with(tern_status_t code, const char *format, ...)
{
    said = format;
    return code;
}

static const tern_host host = { .size = sizeof host, .fail = fail_with };

static tern_view image(int64_t n, int64_t c, int64_t h, int64_t w)
{
    return (tern_view){ .dtype = TERN_F32,
                        .ndim = 4,
                        .numel = n * c * h * w,
                        .shape = { n, c, h, w },
                        .stride = { c * h * w, h * w, w, 1 } };
}

static tern_status_t run_call(tern_kernel kernel, const tern_view *a, const tern_view *b,
                              const tern_view *out)
{
    const tern_attr_conv attr = { .stride = { 1, 1 }, .dilation = { 1, 1 }, .groups = 1 };
    const tern_call call = { .size = sizeof call,
                             .n_in = 3,
                             .n_out = 1,
                             .in = (const tern_view *const[]){ a, b, NULL },
                             .out = (const tern_view *const[]){ out },
                             .attr = &attr,
                             .host = &host };
    launches = 0;
    said = "";
    return kernel(&call);
}

/* A sum over 2^32 cells: one fewer can be numbered. */
static void test_cells_of_a_filter_are_counted_in_32_bits(void **state)
{
    (void)state;
    const int64_t channels[] = { 65535, 65536 };
    for (int i = 0; i < 2; i++) {
        const tern_view x = image(1, channels[i], 256, 256), y = image(1, 1, 1, 1);
        const tern_view w = image(1, channels[i], 256, 256);
        const tern_status_t status = i == 0 ? TERN_OK : TERN_ERR_UNSUPPORTED;
        assert_int_equal(run_call(cuda_conv2d, &x, &w, &y), status);
        assert_int_equal(launches, i == 0);
        assert_true(i == 0 || strstr(said, "2^32 cells") != NULL);
        const tern_view grad = image(1, channels[i], 1, 1), to = image(1, 1, 256, 256);
        const tern_view turned = image(channels[i], 1, 256, 256);
        assert_int_equal(run_call(cuda_conv2d_grad_input, &grad, &turned, &to), status);
        assert_int_equal(launches, i == 0);
        assert_true(i == 0 || strstr(said, "2^32 cells") != NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_of_a_filter_are_counted_in_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
