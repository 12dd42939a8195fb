/* Positions in states: what a stopped run needs to go on with its pass. */
#include <stdio.h>
#include <string.h>

#include "data/fail.h"
#include "data/progress.h"
#include "tern/data.h"

enum { NAME_BYTES = 160 };

/* "<prefix>.<field>", or the field alone without a prefix. */
static const char *join(char name[NAME_BYTES], const char *prefix, const char *field)
{
    const bool alone = !prefix || !*prefix;
    snprintf(name, NAME_BYTES, "%s%s%s", alone ? "" : prefix, alone ? "" : ".", field);
    return name;
}

/* "loader.reports.0.sum" */
static const char *join_report(char name[NAME_BYTES], const char *prefix, int i, const char *field)
{
    char end[32];
    snprintf(end, sizeof end, "reports.%d.%s", i, field);
    return join(name, prefix, end);
}

/* One without a name is none; the state may have been stored into before, and have one in its place. A name that
 * fills its place has no end there, and is cut as tern_loader_seek cuts it. */
static void store_report(const tern_position_t *position, int i, tern_state *state,
                         const char *prefix)
{
    char name[NAME_BYTES], text[TERN_REPORT_NAME_BYTES];
    snprintf(text, sizeof text, "%.*s", TERN_REPORT_NAME_BYTES - 1, position->reports[i].name);
    join_report(name, prefix, i, "name");
    if (text[0] == '\0' && !tern_state_text(state, name)) {
        return;
    }
    tern_state_set_text(state, name, text);
    tern_state_set_number(state, join_report(name, prefix, i, "sum"), position->reports[i].sum);
    tern_state_set_int(state, join_report(name, prefix, i, "count"), position->reports[i].count);
}

static void store(const tern_position_t *position, tern_state *state, const char *prefix)
{
    char name[NAME_BYTES];
    tern_state_set_int(state, join(name, prefix, "seed"), (int64_t)position->seed);
    tern_state_set_int(state, join(name, prefix, "call"), (int64_t)position->call);
    tern_state_set_int(state, join(name, prefix, "step"), position->step);
    tern_state_set_int(state, join(name, prefix, "samples"), position->samples);
    tern_state_set_number(state, join(name, prefix, "seconds"), position->seconds);
    for (int i = 0; i < TERN_REPORTS; i++) {
        store_report(position, i, state, prefix);
    }
}

static void restore_report(tern_position_t *position, int i, const tern_state *state,
                           const char *prefix)
{
    char name[NAME_BYTES];
    const char *text = tern_state_text(state, join_report(name, prefix, i, "name"));
    if (!text) {
        return;
    }
    if (!tern_failed() && strlen(text) >= TERN_REPORT_NAME_BYTES) {
        DATA_FAIL(TERN_ERR_FORMAT, "position_restore", "%s: '%s' is longer than %d bytes",
                  tern_state_source(state), name, TERN_REPORT_NAME_BYTES - 1);
        return;
    }
    snprintf(position->reports[i].name, TERN_REPORT_NAME_BYTES, "%s", text);
    tern_state_get_number(state, join_report(name, prefix, i, "sum"), &position->reports[i].sum);
    tern_state_get_count(state, join_report(name, prefix, i, "count"), &position->reports[i].count);
}

static void restore(tern_position_t *position, const tern_state *state, const char *prefix)
{
    char name[NAME_BYTES];
    int64_t seed = 0;
    int64_t call = 0;
    tern_state_get_int(state, join(name, prefix, "seed"), &seed);
    tern_state_get_int(state, join(name, prefix, "call"), &call);
    position->seed = (uint64_t)seed;
    position->call = (uint64_t)call;
    tern_state_get_count(state, join(name, prefix, "step"), &position->step);
    tern_state_get_count(state, join(name, prefix, "samples"), &position->samples);
    tern_state_get_number(state, join(name, prefix, "seconds"), &position->seconds);
    if (!tern_failed() && !(position->seconds >= 0 && position->seconds <= DATA_SECONDS_MAX)) {
        DATA_FAIL(TERN_ERR_FORMAT, "position_restore", "%s: '%s' is %g", tern_state_source(state),
                  name, position->seconds);
    }
    for (int i = 0; i < TERN_REPORTS; i++) {
        restore_report(position, i, state, prefix);
    }
}

static bool check(const char *what, const tern_position_t *position, const tern_state *state,
                  const char *prefix)
{
    enum { PREFIX_BYTES = 100 };
    if (!tern_failed() && !position) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "the position is NULL");
    } else if (!tern_failed() && !state) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "the state is NULL");
    } else if (!tern_failed() && prefix && strlen(prefix) > PREFIX_BYTES) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "the prefix is longer than %d bytes", PREFIX_BYTES);
    }
    return !tern_failed();
}

tern_status_t tern_position_store_at(tern_site_t site, const tern_position_t *position,
                                     tern_state *state, const char *prefix)
{
    static const char what[] = "position_store";
    tern_site_t previous = tern_site_begin(site);
    const char *outer = tern_calling_begin(what);
    if (check(what, position, state, prefix)) {
        store(position, state, prefix);
    }
    tern_calling_end(outer);
    tern_site_end(previous);
    return tern_error_code();
}

tern_status_t tern_position_restore_at(tern_site_t site, tern_position_t *out_position,
                                       const tern_state *state, const char *prefix)
{
    tern_site_t previous = tern_site_begin(site);
    const char *outer = tern_calling_begin("position_restore");
    tern_position_t position = { .seed = 0 };
    if (check("position_restore", out_position, state, prefix)) {
        restore(&position, state, prefix);
    }
    tern_calling_end(outer);
    if (!tern_failed()) {
        *out_position = position;
    }
    tern_site_end(previous);
    return tern_error_code();
}
