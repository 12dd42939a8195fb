/* Do own kernels make a product, on avx2? Made by tools/fit_gemm.py from 9087 measured products of f32 by
 * AVX2. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool avx2_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 31) {
        return true; /* 265: 1.08, 1.00 */
    } else {
        return false; /* 1653: 0.97, 1.00 */
    }
}

static bool avx2_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->n <= 108) {
        return true; /* 317: 1.05, 1.00 */
    } else {
        return false; /* 567: 0.99, 1.00 */
    }
}

static bool avx2_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 24) {
        return true; /* 195: 1.13, 1.00 */
    } else {
        return false; /* 1754: 0.97, 1.00 */
    }
}

static bool avx2_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 33200) {
        if (s->work <= 4206762) {
            return true; /* 424: 1.07, 1.00 */
        } else {
            if (s->a <= 160602) {
                return false; /* 164: 1.04, 1.05 */
            } else {
                return true; /* 91: 1.05, 1.00 */
            }
        }
    } else {
        return false; /* 755: 0.98, 1.00 */
    }
}

static bool avx2_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->n <= 141) {
        if (s->m <= 56) {
            return true; /* 90: 1.09, 0.99 */
        } else {
            if (s->b <= 29900) {
                return true; /* 397: 1.11, 1.00 */
            } else {
                return false; /* 111: 1.05, 1.01 */
            }
        }
    } else {
        if (s->b <= 8856) {
            return true; /* 90: 1.04, 1.01 */
        } else {
            if (s->m <= 390) {
                if (s->m <= 18) {
                    return true; /* 93: 1.05, 1.00 */
                } else {
                    return false; /* 515: 0.96, 1.00 */
                }
            } else {
                return true; /* 183: 1.03, 1.02 */
            }
        }
    }
}

static bool avx2_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 32040) {
        if (s->c <= 109076) {
            return true; /* 539: 1.09, 1.00 */
        } else {
            return false; /* 165: 1.05, 1.06 */
        }
    } else {
        if (s->m <= 148) {
            return false; /* 435: 0.96, 1.00 */
        } else {
            if (s->n <= 166) {
                return false; /* 91: 1.09, 1.06 */
            } else {
                return true; /* 193: 1.05, 1.01 */
            }
        }
    }
}

static const cpu_gemm_owns avx2_owns[2][3] = {
    { avx2_owns_nn_alone, avx2_owns_nt_alone, avx2_owns_tn_alone },
    { avx2_owns_nn_shared, avx2_owns_nt_shared, avx2_owns_tn_shared },
};
