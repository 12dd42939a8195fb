/* Means of what a loop reports. What lies on a device is kept there and read in batches, always in
 * the order of the steps, so that a mean does not depend on when a progress line was drawn. */
#ifndef DATA_REPORT_H
#define DATA_REPORT_H

#include "tern/data.h"

enum { REPORT_WAITING = 256 };

typedef struct data_report {
    char name[TERN_REPORT_NAME_BYTES]; /* "": not in use */
    double sum;
    int64_t count;
    tern_tensor *waiting[REPORT_WAITING]; /* retained, not read yet */
    int waiting_count;
} data_report;

typedef struct data_reports {
    data_report all[TERN_REPORTS];
} data_reports;

void data_reports_add(data_reports *reports, const char *name, tern_tensor *value);
/* Reads what waits on devices. */
void data_reports_read(data_reports *reports);
/* Mean of a name after reading; NaN without one. */
double data_reports_mean(data_reports *reports, const char *name);
/* Lets go of what waits. */
void data_reports_clear(data_reports *reports);

#endif
