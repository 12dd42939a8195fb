/* DLPack: what goes out comes in over the same memory, deleters run once, and what does not fit is refused
 * with its deleter called. */
#include "tests/support/check.h"

#include "io/dlpack.h"

/* ---- out and in -------------------------------------------------------------------------------- */

static void test_every_dtype_goes_out_and_comes_in(void **unused)
{
    (void)unused;
    for (int d = TERN_BOOL; d < TERN_DTYPES; d++) {
        TERN_SCOPE;
        tern_tensor *t = tern_ones(TERN_SHAPE(2, 3), .dtype = (tern_dtype_t)d);
        struct DLManagedTensorVersioned *out = tern_to_dlpack(t);
        assert_non_null(out);
        assert_int_equal(out->major, 1);
        assert_int_equal(out->flags, 0);
        assert_int_equal(out->tensor.bits, 8 * tern_dtype_size((tern_dtype_t)d));
        assert_int_equal(out->tensor.lanes, 1);
        const bool cuda = tern_device(t).kind == TERN_KIND_CUDA;
        assert_int_equal(out->tensor.device_type, cuda ? DLPACK_CUDA : DLPACK_CPU);
        assert_int_equal(out->tensor.device_id, cuda ? tern_device(t).index : 0);
        tern_tensor *back = tern_from_dlpack(out);
        assert_no_error();
        assert_int_equal(tern_dtype(back), d);
        assert_true(tern_dev_equal(tern_device(back), tern_device(t)));
        assert_ptr_equal(tern_data_ptr(back), tern_data_ptr(t));
        tern_fill(t, 0);
        assert_true(tern_item(tern_select(tern_select(back, 0, 1), 0, 2)) == 0);
    }
}

static void test_views_keep_their_strides(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *t = tern_reshape(tern_arange(.end = 24, .dtype = TERN_F32), TERN_SHAPE(2, 3, 4));
    tern_tensor *views[] = { tern_transpose(t, 0, 2), tern_slice(t, 2, 1, 4, 2),
                             tern_expand(tern_select(t, 1, 1), TERN_SHAPE(5, 2, 4)),
                             tern_select(tern_select(tern_select(t, 0, 1), 0, 1), 0, 1),
                             tern_zeros(TERN_SHAPE(0, 3)) };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct DLManagedTensor *out = tern_to_dlpack_unversioned(views[i]);
        assert_non_null(out);
        if (tern_numel(views[i]) == 0)
            assert_null(out->tensor.data);
        tern_tensor *back = tern_from_dlpack_unversioned(out);
        assert_no_error();
        assert_int_equal(tern_ndim(back), tern_ndim(views[i]));
        for (int d = 0; d < tern_ndim(back); d++) {
            assert_int_equal(tern_size(back, d), tern_size(views[i], d));
            assert_int_equal(tern_stride(back, d), tern_stride(views[i], d));
        }
        if (tern_numel(back) > 0)
            assert_true(tern_item(tern_sum(tern_ne(back, views[i]))) == 0);
    }
}

/* The memory lives as long as the managed tensor, whatever becomes of t. */
static void test_the_memory_outlives_the_tensor(void **unused)
{
    (void)unused;
    struct DLManagedTensorVersioned *out;
    const int64_t before = tern_live_tensors();
    {
        TERN_SCOPE;
        out = tern_to_dlpack(tern_full(7, TERN_SHAPE(1000)));
    }
    assert_int_equal(tern_live_tensors(), before + 1);
    {
        TERN_SCOPE;
        assert_true(tern_item(tern_sum(tern_from_dlpack(out))) == 7000);
    }
    assert_int_equal(tern_live_tensors(), before);
    assert_no_error();
}

static void test_what_cannot_go_out_is_refused(void **unused)
{
    (void)unused;
    TERN_SCOPE;
    tern_tensor *leaf = tern_ones(TERN_SHAPE(2), .requires_grad = true);
    assert_null(tern_to_dlpack(leaf));
    assert_error(TERN_ERR_GRAD, "try tern_detach(t)");
    tern_tensor *base = tern_zeros(TERN_SHAPE(4)), *view = tern_slice(base, 0, 0, 2);
    (void)tern_add_(base, tern_cat(0, leaf, leaf)); /* nobody has asked the view since */
    assert_null(tern_to_dlpack(view));
    assert_error(TERN_ERR_GRAD, "try tern_detach(t)");
    assert_null(tern_to_dlpack_unversioned(NULL));
    assert_error(TERN_ERR_ARGUMENT, "the tensor is NULL");
    struct DLManagedTensor *out = tern_to_dlpack_unversioned(tern_detach(leaf));
    assert_non_null(out);
    out->deleter(out);
}

/* ---- tensors of others ------------------------------------------------------------------------- */

typedef struct foreign {
    struct DLManagedTensorVersioned managed;
    int64_t shape[9], strides[9];
    float data[12];
    int deleted;
} foreign;

static void delete_foreign(struct DLManagedTensorVersioned *self)
{
    ((foreign *)self->manager_ctx)->deleted++;
}

/* A [3, 4] array of f32 with row-major strides. */
static void make_foreign(foreign *f)
{
    *f = (foreign){ .shape = { 3, 4 }, .strides = { 4, 1 } };
    for (int i = 0; i < 12; i++)
        f->data[i] = (float)i;
    f->managed = (struct DLManagedTensorVersioned){ .major = 1,
                                                    .minor = 2,
                                                    .manager_ctx = f,
                                                    .deleter = delete_foreign,
                                                    .tensor = { .data = f->data,
                                                                .device_type = DLPACK_CPU,
                                                                .ndim = 2,
                                                                .code = DLPACK_FLOAT,
                                                                .bits = 32,
                                                                .lanes = 1,
                                                                .shape = f->shape,
                                                                .strides = f->strides } };
}

static void test_the_deleter_runs_when_the_last_view_ends(void **unused)
{
    (void)unused;
    foreign f;
    make_foreign(&f);
    tern_tensor *view;
    {
        TERN_SCOPE;
        tern_tensor *t = tern_from_dlpack(&f.managed);
        assert_ptr_equal(tern_data(t), f.data);
        view = tern_retain(tern_select(t, 0, 1));
    }
    assert_int_equal(f.deleted, 0);
    f.data[5] = 50;
    {
        TERN_SCOPE;
        assert_true(tern_item(tern_select(view, 0, 1)) == 50);
    }
    tern_release(view);
    assert_int_equal(f.deleted, 1);
    assert_no_error();
}

static void test_offsets_strides_and_page_locked_memory(void **unused)
{
    (void)unused;
    foreign f; /* outlives the scope, which calls its deleter */
    TERN_SCOPE;
    make_foreign(&f);
    f.managed.tensor.byte_offset = 2 * sizeof(float);
    f.managed.tensor.device_type = DLPACK_CUDA_HOST;
    f.shape[0] = 2, f.shape[1] = 3;
    f.strides[0] = 1, f.strides[1] = 3;
    {
        TERN_SCOPE;
        tern_tensor *t = tern_from_dlpack(&f.managed);
        assert_no_error();
        assert_int_equal(tern_device(t).kind, TERN_KIND_CPU);
        assert_true(tern_item(tern_select(tern_select(t, 0, 1), 0, 2)) == 2 + 1 + 6);
        assert_int_equal(f.deleted, 0);
    }
    assert_int_equal(f.deleted, 1);
    make_foreign(&f);
    f.managed.tensor.strides = NULL; /* row-major, before 1.2 */
    tern_tensor *t = tern_from_dlpack(&f.managed);
    assert_int_equal(tern_stride(t, 0), 4);
    assert_true(tern_is_contiguous(t));
}

static void test_read_only_memory_is_copied(void **unused)
{
    (void)unused;
    foreign f; /* outlives the scope, which calls its deleter */
    TERN_SCOPE;
    make_foreign(&f);
    f.managed.flags = DLPACK_READ_ONLY;
    tern_tensor *t = tern_from_dlpack(&f.managed);
    assert_no_error();
    assert_int_equal(f.deleted, 1);
    assert_ptr_not_equal(tern_data(t), f.data);
    assert_true(tern_item(tern_sum(t)) == 66);
}

static void refuse(foreign *f, tern_status_t code, const char *words)
{
    assert_null(tern_from_dlpack(&f->managed));
    assert_error(code, words);
    assert_int_equal(f->deleted, 1);
    make_foreign(f);
}

static void test_what_does_not_fit_is_deleted_and_refused(void **unused)
{
    (void)unused;
    foreign f;
    make_foreign(&f);
    f.managed.major = 2;
    refuse(&f, TERN_ERR_FORMAT, "DLPack 2.2, not 1");
    f.managed.tensor.lanes = 4;
    refuse(&f, TERN_ERR_DTYPE, "type code 2 of 32 bits and 4 lanes");
    f.managed.tensor.code = 5;
    refuse(&f, TERN_ERR_DTYPE, "type code 5");
    f.managed.tensor.device_type = 10;
    refuse(&f, TERN_ERR_DEVICE, "device type 10, number 0");
    f.managed.tensor.device_type = DLPACK_CUDA;
    f.managed.tensor.device_id = 99;
    refuse(&f, TERN_ERR_DEVICE, "device type 2, number 99");
    f.managed.tensor.ndim = 9;
    refuse(&f, TERN_ERR_SHAPE, "the tensor has 9 dimensions, and one of tern at most 8");
    f.managed.tensor.shape = NULL;
    refuse(&f, TERN_ERR_SHAPE, "the tensor's extents are NULL");
    f.shape[0] = -1;
    refuse(&f, TERN_ERR_SHAPE, "an extent is negative");
    f.strides[0] = -4;
    refuse(&f, TERN_ERR_SHAPE, "try numpy.ascontiguousarray");
    f.strides[0] = INT64_MAX;
    refuse(&f, TERN_ERR_SHAPE, "the strides span more than");
    f.managed.tensor.data = NULL;
    refuse(&f, TERN_ERR_ARGUMENT, "the data is NULL");
    f.managed.tensor.byte_offset = 2;
    refuse(&f, TERN_ERR_ARGUMENT, "a multiple of its elements' size");
    assert_null(tern_from_dlpack(NULL));
    assert_error(TERN_ERR_ARGUMENT, "the managed tensor is NULL");
    tern_fail(TERN_ERR_STATE, "test", "pending");
    assert_null(tern_from_dlpack(&f.managed));
    assert_int_equal(f.deleted, 1);
    assert_error(TERN_ERR_STATE, "pending");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_goes_out_and_comes_in),
        cmocka_unit_test(test_views_keep_their_strides),
        cmocka_unit_test(test_the_memory_outlives_the_tensor),
        cmocka_unit_test(test_what_cannot_go_out_is_refused),
        cmocka_unit_test(test_the_deleter_runs_when_the_last_view_ends),
        cmocka_unit_test(test_offsets_strides_and_page_locked_memory),
        cmocka_unit_test(test_read_only_memory_is_copied),
        cmocka_unit_test(test_what_does_not_fit_is_deleted_and_refused),
    };
    return check_run(tests, NULL, NULL);
}
