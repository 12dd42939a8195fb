/* The dispatcher: one record, one fixed order. */
#include "core/autocast.h"
#include "core/backend.h"
#include "core/call.h"
#include "core/error.h"
#include "core/rules.h"
#include "core/stream.h"
#include "core/tape.h"
#include "core/transfers.h"

/* ---- inputs ----------------------------------------------------------------------------------- */

/* Elementwise rows take a 0-dim CPU tensor beside tensors of a device. */
static bool takes_host_scalars(const tern_op *op)
{
    return op->rule == rule_binary || op->rule == rule_binary_float || op->rule == rule_compare ||
           op->rule == rule_where || op->rule == rule_ternary || op->rule == rule_addcdiv;
}

/* Slow part of the device check: some input lies elsewhere than the first one. */
static bool settle_device(core_call *call)
{
    tern_dev_t dev = TERN_CPU;
    bool found = false;
    const bool scalars = takes_host_scalars(call->op);
    for (int i = 0; i < call->n_in; i++) {
        const tern_tensor *t = call->in[i];
        if (t != NULL && core_tensor_is_gone(t))
            return core_gone_input(call, i);
        if (t == NULL || (scalars && core_is_host_scalar(t)))
            continue;
        if (found && !tern_dev_equal(dev, t->view.dev)) {
            call->dev = dev;
            return core_mixed_devices(call);
        }
        dev = t->view.dev;
        found = true;
    }
    call->dev = dev;
    return true;
}

/* Rules ask whether inputs require a gradient: views are brought up to date first. */
static inline bool check_inputs(core_call *call)
{
    const bool grad_mode = call->self->grad_mode;
    uint32_t first = 0, differ = 0; /* devices as words: no device is 0 */
    for (int i = 0; i < call->n_in; i++) {
        tern_tensor *t = call->in[i];
        if (__builtin_expect(t == NULL, 0)) {
            if (call->op->optional & B(i))
                continue;
            return core_missing_input(call, i);
        }
        if (grad_mode && !core_tape_refresh(call->self, call->site, t))
            return false;
        const uint32_t dev = core_dev_word(t->view.dev);
        first = first != 0 ? first : dev;
        differ |= dev ^ first;
    }
    if (first != 0)
        memcpy(&call->dev, &first, sizeof call->dev);
    const bool alike = differ == 0 && first != core_dev_word(CORE_DEV_GONE);
    return __builtin_expect(alike, 1) || settle_device(call);
}

bool core_check_inputs(core_call *call)
{
    return check_inputs(call);
}

static bool run_indirect(core_call *call);

/* ---- kernel ----------------------------------------------------------------------------------- */

static inline bool fits_layout(const tern_view *view, uint8_t layout)
{
    return layout == LAYOUT_STRIDED || (view->flags & TERN_VIEW_CONTIGUOUS) ||
           (layout == LAYOUT_IMAGE && core_view_channels_last(view));
}

/* core_copied where t lies, row-major, without history. */
static tern_tensor *copied(core_call *call, tern_tensor *t, tern_dtype_t dtype, int ndim,
                           const int64_t *dims)
{
    const bool grad_mode = call->self->grad_mode;
    call->self->grad_mode = false;
    tern_tensor *out = core_copied(call->self, call->site, call->op->name, t, t->view.dev, dtype,
                                   ndim, dims, NULL);
    call->self->grad_mode = grad_mode;
    return out;
}

static __attribute__((noinline, cold)) bool unsupported(core_call *call)
{
    char name[TERN_DEV_NAME_BYTES];
    const tern_tensor *t = call->n_in > 0 ? call->in[0] : call->n_out > 0 ? call->out[0] : NULL;
    return core_fail(call, TERN_ERR_UNSUPPORTED, "run it on the CPU: tern_cpu(x)",
                     "%s has no kernel for this op%s%s", tern_dev_name(call->dev, name),
                     t != NULL ? " in " : "",
                     t != NULL ? tern_dtype_name((tern_dtype_t)t->view.dtype) : "");
}

static __attribute__((noinline, cold)) bool kernel_failed(core_call *call, tern_status_t code)
{
    tern_thread *self = call->self;
    if (self->message_code == TERN_OK && code == TERN_ERR_UNSUPPORTED)
        return unsupported(call);
    if (self->message_code == TERN_OK)
        return core_fail(call, code, NULL, "the kernel failed");
    const tern_status_t of_words = (tern_status_t)self->message_code;
    self->message_code = TERN_OK;
    return core_fail(call, of_words, NULL, "%s", self->message);
}

/* A rule of a user's own may have forgotten its error, or what the kernel writes. */
static __attribute__((noinline, cold)) bool rule_did_all(core_call *call)
{
    if (call->self->error_code != TERN_OK)
        return false;
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i] == NULL)
            return core_fail(call, TERN_ERR_ARGUMENT, "tern_rule_output",
                             "the op's rule made no output %d", i);
    return true;
}

static inline tern_kernel find_kernel(core_call *call)
{
    const int kind = call->dev.kind;
    if (__builtin_expect(call->op->id_ == 0, 0))
        return rule_did_all(call) ? call->op->kernels[kind] : NULL;
    return core_kernels[kind] != NULL ? core_kernels[kind][call->op->id_] : NULL;
}

static bool move_bytes(core_call *call, const tern_tensor *out, const tern_tensor *in)
{
    const tern_attr_copy *attr = call->attr;
    const int64_t bytes = core_view_bytes(&in->view);
    bool waited = false;
    const tern_status_t code =
        core_copy_across(call->site, out, in, attr != NULL && attr->non_blocking, &waited);
    if (code == TERN_OK && bytes > 0)
        core_transfer_note(call->site, out->view.dev, in->view.dev, bytes, waited);
    return code == TERN_OK || kernel_failed(call, code);
}

/* Into a destination of other strides or dtype: over a dense tensor on its device. */
static bool land_across(core_call *call, tern_tensor *out, tern_tensor *dense)
{
    tern_tensor *landed =
        core_tensor_new(call->self, call->site, out->view.dev, (tern_dtype_t)dense->view.dtype,
                        out->view.ndim, out->view.shape);
    if (landed == NULL)
        return false;
    bool ok = move_bytes(call, landed, dense);
    if (ok) {
        core_call copy = *call;
        copy.dev = out->view.dev;
        copy.in[0] = landed;
        ok = run_indirect(&copy);
    }
    core_release(call->self, landed);
    return ok;
}

/* T023: on the CPU when the host waits anyway, on the device when it does not, between devices at the
 * source. */
static bool converts_at_source(const core_call *call)
{
    const bool to_cpu = call->out[0]->view.dev.kind == TERN_KIND_CPU;
    const bool from_cpu = call->in[0]->view.dev.kind == TERN_KIND_CPU;
    const tern_attr_copy *attr = call->attr;
    const bool on_cpu = attr == NULL || !attr->non_blocking;
    return from_cpu == to_cpu || on_cpu == from_cpu;
}

/* copy between devices: packing happens at the source, spreading at the target. */
static bool copy_across(core_call *call)
{
    tern_tensor *out = call->out[0], *in = call->in[0];
    if (core_view_same_bytes(&out->view, &in->view)) /* T024 */
        return move_bytes(call, out, in);
    const uint8_t dtype = converts_at_source(call) ? out->view.dtype : in->view.dtype;
    const bool ready = in->view.dtype == dtype && (in->view.flags & TERN_VIEW_CONTIGUOUS) &&
                       core_view_same_shape(&in->view, &out->view);
    tern_tensor *dense =
        ready ? core_retain(in)
              : copied(call, in, (tern_dtype_t)dtype, out->view.ndim, out->view.shape);
    if (dense == NULL)
        return false;
    const bool fits = out->view.dtype == dtype && (out->view.flags & TERN_VIEW_CONTIGUOUS);
    const bool ok = fits ? move_bytes(call, out, dense) : land_across(call, out, dense);
    core_release(call->self, dense);
    return ok;
}

/* Scratch is a list through base: what the kernel added goes. */
static __attribute__((noinline)) void drop_scratch(tern_thread *self, const tern_tensor *outer)
{
    while (self->scratch != outer) {
        tern_tensor *t = self->scratch;
        self->scratch = t->base;
        t->base = NULL;
        core_release(self, t);
    }
}

/* Runs a record whose operands are set, on the current stream of its device. */
static inline tern_status_t start(tern_thread *self, tern_kernel kernel, tern_call *record,
                                  tern_dev_t dev)
{
    record->size = sizeof *record;
    record->stream = NULL;
    record->host = &core_host;
    record->backend = NULL;
    record->dev = dev;
    record->threads = core_threads();
    if (__builtin_expect(dev.kind != TERN_KIND_CPU, 0)) {
        record->stream = core_stream_on(self, dev);
        record->backend = core_backend_of(dev.kind)->context;
    }
    const tern_tensor *outer = self->scratch;
    const tern_status_t code = kernel(record);
    if (__builtin_expect(self->scratch != outer, 0))
        drop_scratch(self, outer);
    return code;
}

static inline bool launch(core_call *call, tern_kernel kernel, const tern_view *const *in)
{
    tern_call record;
    record.n_in = call->n_in;
    record.n_out = call->n_out;
    record.in = in;
    record.out = call->out_views;
    record.attr = call->attr;
    const tern_status_t code = start(call->self, kernel, &record, call->dev);
    return __builtin_expect(code == TERN_OK, 1) || kernel_failed(call, code);
}

/* Kernels that want dense inputs get copies of those that are not. */
static bool launch_packed(core_call *call, tern_kernel kernel)
{
    const tern_view *views[CORE_MAX_INPUTS];
    tern_tensor *copies[CORE_MAX_INPUTS];
    bool ok = true;
    int n = 0;
    for (; n < call->n_in && ok; n++) {
        tern_tensor *t = call->in[n];
        copies[n] = NULL;
        views[n] = t == NULL ? NULL : &t->view;
        if (t == NULL || fits_layout(&t->view, call->op->layout))
            continue;
        copies[n] = copied(call, t, (tern_dtype_t)t->view.dtype, t->view.ndim, t->view.shape);
        ok = copies[n] != NULL;
        if (ok)
            views[n] = &copies[n]->view;
    }
    ok = ok && launch(call, kernel, views);
    for (int i = 0; i < n; i++)
        if (copies[i] != NULL)
            core_release(call->self, copies[i]);
    return ok;
}

static inline bool fits(const core_call *call)
{
    const uint8_t layout = call->op->layout;
    for (int i = 0; layout != LAYOUT_STRIDED && i < call->n_in; i++)
        if (call->in[i] != NULL && !fits_layout(&call->in[i]->view, layout))
            return false;
    return true;
}

static inline bool crosses(const core_call *call)
{
    return call->op->id_ == TERN_OP_copy && !tern_dev_equal(call->dev, call->out[0]->view.dev);
}

/* All that is not one kernel on the inputs as they are. */
static __attribute__((noinline)) bool run_indirect(core_call *call)
{
    if (crosses(call))
        return copy_across(call);
    const tern_kernel kernel = find_kernel(call);
    return kernel != NULL ? launch_packed(call, kernel) : unsupported(call);
}

__attribute__((always_inline)) static inline bool run_kernel(core_call *call)
{
    const tern_kernel kernel = find_kernel(call);
    if (__builtin_expect(kernel == NULL || crosses(call) || !fits(call), 0))
        return run_indirect(call);
    return launch(call, kernel, call->in_views);
}

/* ---- after the kernel -------------------------------------------------------------------------- */

static void bump(core_storage *storage)
{
    const uint32_t version = atomic_load_explicit(&storage->version, memory_order_relaxed);
    atomic_store_explicit(&storage->version, version + 1, memory_order_relaxed);
}

/* Evaluation reads the running statistics that training writes. */
static bool writes_inputs(const core_call *call)
{
    return call->op->mutates != 0 &&
           (call->op->id_ != TERN_OP_batch_norm || ((const tern_attr_norm *)call->attr)->training);
}

static void bump_versions(core_call *call)
{
    const uint32_t written = writes_inputs(call) ? call->op->mutates : 0;
    if (call->preset)
        for (int i = 0; i < call->n_out; i++)
            bump(call->out[i]->storage);
    for (int i = 0; i < call->n_in; i++)
        if ((written & B(i)) && call->in[i] != NULL)
            bump(call->in[i]->storage);
}

static bool fail_and_release(core_call *call)
{
    if (!call->preset)
        for (int i = 0; i < call->n_out; i++)
            if (call->out[i] != NULL) {
                core_release(call->self, call->out[i]);
                call->out[i] = NULL;
            }
    core_release_owned(call);
    return false;
}

/* What writes memory that others see is recorded in two halves around its kernel: without memory for
 * the node the call fails while nothing has changed. */
static bool before_write(core_call *call, core_tape_write *write)
{
    *write = (core_tape_write){ 0 };
    if (!call->self->grad_mode)
        return true;
    if (call->op->id_ == 0 && !rule_did_all(call))
        return false;
    return (!call->preset || core_tape_check_inplace(call)) && core_tape_write_begin(call, write);
}

static bool after_write(core_call *call, core_tape_write *write, bool done)
{
    if (done)
        bump_versions(call);
    if (write->node != NULL || write->written != NULL)
        core_tape_write_end(call, write, done);
    return done;
}

/* Of a dtype that is not in the row's: is it one that the CPU alone takes, on the CPU? */
static __attribute__((noinline, cold)) bool takes_here(core_call *call, tern_dtype_t dtype)
{
    const tern_op *op = call->op;
    const bool on_cpu = call->dev.kind == TERN_KIND_CPU;
    if (op->dtypes_cpu & B(dtype))
        return on_cpu || unsupported(call);
    if (call->n_in > 0)
        return core_check_dtype(call, 0, op->dtypes | (on_cpu ? op->dtypes_cpu : 0));
    return core_fail(call, TERN_ERR_DTYPE, ".dtype = TERN_F32, and tern_cast of the result",
                     "does not make %s", tern_dtype_name(dtype));
}

/* Everything after the device check. */
__attribute__((always_inline)) static inline bool execute(core_call *call)
{
    const tern_op *op = call->op;
    if (!op->rule(call))
        return false;
    const tern_view *first = call->n_in > 0    ? &call->in[0]->view
                             : call->n_out > 0 ? &call->out[0]->view
                                               : NULL;
    if (first != NULL && __builtin_expect((op->dtypes & B(first->dtype)) == 0, 0) &&
        !takes_here(call, (tern_dtype_t)first->dtype))
        return false;
    core_tape_write write;
    const bool writes = call->preset || op->mutates != 0;
    if (writes && !before_write(call, &write))
        return false;
    const bool done = op->is_view || run_kernel(call);
    if (writes)
        return after_write(call, &write, done);
    return done && (!core_tape_wants(call) || core_tape_record(call));
}

/* TERN_ERR_UNSUPPORTED: there was no kernel, or it said so itself. */
static __attribute__((noinline, cold)) tern_tensor *ready_failed(tern_thread *self, tern_op_id id,
                                                                 const tern_call *record,
                                                                 tern_status_t code)
{
    core_call call;
    call.self = self;
    call.op = &core_op_table[id];
    call.site = self->site;
    call.dev = record->in[0]->dev;
    call.n_in = 2;
    call.n_out = 1;
    for (int i = 0; i < 2; i++)
        call.in_views[i] = record->in[i];
    call.out_views[0] = record->in[0];
    (void)kernel_failed(&call, code);
    return NULL;
}

tern_tensor *core_apply_ready(tern_thread *self, tern_op_id id, void *attr, tern_tensor *t,
                              tern_tensor *x)
{
    const tern_dev_t dev = t->view.dev;
    const tern_view *const in[] = { &t->view, &x->view };
    const tern_kernel *kernels = core_kernels[dev.kind];
    const tern_kernel kernel = kernels != NULL ? kernels[id] : NULL;
    tern_status_t code = TERN_ERR_UNSUPPORTED;
    tern_call record;
    record.n_in = 2;
    record.n_out = 1;
    record.in = in;
    record.out = in;
    record.attr = attr;
    if (__builtin_expect(kernel != NULL, 1))
        code = start(self, kernel, &record, dev);
    return __builtin_expect(code == TERN_OK, 1) ? t : ready_failed(self, id, &record, code);
}

/* The order of core/call.h. always_inline: one frame for a call of nearly all. */
__attribute__((always_inline)) static inline bool dispatch(core_call *call)
{
    tern_thread *self = call->self;
    if (!call->preset)
        for (int i = 0; i < CORE_MAX_OUTPUTS; i++) /* all: a wide store, no loop */
            call->out[i] = NULL;
    if (__builtin_expect(self->error_code != TERN_OK, 0)) {
        core_release_owned(call);
        return false;
    }
    call->site = core_site(self, call->site);
    if (!check_inputs(call) || (core_autocast_wants(call) && !core_autocast_inputs(call)) ||
        !execute(call))
        return fail_and_release(call);
    core_release_owned(call);
    return true;
}

bool core_dispatch(core_call *call)
{
    return dispatch(call);
}

/* ---- the ways in that nearly all calls take ---------------------------------------------------- */

/* Output 0 goes to the scope, others are let go. */
static __attribute__((noinline)) tern_tensor *finish(core_call *call)
{
    if (__builtin_expect(!dispatch(call), 0))
        return NULL;
    for (int i = 1; i < call->n_out; i++)
        core_release(call->self, call->out[i]);
    return core_scope_add(call->self, call->out[0]);
}

tern_tensor *core_op1(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a)
{
    core_call call;
    core_fill(&call, core_self(), id, site, attr);
    call.n_in = 1;
    call.in[0] = a;
    return finish(&call);
}

tern_tensor *core_op2(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a, tern_tensor *b)
{
    core_call call;
    core_fill(&call, core_self(), id, site, attr);
    call.n_in = 2;
    call.in[0] = a;
    call.in[1] = b;
    return finish(&call);
}

tern_tensor *core_op3(tern_op_id id, tern_site_t site, void *attr, tern_tensor *a, tern_tensor *b,
                      tern_tensor *c)
{
    core_call call;
    core_fill(&call, core_self(), id, site, attr);
    call.n_in = 3;
    call.in[0] = a;
    call.in[1] = b;
    call.in[2] = c;
    return finish(&call);
}
