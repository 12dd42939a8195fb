/* An open safetensors file. */
#ifndef TERN_IO_SAFETENSORS_H
#define TERN_IO_SAFETENSORS_H

#include <cjson/cJSON.h>

#include "io/internal.h"

struct tern_safetensors {
    io_source source;
    cJSON *header; /* owns the names */
    io_names names;
    tern_safetensors_info_t *entries; /* by place of their name */
    io_names keys;                    /* of __metadata__ */
    const char **texts;
    int64_t data_start; /* where offsets count from */
};

/* Numbers of a header are below this: a double, which JSON's readers have, holds them exactly. */
#define IO_NUMBER_LIMIT ((int64_t)1 << 53)

/* "F32" and the like; NULL for a dtype that files do not know. */
const char *io_dtype_text(tern_dtype_t dtype);

/* False for a text that is no JSON although the parser would take it. Numbers in it that are not written as whole
 * ones become -1. */
bool io_json_is_strict(char *text);

#endif
