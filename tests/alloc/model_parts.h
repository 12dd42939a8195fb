/* Shared by the files of the model only. */
#ifndef TESTS_ALLOC_MODEL_PARTS_H
#define TESTS_ALLOC_MODEL_PARTS_H

#include "tests/alloc/model.h"

static const int64_t MODEL_MIB = 1 << 20;

/* What is wanted: a best-fit search and an address to put behind it. */
typedef struct model_request {
    int pool;
    bool small;
    int stream;
    int64_t size;    /* rounded */
    int64_t segment; /* bytes to ask of the raw double */
} model_request;

/* model.c and model_blocks.c */
model_block *model_at(model *m, uint64_t address);
model_block *model_previous(model *m, const model_block *b);
model_block *model_next(model *m, const model_block *b);
bool model_is_split(model *m, const model_block *b);
/* Free or unmapped, and nothing still reads it. */
bool model_is_idle(const model_block *b);
/* A copy of `like` in a slot of its own. */
model_block *model_add_block(model *m, const model_block *like);
/* M020. The bytes that were joined to b, 0 when the two stay apart. */
int64_t model_merge(model *m, model_block *b, model_block *neighbour);
/* The block that no longer has users joins its neighbours and the free ones. */
void model_become_free(model *m, model_block *b);
/* The least free block of the request's pool and stream that is greater than `after` (NULL: any) and
 * has at least `size` bytes: M011's order. */
model_block *model_least(model *m, const model_request *r, const model_block *after, int64_t size);
void model_mark_born(model *m, model_block *b);
bool model_expands(const model *m);
int64_t model_reserved(const model *m);
void model_add(model_stat *s, int64_t amount);
void model_count(model *m, model_family family, bool small, int64_t amount);

/* model_release.c */
void model_poll(model *m);
void model_record_users(model *m, model_block *b);
bool model_capturing(const model *m);
void model_collect_garbage(model *m);
bool model_release_oversize(model *m, const model_request *r);
/* Step 8 and empty_cache. */
void model_release_cached(model *m);

/* model_expandable.c */
/* A free block of at least r->size bytes, mapped now; NULL without memory. */
model_block *model_expand(model *m, const model_request *r);
/* Returns the whole pages of a free block; the range too when nothing of it is left. */
void model_shrink(model *m, model_block *b);
/* The whole pages of a free block: where they start, how many bytes. */
int64_t model_whole_pages(model *m, const model_block *b, uint64_t *out_from);

#endif
