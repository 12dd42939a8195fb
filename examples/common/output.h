/* Files that a program writes in the end: the examples' results, and what the tern command makes. */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* The file has the old bytes or all of the new ones, whatever happens in between; links stay links. What is no
 * regular file (a pipe) is written to; where stdout or another descriptor goes, behind what stands there. False with errno. */
bool output_replace(const char *path, const void *bytes, size_t size);
/* Whether the name is one of an open descriptor, or of what stdout goes to. */
bool output_is_open(const char *path);
/* Whether both names are of one file that is there. */
bool output_is_same(const char *path, const char *other);

#endif
