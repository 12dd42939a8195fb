/* A way of a product as a line of text, and back: see gemm_known.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend_cpu/gemm_known.h"
#include "tern/system.h"

enum { EXTENTS = 8, MOST_THREADS = 4096 };

static const char *const makers[] = { "own", "openblas", "onednn", "tiles" };
static const char *const cuts[] = { "planned", "rows", "columns" };

void cpu_gemm_machine(char machine[CPU_GEMM_LINE_BYTES / 2])
{
    tern_cpu_report_t report;
    tern_cpu_report(&report);
    (void)snprintf(machine, CPU_GEMM_LINE_BYTES / 2, "%s; %s for %s; %s; %s; tern %d.%d.%d",
                   report.model, report.isa, report.tuning, report.blas, report.dnn,
                   TERN_VERSION_MAJOR, TERN_VERSION_MINOR, TERN_VERSION_PATCH);
}

void cpu_gemm_write_line(char line[CPU_GEMM_LINE_BYTES], const char *machine,
                         const cpu_gemm_key *key, const cpu_gemm_choice *way)
{
    (void)snprintf(line, CPU_GEMM_LINE_BYTES,
                   "%s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                   " %" PRId64 " %" PRId64 " %d %d %d %s %s %d %s\n",
                   key->dtype == TERN_F64 ? "f64" : "f32", key->m, key->n, key->k, key->a_row,
                   key->a_col, key->b_row, key->b_col, key->c_row, key->biased, key->accumulates,
                   key->threads, way->own ? "own" : makers[way->maker], cuts[way->cut],
                   way->threads, machine);
}

/* ---- reading ------------------------------------------------------------------------------------ */

/* Goes past a word and the blank behind it; -1: it is none of these. */
static int read_name(const char **at, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        const size_t n = strlen(names[i]);
        if (strncmp(*at, names[i], n) == 0 && (*at)[n] == ' ') {
            *at += n + 1;
            return i;
        }
    }
    return -1;
}

static bool read_number(const char **at, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9') /* strtoll takes blanks and signs */
        return false;
    *out = strtoll(*at, &end, 10); /* the largest number where it is larger */
    if (*end != ' ' || *out < least || *out > most)
        return false;
    *at = end + 1;
    return true;
}

static bool read_key(const char **at, cpu_gemm_key *key)
{
    static const char *const dtypes[] = { "f32", "f64" };
    const int dtype = read_name(at, dtypes, 2);
    int64_t n[EXTENTS], biased, accumulates, threads;
    if (dtype < 0)
        return false;
    for (int i = 0; i < EXTENTS; i++)
        if (!read_number(at, i < 3 ? 1 : 0, INT64_C(1) << 40, &n[i]))
            return false;
    if (!read_number(at, 0, 1, &biased) || !read_number(at, 0, 1, &accumulates) ||
        !read_number(at, 1, MOST_THREADS, &threads))
        return false;
    *key = (cpu_gemm_key){ .m = n[0],
                           .n = n[1],
                           .k = n[2],
                           .a_row = n[3],
                           .a_col = n[4],
                           .b_row = n[5],
                           .b_col = n[6],
                           .c_row = n[7],
                           .dtype = dtype == 1 ? TERN_F64 : TERN_F32,
                           .threads = (int32_t)threads,
                           .biased = (int32_t)biased,
                           .accumulates = (int32_t)accumulates };
    return true;
}

/* What gemm_trial.c may try. */
static bool read_way(const char **at, const cpu_gemm_key *key, cpu_gemm_choice *way)
{
    const int maker = read_name(at, makers, CPU_BLAS_MAKERS);
    const int cut = maker < 0 ? -1 : read_name(at, cuts, CPU_BLAS_CUTS);
    int64_t threads;
    if (cut < 0 || !read_number(at, 1, key->threads, &threads))
        return false;
    if (key->dtype == TERN_F64 && maker > CPU_BLAS_OPENBLAS)
        return false;
    *way = (cpu_gemm_choice){ .own = maker == 0,
                              .maker = (cpu_blas_maker)maker,
                              .cut = (cpu_blas_cut)cut,
                              .threads = (int)threads };
    return true;
}

cpu_gemm_line cpu_gemm_read_line(const char *line, const char *machine, cpu_gemm_key *out_key,
                                 cpu_gemm_choice *out_way)
{
    cpu_gemm_key key;
    cpu_gemm_choice way;
    if (line[strspn(line, " \t\r")] == '\0' || line[0] == '#')
        return CPU_GEMM_LINE_OTHER;
    if (!read_key(&line, &key) || !read_way(&line, &key, &way))
        return CPU_GEMM_LINE_BAD;
    if (strcmp(line, machine) != 0)
        return CPU_GEMM_LINE_OTHER;
    *out_key = key;
    *out_way = way;
    return CPU_GEMM_LINE_WAY;
}
