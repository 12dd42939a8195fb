/* Walks of the CUDA backend over more elements than a launch takes: each element is in one part, where every
 * operand has it. The file is compiled here, for a limit of a few elements. */
#include "backend_cuda/walk.c"
#include "tests/support/between.h"
#include "tests/support/check.h"

enum { MOST_PLACES = 1 << 14 };

/* Strides of operand 0 set no two elements on one place; 0s of the others are what broadcasting leaves. */
typedef struct walk_case {
    const char *why;
    int ndim, operands;
    int64_t shape[5], stride[3][5];
} walk_case;

/* clang-format off */
static const walk_case cases[] = {
    { "a number", 0, 2, { 0 }, { { 0 } } },
    { "without gaps", 3, 2, { 3, 5, 7 }, { { 35, 7, 1 }, { 35, 7, 1 } } },
    { "a row for all", 3, 2, { 3, 5, 7 }, { { 35, 7, 1 }, { 0, 7, 1 } } },
    { "a row and a column", 4, 3, { 2, 3, 5, 7 }, { { 105, 35, 7, 1 }, { 0, 35, 0, 1 }, { 3, 1, 0, 0 } } },
    { "every second", 3, 1, { 4, 5, 6 }, { { 120, 12, 2 } } },
    { "a slice", 2, 2, { 11, 9 }, { { 9, 1 }, { 13, 1 } } },
    { "turned", 3, 2, { 5, 6, 7 }, { { 1, 35, 5 }, { 42, 7, 1 } } },
    { "ones between", 5, 2, { 1, 9, 1, 10, 1 }, { { 90, 10, 10, 1, 1 }, { 9, 1, 4, 9, 6 } } },
    { "long inside", 3, 2, { 2, 3, 200 }, { { 600, 200, 1 }, { 0, 300, 1 } } },
    { "long outside", 2, 2, { 300, 2 }, { { 2, 1 }, { 5, 1 } } },
    { "five", 5, 3, { 3, 2, 4, 3, 2 }, { { 60, 30, 7, 2, 1 }, { 1, 0, 3, 12, 0 }, { 0, 5, 0, 0, 1 } } },
};
/* clang-format on */
enum { CASES = sizeof cases / sizeof *cases };

static void views_of(const walk_case *c, tern_view *views, const tern_view **pointers)
{
    for (int k = 0; k < c->operands; k++) {
        views[k] = (tern_view){ .ndim = (uint8_t)c->ndim, .numel = 1 };
        for (int d = 0; d < c->ndim; d++) {
            views[k].shape[d] = c->shape[d];
            views[k].stride[d] = c->stride[k][d];
            views[k].numel *= c->shape[d];
        }
        pointers[k] = &views[k];
    }
}

/* Where each place of operand 0 is in the others: found by counting, as nothing that is tested here does. */
typedef struct places {
    bool used[MOST_PLACES];
    int64_t of[MOST_PLACES][CUDA_WALK_OPERANDS];
} places;

static void list_places(const walk_case *c, const tern_view *views, places *out)
{
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < views[0].numel; i++) {
        int64_t at[CUDA_WALK_OPERANDS] = { 0 }, rest = i;
        for (int d = c->ndim - 1; d >= 0; d--) {
            for (int k = 0; k < c->operands; k++)
                at[k] += rest % c->shape[d] * c->stride[k][d];
            rest /= c->shape[d];
        }
        assert_between(at[0], 0, MOST_PLACES - 1);
        assert_false(out->used[at[0]]);
        out->used[at[0]] = true;
        memcpy(out->of[at[0]], at, sizeof at);
    }
}

/* The kernels' way (walk.cuh). */
static void offsets(const cuda_walk_part *part, int operands, uint32_t i, int64_t *at)
{
    memcpy(at, part->offset, sizeof part->offset);
    for (int d = 0; d < part->walk.ndim; d++) {
        const uint32_t high = (uint32_t)((uint64_t)i * part->walk.magic[d] >> 32);
        const uint32_t next = (uint32_t)(((uint64_t)high + i) >> part->walk.shift[d]);
        for (int k = 0; k < operands; k++)
            at[k] += (int64_t)(i - next * part->walk.shape[d]) * part->walk.stride[d][k];
        i = next;
    }
}

static void take_part(const cuda_walk_part *part, int operands, places *left)
{
    assert_between(part->walk.numel, 1, limit - 1);
    for (uint32_t i = 0; i < part->walk.numel; i++) {
        int64_t at[CUDA_WALK_OPERANDS];
        offsets(part, operands, i, at);
        assert_between(at[0], 0, MOST_PLACES - 1);
        assert_true(left->used[at[0]]);
        left->used[at[0]] = false;
        for (int k = 0; k < operands; k++)
            assert_int_equal(at[k], left->of[at[0]][k]);
    }
}

static void assert_covered(const walk_case *c, int64_t most)
{
    static places left;
    tern_view views[CUDA_WALK_OPERANDS];
    const tern_view *pointers[CUDA_WALK_OPERANDS];
    cuda_walk_part part;
    limit = most;
    views_of(c, views, pointers);
    list_places(c, views, &left);
    const int64_t parts = cuda_walk_parts(c->operands, pointers), n = views[0].numel;
    assert_between(parts, 1,
                   n < most ? 1 : 4 * (n / most + 1)); /* no more launches than it takes */
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_plan(c->operands, pointers, i, &part);
        take_part(&part, c->operands, &left);
    }
    for (int i = 0; i < MOST_PLACES; i++)
        if (left.used[i])
            fail_msg("%s, limit %lld: nothing goes to %d", c->why, (long long)most, i);
    limit = INT64_C(1) << 31;
}

static void test_each_element_is_in_one_part(void **state)
{
    (void)state;
    static const int64_t limits[] = { 2, 3, 4, 7, 8, 36, 100, 599, 600, 601, INT64_C(1) << 31 };
    for (int i = 0; i < CASES; i++)
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
            assert_covered(&cases[i], limits[k]);
}

/* What is inside the outermost dimension is itself too much: there were no parts. */
static void test_the_limit_that_holds(void **state)
{
    (void)state;
    const int64_t inner = INT64_C(1) << 31;
    const walk_case sum = { "x + pos",
                            3,
                            3,
                            { 2, 65536, 32768 },
                            { { inner, 32768, 1 }, { inner, 32768, 1 }, { 0, 32768, 1 } } };
    tern_view views[CUDA_WALK_OPERANDS];
    const tern_view *pointers[CUDA_WALK_OPERANDS];
    int64_t elements = 0, at = 0;
    views_of(&sum, views, pointers);
    const int64_t parts = cuda_walk_parts(3, pointers);
    assert_int_equal(parts, 4);
    for (int64_t i = 0; i < parts; i++) {
        cuda_walk_part part;
        cuda_walk_plan(3, pointers, i, &part);
        assert_int_equal(part.offset[0], at);
        assert_int_equal(part.offset[1], at);
        assert_int_equal(part.offset[2], at % inner);
        assert_int_equal(part.walk.ndim, 1);
        at += part.walk.numel;
        elements += part.walk.numel;
    }
    assert_int_equal(elements, 2 * inner);
}

static void test_no_elements_are_no_parts(void **state)
{
    (void)state;
    const walk_case none = { "none", 2, 1, { 0, 3 }, { { 3, 1 } } };
    tern_view views[CUDA_WALK_OPERANDS];
    const tern_view *pointers[CUDA_WALK_OPERANDS];
    views_of(&none, views, pointers);
    assert_int_equal(cuda_walk_parts(1, pointers), 0);
}

/* As kernels divide (walk.cuh). */
static int64_t quotient(int64_t i, const cuda_divisor *d)
{
    const uint32_t high = (uint32_t)((uint64_t)(uint32_t)i * d->magic >> 32);
    return d->shift >= 0 ? (int64_t)(((uint64_t)high + (uint32_t)i) >> d->shift) : i / d->number;
}

static void test_divisors(void **state)
{
    (void)state;
    const int64_t most = INT32_MAX, far = INT64_C(1) << 33;
    const int64_t numbers[] = {
        1, 2, 3, 5, 7, 10, 28, 255, 641, 65536, 65537, most - 1, most, far
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        const int64_t n = numbers[k],
                      dividends[] = { 0, 1, n - 1, n, n + 1, 7 * n - 1, most / 2, most - 1, most };
        const cuda_divisor near_by = cuda_divisor_of(n, most), any = cuda_divisor_of(n, far);
        assert_true(near_by.shift >= 0 && any.shift < 0);
        for (size_t i = 0; i < sizeof dividends / sizeof *dividends; i++) {
            if (dividends[i] <= most)
                assert_int_equal(quotient(dividends[i], &near_by), dividends[i] / n);
            assert_int_equal(quotient(dividends[i], &any), dividends[i] / n);
        }
        assert_int_equal(quotient(far * 3 + 1, &any), (far * 3 + 1) / n);
    }
    assert_int_equal(cuda_divisor_of(0, 0).number, 0); /* nobody divides by it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_element_is_in_one_part),
        cmocka_unit_test(test_the_limit_that_holds),
        cmocka_unit_test(test_no_elements_are_no_parts),
        cmocka_unit_test(test_divisors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
