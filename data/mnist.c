/* MNIST: two IDX files a split. */
#include <stdio.h>

#include "data/bytes.h"
#include "data/dataset.h"
#include "data/fail.h"
#include "data/idx.h"
#include "data/scope.h"
#include "tern/ops.h"

static const char what[] = "mnist";

enum { PATH_BYTES = 4096, CLASSES = 10 };

/* folder/name or folder/name.gz, whichever is there; the plain one first. */
static bool find_file(char path[PATH_BYTES], const char *folder, const char *name)
{
    const char *endings[] = { "", ".gz" };
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, PATH_BYTES, "%s/%s%s", folder, name, endings[i]);
        if (length >= 0 && length < PATH_BYTES && data_file_exists(path)) {
            return true;
        }
    }
    char problem[DATA_PROBLEM_BYTES];
    DATA_FAIL(TERN_ERR_IO, what,
              "'%s' holds neither %s nor %s.gz%s\n"
              "  try the folder with MNIST's four files (train- and t10k-, images-idx3-ubyte and "
              "labels-idx1-ubyte), packed by gzip or not",
              folder, name, name, data_folder_problem(folder, problem));
    return false;
}

static tern_tensor *read_array(const char *folder, const char *name, int ndim,
                               char path[PATH_BYTES])
{
    if (!find_file(path, folder, name)) {
        return NULL;
    }
    tern_tensor *t = data_idx_from_file(path);
    if (t && (tern_ndim(t) != ndim || tern_dtype(t) != TERN_U8)) {
        DATA_FAIL(TERN_ERR_FORMAT, what, "'%s' holds %s of %d dimensions, not u8 of %d", path,
                  tern_dtype_name(tern_dtype(t)), tern_ndim(t), ndim);
        return NULL;
    }
    return t;
}

static bool check_labels(tern_tensor *labels, const char *path)
{
    const uint8_t *label = tern_numel(labels) > 0 ? tern_data(labels) : NULL;
    for (int64_t i = 0; i < tern_numel(labels); i++) {
        if (label[i] >= CLASSES) {
            DATA_FAIL(TERN_ERR_FORMAT, what, "'%s': label %lld is %d, not 0 to 9", path,
                      (long long)i, label[i]);
            return false;
        }
    }
    return true;
}

static tern_dataset *read_split(const char *folder, tern_split_t split)
{
    DATA_SCOPE;
    const char *prefix = split == TERN_TRAIN ? "train" : "t10k";
    char name[64];
    char path[PATH_BYTES];
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", prefix);
    tern_tensor *images = read_array(folder, name, 3, path);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", prefix);
    tern_tensor *labels = images ? read_array(folder, name, 1, path) : NULL;
    if (!labels || !check_labels(labels, path)) {
        return NULL;
    }
    if (tern_numel(labels) != tern_size(images, 0)) {
        DATA_FAIL(TERN_ERR_FORMAT, what,
                  "'%s' has %lld labels for %lld images\n"
                  "  try images and labels of the same split: these are not",
                  path, (long long)tern_numel(labels), (long long)tern_size(images, 0));
        return NULL;
    }
    tern_dataset *dataset = tern_dataset_from_tensors(tern_unsqueeze(images, 1), labels);
    return tern_dataset_normalize(dataset, .mean = { 0.1307 }, .deviation = { 0.3081 });
}

tern_dataset *tern_mnist_at(tern_site_t site, const char *folder, tern_split_t split)
{
    return data_open_folder(site, what, folder, split, read_split);
}
