/* What the training examples share: options, data, stopping and going on, results. Everything about
 * training itself stays in the examples.
 *
 *   example run = example_start(argc, argv, .epochs = 3, .batch = 64, .lr = 1e-3);
 *   ... datasets, model, optimizer, schedule ...
 *   example_resume(&run, net, opt, rate);
 *   while (example_next_epoch(&run)) {
 *       tern_loader *batches = tern_loader_open(...);
 *       example_resume_epoch(&run, batches);
 *       ... the loop over batches ...
 *       example_end_epoch(&run, batches, net, test);
 *   }
 *   return example_finish(&run, net, test); */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <stddef.h>

#include <tern/tern.h>

enum {
    EXAMPLE_EPOCHS_MAX = 1000,
    EXAMPLE_BATCH_MAX = 1 << 20,
    EXAMPLE_LABEL_BYTES = 64,
    EXAMPLE_PATH_BYTES = 1024
};
#define EXAMPLE_STEPS_MAX (INT64_C(1) << 40)

/* What a program trains on, which decides its options and what is measured: images (as MNIST's) and
 * pictures (as CIFAR-10's) by accuracy, text by the loss on a part that was held out. */
typedef enum example_kind {
    EXAMPLE_IMAGES = 0,
    EXAMPLE_TEXT = 1,
    EXAMPLE_PICTURES = 2
} example_kind;

typedef struct example_epoch {
    double loss; /* mean over its steps */
    double seconds;
    double samples_per_second;
} example_epoch;

/* What the data are known by when a run goes on, wherever they lie now; of images the sum alone. */
typedef struct example_print {
    int64_t count; /* characters */
    int64_t sum;   /* of all in their order */
    int64_t symbols;
    unsigned char symbol[256]; /* the different ones, ascending */
} example_print;

typedef struct example {
    /* options; where none was given, first the loaded run's, then the program's */
    const char *data; /* folder, or "digits" ("pictures"); file, or "tales" */
    bool data_stored; /* it is the loaded run's, which may lie elsewhere by now */
    tern_dev_t device;
    bool cpu_asked; /* --device cpu, rather than what auto came to */
    int64_t epochs; /* the plan */
    int64_t steps;  /* the run ends after this many in total; 0: at the end of the plan */
    int64_t batch;
    double lr;
    int64_t seed;
    int64_t threads;
    const char *amp; /* "off", "bf16" or "fp16"; NULL: not given */
    const char *save, *load, *json;
    bool quiet;
    bool no_test; /* the score is not measured */
    int64_t show; /* images: test digits to print with the model's answers */
    bool augment; /* pictures: they are moved and mirrored */
    /* text: how much to write in the end, what it begins with, and how bold it is */
    int64_t sample;
    const char *prompt;
    double temperature;
    int64_t top_k; /* 0: any symbol */

    /* for the loop: f16 and a scaler that scales, bf16 and one that does not, or neither */
    tern_dtype_t low;
    bool full; /* everything in f32 */
    tern_grad_scaler *scaler;

    /* for the loader */
    int64_t epoch_steps;             /* where --steps ends this epoch; 0: at its end */
    char label[EXAMPLE_LABEL_BYTES]; /* "epoch 1/3" */

    /* the run */
    example_kind kind;
    const char *program;
    char found[EXAMPLE_PATH_BYTES];
    tern_state *loaded;  /* of --load */
    int64_t samples;     /* to train on */
    example_print print; /* of the data, with --save or --load */
    int64_t pass_steps;  /* of a whole epoch; before the plan is made: at most, 0: no limit */
    int64_t epoch;       /* that is on, from 0 */
    int64_t steps_done;  /* in all epochs */
    int64_t skipped;     /* of them, before --load: for gradients that overflowed */
    tern_position_t cut; /* where --steps ended the epoch that is on */
    bool is_cut;
    double score; /* of the last epoch: accuracy or loss; negative: not measured */
    example_epoch entries[EXAMPLE_EPOCHS_MAX];
    tern_module *net;
    tern_optimizer *opt;
    tern_schedule *rate;
} example;

/* A program's own defaults. */
typedef struct example_defaults {
    int64_t epochs;
    int64_t batch;
    double lr;
    example_kind kind;
    int64_t epoch_steps; /* an epoch ends after so many, though data is left; 0: with the data */
} example_defaults;

/* Reads the options, seeds, sets the threads. A bad option ends the program with a message and 2. */
example example_start_with(int argc, char **argv, example_defaults defaults);
#define example_start(argc, argv, ...) \
    example_start_with(argc, argv, (example_defaults){ __VA_ARGS__ })

/* MNIST (CIFAR-10) of --data or where it is usually kept, else drawn digits (pictures); says which. NULL for a
 * test that --no-test leaves out. */
tern_dataset *example_data(example *run, tern_split_t split);

/* The text of --data or where it is usually kept, else made-up tales; says which. */
tern_text *example_text(example *run);

/* Windows of its last tenth, held out to test on; NULL with --no-test. */
tern_dataset *example_held_out(const example *run, tern_text *text, int64_t length);

/* Steps of the whole plan: what the schedule is made for. */
int64_t example_planned_steps(example *run, tern_dataset *train);

/* Registers what --save stores, and with --load takes it over from the file. */
void example_resume(example *run, tern_module *net, tern_optimizer *opt, tern_schedule *rate);

/* True while there is another epoch to do; sets label and epoch_steps for its loader. */
bool example_next_epoch(example *run);
/* Puts the loader of an epoch that was cut where it was. */
void example_resume_epoch(example *run, tern_loader *batches);
/* Closes the loader, notes the entry of the epoch and prints its line. */
void example_end_epoch(example *run, tern_loader *batches, tern_module *net, tern_dataset *test);

/* Test score, --show, --json, --save; then tern_finish: the program's exit status. */
int example_finish(example *run, tern_module *net, tern_dataset *test);

/* ---- inside ----------------------------------------------------------------------------------- */

/* Fills run from the command line; ends the program on a bad one. */
void example_parse(example *run, int argc, char **argv);
/* "off", "bf16" or "fp16". */
bool example_is_amp(const char *text);
/* A wrong command line: ends the program with "--option wants this, not that" and 2. */
_Noreturn void example_refuse(const example *run, const char *option, const char *wanted,
                              const char *text);
/* Ends the program where the end of the run could not write this file, or replace it. */
void example_check_target(const example *run, const char *option, const char *path,
                          bool is_replaced);
/* Ends the program where the end of the run would write over what it reads; a stored run alone may be replaced by
 * its own continuation. Once more when the data are known, which no option may have named. */
void example_check_targets(const example *run);
/* Names of the files of a set of images below its folder, up to NULL; none of a text, which is a file itself. */
const char *const *example_data_files(example_kind kind);
/* Notes what the text is known by; another than the loaded run's ends the program with a message and 2. */
void example_know_text(example *run, tern_text *text);
/* The same of images to train on. */
void example_know_images(example *run, tern_dataset *train);
/* Puts it into what --save stores. */
void example_store_print(const example *run, tern_state *state);
/* Accuracy, or for text the mean loss, on the test data. */
double example_score(const example *run, tern_module *net, tern_dataset *test);
/* "accuracy 98.10 %", "loss 1.5601", and the same for the last line. */
void example_score_text(const example *run, char *text, size_t bytes);
/* `count` drawn pictures [3, 32, 32] of ten kinds, the same for the same seed. */
tern_dataset *example_pictures(int64_t count, uint64_t seed);
/* Prints `count` test images and what the model takes them for. */
void example_show(tern_module *net, tern_dataset *test, tern_dev_t device, int64_t count);
/* Writes the results, whole or not at all; false after a message. */
bool example_write_json(const example *run);
/* Whether all that was printed so far could be written to stdout; false after a message. */
bool example_arrived(const example *run);
/* Steps of the whole run that the scaler left out. */
int64_t example_skipped(const example *run);
/* How many epochs have an entry. */
int64_t example_entries(const example *run);

#endif
