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
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = v->ndim };
    memcpy(shape.dims, v->dims, sizeof shape.dims[0] * (size_t)v->ndim);
    return shape;
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

static int64_t draw_from(int64_t least, int64_t most)
{
    return least + (int64_t)draw((uint64_t)(most - least + 1));
}

/* Small kernels, strides and the like; several that make no sense are drawn again. */
static void draw_image_numbers(graph_step *s)
{
    int64_t *n = s->n;
    n[0] = draw_from(1, 3);
    n[1] = draw_from(1, 3);
    n[2] = draw_from(1, 2);
    n[3] = draw_from(0, 1);
    n[4] = s->kind == GRAPH_CONV_SPREAD ? draw_from(0, 1) : draw_from(1, 2);
    n[5] = draw_from(0, 1);
    if (s->kind == GRAPH_MAX_POOL || s->kind == GRAPH_AVG_POOL) {
        n[1] = draw_from(1, 2);
        n[2] = draw_from(0, 1);
        n[3] = s->kind == GRAPH_MAX_POOL ? draw_from(1, 2) : draw_from(0, 1);
    }
    if (s->kind >= GRAPH_MAX_ADAPTIVE) {
        n[0] = draw_from(1, 4);
        n[1] = draw_from(1, 4);
        n[2] = draw_from(0, 1);
    }
}

static void draw_numbers(graph_step *s, const tern_tensor *a)
{
    const uint64_t ndim = (uint64_t)a->view.ndim;
    const int64_t dim = ndim == 0 ? 0 : (int64_t)draw(ndim),
                  size = ndim == 0 ? 1 : a->view.shape[dim];
    if (s->kind >= GRAPH_CONV2D && s->kind < GRAPH_SELECT) {
        draw_image_numbers(s);
        return;
    }
    s->n[0] = s->kind == GRAPH_GROW ? (int64_t)draw(ndim + 1) : dim;
    if (s->kind == GRAPH_PART)
        s->n[0] = draw_from(-1, 1);
    s->n[1] = draw_from(0, 1);
    if (s->kind == GRAPH_SWAP)
        s->n[1] = ndim == 0 ? 0 : (int64_t)draw(ndim);
    if (s->kind == GRAPH_SLICE || s->kind == GRAPH_WRITE) {
        s->n[1] = (int64_t)draw((uint64_t)size);
        s->n[2] = s->n[1] + 1 + (int64_t)draw((uint64_t)(size - s->n[1]));
        s->n[3] = draw_from(1, 2);
    }
    if (s->kind >= GRAPH_SELECT) {
        s->n[1] = draw_from(1, 4);
        s->n[2] = draw_from(0, 4);
        s->n[3] = draw_from(1, 5);
    }
}

/* Half of the steps are of kinds of their own, the others of rows, each as often. */
static graph_step draw_step(tern_tensor *const *t, int tensors)
{
    graph_step s = { .kind = GRAPH_KINDS };
    if (draw(2) == 0)
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

/* How far operands are moved, and how much a result and the gradients may move with them. */
typedef struct smoothness {
    double by, value, slope;
} smoothness;
static const smoothness IN_F64 = { 1e-4, 0.01, 0.1 };

/* A step has neither jumps nor kinks close by, and gradients that are not steep. */
static bool is_smooth_towards(const graph_step *s, tern_tensor *const *t, smoothness most,
                              double by)
{
    tern_tensor *at[GRAPH_TENSORS], *near[GRAPH_TENSORS], *slopes[3], *others[3];
    const graph_step first = moved(s, t, 0, at), second = moved(s, t, by, near);
    tern_tensor *y = graph_step_run(&first, at), *z = graph_step_run(&second, near);
    if (y == NULL || z == NULL || distance(z, y) > most.value)
        return false;
    if (!tern_requires_grad(y))
        return true;
    (void)tern_grad(tern_sum(y), at, 3, slopes, .allow_unused = true);
    (void)tern_grad(tern_sum(z), near, 3, others, .allow_unused = true);
    bool smooth = !tern_failed();
    for (int i = 0; i < 3 && smooth; i++) {
        smooth = distance(others[i], slopes[i]) <= most.slope;
        if (slopes[i] == NULL)
            continue;
        value v = value_of(slopes[i]);
        smooth = smooth && largest(&v) <= STEEPEST;
        value_free(&v);
    }
    return smooth;
}

static bool is_smooth(const graph_step *s, tern_tensor *const *t, smoothness most)
{
    const uint64_t drawn = state;
    if (!is_smooth_towards(s, t, most, most.by))
        return false;
    state = drawn; /* the same way, back */
    return is_smooth_towards(s, t, most, -most.by);
}

static bool is_good(const graph_step *s, tern_tensor *const *t, smoothness most)
{
    TERN_SCOPE;
    tern_tensor *y = graph_step_run(s, t);
    bool good = y != NULL && tern_numel(y) > 0 && tern_numel(y) <= MOST_ELEMENTS &&
                y->view.ndim <= 4 && tern_dtype(y) == TERN_F64;
    if (good) {
        value v = value_of(y);
        good = largest(&v) <= LARGEST;
        value_free(&v);
    }
    good = good && is_smooth(s, t, most) && !tern_failed();
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
        if (!is_good(&s, t, IN_F64))
            continue;
        t[tensors] = graph_step_run(&s, t);
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
        tensors[GRAPH_LEAVES + k] = graph_step_run(&g->steps[k], tensors);
    for (int k = 0; k < GRAPH_LEAVES + g->count; k++) {
        tern_tensor *mean = tern_mean(tensors[k]);
        total = total == NULL ? mean : tern_add(total, mean);
    }
    (void)tern_grad(total, tensors, GRAPH_LEAVES, grads, .allow_unused = true);
    return !tern_failed();
}

static bool run_alone(const graph_step *s, tern_tensor *const *operands, tern_dev_t dev,
                      tern_dtype_t dtype, tern_tensor **out_y, tern_tensor **out_grads)
{
    tern_tensor *in[3];
    graph_step alone = *s;
    for (int i = 0; i < 3; i++) {
        alone.from[i] = i;
        in[i] = tern_to(tern_cast(operands[i], dtype), dev);
        in[i] = tern_set_requires_grad(tern_detach(in[i]), true);
    }
    *out_y = graph_step_run(&alone, in);
    if (*out_y != NULL && tern_requires_grad(*out_y))
        (void)tern_grad(tern_sum(*out_y, .dtype = TERN_F32), in, 3, out_grads,
                        .allow_unused = true);
    return !tern_failed() && *out_y != NULL;
}

bool graph_run_step(const graph *g, int k, tern_tensor *const *tensors, tern_dev_t dev,
                    tern_dtype_t dtype, graph_pair *out)
{
    const graph_step *s = &g->steps[k];
    graph_step alone = *s;
    tern_tensor *rounded[3];
    *out = (graph_pair){ { NULL, NULL }, { { NULL }, { NULL } } };
    for (int i = 0; i < 3; i++) {
        value v = value_of(tensors[s->from[i]]);
        value_quantise(&v, dtype);
        rounded[i] = tern_from_data(v.data, shape_of(&v), TERN_F64, .device = TERN_CPU);
        alone.from[i] = i;
        value_free(&v);
    }
    /* a rounding of an operand moves nothing by more than four of a result */
    const double unit = dtype_epsilon(dtype);
    state = g->seed + (uint64_t)k;
    if (!is_good(&alone, rounded, IN_F64) ||
        !is_good(&alone, rounded, (smoothness){ unit, 4 * unit, 4 * unit }))
        return false;
    return run_alone(s, rounded, TERN_CPU, TERN_F64, &out->value[1], out->grads[1]) &&
           run_alone(s, rounded, dev, dtype, &out->value[0], out->grads[0]);
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
        fprintf(file, "step %d %s %d %d %d", GRAPH_LEAVES + k, graph_step_name(s), s->from[0],
                s->from[1], s->from[2]);
        for (int i = 0; i < GRAPH_NUMBERS; i++)
            fprintf(file, " %lld", (long long)s->n[i]);
        fprintf(file, "\n");
    }
    for (int k = 0; k < g->count; k++)
        write_tensor(file, "value", GRAPH_LEAVES + k, tensors[GRAPH_LEAVES + k]);
    for (int i = 0; i < GRAPH_LEAVES; i++)
        write_tensor(file, "gradient", i, grads[i]);
}
