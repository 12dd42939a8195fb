/* Do own kernels make a product, on intel? Made by tools/fit_gemm.py from 10802 measured products of f32 by
 * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool intel_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->k <= 59) {
        if (s->c <= 660672) {
            if (s->m <= 41) {
                return false; /* 40: 0.93, 0.98 */
            } else {
                if (s->c <= 24174) {
                    return true; /* 40: 1.02, 0.98 */
                } else {
                    return false; /* 317: 0.96, 0.99 */
                }
            }
        } else {
            return true; /* 62: 1.06, 1.00 */
        }
    } else {
        if (s->b <= 323741) {
            return true; /* 1116: 1.05, 1.00 */
        } else {
            if (s->m <= 30) {
                return true; /* 88: 1.10, 0.99 */
            } else {
                return false; /* 111: 0.98, 1.00 */
            }
        }
    }
}

static bool intel_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->a <= 2190) {
        return false; /* 105: 0.99, 0.99 */
    } else {
        if (s->b <= 2632) {
            if (s->k <= 28) {
                return false; /* 58: 0.97, 0.98 */
            } else {
                return true; /* 57: 1.02, 0.99 */
            }
        } else {
            if (s->a <= 1068466) {
                if (s->c <= 1425) {
                    return false; /* 52: 1.07, 0.98 */
                } else {
                    if (s->work <= 62109585) {
                        return true; /* 1358: 1.05, 0.99 */
                    } else {
                        if (s->c <= 180234) {
                            return true; /* 47: 1.02, 1.00 */
                        } else {
                            return false; /* 81: 0.99, 1.00 */
                        }
                    }
                }
            } else {
                return false; /* 40: 1.01, 1.00 */
            }
        }
    }
}

static bool intel_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->k <= 67) {
        if (s->c <= 682138) {
            if (s->b <= 39620) {
                return false; /* 394: 0.95, 0.99 */
            } else {
                return true; /* 52: 1.00, 0.99 */
            }
        } else {
            return true; /* 48: 1.01, 1.00 */
        }
    } else {
        if (s->b <= 4459) {
            if (s->n <= 17) {
                return false; /* 43: 0.91, 0.99 */
            } else {
                return true; /* 42: 1.02, 0.98 */
            }
        } else {
            if (s->work <= 67889808) {
                if (s->m <= 22) {
                    return true; /* 162: 1.11, 0.99 */
                } else {
                    if (s->b <= 407772) {
                        return true; /* 919: 1.06, 1.00 */
                    } else {
                        return false; /* 41: 0.98, 0.99 */
                    }
                }
            } else {
                if (s->c <= 142884) {
                    return false; /* 54: 0.99, 1.00 */
                } else {
                    return true; /* 74: 1.03, 1.00 */
                }
            }
        }
    }
}

static bool intel_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 260618) {
        if (s->b <= 5202) {
            if (s->c <= 33220) {
                return true; /* 121: 1.06, 1.00 */
            } else {
                return false; /* 111: 0.98, 0.99 */
            }
        } else {
            if (s->rest <= 15) {
                if (s->m <= 21) {
                    return true; /* 98: 1.08, 0.99 */
                } else {
                    if (s->m <= 41) {
                        if (s->c <= 16933) {
                            return true; /* 65: 1.13, 0.99 */
                        } else {
                            return false; /* 40: 1.03, 0.99 */
                        }
                    } else {
                        return true; /* 1007: 1.08, 1.00 */
                    }
                }
            } else {
                if (s->a <= 19019) {
                    return false; /* 45: 1.01, 0.99 */
                } else {
                    return true; /* 51: 1.01, 1.00 */
                }
            }
        }
    } else {
        return false; /* 236: 0.99, 0.99 */
    }
}

static bool intel_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->b <= 2472) {
        if (s->k <= 36) {
            return false; /* 62: 0.96, 0.98 */
        } else {
            return true; /* 45: 1.02, 0.98 */
        }
    } else {
        if (s->c <= 1431) {
            return false; /* 53: 1.05, 1.10 */
        } else {
            if (s->a <= 1192) {
                return false; /* 45: 1.07, 1.01 */
            } else {
                if (s->a <= 1068466) {
                    return true; /* 1553: 1.04, 0.99 */
                } else {
                    return false; /* 40: 1.05, 0.99 */
                }
            }
        }
    }
}

static bool intel_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 293986) {
        if (s->b <= 5600) {
            if (s->work <= 1316520) {
                if (s->rest <= 5) {
                    return false; /* 43: 1.03, 1.06 */
                } else {
                    return true; /* 86: 1.02, 0.98 */
                }
            } else {
                return false; /* 150: 0.98, 0.99 */
            }
        } else {
            if (s->a <= 528906) {
                return true; /* 1232: 1.08, 1.00 */
            } else {
                if (s->a <= 1048320) {
                    return false; /* 71: 1.02, 1.00 */
                } else {
                    return true; /* 43: 1.23, 1.00 */
                }
            }
        }
    } else {
        if (s->m <= 152) {
            if (s->n <= 1173) {
                return false; /* 111: 0.95, 0.99 */
            } else {
                return true; /* 53: 1.06, 0.99 */
            }
        } else {
            return true; /* 40: 1.03, 1.00 */
        }
    }
}

static const cpu_gemm_owns intel_owns[2][3] = {
    { intel_owns_nn_alone, intel_owns_nt_alone, intel_owns_tn_alone },
    { intel_owns_nn_shared, intel_owns_nt_shared, intel_owns_tn_shared },
};
