/* Subcommands of `tern`: one row of the table in main.c each. A command prints results on stdout,
 * what went wrong on stderr, and returns the exit status. */
#ifndef TOOLS_TERN_COMMAND_H
#define TOOLS_TERN_COMMAND_H

enum { COMMAND_OK = 0, COMMAND_FAILED = 1, COMMAND_USAGE = 2 };

typedef struct command {
    const char *name;
    const char *summary;               /* one line of `tern help` */
    const char *help;                  /* what `tern help NAME` prints */
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
} command;

/* Prints "tern NAME: ..." and where help is; returns COMMAND_USAGE. */
int command_usage(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints "tern NAME: ..."; returns COMMAND_FAILED. */
int command_fail(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern const command devices_command, env_command, explain_command;
extern const command memory_report_command;

#endif
