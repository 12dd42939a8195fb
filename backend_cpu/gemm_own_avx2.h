/* Do own kernels make a product, on avx2? Made by tools/fit_gemm.py from 5092 measured products of f32 by
 * AVX2. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool avx2_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 33) {
        return true; /* 132: 1.05, 0.99 */
    } else {
        return false; /* 695: 0.95, 0.99 */
    }
}

static bool avx2_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->n <= 108) {
        return true; /* 310: 1.03, 0.98 */
    } else {
        if (s->c <= 225920) {
            return false; /* 432: 0.97, 0.99 */
        } else {
            return true; /* 128: 1.01, 0.99 */
        }
    }
}

static bool avx2_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->n <= 35) {
        return true; /* 120: 1.04, 0.98 */
    } else {
        return false; /* 729: 0.92, 0.98 */
    }
}

static bool avx2_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 32249) {
        return true; /* 390: 1.08, 1.01 */
    } else {
        return false; /* 437: 0.90, 1.00 */
    }
}

static bool avx2_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->b <= 42273) {
        return true; /* 489: 1.08, 0.99 */
    } else {
        if (s->c <= 14850) {
            return true; /* 120: 1.00, 0.97 */
        } else {
            return false; /* 261: 0.94, 1.00 */
        }
    }
}

static bool avx2_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 31152) {
        if (s->work <= 5543020) {
            return true; /* 282: 1.12, 1.01 */
        } else {
            return false; /* 120: 1.07, 1.02 */
        }
    } else {
        return false; /* 447: 0.91, 1.00 */
    }
}

static const cpu_gemm_owns avx2_owns[2][3] = {
    { avx2_owns_nn_alone, avx2_owns_nt_alone, avx2_owns_tn_alone },
    { avx2_owns_nn_shared, avx2_owns_nt_shared, avx2_owns_tn_shared },
};
