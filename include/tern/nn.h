/* Modules and layers.
 *
 * A module has named parameters, buffers and child modules, and a forward function. One's own is a
 * struct whose first member is `tern_module base`:
 *
 *   typedef struct { tern_module base; tern_module *up, *down; } mlp;
 *   static tern_tensor *mlp_forward(tern_module *self, tern_tensor *x)
 *   {
 *       mlp *m = (mlp *)self;
 *       return tern_forward(m->down, tern_relu(tern_forward(m->up, x)));
 *   }
 *   static tern_module *make_mlp(int64_t d)
 *   {
 *       mlp *m = TERN_MODULE(mlp, mlp_forward);
 *       TERN_CHILD(m, up, tern_linear_layer(d, 4 * d));      names "up.weight", "up.bias"
 *       TERN_CHILD(m, down, tern_linear_layer(4 * d, d));
 *       return m ? &m->base : NULL;
 *   }
 *
 * A tensor that forward stores in the struct is released when tern_forward returns (see there); what else is
 * to come out goes through tern_args.
 *
 * Ownership: a module owns its parameters, buffers and children; what has no parent lives until
 * tern_module_free or tern_finish. A tensor or child that is added in two places is shared: counted,
 * moved and stepped once, under its first name. A module belongs to one thread at a time. */
#ifndef TERN_NN_H
#define TERN_NN_H

#include "tern/autograd.h"
#include "tern/base.h"
#include "tern/data.h"
#include "tern/io.h"
#include "tern/ops.h"
#include "tern/optim.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tern_module tern_module;

enum { TERN_ARGS_MAX = 8 };
/* Inputs and results of a forward of the general form: masks, states, several results. What an input
 * means, and whether it may be NULL, is the module's to say. */
typedef struct tern_args {
    size_t size_;
    tern_tensor *in[TERN_ARGS_MAX];
    tern_tensor *out[TERN_ARGS_MAX]; /* filled by forward; out[0] is what tern_forward returns */
    void *user;                      /* whatever caller and module agree on */
} tern_args;
#ifndef __cplusplus
#define TERN_ARGS(...) ((tern_args){ .size_ = sizeof(tern_args), .in = { __VA_ARGS__ } })
#else
#define TERN_ARGS(...) TERN_MADE_(tern_args, { __VA_ARGS__ })
#endif

/* One tensor in, one out; NULL after a failure. */
typedef tern_tensor *(*tern_forward_fn)(tern_module *self, tern_tensor *x);
/* The general form. */
typedef void (*tern_forward_args_fn)(tern_module *self, tern_args *args);

struct tern_module {
    bool training; /* read it; tern_train and tern_eval set it */
    const char *type;
    tern_forward_fn forward; /* one of the two is set */
    tern_forward_args_fn forward_args;
    /* Writes the options that tern_module_describe shows ("in=4, out=16"); NULL: none. */
    void (*describe)(const tern_module *self, char *buffer, size_t bytes);
    /* Frees what the module's struct holds besides parameters, buffers and children; NULL: nothing. */
    void (*release)(tern_module *self);
    const char *name_; /* under its first parent */
    struct tern_module_members *members_;
};

/* ---- making ----------------------------------------------------------------------------------- */

/* Zeroed memory of `bytes`, begun by a tern_module in training mode. NULL without memory. */
TERN_API tern_module *tern_module_create_at(tern_site_t site, size_t bytes, const char *type,
                                            tern_forward_fn forward);
TERN_API tern_module *tern_module_create_args_at(tern_site_t site, size_t bytes, const char *type,
                                                 tern_forward_args_fn forward);
/* A new `type *`; `type` begins with `tern_module base`; forward is of either form. The members of
 * the TERN_CHILD kind do nothing with a module that is NULL. */
#ifndef __cplusplus
#define TERN_MODULE(type, forward)                                  \
    ((type *)_Generic((forward), tern_forward_fn                    \
                      : tern_module_create_at, tern_forward_args_fn \
                      : tern_module_create_args_at)(TERN_HERE, sizeof(type), #type, forward))
#else
#define TERN_MODULE(type, forward) \
    ((type *)tern_module_create_of_(TERN_HERE, sizeof(type), #type, forward))
extern "C++" {
static inline tern_module *tern_module_create_of_(tern_site_t site, size_t bytes, const char *type,
                                                  tern_forward_fn forward)
{
    return tern_module_create_at(site, bytes, type, forward);
}
static inline tern_module *tern_module_create_of_(tern_site_t site, size_t bytes, const char *type,
                                                  tern_forward_args_fn forward)
{
    return tern_module_create_args_at(site, bytes, type, forward);
}
}
#endif

/* Each returns what was added, NULL after a failure. Names may contain dots; two tensors of a tree that
 * come to the same full name that way are an error of what asks for names (tern_parameters, states).
 *
 * A name that is taken is given the new value: a tensor that it had goes unless something else holds it, a
 * child is without a parent again. Layers of this library use the new one from then on: a weight that two
 * of them share, a bias that is NULL and left out. A module of one's own that keeps what it added in its
 * struct has to set it there as well, as TERN_CHILD and its like do. An optimizer keeps the tensors that it
 * was made with. */
TERN_API tern_module *tern_module_add_child_at(tern_site_t site, tern_module *m, const char *name,
                                               tern_module *child);
/* t: a leaf of a float dtype, which then requires a gradient, or NULL: a parameter left out. */
TERN_API tern_tensor *tern_module_add_parameter_at(tern_site_t site, tern_module *m,
                                                   const char *name, tern_tensor *t);
/* A tensor that belongs to the state and moves with the module, but is not trained. */
TERN_API tern_tensor *tern_module_add_buffer_at(tern_site_t site, tern_module *m, const char *name,
                                                tern_tensor *t);
#define tern_module_add_child(m, name, child) tern_module_add_child_at(TERN_HERE, m, name, child)
#define tern_module_add_parameter(m, name, t) tern_module_add_parameter_at(TERN_HERE, m, name, t)
#define tern_module_add_buffer(m, name, t) tern_module_add_buffer_at(TERN_HERE, m, name, t)
/* m->field = what was added under the field's name. */
#define TERN_MEMBER_(m, field, kind, value)                                                \
    ((m) ? (void)((m)->field =                                                             \
                      tern_module_add_##kind##_at(TERN_HERE, &(m)->base, #field, (value))) \
         : (void)0)
#define TERN_CHILD(m, field, module) TERN_MEMBER_(m, field, child, module)
#define TERN_PARAM(m, field, tensor) TERN_MEMBER_(m, field, parameter, tensor)
#define TERN_BUFFER(m, field, tensor) TERN_MEMBER_(m, field, buffer, tensor)

/* Frees a module, and of its children those that no other module has. A module that has a parent
 * is the parent's to free: an error. NULL is fine. */
TERN_API void tern_module_free_at(tern_site_t site, tern_module *m);
#define tern_module_free(m) tern_module_free_at(TERN_HERE, m)

/* ---- running ---------------------------------------------------------------------------------- */

/* Runs a module in a scope of its own: the result goes to the enclosing scope, the rest is released
 * but for what the tape saved. Errors inside name the module's path. */
TERN_API tern_tensor *tern_forward_at(tern_site_t site, tern_module *m, tern_tensor *x);
/* The same with any number of inputs and results; returns args->out[0]. A module of the simple form
 * takes in[0] and gives out[0]. */
TERN_API tern_tensor *tern_forward_args_at(tern_site_t site, tern_module *m, tern_args *args);
#define tern_forward(m, x) tern_forward_at(TERN_HERE, m, x)
#define tern_forward_args(m, args) tern_forward_args_at(TERN_HERE, m, args)

/* Sets `training` of a module and all below it: dropout and batch norm heed it. */
TERN_API void tern_train(tern_module *m);
TERN_API void tern_eval(tern_module *m);

/* Moves parameters, buffers and gradients, in place: tensors stay the same objects, so an optimizer
 * made before keeps its parameters (its state does not move: tern_optimizer_move). A dtype (floats
 * only) applies to floats, a format to tensors of four dimensions. All is copied before anything is
 * changed. */
TERN_API tern_status_t tern_module_to_at(tern_site_t site, tern_module *m,
                                         const tern_to_args *args);
#define tern_module_to(m, ...) \
    tern_module_to_at(TERN_HERE, m, TERN_OPTIONS_(tern_to_args, __VA_ARGS__))

/* ---- looking ---------------------------------------------------------------------------------- */

/* Parameters (buffers) of a module and all below it, with names, each tensor once; borrowed until
 * the module or one below it is given another member. Empty after a failure. */
TERN_API tern_tensors_t tern_parameters_at(tern_site_t site, tern_module *m);
TERN_API tern_tensors_t tern_buffers_at(tern_site_t site, tern_module *m);
#define tern_parameters(m) tern_parameters_at(TERN_HERE, m)
#define tern_buffers(m) tern_buffers_at(TERN_HERE, m)
/* Parameter or buffer of a name ("up.weight"), or module of a path ("blocks.2"); borrowed; NULL,
 * without an error, when there is none. */
TERN_API tern_tensor *tern_module_tensor(tern_module *m, const char *name);
TERN_API tern_module *tern_module_find(tern_module *m, const char *path);
TERN_API int64_t tern_module_child_count(const tern_module *m);
TERN_API tern_module *tern_module_child(const tern_module *m, int64_t place);
TERN_API const char *tern_module_child_name(const tern_module *m, int64_t place);
/* Elements of all parameters. */
TERN_API int64_t tern_module_count(tern_module *m);
/* The tree of modules with their options and the number of parameters; cut to `bytes`. */
TERN_API const char *tern_module_describe(tern_module *m, char *buffer, size_t bytes);

/* Calls fn for every module, children first; a shared one as often as it is there. */
TERN_API void tern_module_apply(tern_module *m, void (*fn)(tern_module *m, void *user), void *user);
/* Parameters lose their gradients. */
TERN_API tern_status_t tern_module_zero_grad_at(tern_site_t site, tern_module *m);
TERN_API tern_status_t tern_module_requires_grad_at(tern_site_t site, tern_module *m, bool on);
#define tern_module_zero_grad(m) tern_module_zero_grad_at(TERN_HERE, m)
#define tern_module_requires_grad(m, on) tern_module_requires_grad_at(TERN_HERE, m, on)

/* ---- state ------------------------------------------------------------------------------------ */

/* Puts parameters and buffers into a state as "<prefix>.<name>" ("<name>" without a prefix). The state shares them,
 * so later steps show in it: save it, or clone it (tern_state_clone), to keep what they are now. */
TERN_API tern_status_t tern_module_store_at(tern_site_t site, tern_module *m, tern_state *state,
                                            const char *prefix);
#define tern_module_store(m, state, prefix) tern_module_store_at(TERN_HERE, m, state, prefix)

typedef struct tern_restore_args {
    size_t size_;
    const char *from; /* restore: the prefix of the names, or NULL; load: the file's path */
    bool partial;     /* names that are missing, or that the module does not have, are no error */
    bool check_only;  /* everything is checked, nothing written */
    /* What was missing and what was not asked for; valid until the module's next restore. */
    tern_names_t *out_missing, *out_unexpected;
    bool end_; /* written by the macro: options may be absent */
} tern_restore_args;
/* Copies the values of a state into the parameters and buffers, which keep device and dtype. Names
 * and shapes must agree, dtypes in kind (float, integer, bool); all is checked, and brought to its
 * device, before the first write. As in PyTorch a buffer num_batches_tracked may be missing. A shared
 * tensor needs one of its names; each that is there has to fit, and of several the last is taken. */
TERN_API tern_status_t tern_module_restore_at(tern_site_t site, tern_module *m,
                                              const tern_state *state,
                                              const tern_restore_args *args);
/* A state of the module alone, to a file and back. */
TERN_API tern_status_t tern_module_save_at(tern_site_t site, tern_module *m, const char *path);
TERN_API tern_status_t tern_module_load_at(tern_site_t site, tern_module *m,
                                           const tern_restore_args *args);
/* tern_module_restore(net, state), tern_module_restore(net, state, "model"),
 * tern_module_load(net, "net.safetensors", .partial = true) */
#define tern_module_restore(m, ...) tern_module_restore_(m, __VA_ARGS__, .end_ = true)
#define tern_module_restore_(m, state, ...) \
    tern_module_restore_at(TERN_HERE, m, state, TERN_OPTIONS_(tern_restore_args, __VA_ARGS__))
#define tern_module_save(m, path) tern_module_save_at(TERN_HERE, m, path)
#define tern_module_load(m, ...) \
    tern_module_load_at(TERN_HERE, m, TERN_OPTIONS_(tern_restore_args, __VA_ARGS__))

/* ---- measuring -------------------------------------------------------------------------------- */

typedef struct tern_accuracy_args {
    size_t size_;
    tern_module *module;   /* required: x [N, ...] -> scores [N, classes] */
    tern_dataset *dataset; /* required: y class numbers [N] */
    int64_t batch;         /* default 256 */
    tern_dev_t device;     /* default: the first parameter's */
    int workers;           /* of the loader */
} tern_accuracy_args;
/* Share of samples whose largest score is at their class, in evaluation mode and without a record;
 * the module's mode is put back. Counts on the device and reads once. NaN after a failure. */
TERN_API double tern_accuracy_at(tern_site_t site, const tern_accuracy_args *args);
#define tern_accuracy(...) \
    tern_accuracy_at(TERN_HERE, TERN_OPTIONS_(tern_accuracy_args, __VA_ARGS__))

/* ---- initialisers -----------------------------------------------------------------------------
 * They overwrite a tensor, without a record, and return it. */

/* Factor for the deviation of weights before an activation (torch.nn.init.calculate_gain). */
enum {
    TERN_GAIN_LINEAR = 1,
    TERN_GAIN_SIGMOID,
    TERN_GAIN_TANH,
    TERN_GAIN_RELU,
    TERN_GAIN_LEAKY_RELU,
    TERN_GAIN_SELU
};
/* slope: leaky relu's. NaN for a number that names none of them. */
TERN_API double tern_init_gain(int activation, double slope);

typedef struct tern_init_args {
    size_t size_;
    tern_tensor *t;
    double gain;  /* default 1 (kaiming: square root of 2); finite and not negative */
    bool fan_out; /* kaiming: deviations by what goes out, not in */
    tern_generator *generator;
} tern_init_args;
/* fan_in = size(1) * the rest, fan_out = size(0) * the rest; two dimensions at least.
 * kaiming: deviation gain / sqrt(fan); xavier: gain * sqrt(2 / (fan_in + fan_out)). Uniform forms
 * draw from [-d, d) with d = sqrt(3) * deviation. Errors: a `low` above `high`, a range that the dtype
 * does not hold, a negative or NaN deviation. */
TERN_API tern_tensor *tern_init_kaiming_uniform_at(tern_site_t site, const tern_init_args *args);
TERN_API tern_tensor *tern_init_kaiming_normal_at(tern_site_t site, const tern_init_args *args);
TERN_API tern_tensor *tern_init_xavier_uniform_at(tern_site_t site, const tern_init_args *args);
TERN_API tern_tensor *tern_init_xavier_normal_at(tern_site_t site, const tern_init_args *args);
TERN_API tern_tensor *tern_init_uniform_at(tern_site_t site, tern_tensor *t, double low,
                                           double high, tern_generator *generator);
TERN_API tern_tensor *tern_init_normal_at(tern_site_t site, tern_tensor *t, double mean,
                                          double deviation, tern_generator *generator);
TERN_API tern_tensor *tern_init_constant_at(tern_site_t site, tern_tensor *t, double value);
#define tern_init_kaiming_uniform(...) \
    tern_init_kaiming_uniform_at(TERN_HERE, TERN_OPTIONS_(tern_init_args, __VA_ARGS__))
#define tern_init_kaiming_normal(...) \
    tern_init_kaiming_normal_at(TERN_HERE, TERN_OPTIONS_(tern_init_args, __VA_ARGS__))
#define tern_init_xavier_uniform(...) \
    tern_init_xavier_uniform_at(TERN_HERE, TERN_OPTIONS_(tern_init_args, __VA_ARGS__))
#define tern_init_xavier_normal(...) \
    tern_init_xavier_normal_at(TERN_HERE, TERN_OPTIONS_(tern_init_args, __VA_ARGS__))
#define tern_init_uniform(t, low, high) tern_init_uniform_at(TERN_HERE, t, low, high, NULL)
#define tern_init_normal(t, mean, deviation) \
    tern_init_normal_at(TERN_HERE, t, mean, deviation, NULL)
#define tern_init_constant(t, value) tern_init_constant_at(TERN_HERE, t, value)

#ifdef __cplusplus
}
#endif

#include "tern/layers.h"
#endif
