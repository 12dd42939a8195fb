/* Requests for memory of real training steps. */
#ifndef TERN_BENCH_RECORDED_H
#define TERN_BENCH_RECORDED_H

#include <stdint.h>

typedef struct recorded_request {
    int32_t slot;  /* under RECORDED_SLOTS */
    int32_t bytes; /* 0: the slot's memory goes back */
} recorded_request;
enum { RECORDED_SLOTS = 64 };

extern const recorded_request recorded_mlp[], recorded_cnn[];
extern const int64_t recorded_mlp_count, recorded_cnn_count;

#endif
