/* The `tern` command: a table of subcommands. */
#include "tools/tern/command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tern/tern.h>
#include <unistd.h>

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const command help_command = {
    .name = "help",
    .summary = "what the commands do: tern help COMMAND",
    .help = "usage: tern help [COMMAND]\n\nLists the commands, or explains one.\n",
    .run = run_help,
};

static const command version_command = {
    .name = "version",
    .summary = "the version of tern",
    .help = "usage: tern version\n\nPrints \"tern MAJOR.MINOR.PATCH\".\n",
    .run = run_version,
};

static const command *const commands[] = {
    &devices_command,       &env_command,     &explain_command,
    &memory_report_command, &version_command, &help_command,
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const command *find(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void complain(const char *name, const char *format, va_list arguments)
{
    fprintf(stderr, "tern %s: ", name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

int command_usage(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(name, format, arguments);
    va_end(arguments);
    fprintf(stderr, "  tern help %s says how it is used\n", name);
    return COMMAND_USAGE;
}

int command_fail(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain(name, format, arguments);
    va_end(arguments);
    return COMMAND_FAILED;
}

static void list_commands(FILE *stream)
{
    fputs("usage: tern COMMAND [ARGUMENTS]\n\n", stream);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-14s  %s\n", commands[i]->name, commands[i]->summary);
}

static int unknown(const char *name)
{
    fprintf(stderr, "tern: '%s' is no command\n", name);
    list_commands(stderr);
    return COMMAND_USAGE;
}

static int run_help(int argc, char **argv)
{
    if (argc > 2)
        return command_usage(help_command.name, "'%s' is one argument too many", argv[2]);
    if (argc < 2) {
        list_commands(stdout);
        return COMMAND_OK;
    }
    const command *found = find(argv[1]);
    if (found == NULL)
        return unknown(argv[1]);
    fputs(found->help, stdout);
    return COMMAND_OK;
}

static int run_version(int argc, char **argv)
{
    if (argc > 1)
        return command_usage(version_command.name, "'%s' is one argument too many", argv[1]);
    printf("tern %d.%d.%d\n", TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
    return COMMAND_OK;
}

static bool asks_for_help(const char *text)
{
    return strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        list_commands(stderr);
        return COMMAND_USAGE;
    }
    if (asks_for_help(argv[1]))
        return run_help(1, argv);
    const command *found = find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (found == NULL)
        return unknown(argv[1]);
    if (argc > 2 && asks_for_help(argv[2])) {
        fputs(found->help, stdout);
        return COMMAND_OK;
    }
    return found->run(argc - 1, argv + 1);
}

/* A standard stream that is closed stays so: no file that is opened later, the log or a driver's, gets its number and
 * what is printed. */
static void keep_closed(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0)
            (void)open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* What does not arrive (a full disk, a closed stdout) has not been said. */
int main(int argc, char **argv)
{
    keep_closed();
    const int status = run(argc, argv);
    const bool is_broken = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !is_broken)
        return status;
    fprintf(stderr, "tern: cannot write to stdout: %s\n",
            is_broken ? "a line was lost" : strerror(errno));
    return status == COMMAND_OK ? COMMAND_FAILED : status;
}
