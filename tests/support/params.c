#include "tests/support/params.h"

int64_t params_changed(const tern_optimizer *opt, float *values, int64_t room)
{
    const tern_tensors_t params = tern_optimizer_params(opt, -1);
    int64_t changed = 0;
    for (int64_t i = 0; i < params.count; i++) {
        const int64_t count = tern_numel(params.tensors[i]);
        const size_t bytes = (size_t)count * sizeof *values;
        assert_true(count <= room);
        float *now = test_malloc(bytes);
        tern_read(params.tensors[i], TERN_F32, now, (int64_t)bytes);
        assert_no_error();
        changed += memcmp(now, values, bytes) != 0;
        memcpy(values, now, bytes);
        test_free(now);
        values += count;
        room -= count;
    }
    return changed;
}
