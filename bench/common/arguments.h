/* What a benchmark is asked to do: options anywhere on the line, and names of works. All programs take --threads N,
 * --device D (where all tensors are made), --json, which changes nothing where lines are JSON anyway, and --help. */
#ifndef TERN_BENCH_ARGUMENTS_H
#define TERN_BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* One of a program's own; the pointer that is not NULL says what follows it: a number, any text, or nothing. */
typedef struct bench_option {
    const char *name; /* without dashes */
    int64_t *number;
    const char **text;
    bool *flag;
} bench_option;

/* What all programs take. */
typedef struct bench_asked {
    int threads;        /* 0: none were named; else the library uses as many */
    const char *device; /* NULL: none was named; else it is the default device */
    bool json;
} bench_asked;

/* `usage` follows the program's name in what --help prints. `options` end with a name of NULL; NULL: none. Ends the
 * program with status 2 where an option or its value is wrong. */
bench_asked bench_begin(int argc, char **argv, const char *usage, const bench_option *options);

/* Where all tensors are made from now on; ends the program where there is none. */
void bench_set_device(const char *name);

/* Were no works named, or this one? "add" names "add/small", too, and "/small" all works of that rest. */
bool bench_wanted(const char *work);

/* The i-th name, for programs whose names are no list; NULL: there are no more. */
const char *bench_name(int i);

/* Ends the program with status 2, the usage and "PROGRAM: what 'value'". */
_Noreturn void bench_refuse(const char *what, const char *value);

/* tern_finish, for main to return; status 2 where a name was that of no work. */
int bench_end(void);

/* --- most programs --- */
typedef void (*bench_work)(const char *name);
/* bench_begin; then run of those of `works` (which end with NULL) that are wanted; then bench_end. */
int bench_main(int argc, char **argv, const char *usage, const char *const *works, bench_work run);
void bench_run_works(const char *const *works, bench_work run);

#endif
