/* Do own kernels make a product, on avx2? Made by tools/fit_gemm.py from 9972 measured products of f32 by
 * AVX2. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool avx2_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 31) {
        return true; /* 333: 1.08, 1.00 */
    } else {
        return false; /* 2134: 0.97, 1.00 */
    }
}

static bool avx2_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->n <= 108) {
        return true; /* 520: 1.05, 1.00 */
    } else {
        if (s->c <= 7560) {
            return true; /* 90: 1.06, 1.00 */
        } else {
            if (s->a <= 114696) {
                return false; /* 699: 0.98, 1.00 */
            } else {
                return true; /* 115: 1.01, 1.00 */
            }
        }
    }
}

static bool avx2_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 24) {
        return true; /* 252: 1.13, 1.00 */
    } else {
        return false; /* 2283: 0.97, 1.00 */
    }
}

static bool avx2_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 40368) {
        return true; /* 651: 1.09, 1.00 */
    } else {
        if (s->m <= 418) {
            return false; /* 421: 0.95, 1.00 */
        } else {
            return true; /* 93: 1.03, 1.03 */
        }
    }
}

static bool avx2_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->b <= 64584) {
        if (s->m <= 52) {
            return true; /* 90: 1.04, 0.97 */
        } else {
            if (s->b <= 32240) {
                return true; /* 521: 1.11, 1.00 */
            } else {
                return false; /* 120: 1.02, 1.00 */
            }
        }
    } else {
        if (s->m <= 19) {
            return true; /* 92: 1.12, 0.99 */
        } else {
            return false; /* 372: 0.99, 1.00 */
        }
    }
}

static bool avx2_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 80955) {
        if (s->m <= 1290) {
            if (s->m <= 38) {
                return true; /* 90: 1.04, 0.96 */
            } else {
                if (s->b <= 28560) {
                    return true; /* 432: 1.15, 1.01 */
                } else {
                    if (s->m <= 181) {
                        return false; /* 90: 1.08, 1.02 */
                    } else {
                        return true; /* 115: 1.09, 1.04 */
                    }
                }
            }
        } else {
            return false; /* 95: 1.13, 1.00 */
        }
    } else {
        if (s->m <= 113) {
            return false; /* 221: 0.96, 1.00 */
        } else {
            return true; /* 143: 1.09, 1.02 */
        }
    }
}

static const cpu_gemm_owns avx2_owns[2][3] = {
    { avx2_owns_nn_alone, avx2_owns_nt_alone, avx2_owns_tn_alone },
    { avx2_owns_nn_shared, avx2_owns_nt_shared, avx2_owns_tn_shared },
};
