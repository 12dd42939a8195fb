/* Where the CPU's memory comes from is chosen before the first tensor: each test has a process of its
 * own. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/pool.h"
#include "tests/support/check.h"

/* cmocka's asserts belong to the parent. */
#define EXPECT(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            (void)fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, \
                          tern_error_text());                                        \
            return 1;                                                                \
        }                                                                            \
    } while (0)

static void in_child(int (*body)(void))
{
    const pid_t id = fork();
    if (id == 0)
        _exit(body());
    int status = -1;
    assert_int_equal(waitpid(id, &status, 0), id);
    assert_int_equal(status, 0);
}

typedef struct source {
    int64_t bytes; /* out there */
    int calls, fail_at;
} source;

static void *take(int64_t bytes, int device, void *stream, void *user)
{
    source *s = user;
    if (device != 0 || stream != NULL || ++s->calls == s->fail_at)
        return NULL;
    s->bytes += bytes;
    return aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
}

static void give(void *data, int64_t bytes, int device, void *stream, void *user)
{
    (void)device, (void)stream;
    ((source *)user)->bytes -= bytes;
    free(data);
}

static tern_tensor *bytes_of(int64_t bytes)
{
    return tern_empty(TERN_SHAPE(bytes), .dtype = TERN_U8);
}

static int use_all_sizes(void)
{
    static const int64_t sizes[] = { 100, 1000, 700 << 10, 3 << 20, 12 << 20, 40 << 20 };
    int refused = 0;
    TERN_SCOPE;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tern_tensor *t = bytes_of(sizes[i]);
        if (t == NULL) {
            EXPECT(tern_error_code() == TERN_ERR_OOM);
            tern_error_clear();
            refused++;
            t = bytes_of(sizes[i]); /* nothing is poisoned */
        }
        EXPECT(t != NULL);
        char *data = tern_data(t);
        data[0] = data[sizes[i] - 1] = 1;
    }
    EXPECT(refused <= 1);
    return 0;
}

static source memory;

static int cached(void)
{
    EXPECT(tern_set_raw_allocator(TERN_CPU, .alloc = take, .free = give, .user = &memory,
                                  .cached = true) == TERN_OK);
    /* every raw call fails in turn; the allocator tries again by itself, or the request is refused */
    for (int k = 1;; k++) {
        memory.calls = 0;
        memory.fail_at = k;
        if (use_all_sizes() != 0)
            return 1;
        const int calls = memory.calls;
        memory.fail_at = 0;
        tern_empty_cache(TERN_CPU);
        EXPECT(memory.bytes == 0);
        EXPECT(tern_memory(TERN_CPU).allocated_bytes == 0);
        if (calls < k)
            break;
    }
#ifndef CORE_POOL_BYPASS
    EXPECT(use_all_sizes() == 0);
    const int calls = memory.calls;
    EXPECT(use_all_sizes() == 0);
    EXPECT(memory.calls == calls);
#endif
    EXPECT(tern_set_raw_allocator(TERN_CPU, .alloc = take, .free = give) == TERN_ERR_STATE);
    return 0;
}

static int uncached(void)
{
    EXPECT(tern_set_raw_allocator(TERN_CPU, .alloc = take, .free = give, .user = &memory) ==
           TERN_OK);
    EXPECT(use_all_sizes() == 0);
    EXPECT(memory.calls == 5); /* 100 bytes are in the tensor's own memory */
    EXPECT(memory.bytes == 0);
    EXPECT(use_all_sizes() == 0);
    EXPECT(memory.calls == 10);
    return 0;
}

static int without_cache(void)
{
    (void)setenv("TERN_NO_CACHE", "1", 1);
    EXPECT(use_all_sizes() == 0);
    const int64_t slabs = core_pool_slab_count() * CORE_SLAB_BYTES;
    EXPECT(tern_memory(TERN_CPU).allocated_bytes == 0);
    EXPECT(tern_memory(TERN_CPU).reserved_bytes == slabs);
    {
        TERN_SCOPE;
        (void)bytes_of(3000);
        EXPECT(tern_memory(TERN_CPU).allocated_bytes == 3000);
        EXPECT(tern_memory(TERN_CPU).reserved_bytes == slabs + 3000);
        EXPECT(tern_memory_stat(TERN_CPU, "segment.large_pool.current") == 0);
        char path[64];
        (void)snprintf(path, sizeof path, "/tmp/tern_test_%d.json", (int)getpid());
        EXPECT(tern_memory_snapshot(TERN_CPU, path) == TERN_OK);
        (void)remove(path);
    }
    EXPECT(use_all_sizes() == 0);
    return 0;
}

static void test_a_cached_source(void **state)
{
    (void)state;
    in_child(cached);
}
static void test_a_source_without_a_cache(void **state)
{
    (void)state;
    in_child(uncached);
}
static void test_no_cache_at_all(void **state)
{
    (void)state;
    in_child(without_cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cached_source),
        cmocka_unit_test(test_a_source_without_a_cache),
        cmocka_unit_test(test_no_cache_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
