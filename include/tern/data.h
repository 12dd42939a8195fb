/* Data: datasets, readers, and the loader that makes batches of them.
 *
 * A dataset is a numbered list of samples (x, y) in host memory. Images stay u8 and become f32
 * while a batch is gathered.
 *
 * Ownership: a dataset lives until tern_dataset_free or tern_finish, and as long as a loader uses
 * it; a loader until tern_loader_close or tern_finish. Both are freed by the thread that made them.
 * NULL, the result of a call that failed, is passed through: calls with it do nothing. */
#ifndef TERN_DATA_H
#define TERN_DATA_H

#include "tern/base.h"
#include "tern/io.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_dataset tern_dataset;
typedef struct tern_loader tern_loader;

typedef enum tern_split { TERN_TRAIN = 1, TERN_TEST = 2 } tern_split_t;

enum { TERN_MAX_CHANNELS = 8 };

/* ---- readers: an error names the file and what is wrong in it ----------------------------- */

/* The array of an IDX file, packed by gzip or not: u8, i8, i16, i32, f32 or f64, of 1 to 8
 * dimensions, as a CPU tensor. The content must be exactly as long as its header says. */
TERN_API tern_tensor *tern_idx_read_at(tern_site_t site, const char *path);
#define tern_idx_read(path) tern_idx_read_at(TERN_HERE, path)

/* MNIST (and sets made like it) out of a folder with train-images-idx3-ubyte,
 * train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each as such or with
 * .gz. x [1, 28, 28], normalised with mean 0.1307 and deviation 0.3081; y a class number 0 .. 9. */
TERN_API tern_dataset *tern_mnist_at(tern_site_t site, const char *folder, tern_split_t split);
#define tern_mnist(folder, split) tern_mnist_at(TERN_HERE, folder, split)

/* CIFAR-10's binary version: data_batch_1.bin .. data_batch_5.bin and test_batch.bin in `folder` or
 * in cifar-10-batches-bin below it; a split needs its own files alone. x [3, 32, 32], normalised by the set's
 * mean and deviation per channel. */
TERN_API tern_dataset *tern_cifar10_at(tern_site_t site, const char *folder, tern_split_t split);
#define tern_cifar10(folder, split) tern_cifar10_at(TERN_HERE, folder, split)

/* `count` handwritten-looking digits drawn from stroke descriptions, the same for the same seed:
 * what to train on when no file is at hand. Shaped and normalised as MNIST is. */
TERN_API tern_dataset *tern_digits_at(tern_site_t site, int64_t count, uint64_t seed);
#define tern_digits(count, seed) tern_digits_at(TERN_HERE, count, seed)

/* ---- text --------------------------------------------------------------------------------- */

/* A text and its vocabulary: the bytes that occur in it, ascending, numbered from 0. Lives until
 * tern_text_free or tern_finish, and as long as a dataset of it. */
typedef struct tern_text tern_text;

/* The bytes of a file, packed by gzip or not; an empty one is an error. */
TERN_API tern_text *tern_text_read_at(tern_site_t site, const char *path);
/* A copy of `count` bytes. */
TERN_API tern_text *tern_text_from_bytes_at(tern_site_t site, const char *bytes, int64_t count);
/* About `count` bytes of small made-up tales, the same for the same seed: what to train on when no
 * file is at hand. */
TERN_API tern_text *tern_text_drawn_at(tern_site_t site, int64_t count, uint64_t seed);
#define tern_text_read(path) tern_text_read_at(TERN_HERE, path)
#define tern_text_from_bytes(bytes, count) tern_text_from_bytes_at(TERN_HERE, bytes, count)
#define tern_text_drawn(count, seed) tern_text_drawn_at(TERN_HERE, count, seed)
/* NULL is fine; windows that were cut of it stay good. */
TERN_API void tern_text_free(tern_text *text);

/* Bytes; 0 for NULL. */
TERN_API int64_t tern_text_count(const tern_text *text);
/* How many different bytes; 0 for NULL. */
TERN_API int64_t tern_text_symbols(const tern_text *text);
/* The byte with a number, '?' for a number that none has; and the number of a byte, or -1. */
TERN_API char tern_text_byte(const tern_text *text, int64_t symbol);
TERN_API int64_t tern_text_symbol(const tern_text *text, char byte);

typedef struct tern_windows_args {
    size_t size_;
    tern_text *text; /* required */
    int64_t length;  /* required: symbols of a window */
    int64_t stride;  /* from one window to the next; default 1 */
    int split;       /* TERN_TRAIN: the first nine tenths; TERN_TEST: the last; default: all */
} tern_windows_args;
/* Windows of a text: x [length], i64, are the numbers of consecutive bytes, y [length] those of the
 * bytes that follow each. */
TERN_API tern_dataset *tern_text_windows_at(tern_site_t site, const tern_windows_args *args);
#define tern_text_windows(...) \
    tern_text_windows_at(TERN_HERE, TERN_OPTIONS_(tern_windows_args, __VA_ARGS__))

/* ---- datasets of one's own ---------------------------------------------------------------- */

typedef struct tern_dataset_args {
    size_t size_;
    tern_tensor *x; /* required: [samples, ...] */
    tern_tensor *y; /* [samples, ...] or NULL: batches without y */
} tern_dataset_args;
/* Samples along the first dimension. Contiguous tensors on the CPU are shared, not copied: later changes
 * show, of others not.
 * u8 in x is an image [channels, ...] and comes as f32, scaled to 0 .. 1 until
 * tern_dataset_normalize; whole numbers in a 1-D y are class numbers and come as i64; all else
 * keeps its dtype. */
TERN_API tern_dataset *tern_dataset_from_tensors_at(tern_site_t site,
                                                    const tern_dataset_args *args);
#define tern_dataset_from_tensors(...) \
    tern_dataset_from_tensors_at(TERN_HERE, TERN_OPTIONS_(tern_dataset_args, __VA_ARGS__))

/* Writes sample `index` (0 .. count-1) row-major into x and y, bools as 0 or not 0; false: its batch
 * fails with an error that names the sample. Called by worker threads, several at once, when the loader
 * has more than one; from such a thread no tern function may be called. */
typedef bool (*tern_sample_fn)(void *user, int64_t index, void *x, void *y);

typedef struct tern_callback_args {
    size_t size_;
    int64_t count;        /* required */
    tern_sample_fn fetch; /* required */
    tern_shape_t x_shape; /* required: of one sample */
    tern_shape_t y_shape; /* default: one number */
    tern_dtype_t x_dtype; /* default f32 */
    tern_dtype_t y_dtype; /* default i64 */
    bool no_y;            /* samples without y */
    void *user;
    void (*release)(
        void *
            user); /* called once, when nothing uses the dataset any more; not when making it failed */
} tern_callback_args;
TERN_API tern_dataset *tern_dataset_from_callback_at(tern_site_t site,
                                                     const tern_callback_args *args);
#define tern_dataset_from_callback(...) \
    tern_dataset_from_callback_at(TERN_HERE, TERN_OPTIONS_(tern_callback_args, __VA_ARGS__))

/* Images of u8 become (value * scale - mean[c]) / deviation[c] for channel c. `scale` 0 is 1/255.
 * The channels are the first dimension of a sample; one given value serves all, else there is one for
 * each (means of m, 0 and 0 are { m, TERN_ZERO, TERN_ZERO }). All of them are finite, deviations
 * above 0, and what becomes of 0 and 255 numbers of f32. Returns the dataset. */
typedef struct tern_normalize_args {
    size_t size_;
    tern_dataset *dataset; /* required: u8 images in a tensor, none of a callback's */
    double scale;
    double mean[TERN_MAX_CHANNELS];
    double deviation[TERN_MAX_CHANNELS]; /* 0 is 1 */
} tern_normalize_args;
TERN_API tern_dataset *tern_dataset_normalize_at(tern_site_t site, const tern_normalize_args *args);
#define tern_dataset_normalize(...) \
    tern_dataset_normalize_at(TERN_HERE, TERN_OPTIONS_(tern_normalize_args, __VA_ARGS__))

/* Samples; 0 for NULL. */
TERN_API int64_t tern_dataset_count(const tern_dataset *dataset);
/* Shape of one sample's x, without the batch's dimension. */
TERN_API tern_shape_t tern_dataset_shape(const tern_dataset *dataset);

/* NULL is fine. Open loaders keep what they need; tern_finish frees what nobody did. */
TERN_API void tern_dataset_free(tern_dataset *dataset);

/* ---- the loader: one pass over a dataset -------------------------------------------------- */

/* What a pass does to images, each sample anew in every pass. The dataset's x is u8 images [channels,
 * height, width] in a tensor. */
typedef struct tern_augment {
    int64_t crop; /* moved by up to so many pixels down or up, left or right; black comes in */
    bool flip;    /* mirrored, left for right, with chance 1/2 */
} tern_augment_t;

typedef struct tern_loader_args {
    size_t size_;
    tern_dataset *dataset; /* required */
    int64_t batch;         /* samples per batch; default 1 */
    bool shuffle;
    bool drop_last;    /* leave out a last batch that is not full */
    tern_dev_t device; /* where batches go; default: the thread's default device */
    int workers;       /* threads that gather ahead; default 0: the calling thread gathers */
    uint64_t seed;     /* of the order; default: a draw of the generator */
    tern_generator *generator; /* default: the thread's */
    int64_t epoch_steps;       /* ends the pass after this many batches; default: all */
    bool progress;     /* say on stderr how far it is: a bar on a terminal, else about ten lines */
    bool quiet;        /* no progress after all */
    const char *label; /* what progress lines begin with, e.g. "epoch 2/3"; 47 bytes are copied */
    tern_augment_t augment; /* default: images as they are */
    /* Batches on the CPU come in page-locked memory (tern/memory.h), from which the program may copy
     * without waiting; an error without a device that reads such memory. Batches for a CUDA device
     * always go through it. */
    bool pin_memory;
} tern_loader_args;
/* Opens a pass. The order of samples, and what is done to them, depends on seed or generator alone,
 * never on workers or device. Takes one call number of the generator when it shuffles or augments and
 * no seed is given. In the child of a fork the pass goes on where the parent was, with workers of the child's. */
TERN_API tern_loader *tern_loader_open_at(tern_site_t site, const tern_loader_args *args);
#define tern_loader_open(...) \
    tern_loader_open_at(TERN_HERE, TERN_OPTIONS_(tern_loader_args, __VA_ARGS__))

typedef struct tern_batch {
    tern_tensor *x; /* [size, ...], borrowed until the next tern_loader_next (or tern_retain) */
    tern_tensor *y; /* [size, ...] or NULL */
    int64_t index;  /* number of the batch in the pass, from 0 */
    int64_t size;   /* samples in it */
} tern_batch;
/* The next batch; false at the end, and while an error is pending. After a failure (no memory, a
 * sample's callback) and tern_error_clear the next call tries the same batch again, with workers or
 * without. The memory of a batch is used again for a later one unless someone still holds its
 * tensors. */
TERN_API bool tern_loader_next_at(tern_site_t site, tern_loader *loader, tern_batch *out_batch);
#define tern_loader_next(loader, out_batch) tern_loader_next_at(TERN_HERE, loader, out_batch)

/* Adds a number of this step, a tensor of one element, to the mean of that name (at most 4 names,
 * of 1 to 23 bytes, UTF-8).
 * It counts with its value of now; of one on a device a copy stays there until a progress line or
 * tern_loader_mean reads it. */
TERN_API void tern_loader_report_at(tern_site_t site, tern_loader *loader, const char *name,
                                    tern_tensor *value);
#define tern_loader_report(loader, name, value) \
    tern_loader_report_at(TERN_HERE, loader, name, value)

/* Mean of what was reported under a name in this pass; NaN when nothing was. */
TERN_API double tern_loader_mean_at(tern_site_t site, tern_loader *loader, const char *name);
#define tern_loader_mean(loader, name) tern_loader_mean_at(TERN_HERE, loader, name)

/* Batches in a whole pass. */
TERN_API int64_t tern_loader_steps(const tern_loader *loader);
/* Samples handed out, and seconds between the first tern_loader_next and its end (or now); at its end
 * the loader's device is waited for. */
TERN_API int64_t tern_loader_samples(const tern_loader *loader);
TERN_API double tern_loader_seconds(const tern_loader *loader);

/* Ends the pass and its workers. Tensors of it that someone retained stay good. */
TERN_API void tern_loader_close(tern_loader *loader);

/* ---- stopping and going on ---------------------------------------------------------------- */

enum { TERN_REPORTS = 4, TERN_REPORT_NAME_BYTES = 24 };
/* Where a pass is: plain data without pointers. */
typedef struct tern_position {
    uint64_t seed, call; /* key of the order */
    int64_t step;        /* batches handed out */
    int64_t samples;
    double seconds;
    struct {
        char name[TERN_REPORT_NAME_BYTES];
        double sum;
        int64_t count;
    } reports[TERN_REPORTS];
} tern_position_t;
TERN_API tern_position_t tern_loader_position(tern_loader *loader);
/* Goes on where `position` was taken, in a loader opened with the same dataset, batch and shuffle:
 * the batches that follow are, bit for bit, those that would have followed there. An error where the
 * position's samples are not those of its steps in this loader, as with another batch, or its seconds are none
 * that a pass takes. */
TERN_API tern_status_t tern_loader_seek_at(tern_site_t site, tern_loader *loader,
                                           const tern_position_t *position);
#define tern_loader_seek(loader, position) tern_loader_seek_at(TERN_HERE, loader, position)

/* Puts a position into a state as "<prefix>.step" and so on ("step" without a prefix), and takes it out
 * again; on failure *out_position is untouched. */
TERN_API tern_status_t tern_position_store_at(tern_site_t site, const tern_position_t *position,
                                              tern_state *state, const char *prefix);
TERN_API tern_status_t tern_position_restore_at(tern_site_t site, tern_position_t *out_position,
                                                const tern_state *state, const char *prefix);
#define tern_position_store(position, state, prefix) \
    tern_position_store_at(TERN_HERE, position, state, prefix)
#define tern_position_restore(out_position, state, prefix) \
    tern_position_restore_at(TERN_HERE, out_position, state, prefix)

#ifdef __cplusplus
}
#endif
#endif
