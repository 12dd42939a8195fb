#include "data/report.h"

#include <math.h>
#include <string.h>

#include "data/fail.h"
#include "data/scope.h"
#include "tern/ops.h"

static const char what[] = "loader_report";

static data_report *find(data_reports *reports, const char *name)
{
    for (int i = 0; i < TERN_REPORTS; i++) {
        if (strcmp(reports->all[i].name, name) == 0) {
            return &reports->all[i];
        }
    }
    return NULL;
}

/* A position with it goes into files, whose texts are UTF-8. */
static bool is_text(const char *name)
{
    tern_state *state = tern_state_create();
    const bool can = tern_state_set_text(state, "name", name) == TERN_OK;
    tern_state_free(state);
    if (tern_error_code() == TERN_ERR_ARGUMENT) {
        tern_error_clear();
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "the name '%s' is not UTF-8", name);
    }
    return can;
}

static data_report *find_or_add(data_reports *reports, const char *name)
{
    data_report *report = find(reports, name);
    if (report) {
        return report;
    }
    report = find(reports, "");
    if (!report) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "'%s' is one name too many: at most %d", name,
                  TERN_REPORTS);
        return NULL;
    }
    if (!is_text(name)) {
        return NULL;
    }
    strncpy(report->name, name, sizeof report->name - 1);
    return report;
}

static void add_value(data_report *report, double value)
{
    report->sum += value;
    report->count++;
}

/* What cannot be read while an error is pending waits on. */
static void read_waiting(data_report *report)
{
    int read = 0;
    while (read < report->waiting_count && !tern_failed()) {
        double value = tern_item(report->waiting[read]);
        if (!tern_failed()) {
            add_value(report, value);
        }
        tern_release(report->waiting[read++]);
    }
    report->waiting_count -= read;
    memmove(report->waiting, report->waiting + read,
            (size_t)report->waiting_count * sizeof *report->waiting);
}

void data_reports_add(data_reports *reports, const char *name, tern_tensor *value)
{
    if (!name || name[0] == '\0' || strlen(name) >= TERN_REPORT_NAME_BYTES) {
        DATA_FAIL(TERN_ERR_ARGUMENT, what, "a name has 1 to %d characters",
                  TERN_REPORT_NAME_BYTES - 1);
        return;
    }
    if (!value || tern_numel(value) != 1) {
        DATA_FAIL(value ? TERN_ERR_SHAPE : TERN_ERR_ARGUMENT, what, "'%s' is %s, not one number",
                  name, value ? "a tensor of several elements" : "NULL");
        return;
    }
    data_report *report = find_or_add(reports, name);
    if (!report) {
        return;
    }
    if (tern_device(value).kind == TERN_KIND_CPU) {
        add_value(report, tern_item(value));
        return;
    }
    if (report->waiting_count == REPORT_WAITING) {
        read_waiting(report);
    }
    DATA_SCOPE;
    /* what is written in place later, a sum over the steps, is not what was reported */
    tern_tensor *copy = tern_clone(tern_detach(value));
    if (copy && report->waiting_count < REPORT_WAITING) {
        report->waiting[report->waiting_count++] = tern_retain(copy);
    }
}

void data_reports_read(data_reports *reports)
{
    for (int i = 0; i < TERN_REPORTS; i++) {
        read_waiting(&reports->all[i]);
    }
}

double data_reports_mean(data_reports *reports, const char *name)
{
    data_report *report = name && name[0] != '\0' ? find(reports, name) : NULL;
    if (report) {
        read_waiting(report);
    }
    const double mean = report && report->count > 0 ? report->sum / (double)report->count : NAN;
    return isnan(mean) ? NAN : mean; /* without its sign, which printf would show: -nan */
}

void data_reports_clear(data_reports *reports)
{
    for (int i = 0; i < TERN_REPORTS; i++) {
        data_report *report = &reports->all[i];
        for (int j = 0; j < report->waiting_count; j++) {
            tern_release(report->waiting[j]);
        }
        report->waiting_count = 0;
    }
}
