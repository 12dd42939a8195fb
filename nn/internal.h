/* What the files of nn/ share: frames of public calls, members of modules, making parameters. */
#ifndef TERN_NN_INTERNAL_H
#define TERN_NN_INTERNAL_H

#include <string.h>

#include "tern/autograd.h"
#include "tern/error.h"
#include "tern/nn.h"

/* ---- frames: site, scope and owned mode of a public call -------------------------------------- */

typedef struct nn_frame {
    tern_site_t site;
    tern_scope scope;
    bool owned;          /* a binding's thread: results go to the caller without a scope */
    const char *calling; /* of a layer's constructor: what errors named before */
} nn_frame;

static inline nn_frame nn_enter(tern_site_t site)
{
    nn_frame frame;
    frame.site = tern_site_begin(site);
    frame.owned = tern_set_owned_mode(false);
    frame.scope = tern_scope_begin();
    frame.calling = NULL;
    return frame;
}

static inline void nn_leave(nn_frame *frame)
{
    tern_scope_end(&frame->scope);
    if (frame->owned)
        tern_set_owned_mode(true);
    tern_site_end(frame->site);
}

/* Leaves, and hands t to whoever called: to the enclosing scope, or with a reference of its own. A t
 * that was not made inside the frame stays where it is. */
static inline tern_tensor *nn_leave_with(nn_frame *frame, tern_tensor *t)
{
    if (frame->owned)
        tern_retain(t);
    else
        tern_keep(t);
    nn_leave(frame);
    return t;
}

/* Copies an option struct of a caller, who may have an older and shorter one, over zeros; NULL leaves
 * them. False, with an error, for one without its size. */
bool nn_take_args(tern_site_t site, const char *what, void *out, const void *args, size_t bytes);
#define NN_ARGS(site, what, type, local, args) \
    type local = { 0 };                        \
    const bool local##_given = nn_take_args(site, what, &local, args, sizeof local)

/* An option whose default is not zero: 0 is "not given", TERN_ZERO and -0.0 a real zero. */
double nn_option(double given, double fallback);

/* calloc of at least one byte; NULL, with an error, without memory or after an overflow. */
void *nn_alloc(tern_site_t site, const char *what, int64_t count, size_t bytes);
/* A copy of a text; NULL, with an error, without memory. */
char *nn_copy_text(tern_site_t site, const char *what, const char *text);
enum { NN_PARAM_BYTES = 160 };
/* The parameter's name in quotes, or its place where the list has no names, for errors; returns `text`. */
const char *nn_param_text(tern_tensors_t params, int64_t i, char text[NN_PARAM_BYTES]);
/* False, with an error that names its parameter, where the gradient of params.tensors[i] cannot be written. */
bool nn_check_written_grad(tern_site_t site, const char *what, tern_tensors_t params, int64_t i);

bool nn_same_shape(const tern_tensor *a, const tern_tensor *b);

/* "f32 [10, 20] on cuda:0, made at train.c:12", for errors: without values, which would have to be read. */
const char *nn_summary(const tern_tensor *t, char *text, size_t bytes);
/* An error of a module's forward, with the operand that is not as it should be below. */
void nn_fail_operand(tern_status_t code, const char *what, const char *name, const tern_tensor *t,
                     const char *format, ...) TERN_PRINTF(5, 6);

/* ---- modules ---------------------------------------------------------------------------------- */

typedef struct nn_member {
    char *name;
    tern_tensor *tensor; /* NULL: left out */
    tern_tensor **field; /* where the module's struct has it as well; NULL: nowhere */
    bool buffer;
} nn_member;

typedef struct nn_child {
    char *name;
    tern_module *module;
    tern_module **field; /* where the parent's struct has it as well; NULL: nowhere */
} nn_child;

/* One named tensor of a tree of modules. A shared tensor has an entry per name; all but the first
 * are aliases. */
typedef struct nn_entry {
    const char *name;
    tern_tensor *tensor;
    bool buffer;
    int64_t alias_of; /* -1: not one */
} nn_entry;

/* The tree flattened, in the order of registration, own members before those of children. */
typedef struct nn_index {
    uint64_t revision; /* of the tree it was made from */
    int64_t count;
    nn_entry *entries;
    tern_tensors_t lists[2]; /* parameters, buffers: without aliases */
    void *memory[4];         /* entries, tensors, names, text */
} nn_index;

struct tern_module_members {
    nn_member *members;
    nn_child *children;
    int64_t member_count, child_count;
    uint64_t revision; /* drawn anew, never used twice, at every change of members or children */
    int64_t parents;
    nn_index index;
    char **report; /* names that the last restore reported, one block */
};

/* False, with an error, when m is NULL (unless one is pending that explains it). */
bool nn_module_check(tern_site_t site, const char *what, const tern_module *m);
/* The index, made again when the tree has changed; NULL on failure. `what` is the call that errors name. */
const nn_index *nn_module_index(tern_site_t site, const char *what, tern_module *m);
void nn_index_clear(nn_index *index);
/* Releases m and its tree without asking for parents; for constructors that fail. */
void nn_module_destroy(tern_module *m);

/* A child of m itself; NULL: there is none of that name. */
nn_child *nn_find_child(tern_module *m, const char *name);
/* *field is the member of that name, now and whenever another takes its place (NULL: left out, as one is
 * that m does not have yet). For fields of m's own struct, which forward reads. */
void nn_bind_tensor(tern_module *m, const char *name, tern_tensor **field);
/* Adds a child, and *field is the child of that name from then on; NULL, with an error, for no child. */
void nn_bind_child(tern_module *m, const char *name, tern_module *child, tern_module **field);

/* Children go back to the list of tern_finish: a program that made them may still hold them when a
 * constructor that took them fails. */
void nn_module_let_go(tern_module *m);

/* ---- layers ----------------------------------------------------------------------------------- */

typedef struct nn_origin {
    tern_dev_t device;
    tern_dtype_t dtype;
    tern_generator *generator;
} nn_origin;
/* Parameters of a layer, registered under `name`. The scope they are made in is the caller's. */
tern_tensor *nn_uniform_parameter(tern_module *m, const char *name, tern_shape_t shape,
                                  nn_origin origin, double bound);
tern_tensor *nn_constant_parameter(tern_module *m, const char *name, tern_shape_t shape,
                                   nn_origin origin, double value);
/* Members of layers that normalise channels, those that are wanted; fields are bound to all. */
typedef struct nn_statistics {
    tern_tensor **weight, **bias, **mean, **var;
    tern_tensor **batches; /* num_batches_tracked: i64, 0-dim; NULL: no field */
} nn_statistics;
void nn_add_statistics(tern_module *m, int64_t features, nn_origin origin, bool affine,
                       bool running, nn_statistics fields);
/* What begins a constructor: errors name `what` for what fails inside. */
nn_frame nn_layer_begin(tern_site_t site, const char *what);
/* What ends a constructor: m, or NULL after a failure, when m is freed. */
tern_module *nn_layer_done(nn_frame *frame, tern_module *m);
/* Appends to what a module says of itself, as far as there is room. */
void nn_describe_more(char *buffer, size_t bytes, const char *format, ...) TERN_PRINTF(3, 4);
/* False, with an error that names the option, unless value > 0. */
bool nn_require_positive(tern_site_t site, const char *what, const char *name, int64_t value);
/* An option, or what stands for it when it was not given. */
static inline int64_t nn_given(int64_t value, int64_t fallback)
{
    return value == 0 ? fallback : value == TERN_ZERO ? 0 : value;
}
/* The product of two extents; one that no tensor can have where 64 bits do not hold it. */
static inline int64_t nn_times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}
/* The same number as an option that is given. */
static inline int64_t nn_exact(int64_t value)
{
    return value == 0 ? TERN_ZERO : value;
}

/* The children from..to - 1 of a sequential (nn/sequential.c), one after the other. */
tern_tensor *nn_forward_range(tern_module *sequential, int64_t from, int64_t to, tern_tensor *x);
bool nn_is_sequential(const tern_module *m);

#endif
