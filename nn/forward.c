/* Running a module: a scope, a site and a step of the path around its forward function. */
#include "nn/internal.h"

static tern_tensor *call_general(tern_module *m, tern_tensor *x)
{
    tern_args args = { .size_ = sizeof args, .in = { x } };
    m->forward_args(m, &args);
    return args.out[0];
}

static bool check_input(tern_site_t site, const tern_module *m, const tern_tensor *x)
{
    if (tern_failed() || !nn_module_check(site, "forward", m))
        return false;
    if (!x && m->forward)
        tern_fail_at(site, TERN_ERR_ARGUMENT, "forward", "the input of %s is NULL", m->type);
    return x || !m->forward;
}

/* A forward that gives nothing has failed; when nothing says why, this does. And one that has failed
 * gives nothing, even if it went on with what it had. */
static tern_tensor *check_output(const tern_module *m, tern_tensor *y)
{
    if (!y)
        tern_fail(TERN_ERR_STATE, "forward", "the forward function of %s returned NULL", m->type);
    return tern_failed() ? NULL : y;
}

static void push_path(const tern_module *m)
{
    if (m->name_)
        tern_path_push(m->name_);
}

static void pop_path(const tern_module *m)
{
    if (m->name_)
        tern_path_pop();
}

tern_tensor *tern_forward_at(tern_site_t site, tern_module *m, tern_tensor *x)
{
    if (!check_input(site, m, x))
        return NULL;
    nn_frame frame = nn_enter(site);
    push_path(m);
    tern_tensor *y = m->forward ? m->forward(m, x) : call_general(m, x);
    y = check_output(m, y);
    pop_path(m);
    return nn_leave_with(&frame, y);
}

/* Results move out of the frame one by one; two that are the same tensor move once. */
static void keep_results(const nn_frame *frame, tern_args *args)
{
    for (int i = 0; i < TERN_ARGS_MAX; i++) {
        bool seen = false;
        for (int j = 0; j < i; j++)
            seen |= args->out[j] == args->out[i];
        if (frame->owned)
            tern_retain(args->out[i]);
        else if (!seen)
            tern_keep(args->out[i]);
    }
}

tern_tensor *tern_forward_args_at(tern_site_t site, tern_module *m, tern_args *args)
{
    if (tern_failed() || !nn_module_check(site, "forward", m))
        return NULL;
    if (!args || args->size_ < sizeof *args) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, "forward", "args are %s\n  try TERN_ARGS(x, mask)",
                     args ? "without their size_" : "NULL");
        return NULL;
    }
    if (!check_input(site, m, args->in[0]))
        return NULL;
    memset(args->out, 0, sizeof args->out); /* of a call before */
    nn_frame frame = nn_enter(site);
    push_path(m);
    if (m->forward)
        args->out[0] = m->forward(m, args->in[0]);
    else
        m->forward_args(m, args);
    if (!check_output(m, args->out[0]))
        memset(args->out, 0, sizeof args->out);
    pop_path(m);
    keep_results(&frame, args);
    nn_leave(&frame);
    return args->out[0];
}
