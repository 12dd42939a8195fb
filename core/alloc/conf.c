/* Settings: sizes by rule, and the strings that set them (M001-M010, M074-M078). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc/engine.h"
#include "core/numeral.h"

enum { MIB_SHIFT = 20, LEAST_SPLIT_MIB = 20, LEAST_SEGMENT_MIB = 11, MOST_THREADS = 128 };

void core_alloc_settings_init(core_alloc_settings *settings)
{
    *settings = (core_alloc_settings){ .max_split_bytes = INT64_MAX,
                                       .max_non_split_rounding_bytes = INT64_C(20) << MIB_SHIFT,
                                       .large_segment_bytes = INT64_C(20) << MIB_SHIFT,
                                       .memory_fraction = 1 };
}

/* ---- sizes ---------------------------------------------------------------------------------------- */

static int floor_log2(int64_t n)
{
    return 63 - __builtin_clzll((uint64_t)n);
}
static bool power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

int64_t core_alloc_round(const core_alloc_settings *settings, int64_t bytes)
{
    if (bytes < UNIT)
        return UNIT;
    int interval = floor_log2(bytes) - MIB_SHIFT;
    interval = interval < 0 ? 0 : interval;
    interval = interval < CORE_ALLOC_INTERVALS ? interval : CORE_ALLOC_INTERVALS - 1;
    const int64_t divisions = settings->divisions[interval];
    if (divisions <= 1 || bytes <= UNIT * divisions)
        return (bytes + UNIT - 1) / UNIT * UNIT;
    if (power_of_two(bytes))
        return bytes;
    const int64_t step = (INT64_C(1) << floor_log2(bytes)) >> floor_log2(divisions);
    return (bytes + step - 1) / step * step;
}

int64_t core_alloc_segment_bytes(const core_alloc_settings *settings, int64_t block_bytes)
{
    if (block_bytes <= SMALL_LIMIT)
        return SMALL_SEGMENT;
    if (block_bytes < LARGE_MIN)
        return settings->large_segment_bytes;
    return (block_bytes + SEGMENT_STEP - 1) / SEGMENT_STEP * SEGMENT_STEP;
}

/* ---- values of options ------------------------------------------------------------------------------ */

/* An option reads its value at *at and moves behind it; false with `why` (without the option's name). */
typedef struct reading {
    core_alloc_settings *settings;
    const char *at;
    char *why;
} reading;
static bool refuse(reading *r, const char *why)
{
    (void)snprintf(r->why, CORE_ALLOC_WHY_BYTES, "%s", why);
    return false;
}

static bool read_number(reading *r, int64_t *out_number)
{
    char *end;
    const long long number = strtoll(r->at, &end, 10);
    if (end == r->at || number < 0 || number > INT64_C(1) << 40)
        return refuse(r, "a whole number is needed");
    r->at = end;
    *out_number = number;
    return true;
}

static bool read_real(reading *r, double *out_number)
{
    char *end;
    *out_number = core_parse_real(r->at, &end);
    if (end == r->at || !isfinite(*out_number))
        return refuse(r, "a number is needed");
    r->at = end;
    return true;
}

static bool read_word(reading *r, const char *word)
{
    const size_t length = strlen(word);
    if (strncmp(r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static bool read_bool(reading *r, bool *out_value)
{
    *out_value = read_word(r, "True");
    return *out_value || read_word(r, "False") || refuse(r, "True or False is needed");
}

static bool read_mib(reading *r, int64_t least, int64_t *out_bytes)
{
    int64_t mib;
    if (!read_number(r, &mib))
        return false;
    if (mib < least) {
        (void)snprintf(r->why, CORE_ALLOC_WHY_BYTES, "too small, must be at least %lld",
                       (long long)least);
        return false;
    }
    *out_bytes = mib << MIB_SHIFT;
    return true;
}

/* ---- options ------------------------------------------------------------------------------------------ */

static bool set_backend(reading *r)
{
    return read_word(r, "native") ||
           refuse(r, "the allocator is the native one, there is no other");
}
static bool set_max_split(reading *r)
{
    return read_mib(r, LEAST_SPLIT_MIB, &r->settings->max_split_bytes);
}
static bool set_rounding(reading *r)
{
    return read_mib(r, LEAST_SPLIT_MIB, &r->settings->max_non_split_rounding_bytes);
}
static bool set_segment(reading *r)
{
    return read_mib(r, LEAST_SEGMENT_MIB, &r->settings->large_segment_bytes);
}
static bool set_gc(reading *r)
{
    double threshold;
    if (!read_real(r, &threshold))
        return false;
    if (!(threshold > 0 && threshold < 1))
        return refuse(r, "a number between 0 and 1, without the ends, is needed");
    r->settings->gc_threshold = threshold;
    return true;
}
static bool set_fraction(reading *r)
{
    double fraction;
    if (!read_real(r, &fraction))
        return false;
    if (!(fraction >= 0 && fraction <= 1))
        return refuse(r, "a number from 0 to 1 is needed");
    r->settings->memory_fraction = fraction;
    r->settings->has_fraction = true;
    return true;
}
static bool set_expandable(reading *r)
{
    return read_bool(r, &r->settings->expandable_segments);
}
static bool set_throw(reading *r)
{
    return read_bool(r, &r->settings->throw_on_oom);
}
static bool set_pinned_round(reading *r)
{
    return read_mib(r, 1, &r->settings->pinned_max_round_bytes);
}
static bool set_pinned_cached(reading *r)
{
    return read_mib(r, 1, &r->settings->pinned_max_cached_bytes);
}
static bool skip_bool(reading *r)
{
    bool value;
    return read_bool(r, &value);
}
static bool skip_mib(reading *r)
{
    int64_t bytes;
    return read_mib(r, 0, &bytes);
}
static bool skip_threads(reading *r)
{
    int64_t threads;
    return read_number(r, &threads) && ((power_of_two(threads) && threads <= MOST_THREADS) ||
                                        refuse(r, "a power of two up to 128 is needed"));
}

static bool read_divisions(reading *r, int32_t *out_divisions)
{
    int64_t divisions;
    if (!read_number(r, &divisions))
        return false;
    if (divisions != 0 && (!power_of_two(divisions) || divisions > INT32_MAX))
        return refuse(r, "divisions must be a power of two, or 0");
    *out_divisions = (int32_t)divisions;
    return true;
}

/* One "MB:divisions" or ">:divisions" of a list. `*last` is the interval before it, -1 at first. */
static bool read_interval(reading *r, int *last)
{
    int32_t *all = r->settings->divisions, divisions;
    int64_t mib = 0;
    const bool rest = read_word(r, ">");
    if (!rest && !read_number(r, &mib))
        return false;
    if (!rest && !power_of_two(mib))
        return refuse(r, "the sizes of a list must be powers of two, in MB");
    if (!read_word(r, ":"))
        return refuse(r, "a list looks like [256:1,512:2,>:8]");
    if (!read_divisions(r, &divisions))
        return false;
    if (rest) {
        for (int i = *last + 1; i < CORE_ALLOC_INTERVALS; i++)
            all[i] = divisions;
        return true;
    }
    const int at = floor_log2(mib);
    for (int i = 0; *last < 0 && i < at && i < CORE_ALLOC_INTERVALS; i++)
        all[i] = divisions;
    if (at < CORE_ALLOC_INTERVALS)
        all[at] = divisions;
    *last = at;
    return true;
}

static bool set_divisions(reading *r)
{
    if (read_word(r, "[")) {
        int last = -1;
        do {
            if (!read_interval(r, &last))
                return false;
        } while (read_word(r, ","));
        return read_word(r, "]") || refuse(r, "the list has no end ']'");
    }
    int32_t divisions;
    if (!read_divisions(r, &divisions))
        return false;
    for (int i = 0; i < CORE_ALLOC_INTERVALS; i++)
        r->settings->divisions[i] = divisions;
    return true;
}

static const struct {
    const char *key;
    bool (*set)(reading *r);
} options[] = {
    { "backend", set_backend },
    { "max_split_size_mb", set_max_split },
    { "max_non_split_rounding_mb", set_rounding },
    { "roundup_power2_divisions", set_divisions },
    { "garbage_collection_threshold", set_gc },
    { "expandable_segments", set_expandable },
    { "per_process_memory_fraction", set_fraction },
    { "large_segment_size_mb", set_segment },
    { "throw_on_cudamalloc_oom", set_throw },
    { "pinned_max_round_threshold_mb", set_pinned_round },
    { "pinned_max_cached_size_mb", set_pinned_cached },
    /* understood, without effect here */
    { "release_lock_on_cudamalloc", skip_bool },
    { "graph_capture_record_stream_reuse", skip_bool },
    { "pinned_use_cuda_host_register", skip_bool },
    { "pinned_use_background_threads", skip_bool },
    { "pinned_num_register_threads", skip_threads },
    { "pinned_reserve_segment_size_mb", skip_mib },
};
enum { OPTIONS = sizeof options / sizeof *options };

/* ---- the string ------------------------------------------------------------------------------------------ */

static void unknown_key(char *why, const char *key, int length)
{
    int wrote = snprintf(why, CORE_ALLOC_WHY_BYTES, "unknown key '%.*s'; known are", length, key);
    for (int i = 0; i < OPTIONS && wrote > 0 && wrote < CORE_ALLOC_WHY_BYTES; i++)
        wrote += snprintf(why + wrote, (size_t)(CORE_ALLOC_WHY_BYTES - wrote), "%s %s",
                          i > 0 ? "," : "", options[i].key);
}

/* Behind the value that starts at `at`: the next comma outside brackets. */
static const char *skip_value(const char *at)
{
    int depth = 0;
    for (; *at != '\0' && (*at != ',' || depth > 0); at++)
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
    return at;
}

/* One "key:value". False with the error in `why`. */
static bool read_option(reading *r, bool strict)
{
    const char *key = r->at;
    const int length = (int)strcspn(key, ":,");
    if (key[length] != ':') {
        (void)snprintf(r->why, CORE_ALLOC_WHY_BYTES, "'%.*s' has no value; write key:value", length,
                       key);
        return false;
    }
    int i = 0;
    while (i < OPTIONS && (strlen(options[i].key) != (size_t)length ||
                           strncmp(options[i].key, key, (size_t)length) != 0))
        i++;
    r->at = key + length + 1;
    if (i == OPTIONS) {
        unknown_key(r->why, key, length);
        r->at = skip_value(r->at);
        return !strict;
    }
    char why[CORE_ALLOC_WHY_BYTES] = "";
    reading value = { r->settings, r->at, why };
    if (options[i].set(&value) && (*value.at == ',' || *value.at == '\0')) {
        r->at = value.at;
        return true;
    }
    (void)snprintf(r->why, CORE_ALLOC_WHY_BYTES, "%s: %.200s, not '%.*s'", options[i].key,
                   why[0] != '\0' ? why : "the value ends too late",
                   (int)(skip_value(r->at) - r->at), r->at);
    return false;
}

/* A request below max_split could not use what is left of such a segment. */
static bool fit_together(const core_alloc_settings *s, char *why)
{
    const int64_t least = s->large_segment_bytes;
    const bool split = s->max_split_bytes >= least;
    const bool rounding = s->max_non_split_rounding_bytes >= least ||
                          s->max_non_split_rounding_bytes == INT64_C(20) << MIB_SHIFT;
    if (!split || !rounding)
        (void)snprintf(why, CORE_ALLOC_WHY_BYTES,
                       "%s: too small beside large_segment_size_mb, must be at least %lld",
                       !split ? "max_split_size_mb" : "max_non_split_rounding_mb",
                       (long long)(least >> MIB_SHIFT));
    return split && rounding;
}

tern_status_t core_alloc_settings_parse(core_alloc_settings *settings, const char *text,
                                        bool strict, char why[CORE_ALLOC_WHY_BYTES])
{
    why[0] = '\0';
    char *plain = malloc(strlen(text) + 1); /* without blanks */
    if (plain == NULL) {
        (void)snprintf(why, CORE_ALLOC_WHY_BYTES, "no host memory");
        return TERN_ERR_OOM;
    }
    char *end = plain;
    for (const char *c = text; *c != '\0'; c++)
        if (*c != ' ' && *c != '\t')
            *end++ = *c;
    *end = '\0';
    core_alloc_settings fresh = *settings;
    fresh.max_split_bytes = INT64_MAX;
    fresh.gc_threshold = 0;
    memset(fresh.divisions, 0, sizeof fresh.divisions);
    reading r = { &fresh, plain, why };
    bool good = true;
    while (good && *r.at != '\0') {
        good = read_option(&r, strict);
        if (good && *r.at == ',')
            r.at++;
    }
    free(plain);
    if (!good || !fit_together(&fresh, why))
        return TERN_ERR_ARGUMENT;
    *settings = fresh;
    return TERN_OK;
}
