/* States: ordered named tensors and texts. See tern/io.h. */
#include "io/state.h"

#include <stdlib.h>
#include <string.h>

#include "io/internal.h"
#include "tern/autograd.h"

static const char what[] = "state"; /* where no public function is known (io_called) */

/* ---- life ------------------------------------------------------------------------------------- */

static void state_clear(void *object)
{
    tern_state *state = object;
    for (int64_t i = 0; i < state->names.count; i++) {
        tern_release(state->tensors[i]);
        free((void *)state->names.names[i]);
    }
    for (int64_t i = 0; i < state->keys.count; i++) {
        free(state->texts[i]);
        free((void *)state->keys.names[i]);
    }
    for (int64_t i = 0; i < state->unread.count; i++) {
        free(state->dtypes[i]);
        free((void *)state->unread.names[i]);
    }
    io_names_clear(&state->names);
    io_names_clear(&state->keys);
    io_names_clear(&state->unread);
    free(state->dtypes);
    free(state->tensors);
    free(state->texts);
    free(state->source);
    free(state);
}

tern_state *tern_state_create_at(tern_site_t site)
{
    if (tern_failed())
        return NULL;
    tern_state *state = calloc(1, sizeof *state);
    if (!state || !tern_at_finish(state_clear, state)) {
        free(state);
        tern_fail_at(site, TERN_ERR_OOM, what, "no memory for a state");
        return NULL;
    }
    return state;
}

void tern_state_free(tern_state *state)
{
    if (!state)
        return;
    tern_at_finish_cancel(state);
    state_clear(state);
}

const char *tern_state_source(const tern_state *state)
{
    return state && state->source ? state->source : "state";
}

/* ---- putting in ------------------------------------------------------------------------------- */

/* Makes room for one more slot behind `count`, in an array that grows with the set of names. */
static bool grow(void **array, int64_t count)
{
    if (count & (count - 1))
        return true;
    void *larger = realloc(*array, (size_t)(count ? 2 * count : 1) * sizeof(void *));
    if (!larger)
        return false;
    *array = larger;
    return true;
}

static bool no_memory(tern_site_t site, const char *name)
{
    tern_fail_at(site, TERN_ERR_OOM, io_called(what), "no memory for '%s'", name);
    return false;
}

/* Place of a name in a set, added when it is new; -1 after an error. */
static int64_t place_of(tern_site_t site, io_names *set, void **array, const char *name)
{
    const int64_t old = io_names_find(set, name);
    if (old >= 0)
        return old;
    char *copy = io_copy_text(site, what, name);
    if (!copy)
        return -1;
    const int64_t count = set->count;
    if (!grow(array, count) || io_names_add(set, copy) < 0) {
        free(copy);
        no_memory(site, name);
        return -1;
    }
    ((void **)*array)[count] = NULL;
    return count;
}

/* Of a text: other libraries write empty ones. */
static bool check_key(tern_site_t site, const tern_state *state, const char *key)
{
    if (tern_failed())
        return false;
    if (!state || !key)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the %s is NULL",
                     state ? "name" : "state");
    else if (!io_is_utf8((const unsigned char *)key, strlen(key)))
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the name '%.80s' is not UTF-8",
                     key);
    return !tern_failed();
}

/* Of a tensor. */
static bool check_name(tern_site_t site, const tern_state *state, const char *name)
{
    if (check_key(site, state, name) && !*name)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the name is empty");
    return !tern_failed();
}

/* A name that has a tensor now is no longer one that could not be read. */
static void forget_unread(tern_state *state, const char *name)
{
    const int64_t place = io_names_find(&state->unread, name);
    if (place < 0)
        return;
    char *held = (char *)(uintptr_t)state->unread.names[place];
    free(state->dtypes[place]);
    memmove(state->dtypes + place, state->dtypes + place + 1,
            (size_t)(state->unread.count - 1 - place) * sizeof *state->dtypes);
    io_names_remove(&state->unread, place);
    free(held);
}

bool io_state_note_unread(tern_site_t site, tern_state *state, const char *name, const char *dtype)
{
    char *copy = io_copy_text(site, what, dtype);
    const int64_t place = copy ? place_of(site, &state->unread, (void **)&state->dtypes, name) : -1;
    if (place >= 0)
        state->dtypes[place] = copy;
    else
        free(copy);
    return place >= 0;
}

/* The tensor is retained and shared. */
static tern_status_t set_tensor(tern_site_t site, tern_state *state, const char *name,
                                tern_tensor *t)
{
    if (!check_name(site, state, name))
        return tern_error_code();
    if (!t)
        return tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the tensor for '%s' is NULL",
                            name);
    const int64_t place = place_of(site, &state->names, (void **)&state->tensors, name);
    if (place < 0)
        return tern_error_code();
    tern_retain(t);
    tern_release(state->tensors[place]);
    state->tensors[place] = t;
    forget_unread(state, name);
    return TERN_OK;
}

tern_status_t tern_state_set_at(tern_site_t site, tern_state *state, const char *name,
                                tern_tensor *t)
{
    const char *outer = tern_calling_begin("state_set");
    const tern_status_t code = set_tensor(site, state, name, t);
    tern_calling_end(outer);
    return code;
}

/* A tensor made of the caller's bytes goes in and leaves its scope. */
static void set_data(tern_site_t site, tern_state *state, const char *name, const void *data,
                     tern_shape_t shape, tern_dtype_t dtype)
{
    TERN_SCOPE;
    const tern_new_args args = {
        .size_ = sizeof args, .shape = shape, .dtype = dtype, .device = TERN_CPU
    };
    const bool owned = tern_set_owned_mode(false);
    tern_tensor *t = tern_from_data_at(site, data, dtype, &args);
    tern_set_owned_mode(owned);
    if (t)
        (void)set_tensor(site, state, name, t);
}

tern_status_t tern_state_set_number_at(tern_site_t site, tern_state *state, const char *name,
                                       double value)
{
    const char *outer = tern_calling_begin("state_set_number");
    set_data(site, state, name, &value, TERN_SCALAR_SHAPE, TERN_F64);
    tern_calling_end(outer);
    return tern_error_code();
}

tern_status_t tern_state_set_int_at(tern_site_t site, tern_state *state, const char *name,
                                    int64_t value)
{
    const char *outer = tern_calling_begin("state_set_int");
    set_data(site, state, name, &value, TERN_SCALAR_SHAPE, TERN_I64);
    tern_calling_end(outer);
    return tern_error_code();
}

tern_status_t tern_state_set_bytes_at(tern_site_t site, tern_state *state, const char *name,
                                      const void *data, int64_t bytes)
{
    const char *outer = tern_calling_begin("state_set_bytes");
    if (check_name(site, state, name)) {
        if (bytes < 0)
            tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "%lld bytes for '%s'",
                         (long long)bytes, name);
        else if (!data && bytes > 0)
            tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the bytes for '%s' are NULL",
                         name);
        else
            set_data(site, state, name, data, TERN_SHAPE(bytes), TERN_U8);
    }
    tern_calling_end(outer);
    return tern_error_code();
}

static void set_text(tern_site_t site, tern_state *state, const char *key, const char *text)
{
    if (!check_key(site, state, key))
        return;
    if (!text || !io_is_utf8((const unsigned char *)text, strlen(text))) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the text of '%s' is %s", key,
                     text ? "not UTF-8" : "NULL");
        return;
    }
    char *copy = io_copy_text(site, what, text);
    const int64_t place = copy ? place_of(site, &state->keys, (void **)&state->texts, key) : -1;
    if (place < 0) {
        free(copy);
        return;
    }
    free(state->texts[place]);
    state->texts[place] = copy;
}

tern_status_t tern_state_set_text_at(tern_site_t site, tern_state *state, const char *key,
                                     const char *text)
{
    const char *outer = tern_calling_begin("state_set_text");
    set_text(site, state, key, text);
    tern_calling_end(outer);
    return tern_error_code();
}

/* ---- copying ---------------------------------------------------------------------------------- */

/* Values alone, without a history. */
static void copy_tensor(tern_site_t site, tern_state *copy, const char *name, tern_tensor *t)
{
    const bool owned = tern_set_owned_mode(false);
    tern_scope scope = tern_scope_begin();
    tern_tensor *values = tern_clone_at(site, tern_detach_at(site, t));
    if (values)
        tern_state_set_at(site, copy, name, values);
    tern_scope_end(&scope);
    tern_set_owned_mode(owned);
}

static void copy_all(tern_site_t site, const tern_state *state, tern_state *copy)
{
    for (int64_t i = 0; i < state->names.count && !tern_failed(); i++)
        copy_tensor(site, copy, state->names.names[i], state->tensors[i]);
    for (int64_t i = 0; i < state->keys.count && !tern_failed(); i++)
        tern_state_set_text_at(site, copy, state->keys.names[i], state->texts[i]);
    for (int64_t i = 0; i < state->unread.count && !tern_failed(); i++)
        io_state_note_unread(site, copy, state->unread.names[i], state->dtypes[i]);
    if (state->source && !tern_failed())
        copy->source = io_copy_text(site, what, state->source);
}

tern_state *tern_state_clone_at(tern_site_t site, const tern_state *state)
{
    static const char called[] = "state_clone";
    if (!state) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, called, "the state is NULL");
        return NULL;
    }
    const char *outer = tern_calling_begin(called);
    tern_state *copy = tern_state_create_at(site);
    if (copy)
        copy_all(site, state, copy);
    tern_calling_end(outer);
    if (!tern_failed())
        return copy;
    tern_state_free(copy);
    return NULL;
}

/* ---- taking out ------------------------------------------------------------------------------- */

tern_tensor *tern_state_get(const tern_state *state, const char *name)
{
    const int64_t place = state && name ? io_names_find(&state->names, name) : -1;
    return place >= 0 ? state->tensors[place] : NULL;
}

const char *tern_state_text(const tern_state *state, const char *key)
{
    const int64_t place = state && key ? io_names_find(&state->keys, key) : -1;
    return place >= 0 ? state->texts[place] : NULL;
}

tern_tensors_t tern_state_tensors(const tern_state *state)
{
    const tern_tensors_t none = { NULL, NULL, 0 };
    const tern_tensors_t all = { state ? state->tensors : NULL, state ? state->names.names : NULL,
                                 state ? state->names.count : 0 };
    return state ? all : none;
}

tern_names_t tern_state_unread(const tern_state *state)
{
    const tern_names_t names = { state ? state->unread.names : NULL,
                                 state ? state->unread.count : 0 };
    return names;
}

const char *tern_state_unread_dtype(const tern_state *state, const char *name)
{
    const int64_t place = state && name ? io_names_find(&state->unread, name) : -1;
    return place >= 0 ? state->dtypes[place] : NULL;
}

tern_names_t tern_state_text_keys(const tern_state *state)
{
    const tern_names_t keys = { state ? state->keys.names : NULL, state ? state->keys.count : 0 };
    return keys;
}

/* The tensor of a name, if it has `count` elements and a dtype of those that are accepted. */
static tern_tensor *find(tern_site_t site, const char *called, const tern_state *state,
                         const char *name, int64_t count, bool accepted(tern_dtype_t dtype),
                         const char *kind)
{
    if (tern_failed())
        return NULL;
    tern_tensor *t = tern_state_get(state, name);
    const char *unread = tern_state_unread_dtype(state, name);
    if (unread)
        tern_fail_at(site, TERN_ERR_DTYPE, io_called(called),
                     "%s: '%s' is of %.20s, which tern does not have", tern_state_source(state),
                     name, unread);
    else if (!t)
        tern_fail_at(site, TERN_ERR_FORMAT, io_called(called), "%s: '%s' is missing",
                     tern_state_source(state), name);
    else if (tern_numel(t) != count || !accepted(tern_dtype(t)))
        tern_fail_at(site, TERN_ERR_FORMAT, io_called(called), "%s: '%s' is not %s",
                     tern_state_source(state), name, kind);
    return tern_failed() ? NULL : t;
}

static bool is_number(tern_dtype_t dtype)
{
    return dtype != TERN_BOOL;
}
static bool is_byte(tern_dtype_t dtype)
{
    return dtype == TERN_U8;
}

static bool all_given(tern_site_t site, const char *called, const tern_state *state,
                      const char *name, const void *out_value)
{
    if (state && name && out_value)
        return true;
    const char *missing = !state ? "the state" : !name ? "the name" : "the place for the value";
    tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(called), "%s is NULL", missing);
    return false;
}

static bool read_int(tern_site_t site, const char *called, const tern_state *state,
                     const char *name, int64_t *value)
{
    tern_tensor *t = find(site, called, state, name, 1, tern_dtype_is_int, "one whole number");
    return t && tern_read_at(site, t, TERN_I64, value, TERN_I64, sizeof *value) == TERN_OK;
}

tern_status_t tern_state_get_int_at(tern_site_t site, const tern_state *state, const char *name,
                                    int64_t *out_value)
{
    static const char called[] = "state_get_int";
    int64_t value;
    if (all_given(site, called, state, name, out_value) &&
        read_int(site, called, state, name, &value))
        *out_value = value;
    return tern_error_code();
}

tern_status_t tern_state_get_count_at(tern_site_t site, const tern_state *state, const char *name,
                                      int64_t *out_value)
{
    static const char called[] = "state_get_count";
    static const int64_t most = (int64_t)1 << 53;
    int64_t value;
    if (!all_given(site, called, state, name, out_value) ||
        !read_int(site, called, state, name, &value))
        return tern_error_code();
    if (value < 0 || value > most)
        return tern_fail_at(site, TERN_ERR_FORMAT, io_called(called),
                            "%s: '%s' is %lld, not a count from 0 to 2^53",
                            tern_state_source(state), name, (long long)value);
    *out_value = value;
    return TERN_OK;
}

tern_status_t tern_state_get_number_at(tern_site_t site, const tern_state *state, const char *name,
                                       double *out_value)
{
    static const char called[] = "state_get_number";
    tern_tensor *t = all_given(site, called, state, name, out_value)
                         ? find(site, called, state, name, 1, is_number, "one number")
                         : NULL;
    double value;
    if (t && tern_read_at(site, t, TERN_F64, &value, TERN_F64, sizeof value) == TERN_OK)
        *out_value = value;
    return tern_error_code();
}

tern_status_t tern_state_get_bytes_at(tern_site_t site, const tern_state *state, const char *name,
                                      void *out_data, int64_t bytes)
{
    static const char called[] = "state_get_bytes";
    tern_tensor *t =
        all_given(site, called, state, name, bytes ? out_data : "") /* no bytes need no place */
            ? find(site, called, state, name, bytes, is_byte, "as many bytes as it should be")
            : NULL;
    return t ? tern_read_at(site, t, TERN_U8, out_data, TERN_U8, bytes) : tern_error_code();
}

/* ---- generators ------------------------------------------------------------------------------- */

enum { NAME_BYTES = 256 };

/* "<prefix>.<end>", or the end alone without a prefix. */
static bool join(tern_site_t site, char out[NAME_BYTES], const char *prefix, const char *end)
{
    const bool alone = !prefix || !*prefix;
    const int n = snprintf(out, NAME_BYTES, "%s%s%s", alone ? "" : prefix, alone ? "" : ".", end);
    if (n < 0 || n >= NAME_BYTES)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the prefix is longer than %d bytes",
                     NAME_BYTES - 6);
    return !tern_failed();
}

tern_status_t tern_generator_store_at(tern_site_t site, const tern_generator *generator,
                                      tern_state *state, const char *prefix)
{
    char seed_name[NAME_BYTES], call_name[NAME_BYTES];
    uint64_t seed, call;
    const char *outer = tern_calling_begin("generator_store");
    if (join(site, seed_name, prefix, "seed") && join(site, call_name, prefix, "call")) {
        tern_generator_state(generator, &seed, &call);
        if (tern_state_set_int_at(site, state, seed_name, (int64_t)seed) == TERN_OK)
            (void)tern_state_set_int_at(site, state, call_name, (int64_t)call);
    }
    tern_calling_end(outer);
    return tern_error_code();
}

tern_status_t tern_generator_restore_at(tern_site_t site, tern_generator *generator,
                                        const tern_state *state, const char *prefix)
{
    char name[NAME_BYTES];
    int64_t seed, call;
    const char *outer = tern_calling_begin("generator_restore");
    const bool found = join(site, name, prefix, "seed") &&
                       tern_state_get_int_at(site, state, name, &seed) == TERN_OK &&
                       join(site, name, prefix, "call") &&
                       tern_state_get_int_at(site, state, name, &call) == TERN_OK;
    tern_calling_end(outer);
    if (!found)
        return tern_error_code();
    tern_generator_set_state(generator, (uint64_t)seed, (uint64_t)call);
    return TERN_OK;
}
