/* tern memory-report: a snapshot of the allocator as one HTML page. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tern/command.h"
#include "examples/common/output.h"
#include "tools/tern/page.h"

enum { PATH_LIMIT = 4096 };
static const char name[] = "memory-report";

typedef struct options {
    const char *in;
    char out[PATH_LIMIT + 8];
    const char *title;
} options;

/* out.json gives out.html; standard input gives memory.html. */
static void default_out(options *o)
{
    const char *in = strcmp(o->in, "-") == 0 ? "memory" : o->in;
    size_t length = strlen(in);
    if (length > 5 && strcmp(in + length - 5, ".json") == 0)
        length -= 5;
    snprintf(o->out, sizeof o->out, "%.*s.html", (int)length, in);
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* The argument of the option at argv[*at]; NULL when there is none. */
static const char *value_of(int argc, char **argv, int *at)
{
    return *at + 1 < argc ? argv[++*at] : NULL;
}

static int read_options(int argc, char **argv, options *o)
{
    const char *out = NULL;
    for (int i = 1; i < argc; i++) {
        const bool is_out = strcmp(argv[i], "-o") == 0, is_title = strcmp(argv[i], "--title") == 0;
        const char *option = argv[i];
        if (is_out || is_title) {
            const char *value = value_of(argc, argv, &i);
            if (value == NULL)
                return command_usage(name, "%s wants a value", option);
            *(is_out ? &out : &o->title) = value;
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            return command_usage(name, "'%s' is no option", argv[i]);
        } else if (o->in != NULL) {
            return command_usage(name, "'%s' is one file too many", argv[i]);
        } else {
            o->in = argv[i];
        }
    }
    if (o->in == NULL)
        return command_usage(name, "which file?");
    if (strlen(o->in) > PATH_LIMIT || (out != NULL && strlen(out) > PATH_LIMIT))
        return command_usage(name, "a path is longer than %d bytes", (int)PATH_LIMIT);
    if (out != NULL)
        strcpy(o->out, out);
    else
        default_out(o);
    if (strcmp(o->in, "-") != 0 && output_is_same(o->in, o->out))
        return command_usage(name, "-o names '%s' itself, which is to be read", o->in);
    return COMMAND_OK;
}

static int put_page(const options *o, const snapshot *s, const text *html)
{
    if (strcmp(o->out, "-") == 0) {
        const size_t size = (size_t)html->size;
        if (fwrite(html->bytes, 1, size, stdout) != size || fflush(stdout) != 0)
            return command_fail(name, "standard output: %s", strerror(errno));
        return COMMAND_OK;
    }
    if (!output_replace(o->out, html->bytes, (size_t)html->size))
        return command_fail(name, "%s: %s", o->out, strerror(errno));
    char size[TEXT_SIZE_BYTES];
    int64_t events = 0;
    for (int32_t d = 0; d < s->device_count; d++)
        events += s->devices[d].event_count;
    printf("%s: %s, from %lld segments, %lld blocks, %lld events\n", o->out,
           text_size(html->size, size), (long long)s->segment_count, (long long)s->block_count,
           (long long)events);
    return COMMAND_OK;
}

static int report(int argc, char **argv)
{
    options o = { 0 };
    const int wrong = read_options(argc, argv, &o);
    if (wrong != COMMAND_OK)
        return wrong;
    const char *in = strcmp(o.in, "-") == 0 ? "standard input" : o.in;
    char error[SNAPSHOT_ERROR_BYTES];
    snapshot s;
    if (!snapshot_read(o.in, &s, error))
        return command_fail(name, "%s: %s", in, error);
    page p = { 0 };
    const int status = page_make(&s, o.title != NULL ? o.title : last_part(in), &p)
                           ? put_page(&o, &s, &p.html)
                           : command_fail(name, "%s: not enough memory for its page", in);
    page_free(&p);
    snapshot_free(&s);
    return status;
}

/* clang-format off */
static const char help[] =
    "usage: tern memory-report FILE.json [-o OUT.html] [--title TEXT]\n"
    "\n"
    "Turns a memory snapshot into one HTML page that needs no server and no network: allocated and\n"
    "reserved over the recorded events, segments with their blocks, the sites that hold memory now\n"
    "and held it at the peak, where the reserved bytes are, and what ran out.\n"
    "\n"
    "  FILE.json     what tern writes, or PyTorch's snapshot as JSON; - is standard input\n"
    "  -o OUT.html   default: FILE.html; - is standard output\n"
    "  --title TEXT  default: the name of the file\n"
    "\n"
    "From PyTorch, after torch.cuda.memory._record_memory_history():\n"
    "  json.dump(torch.cuda.memory._snapshot(), open('snapshot.json', 'w'))\n"
    "\n"
    "Files up to 256 MiB are read. The exit status is 0, 1 for a file that cannot be read or written,\n"
    "2 for wrong arguments.\n";
/* clang-format on */

const command memory_report_command = {
    .name = name,
    .summary = "a memory snapshot as an HTML page",
    .help = help,
    .run = report,
};
