/* Do own kernels make a product, on zen4? Made by tools/fit_gemm.py from 12300 measured products of f32 by
 * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool zen4_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->m <= 10) {
        return true; /* 42: 1.03, 0.99 */
    } else {
        if (s->c <= 1123360) {
            if (s->c <= 820) {
                return true; /* 33: 1.03, 0.97 */
            } else {
                if (s->m <= 35) {
                    if (s->m <= 18) {
                        if (s->b <= 112125) {
                            return true; /* 46: 1.00, 0.98 */
                        } else {
                            return false; /* 62: 0.95, 1.00 */
                        }
                    } else {
                        return false; /* 195: 1.00, 0.99 */
                    }
                } else {
                    return false; /* 1610: 1.00, 1.00 */
                }
            }
        } else {
            return true; /* 54: 1.04, 1.00 */
        }
    }
}

static bool zen4_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->c <= 7595) {
        if (s->b <= 142848) {
            return false; /* 348: 1.16, 1.22 */
        } else {
            return true; /* 56: 1.18, 1.09 */
        }
    } else {
        if (s->k <= 10) {
            return false; /* 51: 1.01, 0.99 */
        } else {
            if (s->n <= 38) {
                if (s->rest <= 6) {
                    return false; /* 69: 1.02, 1.17 */
                } else {
                    return true; /* 106: 1.07, 1.02 */
                }
            } else {
                return true; /* 1417: 1.05, 1.00 */
            }
        }
    }
}

static bool zen4_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->c <= 1339340) {
        if (s->c <= 792) {
            return true; /* 32: 1.05, 0.95 */
        } else {
            if (s->m <= 10) {
                return true; /* 40: 1.09, 0.99 */
            } else {
                return false; /* 1945: 0.99, 1.00 */
            }
        }
    } else {
        return true; /* 44: 1.08, 0.96 */
    }
}

static bool zen4_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 2095875) {
        if (s->b <= 5564) {
            if (s->a <= 6786) {
                return true; /* 38: 1.11, 1.12 */
            } else {
                return false; /* 139: 1.04, 1.15 */
            }
        } else {
            if (s->rest <= 2) {
                return false; /* 50: 1.06, 1.07 */
            } else {
                if (s->n <= 1157) {
                    return true; /* 320: 1.12, 1.03 */
                } else {
                    return false; /* 30: 1.04, 1.01 */
                }
            }
        }
    } else {
        return false; /* 1465: 1.02, 1.01 */
    }
}

static bool zen4_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->k <= 1811) {
        if (s->n <= 1873) {
            if (s->n <= 28) {
                if (s->b <= 3645) {
                    return true; /* 64: 1.07, 0.99 */
                } else {
                    if (s->rest <= 10) {
                        return false; /* 102: 1.37, 1.53 */
                    } else {
                        return true; /* 66: 1.42, 1.44 */
                    }
                }
            } else {
                return true; /* 1711: 1.11, 1.03 */
            }
        } else {
            return false; /* 47: 1.10, 1.02 */
        }
    } else {
        return false; /* 57: 1.33, 1.43 */
    }
}

static bool zen4_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 5609180) {
        if (s->m <= 298) {
            if (s->b <= 155430) {
                if (s->a <= 782) {
                    return false; /* 33: 0.99, 1.02 */
                } else {
                    if (s->n <= 22) {
                        if (s->rest <= 10) {
                            return false; /* 38: 1.02, 1.23 */
                        } else {
                            return true; /* 34: 1.31, 1.26 */
                        }
                    } else {
                        return true; /* 562: 1.07, 1.00 */
                    }
                }
            } else {
                return false; /* 55: 1.00, 0.98 */
            }
        } else {
            if (s->rest <= 9) {
                if (s->n <= 169) {
                    return false; /* 116: 0.99, 1.12 */
                } else {
                    return true; /* 36: 1.07, 1.06 */
                }
            } else {
                if (s->c <= 23168) {
                    return false; /* 55: 1.32, 1.30 */
                } else {
                    return true; /* 72: 1.01, 0.98 */
                }
            }
        }
    } else {
        if (s->k <= 106) {
            if (s->b <= 31311) {
                if (s->m <= 616) {
                    return true; /* 30: 1.09, 1.05 */
                } else {
                    return false; /* 103: 1.01, 1.02 */
                }
            } else {
                return true; /* 119: 1.05, 1.01 */
            }
        } else {
            return false; /* 808: 1.00, 1.00 */
        }
    }
}

static const cpu_gemm_owns zen4_owns[2][3] = {
    { zen4_owns_nn_alone, zen4_owns_nt_alone, zen4_owns_tn_alone },
    { zen4_owns_nn_shared, zen4_owns_nt_shared, zen4_owns_tn_shared },
};
