/* Named tensors: states and safetensors files.
 *
 * A state is an ordered set of named tensors and texts: what modules, optimizers, schedules and
 * loaders put into it (tern_module_store and the like) and take out of it again, and what a file
 * holds. Files are safetensors (little-endian, names as PyTorch's), so other programs read them.
 * Saving writes a temporary file beside the target and renames it: a file is whole or not there.
 * Loading checks the whole file before it makes the first tensor. */
#ifndef TERN_IO_H
#define TERN_IO_H

#include "tern/base.h"
#include "tern/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A borrowed list of tensors. Who returns one says how long it lives. */
typedef struct tern_tensors {
    tern_tensor *const *tensors;
    const char *const *names; /* NULL: the places, "0", "1", ... */
    int64_t count;
} tern_tensors_t;
/* A list of the arguments, which lives to the end of the block. */
#define TERN_TENSORS(...)                            \
    ((tern_tensors_t){                               \
        (tern_tensor *const[]){ __VA_ARGS__ }, NULL, \
        (int64_t)(sizeof((tern_tensor *const[]){ __VA_ARGS__ }) / sizeof(void *)) })

/* A borrowed list of names. */
typedef struct tern_names {
    const char *const *names;
    int64_t count;
} tern_names_t;

/* ---- states ----------------------------------------------------------------------------------- */

typedef struct tern_state tern_state;

/* An empty state. Freed in tern_finish, or before by tern_state_free. NULL on failure. */
TERN_API tern_state *tern_state_create_at(tern_site_t site);
#define tern_state_create() tern_state_create_at(TERN_HERE)
TERN_API void tern_state_free(tern_state *state); /* NULL is fine */
/* The same names and texts, and copies of the tensors, each on its device: what they are now stays, whatever is
 * written later. NULL on failure. */
TERN_API tern_state *tern_state_clone_at(tern_site_t site, const tern_state *state);
#define tern_state_clone(state) tern_state_clone_at(TERN_HERE, state)

/* Puts a tensor under a name, or replaces the one there; retained and shared, not copied: a save
 * writes the values of that moment, and tern_state_clone keeps them. Names are UTF-8 and not empty. */
TERN_API tern_status_t tern_state_set_at(tern_site_t site, tern_state *state, const char *name,
                                         tern_tensor *t);
/* Numbers are kept as tensors without dimensions, f64 and i64, so that they come back bit for bit. */
TERN_API tern_status_t tern_state_set_number_at(tern_site_t site, tern_state *state,
                                                const char *name, double value);
TERN_API tern_status_t tern_state_set_int_at(tern_site_t site, tern_state *state, const char *name,
                                             int64_t value);
/* Texts have names of their own, apart from those of tensors (the file's __metadata__), and one may
 * be empty. */
TERN_API tern_status_t tern_state_set_text_at(tern_site_t site, tern_state *state, const char *key,
                                              const char *text);
/* Bytes of the caller's (a struct without pointers), kept as a u8 tensor. */
TERN_API tern_status_t tern_state_set_bytes_at(tern_site_t site, tern_state *state,
                                               const char *name, const void *data, int64_t bytes);
#define tern_state_set(state, name, t) tern_state_set_at(TERN_HERE, state, name, t)
#define tern_state_set_number(state, name, value) \
    tern_state_set_number_at(TERN_HERE, state, name, value)
#define tern_state_set_int(state, name, value) tern_state_set_int_at(TERN_HERE, state, name, value)
#define tern_state_set_text(state, key, text) tern_state_set_text_at(TERN_HERE, state, key, text)
#define tern_state_set_bytes(state, name, data, bytes) \
    tern_state_set_bytes_at(TERN_HERE, state, name, data, bytes)

/* The tensor of a name, borrowed; NULL, without an error, when there is none. */
TERN_API tern_tensor *tern_state_get(const tern_state *state, const char *name);
/* The text of a key, borrowed; NULL, without an error, when there is none. */
TERN_API const char *tern_state_text(const tern_state *state, const char *key);
/* An error when the name is missing or its tensor is not one element of an integer dtype (get_int, get_count)
 * or of any number's (get_number), or of get_count, for steps and samples, when it is below 0 or so large that
 * sums of such counts might leave 64 bits; *out_value is untouched then. */
TERN_API tern_status_t tern_state_get_int_at(tern_site_t site, const tern_state *state,
                                             const char *name, int64_t *out_value);
TERN_API tern_status_t tern_state_get_count_at(tern_site_t site, const tern_state *state,
                                               const char *name, int64_t *out_value);
TERN_API tern_status_t tern_state_get_number_at(tern_site_t site, const tern_state *state,
                                                const char *name, double *out_value);
/* Exactly `bytes` bytes of a u8 tensor. */
TERN_API tern_status_t tern_state_get_bytes_at(tern_site_t site, const tern_state *state,
                                               const char *name, void *out_data, int64_t bytes);
#define tern_state_get_int(state, name, out_value) \
    tern_state_get_int_at(TERN_HERE, state, name, out_value)
#define tern_state_get_count(state, name, out_value) \
    tern_state_get_count_at(TERN_HERE, state, name, out_value)
#define tern_state_get_number(state, name, out_value) \
    tern_state_get_number_at(TERN_HERE, state, name, out_value)
#define tern_state_get_bytes(state, name, out_data, bytes) \
    tern_state_get_bytes_at(TERN_HERE, state, name, out_data, bytes)
/* All tensors in the order in which they came, and all keys of texts; until the next change. */
TERN_API tern_tensors_t tern_state_tensors(const tern_state *state);
TERN_API tern_names_t tern_state_text_keys(const tern_state *state);
/* Tensors of the file that the state lacks, because tern does not have their dtypes, until some are set: all
 * names, until the next change, and the dtype as the file has it (F8_E4M3, ...), NULL for any other name. Who
 * restores from the state fails where such a one is wanted; a state that has any is not saved. */
TERN_API tern_names_t tern_state_unread(const tern_state *state);
TERN_API const char *tern_state_unread_dtype(const tern_state *state, const char *name);
/* The file that the state was loaded from, for messages; "state" for any other. */
TERN_API const char *tern_state_source(const tern_state *state);

/* A generator's seed and call number as "<prefix>.seed" and "<prefix>.call". NULL is the calling
 * thread's default generator. Restoring fails, and changes nothing, when one is missing. */
TERN_API tern_status_t tern_generator_store_at(tern_site_t site, const tern_generator *generator,
                                               tern_state *state, const char *prefix);
TERN_API tern_status_t tern_generator_restore_at(tern_site_t site, tern_generator *generator,
                                                 const tern_state *state, const char *prefix);
#define tern_generator_store(generator, state, prefix) \
    tern_generator_store_at(TERN_HERE, generator, state, prefix)
#define tern_generator_restore(generator, state, prefix) \
    tern_generator_restore_at(TERN_HERE, generator, state, prefix)

/* Writes a state to a safetensors file, replacing a file there only once the new one is whole and on
 * disk. A link is kept: the file it leads to is replaced or made. Tensors on devices are read back. */
TERN_API tern_status_t tern_state_save_at(tern_site_t site, const tern_state *state,
                                          const char *path);
#define tern_state_save(state, path) tern_state_save_at(TERN_HERE, state, path)
/* The state in a file, its tensors on the CPU; of those of dtypes that tern does not have the names alone
 * (tern_state_unread). NULL on failure. */
TERN_API tern_state *tern_state_load_at(tern_site_t site, const char *path);
#define tern_state_load(path) tern_state_load_at(TERN_HERE, path)

/* ---- safetensors files ------------------------------------------------------------------------ */

/* An open file whose header has been checked: names, dtypes, shapes, and that the tensors lie one
 * behind the other and fill the file. Tensors are read when asked for. */
typedef struct tern_safetensors tern_safetensors;

enum { TERN_SAFETENSORS_HEADER_LIMIT = 16 << 20 }; /* bytes; a longer header is refused */

/* NULL on failure. Close it by tern_safetensors_close. */
TERN_API tern_safetensors *tern_safetensors_open_at(tern_site_t site, const char *path);
#define tern_safetensors_open(path) tern_safetensors_open_at(TERN_HERE, path)
/* The same from memory, which must outlive the object; `name` stands in messages for the path. */
TERN_API tern_safetensors *tern_safetensors_open_memory_at(tern_site_t site, const void *data,
                                                           size_t bytes, const char *name);
#define tern_safetensors_open_memory(data, bytes, name) \
    tern_safetensors_open_memory_at(TERN_HERE, data, bytes, name)
TERN_API void tern_safetensors_close(tern_safetensors *file); /* NULL is fine */

typedef struct tern_safetensors_info {
    const char *name;
    tern_dtype_t dtype; /* NONE: one that tern does not have (F8_E4M3, U16, ...); not to be read */
    tern_shape_t shape;
    int64_t offset_bytes, size_bytes; /* in the data that follows the header */
    const char *dtype_text;           /* as the file has it, also where `dtype` is NONE */
} tern_safetensors_info_t;
TERN_API int64_t tern_safetensors_count(const tern_safetensors *file);
/* In the order of the header; NULL for a place that there is not. */
TERN_API const tern_safetensors_info_t *tern_safetensors_entry(const tern_safetensors *file,
                                                               int64_t place);
/* Place of a name; -1 when there is none. */
TERN_API int64_t tern_safetensors_find(const tern_safetensors *file, const char *name);
/* The file's __metadata__: text of a key, or NULL; and all keys. */
TERN_API const char *tern_safetensors_text(const tern_safetensors *file, const char *key);
TERN_API tern_names_t tern_safetensors_text_keys(const tern_safetensors *file);
/* One tensor, on the CPU, of the innermost scope. */
TERN_API tern_tensor *tern_safetensors_read_at(tern_site_t site, tern_safetensors *file,
                                               int64_t place);
#define tern_safetensors_read(file, place) tern_safetensors_read_at(TERN_HERE, file, place)

/* Writes a list of tensors as tern_state_save does. An extent of 2^53 or more, which an empty
 * tensor can have, is an error of both: readers take none. */
TERN_API tern_status_t tern_safetensors_save_at(tern_site_t site, tern_tensors_t tensors,
                                                const char *path);
#define tern_safetensors_save(tensors, path) tern_safetensors_save_at(TERN_HERE, tensors, path)

#ifdef __cplusplus
}
#endif
#endif
