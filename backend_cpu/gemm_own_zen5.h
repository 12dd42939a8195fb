/* Do own kernels make a product, on zen5? Made by tools/fit_gemm.py from 11450 measured products of f32 by
 * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool zen5_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->b <= 3653) {
        if (s->rest <= 7) {
            return true; /* 66: 1.01, 1.00 */
        } else {
            return false; /* 109: 1.00, 1.00 */
        }
    } else {
        if (s->b <= 498324) {
            return true; /* 1384: 1.03, 1.00 */
        } else {
            return false; /* 110: 1.00, 1.00 */
        }
    }
}

static bool zen5_owns_nt_alone(const cpu_gemm_size *s)
{
    (void)s;
    return true; /* 1646: 1.08, 1.00 */
}

static bool zen5_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->work <= 75922632) {
        if (s->k <= 12) {
            return false; /* 71: 1.00, 1.00 */
        } else {
            return true; /* 1505: 1.03, 1.00 */
        }
    } else {
        return false; /* 109: 1.01, 1.00 */
    }
}

static bool zen5_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 776204) {
        return true; /* 2066: 1.02, 0.99 */
    } else {
        return false; /* 104: 0.98, 1.00 */
    }
}

static bool zen5_owns_nt_shared(const cpu_gemm_size *s)
{
    (void)s;
    return true; /* 2148: 1.10, 0.99 */
}

static bool zen5_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 232995) {
        if (s->c <= 340362) {
            if (s->m <= 13) {
                return true; /* 69: 1.09, 0.94 */
            } else {
                if (s->b <= 154395) {
                    return true; /* 1459: 1.03, 0.98 */
                } else {
                    return false; /* 84: 1.02, 0.99 */
                }
            }
        } else {
            if (s->work <= 15357816) {
                return false; /* 60: 0.99, 1.00 */
            } else {
                return true; /* 140: 1.01, 1.00 */
            }
        }
    } else {
        if (s->m <= 21) {
            return true; /* 75: 1.09, 0.98 */
        } else {
            return false; /* 245: 1.01, 1.00 */
        }
    }
}

static const cpu_gemm_owns zen5_owns[2][3] = {
    { zen5_owns_nn_alone, zen5_owns_nt_alone, zen5_owns_tn_alone },
    { zen5_owns_nn_shared, zen5_owns_nt_shared, zen5_owns_tn_shared },
};
