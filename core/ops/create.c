/* Making tensors: empty, filled, random, ranges. */
#include <math.h>

#include "core/backend.h"
#include "core/call.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/op_table.h"
#include "core/ops/create.h"
#include "core/option.h"
#include "core/promote.h"
#include "core/rules.h"
#include "tern/numerics.h"

/* ---- what all share ---------------------------------------------------------------------------- */

bool core_maker_refuse(const core_maker *m, tern_status_t code, const char *text)
{
    core_error(m->self, m->site, code, m->what, "%s", text);
    return false;
}

static bool check_args(const core_maker *m)
{
    const tern_new_args *args = m->args;
    if (tern_shape_is_bare_(&args->shape))
        return core_maker_refuse(m, TERN_ERR_ARGUMENT,
                                 "bare numbers are no shape\n  try TERN_SHAPE(2, 3)");
    if (!args->shape.set_)
        return core_maker_refuse(m, TERN_ERR_ARGUMENT,
                                 "no shape was given\n  try TERN_SHAPE(...), TERN_SCALAR_SHAPE, or "
                                 ".like = a tensor that is not NULL");
    if (args->shape.ndim < 0 || args->shape.ndim > TERN_MAX_DIMS)
        return core_maker_refuse(m, TERN_ERR_SHAPE, "a tensor has 0 to 8 dimensions");
    if ((int)m->dtype <= TERN_DTYPE_NONE || m->dtype >= TERN_DTYPES)
        return core_maker_refuse(m, TERN_ERR_DTYPE, "the dtype is none of tern's");
    if (args->requires_grad && !tern_dtype_is_float(m->dtype))
        return core_maker_refuse(m, TERN_ERR_GRAD, "only floats can require a gradient");
    if ((unsigned)args->format > TERN_FORMAT_CHANNELS_LAST)
        return core_maker_refuse(m, TERN_ERR_ARGUMENT, "the memory format is none of tern's");
    if (args->format == TERN_FORMAT_CHANNELS_LAST && args->shape.ndim != 4)
        return core_maker_refuse(m, TERN_ERR_SHAPE, "channels_last is for 4 dimensions");
    return true;
}

/* What the arguments leave open becomes as it is in args->like. */
static bool take_like(core_maker *m)
{
    tern_new_args *args = &m->as_like;
    *args = *m->args;
    m->args = args;
    if (!core_is_there(m->self, m->site, m->what, args->like))
        return false;
    m->laid_out_as_like = !args->shape.set_ && args->format == TERN_FORMAT_PRESERVE;
    if (!args->shape.set_)
        args->shape = tern_shape(args->like);
    if (args->dtype == TERN_DTYPE_NONE)
        args->dtype = tern_dtype(args->like);
    return true;
}

bool core_maker_begin(core_maker *m, tern_site_t site, const char *what, const tern_new_args *args,
                      tern_dtype_t dtype)
{
    m->self = core_self();
    m->site = core_site(m->self, site);
    m->what = what;
    m->args = core_options(args);
    m->laid_out_as_like = false;
    if (m->self->error_code != TERN_OK || (m->args->like != NULL && !take_like(m)))
        return false;
    args = m->args;
    m->dtype = args->dtype != TERN_DTYPE_NONE ? args->dtype
               : dtype != TERN_DTYPE_NONE     ? dtype
                                              : (tern_dtype_t)m->self->default_dtype;
    if (!check_args(m))
        return false;
    if (args->device.kind != TERN_KIND_NONE || args->like == NULL)
        return core_dev_resolve(m->self, m->site, what, args->device, &m->dev);
    m->dev = tern_device(args->like); /* no request: it lives there */
    return true;
}

static tern_tensor *maker_tensor_on(const core_maker *m, tern_dev_t dev)
{
    const tern_shape_t *shape = &m->args->shape;
    const int64_t *d = shape->dims;
    if (m->laid_out_as_like && !tern_is_contiguous(m->args->like)) {
        int64_t strides[TERN_MAX_DIMS];
        core_dense_strides(&m->args->like->view, strides);
        return core_tensor_new_strided(m->self, m->site, dev, m->dtype, shape->ndim, d, strides);
    }
    if (m->args->format != TERN_FORMAT_CHANNELS_LAST || core_numel(shape->ndim, d) < 0)
        return core_tensor_new(m->self, m->site, dev, m->dtype, shape->ndim, d);
    const int64_t strides[4] = { d[1] * d[2] * d[3], 1, d[1] * d[3], d[1] };
    return core_tensor_new_strided(m->self, m->site, dev, m->dtype, 4, d, strides);
}

tern_tensor *core_maker_tensor(const core_maker *m)
{
    const char *outer = core_calling_begin(m->self, m->what);
    tern_tensor *t = maker_tensor_on(m, m->dev);
    if (t == NULL && core_oom_to_cpu(m->self, m->site, m->what, m->dev))
        t = maker_tensor_on(m, TERN_CPU);
    core_calling_end(m->self, outer);
    return t;
}

tern_tensor *core_maker_end(const core_maker *m, tern_tensor *t, bool ok)
{
    if (t == NULL)
        return NULL;
    if (!ok) {
        core_release(m->self, t);
        return NULL;
    }
    t->requires_grad = m->args->requires_grad;
    return core_scope_add(m->self, t);
}

/* A tensor that a row without inputs fills. */
static tern_tensor *made_by(const core_maker *m, tern_op_id id, void *attr)
{
    tern_tensor *t = core_maker_tensor(m);
    return core_maker_end(m, t, t != NULL && core_op_into(id, m->site, attr, t, NULL) == TERN_OK);
}

/* ---- filled ------------------------------------------------------------------------------------ */

tern_attr_fill core_fill_attr(double value)
{
    /* -0.0 is a zero of floats only; 2^63 stands for the greatest i64, which a double rounds to it */
    const bool whole = value >= -0x1p63 && value <= 0x1p63 && trunc(value) == value &&
                       !(value == 0 && signbit(value));
    return (tern_attr_fill){ .value = { whole ? TERN_NUMBER_INT : TERN_NUMBER_FLOAT, 0, value,
                                        whole ? core_load_int(&value, TERN_F64) : 0 } };
}

bool core_fill_attr_of(tern_thread *self, tern_site_t site, const char *what, tern_operand value,
                       tern_dtype_t dtype, tern_attr_fill *attr)
{
    if (value.kind_ == 0) {
        core_error(self, core_site(self, site), TERN_ERR_ARGUMENT, what,
                   "the value has to be a number, not a tensor\n"
                   "  try tern_copy(t, value), which writes a tensor's value to each element of t");
        return false;
    }
    if (!core_require_number(self, site, what, value, dtype))
        return false;
    const int64_t whole = value.value_.i;
    *attr = value.kind_ == TERN_NUMBER_FLOAT
                ? core_fill_attr(value.value_.f)
                : (tern_attr_fill){ .value = { TERN_NUMBER_INT, 0, (double)whole, whole } };
    return true;
}

static tern_tensor *filled(const core_maker *m, double value)
{
    tern_attr_fill attr = core_fill_attr(value);
    return made_by(m, TERN_OP_fill, &attr);
}

/* A dtype holds every whole number from 0 up to this one. */
static const int64_t counts_to[TERN_DTYPES] = {
    [TERN_BOOL] = 1,        [TERN_U8] = UINT8_MAX,
    [TERN_I8] = INT8_MAX,   [TERN_I16] = INT16_MAX,
    [TERN_I32] = INT32_MAX, [TERN_I64] = INT64_MAX,
    [TERN_F16] = 1 << 11,   [TERN_BF16] = 1 << 8,
    [TERN_F32] = 1 << 24,   [TERN_F64] = INT64_C(1) << 53
};

/* Deterministic algorithms are in use: what is read before it is written repeats, and shows. */
static tern_tensor *filled_known(const core_maker *m)
{
    if (tern_dtype_is_float(m->dtype))
        return filled(m, (double)NAN);
    const int64_t most = counts_to[m->dtype];
    tern_attr_fill attr = { .value = { TERN_NUMBER_INT, 0, (double)most, most } };
    return made_by(m, TERN_OP_fill, &attr);
}

tern_tensor *tern_empty_at(tern_site_t site, const tern_new_args *args)
{
    core_maker m;
    if (!core_maker_begin(&m, site, "empty", args, TERN_DTYPE_NONE))
        return NULL;
    if (__builtin_expect(tern_deterministic_algorithms(), 0) && tern_fill_uninitialized_memory())
        return filled_known(&m);
#ifndef NDEBUG
    /* what is read before it is written shows, on backends that can fill */
    const tern_kernel *kernels = core_kernels[m.dev.kind];
    if (tern_dtype_is_float(m.dtype) && kernels != NULL && kernels[TERN_OP_fill] != NULL)
        return filled(&m, (double)NAN);
#endif
    return core_maker_end(&m, core_maker_tensor(&m), true);
}

tern_tensor *tern_zeros_at(tern_site_t site, const tern_new_args *args)
{
    core_maker m;
    return core_maker_begin(&m, site, "zeros", args, TERN_DTYPE_NONE) ? filled(&m, 0.0) : NULL;
}

tern_tensor *tern_ones_at(tern_site_t site, const tern_new_args *args)
{
    core_maker m;
    return core_maker_begin(&m, site, "ones", args, TERN_DTYPE_NONE) ? filled(&m, 1.0) : NULL;
}

tern_tensor *tern_full_at(tern_site_t site, tern_operand value, const tern_new_args *args)
{
    core_maker m;
    tern_attr_fill attr;
    const bool fits = core_maker_begin(&m, site, "full", args, TERN_DTYPE_NONE) &&
                      core_fill_attr_of(m.self, m.site, m.what, value, m.dtype, &attr);
    return fits ? made_by(&m, TERN_OP_fill, &attr) : NULL;
}

tern_tensor *core_zeros_like(const tern_view *v)
{
    tern_attr_fill attr = core_fill_attr(0.0);
    return core_op0(TERN_OP_fill, TERN_HERE, &attr, v->dev, (tern_dtype_t)v->dtype, v->ndim,
                    v->shape);
}

tern_tensor *core_numbers_to(tern_dev_t dev, int64_t count)
{
    tern_attr_arange attr = { .f_step = 1, .i_step = 1 };
    return core_op0(TERN_OP_arange, TERN_HERE, &attr, dev, TERN_I64, 1, &count);
}

/* ---- random ------------------------------------------------------------------------------------ */

static tern_generator *generator_of(const core_maker *m)
{
    return m->args->generator != NULL ? m->args->generator : &m->self->generator;
}

/* A draw that fails takes no call number. */
static tern_tensor *counted(tern_generator *generator, tern_tensor *t)
{
    if (t != NULL)
        generator->call++;
    return t;
}

static tern_tensor *drawn(const core_maker *m, tern_op_id id)
{
    tern_generator *generator = generator_of(m);
    tern_attr_random attr = { .seed = generator->seed, .call = generator->call };
    return counted(generator, made_by(m, id, &attr));
}

tern_tensor *tern_rand_at(tern_site_t site, const tern_new_args *args)
{
    core_maker m;
    return core_maker_begin(&m, site, "rand", args, TERN_DTYPE_NONE) ? drawn(&m, TERN_OP_rand)
                                                                     : NULL;
}

tern_tensor *tern_randn_at(tern_site_t site, const tern_new_args *args)
{
    core_maker m;
    return core_maker_begin(&m, site, "randn", args, TERN_DTYPE_NONE) ? drawn(&m, TERN_OP_randn)
                                                                      : NULL;
}

tern_tensor *tern_bernoulli_at(tern_site_t site, tern_tensor *p, tern_generator *generator)
{
    tern_thread *self = core_self();
    tern_generator *source = generator != NULL ? generator : &self->generator;
    tern_attr_random attr = { .seed = source->seed, .call = source->call };
    return counted(source, core_op1(TERN_OP_bernoulli, site, &attr, p));
}

bool rule_bernoulli(core_call *call)
{
    const tern_view *p = core_view(call, 0);
    return core_check_dtype(call, 0, DT_FLOATS) &&
           core_out(call, 0, (tern_dtype_t)p->dtype, p->ndim, p->shape);
}

tern_tensor *tern_randperm_at(tern_site_t site, int64_t n, const tern_new_args *args)
{
    core_maker m;
    tern_new_args with_shape = *core_options(args);
    with_shape.shape = TERN_SHAPE(n);
    if (!core_maker_begin(&m, site, "randperm", &with_shape, TERN_I64))
        return NULL;
    if (n > 0 && n - 1 > counts_to[m.dtype]) {
        core_error(
            m.self, m.site, TERN_ERR_ARGUMENT, m.what,
            "n is %lld, but %s tells at most %lld numbers from 0 apart\n  try a wider .dtype",
            (long long)n, tern_dtype_name(m.dtype), (long long)counts_to[m.dtype] + 1);
        return NULL;
    }
    return drawn(&m, TERN_OP_randperm);
}

/* Does the dtype hold all whole numbers low .. high? Floats: as finite numbers, perhaps rounded. */
static bool holds(tern_dtype_t dtype, int64_t low, int64_t high)
{
    static const int64_t least[] = {
        [TERN_BOOL] = 0,        [TERN_U8] = 0,           [TERN_I8] = INT8_MIN,
        [TERN_I16] = INT16_MIN, [TERN_I32] = INT32_MIN,  [TERN_I64] = INT64_MIN,
        [TERN_F16] = -65504,    [TERN_BF16] = INT64_MIN, [TERN_F32] = INT64_MIN,
        [TERN_F64] = INT64_MIN
    };
    const int64_t most = !tern_dtype_is_float(dtype) ? counts_to[dtype]
                         : dtype == TERN_F16         ? 65504
                                                     : INT64_MAX;
    return low >= least[dtype] && high <= most;
}

tern_tensor *tern_randint_at(tern_site_t site, int64_t low, int64_t high, const tern_new_args *args)
{
    core_maker m;
    if (!core_maker_begin(&m, site, "randint", args, TERN_I64))
        return NULL;
    if (low >= high || !holds(m.dtype, low, high - 1)) {
        core_error(m.self, m.site, TERN_ERR_ARGUMENT, m.what,
                   "no whole numbers of %s from %lld to below %lld", tern_dtype_name(m.dtype),
                   (long long)low, (long long)high);
        return NULL;
    }
    tern_generator *generator = generator_of(&m);
    tern_attr_randint attr = { .draw = { .seed = generator->seed, .call = generator->call },
                               .low = low,
                               .range = (uint64_t)high - (uint64_t)low };
    return counted(generator, made_by(&m, TERN_OP_randint, &attr));
}

/* ---- ranges ------------------------------------------------------------------------------------ */

/* A whole number that an i64 can be; all doubles from 2^53 on are. */
static bool is_whole(double v)
{
    return v >= -0x1p63 && v < 0x1p63 && (double)(int64_t)v == v;
}

/* How many elements, or -1 after recording why the range cannot be. */
static int64_t range_count(const core_maker *m, double start, double end, double step)
{
    if (!isfinite(start) || !isfinite(end) || !isfinite(step)) {
        core_maker_refuse(m, TERN_ERR_ARGUMENT, "start, end and step have to be finite");
        return -1;
    }
    if (step > 0 ? end < start : end > start) {
        core_error(m->self, m->site, TERN_ERR_ARGUMENT, m->what,
                   "a step of %g does not lead from %g to %g%s", step, start, end,
                   end == 0 ? "\n  try .end = N, or tern_arange(0, N)" : "");
        return -1;
    }
    const double count = ceil((end - start) / step);
    if (count < 9e18)
        return (int64_t)count;
    core_maker_refuse(m, TERN_ERR_SHAPE, "the range has too many elements");
    return -1;
}

tern_tensor *tern_arange_at(tern_site_t site, const tern_range_args *args)
{
    core_maker m;
    args = core_options(args);
    const double step = core_given(args->step, 1), first = core_given(args->start, 0),
                 last = core_given(args->end, 0);
    const bool whole = is_whole(first) && is_whole(last) && is_whole(step);
    tern_new_args as_new = {
        .size_ = sizeof as_new, .shape = TERN_SHAPE(0), .dtype = args->dtype, .device = args->device
    };
    if (!core_maker_begin(&m, site, "arange", &as_new, whole ? TERN_I64 : TERN_DTYPE_NONE))
        return NULL;
    const bool cut = !tern_dtype_is_float(m.dtype); /* integers count in whole numbers */
    const double start = cut ? trunc(first) : first;
    const double end = cut ? trunc(last) : last;
    const double by = cut ? trunc(step) : step;
    if (by == 0) {
        core_maker_refuse(&m, TERN_ERR_ARGUMENT, "the step is 0 as an integer");
        return NULL;
    }
    const int64_t count = range_count(&m, start, end, by);
    if (count < 0)
        return NULL;
    if (cut && !(is_whole(start) && is_whole(by))) {
        core_maker_refuse(&m, TERN_ERR_ARGUMENT, "start and step are beyond what i64 can be");
        return NULL;
    }
    as_new.shape.dims[0] = count;
    tern_attr_arange attr = { .f_start = start, .f_step = by };
    attr.i_start = is_whole(start) ? (int64_t)start : 0;
    attr.i_step = is_whole(by) ? (int64_t)by : 0;
    return made_by(&m, TERN_OP_arange, &attr);
}

tern_tensor *tern_linspace_at(tern_site_t site, const tern_linspace_args *args)
{
    core_maker m;
    args = core_options(args);
    const tern_new_args as_new = { .size_ = sizeof as_new,
                                   .shape = TERN_SHAPE(args->steps),
                                   .dtype = args->dtype,
                                   .device = args->device,
                                   .requires_grad = args->requires_grad };
    if (!core_maker_begin(&m, site, "linspace", &as_new, TERN_DTYPE_NONE))
        return NULL;
    if (args->steps < 0) {
        core_error(m.self, m.site, TERN_ERR_ARGUMENT, m.what, "%lld steps were asked for",
                   (long long)args->steps);
        return NULL;
    }
    const bool cut = !tern_dtype_is_float(m.dtype);
    const double start = core_given(args->start, 0), end = core_given(args->end, 0);
    tern_attr_linspace attr = { .start = cut ? trunc(start) : start,
                                .end = cut ? trunc(end) : end,
                                .steps = args->steps };
    const bool held = core_number_fits(tern_operand_float(start), m.dtype) &&
                      core_number_fits(tern_operand_float(end), m.dtype) &&
                      (!cut || (fabs(attr.start) < 0x1p63 && fabs(attr.end) < 0x1p63));
    if (!held) {
        core_maker_refuse(&m, TERN_ERR_ARGUMENT,
                          "start and end have to be numbers that the dtype holds");
        return NULL;
    }
    return made_by(&m, TERN_OP_linspace, &attr);
}

/* Every columns + 1-th element of a tensor of zeros is written. */
static bool fill_diagonal(const core_maker *m, tern_tensor *t, int64_t rows, int64_t columns)
{
    const int64_t length = rows < columns ? rows : columns;
    if (length == 0)
        return true;
    tern_tensor *diagonal = core_tensor_alias(m->self, m->site, t);
    if (diagonal == NULL)
        return false;
    diagonal->view.ndim = 1;
    diagonal->view.numel = diagonal->view.shape[0] = length;
    diagonal->view.stride[0] = columns + 1;
    core_view_update(&diagonal->view);
    tern_attr_fill one = core_fill_attr(1.0);
    const bool ok = core_op_into(TERN_OP_fill, m->site, &one, diagonal, NULL) == TERN_OK;
    core_release(m->self, diagonal);
    return ok;
}

tern_tensor *tern_eye_at(tern_site_t site, const tern_eye_args *args)
{
    core_maker m;
    args = core_options(args);
    const int64_t rows = core_index_meant(args->rows);
    const int64_t columns = args->columns == 0 ? rows : core_index_meant(args->columns);
    const tern_new_args as_new = { .size_ = sizeof as_new,
                                   .shape = TERN_SHAPE(rows, columns),
                                   .dtype = args->dtype,
                                   .device = args->device,
                                   .requires_grad = args->requires_grad };
    tern_attr_fill zero = core_fill_attr(0.0);
    if (!core_maker_begin(&m, site, "eye", &as_new, TERN_DTYPE_NONE))
        return NULL;
    tern_tensor *t = core_maker_tensor(&m);
    return core_maker_end(&m, t,
                          t != NULL &&
                              core_op_into(TERN_OP_fill, m.site, &zero, t, NULL) == TERN_OK &&
                              fill_diagonal(&m, t, rows, columns));
}
