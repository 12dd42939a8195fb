/* Writing safetensors: the header first, from sizes alone, then the data in the order of the list. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/target.h"
#include "io/safetensors.h"
#include "io/state.h"

static const char what[] = "safetensors_save";

static cJSON *whole_number(int64_t value)
{
    char text[24]; /* as text: cJSON would print a large double in e-notation */
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return cJSON_CreateRaw(text);
}

static bool add_entry(cJSON *header, const char *name, const tern_tensor *t, int64_t *offset)
{
    const tern_shape_t shape = tern_shape(t);
    const int64_t end = *offset + tern_numel(t) * tern_dtype_size(tern_dtype(t));
    cJSON *entry = cJSON_AddObjectToObject(header, name);
    bool fine = entry && cJSON_AddStringToObject(entry, "dtype", io_dtype_text(tern_dtype(t)));
    cJSON *dims = fine ? cJSON_AddArrayToObject(entry, "shape") : NULL;
    for (int d = 0; dims && d < shape.ndim; d++)
        fine = fine && cJSON_AddItemToArray(dims, whole_number(shape.dims[d]));
    cJSON *offsets = dims ? cJSON_AddArrayToObject(entry, "data_offsets") : NULL;
    fine = fine && offsets && cJSON_AddItemToArray(offsets, whole_number(*offset)) &&
           cJSON_AddItemToArray(offsets, whole_number(end));
    *offset = end;
    return fine;
}

/* The header's text, padded with blanks so that the data starts at a multiple of 8; NULL without
 * memory. */
static char *header_text(tern_tensors_t list, const tern_state *state, size_t *out_bytes)
{
    cJSON *header = cJSON_CreateObject();
    bool fine = header != NULL;
    const tern_names_t keys = tern_state_text_keys(state);
    if (fine && keys.count > 0) {
        cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
        fine = metadata != NULL;
        for (int64_t i = 0; fine && i < keys.count; i++)
            fine = cJSON_AddStringToObject(metadata, keys.names[i],
                                           tern_state_text(state, keys.names[i])) != NULL;
    }
    int64_t offset = 0;
    char place[24];
    for (int64_t i = 0; fine && i < list.count; i++) {
        (void)snprintf(place, sizeof place, "%" PRId64, i);
        fine = add_entry(header, list.names ? list.names[i] : place, list.tensors[i], &offset);
    }
    char *text = fine ? cJSON_PrintUnformatted(header) : NULL;
    cJSON_Delete(header);
    if (!text)
        return NULL;
    const size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *larger = realloc(text, padded + 1);
    if (!larger) {
        free(text);
        return NULL;
    }
    memset(larger + length, ' ', padded - length);
    *out_bytes = padded;
    return larger;
}

static bool write_tensor(tern_site_t site, core_target *target, tern_tensor *t)
{
    const int64_t bytes = tern_numel(t) * tern_dtype_size(tern_dtype(t));
    if (bytes == 0)
        return true;
    void *data = malloc((size_t)bytes);
    if (!data)
        return tern_fail_at(site, TERN_ERR_OOM, io_called(what),
                            "no memory for a copy of %lld bytes", (long long)bytes) == TERN_OK;
    const bool fine = tern_read_at(site, t, tern_dtype(t), data, TERN_DTYPE_NONE, bytes) == TERN_OK;
    if (fine)
        core_target_write(target, data, (size_t)bytes);
    free(data);
    return fine;
}

/* Would a reader take this name, which is not in `seen` yet? */
static bool check_name(tern_site_t site, const io_names *seen, const char *name)
{
    const char *problem = NULL;
    if (!*name || !io_is_utf8((const unsigned char *)name, strlen(name)))
        problem = "is empty or not UTF-8";
    else if (strcmp(name, "__metadata__") == 0)
        problem = "is the file's own";
    else if (io_names_find(seen, name) >= 0)
        problem = "is there twice";
    if (problem)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the name '%.80s' %s", name,
                     problem);
    return !problem;
}

/* Would a reader take these extents? An empty tensor may have larger ones. */
static void check_extents(tern_site_t site, const char *name, const tern_tensor *t)
{
    const tern_shape_t shape = tern_shape(t);
    for (int d = 0; d < shape.ndim; d++)
        if (shape.dims[d] >= IO_NUMBER_LIMIT)
            tern_fail_at(site, TERN_ERR_SHAPE, io_called(what),
                         "'%.80s' has an extent of %lld; a file's are below 2^53", name,
                         (long long)shape.dims[d]);
}

static bool check_list(tern_site_t site, tern_tensors_t list)
{
    io_names seen = { 0 };
    char place[24];
    if (list.count < 0)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the list has %lld tensors",
                     (long long)list.count);
    if (list.count > 0 && !list.tensors)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the list of tensors is NULL");
    for (int64_t i = 0; i < list.count && !tern_failed(); i++) {
        if (!list.tensors[i] || (list.names && !list.names[i]))
            tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what),
                         "tensor %lld or its name is NULL", (long long)i);
        else if (list.names && check_name(site, &seen, list.names[i]) &&
                 io_names_add(&seen, list.names[i]) < 0)
            tern_fail_at(site, TERN_ERR_OOM, io_called(what), "no memory for the names");
        (void)snprintf(place, sizeof place, "%" PRId64, i);
        if (!tern_failed())
            check_extents(site, list.names ? list.names[i] : place, list.tensors[i]);
    }
    io_names_clear(&seen);
    return !tern_failed();
}

static void write_header(core_target *target, const char *text, size_t bytes)
{
    unsigned char head[8];
    for (int i = 0; i < 8; i++)
        head[i] = (unsigned char)((uint64_t)bytes >> 8 * i);
    core_target_write(target, head, sizeof head);
    core_target_write(target, text, bytes);
}

static tern_status_t save(tern_site_t site, tern_tensors_t list, const tern_state *state,
                          const char *path)
{
    size_t bytes = 0;
    if (tern_failed() || !check_list(site, list))
        return tern_error_code();
    char *text = header_text(list, state, &bytes);
    if (!text)
        return tern_fail_at(site, TERN_ERR_OOM, io_called(what), "no memory for the header of %s",
                            path ? path : "(NULL)");
    core_target target;
    if (bytes > TERN_SAFETENSORS_HEADER_LIMIT)
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what),
                     "the names make a header of %zu bytes, over the limit of %d", bytes,
                     (int)TERN_SAFETENSORS_HEADER_LIMIT);
    if (tern_failed() || !core_target_open(site, io_called(what), &target, path)) {
        free(text);
        return tern_error_code();
    }
    write_header(&target, text, bytes);
    free(text);
    bool fine = true;
    for (int64_t i = 0; fine && i < list.count; i++)
        fine = write_tensor(site, &target, list.tensors[i]);
    if (fine)
        (void)core_target_commit(&target);
    else
        core_target_abandon(&target);
    return tern_error_code();
}

tern_status_t tern_safetensors_save_at(tern_site_t site, tern_tensors_t tensors, const char *path)
{
    return save(site, tensors, NULL, path);
}

static tern_status_t save_state(tern_site_t site, const tern_state *state, const char *path)
{
    if (!state && !tern_failed())
        return tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the state is NULL");
    const tern_names_t unread = tern_state_unread(state);
    if (unread.count > 0 && !tern_failed())
        return tern_fail_at(
            site, TERN_ERR_DTYPE, io_called(what),
            "'%.80s' of %s is of %.20s, which tern does not have: the new file would "
            "lack it\n  try tern_safetensors_save(tern_state_tensors(state), path) "
            "where that is meant",
            unread.names[0], tern_state_source(state),
            tern_state_unread_dtype(state, unread.names[0]));
    return save(site, tern_state_tensors(state), state, path);
}

tern_status_t tern_state_save_at(tern_site_t site, const tern_state *state, const char *path)
{
    const char *outer = tern_calling_begin("state_save");
    const tern_status_t code = save_state(site, state, path);
    tern_calling_end(outer);
    return code;
}
