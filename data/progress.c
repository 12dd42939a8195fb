#include "data/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE_BYTES = 512, BAR_CELLS_MAX = 20, BAR_CELLS_MIN = 5, COLUMNS_DEFAULT = 80 };

static const double redraw_seconds = 0.1;

typedef struct progress_line {
    char text[LINE_BYTES];
    int length;
} progress_line;

__attribute__((format(printf, 2, 3))) static void add(progress_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int room = LINE_BYTES - line->length;
    int wrote = vsnprintf(line->text + line->length, (size_t)room, format, arguments);
    va_end(arguments);
    if (wrote > 0) {
        line->length += wrote < room ? wrote : room - 1;
    }
}

static void add_time(progress_line *line, double seconds)
{
    seconds = seconds < DATA_SECONDS_MAX ? seconds : DATA_SECONDS_MAX;
    int64_t whole = (int64_t)(seconds + 0.5);
    if (seconds < 10) {
        add(line, "%.1f s", seconds);
    } else if (whole < 60) {
        add(line, "%d s", (int)whole);
    } else if (whole < 3600) {
        add(line, "%d:%02d min", (int)(whole / 60), (int)(whole % 60));
    } else {
        add(line, "%lld:%02d h", (long long)(whole / 3600), (int)(whole / 60 % 60));
    }
}

static void add_means(progress_line *line, data_reports *reports, const char *separator)
{
    for (int i = 0; i < TERN_REPORTS; i++) {
        const data_report *report = &reports->all[i];
        if (report->name[0] != '\0') {
            add(line, "%s%s %.4f", separator, report->name,
                data_reports_mean(reports, report->name));
        }
    }
}

/* Everything behind the bar (or, off a terminal, behind the percentage). */
static void add_numbers(progress_line *line, const data_progress_state *state,
                        data_reports *reports, const char *separator)
{
    add_means(line, reports, separator);
    if (state->samples_per_second > 0) { /* nothing is measured where a stored pass goes on */
        add(line, "%s%.0f samples/s", separator, state->samples_per_second);
    }
    add(line, "%s", separator);
    if (state->step == state->steps || state->seconds_left < 0) {
        add_time(line, state->seconds);
    } else {
        add_time(line, state->seconds_left);
        add(line, " left");
    }
}

static int terminal_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    return COLUMNS_DEFAULT;
}

static void add_bar(progress_line *line, int cells, double done, bool has_utf8)
{
    int full = (int)(done * cells + 0.5);
    for (int i = 0; i < cells; i++) {
        if (has_utf8) {
            add(line, "%s", i < full ? "\xe2\x94\x81" : "\xe2\x94\x80"); /* heavy and light rule */
        } else {
            add(line, "%s", i < full ? "#" : ".");
        }
    }
}

/* A line that wrapped could not be drawn over, so what does not fit is left out, by whole characters. */
static void cut(progress_line *line, int cells)
{
    if (line->length <= cells) {
        return;
    }
    line->length = cells > 0 ? cells : 0;
    while (line->length > 0 && (line->text[line->length] & 0xc0) == 0x80) {
        line->length--;
    }
    line->text[line->length] = '\0';
}

/* Rounded down, once. */
static int percent(const data_progress_state *state)
{
    return (int)(100.0 * (double)state->step / (double)state->steps);
}

/* label bar 62% loss 0.0812  21340 samples/s  2.1 s left; on a narrow terminal the bar is shorter or
 * missing, then the end is. */
static void draw_bar(const data_progress *progress, const data_progress_state *state,
                     data_reports *reports)
{
    const double done = (double)state->step / (double)state->steps;
    progress_line label = { .length = 0 }, numbers = { .length = 0 }, bar = { .length = 0 };
    add(&label, "%s%s", progress->label, progress->label[0] ? " " : "");
    add(&numbers, " %3d%%", percent(state));
    add_numbers(&numbers, state, reports, "  ");
    const int columns = terminal_columns() - 1;
    cut(&label, columns);
    cut(&numbers, columns - label.length);
    const int room = columns - label.length - numbers.length;
    const int cells = room > BAR_CELLS_MAX ? BAR_CELLS_MAX : room;
    if (cells >= BAR_CELLS_MIN) {
        add_bar(&bar, cells, done, progress->has_utf8);
    }
    fprintf(stderr, "\r%s%s%s\033[K", label.text, bar.text, numbers.text);
}

static void draw_plain(const data_progress *progress, const data_progress_state *state,
                       data_reports *reports)
{
    progress_line line = { .length = 0 };
    add(&line, "%s%s%d%%, step %lld of %lld", progress->label, progress->label[0] ? ": " : "",
        percent(state), (long long)state->step, (long long)state->steps);
    add_numbers(&line, state, reports, ", ");
    fprintf(stderr, "%s\n", line.text);
}

static bool locale_has_utf8(void)
{
    const char *names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0] != '\0') {
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
        }
    }
    return false;
}

void data_progress_start(data_progress *progress, bool is_on, const char *label)
{
    *progress = (data_progress){ .is_on = is_on };
    if (!is_on) {
        return;
    }
    const char *term = getenv("TERM");
    progress->is_terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    progress->has_utf8 = locale_has_utf8();
    progress_line line = { .length = 0 };
    add(&line, "%s", label ? label : "");
    cut(&line, PROGRESS_LABEL_BYTES - 1);
    memcpy(progress->label, line.text, (size_t)line.length + 1);
}

bool data_progress_is_due(const data_progress *progress, int64_t step, int64_t steps, double now)
{
    if (!progress->is_on || step == 0) {
        return false;
    }
    if (progress->is_terminal) {
        return step != progress->drawn &&
               (step == steps || now - progress->drawn_at >= redraw_seconds);
    }
    return step * 10 / steps > progress->tenths_said;
}

void data_progress_draw(data_progress *progress, const data_progress_state *state,
                        data_reports *reports, double now)
{
    progress->drawn_at = now;
    if (progress->is_terminal) {
        progress->is_line_open = true;
        progress->drawn = state->step;
        draw_bar(progress, state, reports);
    } else {
        progress->tenths_said = (int)(state->step * 10 / state->steps);
        draw_plain(progress, state, reports);
    }
}

void data_progress_rewind(data_progress *progress)
{
    progress->drawn = 0;
    progress->tenths_said = 0;
}

void data_progress_end(data_progress *progress)
{
    if (progress->is_line_open) {
        fputc('\n', stderr);
        progress->is_line_open = false;
    }
}
