/* Progress on a terminal: one line, drawn over again. stderr is a pseudoterminal here, and what it
 * received is put on a screen as a terminal would. Off a terminal: test_data_loader.c. */
#include "tests/support/check.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "data/progress.h"

enum { BYTES = 1 << 14, ROWS = 8, CELLS = 256 };

static const char end_mark[] = "<end>";

typedef struct terminal {
    int ours, kept;
    char text[BYTES];       /* as it came */
    char rows[ROWS][CELLS]; /* what a reader sees */
    int widest;             /* cells that were ever used */
    int overwrites, opened; /* \r without \n, and lines */
} terminal;

/* From here on stderr is a terminal of so many columns. */
static void terminal_open(terminal *t, unsigned short columns, const char *term, const char *locale)
{
    *t = (terminal){ .ours = posix_openpt(O_RDWR | O_NOCTTY) };
    const struct winsize size = { .ws_row = ROWS, .ws_col = columns };
    if (t->ours < 0 || grantpt(t->ours) != 0 || unlockpt(t->ours) != 0) {
        print_message("skipped: no pseudoterminal here\n");
        skip();
    }
    const int theirs = open(ptsname(t->ours), O_RDWR | O_NOCTTY);
    assert_true(theirs >= 0);
    assert_int_equal(ioctl(theirs, TIOCSWINSZ, &size), 0);
    (void)setenv("TERM", term, 1);
    (void)setenv("LC_ALL", locale, 1);
    (void)fflush(stderr);
    t->kept = dup(STDERR_FILENO);
    assert_true(t->kept >= 0 && dup2(theirs, STDERR_FILENO) >= 0);
    close(theirs);
}

/* Carriage return, newline, "erase to the end of the line", and characters one cell wide. */
static void show_on_screen(terminal *t)
{
    int row = 0, cell = 0;
    for (const char *at = t->text; *at != '\0'; at++) {
        if (*at == '\r') {
            t->overwrites += at[1] != '\n';
            cell = 0;
        } else if (*at == '\n') {
            assert_true(++row < ROWS);
        } else if (strncmp(at, "\033[K", 3) == 0) {
            memset(t->rows[row] + cell, 0, (size_t)(CELLS - cell));
            at += 2;
        } else {
            assert_true(cell < CELLS - 1);
            t->rows[row][cell++] = *at;
            t->widest = cell > t->widest ? cell : t->widest;
        }
    }
    t->opened = row;
}

/* stderr is again what it was; the terminal hands over with some delay, hence the mark. */
static void terminal_close(terminal *t)
{
    size_t used = 0;
    (void)fputs(end_mark, stderr);
    (void)fflush(stderr);
    char *end = NULL;
    while (end == NULL) {
        const ssize_t got = read(t->ours, t->text + used, sizeof t->text - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
        end = strstr(t->text, end_mark);
    }
    assert_true(dup2(t->kept, STDERR_FILENO) >= 0);
    close(t->kept);
    close(t->ours);
    assert_non_null(end);
    *end = '\0';
    show_on_screen(t);
}

/* Lines at 12, 50 and 100 of 100 steps, each shorter than the one before, and their end. */
static void draw_three(data_progress *progress)
{
    data_reports reports = { 0 };
    data_progress_start(progress, true, "epoch 1/3");
    data_reports_add(&reports, "loss", tern_full(1.25, TERN_SCALAR_SHAPE));
    data_progress_state state = { 12, 100, 21340, 4, 605 };
    data_progress_draw(progress, &state, &reports, 1);
    data_reports_add(&reports, "loss", tern_full(0.75, TERN_SCALAR_SHAPE));
    state = (data_progress_state){ 50, 100, 9876, 5, 42 };
    data_progress_draw(progress, &state, &reports, 2);
    state = (data_progress_state){ 100, 100, 987, 7.25, 0 };
    data_progress_draw(progress, &state, &reports, 3);
    data_progress_end(progress);
    data_progress_end(progress); /* nothing more */
}

static void test_line_is_drawn_over_and_ends_with_the_time_taken(void **state)
{
    (void)state;
    TERN_SCOPE;
    terminal t;
    data_progress progress;
    terminal_open(&t, 100, "xterm", "C");
    draw_three(&progress);
    terminal_close(&t);
    assert_true(progress.is_terminal);
    assert_string_equal(
        t.text,
        "\repoch 1/3 ##..................  12%  loss 1.2500  21340 samples/s  10:05 min left\033[K"
        "\repoch 1/3 ##########..........  50%  loss 1.0000  9876 samples/s  42 s left\033[K"
        "\repoch 1/3 #################### 100%  loss 1.0000  987 samples/s  7.2 s\033[K\r\n");
    assert_int_equal(t.overwrites, 3);
    assert_int_equal(t.opened, 1);
    assert_string_equal(t.rows[0],
                        "epoch 1/3 #################### 100%  loss 1.0000  987 samples/s  7.2 s");
    assert_string_equal(t.rows[1], "");
}

static void test_bar_is_of_rules_where_they_can_be_shown(void **state)
{
    (void)state;
    TERN_SCOPE;
    terminal t;
    data_progress progress;
    terminal_open(&t, 100, "xterm", "C.UTF-8");
    draw_three(&progress);
    terminal_close(&t);
    assert_non_null(strstr(t.text, "\repoch 1/3 \xe2\x94\x81\xe2\x94\x81\xe2\x94\x80"));
    assert_null(strchr(t.text, '#'));
}

/* A line that wrapped would stay: \r goes back to the last row of it alone. */
static void test_line_fits_any_terminal(void **state)
{
    (void)state;
    TERN_SCOPE;
    for (unsigned short columns = 1; columns <= 120; columns++) {
        terminal t;
        data_progress progress;
        terminal_open(&t, columns, "xterm", "C");
        draw_three(&progress);
        terminal_close(&t);
        assert_true(t.widest < columns);
        assert_int_equal(t.opened, 1);
        assert_true((strchr(t.text, '#') != NULL) == (columns >= 56));
    }
}

static void test_dumb_terminal_gets_plain_lines(void **state)
{
    (void)state;
    TERN_SCOPE;
    terminal t;
    data_progress progress;
    terminal_open(&t, 100, "dumb", "C");
    draw_three(&progress);
    terminal_close(&t);
    assert_false(progress.is_terminal);
    assert_int_equal(t.overwrites, 0);
    assert_int_equal(t.opened, 3);
    assert_string_equal(
        t.rows[0], "epoch 1/3: 12%, step 12 of 100, loss 1.2500, 21340 samples/s, 10:05 min left");
    assert_string_equal(t.rows[2],
                        "epoch 1/3: 100%, step 100 of 100, loss 1.0000, 987 samples/s, 7.2 s");
}

/* One line of these steps and times, as a reader of a plain terminal sees it. */
static void draw_one(data_progress_state at, char line[CELLS])
{
    terminal t;
    data_progress progress;
    data_reports reports = { 0 };
    terminal_open(&t, 100, "dumb", "C");
    data_progress_start(&progress, true, NULL);
    data_progress_draw(&progress, &at, &reports, 1);
    data_progress_end(&progress);
    terminal_close(&t);
    memcpy(line, t.rows[0], CELLS);
}

static void test_percentages_are_rounded_once(void **state)
{
    (void)state;
    for (int step = 1; step <= 100; step++) {
        char line[CELLS], want[CELLS];
        draw_one((data_progress_state){ step, 100, 0, 0, -1 }, line);
        snprintf(want, sizeof want, "%d%%, step %d of 100, 0.0 s", step, step);
        assert_string_equal(line, want);
    }
}

static void test_times_that_no_pass_takes_are_shown(void **state)
{
    (void)state;
    const double times[] = { 1e300, (double)INFINITY };
    for (int i = 0; i < 2; i++) {
        char line[CELLS];
        draw_one((data_progress_state){ 1, 2, 0, times[i], times[i] }, line);
        assert_string_equal(line, "50%, step 1 of 2, 277777777:46 h left");
    }
}

/* A pass that goes on where another stopped has measured nothing at first. */
static void test_speed_that_is_not_known_is_left_out(void **state)
{
    (void)state;
    TERN_SCOPE;
    terminal t;
    data_progress progress;
    data_reports reports = { 0 };
    terminal_open(&t, 100, "dumb", "C");
    data_progress_start(&progress, true, "epoch 1/3");
    data_reports_add(&reports, "loss", tern_full(1.25, TERN_SCALAR_SHAPE));
    const data_progress_state begun = { 12, 100, 0, 4, -1 };
    data_progress_draw(&progress, &begun, &reports, 1);
    terminal_close(&t);
    assert_string_equal(t.rows[0], "epoch 1/3: 12%, step 12 of 100, loss 1.2500, 4.0 s");
}

static void test_label_is_cut_between_characters(void **state)
{
    (void)state;
    data_progress progress;
    char label[62] = { 0 };
    for (int i = 0; i < 30; i++)
        memcpy(label + 2 * i, "\xc3\xa4", 2); /* two bytes each: 47 would end within one */
    data_progress_start(&progress, true, label);
    assert_int_equal(strlen(progress.label), 46);
    label[0] = 'a';
    label[1] = 'b';
    label[46] = '\0';
    data_progress_start(&progress, true, label);
    assert_string_equal(progress.label, label);
    data_progress_start(&progress, true, NULL);
    assert_string_equal(progress.label, "");
}

static void test_line_is_due_ten_times_a_second_and_at_the_end(void **state)
{
    (void)state;
    data_progress progress = { .is_on = true, .is_terminal = true, .drawn_at = 5 };
    assert_false(data_progress_is_due(&progress, 0, 100, 9));
    assert_false(data_progress_is_due(&progress, 1, 100, 5.09));
    assert_true(data_progress_is_due(&progress, 1, 100, 5.11));
    assert_true(data_progress_is_due(&progress, 100, 100, 5.01));
    progress.drawn = 100;
    assert_false(data_progress_is_due(&progress, 100, 100, 9));
    data_progress_rewind(&progress);
    assert_true(data_progress_is_due(&progress, 100, 100, 9));
    progress.is_on = false;
    assert_false(data_progress_is_due(&progress, 100, 100, 9));
}

/* Who asks once more at the end gets no second line, and who goes back to the beginning gets new ones. */
static void test_pass_is_shown_once(void **state)
{
    (void)state;
    TERN_SCOPE;
    terminal t;
    tern_batch b;
    tern_dataset *data = tern_dataset_from_tensors(tern_zeros(TERN_SHAPE(4, 2)));
    for (int is_dumb = 0; is_dumb < 2; is_dumb++) {
        terminal_open(&t, 100, is_dumb ? "dumb" : "xterm", "C");
        tern_loader *loader = tern_loader_open(data, .batch = 4, .progress = true, .label = "pass");
        const tern_position_t begin = tern_loader_position(loader);
        for (int pass = 0; pass < 2; pass++) {
            assert_true(tern_loader_next(loader, &b));
            for (int i = 0; i < 3; i++)
                assert_false(tern_loader_next(loader, &b));
            assert_int_equal(tern_loader_seek(loader, &begin), TERN_OK);
        }
        tern_loader_close(loader);
        terminal_close(&t);
        assert_non_null(strstr(t.rows[0], "100%"));
        assert_non_null(strstr(t.rows[1], "100%"));
        assert_string_equal(t.rows[2], "");
    }
    tern_dataset_free(data);
}

/* A loader's own pass: to its end, or closed before, the next line of output has its own. */
static void test_pass_of_a_loader_ends_its_line(void **state)
{
    (void)state;
    for (int steps = 5; steps <= 103; steps += 98) {
        TERN_SCOPE;
        terminal t;
        tern_batch b;
        tern_dataset *data = tern_dataset_from_tensors(
            tern_zeros(TERN_SHAPE(103, 2)), tern_zeros(TERN_SHAPE(103), .dtype = TERN_I64));
        terminal_open(&t, 100, "xterm", "C");
        tern_loader *loader = tern_loader_open(data, .batch = 1, .progress = true, .label = "pass");
        for (int i = 0; i < steps + (steps == 103) && tern_loader_next(loader, &b); i++)
            tern_loader_report(loader, "loss", tern_full(0.5, TERN_SCALAR_SHAPE));
        tern_loader_close(loader);
        terminal_close(&t);
        tern_dataset_free(data);
        assert_no_error();
        assert_int_equal(t.opened, 1);
        assert_int_equal(strncmp(t.rows[0], "pass ", 5), 0);
        assert_non_null(strstr(t.rows[0], "%  loss 0.5000  "));
        assert_non_null(strstr(t.rows[0], " samples/s  "));
        assert_true((strstr(t.rows[0], "################## 100%") != NULL) == (steps == 103));
        assert_true((strstr(t.rows[0], " left") != NULL) == (steps != 103));
        assert_string_equal(t.rows[1], "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_is_drawn_over_and_ends_with_the_time_taken),
        cmocka_unit_test(test_bar_is_of_rules_where_they_can_be_shown),
        cmocka_unit_test(test_line_fits_any_terminal),
        cmocka_unit_test(test_dumb_terminal_gets_plain_lines),
        cmocka_unit_test(test_percentages_are_rounded_once),
        cmocka_unit_test(test_times_that_no_pass_takes_are_shown),
        cmocka_unit_test(test_speed_that_is_not_known_is_left_out),
        cmocka_unit_test(test_label_is_cut_between_characters),
        cmocka_unit_test(test_line_is_due_ten_times_a_second_and_at_the_end),
        cmocka_unit_test(test_pass_is_shown_once),
        cmocka_unit_test(test_pass_of_a_loader_ends_its_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
