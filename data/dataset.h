/* A dataset from the inside: where samples lie and how they become rows of a batch. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "data/augment.h"
#include "tern/data.h"

/* How a stored sample becomes a row. */
typedef enum data_conversion {
    DATA_COPY = 0,  /* the same bytes */
    DATA_NORMALIZE, /* u8 -> f32, value * scale[c] + offset[c] */
    DATA_WIDEN      /* one whole number of any size -> i64 */
} data_conversion_t;

/* x or y of all samples. */
typedef struct data_part {
    tern_tensor *tensor;  /* retained; NULL when a callback makes the samples */
    const uint8_t *bytes; /* of the tensor */
    tern_shape_t shape;   /* of one sample */
    tern_dtype_t stored, dtype;
    data_conversion_t conversion;
    int64_t numel;        /* elements of a sample */
    int64_t stored_bytes; /* of a sample */
    int64_t row_bytes;    /* of a sample in a batch */
} data_part;

struct tern_dataset {
    _Atomic int owners; /* who made it, until tern_dataset_free, and every open loader */
    int64_t count;
    bool has_y;
    data_part x, y;
    int64_t channels, channel_numel; /* of an image */
    float scale[TERN_MAX_CHANNELS];
    float offset[TERN_MAX_CHANNELS];
    tern_sample_fn fetch;
    void *user;
    void (*release)(void *user);
};

/* Gathers samples order[0 .. count-1] (NULL: first, first + 1, ...) into x and y; augment NULL: as
 * they are stored, else x is images [channels, height, width] of u8. Touches raw memory only, so any
 * thread may call it. Returns -1, or the number of a sample that the callback could not give. */
int64_t data_gather(const tern_dataset *dataset, const int64_t *order, int64_t first, int64_t count,
                    const data_augment *augment, void *x, void *y);

/* A dataset of files in a folder, for public calls named `what`: checks the arguments; `read` works at the
 * caller's site. NULL after an error. */
tern_dataset *data_open_folder(tern_site_t site, const char *what, const char *folder,
                               tern_split_t split,
                               tern_dataset *(*read)(const char *folder, tern_split_t split));

void data_dataset_retain(tern_dataset *dataset);
void data_dataset_release(tern_dataset *dataset);

#endif
