#include "data/fail.h"

#include <string.h>

bool data_take_args(const char *what, void *out, const void *args, size_t bytes)
{
    size_t given = 0;
    if (args) {
        memcpy(&given, args, sizeof given);
    }
    if (given < sizeof given) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "the options are %s",
                  args ? "without their size_" : "NULL");
        return false;
    }
    memcpy(out, args, given < bytes ? given : bytes);
    return true;
}
