/* The loader: batches of a dataset in an order that (seed, call) decides, over reused memory. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "data/fail.h"
#include "data/order.h"
#include "data/pool.h"
#include "data/prefetch.h"
#include "data/progress.h"
#include "data/report.h"
#include "data/scope.h"
#include "tern/autograd.h"
#include "tern/device.h"
#include "tern/memory.h"

enum { WORKERS_MAX = 256 };

struct tern_loader {
    tern_dataset *dataset;
    data_plan plan;
    int64_t *order; /* NULL unless it shuffles */
    uint64_t seed, call;
    tern_dev_t device;
    bool pins; /* batches go through page-locked memory */
    int workers;
    data_pool *pool;
    data_prefetch *prefetch; /* NULL until the first batch, and without workers */
    tern_tensor *x, *y;      /* of the batch that is out */
    int64_t step, samples;   /* handed out */
    int64_t first_samples;   /* of them, handed out before a seek */
    double first_seconds;    /* spent before a seek */
    double started, stopped; /* clock; 0: not yet */
    data_reports reports;
    data_progress progress;
};

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- opening and closing ---------------------------------------------------------------------- */

static bool wants_augment(const tern_loader_args *args)
{
    return args->augment.crop != 0 || args->augment.flip;
}

static bool check_augment(const tern_loader_args *args, const char *what)
{
    const tern_dataset *d = args->dataset;
    const bool is_image = d->x.conversion == DATA_NORMALIZE && d->x.shape.ndim == 3 &&
                          d->channels == d->x.shape.dims[0] &&
                          d->x.shape.dims[2] <= AUGMENT_WIDTH_MAX;
    if (!is_image) {
        DATA_FAIL(
            TERN_ERR_ARGUMENT, what,
            "augment is for u8 images [channels, height, width] of at most %d channels, %d wide%s",
            TERN_MAX_CHANNELS, AUGMENT_WIDTH_MAX, d->fetch ? ", and not for a callback's" : "");
    } else if (args->augment.crop < 0 || args->augment.crop > AUGMENT_WIDTH_MAX) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "augment.crop is %lld, not 0 to %d",
                  (long long)args->augment.crop, AUGMENT_WIDTH_MAX);
    }
    return !tern_failed();
}

static bool check_args(const tern_loader_args *args, const char *what)
{
    if (tern_failed() || !args->dataset) {
        if (!tern_failed()) {
            DATA_FAIL(TERN_ERR_ARGUMENT, what, "dataset is missing");
        }
        return false;
    }
    if (args->batch < 0) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "batch is %lld, not 1 or more", (long long)args->batch);
    } else if (args->epoch_steps < 0) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "epoch_steps is negative");
    } else if (args->workers < 0 || args->workers > WORKERS_MAX) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "workers is %d, not 0 to %d", args->workers,
                  WORKERS_MAX);
    }
    return !tern_failed() && (!wants_augment(args) || check_augment(args, what));
}

static void plan_steps(data_plan *plan, const tern_loader_args *args)
{
    plan->dataset = args->dataset;
    plan->samples = args->dataset->count;
    plan->batch = args->batch > 0 ? args->batch : 1;
    int64_t rest = plan->samples % plan->batch;
    plan->steps = plan->samples / plan->batch + (rest > 0 && !args->drop_last);
    if (args->epoch_steps > 0 && args->epoch_steps < plan->steps) {
        plan->steps = args->epoch_steps;
    }
    plan->augments = wants_augment(args);
    plan->augment.crop = args->augment.crop;
    plan->augment.flip = args->augment.flip;
}

static void set_key(tern_loader *loader, uint64_t seed, uint64_t call)
{
    loader->seed = loader->plan.augment.seed = seed;
    loader->call = loader->plan.augment.call = call;
}

static void choose_key(tern_loader *loader, const tern_loader_args *args)
{
    if (args->seed != 0) {
        set_key(loader, args->seed, 0);
    } else if (args->shuffle || wants_augment(args)) {
        uint64_t seed = 0, call = 0;
        tern_generator_state(args->generator, &seed, &call);
        set_key(loader, seed, tern_generator_next(args->generator));
    }
}

/* The next batch starts the workers again, at loader->step. */
static void stop_workers(tern_loader *loader)
{
    if (loader->prefetch) {
        data_prefetch_stop(loader->prefetch);
        loader->prefetch = NULL;
    }
}

static void free_loader(void *object)
{
    tern_loader *loader = object;
    stop_workers(loader);
    data_progress_end(&loader->progress);
    data_reports_clear(&loader->reports);
    tern_release(loader->x);
    tern_release(loader->y);
    if (loader->pool) {
        data_pool_close(loader->pool);
    }
    free(loader->order);
    data_dataset_release(loader->dataset);
    free(loader);
}

static bool no_memory(const char *what, const char *part, int64_t samples)
{
    DATA_FAIL(TERN_ERR_OOM, what, "no memory for %s of %lld samples", part, (long long)samples);
    return false;
}

/* Memory for what a pass needs; a loader that lacks some of it is freed by the caller. */
static bool make_parts(tern_loader *loader, bool shuffle, const char *what)
{
    int64_t rows =
        loader->plan.batch < loader->plan.samples ? loader->plan.batch : loader->plan.samples;
    loader->pool = data_pool_create(loader->dataset, rows);
    if (!loader->pool) {
        return no_memory(what, "a batch", rows);
    }
    if (shuffle && loader->plan.samples > 0) {
        const bool fits = loader->plan.samples <= PTRDIFF_MAX / (int64_t)sizeof *loader->order;
        loader->order = fits ? malloc((size_t)loader->plan.samples * sizeof *loader->order) : NULL;
        if (!loader->order) {
            return no_memory(what, "the order", loader->plan.samples);
        }
        data_order_shuffle(loader->order, loader->plan.samples, loader->seed, loader->call);
        loader->plan.order = loader->order;
    }
    return tern_at_finish(free_loader, loader) || no_memory(what, "a loader", loader->plan.samples);
}

static tern_loader *open_loader(const tern_loader_args *given)
{
    static const char what[] = "loader_open";
    tern_loader_args taken = { .size_ = 0 };
    const tern_loader_args *args = &taken;
    if (!data_take_args(what, &taken, given, sizeof taken) || !check_args(args, what)) {
        return NULL;
    }
    tern_loader *loader = calloc(1, sizeof *loader);
    if (!loader) {
        DATA_FAIL(TERN_ERR_OOM, what, "no memory for a loader");
        return NULL;
    }
    data_dataset_retain(args->dataset);
    loader->dataset = args->dataset;
    plan_steps(&loader->plan, args);
    choose_key(loader, args);
    loader->device = args->device.kind ? args->device : tern_default_device();
    loader->pins = args->pin_memory ||
                   (loader->device.kind == TERN_KIND_CUDA && tern_dev_count(TERN_KIND_CUDA) > 0);
    loader->workers = args->workers;
    if (!make_parts(loader, args->shuffle, what)) {
        free_loader(loader);
        return NULL;
    }
    data_progress_start(&loader->progress, args->progress && !args->quiet, args->label);
    return loader;
}

tern_loader *tern_loader_open_at(tern_site_t site, const tern_loader_args *args)
{
    tern_site_t previous = tern_site_begin(site);
    tern_loader *loader = open_loader(args);
    tern_site_end(previous);
    return loader;
}

void tern_loader_close(tern_loader *loader)
{
    if (loader) {
        tern_at_finish_cancel(loader);
        free_loader(loader);
    }
}

/* ---- batches ---------------------------------------------------------------------------------- */

static void let_go(void *buffer)
{
    data_buffer_let_go(buffer);
}

/* A tensor over one part of a buffer; it holds the buffer. On the loader's device, a copy, and one in
 * page-locked memory: the host does not wait for it (T067), and that memory is used again when the
 * device has read it. */
static tern_tensor *make_tensor(const tern_loader *loader, data_buffer *buffer,
                                const data_part *part, void *memory, int64_t rows)
{
    tern_shape_t shape = { .set_ = TERN_GIVEN_, .ndim = part->shape.ndim + 1 };
    shape.dims[0] = rows;
    for (int d = 0; d < part->shape.ndim; d++) {
        shape.dims[d + 1] = part->shape.dims[d];
    }
    int holders = data_buffer_hold(buffer);
    tern_tensor *t = tern_from_memory(memory, let_go, buffer, .shape = shape, .dtype = part->dtype,
                                      .device = TERN_CPU);
    /* A tensor that could be made but not be kept has let go already. */
    if (!t && data_buffer_holders(buffer) > holders) {
        data_buffer_let_go(buffer);
    }
    if (loader->pins)
        t = tern_pin(t);
    return tern_to(t, loader->device, .non_blocking = loader->pins);
}

static data_buffer *next_buffer(tern_loader *loader)
{
    if (loader->prefetch && !data_prefetch_is_here(loader->prefetch)) {
        stop_workers(loader);
    }
    if (loader->workers > 0 && !loader->prefetch) {
        loader->prefetch =
            data_prefetch_start(&loader->plan, loader->pool, loader->workers, loader->step);
        loader->workers = loader->prefetch ? loader->workers : 0;
    }
    data_buffer *buffer = loader->prefetch
                              ? data_prefetch_next(loader->prefetch)
                              : data_plan_gather(&loader->plan, loader->pool, loader->step);
    if (!buffer) {
        (void)no_memory("loader_next", "a batch", loader->plan.batch);
    } else if (buffer->failed_sample >= 0) {
        DATA_FAIL(TERN_ERR_STATE, "loader_next", "the dataset's callback failed on sample %lld",
                  (long long)buffer->failed_sample);
        data_buffer_let_go(buffer);
        return NULL;
    }
    return buffer;
}

static bool make_batch(tern_loader *loader, tern_batch *batch)
{
    DATA_SCOPE;
    data_buffer *buffer = next_buffer(loader);
    if (!buffer) {
        return false;
    }
    int64_t rows = data_plan_rows(&loader->plan, loader->step);
    tern_tensor *x = make_tensor(loader, buffer, &loader->dataset->x, buffer->x, rows);
    tern_tensor *y = x && loader->dataset->has_y
                         ? make_tensor(loader, buffer, &loader->dataset->y, buffer->y, rows)
                         : NULL;
    data_buffer_let_go(buffer);
    if (tern_failed()) {
        return false;
    }
    loader->x = tern_retain(x);
    loader->y = tern_retain(y);
    *batch = (tern_batch){ .x = x, .y = y, .index = loader->step, .size = rows };
    return true;
}

/* After a failure the same batch is still the next one, which the workers have handed out already. */
static bool bring_batch(tern_loader *loader, tern_batch *batch)
{
    const bool done = make_batch(loader, batch);
    if (!done) {
        stop_workers(loader);
    }
    return done;
}

static void release_batch(tern_loader *loader)
{
    tern_release(loader->x);
    tern_release(loader->y);
    loader->x = loader->y = NULL;
}

static void show_progress(tern_loader *loader)
{
    double now = loader->progress.is_terminal ? now_seconds() : 0;
    if (!data_progress_is_due(&loader->progress, loader->step, loader->plan.steps, now)) {
        return;
    }
    now = now_seconds();
    double session = now - loader->started;
    double rate = (double)(loader->samples - loader->first_samples) / session;
    int64_t left = loader->plan.samples - loader->samples;
    int64_t left_of_steps = (loader->plan.steps - loader->step) * loader->plan.batch;
    left = left < left_of_steps ? left : left_of_steps;
    data_progress_state state = { .step = loader->step,
                                  .steps = loader->plan.steps,
                                  .samples_per_second = rate,
                                  .seconds = tern_loader_seconds(loader),
                                  .seconds_left = rate > 0 ? (double)left / rate : -1 };
    data_progress_draw(&loader->progress, &state, &loader->reports, now);
}

static bool next_batch(tern_loader *loader, tern_batch *batch)
{
    release_batch(loader);
    if (loader->started == 0) {
        loader->started = now_seconds();
    }
    if (!tern_failed()) {
        show_progress(loader);
    }
    if (tern_failed() || loader->step >= loader->plan.steps || !bring_batch(loader, batch)) {
        if (loader->stopped == 0) {
            /* the pass is over when its work is: a device may be behind */
            (void)tern_dev_synchronize(loader->device);
            loader->stopped = now_seconds();
        }
        data_progress_end(&loader->progress);
        return false;
    }
    loader->stopped = 0; /* it may have failed before */
    loader->step++;
    loader->samples += batch->size;
    return true;
}

bool tern_loader_next_at(tern_site_t site, tern_loader *loader, tern_batch *out_batch)
{
    if (!out_batch) {
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, "loader_next", "the batch to fill is NULL");
        return false;
    }
    *out_batch = (tern_batch){ .x = NULL };
    if (!loader) {
        return false;
    }
    tern_site_t previous = tern_site_begin(site);
    bool has_batch = next_batch(loader, out_batch);
    tern_site_end(previous);
    return has_batch;
}

/* ---- reports ---------------------------------------------------------------------------------- */

void tern_loader_report_at(tern_site_t site, tern_loader *loader, const char *name,
                           tern_tensor *value)
{
    if (!loader || tern_failed()) {
        return;
    }
    tern_site_t previous = tern_site_begin(site);
    data_reports_add(&loader->reports, name, value);
    tern_site_end(previous);
}

double tern_loader_mean_at(tern_site_t site, tern_loader *loader, const char *name)
{
    if (!loader) {
        return (double)NAN;
    }
    tern_site_t previous = tern_site_begin(site);
    double mean = data_reports_mean(&loader->reports, name);
    tern_site_end(previous);
    return mean;
}

int64_t tern_loader_steps(const tern_loader *loader)
{
    return loader ? loader->plan.steps : 0;
}

int64_t tern_loader_samples(const tern_loader *loader)
{
    return loader ? loader->samples : 0;
}

double tern_loader_seconds(const tern_loader *loader)
{
    if (!loader || loader->started == 0) {
        return loader ? loader->first_seconds : 0;
    }
    double end = loader->stopped > 0 ? loader->stopped : now_seconds();
    return loader->first_seconds + end - loader->started;
}

/* ---- position --------------------------------------------------------------------------------- */

tern_position_t tern_loader_position(tern_loader *loader)
{
    tern_position_t position = { .seed = 0 };
    if (!loader) {
        return position;
    }
    data_reports_read(&loader->reports);
    position.seed = loader->seed;
    position.call = loader->call;
    position.step = loader->step;
    position.samples = loader->samples;
    position.seconds = tern_loader_seconds(loader);
    for (int i = 0; i < TERN_REPORTS; i++) {
        const data_report *report = &loader->reports.all[i];
        memcpy(position.reports[i].name, report->name, sizeof report->name);
        position.reports[i].sum = report->sum;
        position.reports[i].count = report->count;
    }
    return position;
}

static void restore_reports(data_reports *reports, const tern_position_t *position)
{
    data_reports_clear(reports);
    for (int i = 0; i < TERN_REPORTS; i++) {
        data_report *report = &reports->all[i];
        memcpy(report->name, position->reports[i].name, sizeof report->name);
        report->name[sizeof report->name - 1] = '\0';
        report->sum = position->reports[i].sum;
        report->count = position->reports[i].count;
    }
}

/* All batches are full but for the last: another number of samples is of another batch or dataset. */
static bool is_in_plan(const data_plan *plan, const tern_position_t *position)
{
    const int64_t step = position->step;
    if (step < 0 || step > plan->steps) {
        return false;
    }
    return position->samples ==
           (step <= plan->samples / plan->batch ? step * plan->batch : plan->samples);
}

tern_status_t tern_loader_seek_at(tern_site_t site, tern_loader *loader,
                                  const tern_position_t *position)
{
    static const char what[] = "loader_seek";
    if (tern_failed() || !loader) {
        return tern_error_code();
    }
    if (!position) {
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the position is NULL");
    }
    if (!is_in_plan(&loader->plan, position)) {
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                            "step %lld with %lld samples is not in a pass of %lld steps of %lld\n"
                            "  try the dataset and the batch that the position was taken with",
                            (long long)position->step, (long long)position->samples,
                            (long long)loader->plan.steps, (long long)loader->plan.batch);
    }
    if (!(position->seconds >= 0 && position->seconds <= DATA_SECONDS_MAX)) {
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "no pass takes %g seconds",
                            position->seconds);
    }
    stop_workers(loader);
    release_batch(loader);
    set_key(loader, position->seed, position->call);
    if (loader->order) {
        data_order_shuffle(loader->order, loader->plan.samples, loader->seed, loader->call);
    }
    loader->step = position->step;
    loader->samples = loader->first_samples = position->samples;
    loader->first_seconds = position->seconds;
    loader->started = loader->stopped = 0;
    restore_reports(&loader->reports, position);
    data_progress_rewind(&loader->progress);
    return TERN_OK;
}
