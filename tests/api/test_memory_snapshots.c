/* Snapshots and history of device memory, on the tests' device of 64 MiB. Rows M068-M073. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/files.h"
#include "tests/support/second_backend.h"

static const tern_dev_t dev0 = { TERN_KIND_EXT, 0 };
static const int64_t mib = 1 << 20;

static int clear(void **state)
{
    (void)state;
    tern_error_clear();
    tern_empty_cache(dev0);
    return 0;
}

static tern_tensor *bytes_on(tern_dev_t dev, int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8, .device = dev);
}

/* A segment that goes back, a request that fails, and what is left: two blocks, and one that waits. */
static void make_some_history(void)
{
    {
        TERN_SCOPE;
        (void)bytes_on(dev0, 40 * mib);
    }
    tern_empty_cache(dev0);
    assert_null(bytes_on(dev0, 100 * mib));
    assert_error(TERN_ERR_OOM, "out of memory");
    (void)bytes_on(dev0, 3 * mib);
    (void)bytes_on(dev0, 700);
    TERN_SCOPE;
    tern_tensor *t = tern_ones(TERN_SHAPE(1000), .device = dev0);
    assert_int_equal(tern_record_stream(t, tern_stream_external(dev0, (void *)16)), TERN_OK);
}

static void assert_segments_ascend(const char *text)
{
    unsigned long long before = 0, now = 0;
    for (const char *at = text; (at = strstr(at, "\"device_name\": \"test:0\", ")) != NULL; at++) {
        assert_int_equal(sscanf(at, "\"device_name\": \"test:0\", \"address\": %llu", &now), 1);
        assert_true(now > before);
        before = now;
    }
    assert_true(before > 0);
}

static void test_a_source_file_whose_name_is_no_utf8(void **state)
{
    (void)state;
    assert_int_equal(tern_memory_record_history(dev0, 100), TERN_OK);
    void *data = tern_memory_alloc_at("l\xe4t\xc3\xa4.c:7", dev0, 1000, NULL);
    const char *path = file_path("snapshot.json");
    assert_int_equal(tern_memory_snapshot(dev0, path), TERN_OK);
    assert_int_equal(tern_memory_free(dev0, data), TERN_OK);
    file_bytes content = file_read(path);
    const char end = '\0';
    file_bytes_add(&content, &end, 1);
    assert_non_null(
        strstr((const char *)content.data, "\"filename\": \"l\\ufffdt\xc3\xa4.c\", \"line\": 7"));
    file_bytes_free(&content);
    assert_int_equal(tern_memory_record_history(dev0, 0), TERN_OK);
}

static void test_a_snapshot_is_json(void **state) /* M068 M069 M070 M072 M073 */
{
    (void)state;
    TERN_SCOPE;
    assert_int_equal(tern_memory_record_history(dev0, 100), TERN_OK);
    make_some_history();
    const char *path = file_path("snapshot.json");
    assert_int_equal(tern_memory_snapshot(dev0, path), TERN_OK);
    file_bytes content = file_read(path);
    const char end = '\0';
    file_bytes_add(&content, &end, 1);
    const char *text = (const char *)content.data;
    const char *parts[] = { "\"segments\": [",
                            "\"device\": 0, ",
                            "\"total_size\": 2097152, \"allocated_size\": 1024, "
                            "\"active_size\": 5120, \"requested_size\": 4700, \"stream\": 0, "
                            "\"segment_type\": \"small\"",
                            "\"total_size\": 20971520, \"allocated_size\": 3145728, "
                            "\"active_size\": 3145728, \"requested_size\": 3145728, ",
                            "\"segment_type\": \"large\", \"segment_pool_id\": [0, 0], "
                            "\"is_expandable\": false, ",
                            "\"blocks\": [\n",
                            "\"size\": 1024, \"requested_size\": 700, "
                            "\"state\": \"active_allocated\", \"frames\": [{",
                            "\"state\": \"active_awaiting_free\"",
                            "\"state\": \"inactive\"",
                            "\"device_traces\": [",
                            "\"action\": \"alloc\"",
                            "\"action\": \"free_requested\"",
                            "\"action\": \"free_completed\"",
                            "\"action\": \"segment_alloc\"",
                            "\"action\": \"segment_free\"",
                            "\"action\": \"oom\"",
                            "test_memory_snapshots.c\", \"line\": ",
                            "\"allocator_settings\": {" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(text, parts[i]) == NULL)
            fail_msg("no '%s' in: %s", parts[i], text);
    assert_segments_ascend(text);
    file_bytes_free(&content);
    assert_int_equal(tern_memory_record_history(dev0, 0), TERN_OK);
    assert_int_equal(tern_memory_snapshot(dev0, "/nowhere/at/all.json"), TERN_ERR_IO);
    tern_error_clear();
    assert_int_equal(tern_dev_synchronize(dev0), TERN_OK);
}

/* As a saved model: the file that a link leads to is replaced, with the mode that it had. */
static void test_a_snapshot_is_written_through_a_link(void **state)
{
    (void)state;
    char real[FILE_PATH_BYTES], link[FILE_PATH_BYTES];
    (void)snprintf(real, sizeof real, "%s", file_path("real.json"));
    (void)snprintf(link, sizeof link, "%s", file_path("link.json"));
    assert_int_equal(symlink("real.json", link), 0);
    struct stat info;
    for (int round = 0; round < 2; round++) { /* a link to nothing, then to a file */
        assert_int_equal(tern_memory_snapshot(dev0, link), TERN_OK);
        assert_int_equal(lstat(link, &info), 0);
        assert_true(S_ISLNK(info.st_mode));
        assert_int_equal(lstat(real, &info), 0);
        assert_true(S_ISREG(info.st_mode) && info.st_size > 100);
        assert_int_equal(info.st_mode & 0777, round == 0 ? info.st_mode & 0777 : 0600);
        assert_int_equal(chmod(real, 0600), 0);
    }
    tern_fail(TERN_ERR_OOM, "test", "pending");
    assert_int_equal(truncate(real, 0), 0);
    assert_int_equal(tern_memory_snapshot(dev0, real), TERN_OK); /* it may explain the error */
    assert_error(TERN_ERR_OOM, "pending");
    assert_int_equal(stat(real, &info), 0);
    assert_true(info.st_size > 100);
    assert_int_equal(tern_memory_snapshot(dev0, file_folder()), TERN_ERR_IO);
    assert_error(TERN_ERR_IO, "memory_snapshot: ");
}

static int64_t entries_of(const char *text)
{
    int64_t entries = 0;
    for (const char *at = text; (at = strstr(at, "\"action\"")) != NULL; at++)
        entries++;
    return entries;
}

static void test_history_is_a_ring(void **state) /* M072 */
{
    (void)state;
    assert_int_equal(tern_memory_record_history(dev0, 4), TERN_OK);
    for (int i = 0; i < 10; i++) {
        TERN_SCOPE;
        (void)bytes_on(dev0, 512 * (i + 1));
    }
    const char *path = file_path("ring.json");
    for (int off = 0; off < 2; off++) { /* switched off, it forgets */
        assert_int_equal(tern_memory_snapshot(dev0, path), TERN_OK);
        assert_int_equal(tern_memory_record_history(dev0, 0), TERN_OK);
        file_bytes content = file_read(path);
        const char end = '\0';
        file_bytes_add(&content, &end, 1);
        const char *text = (const char *)content.data;
        assert_int_equal(entries_of(text), off ? 0 : 4);
        if (!off)
            assert_non_null(strstr(text, "\"size\": 5120, ")); /* the newest stays */
        assert_null(strstr(text, "\"size\": 512, "));
        file_bytes_free(&content);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, clear)
    const struct CMUnitTest tests[] = {
        TEST(test_a_snapshot_is_json),
        TEST(test_a_source_file_whose_name_is_no_utf8),
        TEST(test_a_snapshot_is_written_through_a_link),
        TEST(test_history_is_a_ring),
    };
    const int failed = cmocka_run_group_tests(tests, second_backend_setup, NULL);
    return tern_finish() != 0 ? 1 : failed;
}
