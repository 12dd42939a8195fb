/* What tests do with a pair: each fails the test where allocator and model do not agree. */
#ifndef TESTS_ALLOC_PAIR_CHECK_H
#define TESTS_ALLOC_PAIR_CHECK_H

#include "tests/alloc/pair.h"

/* A pair on the heap, for pair_finish. */
pair *pair_start(int64_t capacity_bytes, const model_settings *settings);
/* Everything both have is the same (pair_deep_difference). */
void pair_agree(pair *p);
/* They agree, nothing leaked; frees the pair. */
void pair_finish(pair *p);
/* pair_malloc, which succeeds, and pair_free; both agree afterwards. */
void pair_take(pair *p, int slot, int64_t bytes, int stream);
void pair_give(pair *p, int slot);
/* The current value of a family, in which both agree. */
int64_t pair_now(pair *p, model_family family);

#endif
