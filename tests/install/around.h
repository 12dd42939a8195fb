/* What the fragments of the guide take for granted. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tern/tern.h>

extern tern_dev_t dev;
extern tern_stream_t stream;
extern tern_tensor *a, *w, *x;
extern tern_module *net;
extern tern_optimizer *opt;
extern tern_dataset *data;
extern tern_loader *batches;
extern tern_batch b;
extern int64_t batch;
bool train_step(int64_t batch);
void step(void);
