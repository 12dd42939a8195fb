/* What the files of the gradient scaler share. */
#ifndef TERN_AMP_GRAD_SCALER_H
#define TERN_AMP_GRAD_SCALER_H

#include "core/autocast.h"
#include "tern/amp.h"
#include "tern/error.h"

enum { AMP_DEVICES = 16 };

typedef enum amp_stage { AMP_READY, AMP_UNSCALED, AMP_STEPPED } amp_stage;

/* What the scaler knows of one optimizer since the last update. */
typedef struct amp_optimizer {
    const tern_optimizer *opt;
    amp_stage stage;
    bool skipped;
    bool found_known; /* step has read the flags */
    int devices;
    tern_tensor *found[AMP_DEVICES]; /* owned: one f32 on each device that has gradients */
} amp_optimizer;

struct tern_grad_scaler {
    bool enabled;
    double init_scale, growth, backoff;
    int64_t interval;
    int64_t init_tracker;
    tern_tensor *scale, *tracker; /* owned; NULL before the first loss */
    double known_scale;           /* what is in `scale`, as far as the host can tell; else NaN */
    int64_t known_tracker;
    amp_optimizer *optimizers;
    int64_t optimizer_count, optimizer_capacity;
    int64_t updates, skips;
    char overflowed[TERN_SCALER_NAME_BYTES];      /* of the last skip */
    char cause[TERN_SCALER_NAME_BYTES];           /* of the first skip since the last update */
    tern_scaler_event events[TERN_SCALER_EVENTS]; /* ring: update n is at (n - 1) modulo its size */
};

/* A public call: its site, a scope for what it makes, no recording and no casting unless wanted. */
typedef struct amp_frame {
    tern_site_t site;
    tern_scope scope;
    bool owned, recording;
    uint8_t autocast;
} amp_frame;
amp_frame amp_enter(tern_site_t site, bool recording);
void amp_leave(amp_frame *frame);

/* False, with an error, for NULL and while one is pending. */
bool amp_scaler_check(tern_site_t site, const char *what, const tern_grad_scaler *scaler);
/* The record of an optimizer, made when it is not there; NULL without memory, recorded. */
amp_optimizer *amp_optimizer_of(tern_site_t site, tern_grad_scaler *scaler,
                                const tern_optimizer *opt);
const amp_optimizer *amp_find_optimizer(const tern_grad_scaler *scaler, const tern_optimizer *opt);
/* All optimizers are READY again. */
void amp_forget_optimizers(tern_grad_scaler *scaler);
/* The scale as far as the host may know it without waiting: of CPU tensors, or mirrored. */
double amp_scale_without_wait(const tern_grad_scaler *scaler);

/* The names of the gradients that are not finite: the first one, into scaler->overflowed. */
void amp_find_overflow(tern_site_t site, tern_grad_scaler *scaler, const tern_optimizer *opt);
void amp_add_event(tern_grad_scaler *scaler);

#endif
