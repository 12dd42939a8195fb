/* A set of texts, each with a number from 0 in the order in which it was first added. */
#ifndef TOOLS_TERN_NAMES_H
#define TOOLS_TERN_NAMES_H

#include <stdint.h>

typedef struct names { /* all zero: empty */
    char **text;       /* by number */
    int32_t count, capacity;
    int32_t *slots; /* hash table of numbers, -1: free */
    int32_t slot_count;
} names;

/* The number of `text`, which is copied when it is new; -1 without memory. */
int32_t names_add(names *set, const char *text);
void names_free(names *set);

#endif
