/* CPU memory that the machine can never have is refused where it is asked for. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/pool.h"
#include "tests/support/check.h"

#ifndef CORE_POOL_BYPASS
static tern_tensor *bytes_of(int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8);
}

/* vm.overcommit_memory=1, and kernels that do not count: everything is promised that has an address. */
static bool system_promises(int64_t bytes)
{
    void *data =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return false;
    (void)munmap(data, (size_t)bytes);
    return true;
}
#endif

static void test_more_than_the_machine_has_is_refused(void **state)
{
    (void)state;
#ifndef CORE_POOL_BYPASS
    TERN_SCOPE;
    const int64_t mib = 1 << 20;
    assert_null(bytes_of(INT64_C(1) << 52)); /* no processor has so many addresses */
    assert_error(TERN_ERR_OOM, "out of memory on cpu: 4194304.00 GiB");
    const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const int64_t bytes = 8 * pages * page + (INT64_C(1) << 40); /* nobody has so much swap space */
    if (system_promises(bytes)) {
        print_message("left out: the system promises all that it has addresses for\n");
        return;
    }
    assert_null(bytes_of(bytes));
    char number[32];
    (void)snprintf(number, sizeof number, "(%lld bytes)", (long long)bytes);
    assert_error(TERN_ERR_OOM, number);
    assert_non_null(bytes_of(30 * mib)); /* the next one that fits is served */
    assert_no_error();
#else
    print_message("skipped: a sanitizer has all memory\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_the_machine_has_is_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
