/* The allocator and the model side by side, each on a raw double of its own. Every operation goes to
 * both; pair_difference says what they do not agree on. */
#ifndef TESTS_ALLOC_PAIR_H
#define TESTS_ALLOC_PAIR_H

#include "tests/alloc/model.h"
#include "tests/alloc/raw_table.h"

enum { PAIR_SLOTS = 4096, PAIR_POOLS = 8, PAIR_TEXT = 600 };

typedef struct pair_slot {
    uint64_t address; /* in the model; 0: empty */
    core_alloc_block *block;
} pair_slot;

typedef struct pair {
    raw_double *raw_model, *raw_engine;
    raw_table table;
    model *model;
    core_alloc *engine;
    pair_slot slots[PAIR_SLOTS];
    int pool_count;
    struct {
        int model;
        uint64_t engine;
    } pools[PAIR_POOLS];
    int hostage; /* slot that goes when memory is asked for; -1: none */
    bool model_let_go, engine_let_go;
    bool history;
    char text[PAIR_TEXT]; /* the first disagreement, or "" */
} pair;

/* In place; false without memory. Pairs are large: not for the stack. `without`: RAW_WITHOUT_EVENTS,
 * RAW_WITHOUT_VMM. */
bool pair_init(pair *p, int64_t capacity_bytes, unsigned without);
/* Ends the allocator; NULL, or what it leaked or misused. */
const char *pair_deinit(pair *p, char *text, int64_t text_bytes);

/* Puts the block into the empty slot. False when both say that there is not enough. */
bool pair_malloc(pair *p, int slot, int64_t bytes, int stream);
/* An empty slot is left alone by these two. */
void pair_free(pair *p, int slot);
void pair_record_stream(pair *p, int slot, int stream);
/* From here on the allocator's history is compared, too; it must be the first call. */
void pair_record_history(pair *p);
/* The block in the slot is what both let go when the reclaim callback asks (M026 step 3). */
void pair_offer(pair *p, int slot);
void pair_process_events(pair *p);
void pair_empty_cache(pair *p);
void pair_set_fraction(pair *p, double fraction);
/* Through the grammar of the settings string (M074-M077). */
void pair_configure(pair *p, const model_settings *settings);
/* Up to n marks of the stream pass. */
void pair_advance(pair *p, int stream, int64_t n);
/* What others on the device leave. */
void pair_set_capacity(pair *p, int64_t bytes);
void pair_reset_peaks(pair *p);
void pair_reset_accumulated(pair *p);
/* The number of a pool, for the next three; -1 when there are PAIR_POOLS. */
int pair_pool_new(pair *p, bool use_on_oom);
void pair_pool_release(pair *p, int pool);
/* stream -1: any. */
void pair_route_begin(pair *p, int pool, int stream, bool capture);
void pair_route_end(pair *p, int pool);

/* NULL, or the first disagreement so far: results, addresses, every statistic, the ranges taken from
 * the raw interface. Also an error of either by itself. */
const char *pair_difference(pair *p);
/* The same for every segment and block of a snapshot, and the allocator's own check: slower. */
const char *pair_deep_difference(pair *p);

/* A settings string that says all of `settings`. */
void pair_settings_text(const model_settings *settings, char *text, int64_t text_bytes);

#endif
