/* Do own kernels make a product, on intel? Made by tools/fit_gemm.py from 16698 measured products of f32 by
 * AVX-512. Behind an answer stand the number of shapes that it holds for, and the median shares of the faster
 * library's speed by own kernels and by libraries. */

static bool intel_owns_nn_alone(const cpu_gemm_size *s)
{
    if (s->c <= 23608) {
        if (s->k <= 57) {
            if (s->m <= 63) {
                return false; /* 30: 0.97, 0.98 */
            } else {
                return true; /* 47: 1.02, 0.98 */
            }
        } else {
            if (s->m <= 1065) {
                if (s->m <= 12) {
                    return true; /* 101: 1.20, 0.99 */
                } else {
                    if (s->b <= 203112) {
                        return true; /* 808: 1.07, 0.99 */
                    } else {
                        if (s->b <= 664020) {
                            return false; /* 79: 1.01, 0.99 */
                        } else {
                            return true; /* 35: 1.09, 1.00 */
                        }
                    }
                }
            } else {
                return false; /* 37: 1.03, 0.99 */
            }
        }
    } else {
        if (s->c <= 519024) {
            if (s->a <= 140080) {
                return false; /* 1113: 0.99, 1.00 */
            } else {
                if (s->rest <= 14) {
                    return true; /* 315: 1.05, 1.00 */
                } else {
                    return false; /* 42: 1.01, 1.00 */
                }
            }
        } else {
            if (s->work <= 27114750) {
                return true; /* 77: 1.12, 1.00 */
            } else {
                if (s->work <= 74304438) {
                    return false; /* 57: 0.98, 1.00 */
                } else {
                    return true; /* 36: 1.03, 1.00 */
                }
            }
        }
    }
}

static bool intel_owns_nt_alone(const cpu_gemm_size *s)
{
    if (s->k <= 67) {
        if (s->c <= 717504) {
            if (s->c <= 26104) {
                if (s->b <= 3135) {
                    return false; /* 30: 0.99, 0.98 */
                } else {
                    return true; /* 65: 1.05, 0.98 */
                }
            } else {
                return false; /* 581: 0.97, 0.99 */
            }
        } else {
            if (s->work <= 28733440) {
                return true; /* 42: 1.25, 0.99 */
            } else {
                return false; /* 56: 0.98, 1.00 */
            }
        }
    } else {
        if (s->a <= 1763272) {
            if (s->c <= 190486) {
                if (s->c <= 750) {
                    return false; /* 35: 1.02, 0.98 */
                } else {
                    return true; /* 1728: 1.06, 0.99 */
                }
            } else {
                return false; /* 196: 0.99, 1.00 */
            }
        } else {
            return false; /* 30: 1.00, 1.00 */
        }
    }
}

static bool intel_owns_tn_alone(const cpu_gemm_size *s)
{
    if (s->k <= 67) {
        if (s->c <= 598418) {
            if (s->m <= 28) {
                return true; /* 34: 0.99, 0.97 */
            } else {
                return false; /* 658: 0.96, 0.99 */
            }
        } else {
            if (s->m <= 873) {
                return true; /* 37: 1.05, 1.00 */
            } else {
                return false; /* 59: 0.98, 1.00 */
            }
        }
    } else {
        if (s->b <= 4774) {
            if (s->n <= 20) {
                return false; /* 98: 0.93, 0.99 */
            } else {
                return true; /* 59: 1.01, 0.98 */
            }
        } else {
            if (s->work <= 34441680) {
                return true; /* 1443: 1.07, 0.99 */
            } else {
                if (s->c <= 150822) {
                    if (s->n <= 52) {
                        return true; /* 30: 1.19, 1.00 */
                    } else {
                        return false; /* 200: 1.02, 1.00 */
                    }
                } else {
                    if (s->m <= 1370) {
                        return true; /* 161: 1.04, 1.00 */
                    } else {
                        return false; /* 30: 1.01, 1.00 */
                    }
                }
            }
        }
    }
}

static bool intel_owns_nn_shared(const cpu_gemm_size *s)
{
    if (s->b <= 257982) {
        if (s->b <= 5202) {
            if (s->k <= 58) {
                if (s->m <= 437) {
                    return true; /* 54: 1.11, 1.02 */
                } else {
                    return false; /* 160: 0.99, 0.99 */
                }
            } else {
                return true; /* 164: 1.06, 0.99 */
            }
        } else {
            if (s->rest <= 15) {
                if (s->m <= 35) {
                    if (s->c <= 25670) {
                        return true; /* 247: 1.11, 0.99 */
                    } else {
                        return false; /* 31: 1.00, 0.99 */
                    }
                } else {
                    if (s->b <= 197220) {
                        return true; /* 1559: 1.08, 1.00 */
                    } else {
                        return false; /* 54: 1.03, 1.00 */
                    }
                }
            } else {
                if (s->k <= 66) {
                    return false; /* 48: 0.98, 1.00 */
                } else {
                    return true; /* 89: 1.02, 0.99 */
                }
            }
        }
    } else {
        if (s->m <= 11) {
            return true; /* 38: 1.20, 0.99 */
        } else {
            if (s->a <= 273420) {
                return false; /* 302: 0.96, 0.99 */
            } else {
                return true; /* 31: 1.06, 1.01 */
            }
        }
    }
}

static bool intel_owns_nt_shared(const cpu_gemm_size *s)
{
    if (s->m <= 452) {
        if (s->c <= 1431) {
            return false; /* 85: 1.05, 1.16 */
        } else {
            if (s->c <= 305333) {
                if (s->k <= 12) {
                    return false; /* 32: 1.83, 1.98 */
                } else {
                    if (s->m <= 21) {
                        if (s->a <= 1192) {
                            return false; /* 32: 1.08, 0.98 */
                        } else {
                            return true; /* 215: 1.17, 0.98 */
                        }
                    } else {
                        return true; /* 1435: 1.04, 0.98 */
                    }
                }
            } else {
                return false; /* 59: 0.98, 0.99 */
            }
        }
    } else {
        if (s->c <= 1066869) {
            if (s->a <= 153972) {
                if (s->c <= 18048) {
                    return true; /* 35: 1.03, 0.98 */
                } else {
                    return false; /* 474: 0.99, 0.99 */
                }
            } else {
                if (s->k <= 1110) {
                    if (s->n <= 264) {
                        return true; /* 237: 1.04, 0.99 */
                    } else {
                        return false; /* 31: 1.00, 1.00 */
                    }
                } else {
                    return false; /* 63: 1.04, 0.99 */
                }
            }
        } else {
            return true; /* 65: 1.07, 1.01 */
        }
    }
}

static bool intel_owns_tn_shared(const cpu_gemm_size *s)
{
    if (s->work <= 1932900) {
        if (s->m <= 793) {
            if (s->k <= 14) {
                return false; /* 60: 1.26, 1.31 */
            } else {
                return true; /* 653: 1.08, 0.98 */
            }
        } else {
            return false; /* 77: 0.95, 0.98 */
        }
    } else {
        if (s->c <= 1009745) {
            if (s->a <= 1127714) {
                if (s->c <= 4480) {
                    if (s->work <= 3834528) {
                        return true; /* 73: 1.11, 0.99 */
                    } else {
                        return false; /* 35: 1.09, 1.01 */
                    }
                } else {
                    if (s->m <= 11) {
                        return true; /* 35: 1.23, 0.99 */
                    } else {
                        if (s->b <= 1353940) {
                            return false; /* 1720: 1.05, 1.00 */
                        } else {
                            return true; /* 33: 1.04, 1.00 */
                        }
                    }
                }
            } else {
                return true; /* 56: 1.23, 1.00 */
            }
        } else {
            return true; /* 67: 1.02, 0.99 */
        }
    }
}

static const cpu_gemm_owns intel_owns[2][3] = {
    { intel_owns_nn_alone, intel_owns_nt_alone, intel_owns_tn_alone },
    { intel_owns_nn_shared, intel_owns_nt_shared, intel_owns_tn_shared },
};
