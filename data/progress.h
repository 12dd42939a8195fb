/* The progress of a pass on stderr, for a program that asked for it: one line that is drawn over
 * again on a terminal, else about ten lines. */
#ifndef DATA_PROGRESS_H
#define DATA_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "data/report.h"

enum { PROGRESS_LABEL_BYTES = 48 };

/* Longer than any pass: what a position says is refused above it, and a line shows no more. */
#define DATA_SECONDS_MAX 1e12

typedef struct data_progress {
    bool is_on, is_terminal, has_utf8;
    bool is_line_open; /* the terminal's line has no newline yet */
    int tenths_said;   /* of a pass that is not on a terminal */
    double drawn_at;   /* seconds */
    int64_t drawn;     /* the step of a terminal's line, 0: none; a loop may ask at its end again */
    char label[PROGRESS_LABEL_BYTES];
} data_progress;

typedef struct data_progress_state {
    int64_t step, steps;
    double samples_per_second;
    double seconds;      /* so far */
    double seconds_left; /* negative: not known */
} data_progress_state;

void data_progress_start(data_progress *progress, bool is_on, const char *label);
/* Whether a line should be drawn now; asked at every step, so it costs next to nothing. */
bool data_progress_is_due(const data_progress *progress, int64_t step, int64_t steps, double now);
void data_progress_draw(data_progress *progress, const data_progress_state *state,
                        data_reports *reports, double now);
/* Another place in the pass: what is drawn of it from now on does not depend on what was before. */
void data_progress_rewind(data_progress *progress);
/* Ends the terminal's line, so that what is printed next has its own. */
void data_progress_end(data_progress *progress);

#endif
