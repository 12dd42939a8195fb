/* CUDA_VISIBLE_DEVICES: whatever the text, distinct devices that exist, at most 64, or a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/visible/list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const core_visible_list *list, int devices, const char *const *uuids)
{
    int index[CORE_VISIBLE_MOST];
    core_visible_end end;
    const int count = core_visible_resolve(list, devices, uuids, index, &end);
    if (count < -1 || count > CORE_VISIBLE_MOST || count > devices ||
        end < CORE_VISIBLE_END_OF_TEXT || end > CORE_VISIBLE_END_TOO_MANY ||
        (core_visible_hides_all(list) && count != 0))
        abort();
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (index[i] == index[j] || index[i] < 0 || index[i] >= devices)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const uuids[] = { "GPU-a1", "GPU-a2", "GPU-b1", "GPU-" };
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    core_visible_list list;
    core_visible_parse(text, &list);
    if (list.count < 0 || list.count > CORE_VISIBLE_MOST)
        abort();
    for (int devices = 0; devices <= 4; devices++) {
        check(&list, devices, NULL);
        check(&list, devices, uuids);
    }
    free(text);
    return 0;
}
