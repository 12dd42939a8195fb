/* Reader of golden vectors; see golden.h and the head of a file. */
#include "tests/support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static golden_array *arrays;
static int64_t count;

static golden_array *new_array(void)
{
    golden_array *more = realloc(arrays, (size_t)(count + 1) * sizeof *arrays);
    if (more == NULL)
        return NULL;
    arrays = more;
    memset(&arrays[count], 0, sizeof *arrays);
    return &arrays[count++];
}

/* "x float 3 5": the array, zeros so far; NULL when the line is none. */
static golden_array *begin_array(const char *line, const char *test)
{
    char kind[8];
    int used = 0;
    int64_t dims[TERN_MAX_DIMS];
    int ndim = 0;
    golden_array *a = new_array();
    if (a == NULL || sscanf(line, "%47s %7s%n", a->name, kind, &used) != 2)
        return NULL;
    for (const char *at = line + used; ndim < TERN_MAX_DIMS; ndim++) {
        char *end;
        dims[ndim] = strtoll(at, &end, 10);
        if (end == at)
            break;
        at = end;
    }
    snprintf(a->test, sizeof a->test, "%s", test);
    a->is_integer = strcmp(kind, "int") == 0;
    a->v = value_new(ndim, dims);
    return a;
}

/* Adds a line's values; false when there are too many. */
static bool add_values(const char *line, golden_array *a, int64_t *filled)
{
    for (;;) {
        char *end;
        const double x = strtod(line, &end);
        if (end == line)
            return true;
        if (*filled == a->v.numel)
            return false;
        a->v.data[(*filled)++] = x;
        line = end;
    }
}

static const char *read_lines(FILE *file)
{
    char line[256];
    char test[32] = "";
    golden_array *a = NULL;
    int64_t filled = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (line[0] == ' ') {
            if (a == NULL || !add_values(line, a, &filled))
                return "golden vectors: more values than the shape has";
            continue;
        }
        if (a != NULL && filled != a->v.numel)
            return "golden vectors: fewer values than the shape has";
        a = NULL;
        filled = 0;
        if (sscanf(line, "case %31[^:]", test) == 1)
            continue;
        a = begin_array(line, test);
        if (a == NULL)
            return "golden vectors: not a line of an array";
    }
    return count > 0 ? NULL : "golden vectors: empty";
}

static FILE *open_file(const char *family)
{
    const char *source = getenv("TERN_TEST_SOURCE");
    char path[1024];
    if (source != NULL) {
        snprintf(path, sizeof path, "%s/tests/golden/%s.txt", source, family);
    } else {
        const char *slash = strrchr(__FILE__, '/');
        const int folder = slash != NULL ? (int)(slash - __FILE__) : 0;
        snprintf(path, sizeof path, "%.*s/../golden/%s.txt", folder, __FILE__, family);
    }
    return fopen(path, "r");
}

const char *golden_open(const char *family)
{
    FILE *file = open_file(family);
    if (file == NULL)
        return "golden vectors cannot be opened: set TERN_TEST_SOURCE to the source tree";
    const char *why = read_lines(file);
    fclose(file);
    return why;
}

void golden_close(void)
{
    for (int64_t i = 0; i < count; i++)
        value_free(&arrays[i].v);
    free(arrays);
    arrays = NULL;
    count = 0;
}

const golden_array *golden_find(const char *test, const char *name)
{
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(arrays[i].test, test) == 0 && strcmp(arrays[i].name, name) == 0)
            return &arrays[i];
    }
    return NULL;
}

const golden_array *golden_at(int64_t i)
{
    return i < count ? &arrays[i] : NULL;
}
