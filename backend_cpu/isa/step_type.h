/* Optimizer steps for one type; included once per type, no include guard. The includer defines T,
 * NAME(x) and SQRT. Formulas are torch.optim's, which leaves a term out where its factor is 0: 0 times
 * an infinity is NaN. */

/* What weight decay adds to the gradient; a choice of operands, so that loops stay vectors. */
#define DECAYED(slope, decay, p) ((slope) + (decay) * ((decay) != 0 ? (p) : 0))

/* torch.lerp: from whichever end is nearer, so that a weight of 1 gives `to` exactly. */
#define LERP(from, to, weight)             \
    (((weight) < (T)0.5 ? (from) : (to)) + \
     ((weight) < (T)0.5 ? (weight) : (weight)-1) * ((to) - (from)))

static void NAME(sgd)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    const cpu_sgd_numbers *a = numbers;
    const T lr = (T)a->lr, sign = (T)a->sign, decay = (T)a->weight_decay;
    const T *g = at[1];
    T *p = at[0];
    CPU_BY_FOUR
    for (int64_t i = 0; i < n; i++)
        p[i] -= lr * DECAYED(sign * g[i], decay, p[i]);
}

static void NAME(sgd_momentum)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    const cpu_sgd_numbers *a = numbers;
    const T lr = (T)a->lr, sign = (T)a->sign, decay = (T)a->weight_decay;
    const T momentum = (T)a->momentum;
    /* the first step's buffer is the gradient itself, and what the buffer holds is not read */
    const T kept = a->first ? 0 : momentum, fresh = a->first ? 1 : (T)a->fresh;
    const bool nesterov = a->nesterov;
    const T through = nesterov ? momentum : 1;
    const T *g = at[1];
    T *p = at[0], *b = at[2];
    if (a->first)
        memset(b, 0, (size_t)n * sizeof *b);
    CPU_BY_FOUR
    for (int64_t i = 0; i < n; i++) {
        const T slope = DECAYED(sign * g[i], decay, p[i]);
        const T moved = kept * b[i] + fresh * slope;
        b[i] = moved;
        p[i] -= lr * ((nesterov ? slope : 0) + through * moved);
    }
}

static void NAME(adam)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    const cpu_adam_numbers *a = numbers;
    const T sign = (T)a->sign, keep = (T)a->keep, decay = (T)a->weight_decay;
    const T fresh1 = (T)(1 - a->beta1), beta2 = (T)a->beta2, fresh2 = (T)(1 - a->beta2);
    const T eps = (T)a->eps, step_size = (T)a->step_size, inverse_root = (T)a->inverse_root;
    const T *g = at[1];
    T *p = at[0], *m = at[2], *v = at[3];
    CPU_BY_FOUR
    for (int64_t i = 0; i < n; i++) {
        const T slope = DECAYED(sign * g[i], decay, p[i]);
        const T mean = LERP(m[i], slope, fresh1);
        const T square = beta2 * v[i] + fresh2 * slope * slope;
        m[i] = mean;
        v[i] = square;
        p[i] = keep * p[i] - step_size * mean / (SQRT(square) * inverse_root + eps);
    }
}

/* A variance that rounding made negative counts as 0; a NaN stays. */
static inline __attribute__((always_inline)) void NAME(rmsprop_loop)(void *const at[], bool moves,
                                                                     bool centered, int64_t n,
                                                                     const void *numbers)
{
    const cpu_rmsprop_numbers *a = numbers;
    const T sign = (T)a->sign, decay = (T)a->weight_decay, lr = (T)a->lr, eps = (T)a->eps;
    const T alpha = (T)a->alpha, fresh = (T)(1 - a->alpha), momentum = (T)a->momentum;
    const T *g = at[1];
    T *p = at[0], *s = at[2], *b = at[3], *m = moves ? at[4] : at[3];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const T slope = DECAYED(sign * g[i], decay, p[i]);
        const T square = alpha * s[i] + fresh * slope * slope;
        T spread = square;
        s[i] = square;
        if (centered) {
            const T mean = LERP(m[i], slope, fresh);
            m[i] = mean;
            spread = square - mean * mean;
            spread = spread < 0 ? 0 : spread;
        }
        T move = slope / (SQRT(spread) + eps);
        if (moves) {
            move = momentum * b[i] + move;
            b[i] = move;
        }
        p[i] -= lr * move;
    }
}

static void NAME(rmsprop)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    NAME(rmsprop_loop)(at, false, false, n, numbers);
}

static void NAME(rmsprop_momentum)(void *const at[CPU_STEP_OPERANDS], int64_t n,
                                   const void *numbers)
{
    NAME(rmsprop_loop)(at, true, false, n, numbers);
}

static void NAME(rmsprop_centered)(void *const at[CPU_STEP_OPERANDS], int64_t n,
                                   const void *numbers)
{
    NAME(rmsprop_loop)(at, false, true, n, numbers);
}

static void NAME(rmsprop_both)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    NAME(rmsprop_loop)(at, true, true, n, numbers);
}

static void NAME(adagrad)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    const cpu_adagrad_numbers *a = numbers;
    const T sign = (T)a->sign, decay = (T)a->weight_decay, lr = (T)a->lr, eps = (T)a->eps;
    const T *g = at[1];
    T *p = at[0], *s = at[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const T slope = DECAYED(sign * g[i], decay, p[i]);
        const T sum = s[i] + slope * slope;
        s[i] = sum;
        p[i] -= lr * slope / (SQRT(sum) + eps);
    }
}

/* The sign of a zero is 0, of a NaN NaN. */
static void NAME(lion)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers)
{
    const cpu_lion_numbers *a = numbers;
    const T sign = (T)a->sign, keep = (T)a->keep, lr = (T)a->lr;
    const T beta1 = (T)a->beta1, beta2 = (T)a->beta2;
    const T fresh1 = (T)(1 - a->beta1), fresh2 = (T)(1 - a->beta2);
    const T *g = at[1];
    T *p = at[0], *m = at[2];
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const T slope = sign * g[i], mean = m[i];
        const T blend = beta1 * mean + fresh1 * slope; /* of an infinite mean, too */
        const T way = blend > 0 ? 1 : blend < 0 ? -1 : blend;
        m[i] = beta2 * mean + fresh2 * slope;
        p[i] = keep * p[i] - lr * way;
    }
}

const cpu_step_fn CPU_ISA_NAME(NAME(cpu_steps))[CPU_STEPS] = {
    [CPU_STEP_SGD] = NAME(sgd),
    [CPU_STEP_SGD_MOMENTUM] = NAME(sgd_momentum),
    [CPU_STEP_ADAM] = NAME(adam),
    [CPU_STEP_RMSPROP] = NAME(rmsprop),
    [CPU_STEP_RMSPROP + 1] = NAME(rmsprop_momentum),
    [CPU_STEP_RMSPROP + 2] = NAME(rmsprop_centered),
    [CPU_STEP_RMSPROP + 3] = NAME(rmsprop_both),
    [CPU_STEP_ADAGRAD] = NAME(adagrad),
    [CPU_STEP_LION] = NAME(lion),
};
#undef DECAYED
#undef LERP
