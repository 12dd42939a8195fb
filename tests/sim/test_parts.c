/* Gathers, scatters and reductions of more elements than a launch takes: the host's files are compiled here, for a
 * limit of a few elements, with kernels of plain loops over host memory. What several launches make is what one does. */
#include "backend_cuda/gather.c"
#include "backend_cuda/reduce.c"
#include "backend_cuda/walk.c"
#include "tests/sim/sim_check.h"

enum { MOST = 4096 };
static int launches, mistakes;
static int64_t positions; /* of mistakes, added up */
static char scratch_memory[1 << 20];

/* ---- kernels, and what the files call ---------------------------------------------------------- */

static void offsets(const cuda_walk *w, uint32_t i, int64_t at[3])
{
    at[0] = at[1] = at[2] = 0;
    for (int d = 0; d < w->ndim; d++) {
        for (int k = 0; k < 3; k++)
            at[k] += (int64_t)(i % w->shape[d]) * w->stride[d][k];
        i /= w->shape[d];
    }
}

static bool is_inside(const cuda_gather_args *g, int64_t at)
{
    if (g->index[at] >= 0 && g->index[at] < g->far_size)
        return true;
    mistakes++;
    positions += g->index_start + at;
    return false;
}

cudaError_t cuda_launch_gather(const cuda_gather_args *g, int64_t size, cudaStream_t stream)
{
    (void)size, (void)stream;
    launches++;
    for (uint32_t i = 0; i < g->walk->numel; i++) {
        int64_t at[3];
        offsets(g->walk, i, at);
        if (is_inside(g, at[0]))
            ((int64_t *)g->out)[at[1]] =
                ((const int64_t *)g->in)[at[2] + g->index[at[0]] * g->far_stride];
    }
    return cudaSuccess;
}

static cudaError_t put(const cuda_gather_args *g, bool adds)
{
    const int64_t count = g->line.count > 0 ? g->line.count : 1;
    launches++;
    for (int64_t i = 0; i < g->walk->numel * count; i++) {
        int64_t at[3];
        offsets(g->walk, (uint32_t)(i / count), at);
        at[0] += i % count * g->line.index_step;
        if (!is_inside(g, at[0]))
            continue;
        int64_t *to = (int64_t *)g->out + at[2] + g->index[at[0]] * g->far_stride;
        *to = (adds ? *to : 0) + ((const int64_t *)g->in)[at[1] + i % count * g->line.step];
    }
    return cudaSuccess;
}

cudaError_t cuda_launch_scatter(const cuda_gather_args *g, int64_t size, cudaStream_t stream)
{
    (void)size, (void)stream;
    return put(g, false);
}

cudaError_t cuda_launch_scatter_add(const cuda_gather_args *g, int dtype, cudaStream_t stream)
{
    (void)dtype, (void)stream;
    return put(g, true);
}

cudaError_t cuda_launch_reduce(const cuda_reduce_args *r, cudaStream_t stream)
{
    (void)stream;
    launches++;
    for (uint32_t i = 0; i < r->kept->numel; i++) {
        int64_t at[3], inside[3], sum = 0, greatest = INT64_MIN, place = 0;
        offsets(r->kept, i, at);
        for (int64_t k = 0; k < r->count; k++) {
            if (r->gone->ndim <= 1)
                inside[0] = k * r->gone->stride[0][0];
            else
                offsets(r->gone, (uint32_t)k, inside);
            const int64_t x = ((const int64_t *)r->in)[at[2] + inside[0]];
            sum += x;
            place = x > greatest ? k : place;
            greatest = x > greatest ? x : greatest;
        }
        if (r->out != NULL)
            ((int64_t *)r->out)[at[0]] = r->kind == CUDA_SUM ? sum : greatest;
        if (r->place != NULL)
            r->place[at[1]] = place;
    }
    return cudaSuccess;
}

cudaError_t cuda_launch_embedding(void *out, const void *table, const void *indices,
                                  int index_dtype, int64_t rows, int64_t width, int64_t size,
                                  int64_t count, cuda_fault_slot *slot, cudaStream_t stream)
{
    (void)out, (void)table, (void)indices, (void)index_dtype, (void)rows, (void)width;
    (void)size, (void)count, (void)slot, (void)stream;
    return cudaErrorNotSupported;
}

cudaError_t cuda_launch_embedding_grad(void *sums, const void *grad, int dtype, const void *indices,
                                       int index_dtype, int64_t rows, int64_t width, int64_t count,
                                       cuda_fault_slot *slot, cudaStream_t stream)
{
    (void)sums, (void)grad, (void)dtype, (void)indices, (void)index_dtype, (void)rows, (void)width;
    (void)count, (void)slot, (void)stream;
    return cudaErrorNotSupported;
}

tern_status_t cuda_enter(const tern_call *call, cudaStream_t *out_stream)
{
    (void)call;
    *out_stream = NULL;
    return TERN_OK;
}

tern_status_t cuda_enter_noting(const tern_call *call, cudaStream_t *out_stream,
                                cuda_fault_slot **out_slot)
{
    *out_slot = NULL;
    return cuda_enter(call, out_stream);
}

cuda_device *cuda_device_enter(int index)
{
    static cuda_device device;
    (void)index;
    return &device;
}

tern_status_t cuda_launched(const tern_call *call, cudaError_t code, const char *name)
{
    return cuda_check(call->dev.index, code, name);
}

tern_status_t cuda_check(int index, cudaError_t code, const char *what)
{
    (void)index, (void)what;
    return code == cudaSuccess ? TERN_OK : TERN_ERR_BACKEND;
}

int64_t cuda_dtype_size(int dtype)
{
    (void)dtype;
    return sizeof(int64_t);
}

/* Of scatters, whose result begins as it is. */
tern_status_t cuda_copy(const tern_call *call)
{
    (void)call;
    return TERN_OK;
}

static bool repeating;

static uint32_t numerics(void)
{
    return repeating ? TERN_NUMERICS_DETERMINISTIC : 0;
}

static void *scratch(const tern_call *call, int64_t bytes)
{
    (void)call;
    assert_true(bytes <= (int64_t)sizeof scratch_memory);
    return scratch_memory;
}

static tern_status_t refuse(tern_status_t code, const char *format, ...)
{
    (void)format;
    return code;
}

static const tern_host host = {
    .size = sizeof host, .numerics = numerics, .scratch = scratch, .fail = refuse
};

/* ---- calls -------------------------------------------------------------------------------------- */

/* Row by row, `gap` elements of every row's end unused. */
static tern_view view_of(int64_t *data, int ndim, const int64_t *shape, int64_t gap)
{
    tern_view v = { .data = data, .numel = 1, .dtype = TERN_I64, .ndim = (uint8_t)ndim };
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        v.shape[d] = shape[d];
        v.stride[d] = stride;
        stride *= shape[d] + (d == ndim - 1 ? gap : 0);
        v.numel *= shape[d];
    }
    return v;
}

static tern_status_t run_call(tern_kernel kernel, const void *attr, int n_in,
                              const tern_view *const *in, int n_out, const tern_view *const *out)
{
    const tern_call call = { .size = sizeof call,
                             .n_in = (uint16_t)n_in,
                             .n_out = (uint16_t)n_out,
                             .in = in,
                             .out = out,
                             .attr = attr,
                             .host = &host };
    launches = mistakes = 0;
    positions = 0;
    return kernel(&call);
}

static int64_t numbers[MOST], places[MOST];

static void fill(void)
{
    for (int i = 0; i < MOST; i++) {
        numbers[i] = (i * 7919) % 1009;
        places[i] = (i * 31) % 7; /* of dimensions of 5 and 6: some are outside */
    }
}

static const int64_t limits[] = { 2, 3, 5, 8, 30, 61 };
enum { LIMITS = sizeof limits / sizeof *limits };
#define WHOLE (INT64_C(1) << 31)

typedef struct outcome {
    int64_t out[MOST], place[MOST], positions;
    int launches, mistakes;
    tern_status_t status;
} outcome;

static void note(outcome *o, tern_status_t status)
{
    o->status = status;
    o->launches = launches;
    o->mistakes = mistakes;
    o->positions = positions;
}

/* The same from several launches as from one? */
static void assert_same(const outcome *parts, const outcome *whole)
{
    assert_int_equal(whole->status, TERN_OK);
    assert_int_equal(parts->status, TERN_OK);
    assert_int_equal(whole->launches, 1);
    assert_true(parts->launches > 1);
    assert_memory_equal(parts->out, whole->out, sizeof whole->out);
    assert_memory_equal(parts->place, whole->place, sizeof whole->place);
    assert_int_equal(parts->mistakes, whole->mistakes);
    assert_int_equal(parts->positions, whole->positions);
}

/* ---- gather and scatter ------------------------------------------------------------------------- */

enum { GATHER, SELECT, SCATTER, SCATTER_ADD };

/* [5, 6, 5] with gaps, by an index of four thirds along `dim`. */
static void index_along(int what, int dim, outcome *o)
{
    int64_t large[3] = { 5, 6, 5 }, small[3] = { 4, 4, 4 }, count = 4;
    memset(o, 0, sizeof *o);
    small[dim] = 7;
    if (what == SELECT) {
        memcpy(small, large, sizeof small);
        small[dim] = count;
    }
    const tern_attr_dim attr = { .dim = dim };
    const tern_view index = view_of(places, what == SELECT ? 1 : 3, what == SELECT ? &count : small,
                                    what == SELECT ? 0 : 2);
    const bool takes = what == GATHER || what == SELECT;
    const tern_view in = view_of(numbers, 3, takes ? large : small, 1);
    const tern_view out = view_of(o->out, 3, takes ? small : large, 3);
    const tern_view *const all[3] = { takes ? &in : &out, &index, &in };
    static const tern_kernel kernels[] = { cuda_gather, cuda_index_select, cuda_scatter,
                                           cuda_scatter_add };
    note(o, run_call(kernels[what], &attr, takes ? 2 : 3, all, 1, (const tern_view *[]){ &out }));
}

static void test_indices_of_several_launches(void **state)
{
    (void)state;
    static outcome whole, parts;
    fill();
    for (int what = GATHER; what <= SCATTER_ADD; what++)
        for (int dim = 0; dim < 3; dim++) {
            index_along(what, dim, &whole);
            assert_true(whole.mistakes > 0);
            for (int k = 0; k < LIMITS; k++) {
                limit = limits[k];
                index_along(what, dim, &parts);
                limit = WHOLE;
                assert_same(&parts, &whole);
            }
        }
}

static void test_lines_of_several_launches(void **state)
{
    (void)state;
    static outcome whole, parts;
    fill();
    repeating = true;
    for (int what = SCATTER; what <= SCATTER_ADD; what++)
        for (int dim = 0; dim < 3; dim++) {
            index_along(what, dim, &whole);
            limit = 5; /* lines, of which there are 16 */
            index_along(what, dim, &parts);
            limit = WHOLE;
            assert_same(&parts, &whole);
        }
    repeating = false;
}

/* ---- reductions --------------------------------------------------------------------------------- */

static void sum_over(uint32_t gone, int64_t gap, outcome *o)
{
    static const int64_t shape[3] = { 6, 9, 11 };
    const tern_view in = view_of(numbers, 3, shape, gap);
    const tern_attr_reduce attr = { .dims = gone, .keepdim = 1 };
    int64_t left[3];
    memset(o, 0, sizeof *o);
    for (int d = 0; d < 3; d++)
        left[d] = (gone >> d & 1u) != 0 ? 1 : shape[d];
    const tern_view out = view_of(o->out, 3, left, 0);
    note(o, run_call(cuda_sum, &attr, 1, (const tern_view *[]){ &in }, 1,
                     (const tern_view *[]){ &out }));
}

/* What goes lies in steps of one size, or is below the limit. */
static void test_sums_of_several_launches(void **state)
{
    (void)state;
    static outcome whole, parts;
    static const uint32_t gone[] = { 1, 2, 4, 3, 6 };
    fill();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        for (int k = 0; k < 4; k++) {
            sum_over(gone[i], 0, &whole);
            limit = limits[k];
            sum_over(gone[i], 0, &parts);
            limit = WHOLE;
            assert_int_equal(parts.status, TERN_OK);
            assert_memory_equal(parts.out, whole.out, sizeof whole.out);
            assert_true(parts.launches > 1 || limits[k] > 6);
        }
}

/* One result needs one launch, however many elements there are. */
static void test_long_lines_need_no_walk(void **state)
{
    (void)state;
    static outcome whole, parts;
    fill();
    sum_over(7, 0, &whole);
    limit = 30;
    sum_over(7, 0, &parts);
    assert_int_equal(parts.status, TERN_OK);
    assert_int_equal(parts.launches, 1);
    assert_memory_equal(parts.out, whole.out, sizeof whole.out);
    sum_over(5, 0, &parts); /* 66 in two dimensions */
    assert_int_equal(parts.status, TERN_ERR_UNSUPPORTED);
    sum_over(7, 1, &parts);
    assert_int_equal(parts.status, TERN_ERR_UNSUPPORTED);
    limit = WHOLE;
}

static void greatest(int dim, outcome *o)
{
    static const int64_t shape[3] = { 6, 9, 11 };
    const tern_view in = view_of(numbers, 3, shape, 2);
    const tern_attr_dim attr = { .dim = dim, .keepdim = 1 };
    int64_t left[3];
    memset(o, 0, sizeof *o);
    for (int d = 0; d < 3; d++)
        left[d] = d == dim ? 1 : shape[d];
    const tern_view out = view_of(o->out, 3, left, 0), place = view_of(o->place, 3, left, 1);
    note(o, run_call(cuda_max, &attr, 1, (const tern_view *[]){ &in }, 2,
                     (const tern_view *[]){ &out, &place }));
}

static void test_places_of_several_launches(void **state)
{
    (void)state;
    static outcome whole, parts;
    fill();
    for (int dim = 0; dim < 3; dim++)
        for (int k = 0; k < 4; k++) {
            greatest(dim, &whole);
            limit = limits[k];
            greatest(dim, &parts);
            limit = WHOLE;
            assert_same(&parts, &whole);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_indices_of_several_launches),
        cmocka_unit_test(test_lines_of_several_launches),
        cmocka_unit_test(test_sums_of_several_launches),
        cmocka_unit_test(test_long_lines_need_no_walk),
        cmocka_unit_test(test_places_of_several_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
