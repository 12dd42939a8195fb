/* See pair_check.h. */
#include "tests/alloc/pair_check.h"

#include <stdlib.h>

#include "tests/support/check.h"

pair *pair_start(int64_t capacity_bytes, const model_settings *settings)
{
    pair *p = malloc(sizeof *p);
    assert_non_null(p);
    assert_true(pair_init(p, capacity_bytes, 0));
    pair_configure(p, settings);
    return p;
}

void pair_agree(pair *p)
{
    const char *why = pair_deep_difference(p);
    if (why != NULL)
        fail_msg("%s", why);
}

void pair_finish(pair *p)
{
    char text[PAIR_TEXT];
    pair_agree(p);
    const char *why = pair_deinit(p, text, sizeof text);
    if (why != NULL)
        fail_msg("%s", why);
    free(p);
}

void pair_take(pair *p, int slot, int64_t bytes, int stream)
{
    if (!pair_malloc(p, slot, bytes, stream))
        fail_msg("no memory for %lld bytes", (long long)bytes);
    pair_agree(p);
}

void pair_give(pair *p, int slot)
{
    pair_free(p, slot);
    pair_agree(p);
}

int64_t pair_now(pair *p, model_family family)
{
    pair_agree(p);
    return p->model->stats.of[family][MODEL_ALL].current;
}
