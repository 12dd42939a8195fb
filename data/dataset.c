/* Making and freeing datasets. */
#include "data/dataset.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "data/fail.h"
#include "data/scope.h"
#include "tern/ops.h"

/* ---- life ------------------------------------------------------------------------------------- */

static void free_dataset(tern_dataset *dataset)
{
    tern_release(dataset->x.tensor);
    tern_release(dataset->y.tensor);
    if (dataset->release) {
        dataset->release(dataset->user);
    }
    free(dataset);
}

void data_dataset_retain(tern_dataset *dataset)
{
    atomic_fetch_add(&dataset->owners, 1);
}

void data_dataset_release(tern_dataset *dataset)
{
    if (atomic_fetch_sub(&dataset->owners, 1) == 1) {
        free_dataset(dataset);
    }
}

static void release_at_finish(void *dataset)
{
    data_dataset_release(dataset);
}

void tern_dataset_free(tern_dataset *dataset)
{
    if (dataset) {
        tern_at_finish_cancel(dataset);
        data_dataset_release(dataset);
    }
}

/* A copy of *filled on the heap that tern_finish knows. The tensors in it become the dataset's; on
 * failure they are released, and nothing else is touched. */
static tern_dataset *register_dataset(const tern_dataset *filled, const char *what)
{
    tern_dataset *dataset = malloc(sizeof *dataset);
    if (dataset) {
        *dataset = *filled;
        atomic_init(&dataset->owners, 1);
        if (tern_at_finish(release_at_finish, dataset)) {
            return dataset;
        }
        free(dataset);
    }
    DATA_FAIL(TERN_ERR_OOM, what, "no memory for a dataset");
    tern_release(filled->x.tensor);
    tern_release(filled->y.tensor);
    return NULL;
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static void describe_part(data_part *part, tern_shape_t sample, tern_dtype_t stored,
                          data_conversion_t conversion)
{
    part->shape = sample;
    part->stored = stored;
    part->conversion = conversion;
    part->dtype = conversion == DATA_NORMALIZE ? TERN_F32
                  : conversion == DATA_WIDEN   ? TERN_I64
                                               : stored;
    part->numel = 1;
    for (int d = 0; d < sample.ndim; d++) {
        part->numel *= sample.dims[d];
    }
    part->stored_bytes = part->numel * tern_dtype_size(stored);
    part->row_bytes = part->numel * tern_dtype_size(part->dtype);
}

static tern_shape_t without_first(tern_shape_t shape)
{
    tern_shape_t sample = { .set_ = TERN_GIVEN_, .ndim = shape.ndim - 1 };
    for (int d = 0; d < sample.ndim; d++) {
        sample.dims[d] = shape.dims[d + 1];
    }
    return sample;
}

static bool share_tensor(data_part *part, tern_tensor *t, data_conversion_t conversion)
{
    DATA_SCOPE;
    tern_tensor *shared = tern_contiguous(tern_cpu(tern_detach(t)));
    void *bytes = shared && tern_numel(shared) > 0 ? tern_data(shared) : NULL;
    if (tern_failed()) {
        return false;
    }
    part->tensor = tern_retain(shared);
    part->bytes = bytes;
    describe_part(part, without_first(tern_shape(shared)), tern_dtype(shared), conversion);
    return true;
}

/* u8 images are normalised channel by channel, the first dimension of a sample being the channels
 * when there are at most TERN_MAX_CHANNELS of them. */
static void split_channels(tern_dataset *dataset)
{
    const data_part *x = &dataset->x;
    int64_t first = x->shape.ndim > 1 ? x->shape.dims[0] : 1;
    dataset->channels = first >= 1 && first <= TERN_MAX_CHANNELS ? first : 1;
    dataset->channel_numel = x->numel / dataset->channels;
    for (int c = 0; c < TERN_MAX_CHANNELS; c++) {
        dataset->scale[c] = (float)(1.0 / 255.0);
    }
}

static bool check_tensors(const tern_dataset_args *args, const char *what)
{
    if (tern_failed()) {
        return false;
    }
    if (!args->x) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "x is missing");
    } else if (tern_ndim(args->x) < 1) {
        DATA_FAIL(TERN_ERR_SHAPE, what, "x has no dimensions; the first one counts the samples");
    } else if (args->y && tern_ndim(args->y) < 1) {
        DATA_FAIL(TERN_ERR_SHAPE, what, "y has no dimensions; the first one counts the samples");
    } else if (args->y && tern_size(args->y, 0) != tern_size(args->x, 0)) {
        DATA_FAIL(TERN_ERR_SHAPE, what, "x has %lld samples, y has %lld",
                  (long long)tern_size(args->x, 0), (long long)tern_size(args->y, 0));
    }
    return !tern_failed();
}

static tern_dataset *from_tensors(const tern_dataset_args *given)
{
    static const char what[] = "dataset_from_tensors";
    tern_dataset_args taken = { .size_ = 0 };
    const tern_dataset_args *args = &taken;
    if (!data_take_args(what, &taken, given, sizeof taken) || !check_tensors(args, what)) {
        return NULL;
    }
    tern_dataset filled = { .count = tern_size(args->x, 0), .has_y = args->y != NULL };
    bool is_image = tern_dtype(args->x) == TERN_U8;
    if (!share_tensor(&filled.x, args->x, is_image ? DATA_NORMALIZE : DATA_COPY)) {
        return NULL;
    }
    split_channels(&filled);
    if (filled.has_y) {
        bool is_class = tern_ndim(args->y) == 1 && tern_dtype_is_int(tern_dtype(args->y));
        if (!share_tensor(&filled.y, args->y, is_class ? DATA_WIDEN : DATA_COPY)) {
            tern_release(filled.x.tensor);
            return NULL;
        }
    }
    return register_dataset(&filled, what);
}

tern_dataset *tern_dataset_from_tensors_at(tern_site_t site, const tern_dataset_args *args)
{
    tern_site_t previous = tern_site_begin(site);
    tern_dataset *dataset = from_tensors(args);
    tern_site_end(previous);
    return dataset;
}

/* ---- callback --------------------------------------------------------------------------------- */

static bool shape_fits(tern_shape_t shape, tern_dtype_t dtype)
{
    int64_t bytes = tern_dtype_size(dtype);
    if (bytes == 0 || shape.ndim < 0 || shape.ndim >= TERN_MAX_DIMS) {
        return false;
    }
    for (int d = 0; d < shape.ndim; d++) {
        if (shape.dims[d] < 0 || __builtin_mul_overflow(bytes, shape.dims[d], &bytes)) {
            return false;
        }
    }
    return true;
}

static bool check_callback(const tern_callback_args *args, tern_dtype_t x_dtype,
                           tern_dtype_t y_dtype, const char *what)
{
    if (tern_failed()) {
        return false;
    }
    if (!args->fetch) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "fetch is missing");
    } else if (args->count < 1) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "count is %lld, not 1 or more", (long long)args->count);
    } else if (tern_shape_is_bare_(&args->x_shape) || tern_shape_is_bare_(&args->y_shape)) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "a shape is bare numbers\n  try TERN_SHAPE(1, 28, 28)");
    } else if (!args->x_shape.set_) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "x_shape is missing");
    } else if (!shape_fits(args->x_shape, x_dtype) || !shape_fits(args->y_shape, y_dtype)) {
        DATA_FAIL(
            TERN_ERR_SHAPE, what,
            "a sample cannot have that shape and dtype (at most %d dimensions, none negative)",
            TERN_MAX_DIMS - 1);
    }
    return !tern_failed();
}

static tern_dataset *from_callback(const tern_callback_args *given)
{
    static const char what[] = "dataset_from_callback";
    tern_callback_args taken = { .size_ = 0 };
    const tern_callback_args *args = &taken;
    if (!data_take_args(what, &taken, given, sizeof taken)) {
        return NULL;
    }
    tern_dtype_t x_dtype = args->x_dtype ? args->x_dtype : TERN_F32;
    tern_dtype_t y_dtype = args->y_dtype ? args->y_dtype : TERN_I64;
    if (!check_callback(args, x_dtype, y_dtype, what)) {
        return NULL;
    }
    tern_dataset filled = { .count = args->count,
                            .has_y = !args->no_y,
                            .fetch = args->fetch,
                            .user = args->user,
                            .release = args->release };
    describe_part(&filled.x, args->x_shape, x_dtype, DATA_COPY);
    describe_part(&filled.y, args->y_shape, y_dtype, DATA_COPY);
    return register_dataset(&filled, what);
}

tern_dataset *tern_dataset_from_callback_at(tern_site_t site, const tern_callback_args *args)
{
    tern_site_t previous = tern_site_begin(site);
    tern_dataset *dataset = from_callback(args);
    tern_site_end(previous);
    return dataset;
}

/* ---- images ----------------------------------------------------------------------------------- */

/* Zeros that are meant (tern/base.h). */
static bool is_zero_meant(double option)
{
    return option == (double)TERN_ZERO || (option == 0 && signbit(option));
}

/* How many channels the values are for; zeros that are meant count, and are 0 from now on. */
static int take_values(double *values)
{
    int count = 0;
    for (int c = 0; c < TERN_MAX_CHANNELS; c++) {
        const bool is_zero = is_zero_meant(values[c]);
        count = is_zero || values[c] != 0.0 ? c + 1 : count;
        values[c] = is_zero ? 0.0 : values[c];
    }
    return count;
}

/* As take_values, with what is not given in its place: it is divided by. */
static bool take_deviations(double *values, int *out_count, const char *what)
{
    for (int c = 0; c < TERN_MAX_CHANNELS; c++) {
        const double value = is_zero_meant(values[c]) ? 0.0 : values[c];
        if (is_zero_meant(values[c]) || value < 0) {
            DATA_FAIL(TERN_ERR_ARGUMENT, what, "the deviation of channel %d is %g, not above 0", c,
                      value);
            return false;
        }
    }
    *out_count = take_values(values);
    for (int c = 0; c < TERN_MAX_CHANNELS; c++) {
        values[c] = values[c] != 0.0 ? values[c] : 1.0;
    }
    return true;
}

/* A single value serves all channels. */
static double for_channel(const double *values, int count, int64_t channel)
{
    return values[count == 1 ? 0 : channel];
}

/* None, one or all: what a caller leaves out of three is more likely forgotten than meant. */
static bool check_counts(int means, int deviations, int64_t channels, const char *what)
{
    const bool fit =
        (means <= 1 || means == channels) && (deviations <= 1 || deviations == channels);
    if (!fit) {
        DATA_FAIL(TERN_ERR_SHAPE, what,
                  "%d means and %d deviations for %lld channels; one serves all\n  try TERN_ZERO "
                  "for a mean of 0, and 1 for a deviation",
                  means, deviations, (long long)channels);
    }
    return fit;
}

static bool check_finite(const tern_normalize_args *args, const char *what)
{
    bool finite = isfinite(args->scale);
    for (int64_t c = 0; c < TERN_MAX_CHANNELS; c++) {
        finite = finite && isfinite(args->mean[c]) && isfinite(args->deviation[c]);
    }
    if (!finite) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "scale, means and deviations have to be finite");
    }
    return finite;
}

/* What is computed of a u8 value has to be a number of f32, as is what leads there. */
static bool check_factors(float scale, float offset, int64_t channel, const char *what)
{
    const bool fits = isfinite(255.0F * scale + offset);
    if (!fits) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what,
                  "channel %lld: values * %g %+g leave f32\n  try another scale, mean or deviation",
                  (long long)channel, (double)scale, (double)offset);
    }
    return fits;
}

/* Of all channels or, after an error, of none. */
static bool set_factors(tern_dataset *dataset, const tern_normalize_args *args, int means,
                        int deviations, const char *what)
{
    float scales[TERN_MAX_CHANNELS], offsets[TERN_MAX_CHANNELS];
    const double scale = is_zero_meant(args->scale) ? 0.0
                         : args->scale != 0.0       ? args->scale
                                                    : 1.0 / 255.0;
    for (int64_t c = 0; c < dataset->channels; c++) {
        const double deviation = for_channel(args->deviation, deviations, c);
        scales[c] = (float)(scale / deviation);
        offsets[c] = (float)(-for_channel(args->mean, means, c) / deviation);
        if (!check_factors(scales[c], offsets[c], c, what)) {
            return false;
        }
    }
    memcpy(dataset->scale, scales, (size_t)dataset->channels * sizeof *scales);
    memcpy(dataset->offset, offsets, (size_t)dataset->channels * sizeof *offsets);
    return true;
}

static tern_dataset *normalize(tern_normalize_args *args, const char *what)
{
    tern_dataset *dataset = args->dataset;
    if (tern_failed() || !dataset) {
        return NULL;
    }
    if (dataset->x.conversion != DATA_NORMALIZE) {
        DATA_FAIL(TERN_ERR_DTYPE, what,
                  dataset->fetch
                      ? "x, %s, comes from a callback, as it wrote it; only u8 images of "
                        "tensors are normalised"
                      : "x is %s; only u8 images are normalised",
                  tern_dtype_name(dataset->x.stored));
        return NULL;
    }
    if (!check_finite(args, what)) {
        return NULL;
    }
    int means = take_values(args->mean), deviations = 0;
    if (!take_deviations(args->deviation, &deviations, what)) {
        return NULL;
    }
    if (!check_counts(means, deviations, dataset->channels, what)) {
        return NULL;
    }
    return set_factors(dataset, args, means, deviations, what) ? dataset : NULL;
}

tern_dataset *tern_dataset_normalize_at(tern_site_t site, const tern_normalize_args *args)
{
    static const char what[] = "dataset_normalize";
    tern_site_t previous = tern_site_begin(site);
    tern_normalize_args taken = { .size_ = 0 };
    tern_dataset *dataset =
        data_take_args(what, &taken, args, sizeof taken) ? normalize(&taken, what) : NULL;
    tern_site_end(previous);
    return dataset;
}

tern_dataset *data_open_folder(tern_site_t site, const char *what, const char *folder,
                               tern_split_t split,
                               tern_dataset *(*read)(const char *folder, tern_split_t split))
{
    if (tern_failed()) {
        return NULL;
    }
    if (!folder || (split != TERN_TRAIN && split != TERN_TEST)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                     folder ? "split is neither TERN_TRAIN nor TERN_TEST" : "folder is NULL");
        return NULL;
    }
    tern_site_t previous = tern_site_begin(site);
    const char *outer = tern_calling_begin(what); /* of what reads a file for it */
    tern_dataset *dataset = read(folder, split);
    tern_calling_end(outer);
    tern_site_end(previous);
    return dataset;
}

int64_t tern_dataset_count(const tern_dataset *dataset)
{
    return dataset ? dataset->count : 0;
}

tern_shape_t tern_dataset_shape(const tern_dataset *dataset)
{
    return dataset ? dataset->x.shape : (tern_shape_t){ .set_ = 0 };
}
