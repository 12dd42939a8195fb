/* See random_graph.h. */
#include "tests/ops/random_graph.h"

#include <math.h>
#include <string.h>

#include "core/call.h"
#include "core/op_table.h"

enum { MOST_ELEMENTS = 256, MOST_TRIES = 4000 };
static const double LARGEST = 16, STEEPEST = 16;

/* ---- numbers ------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (z ^ (z >> 31)) % below;
}

static tern_shape_t shape_of(const value *v)
{
    tern_shape_t shape = { .set_ = 1, .ndim = v->ndim };
    memcpy(shape.dims, v->dims, sizeof shape.dims[0] * (size_t)v->ndim);
    return shape;
}

/* ---- one step ------------------------------------------------------------------------------------ */

static const char *const kind_names[GRAPH_KINDS] = {
    [GRAPH_SWAP] = "transpose",  [GRAPH_SLICE] = "slice",   [GRAPH_FLAT] = "flatten",
    [GRAPH_GROW] = "unsqueeze",  [GRAPH_MATMUL] = "matmul", [GRAPH_INNER] = "einsum",
    [GRAPH_CAT] = "cat",         [GRAPH_WHERE] = "where",   [GRAPH_WRITE] = "write",
    [GRAPH_NORM] = "layer_norm",
};

const char *graph_step_name(const graph_step *s)
{
    return kind_names[s->kind] != NULL ? kind_names[s->kind] : core_op_table[s->id].name;
}

static tern_tensor *written(tern_tensor *a, tern_tensor *b, const int64_t *n)
{
    tern_tensor *y = tern_clone(a);
    tern_tensor *part = tern_slice(y, (int)n[0], n[1], n[2]);
    return tern_mul_(part, b) != NULL ? y : NULL;
}

static tern_tensor *run_row(const graph_step *s, tern_tensor *a, tern_tensor *b)
{
    const tern_op_id id = (tern_op_id)s->id;
    const uint32_t dims = s->n[0] < 0 ? 0 : 1u << s->n[0]; /* a triangle's number may be negative */
    tern_attr_reduce reduce = { .dims = dims, .keepdim = (int)s->n[1], .correction = 1 };
    tern_attr_dim along = { .dim = (int)s->n[0] };
    tern_attr_scan scan = { .dim = (int)s->n[0] };
    tern_attr_triangle part = { .diagonal = s->n[0] };
    switch (s->kind) {
    case GRAPH_ROW1:
        return core_op1(id, TERN_HERE, NULL, a);
    case GRAPH_ROW2:
        return core_op2(id, TERN_HERE, NULL, a, b);
    case GRAPH_REDUCE:
        return core_op1(id, TERN_HERE, &reduce, a);
    case GRAPH_ALONG:
        return core_op1(id, TERN_HERE, &along, a);
    case GRAPH_SCAN:
        return core_op1(id, TERN_HERE, &scan, a);
    default:
        return core_op1(id, TERN_HERE, &part, a);
    }
}

static tern_tensor *run_step(const graph_step *s, tern_tensor *const *t)
{
    tern_tensor *a = t[s->from[0]], *b = t[s->from[1]], *c = t[s->from[2]];
    const int64_t *n = s->n;
    switch (s->kind) {
    case GRAPH_SWAP:
        return tern_transpose(a, (int)n[0], (int)n[1]);
    case GRAPH_SLICE:
        return tern_slice(a, (int)n[0], n[1], n[2], n[3]);
    case GRAPH_FLAT:
        return tern_reshape(a, TERN_SHAPE(-1));
    case GRAPH_GROW:
        return tern_unsqueeze(a, (int)n[0]);
    case GRAPH_MATMUL:
        return tern_matmul(a, b);
    case GRAPH_INNER:
        return tern_einsum("...i,...i->...", a, b);
    case GRAPH_CAT:
        return tern_cat((int)n[0], a, b);
    case GRAPH_WHERE:
        return tern_where(tern_gt(a, b), c, a);
    case GRAPH_WRITE:
        return written(a, b, n);
    case GRAPH_NORM:
        return tern_size(a, -1) > 2 ? tern_layer_norm(a) : NULL; /* of two, signs are left */
    default:
        return run_row(s, a, b);
    }
}

/* ---- drawing ------------------------------------------------------------------------------------- */

static bool is_plain(const tern_op *op, int inputs)
{
    return op->inputs == inputs && op->attr_size == 0 && op->backward != NULL && !op->is_view &&
           op->outputs <= 1 && (op->dtypes & B(TERN_F32)) != 0 && (op->dtypes & B(TERN_F64)) != 0;
}

/* The kind of steps that a row makes; GRAPH_KINDS: none. */
static graph_kind kind_of(const tern_op *op)
{
    if ((op->rule == rule_unary || op->rule == rule_unary_float) && is_plain(op, 1))
        return GRAPH_ROW1;
    if ((op->rule == rule_binary || op->rule == rule_binary_float) && is_plain(op, 2))
        return GRAPH_ROW2;
    if ((op->rule == rule_sum || op->rule == rule_mean || op->rule == rule_amax) &&
        op->attr_size == sizeof(tern_attr_reduce) && op->backward != NULL)
        return GRAPH_REDUCE;
    if (op->rule == rule_softmax)
        return GRAPH_ALONG;
    if (op->rule == rule_scan)
        return GRAPH_SCAN;
    if (op->rule == rule_triangle)
        return GRAPH_PART;
    return GRAPH_KINDS;
}

static void draw_numbers(graph_step *s, const tern_tensor *a)
{
    const uint64_t ndim = (uint64_t)a->view.ndim;
    const int64_t dim = ndim == 0 ? 0 : (int64_t)draw(ndim),
                  size = ndim == 0 ? 1 : a->view.shape[dim];
    s->n[0] = s->kind == GRAPH_GROW ? (int64_t)draw(ndim + 1) : dim;
    if (s->kind == GRAPH_PART)
        s->n[0] = (int64_t)draw(3) - 1;
    s->n[1] = (int64_t)draw(2);
    if (s->kind == GRAPH_SWAP)
        s->n[1] = ndim == 0 ? 0 : (int64_t)draw(ndim);
    if (s->kind == GRAPH_SLICE || s->kind == GRAPH_WRITE) {
        s->n[1] = (int64_t)draw((uint64_t)size);
        s->n[2] = s->n[1] + 1 + (int64_t)draw((uint64_t)(size - s->n[1]));
        s->n[3] = 1 + (int64_t)draw(2);
    }
}

/* A third of the steps is made of shapes, the others of rows, each as often. */
static graph_step draw_step(tern_tensor *const *t, int tensors)
{
    graph_step s = { .kind = GRAPH_KINDS };
    if (draw(3) == 0)
        s.kind = (graph_kind)(GRAPH_SWAP + draw(GRAPH_KINDS - GRAPH_SWAP));
    while (s.kind == GRAPH_KINDS) {
        s.id = 1 + (int)draw(TERN_OP_COUNT - 1);
        s.kind = kind_of(&core_op_table[s.id]);
    }
    for (int i = 0; i < 3; i++) /* the last ones more often, so that graphs grow deep */
        s.from[i] = draw(2) == 0 ? tensors - 1 - (int)draw(3) : (int)draw((uint64_t)tensors);
    draw_numbers(&s, t[s.from[0]]);
    return s;
}

static double largest(const value *v)
{
    double most = 0;
    for (int64_t i = 0; i < v->numel; i++)
        most = isfinite(v->data[i]) ? fmax(most, fabs(v->data[i])) : INFINITY;
    return most;
}

/* The step with operands of its own: those of t, each element moved by up to one part in 10^4 and a little
 * more, so that what is 0 or equal moves, too. */
static graph_step moved(const graph_step *s, tern_tensor *const *t, double by, tern_tensor **own)
{
    graph_step other = *s;
    memset(own, 0, sizeof *own * GRAPH_TENSORS);
    for (int i = 0; i < 3; i++) {
        value v = value_of(t[s->from[i]]);
        for (int64_t k = 0; k < v.numel; k++)
            v.data[k] += by * ((double)draw(2001) / 1000 - 1) * (fabs(v.data[k]) + 0.1);
        own[i] = tern_from_data(v.data, shape_of(&v), TERN_F64, .device = TERN_CPU,
                                .requires_grad = true);
        other.from[i] = i;
        value_free(&v);
    }
    return other;
}

static double distance(tern_tensor *a, tern_tensor *b)
{
    if (a == NULL || b == NULL)
        return a == b ? 0 : INFINITY;
    value x = value_of(a), y = value_of(b);
    const double d = value_distance(&x, &y, 1);
    value_free(&x);
    value_free(&y);
    return d;
}

/* A step has neither jumps nor kinks close by, and gradients that are not steep. */
static bool is_smooth_towards(const graph_step *s, tern_tensor *const *t, double by)
{
    tern_tensor *at[GRAPH_TENSORS], *near[GRAPH_TENSORS], *slopes[3], *others[3];
    const graph_step first = moved(s, t, 0, at), second = moved(s, t, by, near);
    tern_tensor *y = run_step(&first, at), *z = run_step(&second, near);
    if (y == NULL || z == NULL || distance(z, y) > 0.01)
        return false;
    if (!tern_requires_grad(y))
        return true;
    (void)tern_grad(tern_sum(y), at, 3, slopes, .allow_unused = true);
    (void)tern_grad(tern_sum(z), near, 3, others, .allow_unused = true);
    bool smooth = !tern_failed();
    for (int i = 0; i < 3 && smooth; i++) {
        smooth = distance(others[i], slopes[i]) <= 0.1;
        if (slopes[i] == NULL)
            continue;
        value v = value_of(slopes[i]);
        smooth = smooth && largest(&v) <= STEEPEST;
        value_free(&v);
    }
    return smooth;
}

static bool is_smooth(const graph_step *s, tern_tensor *const *t)
{
    const uint64_t drawn = state;
    if (!is_smooth_towards(s, t, 1e-4))
        return false;
    state = drawn; /* the same way, back */
    return is_smooth_towards(s, t, -1e-4);
}

static bool is_good(const graph_step *s, tern_tensor *const *t)
{
    TERN_SCOPE;
    tern_tensor *y = run_step(s, t);
    bool good = y != NULL && tern_numel(y) > 0 && tern_numel(y) <= MOST_ELEMENTS &&
                y->view.ndim <= 4 && tern_dtype(y) == TERN_F64;
    if (good) {
        value v = value_of(y);
        good = largest(&v) <= LARGEST;
        value_free(&v);
    }
    good = good && is_smooth(s, t) && !tern_failed();
    tern_error_clear();
    return good;
}

graph graph_random(uint64_t seed)
{
    TERN_SCOPE;
    static const int64_t extents[] = { 1, 2, 3, 4, 3 };
    graph g = { .seed = seed };
    tern_tensor *t[GRAPH_TENSORS] = { NULL };
    state = seed;
    for (int i = 0; i < GRAPH_LEAVES; i++) {
        int64_t dims[3];
        const int ndim = 1 + (int)draw(3);
        for (int d = 0; d < ndim; d++)
            dims[d] = extents[draw(5)];
        g.leaves[i] = value_random(ndim, dims, -2, 2, false, seed * 100 + (uint64_t)i);
        value_quantise(&g.leaves[i], TERN_F32);
        t[i] =
            tern_from_data(g.leaves[i].data, shape_of(&g.leaves[i]), TERN_F64, .device = TERN_CPU);
    }
    for (int tries = 0; g.count < GRAPH_STEPS && tries < MOST_TRIES; tries++) {
        const int tensors = GRAPH_LEAVES + g.count;
        const graph_step s = draw_step(t, tensors);
        if (!is_good(&s, t))
            continue;
        t[tensors] = run_step(&s, t);
        g.steps[g.count++] = s;
    }
    return g;
}

void graph_free(graph *g)
{
    for (int i = 0; i < GRAPH_LEAVES; i++)
        value_free(&g->leaves[i]);
}

/* ---- running ------------------------------------------------------------------------------------- */

bool graph_run(const graph *g, tern_dev_t dev, tern_dtype_t dtype, tern_tensor **tensors,
               tern_tensor **grads)
{
    tern_tensor *total = NULL;
    for (int i = 0; i < GRAPH_LEAVES; i++) {
        tern_tensor *whole =
            tern_from_data(g->leaves[i].data, shape_of(&g->leaves[i]), TERN_F64, .device = dev);
        tensors[i] = tern_set_requires_grad(tern_detach(tern_cast(whole, dtype)), true);
    }
    for (int k = 0; k < g->count; k++)
        tensors[GRAPH_LEAVES + k] = run_step(&g->steps[k], tensors);
    for (int k = 0; k < GRAPH_LEAVES + g->count; k++) {
        tern_tensor *mean = tern_mean(tensors[k]);
        total = total == NULL ? mean : tern_add(total, mean);
    }
    (void)tern_grad(total, tensors, GRAPH_LEAVES, grads, .allow_unused = true);
    return !tern_failed();
}

/* ---- text ---------------------------------------------------------------------------------------- */

static void write_value(FILE *file, const char *what, int i, const value *v)
{
    fprintf(file, "%s %d %d", what, i, v->ndim);
    for (int d = 0; d < v->ndim; d++)
        fprintf(file, " %lld", (long long)v->dims[d]);
    for (int64_t k = 0; k < v->numel; k++)
        fprintf(file, " %.17g", v->data[k]);
    fprintf(file, "\n");
}

static void write_tensor(FILE *file, const char *what, int i, tern_tensor *t)
{
    if (t == NULL)
        return;
    value v = value_of(t);
    write_value(file, what, i, &v);
    value_free(&v);
}

void graph_write(FILE *file, const graph *g, tern_tensor *const *tensors, tern_tensor *const *grads)
{
    fprintf(file, "graph %llu\n", (unsigned long long)g->seed);
    for (int i = 0; i < GRAPH_LEAVES; i++)
        write_value(file, "leaf", i, &g->leaves[i]);
    for (int k = 0; k < g->count; k++) {
        const graph_step *s = &g->steps[k];
        fprintf(file, "step %d %s %d %d %d %lld %lld %lld %lld\n", GRAPH_LEAVES + k,
                graph_step_name(s), s->from[0], s->from[1], s->from[2], (long long)s->n[0],
                (long long)s->n[1], (long long)s->n[2], (long long)s->n[3]);
    }
    for (int k = 0; k < g->count; k++)
        write_tensor(file, "value", GRAPH_LEAVES + k, tensors[GRAPH_LEAVES + k]);
    for (int i = 0; i < GRAPH_LEAVES; i++)
        write_tensor(file, "gradient", i, grads[i]);
}
