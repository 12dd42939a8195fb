/* See second_backend.h. */
#include "tests/support/second_backend.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/check.h"

tern_status_t second_backend_load(void)
{
    char path[512];
    const char *folder = getenv("TERN_TEST_PLUGINS");
    (void)snprintf(path, sizeof path, "%s/tern_test_backend.so", folder != NULL ? folder : ".");
    return tern_plugin_load(path);
}

int second_backend_setup(void **state)
{
    (void)state;
    if (second_backend_load() == TERN_OK)
        return 0;
    print_error("%s", tern_error_text());
    return -1;
}
