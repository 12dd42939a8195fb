/* What control groups leave a process, in files made by hand as the kernel's; and the default of threads. */
#include "core/control_group.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/processors.h"
#include "tests/support/check.h"
#include "tests/support/files.h"

/* A folder for each test, with the file of memberships and the mount points in it. */
typedef struct groups {
    char membership[3 * FILE_PATH_BYTES], mounts[FILE_PATH_BYTES];
} groups;

static groups begin(const char *name)
{
    groups g;
    char command[4 * FILE_PATH_BYTES];
    (void)snprintf(g.mounts, sizeof g.mounts, "%s", file_path(name));
    (void)snprintf(g.membership, sizeof g.membership, "%s/membership", g.mounts);
    (void)snprintf(command, sizeof command, "mkdir -p '%s'", g.mounts);
    assert_int_equal(system(command), 0);
    return g;
}

/* Writes a line to a file below the mounts, whose folder is made. */
static void put(const groups *g, const char *path, const char *line)
{
    char command[6 * FILE_PATH_BYTES];
    (void)snprintf(command, sizeof command,
                   "cd '%s' && mkdir -p \"$(dirname '%s')\" && printf '%%b\\n' '%s' >'%s'",
                   g->mounts, path, line, path);
    assert_int_equal(system(command), 0);
}

static core_groups files_of(const groups *g)
{
    return (core_groups){ g->membership, g->mounts };
}

static void expect_quota(const groups *g, double quota)
{
    const core_groups files = files_of(g);
    assert_true(core_group_quota_of(&files) == quota);
}

/* Limit 0: there is none. */
static void expect_bytes(const groups *g, int64_t limit, int64_t free)
{
    const core_groups files = files_of(g);
    int64_t there, left;
    assert_int_equal(core_group_memory_of(&files, &there, &left), limit > 0);
    if (limit > 0) {
        assert_int_equal(there, limit);
        assert_int_equal(left, free);
    }
}

static void end(const groups *g)
{
    char command[4 * FILE_PATH_BYTES];
    (void)snprintf(command, sizeof command, "rm -r '%s'", g->mounts);
    assert_int_equal(system(command), 0);
}

static void test_of_a_group_and_those_above_the_least_holds(void **state)
{
    (void)state;
    const groups g = begin("nested");
    put(&g, "membership", "0::/user.slice/a b/job");
    expect_quota(&g, 0);
    put(&g, "cpu.max", "max 100000");
    put(&g, "user.slice/a b/job/cpu.max", "max 100000");
    expect_quota(&g, 0);
    put(&g, "user.slice/a b/job/cpu.max", "250000 100000");
    expect_quota(&g, 2.5);
    put(&g, "user.slice/cpu.max", "800000 100000");
    expect_quota(&g, 2.5);
    put(&g, "user.slice/cpu.max", "50000 25000");
    expect_quota(&g, 2);
    put(&g, "user.slice/other/cpu.max", "1000 100000"); /* not above it */
    expect_quota(&g, 2);
    put(&g, "cpu.max", "150000 100000");
    expect_quota(&g, 1.5);
    end(&g);
}

/* As in a container with groups of its own. */
static void test_the_mount_may_be_the_group(void **state)
{
    (void)state;
    const groups g = begin("namespace");
    put(&g, "membership", "0::/");
    put(&g, "cpu.max", "50000 100000");
    expect_quota(&g, 0.5);
    end(&g);
}

static void test_version_1_has_two_files(void **state)
{
    (void)state;
    const groups g = begin("first");
    put(&g, "membership", "12:cpuset:/docker/1234\\n3:cpu,cpuacct:/docker/1234\\n0::/");
    put(&g, "cpuset/docker/1234/cpu.cfs_quota_us", "1");
    put(&g, "cpuset/docker/1234/cpu.cfs_period_us", "1");
    put(&g, "cpu/docker/1234/cpu.cfs_quota_us", "-1");
    put(&g, "cpu/docker/1234/cpu.cfs_period_us", "100000");
    expect_quota(&g, 0);
    put(&g, "cpu/docker/1234/cpu.cfs_quota_us", "400000");
    expect_quota(&g, 4);
    /* the host's path in a container, whose group is mounted */
    put(&g, "membership", "3:cpuacct,cpu:/docker/5678");
    expect_quota(&g, 0);
    put(&g, "cpu/cpu.cfs_quota_us", "300000");
    put(&g, "cpu/cpu.cfs_period_us", "200000");
    expect_quota(&g, 1.5);
    end(&g);
}

static void test_what_cannot_be_read_is_no_limit(void **state)
{
    (void)state;
    const groups g = begin("odd");
    expect_quota(&g, 0); /* no file */
    put(&g, "membership", "");
    expect_quota(&g, 0);
    put(&g, "membership", "0:\\n:::\\nnonsense\\n0::relative\\n7:cpu");
    put(&g, "cpu.max", "100000");
    expect_quota(&g, 0);
    const char *const odd[] = { "", "0 100000", "-5 100000", "100000 0", "100000 -1", "x y" };
    put(&g, "membership", "0::/");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        put(&g, "cpu.max", odd[i]);
        expect_quota(&g, 0);
    }
    char deep[3 << 10];
    memset(deep, 'd', sizeof deep);
    memcpy(deep, "0::/", 4);
    for (size_t i = 100; i < sizeof deep; i += 100)
        deep[i] = '/';
    deep[sizeof deep - 1] = '\0';
    FILE *file = fopen(g.membership, "w");
    assert_non_null(file);
    for (int i = 0; i < 4; i++) /* together longer than a path may be */
        assert_true(fputs(deep, file) >= 0);
    assert_int_equal(fclose(file), 0);
    put(&g, "cpu.max", "100000 100000");
    const core_groups files = files_of(&g);
    (void)core_group_quota_of(&files); /* whatever: within its bounds */
    end(&g);
}

static void test_memory_is_the_least_of_the_groups(void **state)
{
    (void)state;
    const groups g = begin("memory");
    put(&g, "membership", "0::/pod/box");
    expect_bytes(&g, 0, 0);
    put(&g, "pod/box/memory.max", "max");
    put(&g, "pod/box/memory.current", "1000");
    expect_bytes(&g, 0, 0);
    put(&g, "pod/box/memory.max", "10000");
    expect_bytes(&g, 10000, 9000);
    put(&g, "pod/box/memory.current", "7000");
    put(&g, "pod/box/memory.stat",
        "anon 3000\ninactive_anon 9\ninactive_file 4000\nactive_file 50");
    expect_bytes(&g, 10000, 7000);
    put(&g, "pod/memory.max", "20000"); /* others are in it, too */
    put(&g, "pod/memory.current", "18000");
    expect_bytes(&g, 10000, 2000);
    put(&g, "pod/memory.current", "28000"); /* the limit came later */
    expect_bytes(&g, 10000, 0);
    end(&g);
}

static void test_memory_of_version_1(void **state)
{
    (void)state;
    const groups g = begin("memory1");
    put(&g, "membership", "4:memory:/docker/1\n3:cpu:/docker/2\n0::/");
    put(&g, "memory/docker/1/memory.limit_in_bytes", "9223372036854771712");
    put(&g, "memory/docker/1/memory.usage_in_bytes", "100");
    expect_bytes(&g, 0, 0);
    put(&g, "memory/docker/1/memory.limit_in_bytes", "5000");
    expect_bytes(&g, 5000, 4900);
    put(&g, "memory/docker/1/memory.stat", "cache 1\ninactive_file 7\ntotal_inactive_file 60");
    expect_bytes(&g, 5000, 4960);
    put(&g, "memory/memory.limit_in_bytes", "300");
    put(&g, "memory/memory.usage_in_bytes", "120");
    expect_bytes(&g, 300, 180);
    end(&g);
}

static void test_the_default_is_no_more_than_both(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(core_processors(), CPU_COUNT(&set));
    const double quota = core_group_quota();
    const int most =
        quota > 0 && quota < CPU_COUNT(&set) ? quota < 2 ? 1 : (int)quota : CPU_COUNT(&set);
    tern_set_num_threads(0);
    assert_int_equal(tern_num_threads(), most);
    tern_set_num_threads(3);
    assert_int_equal(tern_num_threads(), 3);
    tern_set_num_threads(-1);
    assert_int_equal(tern_num_threads(), most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_a_group_and_those_above_the_least_holds),
        cmocka_unit_test(test_the_mount_may_be_the_group),
        cmocka_unit_test(test_version_1_has_two_files),
        cmocka_unit_test(test_what_cannot_be_read_is_no_limit),
        cmocka_unit_test(test_memory_is_the_least_of_the_groups),
        cmocka_unit_test(test_memory_of_version_1),
        cmocka_unit_test(test_the_default_is_no_more_than_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
