/* Do own kernels make a product, on avx2? Made by tools/fit_gemm.py from 5092 measured products of f32 by
 * AVX2. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool avx2_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 24) {
        return true; /* 93: 1.09, 0.99 */
    } else {
        return false; /* 734: 0.95, 0.99 */
    }
}

static bool avx2_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->n <= 108) {
        return true; /* 310: 1.03, 0.98 */
    } else {
        if (s->c <= 360060) {
            if (s->work <= 31042088) {
                return false; /* 379: 0.96, 0.98 */
            } else {
                return true; /* 91: 0.99, 0.99 */
            }
        } else {
            return true; /* 90: 1.02, 0.99 */
        }
    }
}

static bool avx2_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 26) {
        return true; /* 92: 1.09, 0.98 */
    } else {
        return false; /* 757: 0.92, 0.98 */
    }
}

static bool avx2_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 32249) {
        if (s->m <= 122) {
            return true; /* 90: 1.04, 0.98 */
        } else {
            if (s->m <= 334) {
                return true; /* 94: 1.07, 1.01 */
            } else {
                if (s->c <= 68000) {
                    return true; /* 114: 1.08, 0.99 */
                } else {
                    return false; /* 92: 1.18, 1.19 */
                }
            }
        }
    } else {
        return false; /* 437: 0.90, 1.00 */
    }
}

static bool avx2_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->b <= 42273) {
        return true; /* 489: 1.08, 0.99 */
    } else {
        if (s->m <= 22) {
            return true; /* 92: 1.01, 0.95 */
        } else {
            return false; /* 289: 0.94, 1.00 */
        }
    }
}

static bool avx2_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 31152) {
        if (s->work <= 7742904) {
            return true; /* 310: 1.12, 1.01 */
        } else {
            return false; /* 92: 1.05, 1.04 */
        }
    } else {
        return false; /* 447: 0.91, 1.00 */
    }
}

static const cpu_gemm_owns avx2_owns[2][3] = {
    { avx2_owns_nn_alone, avx2_owns_nt_alone, avx2_owns_tn_alone },
    { avx2_owns_nn_shared, avx2_owns_nt_shared, avx2_owns_tn_shared },
};
