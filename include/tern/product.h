/* Products of matrices and vectors. All of them run as `gemm`, which multiplies [M, K] [K, N] or a batch
 * of those; an operand is copied at most once on the way, and only where its strides do not allow the
 * shape that gemm wants. */
#ifndef TERN_PRODUCT_H
#define TERN_PRODUCT_H

#include "tern/base.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* torch.matmul's rules from 1-D x 1-D to batched, broadcast N-D. */
TERN_API tern_tensor *tern_matmul_at(tern_site_t, tern_tensor *a, tern_tensor *b);
#define tern_matmul(a, b) tern_matmul_at(TERN_HERE, a, b)
/* x [..., in], weight [out, in], bias [out] or NULL -> [..., out]. */
TERN_API tern_tensor *tern_linear_at(tern_site_t, tern_tensor *x, tern_tensor *weight,
                                     tern_tensor *bias);
#define tern_linear(x, weight, bias) tern_linear_at(TERN_HERE, x, weight, bias)
/* [B, M, K] x [B, K, N] -> [B, M, N]; nothing broadcasts. */
TERN_API tern_tensor *tern_bmm_at(tern_site_t, tern_tensor *a, tern_tensor *b);
#define tern_bmm(a, b) tern_bmm_at(TERN_HERE, a, b)
/* [N] . [N] -> a 0-dim tensor. */
TERN_API tern_tensor *tern_dot_at(tern_site_t, tern_tensor *a, tern_tensor *b);
#define tern_dot(a, b) tern_dot_at(TERN_HERE, a, b)
/* [M] x [N] -> [M, N], in the promoted dtype. */
TERN_API tern_tensor *tern_outer_at(tern_site_t, tern_tensor *a, tern_tensor *b);
#define tern_outer(a, b) tern_outer_at(TERN_HERE, a, b)

typedef struct tern_addmm_args {
    size_t size_;
    tern_tensor *input;       /* broadcasts to [M, N] */
    tern_tensor *mat1, *mat2; /* [M, K], [K, N] */
    double beta, alpha;       /* default 1; 0 is TERN_ZERO. Whole-number dtypes take whole
                                 * parts, which have to fit. */
} tern_addmm_args;
/* beta * input + alpha * mat1 mat2. With beta 0 input's values are not read, with alpha 0 the
 * product's are not: NaN in them stays out. */
TERN_API tern_tensor *tern_addmm_at(tern_site_t, const tern_addmm_args *args);
#define tern_addmm(...) tern_addmm_at(TERN_HERE, TERN_OPTIONS_(tern_addmm_args, __VA_ARGS__))

/* torch.einsum of one or two operands: "ij,jk->ik". Letters a-z and A-Z name dimensions; "..." stands
 * for those that broadcast; a letter twice in one operand takes the diagonal; without "->" the result has
 * the ellipsis and then the letters that occur once, A-Z before a-z. An extent of 1 broadcasts. A dimension
 * that only one operand has and the result has not is summed first (one of one element only where there is one
 * operand: sums of integers are i64); what both have and the result has not is multiplied by one gemm, and where
 * there is none the operands meet in one `mul`, without a copy. */
TERN_API tern_tensor *tern_einsum_at(tern_site_t, const char *equation,
                                     tern_tensor *const *operands, int64_t count);
#define tern_einsum(equation, ...) \
    tern_einsum_at(TERN_HERE, equation, TERN_TENSORS_(__VA_ARGS__), TERN_TENSOR_COUNT_(__VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
