/* CIFAR-10 records: labels stay below ten, and nothing but whole records is taken. */
#include <stdlib.h>

#include "data/cifar.h"
#include "tern/tern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t count = size / CIFAR_RECORD_BYTES;
    uint8_t *images = malloc(count * CIFAR_IMAGE_BYTES + 1);
    uint8_t *labels = malloc(count + 1);
    if (!images || !labels)
        abort();
    if (data_cifar_split("fuzz.bin", data, size, images, labels)) {
        for (size_t i = 0; i < count; i++)
            if (labels[i] > 9)
                abort();
    } else if (!tern_failed()) {
        abort();
    }
    tern_error_clear();
    free(images);
    free(labels);
    return 0;
}
