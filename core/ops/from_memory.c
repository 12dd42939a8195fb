/* Tensors from the caller's data: copied, or around it. */
#include <string.h>

#include "core/error.h"
#include "core/memory.h"
#include "core/option.h"
#include "core/ops/create.h"

static void nothing_to_release(void *user)
{
    (void)user;
}

/* A CPU tensor over memory of the caller's, in the arguments' shape and format; reference count 1. */
static tern_tensor *wrapped(const core_maker *m, void *data, void (*release)(void *user),
                            void *user, bool row_major)
{
    const tern_shape_t *shape = &m->args->shape;
    const int64_t *d = shape->dims, numel = core_numel(shape->ndim, d);
    int64_t bytes;
    if (numel < 0 || __builtin_mul_overflow(numel, tern_dtype_size(m->dtype), &bytes)) {
        core_maker_refuse(m, TERN_ERR_SHAPE,
                          "the shape has a negative extent or too many elements");
        return NULL;
    }
    /* always with a release function, so that nobody takes the memory for the library's own */
    core_storage *storage = core_storage_foreign(
        m->self, data, bytes, release != NULL ? release : nothing_to_release, user);
    tern_tensor *t = storage == NULL
                         ? NULL
                         : core_tensor_adopt(m->self, m->site, storage, m->dtype, shape->ndim, d);
    if (t == NULL) {
        if (storage != NULL) {
            storage->release =
                nothing_to_release; /* a call that fails leaves the caller's memory */
            core_storage_release(m->self, storage);
        }
        core_maker_refuse(m, TERN_ERR_OOM, "no host memory for a tensor");
        return NULL;
    }
    if (!row_major && m->args->format == TERN_FORMAT_CHANNELS_LAST) {
        const int64_t strides[4] = { d[1] * d[2] * d[3], 1, d[1] * d[3], d[1] };
        memcpy(t->view.stride, strides, sizeof strides);
        core_view_update(&t->view);
    }
    return t;
}

/* A bool of the caller's is any byte, one of tern's is 0 or 1. */
static void take_bools(uint8_t *to, const uint8_t *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i] != 0;
}

/* Reads row-major data into t, wherever it lies. */
static bool read_data(const core_maker *m, tern_tensor *t, const void *data)
{
    if (t->view.dev.kind == TERN_KIND_CPU && (t->view.flags & TERN_VIEW_CONTIGUOUS)) {
        if (m->dtype == TERN_BOOL)
            take_bools(t->view.data, data, t->view.numel);
        else if (t->view.numel > 0)
            memcpy(t->view.data, data, (size_t)(t->view.numel * tern_dtype_size(m->dtype)));
        return true;
    }
    /* the wrapper is only read */
    core_maker as_read = *m;
    if (m->dtype == TERN_BOOL)
        as_read.dtype = TERN_U8; /* any byte; copying makes it 0 or 1 */
    tern_tensor *source = wrapped(&as_read, (void *)(uintptr_t)data, NULL, NULL, true);
    if (source == NULL)
        return false;
    const bool ok = core_op_into(TERN_OP_copy, m->site, NULL, t, source) == TERN_OK;
    core_release(m->self, source);
    return ok;
}

/* What the pointer's type says and what the arguments ask for have to be the same: nothing is converted. */
static bool check_dtype(const core_maker *m, tern_dtype_t of)
{
    if (of < TERN_DTYPE_NONE || of >= TERN_DTYPES)
        return core_maker_refuse(m, TERN_ERR_DTYPE, "the data's dtype is none of tern's");
    if (of == TERN_DTYPE_NONE) {
        if (m->args->dtype != TERN_DTYPE_NONE)
            return true;
        return core_maker_refuse(m, TERN_ERR_DTYPE,
                                 "the type of the pointer does not say which dtype the data have\n"
                                 "  try .dtype = TERN_F32, or a pointer to what they are: float *");
    }
    if (of == m->dtype || tern_dtype_size(of) == 1)
        return true;
    core_error(m->self, m->site, TERN_ERR_DTYPE, m->what,
               "the data are %s by their type, and %s is asked for: nothing is converted here\n"
               "  try without that dtype, and tern_cast(t, dtype) afterwards",
               tern_dtype_name(of), tern_dtype_name(m->dtype));
    return false;
}

static bool begin(core_maker *m, tern_site_t site, const char *what, const void *data,
                  tern_dtype_t of, const tern_new_args *args)
{
    const bool named = of > TERN_DTYPE_NONE && of < TERN_DTYPES;
    if (!core_maker_begin(m, site, what, args, named ? of : TERN_F32))
        return false;
    const bool empty = core_numel(m->args->shape.ndim, m->args->shape.dims) == 0;
    if (data == NULL)
        return empty || core_maker_refuse(m, TERN_ERR_ARGUMENT, "the data is NULL");
    return check_dtype(m, of);
}

tern_tensor *tern_from_data_at(tern_site_t site, const void *data, tern_dtype_t of,
                               const tern_new_args *args)
{
    core_maker m;
    if (!begin(&m, site, "from_data", data, of, args))
        return NULL;
    tern_tensor *t = core_maker_tensor(&m);
    return core_maker_end(&m, t, t != NULL && read_data(&m, t, data));
}

tern_tensor *tern_from_memory_at(tern_site_t site, void *data, tern_dtype_t of,
                                 void (*release)(void *user), void *user, const tern_new_args *args)
{
    core_maker m;
    tern_new_args on_cpu = *core_options(args);
    if (on_cpu.device.kind == TERN_KIND_NONE)
        on_cpu.device = TERN_CPU;
    if (!begin(&m, site, "from_memory", data, of, &on_cpu))
        return NULL;
    if (m.dev.kind != TERN_KIND_CPU) {
        core_maker_refuse(&m, TERN_ERR_DEVICE,
                          "the memory is the host's\n  try tern_from_data, which copies");
        return NULL;
    }
    return core_maker_end(&m, wrapped(&m, data, release, user, false), true);
}
