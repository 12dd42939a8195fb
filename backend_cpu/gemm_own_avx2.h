/* Do own kernels make a product, on avx2? Made by tools/fit_gemm.py from 10964 measured products of f32 by
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
    if (s->b <= 20709) {
        if (s->work <= 6080361) {
            return true; /* 427: 1.08, 1.00 */
        } else {
            return false; /* 124: 1.06, 1.03 */
        }
    } else {
        if (s->n <= 54) {
            return true; /* 95: 1.01, 0.98 */
        } else {
            return false; /* 863: 0.93, 1.00 */
        }
    }
}

static bool avx2_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->n <= 124) {
        return true; /* 530: 1.12, 1.00 */
    } else {
        if (s->work <= 1085805) {
            return true; /* 95: 1.05, 0.97 */
        } else {
            if (s->k <= 24) {
                return true; /* 102: 1.11, 1.01 */
            } else {
                return false; /* 786: 0.98, 1.00 */
            }
        }
    }
}

static bool avx2_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 1030215) {
        return true; /* 187: 1.11, 0.99 */
    } else {
        if (s->n <= 24) {
            return true; /* 117: 1.16, 0.99 */
        } else {
            return false; /* 1212: 0.98, 1.01 */
        }
    }
}

static const cpu_gemm_owns avx2_owns[2][3] = {
    { avx2_owns_nn_alone, avx2_owns_nt_alone, avx2_owns_tn_alone },
    { avx2_owns_nn_shared, avx2_owns_nt_shared, avx2_owns_tn_shared },
};
