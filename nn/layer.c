/* What constructors of layers share. */
#include "nn/internal.h"

bool nn_require_positive(tern_site_t site, const char *what, const char *name, int64_t value)
{
    if (value > 0)
        return true;
    if (value == 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'%s' is missing", name);
    else
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "'%s' is %lld: it must be positive", name,
                     (long long)value);
    return false;
}

static tern_tensor *new_parameter(tern_module *m, const char *name, tern_shape_t shape,
                                  nn_origin origin)
{
    tern_tensor *t = tern_empty(shape, .dtype = origin.dtype, .device = origin.device);
    return t ? tern_module_add_parameter(m, name, t) : NULL;
}

tern_tensor *nn_uniform_parameter(tern_module *m, const char *name, tern_shape_t shape,
                                  nn_origin origin, double bound)
{
    tern_tensor *t = new_parameter(m, name, shape, origin);
    return t ? tern_init_uniform_at(TERN_HERE, t, -bound, bound, origin.generator) : NULL;
}

tern_tensor *nn_constant_parameter(tern_module *m, const char *name, tern_shape_t shape,
                                   nn_origin origin, double value)
{
    tern_tensor *t = new_parameter(m, name, shape, origin);
    return t ? tern_init_constant(t, value) : NULL;
}

nn_frame nn_layer_begin(tern_site_t site, const char *what)
{
    nn_frame frame = nn_enter(site);
    frame.calling = tern_calling_begin(what);
    return frame;
}

tern_module *nn_layer_done(nn_frame *frame, tern_module *m)
{
    if (m && tern_failed()) {
        nn_module_destroy(m);
        m = NULL;
    }
    tern_calling_end(frame->calling);
    nn_leave(frame);
    return m;
}
