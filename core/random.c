/* Generators: a seed and the number of the next draw. The bits come from core/philox.h. */
#include <stdlib.h>

#include "core/error.h"
#include "core/philox.h"
#include "core/thread.h"

void tern_philox(uint64_t seed, uint64_t call, uint64_t block, uint32_t out_bits[4])
{
    if (out_bits != NULL)
        core_philox(seed, call, block, out_bits);
}

void tern_seed(uint64_t seed)
{
    tern_generator_set_state(NULL, seed, 0);
}

tern_generator *tern_generator_create(uint64_t seed)
{
    tern_generator *generator = core_fault() ? NULL : malloc(sizeof *generator);
    if (generator == NULL) {
        tern_thread *self = core_self();
        core_error(self, core_site(self, NULL), TERN_ERR_OOM, "generator_create",
                   "no memory for a generator");
        return NULL;
    }
    *generator = (struct tern_generator){ .seed = seed };
    return generator;
}

void tern_generator_free(tern_generator *generator)
{
    free(generator);
}

void tern_generator_state(const tern_generator *generator, uint64_t *out_seed, uint64_t *out_call)
{
    const struct tern_generator *g = generator ? generator : &core_self()->generator;
    if (out_seed != NULL)
        *out_seed = g->seed;
    if (out_call != NULL)
        *out_call = g->call;
}

void tern_generator_set_state(tern_generator *generator, uint64_t seed, uint64_t call)
{
    struct tern_generator *g = generator ? generator : &core_self()->generator;
    *g = (struct tern_generator){ .seed = seed, .call = call };
}

uint64_t tern_generator_next(tern_generator *generator)
{
    struct tern_generator *g = generator ? generator : &core_self()->generator;
    return g->call++;
}
