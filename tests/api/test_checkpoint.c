/* Checkpoints: the same gradients bit for bit, less memory, and PyTorch's rules on what is run again. */
#include "tests/support/check.h"

enum { WIDTH = 32, ROWS = 8 };

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    return 0;
}

typedef struct block {
    tern_tensor *w1, *w2;
    double p;
    int calls, finished, released;
    int64_t width_again; /* of what the second call makes of the input; 0: the same */
    int twice;           /* the second call saves more */
    struct block *inner; /* checkpointed between the two layers */
    bool plain_inner;
} block;

static tern_tensor *weight(uint64_t seed)
{
    tern_seed(seed);
    tern_tensor *w = tern_mul(tern_randn(TERN_SHAPE(WIDTH, WIDTH)), 0.2);
    return tern_set_requires_grad(w, true);
}

static block new_block(uint64_t seed)
{
    return (block){ .w1 = weight(seed), .w2 = weight(seed + 1), .p = 0.5 };
}

static void on_release(void *user)
{
    ((block *)user)->released++;
}

static tern_tensor *run_block(tern_tensor *const *in, int64_t count, void *user)
{
    block *b = user;
    (void)count;
    b->calls++;
    tern_tensor *x = in[0];
    if (b->calls > 1 && b->width_again > 0)
        x = tern_slice(x, 0, 0, b->width_again);
    tern_tensor *h = tern_dropout(tern_tanh(tern_matmul(x, b->w1)), b->p);
    if (b->inner != NULL && b->plain_inner)
        h = run_block(&h, 1, b->inner);
    else if (b->inner != NULL)
        h = tern_checkpoint(run_block, &h, 1, b->inner);
    tern_tensor *y = tern_sigmoid(tern_matmul(h, b->w2));
    if (b->calls > 1 && b->twice)
        y = tern_exp(y);
    b->finished += y != NULL;
    return y;
}

static tern_tensor *input(void)
{
    tern_seed(77);
    return tern_randn(TERN_SHAPE(ROWS, WIDTH), .requires_grad = true);
}

/* The program's generator begins anew, so that two programs draw the same. */
static tern_tensor *loss_of(block *b, tern_tensor *x, bool checkpointed)
{
    tern_seed(5);
    tern_tensor *y = checkpointed ? tern_checkpoint(run_block, &x, 1, b) : run_block(&x, 1, b);
    return tern_sum(tern_mul(y, tern_dropout(y, 0.25)));
}

static void assert_same(tern_tensor *a, tern_tensor *b)
{
    assert_no_error();
    assert_non_null(a);
    assert_non_null(b);
    assert_true(tern_item(tern_sum(tern_ne(a, b))) == 0);
    assert_no_error();
}

static void check_like_plain(block *plain, block *b)
{
    tern_tensor *x = input(), *z = input();
    tern_backward(loss_of(plain, x, false));
    tern_tensor *after = tern_rand(TERN_SHAPE(4));
    tern_tensor *loss = loss_of(b, z, true);
    tern_backward(loss);
    assert_same(tern_rand(TERN_SHAPE(4)), after); /* the generator is where it was */
    assert_same(tern_grad_of(x), tern_grad_of(z));
    assert_same(tern_grad_of(plain->w1), tern_grad_of(b->w1));
    assert_same(tern_grad_of(plain->w2), tern_grad_of(b->w2));
}

static void test_gradients_and_random_numbers_are_the_same(void **state) /* C005, C009 */
{
    (void)state;
    TERN_SCOPE;
    block plain = new_block(1), b = new_block(1);
    check_like_plain(&plain, &b);
    assert_int_equal(b.calls, 2);
}

static void test_random_numbers_may_be_new(void **state) /* C009 */
{
    (void)state;
    TERN_SCOPE;
    block plain = new_block(1), b = new_block(1);
    tern_tensor *x = input(), *z = input();
    tern_backward(loss_of(&plain, x, false));
    tern_seed(5);
    tern_tensor *y = tern_checkpoint(run_block, &z, 1, &b, .no_rng = true);
    tern_backward(tern_sum(tern_mul(y, tern_dropout(y, 0.25))));
    assert_no_error();
    assert_true(tern_item(tern_sum(tern_ne(tern_grad_of(x), tern_grad_of(z)))) > 0);
}

static void test_nested(void **state) /* C005 */
{
    (void)state;
    TERN_SCOPE;
    block plain_inner = new_block(3), inner = new_block(3), innermost = new_block(7);
    block plain_innermost = new_block(7);
    block plain = new_block(1), b = new_block(1);
    plain.inner = &plain_inner;
    plain.plain_inner = plain_inner.plain_inner = true;
    b.inner = &inner;
    plain_inner.inner = &plain_innermost;
    inner.inner = &innermost;
    check_like_plain(&plain, &b);
    assert_same(tern_grad_of(plain_inner.w1), tern_grad_of(inner.w1));
    assert_same(tern_grad_of(plain_innermost.w2), tern_grad_of(innermost.w2));
    assert_int_equal(b.calls, 2);
    assert_int_equal(inner.calls,
                     3); /* once in forward, once in b's second call, once for itself */
    assert_int_equal(innermost.calls, 4);
}

static void test_the_second_call_ends_early(void **state) /* C006 */
{
    (void)state;
    TERN_SCOPE;
    block b = new_block(1), full = new_block(1);
    tern_tensor *x = input(), *w = tern_full(2.0, TERN_SCALAR_SHAPE);
    b.p = full.p = 0;
    /* the last thing saved is sigmoid's result: made, then the call is over */
    tern_backward(tern_sum(tern_mul(tern_checkpoint(run_block, &x, 1, &b), w)));
    assert_no_error();
    assert_int_equal(b.calls, 2);
    b.finished = b.calls = 0;
    tern_tensor *y = tern_checkpoint(run_block, &x, 1, &full, .no_early_stop = true);
    tern_backward(tern_sum(y));
    assert_no_error();
    assert_int_equal(full.finished, 2);
}

static tern_tensor *long_tail(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    tern_tensor *y = tern_exp(in[0]);
    for (int i = 0; i < 3; i++)
        y = tern_neg(y); /* saves nothing */
    *(int *)user += y != NULL;
    return y;
}

static void test_what_comes_after_the_last_saved_tensor_is_not_run(void **state) /* C006 */
{
    (void)state;
    TERN_SCOPE;
    int finished = 0;
    tern_tensor *x = input();
    tern_backward(tern_sum(tern_checkpoint(long_tail, &x, 1, &finished)));
    assert_no_error();
    assert_int_equal(finished, 1);
    tern_tensor *all = tern_checkpoint(long_tail, &x, 1, &finished, .no_early_stop = true);
    tern_backward(tern_sum(all));
    assert_no_error();
    assert_int_equal(finished, 3);
}

static void test_a_function_that_does_something_else_is_told(void **state) /* C007 */
{
    (void)state;
    TERN_SCOPE;
    block b = new_block(1);
    tern_tensor *x = input();
    b.width_again = ROWS / 2;
    tern_backward(tern_sum(tern_checkpoint(run_block, &x, 1, &b)));
    assert_error(TERN_ERR_GRAD, "f32 [4, 32]");
    b.calls = 0;
    b.width_again = 0;
    b.twice = 1;
    tern_tensor *y = tern_checkpoint(run_block, &x, 1, &b, .no_early_stop = true);
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "the second run");
}

static void test_shapes_may_go_unchecked(void **state) /* C007 */
{
    (void)state;
    TERN_SCOPE;
    block b = new_block(1);
    tern_tensor *x = input();
    b.width_again = ROWS / 2;
    tern_tensor *y = tern_checkpoint(run_block, &x, 1, &b, .unchecked = true);
    tern_backward(tern_sum(y));
    assert_true(tern_failed()); /* nothing compared them; the products' shapes do not fit */
    assert_null(strstr(tern_error_text(), "computed again, and was"));
    tern_error_clear();
}

static int64_t live_bytes(void)
{
    return tern_memory_stats(tern_default_device()).allocated_bytes.current;
}

static void test_what_is_computed_again_does_not_stay(void **state) /* C008 */
{
    (void)state;
    TERN_SCOPE;
    block plain = new_block(1), b = new_block(1);
    tern_tensor *x = input();
    const int64_t start = live_bytes();
    tern_tensor *kept = tern_retain(run_block(&x, 1, &plain));
    const int64_t with_scope = live_bytes();
    (void)with_scope;
    tern_tensor *y = tern_checkpoint(run_block, &x, 1, &b);
    tern_tensor *loss = tern_sum(y), *grad[1];
    const int64_t before = live_bytes();
    for (int i = 0; i < 2; i++) {
        TERN_SCOPE;
        tern_grad(loss, &x, 1, grad, .retain_graph = true);
        assert_no_error();
        assert_int_equal(b.calls, 2 + i); /* each backward computes it again */
        tern_drop(grad[0]);
        assert_int_equal(live_bytes(), before);
    }
    assert_true(before - with_scope < (with_scope - start) / 3);
    tern_release(kept);
}

static void test_autocast_is_that_of_forward(void **state) /* C012 */
{
    (void)state;
    TERN_SCOPE;
    block plain = new_block(1), b = new_block(1);
    tern_tensor *x = input(), *z = input(), *y, *u;
    {
        TERN_AUTOCAST(tern_default_device());
        tern_seed(5);
        y = run_block(&x, 1, &plain);
        tern_seed(5);
        u = tern_checkpoint(run_block, &z, 1, &b);
    }
    assert_int_not_equal(tern_dtype(u), TERN_F32);
    tern_backward(tern_sum(y));
    tern_backward(tern_sum(u));
    assert_same(tern_grad_of(x), tern_grad_of(z));
    assert_same(tern_grad_of(plain.w1), tern_grad_of(b.w1));
    assert_false(tern_autocast_enabled(tern_default_device()));
}

static void test_chosen_gradients_and_those_of_gradients(void **state) /* C005 */
{
    (void)state;
    TERN_SCOPE;
    block plain = new_block(1), b = new_block(1);
    tern_tensor *x = input(), *z = input(), *g[1], *h[1], *gg[2], *hh[2];
    tern_grad(loss_of(&plain, x, false), &plain.w2, 1, g, .create_graph = true);
    tern_grad(loss_of(&b, z, true), &b.w2, 1, h, .create_graph = true);
    assert_same(g[0], h[0]);
    tern_grad(tern_sum(tern_mul(g[0], g[0])), ((tern_tensor *[]){ x, plain.w1 }), 2, gg);
    tern_grad(tern_sum(tern_mul(h[0], h[0])), ((tern_tensor *[]){ z, b.w1 }), 2, hh);
    assert_same(gg[0], hh[0]);
    assert_same(gg[1], hh[1]);
    assert_null(tern_grad_of(b.w1));
}

static void test_the_function_is_let_go_with_the_graph(void **state)
{
    (void)state;
    TERN_SCOPE;
    block b = new_block(1);
    {
        TERN_SCOPE;
        tern_tensor *x = input();
        tern_backward(tern_sum(tern_checkpoint(run_block, &x, 1, &b, .release = on_release)));
    }
    assert_no_error();
    assert_int_equal(b.released, 1);
    assert_null(tern_checkpoint(NULL, NULL, 0, &b, .release = on_release));
    assert_error(TERN_ERR_ARGUMENT, "the function or an input is NULL");
    assert_int_equal(b.released, 2);
}

static void test_nothing_recorded_nothing_kept(void **state)
{
    (void)state;
    TERN_SCOPE;
    block b = new_block(1);
    tern_tensor *x = input();
    TERN_NO_GRAD;
    tern_tensor *y = tern_checkpoint(run_block, &x, 1, &b, .release = on_release);
    assert_no_error();
    assert_false(tern_requires_grad(y));
    assert_int_equal(b.released, 1);
}

static void test_a_changed_input_is_an_error(void **state)
{
    (void)state;
    TERN_SCOPE;
    block b = new_block(1);
    tern_tensor *x = tern_detach(input());
    tern_tensor *y = tern_checkpoint(run_block, &x, 1, &b);
    tern_add_(x, 1);
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_GRAD, "input 0 was changed in place after forward");
}

/* Statistics and their number, in both runs, as in PyTorch. */
static void test_statistics_are_counted_as_often_as_they_are_moved(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_module *norm = tern_batch_norm1d_layer(1);
    tern_tensor *x = tern_full(10.0, TERN_SHAPE(4, 1), .requires_grad = true);
    tern_backward(tern_sum(tern_checkpoint_forward(norm, x)));
    assert_no_error();
    assert_close(tern_item(tern_module_tensor(norm, "running_mean")), 1.9, 1e-6);
    assert_true(tern_item(tern_module_tensor(norm, "num_batches_tracked")) == 2);
    tern_module_free(norm);
}

static tern_tensor *fails(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count;
    if (++*(int *)user > 1)
        return tern_matmul(in[0], in[0]);
    return tern_exp(in[0]);
}

static void test_an_error_of_either_call_is_the_callers(void **state)
{
    (void)state;
    TERN_SCOPE;
    int calls = 0;
    tern_tensor *x = input();
    tern_tensor *y = tern_checkpoint(fails, &x, 1, &calls);
    tern_backward(tern_sum(y));
    assert_error(TERN_ERR_SHAPE, "inner sizes differ");
    assert_null(tern_grad_of(x));
    assert_null(tern_checkpoint(fails, &x, 1, &calls));
    assert_error(TERN_ERR_SHAPE, "inner sizes differ");
}

static tern_tensor *gives_nothing(tern_tensor *const *in, int64_t count, void *user)
{
    (void)in, (void)count, (void)user;
    return NULL;
}

static void test_a_function_without_a_result_is_an_error(void **state)
{
    (void)state;
    TERN_SCOPE;
    tern_tensor *x = input();
    assert_null(tern_checkpoint(gives_nothing, &x, 1));
    assert_error(TERN_ERR_STATE, "checkpoint: the function returned NULL");
    TERN_NO_GRAD;
    assert_null(tern_checkpoint(gives_nothing, &x, 1));
    assert_error(TERN_ERR_STATE, "checkpoint: the function returned NULL");
}

/* ---- modules ------------------------------------------------------------------------------------- */

static int forwards[5];

static tern_tensor *count_forward(tern_module *m, tern_tensor *x)
{
    for (int i = 0; i < 5; i++)
        forwards[i] += m->type[0] == '0' + i;
    return tern_tanh(tern_mul(x, 1.5));
}

static void test_a_sequential_in_segments(void **state) /* C013 */
{
    (void)state;
    TERN_SCOPE;
    static const char *const types[] = { "0", "1", "2", "3", "4" };
    tern_module *s = tern_sequential_at(TERN_HERE, NULL, 0);
    for (int i = 0; i < 5; i++)
        tern_sequential_add(
            s, NULL,
            tern_module_create_at(TERN_HERE, sizeof(tern_module), types[i], count_forward));
    tern_tensor *x = input(), *z = input();
    tern_backward(tern_sum(tern_forward(s, x)));
    memset(forwards, 0, sizeof forwards);
    tern_backward(tern_sum(tern_checkpoint_sequential(s, 2, z)));
    assert_same(tern_grad_of(x), tern_grad_of(z));
    const int wanted[5] = { 2, 2, 1, 1, 1 }; /* segments of 5 / 2 modules; the last runs as it is */
    assert_memory_equal(forwards, wanted, sizeof wanted);
    assert_null(tern_checkpoint_sequential(s, 6, x));
    assert_error(TERN_ERR_ARGUMENT, "6 segments of a sequential of 5");
    tern_tensor *u = input();
    tern_backward(tern_sum(tern_checkpoint_forward(s, u)));
    assert_same(tern_grad_of(x), tern_grad_of(u));
    tern_module_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_gradients_and_random_numbers_are_the_same, clear),
        cmocka_unit_test_setup(test_random_numbers_may_be_new, clear),
        cmocka_unit_test_setup(test_nested, clear),
        cmocka_unit_test_setup(test_the_second_call_ends_early, clear),
        cmocka_unit_test_setup(test_what_comes_after_the_last_saved_tensor_is_not_run, clear),
        cmocka_unit_test_setup(test_a_function_that_does_something_else_is_told, clear),
        cmocka_unit_test_setup(test_shapes_may_go_unchecked, clear),
        cmocka_unit_test_setup(test_what_is_computed_again_does_not_stay, clear),
        cmocka_unit_test_setup(test_autocast_is_that_of_forward, clear),
        cmocka_unit_test_setup(test_chosen_gradients_and_those_of_gradients, clear),
        cmocka_unit_test_setup(test_the_function_is_let_go_with_the_graph, clear),
        cmocka_unit_test_setup(test_nothing_recorded_nothing_kept, clear),
        cmocka_unit_test_setup(test_a_changed_input_is_an_error, clear),
        cmocka_unit_test_setup(test_statistics_are_counted_as_often_as_they_are_moved, clear),
        cmocka_unit_test_setup(test_an_error_of_either_call_is_the_callers, clear),
        cmocka_unit_test_setup(test_a_function_without_a_result_is_an_error, clear),
        cmocka_unit_test_setup(test_a_sequential_in_segments, clear),
    };
    return check_run(tests, NULL, NULL);
}
