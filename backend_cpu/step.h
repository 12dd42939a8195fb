/* Between the optimizer steps (step.c) and their inner loops (isa/step.c). */
#ifndef TERN_BACKEND_CPU_STEP_H
#define TERN_BACKEND_CPU_STEP_H

#include "backend_cpu/cpu.h"

/* What a step needs besides memory; computed once per call in double. */
typedef struct cpu_sgd_numbers {
    double sign;                              /* -1 to maximise */
    double lr, momentum, fresh, weight_decay; /* fresh: 1 - dampening */
    bool nesterov, first;
} cpu_sgd_numbers;

typedef struct cpu_adam_numbers {
    double sign;
    double keep;         /* 1 - lr * weight_decay when decoupled, else 1 */
    double weight_decay; /* 0 when decoupled */
    double beta1, beta2, eps;
    double step_size;    /* lr / (1 - beta1^step) */
    double inverse_root; /* 1 / sqrt(1 - beta2^step) */
} cpu_adam_numbers;

typedef struct cpu_rmsprop_numbers {
    double sign, lr, alpha, momentum, eps, weight_decay;
} cpu_rmsprop_numbers;

typedef struct cpu_adagrad_numbers {
    double sign, lr, eps, weight_decay; /* lr: of this step */
} cpu_adagrad_numbers;

typedef struct cpu_lion_numbers {
    double sign, lr, keep, beta1, beta2; /* keep: 1 - lr * weight_decay */
} cpu_lion_numbers;

/* n elements without gaps; `numbers`: a struct from above. at: parameter, gradient, then the state: buffer;
 * m, v; square, buffer where there is a momentum, mean where centered; sum; m. */
enum { CPU_STEP_OPERANDS = 5 };
typedef void (*cpu_step_fn)(void *const at[CPU_STEP_OPERANDS], int64_t n, const void *numbers);

enum {
    CPU_STEP_SGD,
    CPU_STEP_SGD_MOMENTUM,
    CPU_STEP_ADAM,
    CPU_STEP_RMSPROP, /* + 1: with a momentum, + 2: centered */
    CPU_STEP_ADAGRAD = CPU_STEP_RMSPROP + 4,
    CPU_STEP_LION,
    CPU_STEPS
};
CPU_ISA_DECLARE_TABLE(const cpu_step_fn, cpu_steps_f32, CPU_STEPS);
CPU_ISA_DECLARE_TABLE(const cpu_step_fn, cpu_steps_f64, CPU_STEPS);

#endif
