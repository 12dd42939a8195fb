/* See tests/alloc/rig.h. */
#include "tests/alloc/rig.h"

#include <stdlib.h>

#include "tests/support/check.h"

rig *rig_open(int64_t capacity_bytes, const char *settings)
{
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->d = raw_create(capacity_bytes, false);
    raw_table_init(&r->table, r->d, 0);
    r->a = core_alloc_new(&r->table.raw);
    assert_non_null(r->a);
    core_alloc_settings s;
    char why[CORE_ALLOC_WHY_BYTES];
    core_alloc_settings_init(&s);
    if (core_alloc_settings_parse(&s, settings, true, why) != TERN_OK)
        fail_msg("%s", why);
    assert_int_equal(core_alloc_configure(r->a, &s), TERN_OK);
    return r;
}

void rig_close(rig *r)
{
    char why[CORE_ALLOC_WHY_BYTES];
    if (!core_alloc_check(r->a, why))
        fail_msg("%s", why);
    core_alloc_delete(r->a);
    if (raw_misuse(r->d) != NULL)
        fail_msg("%s", raw_misuse(r->d));
    assert_int_equal(raw_live_ranges(r->d), 0);
    assert_int_equal(raw_live_handles(r->d), 0);
    assert_int_equal(raw_live_events(r->d), 0);
    raw_table_deinit(&r->table);
    raw_destroy(r->d);
    free(r);
}

core_alloc_block *rig_malloc(rig *r, int64_t bytes)
{
    core_alloc_block *block = core_alloc_malloc(r->a, rig_stream(0), bytes, TERN_HERE, NULL);
    assert_non_null(block);
    return block;
}

void rig_free(rig *r, core_alloc_block *block)
{
    assert_int_equal(core_alloc_free(r->a, block), TERN_OK);
}

core_alloc_stat rig_stat(rig *r, core_alloc_family family, core_alloc_column column)
{
    return core_alloc_stats_of(r->a).family[family][column];
}
int64_t rig_allocated(rig *r)
{
    return rig_stat(r, CORE_ALLOC_ALLOCATED_BYTES, CORE_ALLOC_ALL).current;
}
int64_t rig_reserved(rig *r)
{
    return rig_stat(r, CORE_ALLOC_RESERVED_BYTES, CORE_ALLOC_ALL).current;
}
int64_t rig_segments(rig *r)
{
    return rig_stat(r, CORE_ALLOC_SEGMENT, CORE_ALLOC_ALL).current;
}
