/* Made-up tales: words in tales.c, the text around them in text.c. */
#ifndef DATA_TEXT_H
#define DATA_TEXT_H

#include <stdint.h>

/* Writes sentence `index` of a seed, at most `bytes` with its zero; returns its length. */
int data_tale_sentence(uint64_t seed, uint64_t index, char *out, int bytes);

#endif
