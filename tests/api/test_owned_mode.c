/* Owned mode, as bindings have it: what the library makes on its way is not handed to a caller who does not know of
 * it. */
#include "tern/checkpoint.h"
#include "tests/support/check.h"
#include "tests/support/files.h"

static int clear(void **state)
{
    (void)state;
    tern_set_owned_mode(false);
    tern_error_clear();
    return 0;
}

static int64_t live_after_a_pass(tern_dataset *data)
{
    tern_loader *loader = tern_loader_open(data, .batch = 8);
    tern_batch b;
    int batches = 0;
    while (tern_loader_next(loader, &b))
        batches++;
    assert_int_equal(batches, 8);
    tern_loader_close(loader);
    return tern_live_tensors();
}

static void test_datasets_and_batches_leave_nothing(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_tensor *x = tern_ones(TERN_SHAPE(4, 64)), *y = tern_zeros(TERN_SHAPE(64));
    tern_tensor *turned = tern_transpose(x, 0, 1);
    tern_dataset *data = tern_dataset_from_tensors(turned, y);
    assert_no_error();
    tern_release(x);
    tern_release(y);
    tern_release(turned);
    const int64_t with = tern_live_tensors();
    assert_int_equal(live_after_a_pass(data), with);
    tern_dataset_free(data);
    assert_int_equal(tern_live_tensors(), before);
    tern_dataset *digits = tern_digits(20, 1);
    tern_dataset_free(digits);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_a_root_that_is_a_leaf_leaves_its_gradient_alone(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_tensor *v = tern_ones(TERN_SCALAR_SHAPE, .requires_grad = true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tern_backward(v, .create_graph = i == 2), TERN_OK);
    tern_tensor *grad = tern_grad_of(v);
    assert_close(tern_item(grad), 3, 0);
    tern_release(v);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_a_gradient_of_another_dtype_leaves_nothing(void **state)
{
    (void)state;
    const int64_t before = tern_live_tensors();
    tern_set_owned_mode(true);
    tern_tensor *w = tern_ones(TERN_SCALAR_SHAPE, .requires_grad = true);
    tern_tensor *v = tern_mul(w, 2.0), *g = tern_ones(TERN_SCALAR_SHAPE, .dtype = TERN_F64);
    assert_int_equal(tern_backward(v, g), TERN_OK);
    assert_close(tern_item(tern_grad_of(w)), 2, 0);
    tern_release(v);
    tern_release(g);
    tern_release(w);
    assert_int_equal(tern_live_tensors(), before);
}

/* ---- classes of calls, by what they give back ------------------------------------------------- */

/* What the calls below are given besides t, f32 [4, 4]; the fixture's, made in owned mode. */
typedef struct fixture {
    tern_tensor *row, *numbers, *mask;
    tern_module *net, *empty;
} fixture;
static fixture made;

static int make_fixture(void **state)
{
    (void)state;
    tern_set_owned_mode(true);
    made.row = tern_ones(TERN_SHAPE(4));
    made.numbers = tern_zeros(TERN_SHAPE(4, 4), .dtype = TERN_I64);
    made.mask = tern_full(true, TERN_SHAPE(4, 4), .dtype = TERN_BOOL);
    made.net = tern_sequential(tern_linear_layer(4, 4), tern_relu_layer(), tern_linear_layer(4, 4),
                               tern_relu_layer(), tern_linear_layer(4, 4));
    made.empty = tern_sequential_at(TERN_HERE, NULL, 0);
    return tern_failed() ? 1 : 0;
}

static int free_fixture(void **state)
{
    tern_release(made.row);
    tern_release(made.numbers);
    tern_release(made.mask);
    tern_module_free(made.net);
    tern_module_free(made.empty);
    return clear(state);
}

typedef struct call {
    const char *text;
    tern_tensor *(*run)(tern_tensor *t);
} call;

/* References of t and of the result that have to be released until nothing is left, 9: there is always something. */
static int references_after(const call *c, bool *out_same)
{
    const int64_t before = tern_live_tensors();
    tern_tensor *t = tern_ones(TERN_SHAPE(4, 4));
    tern_tensor *y = c->run(t);
    if (tern_failed())
        fail_msg("%s: %s", c->text, tern_error_text());
    *out_same = y == t;
    int released = 0;
    if (y != t) {
        tern_release(y);
        released++;
    }
    /* what is left of t, or of what was made on the way, which nothing releases */
    while (tern_live_tensors() > before && released < (y != t ? 2 : 9)) {
        tern_release(t);
        released++;
    }
    return tern_live_tensors() > before ? 9 : released;
}

static void check_calls(const call *calls, size_t count, bool same, int references)
{
    for (size_t i = 0; i < count; i++) {
        bool is_same;
        const int released = references_after(&calls[i], &is_same);
        if (is_same != same || released != references)
            fail_msg("%s: %d references, of %s", calls[i].text, released,
                     is_same ? "the argument" : "another tensor");
    }
}

#define RUN(name, call)                      \
    static tern_tensor *name(tern_tensor *t) \
    {                                        \
        return call;                         \
    }
/* clang-format off */
RUN(add_, tern_add_(t, 1))
RUN(relu_, tern_relu_(t))
RUN(clamp_, tern_clamp_(t, 0, 1))
RUN(masked_fill_, tern_masked_fill_(t, made.mask, 2))
RUN(scatter_, tern_scatter_(t, 0, made.numbers, t))
RUN(copy_row, tern_copy(t, made.row))
RUN(fill, tern_fill(t, 2))
RUN(requires, tern_set_requires_grad(t, true))
RUN(normal, tern_init_normal(t, 0, 1))
RUN(uniform, tern_init_uniform(t, 0, 1))
RUN(constant, tern_init_constant(t, 2))
RUN(kaiming_uniform, tern_init_kaiming_uniform(t))
RUN(kaiming_normal, tern_init_kaiming_normal(t))
RUN(xavier_uniform, tern_init_xavier_uniform(t))
RUN(xavier_normal, tern_init_xavier_normal(t))

RUN(contiguous, tern_contiguous(t))
RUN(cpu, tern_cpu(t))
RUN(cast, tern_cast(t, TERN_F32))
RUN(no_dropout, tern_dropout(t, 0.5, .evaluating = true))
RUN(no_layer, tern_forward(made.empty, t))
RUN(no_layer_again, tern_checkpoint_forward(made.empty, t))

RUN(add, tern_add(t, 1))
RUN(reshape, tern_reshape(t, TERN_SHAPE(2, 8)))
RUN(clone, tern_clone(t))
RUN(detach, tern_detach(t))
RUN(f64, tern_cast(t, TERN_F64))
RUN(mean, tern_mean(t))
RUN(deviation, tern_std(t))
RUN(softmax, tern_softmax(t, 1))
RUN(where, tern_where(made.mask, t, t))
RUN(dropout, tern_dropout(t, 0.5))
RUN(forward, tern_forward(made.net, t))
RUN(forward_again, tern_checkpoint_forward(made.net, t))
RUN(one_segment, tern_checkpoint_sequential(made.net, 1, t))
RUN(two_segments, tern_checkpoint_sequential(made.net, 2, t))
RUN(five_segments, tern_checkpoint_sequential(made.net, 5, t))
/* clang-format on */

#define CALL(name)  \
    {               \
#name, name \
    }
#define CHECK(calls, same, references) \
    check_calls(calls, sizeof(calls) / sizeof(calls)[0], same, references)

static void test_what_writes_its_argument_gives_no_reference_more(void **state)
{
    (void)state;
    static const call calls[] = {
        CALL(add_),           CALL(relu_),          CALL(clamp_),        CALL(masked_fill_),
        CALL(scatter_),       CALL(copy_row),       CALL(fill),          CALL(requires),
        CALL(normal),         CALL(uniform),        CALL(constant),      CALL(kaiming_uniform),
        CALL(kaiming_normal), CALL(xavier_uniform), CALL(xavier_normal),
    };
    CHECK(calls, true, 1);
}

static void test_what_has_nothing_to_do_gives_one_reference_more(void **state)
{
    (void)state;
    static const call calls[] = {
        CALL(contiguous), CALL(cpu),      CALL(cast),
        CALL(no_dropout), CALL(no_layer), CALL(no_layer_again),
    };
    CHECK(calls, true, 2);
}

static void test_results_are_all_that_is_left(void **state)
{
    (void)state;
    static const call calls[] = {
        CALL(add),         CALL(reshape),      CALL(clone),         CALL(detach),
        CALL(f64),         CALL(mean),         CALL(deviation),     CALL(softmax),
        CALL(where),       CALL(dropout),      CALL(forward),       CALL(forward_again),
        CALL(one_segment), CALL(two_segments), CALL(five_segments),
    };
    CHECK(calls, false, 2);
    const bool recording = tern_set_grad_enabled(false);
    CHECK(calls, false, 2);
    tern_set_grad_enabled(recording);
}

/* ---- what fails half-way ---------------------------------------------------------------------- */

static void check_refused(file_bytes bytes, const char *words)
{
    const int64_t before = tern_live_tensors();
    assert_null(tern_idx_read(file_write("a.idx", bytes)));
    assert_error(TERN_ERR_FORMAT, words);
    assert_int_equal(tern_live_tensors(), before);
}

static void test_refused_files_leave_nothing(void **state)
{
    (void)state;
    static const uint32_t extents[] = { 2, 3 };
    static const uint8_t elements[7] = { 1, 2, 3, 4, 5, 6, 7 };
    tern_set_owned_mode(true);
    check_refused(file_idx(0x08, 2, extents, elements, 5), "cut off");
    check_refused(file_idx(0x08, 2, extents, elements, 7), "longer than its header says");
    file_bytes whole = file_idx(0x08, 2, extents, elements, 6), packed = file_gzip(&whole);
    file_bytes_free(&whole);
    packed.count -= 4;
    check_refused(packed, "the packed data is cut off");
}

int main(void)
{
#define WITH(name) cmocka_unit_test_setup_teardown(name, make_fixture, free_fixture)
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_datasets_and_batches_leave_nothing),
        TEST(test_a_root_that_is_a_leaf_leaves_its_gradient_alone),
        TEST(test_a_gradient_of_another_dtype_leaves_nothing),
        WITH(test_what_writes_its_argument_gives_no_reference_more),
        WITH(test_what_has_nothing_to_do_gives_one_reference_more),
        WITH(test_results_are_all_that_is_left),
        TEST(test_refused_files_leave_nothing),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
