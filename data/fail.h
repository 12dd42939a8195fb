/* How this folder records errors: at the outermost call's site. */
#ifndef DATA_FAIL_H
#define DATA_FAIL_H

#include "tern/error.h"

#define DATA_FAIL(code, what, ...) ((void)tern_fail_at(NULL, code, what, __VA_ARGS__))

#endif
