/* safetensors: a file that opens can be listed and read; one that does not says why. */
#include <stdlib.h>
#include <string.h>

#include "tern/tern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(tern_safetensors *file)
{
    TERN_SCOPE;
    for (int64_t i = 0; i < tern_safetensors_count(file); i++) {
        const tern_safetensors_info_t *info = tern_safetensors_entry(file, i);
        if (!info || tern_safetensors_find(file, info->name) < 0)
            abort();
        const tern_tensor *t = tern_safetensors_read(file, i);
        if (t && tern_numel(t) * tern_dtype_size(tern_dtype(t)) != info->size_bytes)
            abort();
        if (!t && !tern_failed())
            abort();
        tern_error_clear();
    }
    const tern_names_t keys = tern_safetensors_text_keys(file);
    for (int64_t i = 0; i < keys.count; i++)
        if (!tern_safetensors_text(file, keys.names[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tern_safetensors *file =
        tern_safetensors_open_memory_at(TERN_HERE, data, size, "fuzz.safetensors");
    if ((file == NULL) != tern_failed())
        abort();
    if (file)
        read_all(file);
    else if (tern_error_code() == TERN_ERR_FORMAT && !strstr(tern_error_text(), "fuzz.safetensors"))
        abort();
    tern_safetensors_close(file);
    tern_error_clear();
    return 0;
}
