/* The tests' backend of two devices, a plugin (tests/plugin/test_backend). */
#ifndef TESTS_SUPPORT_SECOND_BACKEND_H
#define TESTS_SUPPORT_SECOND_BACKEND_H

#include "tern/tern.h"

/* Loads it from the folder that TERN_TEST_PLUGINS names. */
tern_status_t second_backend_load(void);
/* The same as the setup of a group: -1, with the reason printed, when it cannot be loaded. */
int second_backend_setup(void **state);

#endif
