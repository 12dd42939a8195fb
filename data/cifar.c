#include "data/cifar.h"

#include <stdio.h>
#include <string.h>

#include "data/bytes.h"
#include "data/dataset.h"
#include "data/fail.h"
#include "data/scope.h"
#include "tern/ops.h"

static const char what[] = "cifar10";

enum { PATH_BYTES = 4096, CLASSES = 10, TRAIN_FILES = 5 };

bool data_cifar_split(const char *name, const uint8_t *bytes, size_t count, uint8_t *images,
                      uint8_t *labels)
{
    if (count == 0 || count % CIFAR_RECORD_BYTES != 0) {
        DATA_FAIL(TERN_ERR_FORMAT, what,
                  "'%s' has %zu bytes: not a whole number of %d byte records", name, count,
                  CIFAR_RECORD_BYTES);
        return false;
    }
    for (size_t i = 0; i < count / CIFAR_RECORD_BYTES; i++) {
        const uint8_t *record = bytes + i * CIFAR_RECORD_BYTES;
        if (record[0] >= CLASSES) {
            DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': label %zu is %d, not 0 to 9", name, i,
                      record[0]);
            return false;
        }
        labels[i] = record[0];
        memcpy(images + i * CIFAR_IMAGE_BYTES, record + 1, CIFAR_IMAGE_BYTES);
    }
    return true;
}

/* The records of one file; *out_images [n, 3, 32, 32] and *out_labels [n], both u8. */
static bool read_file(const char *path, tern_tensor **out_images, tern_tensor **out_labels)
{
    data_file file;
    if (!data_file_read(&file, what, path)) {
        return false;
    }
    int64_t count = (int64_t)(file.count / CIFAR_RECORD_BYTES);
    tern_tensor *images =
        tern_empty(TERN_SHAPE(count, 3, 32, 32), .dtype = TERN_U8, .device = TERN_CPU);
    tern_tensor *labels = tern_empty(TERN_SHAPE(count), .dtype = TERN_U8, .device = TERN_CPU);
    bool done = images && labels &&
                data_cifar_split(path, file.bytes, file.count, count > 0 ? tern_data(images) : NULL,
                                 count > 0 ? tern_data(labels) : NULL);
    data_file_free(&file);
    *out_images = images;
    *out_labels = labels;
    return done;
}

/* The first file of each split; one that is not asked for need not be there. */
static bool find_folder(char found[PATH_BYTES], const char *folder, tern_split_t split)
{
    const char *name = split == TERN_TRAIN ? "data_batch_1.bin" : "test_batch.bin";
    const char *below[] = { "", "/cifar-10-batches-bin" };
    for (int i = 0; i < 2; i++) {
        char path[PATH_BYTES + 32];
        int length = snprintf(found, PATH_BYTES, "%s%s", folder, below[i]);
        snprintf(path, sizeof path, "%s/%s", found, name);
        if (length >= 0 && length < PATH_BYTES && data_file_exists(path)) {
            return true;
        }
    }
    char problem[DATA_PROBLEM_BYTES];
    DATA_FAIL(TERN_ERR_IO, what, "'%s' holds no %s, and no cifar-10-batches-bin with it%s", folder,
              name, data_folder_problem(folder, problem));
    return false;
}

static tern_dataset *read_split(const char *given, tern_split_t split)
{
    DATA_SCOPE;
    char folder[PATH_BYTES];
    char path[PATH_BYTES + 32];
    tern_tensor *images[TRAIN_FILES];
    tern_tensor *labels[TRAIN_FILES];
    if (!find_folder(folder, given, split)) {
        return NULL;
    }
    int files = split == TERN_TRAIN ? TRAIN_FILES : 1;
    for (int i = 0; i < files; i++) {
        if (split == TERN_TRAIN) {
            snprintf(path, sizeof path, "%s/data_batch_%d.bin", folder, i + 1);
        } else {
            snprintf(path, sizeof path, "%s/test_batch.bin", folder);
        }
        if (!read_file(path, &images[i], &labels[i])) {
            return NULL;
        }
    }
    tern_dataset *dataset = tern_dataset_from_tensors(tern_cat_at(TERN_HERE, images, files, 0),
                                                      tern_cat_at(TERN_HERE, labels, files, 0));
    return tern_dataset_normalize(dataset, .mean = { 0.4914, 0.4822, 0.4465 },
                                  .deviation = { 0.2470, 0.2435, 0.2616 });
}

tern_dataset *tern_cifar10_at(tern_site_t site, const char *folder, tern_split_t split)
{
    return data_open_folder(site, what, folder, split, read_split);
}
