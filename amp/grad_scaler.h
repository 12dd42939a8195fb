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
    int devices;
    /* owned, one element on each device that has gradients: f32, not 0 where something was not finite;
     * i32, the least number of the parameters whose gradient it was in (amp_names) */
    tern_tensor *found[AMP_DEVICES], *cause[AMP_DEVICES];
} amp_optimizer;

/* Names of an optimizer's parameters, which outlive it; numbers count from 1 over all optimizers. */
typedef struct amp_names {
    struct amp_names *next;
    const tern_optimizer *opt;
    int64_t first, count;
    char name[][TERN_SCALER_NAME_BYTES];
} amp_names;

/* The log of updates, on the scale's device: skipped steps, scale, cause; then all skips, last cause. */
enum { AMP_LOG = 3 * TERN_SCALER_EVENTS + 2 };

struct tern_grad_scaler {
    bool enabled;
    double init_scale, growth, backoff;
    int64_t interval;
    int64_t init_tracker;
    tern_tensor *scale, *tracker, *log; /* owned; NULL before the first loss */
    amp_optimizer *optimizers;
    int64_t optimizer_count, optimizer_capacity;
    int64_t updates; /* update n is in the log at (n - 1) modulo TERN_SCALER_EVENTS */
    amp_names *names;
    int64_t name_count;
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

/* t on a device, before whatever is queued there next. The CPU queues nothing, so the host waits for what comes to it. */
tern_tensor *amp_brought(tern_tensor *t, tern_dev_t dev);
/* False, with an error, for NULL and while one is pending. */
bool amp_scaler_check(tern_site_t site, const char *what, const tern_grad_scaler *scaler);
/* The record of an optimizer, made when it is not there; NULL without memory, recorded. */
amp_optimizer *amp_optimizer_of(tern_site_t site, tern_grad_scaler *scaler,
                                const tern_optimizer *opt);
const amp_optimizer *amp_find_optimizer(const tern_grad_scaler *scaler, const tern_optimizer *opt);
/* All optimizers are READY again. */
void amp_forget_optimizers(tern_grad_scaler *scaler);
/* Lets go of what a check of the gradients has found. */
void amp_forget_found(amp_optimizer *entry);

/* The number of an optimizer's first parameter; 0 without memory for its names. */
int64_t amp_first_number(tern_grad_scaler *scaler, const tern_optimizer *opt);
void amp_free_names(tern_grad_scaler *scaler);

#endif
