/* No public function crashes when it is handed NULL, whatever pointer it is: each call of
 * null_arguments.def is made once as it stands and once with each of its pointers NULL, in a child that
 * dies in place of this program. tools/check_headers.py says which function has no call there. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tern/rnn.h"
#include "tests/support/check.h"

/* ---- which pointer is gone ----------------------------------------------------------------------- */

static int gone,
    passed; /* the place of the pointer that is NULL, in the order of evaluation; -1: none */
static bool needed; /* may that one not be NULL? */

static bool is_gone(bool need)
{
    if (passed++ != gone)
        return false;
    needed = need;
    return true;
}

/* A pointer that is needed, and one that need not be there: NULL for it is an error, is none. */
#define N(...) (is_gone(true) ? NULL : (__VA_ARGS__))
#define O(...) (is_gone(false) ? NULL : (__VA_ARGS__))

/* ---- what calls are made with -------------------------------------------------------------------- */

#define SITE "null_arguments.def"
#define T(...) tern_ones(TERN_SHAPE(__VA_ARGS__))
#define I(...) tern_zeros(TERN_SHAPE(__VA_ARGS__), .dtype = TERN_I64)
#define M(...) tern_ones(TERN_SHAPE(__VA_ARGS__), .dtype = TERN_BOOL)
#define ONE tern_operand_int(1)
#define ROOM 8
#define OPT(...) TERN_OPTIONS_(__VA_ARGS__)
#define NULL_OF(type) ((type *)NULL)
#define LIST ((tern_tensor *[]){ leaf() })
#define INDICES ((tern_tensor *[]){ I(2) })
#define MODULES ((tern_module *[]){ tern_relu_layer() })
#define TENSORS tern_parameters(made.module)
#define MORE_TENSORS tern_parameters(made.parent)
/* a file without tensors */
#define FILE_TEXT "\2\0\0\0\0\0\0\0{}"

static struct {
    tern_generator *generator;
    tern_module *module, *parent, *sequential;
    tern_optimizer *optimizer;
    tern_schedule *schedule, *plateau;
    tern_ema *ema;
    tern_grad_scaler *grad_scaler;
    tern_state *state, *weights;
    tern_safetensors *safetensors;
    tern_dataset *dataset, *images;
    tern_loader *loader;
    tern_text *letters;
    tern_memory_pool *memory_pool;
    tern_event *event;
    tern_growth *growth;
    tern_tensor *leaf, *root, *out[8], *in[7];
    char text[256];
    int64_t sizes[2], count;
    uint64_t bits;
    uint32_t words[4];
    double number;
    bool flag;
    tern_dev_t dev;
    tern_stream_t stream;
    tern_names_t names;
    tern_batch batch;
    tern_position_t position;
    tern_fallback_t why;
    tern_step_scaling scaling;
    tern_attr_rnn how;
    tern_autocast_region region;
    tern_device_guard device_guard;
    tern_stream_guard stream_guard;
    tern_live_t live[4];
    tern_growth_t grown[4];
    tern_transfers_t moved[4];
    tern_scaler_event events[1];
    tern_raw_allocator_t raw;
    tern_oom_info_t oom;
    tern_dev_info_t info;
    tern_cuda_report_t cuda;
    tern_cpu_report_t cpu;
    tern_cpu_half_t half;
} made;

static tern_tensor *t(void)
{
    return T(2, 3);
}

static tern_tensor *leaf(void)
{
    return tern_ones(TERN_SHAPE(2, 3), .dtype = TERN_F64, .requires_grad = true);
}

static tern_tensor *root(void)
{
    made.leaf = leaf();
    return tern_sum(tern_mul(made.leaf, made.leaf), .keepdim = true);
}

static tern_tensor *squared(tern_tensor *const *in, int64_t count, void *user)
{
    (void)count, (void)user;
    return tern_mul(in[0], in[0]);
}

static tern_tensor *squared_in(tern_tensor *const *in, void *user)
{
    return squared(in, 1, user);
}

static tern_tensor *square_forward(tern_op_ctx *ctx, tern_tensor **in)
{
    (void)ctx;
    return tern_mul(in[0], in[0]);
}

static const tern_op square_op = { .name = "square", .inputs = 1, .forward = square_forward };

static void let_go(void *user)
{
    (void)user;
}

static tern_tensor *hook(tern_tensor *of, tern_tensor *grad, void *user)
{
    (void)of, (void)grad, (void)user;
    return NULL;
}

static void accumulated(tern_tensor *of, void *user)
{
    (void)of, (void)user;
}

static bool fetch(void *user, int64_t index, void *x, void *y)
{
    (void)user, (void)index, (void)x, (void)y;
    return true;
}

static tern_tensor *forward(tern_module *m, tern_tensor *x)
{
    (void)m;
    return x;
}

static void forward_args(tern_module *m, tern_args *args)
{
    (void)m;
    args->out[0] = args->in[0];
}

static double factor(int64_t step, void *user)
{
    (void)user;
    return 1.0 / (double)(1 + step);
}

static tern_optimizer *with_gradients(void)
{
    tern_backward(tern_sum(tern_forward(made.module, t())));
    tern_scaler_scale(made.grad_scaler, T(1));
    return made.optimizer;
}

static void visit(tern_module *m, void *user)
{
    (void)m, (void)user;
}

static void make_models(void)
{
    made.module = tern_linear_layer(3, 2, .dtype = TERN_F32);
    made.sequential = tern_sequential(tern_linear_layer(3, 2));
    made.parent = tern_sequential(tern_linear_layer(2, 2));
    made.optimizer = tern_sgd(tern_parameters(made.module), .lr = 0.1);
    made.schedule = tern_cosine_schedule(made.optimizer, 3);
    made.plateau = tern_plateau_schedule(made.optimizer);
    made.ema = tern_ema_create(tern_parameters(made.module));
    made.grad_scaler = tern_grad_scaler_create(TERN_CPU);
}

static void make_states(void)
{
    made.state = tern_state_create();
    made.weights = tern_state_create();
    made.safetensors = tern_safetensors_open_memory_at(TERN_HERE, FILE_TEXT, 10, "file");
    tern_module_store(made.module, made.weights, NULL);
    tern_state_set_bytes(made.state, "bytes", "text", 4);
    tern_state_set_int(made.state, "int", 1);
    tern_state_set_number(made.state, "number", 1);
    tern_generator_store(NULL, made.state, "generator");
    tern_position_store(&made.position, made.state, "position");
}

/* What tern_oom_info writes about. */
static void run_out_of_memory(void)
{
    (void)tern_empty(TERN_SHAPE(INT64_C(1) << 45));
    if (tern_error_code() == TERN_ERR_OOM)
        tern_error_clear();
}

static void make_everything(void)
{
    run_out_of_memory();
    made.generator = tern_generator_create(1);
    make_models();
    made.dataset = tern_dataset_from_tensors(T(8, 3), I(8));
    made.images = tern_digits(2, 1);
    made.loader = tern_loader_open(made.dataset, 2);
    made.position = tern_loader_position(made.loader);
    made.letters = tern_text_from_bytes("a text of some letters", 22);
    make_states();
    made.memory_pool = tern_memory_pool_create(TERN_CPU);
    made.event = tern_event_create(.timing = true);
    tern_event_record(made.event, tern_default_stream(TERN_CPU));
    made.growth = tern_growth_begin();
    made.stream = tern_default_stream(TERN_CPU);
    made.sizes[0] = made.sizes[1] = 1;
}

/* ---- the calls ----------------------------------------------------------------------------------- */

#define ROW(name, ...)             \
    static void call_##name(void)  \
    {                              \
        (void)(name(__VA_ARGS__)); \
    }
#define KEPT(name, ...)                   \
    static void call_##name(void)         \
    {                                     \
        void *kept = (name(__VA_ARGS__)); \
        (void)kept;                       \
    }
#define FAILS ROW
#include "tests/api/null_arguments.def"
#undef ROW
#undef KEPT
#undef FAILS

typedef struct row {
    const char *name, *arguments;
    void (*call)(void);
    bool fails; /* with all of its pointers, too: what it names is not there */
} row;
#define ROW(name, ...) { #name, #__VA_ARGS__, call_##name, false },
#define FAILS(name, ...) { #name, #__VA_ARGS__, call_##name, true },
#define KEPT ROW
static const row rows[] = {
#include "tests/api/null_arguments.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- making them --------------------------------------------------------------------------------- */

/* What the child has come to, which the parent reads when it has died. */
typedef struct progress {
    int row, gone, wrong;
} progress;

/* Names of errors that are not those of the calls: of a form of a call beside the usual one, of a macro,
 * of a row that programs may call, of what files and states are made of. */
static const struct {
    const char *function, *name; /* NULL: any function */
} other_names[] = {
    { "tern_step_scaled_at", "step" },
    { "tern_scaler_scale_all_at", "scaler_scale" },
    { "tern_module_create_args_at", "module_create" },
    { "tern_forward_args_at", "forward" },
    { "tern_autocast_begin_at", "autocast" },
    { "tern_rmsprop_step_at", "rmsprop_step_scaled" },
    { "tern_adagrad_step_at", "adagrad_step_scaled" },
    { "tern_lion_step_at", "lion_step_scaled" },
    { NULL, "state" },
    { NULL, "safetensors_open" },
    { NULL, "safetensors_read" },
    { NULL, "safetensors_save" },
    { NULL, "from_data" },
    { NULL, "read" },
    { NULL, "device" },
    { NULL, "sgd" },
};

static bool is_text(const char *text, size_t length, const char *expected)
{
    return strlen(expected) == length && strncmp(text, expected, length) == 0;
}

/* Does the error name the function that was called? tern_add_inplace_at, of tern_add_, is "add". */
static bool names_the_call(const char *function)
{
    const char *what = tern_error_text() + strlen(SITE ": ");
    const size_t length = strcspn(what, ": (");
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if ((other_names[i].function == NULL || strcmp(other_names[i].function, function) == 0) &&
            is_text(what, length, other_names[i].name))
            return true;
    static const char *const ends[] = { "_inplace_at", "_at" };
    size_t whole = strlen(function);
    for (size_t i = 0; i < 2; i++) {
        const size_t bytes = strlen(ends[i]);
        if (whole > bytes && strcmp(function + whole - bytes, ends[i]) == 0) {
            whole -= bytes;
            break;
        }
    }
    const char *name = function + (strncmp(what, "tern_", 5) == 0 ? 0 : 5);
    return length == whole - (size_t)(name - function) && strncmp(what, name, length) == 0;
}

/* What is wrong with the outcome of a call; NULL: nothing. */
static const char *verdict(const row *r)
{
    const bool wanted = r->fails || needed;
    if (tern_failed() != wanted)
        return wanted ? "is no error" : "is an error";
    if (wanted && !r->fails && tern_error_code() != TERN_ERR_ARGUMENT)
        return "is an error of another kind";
    if (wanted && strncmp(r->arguments, "SITE", 4) == 0 && strcmp(tern_error_site(), SITE) != 0)
        return "is an error of another line";
    if (wanted && !r->fails && strncmp(r->arguments, "SITE", 4) == 0 && !names_the_call(r->name))
        return "is an error of another call";
    return NULL;
}

/* Calls a row with the pointer at->gone NULL; false when it has no such pointer. */
static bool probe(const row *r, progress *at)
{
    TERN_SCOPE;
    gone = at->gone;
    passed = 0;
    needed = false;
    made.leaf = leaf(); /* root() makes another one */
    r->call();
    const char *wrong = gone < passed ? verdict(r) : NULL;
    if (wrong != NULL) {
        print_error("%s(%s) without its pointer %d %s: %s\n", r->name, r->arguments, gone, wrong,
                    tern_error_text());
        at->wrong++;
    }
    tern_error_clear();
    return gone < passed;
}

/* In the child, from where another one died. */
static void probe_all(progress *at)
{
    make_everything();
    if (tern_failed()) {
        print_error("nothing could be made: %s\n", tern_error_text());
        at->wrong++;
        at->row = ROWS;
    }
    for (; at->row < ROWS; at->row++, at->gone = -1)
        while (probe(&rows[at->row], at))
            at->gone++;
    _exit(tern_finish());
}

/* The child has died in a call: says so, and goes on behind it. */
static void step_over(progress *at)
{
    print_error("%s(%s) without its pointer %d crashes\n", rows[at->row].name,
                rows[at->row].arguments, at->gone);
    at->wrong++;
    at->row++;
    at->gone = -1;
}

static void test_every_pointer_may_be_null(void **state)
{
    (void)state;
    progress *at =
        mmap(NULL, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(at, MAP_FAILED);
    at->gone = -1;
    while (at->row < ROWS) {
        (void)fflush(NULL);
        const pid_t child = fork();
        if (child == 0)
            probe_all(at);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (at->row < ROWS)
            step_over(at);
        else
            assert_int_equal(status, 0);
    }
    assert_int_equal(at->wrong, 0);
    (void)munmap(at, sizeof *at);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_pointer_may_be_null) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
