/* Optimizer steps for one type; included once per type, no include guard. The includer defines T,
 * NAME(x) and SQRT. Formulas are torch.optim's. */
static void NAME(sgd)(void *param, const void *gradient, void *c, void *d, int64_t n,
                      const void *numbers)
{
    const cpu_sgd_numbers *a = numbers;
    const T lr = (T)a->lr, sign = (T)a->sign, decay = (T)a->weight_decay;
    const T *g = gradient;
    T *p = param;
    (void)c, (void)d;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++)
        p[i] -= lr * (sign * g[i] + decay * p[i]);
}

static void NAME(sgd_momentum)(void *param, const void *gradient, void *buffer, void *d, int64_t n,
                               const void *numbers)
{
    const cpu_sgd_numbers *a = numbers;
    const T lr = (T)a->lr, sign = (T)a->sign, decay = (T)a->weight_decay;
    const T momentum = (T)a->momentum;
    /* the first step's buffer is the gradient itself, and what the buffer holds is not read */
    const T kept = a->first ? 0 : momentum, fresh = a->first ? 1 : (T)a->fresh;
    const T direct = a->nesterov ? 1 : 0, through = a->nesterov ? momentum : 1;
    const T *g = gradient;
    T *p = param, *b = buffer;
    (void)d;
    if (a->first)
        memset(b, 0, (size_t)n * sizeof *b);
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const T slope = sign * g[i] + decay * p[i];
        const T moved = kept * b[i] + fresh * slope;
        b[i] = moved;
        p[i] -= lr * (direct * slope + through * moved);
    }
}

static void NAME(adam)(void *param, const void *gradient, void *first, void *second, int64_t n,
                       const void *numbers)
{
    const cpu_adam_numbers *a = numbers;
    const T sign = (T)a->sign, keep = (T)a->keep, decay = (T)a->weight_decay;
    const T fresh1 = (T)(1 - a->beta1), beta2 = (T)a->beta2, fresh2 = (T)(1 - a->beta2);
    const T eps = (T)a->eps, step_size = (T)a->step_size, inverse_root = (T)a->inverse_root;
    const T *g = gradient;
    T *p = param, *m = first, *v = second;
    CPU_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const T slope = sign * g[i] + decay * p[i];
        const T mean = m[i] + fresh1 * (slope - m[i]);
        const T square = beta2 * v[i] + fresh2 * slope * slope;
        m[i] = mean;
        v[i] = square;
        p[i] = keep * p[i] - step_size * mean / (SQRT(square) * inverse_root + eps);
    }
}

const cpu_step_fn CPU_ISA_NAME(NAME(cpu_steps))[CPU_STEPS] = { NAME(sgd), NAME(sgd_momentum),
                                                               NAME(adam) };
