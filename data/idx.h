/* IDX, the format of MNIST: two zero bytes, a type byte, the number of dimensions, each extent as
 * four bytes, then the elements row-major; all big-endian. */
#ifndef DATA_IDX_H
#define DATA_IDX_H

#include "tern/tensor.h"

/* The array in `count` bytes (packed or not) as a CPU tensor; `name` stands for it in errors. */
tern_tensor *data_idx_from_bytes(const char *name, const uint8_t *bytes, size_t count);
/* The same of a file. */
tern_tensor *data_idx_from_file(const char *path);

#endif
