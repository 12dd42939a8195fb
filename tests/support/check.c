/* See check.h. */
#include "tests/support/check.h"
#include "tests/support/between.h"

#include <stdlib.h>

void check_elements(tern_tensor *t, const float *want, int64_t n)
{
    float got[64];
    assert_no_error();
    assert_int_equal(tern_numel(t), n);
    assert_between(n, 0, 64);
    assert_int_equal(tern_read(t, TERN_F32, got, n * (int64_t)sizeof *got), TERN_OK);
    for (int64_t i = 0; i < n; i++)
        assert_close(got[i], want[i], 0);
}

void check_refusal(bool made, const char *says)
{
    assert_false(made);
    assert_true(tern_failed());
    if (strstr(tern_error_text(), says) == NULL)
        fail_msg("\"%s\" is not in: %s", says, tern_error_text());
    tern_error_clear();
}

bool check_device_ready(void)
{
    const char *wish = getenv("TERN_TEST_DEVICE");
    tern_dev_t dev = TERN_CPU;
    if (wish == NULL)
        return true;
    if (tern_dev_parse(wish, &dev) == TERN_OK &&
        tern_dev_count(dev.kind) > (dev.index > 0 ? dev.index : 0) &&
        tern_set_default_device(dev) == TERN_OK)
        return true;
    tern_fallback_t why = { "", "", "" };
    (void)tern_dev_fallback(&why);
    print_error("TERN_TEST_DEVICE=%s: %s%s\n", wish, tern_error_text(), why.text);
    return false;
}

bool check_on_cpu(void)
{
    return tern_default_device().kind == TERN_KIND_CPU;
}

int check_device_done(int failed)
{
    if (check_on_cpu() || tern_dev_synchronize(tern_default_device()) == TERN_OK)
        return failed;
    print_error("after the last test: %s\n", tern_error_text());
    tern_error_clear();
    return failed + 1;
}
