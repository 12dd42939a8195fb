/* The caching allocator against the model: random operations, compared after each one.
 *
 * TERN_ALLOC_OPS: how many in all; else a million, ten million when TERN_TEST_FULL is set, and a tenth of
 * these in builds that check much by themselves. TERN_ALLOC_SEED: of the first script (1); a script has
 * TERN_ALLOC_LENGTH operations (2000). A disagreement prints its seed and
 * the operations that lead to it. */
#include "tests/support/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/alloc/script.h"
#include "tests/support/sanitizer.h"

#if HAS_SANITIZER || !defined(NDEBUG)
static const int64_t MANY = 100000;
#else
static const int64_t MANY = 1000000;
#endif

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtoll(text, NULL, 10) : otherwise;
}

static void report(script *s, uint64_t seed, int at)
{
    char text[PAIR_TEXT] = "";
    if (at < s->count)
        s->count = at + 1;
    script_shrink(s, 20);
    script_run(s, text, sizeof text);
    script_print(s);
    fail_msg("seed %" PRIu64 " (TERN_ALLOC_SEED=%" PRIu64
             " TERN_ALLOC_OPS=1): after %d operations, of "
             "which the %d above do: %s",
             seed, seed, at + 1, s->count, text);
}

static void test_every_operation_agrees_with_the_model(void **state)
{
    (void)state;
    const bool full = getenv("TERN_TEST_FULL") != NULL;
    const int64_t ops = setting("TERN_ALLOC_OPS", full ? 10 * MANY : MANY);
    const uint64_t first = (uint64_t)setting("TERN_ALLOC_SEED", 1);
    int64_t length = setting("TERN_ALLOC_LENGTH", 2000);
    if (length < 1 || length > SCRIPT_ROOM)
        length = SCRIPT_ROOM;
    script *s = malloc(sizeof *s);
    assert_non_null(s);
    const int64_t scripts = (ops + length - 1) / length;
    print_message("seeds %" PRIu64 " to %" PRIu64 ", %" PRId64 " operations each\n", first,
                  first + (uint64_t)scripts - 1, length);
    for (int64_t i = 0; i < scripts; i++) {
        char text[PAIR_TEXT] = "";
        script_make(s, first + (uint64_t)i, (int)length);
        const int at = script_run(s, text, sizeof text);
        if (at >= 0)
            report(s, first + (uint64_t)i, at);
    }
    free(s);
    for (int i = 0; i < MODEL_PATHS; i++) {
        print_message("  %-24s %" PRId64 "\n", model_path_name((model_path)i),
                      script_seen((model_path)i));
        if (ops >= 100000 && script_seen((model_path)i) == 0)
            fail_msg("no operation took the way '%s'", model_path_name((model_path)i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
        test_every_operation_agrees_with_the_model) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
