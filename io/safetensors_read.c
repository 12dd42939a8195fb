/* Reading safetensors: 8 bytes of header length, a JSON header, data. Everything in the header is
 * checked before the first tensor is made; files come from anywhere. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "io/safetensors.h"
#include "io/state.h"

static const char what[] = "safetensors_open";

/* ---- dtypes ----------------------------------------------------------------------------------- */

static const char *const dtype_texts[TERN_DTYPES] = {
    [TERN_BOOL] = "BOOL", [TERN_U8] = "U8",   [TERN_I8] = "I8",   [TERN_I16] = "I16",
    [TERN_I32] = "I32",   [TERN_I64] = "I64", [TERN_F16] = "F16", [TERN_BF16] = "BF16",
    [TERN_F32] = "F32",   [TERN_F64] = "F64"
};

const char *io_dtype_text(tern_dtype_t dtype)
{
    return dtype > TERN_DTYPE_NONE && dtype < TERN_DTYPES ? dtype_texts[dtype] : NULL;
}

static tern_dtype_t dtype_of(const char *text)
{
    for (int d = 1; d < TERN_DTYPES; d++)
        if (strcmp(text, dtype_texts[d]) == 0)
            return (tern_dtype_t)d;
    return TERN_DTYPE_NONE;
}

/* ---- checking the header ---------------------------------------------------------------------- */

/* Records that the file is not as it should be; `about` is cut: it comes from the file. */
static bool bad(tern_site_t site, const tern_safetensors *file, const char *problem,
                const char *about)
{
    const char *name = file->source.name;
    if (about)
        tern_fail_at(site, TERN_ERR_FORMAT, io_called(what), "%s: %s: '%.80s'", name, problem,
                     about);
    else
        tern_fail_at(site, TERN_ERR_FORMAT, io_called(what), "%s: %s", name, problem);
    return false;
}

/* torch.save writes an archive, or pickled objects before version 1.6. */
static bool is_torch_file(const unsigned char head[8])
{
    return memcmp(head, "PK\3\4", 4) == 0 || (head[0] == 0x80 && head[1] >= 2 && head[1] <= 5);
}

static bool no_memory(tern_site_t site)
{
    tern_fail_at(site, TERN_ERR_OOM, io_called(what), "no memory for a header");
    return false;
}

/* A JSON number that is a whole number a double holds exactly. */
static bool whole(const cJSON *item, int64_t *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) ||
        item->valuedouble >= (double)IO_NUMBER_LIMIT)
        return false;
    *out = (int64_t)item->valuedouble;
    return (double)*out == item->valuedouble;
}

/* Of members that are there twice readers differ in which they take. */
static bool check_members(tern_site_t site, const tern_safetensors *file, const cJSON *entry)
{
    static const char *const members[][2] = { { "dtype", "dtype is there twice for" },
                                              { "shape", "shape is there twice for" },
                                              { "data_offsets",
                                                "data_offsets is there twice for" } };
    int count[3] = { 0 };
    for (const cJSON *item = entry->child; item; item = item->next)
        for (int i = 0; i < 3; i++)
            if (item->string && strcmp(item->string, members[i][0]) == 0 && ++count[i] > 1)
                return bad(site, file, members[i][1], entry->string);
    return true;
}

static bool read_shape(const cJSON *list, tern_shape_t *out, int64_t *out_numel)
{
    bool empty = false;
    *out = TERN_SCALAR_SHAPE;
    *out_numel = 1;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > TERN_MAX_DIMS)
        return false;
    for (const cJSON *item = list->child; item; item = item->next) {
        int64_t *extent = &out->dims[out->ndim++];
        if (!whole(item, extent))
            return false;
        if (*extent == 0)
            empty = true;
        else if (__builtin_mul_overflow(*out_numel, *extent, out_numel))
            return false;
    }
    if (empty)
        *out_numel = 0;
    return true;
}

static bool read_entry(tern_site_t site, const tern_safetensors *file, const cJSON *item,
                       int64_t data_bytes, tern_safetensors_info_t *out)
{
    int64_t numel, end, size;
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    out->name = item->string;
    if (!check_members(site, file, item))
        return false;
    if (!cJSON_IsObject(item) || !cJSON_IsString(dtype))
        return bad(site, file, "no dtype for the tensor", item->string);
    out->dtype_text = dtype->valuestring;
    out->dtype = dtype_of(dtype->valuestring); /* NONE is an error for who reads the tensor */
    if (!read_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), &out->shape, &numel))
        return bad(site, file, "no shape of at most 8 whole numbers for", item->string);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !whole(offsets->child, &out->offset_bytes) || !whole(offsets->child->next, &end))
        return bad(site, file, "no pair of data_offsets for", item->string);
    if (out->offset_bytes > end || end > data_bytes)
        return bad(site, file, "data_offsets outside the file for", item->string);
    out->size_bytes = end - out->offset_bytes;
    const bool agree = out->dtype == TERN_DTYPE_NONE ||
                       (!__builtin_mul_overflow(numel, tern_dtype_size(out->dtype), &size) &&
                        size == out->size_bytes);
    if (!agree)
        return bad(site, file, "shape and data_offsets do not agree for", item->string);
    return true;
}

static int by_offset(const void *a, const void *b)
{
    const tern_safetensors_info_t *x = *(tern_safetensors_info_t *const *)a;
    const tern_safetensors_info_t *y = *(tern_safetensors_info_t *const *)b;
    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

/* Tensors lie one behind the other, without gaps, and fill the data. */
static bool check_cover(tern_site_t site, const tern_safetensors *file, int64_t data_bytes)
{
    const int64_t n = file->names.count;
    tern_safetensors_info_t **order = malloc((size_t)(n + 1) * sizeof *order);
    if (!order)
        return no_memory(site);
    for (int64_t i = 0; i < n; i++)
        order[i] = &file->entries[i];
    qsort(order, (size_t)n, sizeof *order, by_offset);
    int64_t expected = 0;
    bool fine = true;
    for (int64_t i = 0; i < n && fine; i++) {
        fine = order[i]->offset_bytes == expected ||
               bad(site, file, "a gap or an overlap before the tensor", order[i]->name);
        expected = order[i]->offset_bytes + order[i]->size_bytes;
    }
    free(order);
    return fine &&
           (expected == data_bytes || bad(site, file, "bytes behind the last tensor", NULL));
}

/* ---- building --------------------------------------------------------------------------------- */

/* null is none, as for the Python library; an empty key is one. */
static bool read_texts(tern_site_t site, tern_safetensors *file, const cJSON *metadata)
{
    if (cJSON_IsNull(metadata))
        return true;
    if (!cJSON_IsObject(metadata))
        return bad(site, file, "__metadata__ is not an object of texts", NULL);
    file->texts = calloc((size_t)cJSON_GetArraySize(metadata) + 1, sizeof *file->texts);
    if (!file->texts)
        return no_memory(site);
    for (const cJSON *item = metadata->child; item; item = item->next) {
        if (!cJSON_IsString(item))
            return bad(site, file, "__metadata__ holds no text under", item->string);
        if (io_names_find(&file->keys, item->string) >= 0)
            return bad(site, file, "__metadata__ holds a key twice", item->string);
        const int64_t place = io_names_add(&file->keys, item->string);
        if (place < 0)
            return no_memory(site);
        file->texts[place] = item->valuestring;
    }
    return true;
}

static bool read_entries(tern_site_t site, tern_safetensors *file)
{
    const int64_t data_bytes = file->source.bytes - file->data_start;
    const int n = cJSON_GetArraySize(file->header);
    file->entries = calloc((size_t)n + 1, sizeof *file->entries);
    if (!file->entries)
        return no_memory(site);
    const cJSON *metadata = NULL;
    for (const cJSON *item = file->header->child; item; item = item->next) {
        if (strcmp(item->string, "__metadata__") == 0) {
            if (metadata)
                return bad(site, file, "two __metadata__", NULL);
            metadata = item;
            if (!read_texts(site, file, item))
                return false;
            continue;
        }
        if (!*item->string || io_names_find(&file->names, item->string) >= 0)
            return bad(site, file, "a name that is empty or twice there", item->string);
        const int64_t place = io_names_add(&file->names, item->string);
        if (place < 0)
            return no_memory(site);
        if (!read_entry(site, file, item, data_bytes, &file->entries[place]))
            return false;
    }
    return check_cover(site, file, data_bytes);
}

/* The header of a text; NULL when it is not one JSON object with blanks behind it at most, or, with
 * errno ENOMEM, without memory: the parser itself tells these apart as little as its error place does. */
static cJSON *parse(char *text, size_t length)
{
    errno = 0;
    if (text[0] != '{' || !io_is_utf8((const unsigned char *)text, length) ||
        !io_json_is_strict(text))
        return NULL;
    const char *end = NULL;
    core_lock_take(CORE_LOCK_JSON); /* the place of its last error is one for all threads */
    cJSON *header = cJSON_ParseWithOpts(text, &end, 0);
    core_lock_end(CORE_LOCK_JSON);
    if (header)
        end += strspn(end, " \t\r\n"); /* JSON's blanks */
    if (cJSON_IsObject(header) && end == text + length)
        return header;
    if (header)
        errno = 0; /* well-formed, but something else */
    cJSON_Delete(header);
    return NULL;
}

/* The header's length from the first eight bytes of the file. */
static bool read_length(tern_site_t site, const tern_safetensors *file, size_t *out_length)
{
    unsigned char head[8];
    if (file->source.bytes < 8)
        return bad(site, file, "too short to be a safetensors file", NULL);
    if (!io_source_read(site, &file->source, 0, head, 8))
        return false;
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | head[i];
    const bool too_long =
        length > TERN_SAFETENSORS_HEADER_LIMIT || length > (uint64_t)file->source.bytes - 8;
    if (too_long && is_torch_file(head))
        return bad(site, file,
                   "no safetensors file, but one of torch.save, or another archive (.npz)\n"
                   "  try in Python: "
                   "safetensors.torch.save_file(net.state_dict(), path)",
                   NULL);
    if (too_long)
        return bad(site, file,
                   "the length of the header is not possible: no safetensors file, or cut short\n"
                   "  try another copy: a save of tern leaves a whole file or the one before it",
                   NULL);
    *out_length = (size_t)length;
    return true;
}

static bool read_header(tern_site_t site, tern_safetensors *file)
{
    size_t length = 0;
    if (!read_length(site, file, &length))
        return false;
    file->data_start = 8 + (int64_t)length;
    char *text = malloc(length + 1);
    if (!text)
        return no_memory(site);
    const bool fine = io_source_read(site, &file->source, 8, text, (int64_t)length);
    text[length] = '\0';
    file->header = fine ? parse(text, length) : NULL;
    const bool used_up = fine && !file->header && errno == ENOMEM;
    free(text);
    if (used_up)
        return no_memory(site);
    if (fine && !file->header)
        return bad(site, file, "the header is not JSON in UTF-8", NULL);
    return fine && read_entries(site, file);
}

/* ---- open and close --------------------------------------------------------------------------- */

void tern_safetensors_close(tern_safetensors *file)
{
    if (!file)
        return;
    io_source_close(&file->source);
    cJSON_Delete(file->header);
    io_names_clear(&file->names);
    io_names_clear(&file->keys);
    free(file->entries);
    free((void *)file->texts);
    free(file);
}

static tern_safetensors *new_file(tern_site_t site)
{
    tern_safetensors *file = tern_failed() ? NULL : calloc(1, sizeof *file);
    if (!file && !tern_failed())
        tern_fail_at(site, TERN_ERR_OOM, io_called(what), "no memory for an open file");
    return file;
}

tern_safetensors *tern_safetensors_open_at(tern_site_t site, const char *path)
{
    tern_safetensors *file = new_file(site);
    if (!file)
        return NULL;
    if (io_source_open(site, &file->source, path) && read_header(site, file))
        return file;
    tern_safetensors_close(file);
    return NULL;
}

tern_safetensors *tern_safetensors_open_memory_at(tern_site_t site, const void *data, size_t bytes,
                                                  const char *name)
{
    tern_safetensors *file = new_file(site);
    if (!file)
        return NULL;
    if (!data) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "the memory is NULL");
        free(file);
        return NULL;
    }
    file->source = (io_source){ .file = -1, .data = data, .bytes = (int64_t)bytes };
    file->source.name = io_copy_text(site, what, name ? name : "memory");
    if (file->source.name && read_header(site, file))
        return file;
    tern_safetensors_close(file);
    return NULL;
}

/* ---- asking ----------------------------------------------------------------------------------- */

int64_t tern_safetensors_count(const tern_safetensors *file)
{
    return file ? file->names.count : 0;
}

const tern_safetensors_info_t *tern_safetensors_entry(const tern_safetensors *file, int64_t place)
{
    return file && place >= 0 && place < file->names.count ? &file->entries[place] : NULL;
}

int64_t tern_safetensors_find(const tern_safetensors *file, const char *name)
{
    return file && name ? io_names_find(&file->names, name) : -1;
}

const char *tern_safetensors_text(const tern_safetensors *file, const char *key)
{
    const int64_t place = file && key ? io_names_find(&file->keys, key) : -1;
    return place >= 0 ? file->texts[place] : NULL;
}

tern_names_t tern_safetensors_text_keys(const tern_safetensors *file)
{
    const tern_names_t keys = { file ? file->keys.names : NULL, file ? file->keys.count : 0 };
    return keys;
}

/* bool tensors hold 0 and 1 only, whatever the file says */
static void clean_bools(unsigned char *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        data[i] = data[i] != 0;
}

/* In the innermost scope; NULL after an error, when the scope may hold what was made. */
static tern_tensor *read_tensor(tern_site_t site, const tern_safetensors *file,
                                const tern_safetensors_info_t *info)
{
    const tern_new_args args = {
        .size_ = sizeof args, .shape = info->shape, .dtype = info->dtype, .device = TERN_CPU
    };
    tern_tensor *t = tern_empty_at(site, &args);
    if (!t || info->size_bytes == 0)
        return t;
    void *data = tern_data_at(site, t);
    const int64_t start = file->data_start + info->offset_bytes;
    if (!data || !io_source_read(site, &file->source, start, data, info->size_bytes))
        return NULL;
    if (info->dtype == TERN_BOOL)
        clean_bools(data, info->size_bytes);
    return t;
}

/* A dtype of the file's that tern does not have, like F8_E4M3. */
static void refuse_dtype(tern_site_t site, const tern_safetensors *file,
                         const tern_safetensors_info_t *info)
{
    tern_fail_at(site, TERN_ERR_DTYPE, io_called(what),
                 "%s: the tensor '%.80s' is of %.20s, which tern does not have\n  try "
                 "tern_safetensors_read for others of the file",
                 file->source.name, info->name, info->dtype_text);
}

static tern_tensor *read_place(tern_site_t site, const tern_safetensors *file, int64_t place)
{
    const tern_safetensors_info_t *info = tern_safetensors_entry(file, place);
    if (tern_failed())
        return NULL;
    if (!info) {
        tern_fail_at(site, TERN_ERR_ARGUMENT, io_called(what), "there is no tensor %lld",
                     (long long)place);
        return NULL;
    }
    if (info->dtype == TERN_DTYPE_NONE) {
        refuse_dtype(site, file, info);
        return NULL;
    }
    const bool owned = tern_set_owned_mode(false);
    tern_scope scope = tern_scope_begin();
    tern_tensor *t = read_tensor(site, file, info);
    if (owned)
        tern_retain(t);
    else
        tern_keep(t);
    tern_scope_end(&scope);
    tern_set_owned_mode(owned);
    return t;
}

tern_tensor *tern_safetensors_read_at(tern_site_t site, tern_safetensors *file, int64_t place)
{
    const char *outer = tern_calling_begin("safetensors_read");
    tern_tensor *t = read_place(site, file, place);
    tern_calling_end(outer);
    return t;
}

/* ---- states ----------------------------------------------------------------------------------- */

static bool fill_state(tern_site_t site, tern_state *state, tern_safetensors *file)
{
    const bool owned = tern_set_owned_mode(false);
    state->source = io_copy_text(site, what, file->source.name);
    for (int64_t i = 0; i < file->names.count && !tern_failed(); i++) {
        const tern_safetensors_info_t *info = &file->entries[i];
        if (info->dtype == TERN_DTYPE_NONE) {
            (void)io_state_note_unread(site, state, info->name, info->dtype_text);
            continue;
        }
        TERN_SCOPE;
        tern_tensor *t = tern_safetensors_read_at(site, file, i);
        if (t)
            (void)tern_state_set_at(site, state, info->name, t);
    }
    tern_set_owned_mode(owned);
    for (int64_t i = 0; i < file->keys.count && !tern_failed(); i++)
        (void)tern_state_set_text_at(site, state, file->keys.names[i], file->texts[i]);
    return !tern_failed();
}

tern_state *tern_state_load_at(tern_site_t site, const char *path)
{
    const char *outer = tern_calling_begin("state_load");
    tern_safetensors *file = tern_safetensors_open_at(site, path);
    tern_state *state = file ? tern_state_create_at(site) : NULL;
    if (state && !fill_state(site, state, file)) {
        tern_state_free(state);
        state = NULL;
    }
    tern_safetensors_close(file);
    tern_calling_end(outer);
    return state;
}
