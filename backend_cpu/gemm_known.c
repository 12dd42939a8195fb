/* The file of measured ways: see gemm_known.h. */
#include "backend_cpu/gemm_known.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/numerics.h"
#include "core/thread.h"
#include "tern/numerics.h"

enum { LEAST_PLACES = 64, WHY_BYTES = 512, MOST_BYTES = 64 << 20 };

typedef struct known_way {
    cpu_gemm_key key; /* of m 0: the place is free */
    cpu_gemm_choice way;
} known_way;

/* What a file held when it was read. Never freed once it is the process's: a thread may be looking. */
typedef struct known_file {
    struct known_file *before;
    char *path; /* NULL: none */
    char machine[CPU_GEMM_LINE_BYTES / 2];
    int64_t count, others, bad, first_bad; /* lines; that of the first bad one */
    uint64_t places;                       /* a power of two, at least twice the count */
    known_way *ways;                       /* found by hash, then one after the other */
} known_file;

static known_file none;
static _Atomic(known_file *) current; /* NULL: TERN_CPU_GEMM_FILE has not been read */
static atomic_flag said_hindered = ATOMIC_FLAG_INIT;

static void free_file(known_file *file)
{
    if (file == NULL || file == &none)
        return;
    free(file->path);
    free(file->ways);
    free(file);
}

/* ---- ways by shape -------------------------------------------------------------------------------- */

/* Its place, or a free one. */
static known_way *place_of(const known_file *file, const cpu_gemm_key *key)
{
    uint64_t at = cpu_gemm_key_hash(key) & (file->places - 1);
    while (file->ways[at].key.m != 0 && !cpu_gemm_key_is(&file->ways[at].key, key))
        at = (at + 1) & (file->places - 1);
    return &file->ways[at];
}

/* Twice the places, from LEAST_PLACES on. */
static bool grow(known_file *file)
{
    known_file larger = *file;
    larger.places = file->places == 0 ? LEAST_PLACES : 2 * file->places;
    larger.ways = calloc(larger.places, sizeof *larger.ways);
    if (larger.ways == NULL)
        return false;
    for (uint64_t i = 0; i < file->places; i++)
        if (file->ways[i].key.m != 0)
            *place_of(&larger, &file->ways[i].key) = file->ways[i];
    free(file->ways);
    *file = larger;
    return true;
}

/* Of two ways of a shape the first one holds, so that what is added changes nothing for those who have it. */
static bool add_way(known_file *file, const known_way *found)
{
    if ((uint64_t)file->count >= file->places / 2 && !grow(file))
        return false;
    known_way *place = place_of(file, &found->key);
    if (place->key.m != 0)
        return true;
    *place = *found;
    file->count++;
    return true;
}

/* ---- reading ------------------------------------------------------------------------------------- */

static bool add_line(known_file *file, char *line, int64_t number)
{
    known_way found;
    line[strcspn(line, "\n")] = '\0';
    switch (cpu_gemm_read_line(line, file->machine, &found.key, &found.way)) {
    case CPU_GEMM_LINE_WAY:
        return add_way(file, &found);
    case CPU_GEMM_LINE_OTHER:
        file->others += line[0] != '#' && line[strspn(line, " \t\r")] != '\0';
        return true;
    default:
        if (file->bad++ == 0)
            file->first_bad = number;
        return true;
    }
}

/* 0 or what hindered it, as errno. */
static int read_lines(known_file *file, FILE *stream)
{
    char *line = NULL;
    size_t room = 0;
    int64_t number = 0;
    bool ok = true;
    errno = 0;
    while (ok && getline(&line, &room, stream) >= 0)
        ok = add_line(file, line, ++number);
    const int error = !ok ? ENOMEM : ferror(stream) ? errno : 0;
    free(line);
    return error;
}

/* NULL: `why` says what hinders it. A file that is not there is made where ways are to be added to it. */
static FILE *open_file(const char *path, char why[WHY_BYTES])
{
    const int makes = tern_cpu_benchmark() ? O_CREAT : 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | makes, 0666);
    FILE *stream = NULL;
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0)
        (void)snprintf(why, WHY_BYTES, "%.300s cannot be opened: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        (void)snprintf(why, WHY_BYTES, "%.300s is no regular file", path);
    else if (status.st_size > MOST_BYTES)
        (void)snprintf(why, WHY_BYTES, "%.300s has more than %d bytes", path, MOST_BYTES);
    else
        stream = fdopen(fd, "r");
    if (stream == NULL && fd >= 0)
        (void)close(fd);
    return stream;
}

/* What is wrong with it, if anything. */
static tern_status_t fill(known_file *file, const char *path, char why[WHY_BYTES])
{
    FILE *stream = open_file(path, why);
    if (stream == NULL)
        return TERN_ERR_IO;
    file->path = realpath(path, NULL); /* where the program may go */
    const int error = file->path == NULL ? errno : read_lines(file, stream);
    (void)fclose(stream);
    if (error != 0) {
        (void)snprintf(why, WHY_BYTES, "%.300s cannot be read: %s", path, strerror(error));
        return error == ENOMEM ? TERN_ERR_OOM : TERN_ERR_IO;
    }
    if (file->bad == 0 || file->count + file->others > 0)
        return TERN_OK;
    (void)snprintf(why, WHY_BYTES, "%.300s is no file of products: line %lld is none", path,
                   (long long)file->first_bad);
    return TERN_ERR_FORMAT;
}

static known_file *read_file(const char *path, char why[WHY_BYTES], tern_status_t *out_code)
{
    known_file *file = calloc(1, sizeof *file);
    (void)snprintf(why, WHY_BYTES, "no memory");
    *out_code = TERN_ERR_OOM;
    if (file == NULL)
        return NULL;
    core_numerics_environment(); /* it may say that ways are to be measured */
    cpu_gemm_machine(file->machine);
    *out_code = fill(file, path, why);
    if (*out_code == TERN_OK)
        return file;
    free_file(file);
    return NULL;
}

static void tell(const known_file *file)
{
    tern_log_write(TERN_LOG_INFO, NULL,
                   "products: %lld ways from %.300s, and %lld lines of other machines",
                   (long long)file->count, file->path, (long long)file->others);
    if (file->bad > 0)
        tern_log_write(TERN_LOG_WARNING, NULL,
                       "products: %.300s: %lld lines cannot be read, the first is line %lld",
                       file->path, (long long)file->bad, (long long)file->first_bad);
}

/* Two threads may come here at the same time; the file of one of them stays. */
static known_file *by_environment(void)
{
    char why[WHY_BYTES];
    tern_status_t code;
    const char *path = secure_getenv("TERN_CPU_GEMM_FILE");
    known_file *file = &none, *expected = NULL;
    if (path != NULL && path[0] != '\0')
        file = read_file(path, why, &code);
    const bool failed = file == NULL;
    if (failed)
        file = &none;
    if (!atomic_compare_exchange_strong(&current, &expected, file)) {
        free_file(file);
        return expected;
    }
    if (failed)
        tern_log_write(TERN_LOG_WARNING, NULL, "TERN_CPU_GEMM_FILE: %s", why);
    else if (file != &none)
        tell(file);
    return file;
}

static known_file *file_now(void)
{
    known_file *file = atomic_load_explicit(&current, memory_order_acquire);
    return __builtin_expect(file != NULL, 1) ? file : by_environment();
}

const cpu_gemm_choice *cpu_gemm_known(int dtype, const cpu_product *g, int threads)
{
    const known_file *file = file_now();
    if (__builtin_expect(file->count == 0, 1))
        return NULL;
    const cpu_gemm_key key = cpu_gemm_key_of(dtype, g, threads);
    const known_way *place = place_of(file, &key);
    return place->key.m != 0 ? &place->way : NULL;
}

tern_status_t tern_cpu_set_benchmark_file_at(tern_site_t site, const char *path)
{
    static const char what[] = "tern_cpu_set_benchmark_file";
    tern_thread *self = core_self();
    char why[WHY_BYTES];
    tern_status_t code;
    if (self->error_code != TERN_OK)
        return (tern_status_t)self->error_code;
    if (path != NULL && path[0] == '\0')
        return core_error(self, site, TERN_ERR_ARGUMENT, what, "the path is empty");
    known_file *file = path != NULL ? read_file(path, why, &code) : calloc(1, sizeof *file);
    if (file == NULL && path != NULL)
        return core_error(self, site, code, what, "%s", why);
    if (file == NULL)
        return core_error(self, site, TERN_ERR_OOM, what, "no memory");
    file->before = atomic_exchange(&current, file);
    if (path != NULL)
        tell(file);
    return TERN_OK;
}

/* ---- adding -------------------------------------------------------------------------------------- */

/* One write at the end of the file, which several processes may do at the same time. 0 or errno. */
static int append(const char *path, const char *text)
{
    const int fd =
        core_descriptor_lift(open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
    if (fd < 0)
        return errno;
    const ssize_t length = (ssize_t)strlen(text);
    const ssize_t written = write(fd, text, (size_t)length);
    int error = written < 0 ? errno : written < length ? ENOSPC : 0;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

void cpu_gemm_note(const cpu_gemm_key *key, const cpu_gemm_choice *way)
{
    const known_file *file = file_now();
    if (file->path == NULL)
        return;
    char line[CPU_GEMM_LINE_BYTES];
    cpu_gemm_write_line(line, file->machine, key, way);
    const int error = append(file->path, line);
    if (error != 0 && !atomic_flag_test_and_set(&said_hindered))
        tern_log_write(TERN_LOG_WARNING, NULL, "products: %.300s cannot be added to: %s",
                       file->path, strerror(error));
}
