/* Do own kernels make a product, on intel? Made by tools/fit_gemm.py from 7436 measured products of f32 by
 * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. Refined from a table of another machine of the kind.
 * One limit was set by hand, and says so: the tool does not know it (unit/gemm_way does). */

static bool intel_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->c <= 14620) {
        if (s->b <= 119520) {
            return true; /* 310: 1.09, 1.00; earlier 1.04, 0.98 */
        } else {
            return false; /* 71: 1.08, 1.00; earlier 1.00, 0.99 */
        }
    } else {
        return false; /* 911: 1.02, 1.00; earlier 0.97, 0.99 */
    }
}

static bool intel_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->c <= 37280) {
        if (s->c <= 1040) {
            return false; /* 25: 1.01, 1.00; earlier 1.02, 1.10 */
        } else {
            return true; /* 526: 1.09, 1.00; earlier 1.07, 0.98 */
        }
    } else {
        if (s->k <= 130) {
            if (s->c <= 400000) {
                return false; /* 247: 1.00, 1.00; earlier 0.96, 0.99 */
            } else {
                return true; /* 88: 1.02, 1.00; earlier 0.99, 0.99 */
            }
        } else {
            if (s->c <= 138096) {
                return true; /* 152: 1.02, 1.00; earlier 1.02, 0.99 */
            } else {
                return false; /* 148: 0.99, 1.00; earlier 0.99, 0.99 */
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
                    return true; /* 65: 1.11, 0.99; earlier 1.04, 0.97 */
                } else {
                    if (s->b <= 30600) {
                        return true; /* 112: 1.17, 0.99; earlier 1.03, 0.97 */
                    } else {
                        return true; /* 56: 1.09, 1.00; earlier 1.03, 0.99 */
                    }
                }
            } else {
                return false; /* 57: 1.08, 1.00; earlier 1.03, 0.98 */
            }
        } else {
            return true; /* 43: 1.39, 1.00; earlier 0.97, 0.98 */
        }
    } else {
        /* by hand, from 443514870: of 20 shapes between, own kernels have 1 below 0.95, libraries 5 */
        if (s->work <= 300000000) {
            if (s->n <= 27) {
                return true; /* 46: 1.31, 1.00; earlier 0.96, 0.99 */
            } else {
                return false; /* 831: 1.04, 1.00; earlier 0.96, 0.99 */
            }
        } else {
            return true; /* 30: 1.00, 0.95; earlier 0.96, 0.99 */
        }
    }
}

static bool intel_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 2121152) {
        if (s->c <= 54378) {
            return true; /* 339: 1.08, 1.00; earlier 1.08, 0.97 */
        } else {
            return false; /* 55: 1.01, 1.00; earlier 1.10, 1.00 */
        }
    } else {
        if (s->n <= 68) {
            return true; /* 168: 1.09, 1.00; earlier 1.05, 0.99 */
        } else {
            if (s->a <= 174225) {
                if (s->c <= 933120) {
                    return false; /* 558: 1.04, 1.00; earlier 1.01, 1.00 */
                } else {
                    return true; /* 32: 1.05, 1.01; earlier 1.01, 1.00 */
                }
            } else {
                if (s->rest <= 12) {
                    return true; /* 104: 1.05, 1.00; earlier 1.01, 1.00 */
                } else {
                    return false; /* 36: 1.02, 1.00; earlier 1.01, 1.00 */
                }
            }
        }
    }
}

static bool intel_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->c <= 1856) {
        return false; /* 56: 1.06, 1.10; earlier 1.05, 1.13 */
    } else {
        if (s->m <= 821) {
            if (s->c <= 257868) {
                return true; /* 775: 1.05, 1.00; earlier 1.05, 0.97 */
            } else {
                return false; /* 108: 1.00, 1.00; earlier 0.99, 1.00 */
            }
        } else {
            if (s->work <= 15993280) {
                if (s->k <= 45) {
                    return false; /* 62: 0.99, 1.00; earlier 0.94, 0.96 */
                } else {
                    return true; /* 42: 1.05, 1.00; earlier 1.02, 0.98 */
                }
            } else {
                return true; /* 143: 1.02, 1.00; earlier 1.00, 0.99 */
            }
        }
    }
}

static bool intel_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 2517768) {
        if (s->c <= 84840) {
            return true; /* 335: 1.13, 1.00; earlier 1.05, 0.96 */
        } else {
            return false; /* 24: 1.12, 1.03; earlier 1.19, 1.23 */
        }
    } else {
        if (s->c <= 8149) {
            if (s->b <= 115464) {
                return true; /* 49: 1.30, 1.00; earlier 1.02, 0.98 */
            } else {
                return false; /* 30: 1.04, 1.00; earlier 1.02, 0.98 */
            }
        } else {
            if (s->a <= 139449) {
                if (s->c <= 869139) {
                    if (s->n <= 98) {
                        return true; /* 49: 1.07, 1.00; earlier 1.01, 0.99 */
                    } else {
                        return false; /* 438: 1.06, 1.00; earlier 1.01, 0.99 */
                    }
                } else {
                    return true; /* 33: 1.05, 1.03; earlier 1.01, 0.99 */
                }
            } else {
                if (s->m <= 256) {
                    return false; /* 41: 1.06, 1.00; earlier 1.01, 0.99 */
                } else {
                    return true; /* 241: 1.08, 1.00; earlier 1.01, 0.99 */
                }
            }
        }
    }
}

static const cpu_gemm_owns intel_owns[2][3] = {
    { intel_owns_nn_alone, intel_owns_nt_alone, intel_owns_tn_alone },
    { intel_owns_nn_shared, intel_owns_nt_shared, intel_owns_tn_shared },
};
