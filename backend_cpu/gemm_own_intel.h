/* Do own kernels make a product, on intel? Made by tools/fit_gemm.py from 10810 measured products of f32 by
 * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool intel_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->c <= 14620) {
        if (s->b <= 119520) {
            return true; /* 594: 1.04, 0.98 */
        } else {
            return false; /* 82: 1.00, 0.99 */
        }
    } else {
        return false; /* 1126: 0.97, 0.99 */
    }
}

static bool intel_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->c <= 37280) {
        if (s->c <= 1040) {
            return false; /* 62: 1.02, 1.10 */
        } else {
            return true; /* 1017: 1.07, 0.98 */
        }
    } else {
        if (s->k <= 130) {
            if (s->c <= 400000) {
                return false; /* 388: 0.96, 0.99 */
            } else {
                return true; /* 87: 0.99, 0.99 */
            }
        } else {
            if (s->c <= 138096) {
                return true; /* 169: 1.02, 0.99 */
            } else {
                return false; /* 71: 0.99, 0.99 */
            }
        }
    }
}

static bool intel_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->c <= 13634) {
        if (s->m <= 352) {
            if (s->b <= 133920) {
                if (s->m <= 31) {
                    return true; /* 168: 1.04, 0.97 */
                } else {
                    if (s->b <= 30600) {
                        return true; /* 285: 1.03, 0.97 */
                    } else {
                        return false; /* 64: 1.03, 0.99 */
                    }
                }
            } else {
                return false; /* 86: 1.03, 0.98 */
            }
        } else {
            return false; /* 65: 0.97, 0.98 */
        }
    } else {
        return false; /* 1141: 0.96, 0.99 */
    }
}

static bool intel_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 2121152) {
        if (s->c <= 54378) {
            return true; /* 754: 1.08, 0.97 */
        } else {
            return false; /* 114: 1.10, 1.00 */
        }
    } else {
        if (s->n <= 68) {
            return true; /* 197: 1.05, 0.99 */
        } else {
            if (s->a <= 174225) {
                return false; /* 647: 1.01, 1.00 */
            } else {
                return true; /* 90: 1.01, 1.00 */
            }
        }
    }
}

static bool intel_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->c <= 1856) {
        return false; /* 145: 1.05, 1.13 */
    } else {
        if (s->m <= 821) {
            if (s->c <= 257868) {
                return true; /* 1288: 1.05, 0.97 */
            } else {
                return false; /* 82: 0.99, 1.00 */
            }
        } else {
            if (s->work <= 15993280) {
                if (s->k <= 45) {
                    return false; /* 100: 0.94, 0.96 */
                } else {
                    return true; /* 68: 1.02, 0.98 */
                }
            } else {
                return true; /* 111: 1.00, 0.99 */
            }
        }
    }
}

static bool intel_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 2517768) {
        if (s->c <= 84840) {
            return true; /* 872: 1.05, 0.96 */
        } else {
            return false; /* 68: 1.19, 1.23 */
        }
    } else {
        if (s->c <= 8149) {
            return true; /* 87: 1.02, 0.98 */
        } else {
            return false; /* 782: 1.01, 0.99 */
        }
    }
}

static const cpu_gemm_owns intel_owns[2][3] = {
    { intel_owns_nn_alone, intel_owns_nt_alone, intel_owns_tn_alone },
    { intel_owns_nn_shared, intel_owns_nt_shared, intel_owns_tn_shared },
};
