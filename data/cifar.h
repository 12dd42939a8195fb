/* CIFAR-10's binary version: records of one label byte and 3 x 32 x 32 bytes of colour planes. */
#ifndef DATA_CIFAR_H
#define DATA_CIFAR_H

#include "tern/tensor.h"

enum { CIFAR_IMAGE_BYTES = 3 * 32 * 32, CIFAR_RECORD_BYTES = 1 + CIFAR_IMAGE_BYTES };

/* Splits the records in `count` bytes into images and labels, which have room for
 * count / CIFAR_RECORD_BYTES of each. False after an error that names `name`, for bytes that are no
 * whole records, or a label that is not 0 .. 9. */
bool data_cifar_split(const char *name, const uint8_t *bytes, size_t count, uint8_t *images,
                      uint8_t *labels);

#endif
