/* Sequences of allocator operations: made at random from a seed, run on a pair, cut down to the few
 * that matter when the pair disagrees. */
#ifndef TESTS_ALLOC_SCRIPT_H
#define TESTS_ALLOC_SCRIPT_H

#include "tests/alloc/pair.h"

/* ORDER SCRIPT_KIND: names in script.c. */
typedef enum script_kind {
    SCRIPT_MALLOC, /* slot, stream, value: bytes */
    SCRIPT_FREE,
    SCRIPT_RECORD,  /* slot, stream */
    SCRIPT_OFFER,   /* to the reclaim callback: slot */
    SCRIPT_ADVANCE, /* stream, value: marks */
    SCRIPT_PROCESS,
    SCRIPT_EMPTY,
    SCRIPT_FRACTION,  /* value: thousandths */
    SCRIPT_CONFIGURE, /* value: seed of the settings */
    SCRIPT_CAPACITY,  /* value: bytes */
    SCRIPT_POOL_NEW,  /* value: 1 when it helps others out */
    SCRIPT_POOL_RELEASE,
    SCRIPT_ROUTE_BEGIN, /* slot: pool, stream: -1 any, value: 1 when it is a capture */
    SCRIPT_ROUTE_END,   /* slot: pool */
    SCRIPT_RESET_PEAKS,
    SCRIPT_RESET_ACCUMULATED,
    SCRIPT_KINDS
} script_kind;

typedef struct script_op {
    script_kind kind;
    int slot; /* of a block, or a pool */
    int stream;
    int64_t value;
} script_op;

enum { SCRIPT_ROOM = 20000 };

typedef struct script {
    int64_t capacity;
    unsigned without;        /* RAW_WITHOUT_ of the raw interface */
    model_settings settings; /* at the start */
    bool history;
    double fraction; /* at the start; 0: none */
    int count;
    script_op ops[SCRIPT_ROOM];
} script;

/* The same script for the same seed. count is at most SCRIPT_ROOM. */
void script_make(script *s, uint64_t seed, int count);
/* Runs on a fresh pair. -1 when the two agree all the way, else the index of the operation after which
 * they do not (count: at the end), with the reason in `text`. An operation that makes no sense where it
 * stands is passed over, so any part of a script is a script. */
int script_run(const script *s, char *text, int64_t text_bytes);
/* How often each way of the model has been taken, over all runs so far. */
int64_t script_seen(model_path path);
/* Leaves out what the disagreement does not need, for at most `seconds`. */
void script_shrink(script *s, double seconds);
void script_print(const script *s);

#endif
