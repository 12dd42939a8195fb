#include "core/option.h"

#include "tern/error.h"

const struct core_no_options core_no_options = { .size_ = sizeof core_no_options };

bool core_check_switch(tern_site_t site, const char *what, const char *option, int64_t index,
                       const char *name, bool on, int64_t otherwise)
{
    if (on || index == 0 || index == otherwise)
        return true;
    (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                       "%s = %lld counts only beside %s = true\n  try .%s = %lld, .%s = true",
                       option, (long long)core_index_meant(index), name, option,
                       (long long)core_index_meant(index), name);
    return false;
}
