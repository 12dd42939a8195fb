/* What is done to every module or parameter of a tree. */
#include "nn/internal.h"

static void set_training(tern_module *m, bool on)
{
    m->training = on;
    for (int64_t i = 0; i < m->members_->child_count; i++)
        set_training(m->members_->children[i].module, on);
}

void tern_train(tern_module *m)
{
    if (m)
        set_training(m, true);
}

void tern_eval(tern_module *m)
{
    if (m)
        set_training(m, false);
}

void tern_module_apply(tern_module *m, void (*fn)(tern_module *m, void *user), void *user)
{
    if (!m || !fn)
        return;
    for (int64_t i = 0; i < m->members_->child_count; i++)
        tern_module_apply(m->members_->children[i].module, fn, user);
    fn(m, user);
}

tern_status_t tern_module_zero_grad_at(tern_site_t site, tern_module *m)
{
    if (!nn_module_check(site, "module_zero_grad", m))
        return tern_error_code();
    const tern_tensors_t all = tern_parameters_at(site, m);
    for (int64_t i = 0; i < all.count; i++)
        tern_set_grad_at(site, all.tensors[i], NULL);
    return tern_error_code();
}

tern_status_t tern_module_requires_grad_at(tern_site_t site, tern_module *m, bool on)
{
    if (!nn_module_check(site, "module_requires_grad", m))
        return tern_error_code();
    const tern_tensors_t all = tern_parameters_at(site, m);
    for (int64_t i = 0; i < all.count; i++)
        tern_set_requires_grad_at(site, all.tensors[i], on);
    return tern_error_code();
}
