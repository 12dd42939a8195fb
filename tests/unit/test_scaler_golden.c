/* The gradient scaler against sequences that torch.amp.GradScaler went through: runs the script in
 * tests/golden/grad_scaler.txt (made by make_scaler.py, which says what the commands mean). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"

enum { MOST = 8, LINE = 512 };

typedef struct run {
    tern_grad_scaler *scaler;
    tern_tensor *params[MOST];
    tern_optimizer *opts[MOST];
    int param_count, opt_count;
    tern_state *saved;
    int scenarios, checks;
    char name[64];
    int line;
} run;

/* Numbers after the command; how many. */
static int numbers(const char *text, double *out)
{
    int n = 0;
    for (char *end; n < 2 * MOST; text = end, n++) {
        out[n] = strtod(text, &end);
        if (end == text)
            break;
    }
    return n;
}

static tern_tensor *vector(const double *values, int n)
{
    float data[2 * MOST];
    for (int i = 0; i < n; i++)
        data[i] = (float)values[i];
    return tern_from_data(data, TERN_SHAPE(n), .device = tern_default_device());
}

static void end_scenario(run *r)
{
    for (int i = 0; i < r->opt_count; i++)
        tern_optimizer_free(r->opts[i]);
    for (int i = 0; i < r->param_count; i++)
        tern_release(r->params[i]);
    tern_grad_scaler_free(r->scaler);
    tern_state_free(r->saved);
    r->scaler = NULL;
    r->saved = NULL;
    r->param_count = r->opt_count = 0;
}

static void make_scaler(run *r, const double *x)
{
    r->scaler =
        tern_grad_scaler_create(.init_scale = x[0], .growth_factor = x[1], .backoff_factor = x[2],
                                .growth_interval = (int64_t)x[3], .disabled = x[4] == 0);
}

static void make_optimizer(run *r, bool adam, const double *x, int n)
{
    const int first = adam ? 1 : 2;
    tern_tensor *list[MOST];
    for (int i = first; i < n; i++)
        list[i - first] = r->params[(int)x[i]];
    const tern_tensors_t params = { list, NULL, n - first };
    r->opts[r->opt_count++] =
        adam ? tern_adam(params, .lr = x[0]) : tern_sgd(params, .lr = x[0], .momentum = x[1]);
}

static void loss(const run *r, const double *x, int n)
{
    tern_tensor *sum = tern_sum(tern_mul(r->params[(int)x[0]], vector(x + 1, n - 1)));
    tern_backward(tern_scaler_scale(r->scaler, sum));
}

static void save(run *r)
{
    r->saved = tern_state_create();
    tern_scaler_store(r->scaler, r->saved, "scaler");
}

static void load(run *r)
{
    tern_grad_scaler_free(r->scaler);
    r->scaler = tern_grad_scaler_create(.init_scale = 0.25);
    tern_scaler_restore(r->scaler, r->saved, "scaler");
}

static bool is(const char *line, const char *name)
{
    return strncmp(line, name, strlen(name)) == 0 &&
           (line[strlen(name)] == ' ' || line[strlen(name)] == '\0');
}

static bool set_up(run *r, const char *line, const double *x, int n)
{
    if (is(line, "scaler"))
        make_scaler(r, x);
    else if (is(line, "param"))
        r->params[r->param_count++] = tern_retain(tern_set_requires_grad(vector(x, n), true));
    else if (is(line, "sgd") || is(line, "adam"))
        make_optimizer(r, is(line, "adam"), x, n);
    else if (is(line, "growth"))
        tern_scaler_set_growth_factor(r->scaler, x[0]);
    else if (is(line, "backoff"))
        tern_scaler_set_backoff_factor(r->scaler, x[0]);
    else if (is(line, "interval"))
        tern_scaler_set_growth_interval(r->scaler, (int64_t)x[0]);
    else if (is(line, "save"))
        save(r);
    else if (is(line, "load"))
        load(r);
    else
        return false;
    return true;
}

static void iterate(run *r, const char *line, const double *x, int n)
{
    tern_optimizer *opt = n > 0 ? r->opts[(int)x[0] % MOST] : NULL;
    if (is(line, "loss"))
        loss(r, x, n);
    else if (is(line, "unscale"))
        tern_scaler_unscale(r->scaler, opt);
    else if (is(line, "clip"))
        tern_clip_grad_norm(tern_optimizer_params(opt, -1), .max_norm = x[1]);
    else if (is(line, "step"))
        tern_scaler_step(r->scaler, opt);
    else if (is(line, "zero"))
        tern_zero_grad(opt);
    else if (is(line, "update"))
        tern_scaler_update(r->scaler, .new_scale = n > 0 ? x[0] : 0);
    else
        fail_msg("grad_scaler.txt:%d: what is '%s'?", r->line, line);
}

static void command(run *r, const char *line)
{
    TERN_SCOPE;
    double x[2 * MOST] = { 0 };
    const char *rest = strchr(line, ' ');
    const int n = rest != NULL ? numbers(rest, x) : 0;
    if (!set_up(r, line, x, n))
        iterate(r, line, x, n);
}

/* "fails COMMAND | words of PyTorch's error | words of tern's" */
static void fails(run *r, char *line)
{
    char *bar = strchr(line, '|'), *words = strrchr(line, '|') + 2;
    bar[-1] = '\0';
    command(r, line + 6);
    if (!tern_failed() || strstr(tern_error_text(), words) == NULL)
        fail_msg("%s, line %d: '%s' expected, got %s", r->name, r->line, words, tern_error_text());
    tern_error_clear();
}

static void same(const run *r, const char *what, double got, double want, double tolerance)
{
    const bool equal = got == want || fabs(got - want) <= tolerance * fmax(1, fabs(want));
    if (!equal && !(isnan(got) && isnan(want)))
        fail_msg("%s, line %d: %s is %.9g, PyTorch has %.9g", r->name, r->line, what, got, want);
}

static double tracker_of(tern_grad_scaler *scaler)
{
    int64_t tracker = -1;
    tern_state *state = tern_state_create();
    tern_scaler_store(scaler, state, "");
    tern_state_get_int(state, "_growth_tracker", &tracker);
    tern_state_free(state);
    return (double)tracker;
}

static void expect(run *r, const char *line)
{
    double x[2 * MOST] = { 0 };
    const int n = numbers(strchr(line + 2, ' '), x);
    r->checks++;
    if (is(line + 2, "scale"))
        same(r, "scale", tern_scaler_get_scale(r->scaler), (double)(float)x[0], 0);
    else if (is(line + 2, "tracker"))
        same(r, "tracker", tracker_of(r->scaler), x[0], 0);
    if (!is(line + 2, "param"))
        return;
    float data[2 * MOST] = { 0 };
    tern_read(r->params[(int)x[0]], TERN_F32, data, (n - 1) * (int64_t)sizeof *data);
    for (int i = 1; i < n; i++)
        same(r, "parameter", (double)data[i - 1], x[i], 1e-6);
}

static void play(run *r, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#')
        return;
    if (is(line, "scenario")) {
        end_scenario(r);
        (void)snprintf(r->name, sizeof r->name, "%.63s", line + 9);
        r->scenarios++;
    } else if (line[0] == '=') {
        expect(r, line);
    } else if (is(line, "fails")) {
        fails(r, line);
    } else {
        command(r, line);
        if (tern_failed())
            fail_msg("%s, line %d: %s", r->name, r->line, tern_error_text());
    }
}

static void test_scales_skips_and_parameters_are_pytorchs(void **state)
{
    (void)state;
    const char *source = getenv("TERN_TEST_SOURCE");
    char path[512], line[LINE];
    (void)snprintf(path, sizeof path, "%s/tests/golden/grad_scaler.txt", source ? source : ".");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    run r = { 0 };
    for (r.line = 1; fgets(line, sizeof line, file) != NULL; r.line++)
        play(&r, line);
    end_scenario(&r);
    (void)fclose(file);
    print_message("%d scenarios, %d checks\n", r.scenarios, r.checks);
    assert_true(r.scenarios >= 10);
    assert_true(r.checks >= 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scales_skips_and_parameters_are_pytorchs),
    };
    const int failed = check_run(tests, NULL, NULL);
    return tern_finish() != 0 || failed;
}
