#include "data/fail.h"

#include <string.h>

bool data_take_args(const char *what, void *out, const void *args, size_t bytes)
{
    size_t given = 0;
    if (!args) {
        return true;
    }
    memcpy(&given, args, sizeof given);
    if (given < sizeof given) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "the options are without their size_");
        return false;
    }
    memcpy(out, args, given < bytes ? given : bytes);
    return true;
}
