/* The order of samples of a pass. */
#ifndef DATA_ORDER_H
#define DATA_ORDER_H

#include <stdint.h>

/* Fills order[0 .. count-1] with a permutation of 0 .. count-1 that depends on (seed, call) and
 * count alone: Fisher-Yates on the draws of Philox. */
void data_order_shuffle(int64_t *order, int64_t count, uint64_t seed, uint64_t call);

#endif
