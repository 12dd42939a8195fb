/* Modules: making, members, ownership.
 *
 * A module without a parent is registered for release in tern_finish; one that gets a parent is the
 * parent's. `parents` counts the edges that lead to a module, so a shared child goes with the last. */
#include <stdatomic.h>
#include <stdlib.h>

#include "nn/internal.h"

static _Atomic uint64_t revisions;

static uint64_t next_revision(void)
{
    return atomic_fetch_add_explicit(&revisions, 1, memory_order_relaxed) + 1;
}

/* The name of an edge is the parent's memory, so a child that stays forgets it. */
static int64_t cut_edge(const nn_child *edge)
{
    tern_module *child = edge->module;
    if (child->name_ == edge->name)
        child->name_ = NULL;
    return --child->members_->parents;
}

void nn_module_destroy(tern_module *m)
{
    struct tern_module_members *own = m->members_;
    tern_at_finish_cancel(m);
    if (m->release)
        m->release(m);
    for (int64_t i = 0; i < own->member_count; i++) {
        tern_release(own->members[i].tensor);
        free(own->members[i].name);
    }
    for (int64_t i = 0; i < own->child_count; i++) {
        if (cut_edge(&own->children[i]) == 0)
            nn_module_destroy(own->children[i].module);
        free(own->children[i].name);
    }
    nn_index_clear(&own->index);
    free(own->report);
    free(own->members);
    free(own->children);
    free(own);
    free(m);
}

static void release_root(void *module)
{
    nn_module_destroy(module);
}

void nn_module_let_go(tern_module *m)
{
    struct tern_module_members *own = m->members_;
    for (; own->child_count > 0; own->child_count--) {
        nn_child *edge = &own->children[own->child_count - 1];
        if (cut_edge(edge) == 0)
            (void)tern_at_finish(release_root, edge->module);
        free(edge->name);
    }
}

static tern_module *create(tern_site_t site, size_t bytes, const char *type, bool has_forward)
{
    if (tern_failed())
        return NULL;
    if (bytes < sizeof(tern_module) || !has_forward) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "module_create", "%s",
                     has_forward ? "the struct does not begin with a tern_module"
                                 : "the forward function is NULL");
        return NULL;
    }
    tern_module *m = nn_alloc(site, "module_create", 1, bytes);
    if (!m)
        return NULL;
    m->members_ = nn_alloc(site, "module_create", 1, sizeof *m->members_);
    if (!m->members_ || !tern_at_finish(release_root, m)) {
        tern_fail_at(site, TERN_ERR_OOM, "module_create", "no memory");
        free(m->members_);
        free(m);
        return NULL;
    }
    m->members_->revision = next_revision();
    m->training = true;
    m->type = type ? type : "module";
    return m;
}

tern_module *tern_module_create_at(tern_site_t site, size_t bytes, const char *type,
                                   tern_forward_fn forward)
{
    tern_module *m = create(site, bytes, type, forward != NULL);
    if (m)
        m->forward = forward;
    return m;
}

tern_module *tern_module_create_args_at(tern_site_t site, size_t bytes, const char *type,
                                        tern_forward_args_fn forward)
{
    tern_module *m = create(site, bytes, type, forward != NULL);
    if (m)
        m->forward_args = forward;
    return m;
}

bool nn_module_check(tern_site_t site, const char *what, const tern_module *m)
{
    if (!m)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the module is NULL");
    return m != NULL;
}

static bool check_name(tern_site_t site, const char *what, const tern_module *m, const char *name)
{
    if (!nn_module_check(site, what, m))
        return false;
    if (!name || !*name)
        tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the name is %s", name ? "empty" : "NULL");
    return name && *name && !tern_failed();
}

/* ---- children --------------------------------------------------------------------------------- */

static bool reaches(const tern_module *from, const tern_module *target)
{
    if (from == target)
        return true;
    for (int64_t i = 0; i < from->members_->child_count; i++)
        if (reaches(from->members_->children[i].module, target))
            return true;
    return false;
}

nn_child *nn_find_child(tern_module *m, const char *name)
{
    for (int64_t i = 0; i < m->members_->child_count; i++)
        if (!strcmp(m->members_->children[i].name, name))
            return &m->members_->children[i];
    return NULL;
}

/* A new last child without a module; NULL on failure. */
static nn_child *append_child(tern_site_t site, tern_module *m, const char *name)
{
    struct tern_module_members *own = m->members_;
    nn_child *grown = realloc(own->children, (size_t)(own->child_count + 1) * sizeof *grown);
    if (!grown) {
        tern_fail_at(site, TERN_ERR_OOM, "module_add_child", "no memory");
        return NULL;
    }
    own->children = grown;
    nn_child *added = &grown[own->child_count];
    *added = (nn_child){ .name = nn_copy_text(site, "module_add_child", name) };
    if (!added->name)
        return NULL;
    own->child_count++;
    return added;
}

/* The child that a name had before goes back to the list of tern_finish when it has no parent left;
 * the program may still hold it. */
static void replace_child(nn_child *slot, tern_module *child)
{
    if (slot->module && cut_edge(slot) == 0)
        tern_at_finish(release_root, slot->module);
    if (child->members_->parents++ == 0) {
        tern_at_finish_cancel(child);
        child->name_ = slot->name;
    }
    slot->module = child;
    if (slot->field)
        *slot->field = child;
}

tern_module *tern_module_add_child_at(tern_site_t site, tern_module *m, const char *name,
                                      tern_module *child)
{
    if (!check_name(site, "module_add_child", m, name))
        return NULL;
    if (!child || reaches(child, m)) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "module_add_child", "child '%s' %s", name,
                     child ? "contains the module that it is added to" : "is NULL");
        return NULL;
    }
    nn_child *slot = nn_find_child(m, name);
    if (!slot)
        slot = append_child(site, m, name);
    if (!slot)
        return NULL;
    if (slot->module != child)
        replace_child(slot, child);
    m->members_->revision = next_revision();
    return child;
}

void nn_bind_child(tern_module *m, const char *name, tern_module *child, tern_module **field)
{
    *field = tern_module_add_child(m, name, child);
    if (*field)
        nn_find_child(m, name)->field = field;
}

/* ---- parameters and buffers ------------------------------------------------------------------- */

static nn_member *find_member(tern_module *m, const char *name)
{
    for (int64_t i = 0; i < m->members_->member_count; i++)
        if (!strcmp(m->members_->members[i].name, name))
            return &m->members_->members[i];
    return NULL;
}

static nn_member *append_member(tern_site_t site, tern_module *m, const char *name)
{
    struct tern_module_members *own = m->members_;
    nn_member *grown = realloc(own->members, (size_t)(own->member_count + 1) * sizeof *grown);
    if (!grown) {
        tern_fail_at(site, TERN_ERR_OOM, "module_add_parameter", "no memory");
        return NULL;
    }
    own->members = grown;
    nn_member *added = &grown[own->member_count];
    *added = (nn_member){ .name = nn_copy_text(site, "module_add_parameter", name) };
    if (!added->name)
        return NULL;
    own->member_count++;
    return added;
}

static tern_tensor *add_member(tern_site_t site, tern_module *m, const char *name, tern_tensor *t,
                               bool buffer)
{
    nn_member *slot = find_member(m, name);
    if (!slot)
        slot = append_member(site, m, name);
    if (!slot)
        return NULL;
    tern_retain(t);
    tern_release(slot->tensor);
    slot->tensor = t;
    slot->buffer = buffer;
    if (slot->field)
        *slot->field = t;
    m->members_->revision = next_revision();
    return t;
}

void nn_bind_tensor(tern_module *m, const char *name, tern_tensor **field)
{
    nn_member *slot = find_member(m, name);
    if (!slot)
        slot = append_member(TERN_HERE, m, name);
    if (!slot)
        return;
    slot->field = field;
    *field = slot->tensor;
}

tern_tensor *tern_module_add_parameter_at(tern_site_t site, tern_module *m, const char *name,
                                          tern_tensor *t)
{
    if (!check_name(site, "module_add_parameter", m, name))
        return NULL;
    if (t && !tern_dtype_is_float(tern_dtype(t))) {
        tern_fail_at(site, TERN_ERR_DTYPE, "module_add_parameter",
                     "parameter '%s' is %s\n  try TERN_BUFFER: only floats are trained", name,
                     tern_dtype_name(tern_dtype(t)));
        return NULL;
    }
    if (t && !tern_is_leaf(t)) {
        tern_fail_at(site, TERN_ERR_GRAD, "module_add_parameter",
                     "parameter '%s' is the result of a recorded op\n"
                     "  try tern_detach, or make it under TERN_NO_GRAD",
                     name);
        return NULL;
    }
    if (t && !tern_requires_grad(t) && !tern_set_requires_grad_at(site, t, true))
        return NULL;
    return add_member(site, m, name, t, false);
}

tern_tensor *tern_module_add_buffer_at(tern_site_t site, tern_module *m, const char *name,
                                       tern_tensor *t)
{
    if (!check_name(site, "module_add_buffer", m, name))
        return NULL;
    return add_member(site, m, name, t, true);
}

void tern_module_free_at(tern_site_t site, tern_module *m)
{
    if (!m)
        return;
    if (m->members_->parents > 0) {
        tern_fail_at(site, TERN_ERR_STATE, "module_free", "%s '%s' belongs to another module",
                     m->type, m->name_ ? m->name_ : "");
        return;
    }
    nn_module_destroy(m);
}
