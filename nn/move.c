/* tern_module_to: tensors of a tree get other storage and stay the same objects.
 *
 * First every tensor and gradient is copied to where it shall be; then all are replaced, which makes
 * nothing new. So a move that runs out of memory leaves the module as it was. */
#include <stdlib.h>

#include "nn/internal.h"

typedef struct moved {
    tern_tensor *from, *to;
    tern_tensor *grad; /* the new gradient; NULL: there is none */
} moved;

static bool copy_one(tern_site_t site, moved *one, const tern_to_args *asked)
{
    tern_to_args args = *asked;
    if (!tern_dtype_is_float(tern_dtype(one->from)))
        args.dtype = TERN_DTYPE_NONE;
    if (tern_ndim(one->from) != 4)
        args.format = TERN_FORMAT_PRESERVE;
    one->to = tern_to_at(site, one->from, &args);
    tern_tensor *grad = tern_grad_of(one->from);
    if (one->to && grad)
        one->grad = tern_to_at(site, grad, &args);
    return one->to && (one->grad || !grad);
}

static void replace_one(tern_site_t site, const moved *one)
{
    if (one->to == one->from)
        return;
    tern_tensor_replace_at(site, one->from, one->to);
    if (one->grad)
        tern_set_grad_at(site, one->from, one->grad);
}

static void move_all(tern_site_t site, const nn_index *index, const tern_to_args *args)
{
    moved *list = nn_alloc(site, "module_to", index->count, sizeof *list);
    int64_t count = 0;
    bool fine = list != NULL;
    for (int64_t i = 0; fine && i < index->count; i++) {
        if (index->entries[i].alias_of >= 0)
            continue;
        list[count].from = index->entries[i].tensor;
        fine = copy_one(site, &list[count++], args);
    }
    for (int64_t i = 0; fine && i < count; i++)
        replace_one(site, &list[i]);
    free(list);
}

tern_status_t tern_module_to_at(tern_site_t site, tern_module *m, const tern_to_args *given)
{
    NN_ARGS(site, "module_to", tern_to_args, args, given);
    const nn_index *index = args_given ? nn_module_index(site, "module_to", m) : NULL;
    if (!index)
        return tern_error_code();
    if (args.dtype && !tern_dtype_is_float(args.dtype))
        return tern_fail_at(site, TERN_ERR_DTYPE, "module_to",
                            "the dtype of a module's parameters must be a float, not %s",
                            tern_dtype_name(args.dtype));
    if ((unsigned)args.format > TERN_FORMAT_CHANNELS_LAST)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, "module_to", "%d is no memory format",
                            (int)args.format);
    args.size_ = sizeof args;
    nn_frame frame = nn_enter(site);
    const bool recording = tern_set_grad_enabled(false);
    move_all(site, index, &args);
    tern_set_grad_enabled(recording);
    nn_leave(&frame);
    return tern_error_code();
}
