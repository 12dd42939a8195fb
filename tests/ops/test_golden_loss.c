/* Losses against golden vectors: tests/golden/make_loss.py. */
#include "tests/support/check.h"
#include "tests/support/golden_rows.h"

GOLDEN_OP(l1_mean, tern_l1_loss(in[0], in[1], TERN_MEAN))
GOLDEN_OP(l1_sum, tern_l1_loss(in[0], in[1], TERN_SUM))
GOLDEN_OP(l1_none, tern_l1_loss(in[0], in[1], TERN_NONE))
GOLDEN_OP(smooth_mean, tern_smooth_l1_loss(in[0], in[1]))
GOLDEN_OP(smooth_sum, tern_smooth_l1_loss(in[0], in[1], TERN_SUM))
GOLDEN_OP(smooth_none, tern_smooth_l1_loss(in[0], in[1], TERN_NONE))
GOLDEN_OP(smooth_beta, tern_smooth_l1_loss(in[0], in[1], .beta = 0.25))
GOLDEN_OP(huber_mean, tern_huber_loss(in[0], in[1]))
GOLDEN_OP(huber_sum, tern_huber_loss(in[0], in[1], TERN_SUM))
GOLDEN_OP(huber_none, tern_huber_loss(in[0], in[1], TERN_NONE))
GOLDEN_OP(huber_delta, tern_huber_loss(in[0], in[1], .delta = 2.5))
GOLDEN_OP(kl_mean, tern_kl_div(in[0], in[1]))
GOLDEN_OP(kl_sum, tern_kl_div(in[0], in[1], TERN_SUM))
GOLDEN_OP(kl_none, tern_kl_div(in[0], in[1], TERN_NONE))
GOLDEN_OP(kl_batch, tern_kl_div(in[0], in[1], TERN_BATCH_MEAN))
GOLDEN_OP(kl_log, tern_kl_div(in[0], in[1], TERN_BATCH_MEAN, .log_target = true))
GOLDEN_OP(nll_mean, tern_nll_loss(in[0], in[1], in[2]))
GOLDEN_OP(nll_sum, tern_nll_loss(in[0], in[1], in[2], TERN_SUM))
GOLDEN_OP(nll_none, tern_nll_loss(in[0], in[1], in[2], TERN_NONE))
GOLDEN_OP(nll_plain, tern_nll_loss(in[0], in[1]))
GOLDEN_OP(nll_ignore, tern_nll_loss(in[0], in[1], in[2], .ignore = true, .ignore_index = 0))
GOLDEN_OP(cosine, tern_cosine_similarity(in[0], in[1], 1, 0))
GOLDEN_OP(cosine_first, tern_cosine_similarity(in[0], in[1], -3, 0))
GOLDEN_OP(cosine_eps, tern_cosine_similarity(in[0], in[1], 1, 3))

#define BCE(name, ...) GOLDEN_OP(name, tern_binary_cross_entropy(in[0], in[1], __VA_ARGS__))
#define LOGITS(name, ...) \
    GOLDEN_OP(name, tern_binary_cross_entropy_with_logits(in[0], in[1], __VA_ARGS__))
BCE(bce_mean, .reduction = TERN_MEAN)
BCE(bce_sum, .reduction = TERN_SUM)
BCE(bce_none, .reduction = TERN_NONE)
BCE(bce_weight, in[2])
LOGITS(logits_mean, .reduction = TERN_MEAN)
LOGITS(logits_sum, .reduction = TERN_SUM)
LOGITS(logits_none, .reduction = TERN_NONE)
LOGITS(logits_weight, in[2], .pos_weight = in[3])

static const golden_row rows[] = {
    { "l1_mean", "x t", run_l1_mean, 16 },
    { "l1_sum", "x t", run_l1_sum, 32 },
    { "l1_none", "x t", run_l1_none, 4 },
    { "l1_broadcast", "x t", run_l1_none, 8 },
    { "smooth_l1_mean", "x t", run_smooth_mean, 16 },
    { "smooth_l1_sum", "x t", run_smooth_sum, 32 },
    { "smooth_l1_none", "x t", run_smooth_none, 8 },
    { "smooth_l1_beta", "x t", run_smooth_beta, 16 },
    { "huber_mean", "x t", run_huber_mean, 16 },
    { "huber_sum", "x t", run_huber_sum, 32 },
    { "huber_none", "x t", run_huber_none, 8 },
    { "huber_delta", "x t", run_huber_delta, 16 },
    { "kl_div_mean", "x t", run_kl_mean, 16 },
    { "kl_div_sum", "x t", run_kl_sum, 32 },
    { "kl_div_none", "x t", run_kl_none, 16 },
    { "kl_div_batchmean", "x t", run_kl_batch, 16 },
    { "kl_div_log", "x t", run_kl_log, 32 },
    { "kl_div_zero", "x t", run_kl_none, 16 },
    { "nll_mean", "x t w", run_nll_mean, 8 },
    { "nll_sum", "x t w", run_nll_sum, 16 },
    { "nll_none", "x t w", run_nll_none, 8 },
    { "nll_plain", "x t", run_nll_plain, 8 },
    { "nll_ignore", "x t w", run_nll_ignore, 8 },
    { "nll_usual", "x t", run_nll_plain, 8 },
    { "nll_nothing", "x t", run_nll_plain, 8 },
    { "nll_spatial", "x t w", run_nll_mean, 8 },
    { "nll_one", "x t", run_nll_plain, 8 },
    { "cosine", "x t", run_cosine, 16 },
    { "cosine_first", "x t", run_cosine_first, 32 },
    { "cosine_eps", "x t", run_cosine_eps, 16 },
    { "cosine_zero", "x t", run_cosine, 16 },
    { "bce_mean", "x t", run_bce_mean, 32 },
    { "bce_sum", "x t", run_bce_sum, 64 },
    { "bce_none", "x t", run_bce_none, 64 },
    { "bce_weight", "x t w", run_bce_weight, 32 },
    { "bce_ends", "x t", run_bce_none, 16 },
    { "bce_logits_mean", "x t", run_logits_mean, 16 },
    { "bce_logits_sum", "x t", run_logits_sum, 32 },
    { "bce_logits_none", "x t", run_logits_none, 16 },
    { "bce_logits_weight", "x t w p", run_logits_weight, 16 },
    { "bce_logits_far", "x t", run_logits_none, 16 },
};

int main(void)
{
    golden_use("loss", rows, sizeof rows / sizeof *rows, "");
    const struct CMUnitTest tests[] = { GOLDEN_TESTS };
    return check_run(tests, golden_setup, golden_teardown);
}
