/* Settings strings of the caching allocator and where they come from (M010, M023, M041, M062,
 * M074-M078). Each environment is read in a child of its own, because a process reads it once. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/device_memory.h"
#include "tests/alloc/rig.h"
#include "tests/support/check.h"

static core_alloc_settings settings;
static char why[CORE_ALLOC_WHY_BYTES];

static void good(const char *text)
{
    core_alloc_settings_init(&settings);
    if (core_alloc_settings_parse(&settings, text, true, why) != TERN_OK)
        fail_msg("'%s' was refused: %s", text, why);
}

static void bad(const char *text, const char *words)
{
    core_alloc_settings before;
    core_alloc_settings_init(&settings);
    before = settings;
    assert_int_equal(core_alloc_settings_parse(&settings, text, true, why), TERN_ERR_ARGUMENT);
    if (strstr(why, words) == NULL)
        fail_msg("'%s': no '%s' in '%s'", text, words, why);
    assert_memory_equal(&before, &settings, sizeof settings);
}

static void test_options_and_defaults(void **state) /* M077 */
{
    (void)state;
    good("");
    assert_int_equal(settings.max_split_bytes, INT64_MAX);
    assert_int_equal(settings.max_non_split_rounding_bytes, MIB(20));
    assert_int_equal(settings.large_segment_bytes, MIB(20));
    assert_false(settings.expandable_segments);
    assert_false(settings.has_fraction);
    good("backend:native,max_split_size_mb:128,max_non_split_rounding_mb:40,"
         "garbage_collection_threshold:0.8,expandable_segments:True,"
         "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True,large_segment_size_mb:40,"
         "pinned_max_round_threshold_mb:4,pinned_max_cached_size_mb:64");
    assert_int_equal(settings.max_split_bytes, MIB(128));
    assert_int_equal(settings.max_non_split_rounding_bytes, MIB(40));
    assert_int_equal(settings.large_segment_bytes, MIB(40));
    assert_int_equal(settings.pinned_max_round_bytes, MIB(4));
    assert_int_equal(settings.pinned_max_cached_bytes, MIB(64));
    assert_true(settings.gc_threshold == 0.8 && settings.memory_fraction == 0.5);
    assert_true(settings.expandable_segments && settings.throw_on_oom && settings.has_fraction);
    good("release_lock_on_cudamalloc:True,pinned_use_cuda_host_register:False,"
         "pinned_num_register_threads:128,pinned_use_background_threads:True,"
         "pinned_reserve_segment_size_mb:0,graph_capture_record_stream_reuse:False");
}

static void test_grammar(void **state) /* M075 */
{
    (void)state;
    good(" max_split_size_mb : 64 , expandable_segments : False ");
    assert_int_equal(settings.max_split_bytes, MIB(64));
    bad("expandable_segments:true", "expandable_segments: True or False is needed, not 'true'");
    bad("expandable_segments", "has no value");
    bad("max_split_size_mb:many", "a whole number is needed, not 'many'");
    bad("max_split_size_mb:64MB", "too late, not '64MB'");
    bad("max_split_size_mb:19", "too small, must be at least 20"); /* M023 */
    bad("max_split_size_mb:30,large_segment_size_mb:40",
        "max_split_size_mb: too small beside large_segment_size_mb, must be at least 40");
    bad("large_segment_size_mb:40,max_non_split_rounding_mb:30", "must be at least 40");
    bad("large_segment_size_mb:10", "too small, must be at least 11");
    bad("garbage_collection_threshold:1", "between 0 and 1"); /* M041 */
    bad("garbage_collection_threshold:0", "between 0 and 1");
    bad("per_process_memory_fraction:1.5", "from 0 to 1");
    bad("pinned_num_register_threads:3", "a power of two up to 128");
    bad("backend:cudaMallocAsync", "native"); /* M078 */
    bad("max_splits:20", "unknown key 'max_splits'; known are backend, max_split_size_mb,");
}

static void test_lists(void **state) /* M010 */
{
    (void)state;
    good("roundup_power2_divisions:[256:1,512:2,1024:4,>:8],max_split_size_mb:64");
    static const int expected[CORE_ALLOC_INTERVALS] = { 1, 1, 1, 1, 1, 1, 1, 1,
                                                        1, 2, 4, 8, 8, 8, 8, 8 };
    for (int i = 0; i < CORE_ALLOC_INTERVALS; i++)
        assert_int_equal(settings.divisions[i], expected[i]);
    assert_int_equal(settings.max_split_bytes, MIB(64));
    bad("roundup_power2_divisions:[256:1,512:3]", "a power of two, or 0");
    bad("roundup_power2_divisions:[300:2]", "must be powers of two, in MB");
    bad("roundup_power2_divisions:[256:2", "no end ']'");
    bad("roundup_power2_divisions:[256]", "looks like [256:1,512:2,>:8]");
    bad("roundup_power2_divisions:6", "a power of two, or 0");
}

static void test_again_means_afresh(void **state) /* M076 */
{
    (void)state;
    good("max_split_size_mb:64,roundup_power2_divisions:4,garbage_collection_threshold:0.5,"
         "max_non_split_rounding_mb:40");
    assert_int_equal(core_alloc_settings_parse(&settings, "expandable_segments:True", true, why),
                     TERN_OK);
    assert_int_equal(settings.max_split_bytes, INT64_MAX);
    assert_int_equal(settings.divisions[0], 0);
    assert_true(settings.gc_threshold == 0);
    assert_int_equal(settings.max_non_split_rounding_bytes, MIB(40));
}

static void test_a_lenient_reader_skips_and_names_what_it_does_not_know(void **state)
{
    (void)state;
    core_alloc_settings_init(&settings);
    assert_int_equal(
        core_alloc_settings_parse(&settings, "new_option:[1,2:3],max_split_size_mb:64", false, why),
        TERN_OK);
    assert_int_equal(settings.max_split_bytes, MIB(64));
    assert_non_null(strstr(why, "unknown key 'new_option'"));
}

/* ---- the environment -------------------------------------------------------------------------------- */

typedef struct variables {
    const char *tern, *pytorch, *old, *no_cache, *old_no_cache;
} variables;

static void set(const char *name, const char *value)
{
    if (value != NULL)
        (void)setenv(name, value, 1);
    else
        (void)unsetenv(name);
}

/* What `says` answers in a process with these variables. */
static bool in_child(variables v, bool (*says)(const core_alloc_settings *s, const char *error))
{
    const pid_t child = fork();
    if (child == 0) {
        const char *error;
        set("TERN_ALLOC_CONF", v.tern);
        set("PYTORCH_ALLOC_CONF", v.pytorch);
        set("PYTORCH_CUDA_ALLOC_CONF", v.old);
        set("TERN_NO_CACHE", v.no_cache);
        set("PYTORCH_NO_CUDA_MEMORY_CACHING", v.old_no_cache);
        const core_alloc_settings *read = core_alloc_environment(&error);
        _exit(says(read, error) ? 0 : 1);
    }
    int status = 1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status == 0;
}

static bool split_20(const core_alloc_settings *s, const char *error)
{
    return error == NULL && s->max_split_bytes == MIB(20) && !s->no_cache;
}
static bool split_unlimited(const core_alloc_settings *s, const char *error)
{
    return error == NULL && s->max_split_bytes == INT64_MAX;
}
static bool refused(const core_alloc_settings *s, const char *error)
{
    return error != NULL && strstr(error, "TERN_ALLOC_CONF: unknown key 'x'") != NULL &&
           s->max_split_bytes == INT64_MAX;
}
static bool uncached(const core_alloc_settings *s, const char *error)
{
    return error == NULL && s->no_cache;
}
static bool cached(const core_alloc_settings *s, const char *error)
{
    return error == NULL && !s->no_cache;
}

static void test_three_variables_in_order(void **state) /* M074 */
{
    (void)state;
    const char *yes = "max_split_size_mb:20", *no = "max_split_size_mb:30";
    assert_true(in_child((variables){ .tern = yes, .pytorch = no, .old = no }, split_20));
    assert_true(in_child((variables){ .pytorch = yes, .old = no }, split_20));
    assert_true(in_child((variables){ .old = yes }, split_20));
    assert_true(in_child((variables){ 0 }, split_unlimited));
    assert_true(in_child((variables){ .tern = "", .old = yes }, split_unlimited));
}

static void test_an_unknown_key_is_an_error_in_the_first_only(void **state) /* M075 */
{
    (void)state;
    assert_true(in_child((variables){ .tern = "x:1,max_split_size_mb:20" }, refused));
    assert_true(in_child((variables){ .pytorch = "x:1,max_split_size_mb:20" }, split_20));
    assert_true(in_child((variables){ .old = "max_split_size_mb:20,x:[a,b]" }, split_20));
}

static void test_caching_can_be_switched_off(void **state) /* M062 */
{
    (void)state;
    assert_true(in_child((variables){ .no_cache = "1" }, uncached));
    assert_true(in_child((variables){ .no_cache = "0" }, cached));
    assert_true(in_child((variables){ .no_cache = "" }, cached));
    assert_true(in_child((variables){ .old_no_cache = "0" }, uncached)); /* any value */
}

static void test_without_a_cache_every_request_is_a_raw_call(void **state) /* M062 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    settings = core_alloc_settings_of(r->a);
    settings.no_cache = true;
    assert_int_equal(core_alloc_configure(r->a, &settings), TERN_OK);
    for (int i = 0; i < 3; i++)
        rig_free(r, rig_malloc(r, 1000));
    assert_int_equal(raw_calls(&r->table, RAW_ALLOC), 3);
    assert_int_equal(raw_calls(&r->table, RAW_FREE), 3);
    assert_int_equal(rig_stat(r, CORE_ALLOC_ALLOCATION, CORE_ALLOC_ALL).allocated, 0);
    core_alloc_failure failure;
    assert_null(core_alloc_malloc(r->a, NULL, GIB(2), NULL, &failure));
    assert_int_equal(failure.status, TERN_ERR_OOM);
    core_alloc_block *left = rig_malloc(r, 10); /* delete returns it */
    assert_ptr_equal(core_alloc_find(r->a, left->data), left);
    settings.no_cache = false;
    assert_int_equal(core_alloc_configure(r->a, &settings), TERN_ERR_STATE);
    rig_close(r);
}

/* Memory goes back only once the streams that were recorded are done with it; the free itself is ordered
 * after its own. */
static void test_without_a_cache_recorded_streams_are_waited_for(void **state) /* M021 M062 */
{
    (void)state;
    rig *r = rig_open(GIB(1), "");
    settings = core_alloc_settings_of(r->a);
    settings.no_cache = true;
    assert_int_equal(core_alloc_configure(r->a, &settings), TERN_OK);
    for (int fails = 0; fails < 2; fails++) {
        core_alloc_block *b = core_alloc_malloc(r->a, rig_stream(3), 1000, "t:1", NULL);
        for (int s = 1; s <= 3; s++)
            assert_int_equal(core_alloc_record_stream(r->a, b, rig_stream(s)), TERN_OK);
        for (int s = 1; s <= 3; s++)
            (void)raw_record(r->d, s);
        raw_fail(&r->table, RAW_STREAM_SYNC, fails);
        assert_int_equal(core_alloc_free(r->a, b), fails ? TERN_ERR_BACKEND : TERN_OK);
        assert_int_equal(raw_calls(&r->table, RAW_STREAM_SYNC), 2 * (fails + 1));
        assert_int_equal(raw_marks_ahead(r->d, 1), fails);
        assert_int_equal(raw_marks_ahead(r->d, 2), 0);
        assert_int_equal(raw_marks_ahead(r->d, 3), fails + 1);
        assert_int_equal(raw_used(r->d), 0);
    }
    rig_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_and_defaults),
        cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_again_means_afresh),
        cmocka_unit_test(test_a_lenient_reader_skips_and_names_what_it_does_not_know),
        cmocka_unit_test(test_three_variables_in_order),
        cmocka_unit_test(test_an_unknown_key_is_an_error_in_the_first_only),
        cmocka_unit_test(test_caching_can_be_switched_off),
        cmocka_unit_test(test_without_a_cache_every_request_is_a_raw_call),
        cmocka_unit_test(test_without_a_cache_recorded_streams_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
