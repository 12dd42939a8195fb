/* IDX readers: whatever the bytes, a tensor of the promised size or an error that names the file. */
#include <stdlib.h>
#include <string.h>

#include "data/idx.h"
#include "tern/tern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TERN_SCOPE;
    const tern_tensor *t = data_idx_from_bytes("fuzz.idx", data, size);
    if ((t == NULL) != tern_failed())
        abort();
    if (!t && tern_error_code() != TERN_ERR_OOM && !strstr(tern_error_text(), "'fuzz.idx'"))
        abort();
    tern_error_clear();
    return 0;
}
