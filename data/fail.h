/* How this folder records errors and takes options. */
#ifndef DATA_FAIL_H
#define DATA_FAIL_H

#include "tern/error.h"

/* At the site of the outermost call. */
#define DATA_FAIL(code, what, ...) ((void)tern_fail_at(NULL, code, what, __VA_ARGS__))

/* Copies an option struct of the caller's, which may be older and shorter than ours, over the zeros
 * in `out`; NULL leaves them. False after an error for options without their size. */
bool data_take_args(const char *what, void *out, const void *args, size_t bytes);

#endif
