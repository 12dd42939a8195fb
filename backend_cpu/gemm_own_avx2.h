/* Do own kernels make a product, on avx2? Made by tools/fit_gemm.py from 6498 measured products of f32 by
 * AVX2. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool avx2_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 30) {
        return true; /* 152: 1.08, 1.00 */
    } else {
        return false; /* 906: 0.96, 1.00 */
    }
}

static bool avx2_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->n <= 63) {
        return true; /* 266: 1.07, 1.00 */
    } else {
        if (s->c <= 6456) {
            return true; /* 75: 1.04, 1.00 */
        } else {
            return false; /* 740: 0.97, 1.00 */
        }
    }
}

static bool avx2_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 24) {
        return true; /* 127: 1.13, 1.00 */
    } else {
        return false; /* 983: 0.95, 1.00 */
    }
}

static bool avx2_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->n <= 29) {
        return true; /* 143: 1.08, 0.99 */
    } else {
        if (s->work <= 807975) {
            return true; /* 63: 1.02, 0.98 */
        } else {
            return false; /* 852: 0.94, 1.00 */
        }
    }
}

static bool avx2_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->n <= 61) {
        if (s->m <= 127) {
            return true; /* 61: 1.09, 0.99 */
        } else {
            if (s->n <= 36) {
                return true; /* 137: 1.13, 0.99 */
            } else {
                return false; /* 61: 1.01, 0.99 */
            }
        }
    } else {
        if (s->c <= 6699) {
            return true; /* 80: 1.05, 0.99 */
        } else {
            return false; /* 742: 0.95, 1.00 */
        }
    }
}

static bool avx2_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->n <= 24) {
        if (s->a <= 136730) {
            return true; /* 64: 1.19, 0.99 */
        } else {
            return false; /* 63: 1.05, 0.99 */
        }
    } else {
        return false; /* 983: 0.94, 1.00 */
    }
}

static const cpu_gemm_owns avx2_owns[2][3] = {
    { avx2_owns_nn_alone, avx2_owns_nt_alone, avx2_owns_tn_alone },
    { avx2_owns_nn_shared, avx2_owns_nt_shared, avx2_owns_tn_shared },
};
