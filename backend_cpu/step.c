/* The optimizers' steps: one pass over parameter, gradient and up to three tensors of state, which all
 * have one shape and dtype; parameter and state are written. The
 * scaled rows multiply the gradient, a block at a time, before; it is written then, too.
 *
 * Half types are computed in f32 and rounded once per tensor. Bytes moved per element: 3 to 9 times
 * its size. Elements are independent, so threads do not change bits. */
#include "backend_cpu/step.h"

#include <math.h>

#include "backend_cpu/kernels.h"
#include "backend_cpu/strided.h"
#include "backend_cpu/unscale.h"
#include "tern/op_attr.h"

enum { MAX_OPERANDS = CPU_STEP_OPERANDS };

typedef struct job {
    cpu_step_fn step;
    const void *numbers;
    cpu_unscale_fn unscale; /* NULL: g stays */
    double factor;
    int operands;
    int64_t size;
    cpu_convert_fn widen, narrow; /* half types */
    cpu_walk walk;                /* parameter, gradient, state */
} job;

typedef struct block {
    _Alignas(64) char bytes[CPU_BLOCK * 8];
} block;

/* At most CPU_BLOCK elements without gaps. */
static void run_block(const job *j, char *const *operands, int64_t n)
{
    void *at[MAX_OPERANDS] = { NULL };
    block wide[MAX_OPERANDS];
    for (int k = 0; k < j->operands; k++)
        at[k] = operands[k];
    for (int k = 0; j->widen && k < j->operands; k++) {
        j->widen(wide[k].bytes, operands[k], n);
        at[k] = wide[k].bytes;
    }
    if (j->unscale != NULL)
        (void)j->unscale(at[1], n, j->factor);
    j->step(at, n, j->numbers);
    for (int k = 0; j->narrow && k < j->operands; k++) {
        if (k != 1 || j->unscale != NULL)
            j->narrow(operands[k], at[k], n);
    }
}

static void run_linear(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const int64_t most = j->widen || j->unscale != NULL ? CPU_BLOCK : end - begin;
    while (begin < end) {
        const int64_t n = end - begin < most ? end - begin : most;
        char *at[MAX_OPERANDS] = { 0 };
        for (int k = 0; k < j->operands; k++)
            at[k] = j->walk.data[k] + begin * j->size;
        run_block(j, at, n);
        begin += n;
    }
}

static void run_packed(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    block packed[MAX_OPERANDS];
    cpu_cursor cursor;
    cpu_cursor_init(&cursor, &j->walk, begin);
    for (; begin < end; begin += CPU_BLOCK) {
        const int64_t n = end - begin < CPU_BLOCK ? end - begin : CPU_BLOCK;
        char *at[MAX_OPERANDS] = { 0 };
        for (int k = 0; k < j->operands; k++)
            at[k] = cpu_pack(&cursor, k, j->size, n, packed[k].bytes);
        run_block(j, at, n);
        for (int k = 0; k < j->operands; k++) {
            if ((k != 1 || j->unscale != NULL) && at[k] == packed[k].bytes)
                cpu_unpack(&cursor, k, j->size, n, at[k]);
        }
        cpu_cursor_advance(&cursor, n);
    }
}

/* views: parameter, gradient, state. scale: NULL, or of the gradient. */
static tern_status_t run_views(const tern_call *call, int which, int operands,
                               const tern_view *const *views, const void *numbers,
                               const tern_view *scale)
{
    enum { FLOPS = 10 };
    const tern_view *p = call->in[0];
    const int64_t n = p->numel;
    const bool half = p->dtype == TERN_F16 || p->dtype == TERN_BF16;
    job j = { .numbers = numbers, .operands = operands, .size = cpu_dtype_size(p->dtype) };
    if (n == 0)
        return TERN_OK;
    j.step = p->dtype == TERN_F64 ? CPU_ISA_PICK(cpu_steps_f64)[which]
                                  : CPU_ISA_PICK(cpu_steps_f32)[which];
    j.factor = scale != NULL ? (double)(float)(1 / (double)*(const float *)scale->data) : 1;
    if (j.factor != 1)
        j.unscale =
            CPU_ISA_PICK(cpu_unscales)[p->dtype == TERN_F64 ? CPU_UNSCALE_F64 : CPU_UNSCALE_F32];
    j.widen = half ? cpu_converter(TERN_F32, p->dtype) : NULL;
    j.narrow = half ? cpu_converter(p->dtype, TERN_F32) : NULL;
    bool linear = true;
    for (int k = 0; k < operands; k++) {
        linear = linear && cpu_same_layout(p, views[k]);
        j.walk.data[k] = views[k]->data;
    }
    const int threads = cpu_threads(call, n * j.size * (2 * operands - 1), n * FLOPS);
    if (!linear)
        cpu_walk_init(&j.walk, operands, views);
    cpu_parallel(threads, n, CPU_BLOCK, linear ? run_linear : run_packed, &j);
    return TERN_OK;
}

/* The first `operands` inputs, all of which are there. */
static tern_status_t run_step(const tern_call *call, int which, int operands, const void *numbers,
                              const tern_view *scale)
{
    return run_views(call, which, operands, call->in, numbers, scale);
}

/* ---- what the scaled rows find in memory ------------------------------------------------------ */

typedef struct scaling {
    const tern_view *scale; /* NULL: the gradient is as it should be */
    bool left_out;
    int64_t *count; /* NULL: not given */
    int turn;
} scaling;

static scaling scaling_of(const tern_call *call, int32_t turn)
{
    const int first = call->n_in - 3;
    const tern_view *found = call->in[first + 1], *count = call->in[first + 2];
    return (scaling){ .scale = call->in[first],
                      .left_out = found != NULL && *(const float *)found->data != 0,
                      .count = count != NULL ? count->data : NULL,
                      .turn = turn & 1 };
}

static int64_t steps_done(const scaling *s, int64_t otherwise)
{
    return s->count != NULL ? s->count[s->turn] : otherwise;
}

static tern_status_t end_step(const scaling *s, tern_status_t status)
{
    if (s->count != NULL && status == TERN_OK)
        s->count[1 - s->turn] = s->count[s->turn] + !s->left_out;
    return status;
}

/* ---- the rows --------------------------------------------------------------------------------- */

static tern_status_t sgd(const tern_call *call, bool first, const tern_view *scale)
{
    const tern_attr_sgd *attr = call->attr;
    const cpu_sgd_numbers numbers = { .sign = attr->maximize ? -1 : 1,
                                      .lr = attr->lr,
                                      .momentum = attr->momentum,
                                      .fresh = 1 - attr->dampening,
                                      .weight_decay = attr->weight_decay,
                                      .nesterov = attr->nesterov != 0,
                                      .first = first };
    if (call->n_in < 3 || call->in[2] == NULL || attr->momentum == 0)
        return run_step(call, CPU_STEP_SGD, 2, &numbers, scale);
    return run_step(call, CPU_STEP_SGD_MOMENTUM, 3, &numbers, scale);
}

tern_status_t cpu_sgd_step(const tern_call *call)
{
    const tern_attr_sgd *attr = call->attr;
    return sgd(call, attr->first != 0, NULL);
}

tern_status_t cpu_sgd_step_scaled(const tern_call *call)
{
    const tern_attr_sgd *attr = call->attr;
    const scaling s = scaling_of(call, attr->turn);
    const bool first = steps_done(&s, attr->first == 0) == 0;
    return end_step(&s, s.left_out ? TERN_OK : sgd(call, first, s.scale));
}

static tern_status_t adam(const tern_call *call, double step, const tern_view *scale)
{
    const tern_attr_adam *attr = call->attr;
    const double decoupled = attr->decoupled ? attr->lr * attr->weight_decay : 0;
    const cpu_adam_numbers numbers = {
        .sign = attr->maximize ? -1 : 1,
        .keep = 1 - decoupled,
        .weight_decay = attr->decoupled ? 0 : attr->weight_decay,
        .beta1 = attr->beta1,
        .beta2 = attr->beta2,
        .eps = attr->eps,
        .step_size = attr->lr / (1 - pow(attr->beta1, step)),
        .inverse_root = 1 / sqrt(1 - pow(attr->beta2, step)),
    };
    return run_step(call, CPU_STEP_ADAM, 4, &numbers, scale);
}

tern_status_t cpu_adam_step(const tern_call *call)
{
    const tern_attr_adam *attr = call->attr;
    return adam(call, (double)attr->step, NULL);
}

tern_status_t cpu_adam_step_scaled(const tern_call *call)
{
    const tern_attr_adam *attr = call->attr;
    const scaling s = scaling_of(call, attr->turn);
    const double step = (double)steps_done(&s, attr->step - 1) + 1;
    return end_step(&s, s.left_out ? TERN_OK : adam(call, step, s.scale));
}

/* The state that there is, without gaps: square, buffer?, mean?. */
static tern_status_t rmsprop(const tern_call *call, const tern_view *scale)
{
    const tern_attr_rmsprop *attr = call->attr;
    const cpu_rmsprop_numbers numbers = { .sign = attr->maximize ? -1 : 1,
                                          .lr = attr->lr,
                                          .alpha = attr->alpha,
                                          .momentum = attr->momentum,
                                          .eps = attr->eps,
                                          .weight_decay = attr->weight_decay };
    const tern_view *views[MAX_OPERANDS] = { call->in[0], call->in[1], call->in[2] };
    int operands = 3, which = CPU_STEP_RMSPROP;
    for (int k = 3; k < 5; k++) {
        if (call->in[k] == NULL || (k == 3 && attr->momentum == 0))
            continue;
        views[operands++] = call->in[k];
        which += k == 3 ? 1 : 2;
    }
    return run_views(call, which, operands, views, &numbers, scale);
}

tern_status_t cpu_rmsprop_step(const tern_call *call)
{
    return rmsprop(call, NULL);
}

tern_status_t cpu_rmsprop_step_scaled(const tern_call *call)
{
    const tern_attr_rmsprop *attr = call->attr;
    const scaling s = scaling_of(call, attr->turn);
    return end_step(&s, s.left_out ? TERN_OK : rmsprop(call, s.scale));
}

static tern_status_t adagrad(const tern_call *call, double step, const tern_view *scale)
{
    const tern_attr_adagrad *attr = call->attr;
    const cpu_adagrad_numbers numbers = { .sign = attr->maximize ? -1 : 1,
                                          .lr = attr->lr / (1 + (step - 1) * attr->lr_decay),
                                          .eps = attr->eps,
                                          .weight_decay = attr->weight_decay };
    return run_step(call, CPU_STEP_ADAGRAD, 3, &numbers, scale);
}

tern_status_t cpu_adagrad_step(const tern_call *call)
{
    const tern_attr_adagrad *attr = call->attr;
    return adagrad(call, (double)attr->step, NULL);
}

tern_status_t cpu_adagrad_step_scaled(const tern_call *call)
{
    const tern_attr_adagrad *attr = call->attr;
    const scaling s = scaling_of(call, attr->turn);
    const double step = (double)steps_done(&s, attr->step - 1) + 1;
    return end_step(&s, s.left_out ? TERN_OK : adagrad(call, step, s.scale));
}

static tern_status_t lion(const tern_call *call, const tern_view *scale)
{
    const tern_attr_lion *attr = call->attr;
    const cpu_lion_numbers numbers = { .sign = attr->maximize ? -1 : 1,
                                       .lr = attr->lr,
                                       .keep = 1 - attr->lr * attr->weight_decay,
                                       .beta1 = attr->beta1,
                                       .beta2 = attr->beta2 };
    return run_step(call, CPU_STEP_LION, 3, &numbers, scale);
}

tern_status_t cpu_lion_step(const tern_call *call)
{
    return lion(call, NULL);
}

tern_status_t cpu_lion_step_scaled(const tern_call *call)
{
    const tern_attr_lion *attr = call->attr;
    const scaling s = scaling_of(call, attr->turn);
    return end_step(&s, s.left_out ? TERN_OK : lion(call, s.scale));
}
