#include "core/option.h"

const struct core_no_options core_no_options = { .size_ = sizeof core_no_options };
