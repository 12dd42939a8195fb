/* Running the plan: epochs, stopping after --steps, storing and loading the whole run. */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the stored run --------------------------------------------------------------------------- */

static int64_t stored_int(const example *run, const char *name)
{
    int64_t value = 0;
    tern_state_get_int(run->loaded, name, &value);
    return value;
}

static void check_int(const example *run, const char *name, int64_t least, int64_t most)
{
    const int64_t value = stored_int(run, name);
    if (!tern_failed() && (value < least || value > most)) {
        tern_fail(TERN_ERR_FORMAT, "load", "'%s' holds no sound run: %s is %lld, not %lld to %lld",
                  run->load, name, (long long)value, (long long)least, (long long)most);
    }
}

/* No option could have had these values; a program that went on with its own instead would not say so. */
static void check_stored(const example *run)
{
    double lr = 0;
    check_int(run, "run.batch", 1, EXAMPLE_BATCH_MAX);
    check_int(run, "run.seed", 0, INT64_MAX);
    check_int(run, "run.epochs", 1, EXAMPLE_EPOCHS_MAX);
    check_int(run, "run.is_cut", 0, 1);
    check_int(run, "run.steps_done", 0, EXAMPLE_STEPS_MAX);
    if (!tern_failed()) { /* one that is cut is not over */
        check_int(run, "run.epoch", 0,
                  stored_int(run, "run.epochs") - stored_int(run, "run.is_cut"));
    }
    if (!tern_failed() && tern_state_get(run->loaded, "run.skipped")) { /* files of before: none */
        check_int(run, "run.skipped", 0, stored_int(run, "run.steps_done"));
    }
    if (tern_state_get_number(run->loaded, "run.lr", &lr) == TERN_OK && !(isfinite(lr) && lr > 0)) {
        tern_fail(TERN_ERR_FORMAT, "load", "'%s' holds no sound run: run.lr is %g, not above 0",
                  run->load, lr);
    }
    const char *amp = tern_state_text(run->loaded, "run.amp");
    if (amp && !example_is_amp(amp) && !tern_failed()) {
        tern_fail(TERN_ERR_FORMAT, "load",
                  "'%s' holds no sound run: run.amp is '%s', not off, bf16 or fp16", run->load,
                  amp);
    }
}

/* A run is gone on with as it was begun: what was given must agree with what was stored. */
static void take_int(const example *run, const char *option, int64_t none, int64_t *value)
{
    char name[64];
    snprintf(name, sizeof name, "run.%s", option);
    int64_t stored = stored_int(run, name);
    if (*value != none && *value != stored && !tern_failed()) {
        fprintf(stderr, "%s: --%s %lld differs from the %lld of the run in '%s'%s\n", run->program,
                option, (long long)*value, (long long)stored, run->load,
                strcmp(option, "epochs") == 0 ? ", over which its learning rate falls" : "");
        exit(2);
    }
    *value = stored;
}

static const char *kind_name(const example *run)
{
    static const char *const names[] = { "images", "text", "pictures" };
    return names[run->kind];
}

/* A run of another kind of program has another model, and names data that this one has not. */
static void check_kind(const example *run)
{
    const char *stored = tern_state_text(run->loaded, "run.kind");
    if (!tern_state_get(run->loaded, "run.batch") && !tern_failed()) {
        tern_fail(TERN_ERR_FORMAT, "load", "'%s' holds no run: --load wants a file of --save",
                  run->load);
    }
    if (stored && strcmp(stored, kind_name(run)) != 0) {
        fprintf(stderr, "%s: the run in '%s' is one on %s; this program's are on %s\n",
                run->program, run->load, stored, kind_name(run));
        exit(2);
    }
}

static void take_augment(example *run)
{
    const bool stored = stored_int(run, "run.augment") != 0;
    if (run->augment && !stored && !tern_failed()) {
        fprintf(stderr, "%s: --augment, but the run in '%s' was without\n", run->program,
                run->load);
        exit(2);
    }
    run->augment = stored;
}

static void take_options(example *run)
{
    double lr = 0;
    check_kind(run);
    check_stored(run);
    if (tern_failed()) {
        return;
    }
    take_int(run, "batch", 0, &run->batch);
    take_int(run, "seed", -1, &run->seed);
    take_int(run, "epochs", 0, &run->epochs);
    tern_state_get_number(run->loaded, "run.lr", &lr);
    if (run->lr > 0 && (run->lr < lr || run->lr > lr) && !tern_failed()) {
        fprintf(stderr, "%s: --lr %g differs from the %g of the run in '%s'\n", run->program,
                run->lr, lr, run->load);
        exit(2);
    }
    run->lr = lr;
    const char *amp = tern_state_text(run->loaded, "run.amp");
    amp = amp ? amp : "off";
    if (run->amp && strcmp(run->amp, amp) != 0 && !tern_failed()) {
        fprintf(stderr, "%s: --amp %s differs from the %s of the run in '%s'\n", run->program,
                run->amp, amp, run->load);
        exit(2);
    }
    run->amp = amp;
    run->data_stored = !run->data;
    run->data = run->data ? run->data : tern_state_text(run->loaded, "run.data");
    if (run->kind == EXAMPLE_PICTURES) {
        take_augment(run);
    }
}

/* fp16 cannot hold small gradients, so they are scaled; bf16 has the range of f32. */
static void choose_precision(example *run)
{
    run->amp = run->amp ? run->amp : "off";
    run->full = strcmp(run->amp, "off") == 0;
    run->low = strcmp(run->amp, "fp16") == 0 ? TERN_F16 : TERN_BF16;
    run->scaler = tern_grad_scaler_create(.disabled = run->full || run->low != TERN_F16);
}

example example_start_with(int argc, char **argv, example_defaults defaults)
{
    example run = { .score = -1, .kind = defaults.kind, .pass_steps = defaults.epoch_steps };
    example_parse(&run, argc, argv);
    if (run.threads > 0) {
        tern_set_num_threads((int)run.threads);
    }
    run.loaded = run.load ? tern_state_load(run.load) : NULL;
    if (run.loaded) {
        take_options(&run);
    }
    run.epochs = run.epochs > 0 ? run.epochs : defaults.epochs;
    run.batch = run.batch > 0 ? run.batch : defaults.batch;
    run.lr = run.lr > 0 ? run.lr : defaults.lr;
    run.seed = run.seed >= 0 ? run.seed : 1;
    tern_seed((uint64_t)run.seed);
    choose_precision(&run);
    return run;
}

static void take_entries(example *run)
{
    run->epoch = stored_int(run, "run.epoch");
    run->steps_done = stored_int(run, "run.steps_done");
    if (tern_state_get(run->loaded, "run.skipped")) {
        run->skipped = stored_int(run, "run.skipped");
    }
    run->is_cut = stored_int(run, "run.is_cut") != 0;
    if (run->is_cut) {
        tern_position_restore(&run->cut, run->loaded, "loader");
    }
    if (tern_failed()) {
        return;
    }
    const int64_t whole = run->epoch * run->pass_steps;
    const bool is_in_pass = run->cut.step >= 0 && run->cut.step <= run->pass_steps;
    if (!is_in_pass || run->steps_done != whole + run->cut.step) {
        tern_fail(TERN_ERR_FORMAT, "load",
                  "'%s' holds no sound run: run.steps_done is %lld, with %lld epochs of %lld steps "
                  "and %lld of the next",
                  run->load, (long long)run->steps_done, (long long)run->epoch,
                  (long long)run->pass_steps, (long long)run->cut.step);
        return;
    }
    const int64_t scheduled = tern_schedule_steps_done(run->rate);
    if (scheduled != run->steps_done) {
        tern_fail(TERN_ERR_FORMAT, "load",
                  "'%s' holds no sound run: schedule.step is %lld, after %lld steps", run->load,
                  (long long)scheduled, (long long)run->steps_done);
        return;
    }
    tern_tensor *entries = tern_state_get(run->loaded, "run.entries");
    const int64_t count = example_entries(run);
    if (!entries || tern_numel(entries) != 3 * count) {
        tern_fail(TERN_ERR_FORMAT, "load", "'%s' does not hold the entries of %lld epochs",
                  run->load, (long long)count);
        return;
    }
    tern_read(entries, TERN_F64, run->entries, count * (int64_t)sizeof *run->entries);
}

/* Whoever takes --steps for more steps, or a plan for a beginning, would see a program that does nothing. */
static void say_if_done(const example *run)
{
    const bool has_steps = run->steps > 0 && run->steps_done >= run->steps;
    if (run->quiet || tern_failed() || (!has_steps && run->epoch < run->epochs)) {
        return;
    }
    fprintf(stderr, "%s: the run in '%s' has %lld steps: %s\n", run->program, run->load,
            (long long)run->steps_done,
            has_steps ? "none is left of --steps, which counts them all"
                      : "its plan is at its end");
}

/* Names of tensors that do not fit say little to whoever took the wrong program. */
static void say_if_another_program(const example *run)
{
    const char *stored = tern_state_text(run->loaded, "run.program");
    if (tern_failed() && stored && strcmp(stored, run->program) != 0) {
        fprintf(stderr, "%s: the run in '%s' is one of %s\n", run->program, run->load, stored);
    }
}

void example_resume(example *run, tern_module *net, tern_optimizer *opt, tern_schedule *rate)
{
    run->net = net;
    run->opt = opt;
    run->rate = rate;
    if (run->loaded) {
        tern_module_restore(net, run->loaded, "model");
        say_if_another_program(run);
        tern_optimizer_restore(opt, run->loaded, "optimizer");
        tern_schedule_restore(rate, run->loaded, "schedule");
        tern_scaler_restore(run->scaler, run->loaded, "scaler");
        tern_generator_restore(NULL, run->loaded, "generator");
        take_entries(run);
        say_if_done(run);
    }
}

static void store_run(const example *run)
{
    TERN_SCOPE;
    tern_state *state = tern_state_create();
    tern_module_store(run->net, state, "model");
    tern_optimizer_store(run->opt, state, "optimizer");
    tern_schedule_store(run->rate, state, "schedule");
    tern_scaler_store(run->scaler, state, "scaler");
    tern_generator_store(NULL, state, "generator");
    if (run->is_cut) {
        tern_position_store(&run->cut, state, "loader");
    }
    int64_t count = example_entries(run);
    tern_state_set(state, "run.entries",
                   tern_from_data(run->entries, TERN_SHAPE(count, 3), .dtype = TERN_F64));
    tern_state_set_int(state, "run.epoch", run->epoch);
    tern_state_set_int(state, "run.steps_done", run->steps_done);
    tern_state_set_int(state, "run.skipped", example_skipped(run));
    tern_state_set_int(state, "run.is_cut", run->is_cut);
    tern_state_set_int(state, "run.epochs", run->epochs);
    tern_state_set_int(state, "run.batch", run->batch);
    tern_state_set_int(state, "run.seed", run->seed);
    if (run->kind == EXAMPLE_PICTURES) {
        tern_state_set_int(state, "run.augment", run->augment);
    }
    example_store_print(run, state);
    tern_state_set_int(state, "run.samples", run->samples);
    tern_state_set_number(state, "run.lr", run->lr);
    tern_state_set_text(state, "run.data", run->data);
    tern_state_set_text(state, "run.amp", run->amp);
    tern_state_set_text(state, "run.kind", kind_name(run));
    tern_state_set_text(state, "run.program", run->program);
    tern_state_save(state, run->save);
    tern_state_free(state);
}

/* ---- epochs ----------------------------------------------------------------------------------- */

int64_t example_entries(const example *run)
{
    return run->epoch + run->is_cut;
}

int64_t example_skipped(const example *run)
{
    return run->skipped + tern_scaler_skip_count(run->scaler);
}

/* Of other data the plan is another, and the place in it none. */
static void check_samples(const example *run)
{
    int64_t stored = run->samples;
    if (run->loaded && tern_state_get(run->loaded, "run.samples")) {
        stored = stored_int(run, "run.samples");
    }
    if (stored != run->samples && !tern_failed()) {
        fprintf(stderr, "%s: '%s' has %lld samples, the data of the run in '%s' %lld\n",
                run->program, run->data, (long long)run->samples, run->load, (long long)stored);
        exit(2);
    }
}

int64_t example_planned_steps(example *run, tern_dataset *train)
{
    const int64_t count = tern_dataset_count(train);
    const int64_t all = (count + run->batch - 1) / run->batch;
    if (count == 0 && !tern_failed()) {
        tern_fail(TERN_ERR_ARGUMENT, "data", "'%s' holds nothing to train on", run->data);
    }
    run->samples = count;
    check_samples(run);
    if (run->kind != EXAMPLE_TEXT) {
        example_know_images(run, train);
    }
    run->pass_steps = run->pass_steps > 0 && run->pass_steps < all ? run->pass_steps : all;
    return run->epochs * run->pass_steps;
}

bool example_next_epoch(example *run)
{
    bool is_over = run->steps > 0 && run->steps_done >= run->steps;
    if (tern_failed() || is_over || run->epoch >= run->epochs) {
        return false;
    }
    run->epoch_steps = run->pass_steps;
    if (run->steps > 0 && run->cut.step + run->steps - run->steps_done < run->pass_steps) {
        run->epoch_steps = run->cut.step + run->steps - run->steps_done;
    }
    snprintf(run->label, sizeof run->label, "epoch %lld/%lld", (long long)run->epoch + 1,
             (long long)run->epochs);
    return true;
}

/* Opening the loader drew from the generator, which the stored one had done already. */
void example_resume_epoch(example *run, tern_loader *batches)
{
    if (run->is_cut) {
        tern_loader_seek(batches, &run->cut);
        tern_generator_restore(NULL, run->loaded, "generator");
    }
}

/* Whoever is stopped by Ctrl-C, a scheduler or a power cut loses the epoch that is on, not all of them. A disk
 * that is full by now may have room in the end. */
static void store_between(const example *run)
{
    if (!run->save || run->is_cut || run->epoch >= run->epochs ||
        (run->steps > 0 && run->steps_done >= run->steps)) {
        return;
    }
    store_run(run);
    if (tern_failed()) {
        fprintf(stderr, "%s: --save failed after this epoch, the training goes on\n%s",
                run->program, tern_error_text());
        tern_error_clear();
    }
}

void example_end_epoch(example *run, tern_loader *batches, tern_module *net, tern_dataset *test)
{
    example_epoch *entry = &run->entries[run->epoch];
    entry->loss = tern_loader_mean(batches, "loss");
    entry->seconds = tern_loader_seconds(batches);
    entry->samples_per_second = (double)tern_loader_samples(batches) / entry->seconds;
    tern_position_t position = tern_loader_position(batches);
    tern_loader_close(batches);
    if (tern_failed()) {
        return;
    }
    run->steps_done += position.step - run->cut.step;
    run->is_cut = position.step < run->pass_steps;
    run->cut = run->is_cut ? position : (tern_position_t){ .step = 0 };
    run->epoch += !run->is_cut;
    if (!run->quiet) {
        char score[48] = "";
        if (!run->no_test) {
            run->score = example_score(run, net, test);
            example_score_text(run, score, sizeof score);
        }
        if (tern_failed()) {
            return;
        }
        printf("%s: loss %.4f%s%s, %.1f s, %.0f samples/s\n", run->label, entry->loss,
               run->no_test                ? ""
               : run->kind == EXAMPLE_TEXT ? ", test "
                                           : ", ",
               score, entry->seconds, entry->samples_per_second);
        fflush(stdout);
    }
    store_between(run);
}

int example_finish(example *run, tern_module *net, tern_dataset *test)
{
    if (run->score < 0 && !run->no_test) {
        run->score = example_score(run, net, test);
    }
    bool is_written = true;
    if (!tern_failed()) {
        if (!run->no_test) {
            char score[48];
            example_score_text(run, score, sizeof score);
            printf("test %s after %lld steps\n", score, (long long)run->steps_done);
        }
        if (example_skipped(run) > 0) {
            const char *last = tern_scaler_overflowed(run->scaler); /* NULL: none since --load */
            printf("%lld steps were skipped%s%s\n", (long long)example_skipped(run),
                   last ? ", the last for " : "", last ? last : "");
        }
        example_show(net, test, run->device, run->show);
    }
    if (run->save && !tern_failed()) {
        store_run(run);
    }
    if (run->json && !tern_failed()) { /* the old results stay when anything has failed */
        is_written = example_write_json(run);
    }
    is_written = example_arrived(run) && is_written;
    return tern_finish() != 0 || !is_written;
}
