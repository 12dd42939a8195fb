/* The host in memory of a simulated device: the program ends, and one line says whose memory it was. Not
 * built where there are no simulated devices. */
#include <pthread.h>
#include <stdlib.h>

#include "tests/support/check.h"
#include "tests/support/crash.h"

static void assert_says(void (*crash)(void), const char *before, const char *after)
{
    char text[8192];
    assert_true(crash_text(crash, text, sizeof text));
    const char *at = strstr(text, before);
    const char *site = at == NULL ? NULL : strstr(at, "test_simulated_pointers.c:");
    if (at == NULL || site == NULL || strstr(site, after) == NULL)
        print_error("'%s' ... '%s' is not in: %s\n", before, after, text);
    assert_non_null(at);
    assert_non_null(site);
    assert_non_null(strstr(site, after));
}

static void read_a_tensor(void)
{
    tern_tensor *t = tern_ones(TERN_SHAPE(4, 5), .device = TERN_CUDA(0));
    volatile const float *p = tern_data_ptr(t);
    (void)p[10];
}

static void write_through_a_view(void)
{
    tern_tensor *t = tern_ones(TERN_SHAPE(8, 8), .dtype = TERN_F64, .device = TERN_CUDA(1));
    volatile double *p = tern_data_ptr(tern_slice(t, 0, 2, 4));
    p[1] = 3;
}

static void read_past_a_tensor(void)
{
    tern_tensor *t = tern_ones(TERN_SHAPE(3), .device = TERN_CUDA(0));
    volatile const char *p = tern_data_ptr(t);
    (void)p[19];
}

static void read_raw_memory(void)
{
    volatile const char *p = tern_memory_alloc(TERN_CUDA(0), 4096, NULL);
    (void)p[0];
}

static void read_a_released_tensor(void)
{
    volatile const char *p;
    {
        TERN_SCOPE;
        p = tern_data_ptr(tern_ones(TERN_SHAPE(64), .device = TERN_CUDA(0)));
    }
    (void)p[0];
}

static void *make_a_tensor(void *out)
{
    *(tern_tensor **)out = tern_retain(tern_ones(TERN_SHAPE(7), .device = TERN_CUDA(0)));
    return NULL;
}

static void read_another_threads_tensor(void)
{
    pthread_t thread;
    tern_tensor *t = NULL;
    if (pthread_create(&thread, NULL, make_a_tensor, &t) == 0)
        (void)pthread_join(thread, NULL);
    (void)*(volatile const char *)tern_data_ptr(t);
}

static void read_before_a_copy_is_done(void)
{
    tern_tensor *t = tern_ones(TERN_SHAPE(500), .device = TERN_CUDA(0));
    tern_tensor *back = tern_to(t, TERN_CPU, .non_blocking = true);
    (void)((volatile const float *)tern_data(back))[2];
}

static void test_a_copy_under_way_is_said(void **state)
{
    (void)state;
    assert_says(read_before_a_copy_is_done,
                "tern: host read 8 bytes into tensor f32 [500] in pinned memory, made at ",
                ", while a copy is under way; wait for it first: tern_dev_synchronize");
}

static void test_a_missing_wait_names_tensor_and_line(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *t = tern_ones(TERN_SHAPE(5, 6), .device = TERN_CUDA(1));
    TERN_STREAM(tern_stream_from_pool(TERN_CUDA(1)));
    assert_null(tern_relu(t));
    const char *text =
        strstr(tern_error_text(), "(read after write) on tensor f32 [5, 6] on cuda:1");
    assert_non_null(text);
    assert_non_null(strstr(text, tern_site(t)));
    assert_non_null(strstr(text, "is missing (tern_stream_wait_stream, or an event)"));
    tern_error_clear();
}

static void test_a_read_names_tensor_and_line(void **state)
{
    (void)state;
    assert_says(read_a_tensor,
                "tern: host read 40 bytes into tensor f32 [4, 5] on cuda:0 (simulated), made at ",
                "; copy it with tern_cpu\n");
}

static void test_a_write_through_a_view_names_its_base(void **state)
{
    (void)state;
    assert_says(write_through_a_view,
                "tern: host write 136 bytes into tensor f64 [8, 8] on cuda:1 (simulated), made at ",
                "; copy it with tern_cpu\n");
}

static void test_past_the_end_is_said(void **state)
{
    (void)state;
    assert_says(read_past_a_tensor,
                "tern: host read 7 bytes past the end of tensor f32 [3] on cuda:0", "\n");
}

static void test_memory_without_a_tensor_has_a_line(void **state)
{
    (void)state;
    assert_says(read_raw_memory, "tern: host read 0 bytes into memory of 4096 bytes on cuda:0",
                "; the host cannot reach it, kernels and copies can\n");
}

static void test_released_memory_is_nobodys(void **state)
{
    (void)state;
    char text[8192];
    assert_true(crash_text(read_a_released_tensor, text, sizeof text));
    assert_non_null(strstr(text, "into memory that no tensor holds any more on cuda:0"));
}

static void test_other_threads_tensors_are_found(void **state)
{
    (void)state;
    assert_says(read_another_threads_tensor, "0 bytes into tensor f32 [7] on cuda:0",
                "; copy it with tern_cpu\n");
}

static void test_the_address_itself_is_no_secret(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *here = tern_ones(TERN_SHAPE(4));
    assert_ptr_equal(tern_data_ptr(here), tern_data(here));
    assert_ptr_equal(tern_data_ptr(tern_slice(here, 0, 1, 2)), (float *)tern_data(here) + 1);
    assert_null(tern_data_ptr(tern_ones(TERN_SHAPE(0), .device = TERN_CUDA(0))));
    assert_no_error();
    assert_null(tern_data_ptr(NULL));
    assert_error(TERN_ERR_ARGUMENT, "the tensor is NULL");
}

int main(void)
{
    (void)setenv("TERN_SIM_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        /* children first: they cannot use what their parent has started */
        cmocka_unit_test(test_a_copy_under_way_is_said),
        cmocka_unit_test(test_a_read_names_tensor_and_line),
        cmocka_unit_test(test_a_write_through_a_view_names_its_base),
        cmocka_unit_test(test_past_the_end_is_said),
        cmocka_unit_test(test_memory_without_a_tensor_has_a_line),
        cmocka_unit_test(test_released_memory_is_nobodys),
        cmocka_unit_test(test_other_threads_tensors_are_found),
        cmocka_unit_test(test_the_address_itself_is_no_secret),
        cmocka_unit_test(test_a_missing_wait_names_tensor_and_line),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
