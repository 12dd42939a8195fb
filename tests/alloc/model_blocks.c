/* Blocks of the model: who is beside whom, joining, counting. */
#include <stddef.h>

#include "tests/alloc/model_parts.h"

model_block *model_at(model *m, uint64_t address)
{
    for (int i = 0; i < m->block_end; i++) {
        if (m->blocks[i].used && m->blocks[i].address == address)
            return &m->blocks[i];
    }
    return NULL;
}

const model_block *model_find(const model *m, uint64_t address)
{
    return model_at((model *)m, address);
}

model_block *model_previous(model *m, const model_block *b)
{
    for (int i = 0; i < m->block_end; i++) {
        model_block *p = &m->blocks[i];
        if (p->used && p->segment == b->segment && p->address + (uint64_t)p->size == b->address)
            return p;
    }
    return NULL;
}

model_block *model_next(model *m, const model_block *b)
{
    model_block *n = model_at(m, b->address + (uint64_t)b->size);
    return n != NULL && n->segment == b->segment ? n : NULL;
}

bool model_is_split(model *m, const model_block *b)
{
    return model_previous(m, b) != NULL || model_next(m, b) != NULL;
}

bool model_is_idle(const model_block *b)
{
    return !b->allocated && b->events == 0 && b->user_count == 0;
}

model_block *model_add_block(model *m, const model_block *like)
{
    int i = 0;
    while (i < m->block_end && m->blocks[i].used)
        i++;
    if (i == MODEL_ROOM)
        return NULL;
    if (i == m->block_end)
        m->block_end++;
    m->blocks[i] = *like;
    m->blocks[i].used = true;
    return &m->blocks[i];
}

int64_t model_merge(model *m, model_block *b, model_block *neighbour)
{
    (void)m;
    if (neighbour == NULL || !model_is_idle(neighbour) || neighbour->mapped != b->mapped)
        return 0;
    const int64_t joined = neighbour->size;
    if (neighbour->address < b->address)
        b->address = neighbour->address;
    b->size += joined;
    neighbour->used = false;
    return joined;
}

void model_mark_born(model *m, model_block *b)
{
    b->born = m->pools[b->pool].searches[b->small];
}

void model_become_free(model *m, model_block *b)
{
    const int64_t own = b->size, requested = b->requested;
    int64_t splits = 0, split_bytes = 0;
    model_trace_add(&m->trace, MODEL_TRACE_FREE_COMPLETED, b->address, own);
    model_block *const beside[2] = { model_previous(m, b), model_next(m, b) };
    for (int i = 0; i < 2; i++) {
        const int64_t joined = model_merge(m, b, beside[i]);
        splits -= joined > 0;
        split_bytes -= joined;
    }
    m->paths[MODEL_JOINED_TWO] += splits == -2;
    b->requested = 0;
    model_mark_born(m, b);
    if (model_is_split(m, b)) {
        splits++;
        split_bytes += b->size;
    }
    if (!b->expandable) { /* M055 */
        model_count(m, MODEL_INACTIVE_SPLIT, b->small, splits);
        model_count(m, MODEL_INACTIVE_SPLIT_BYTES, b->small, split_bytes);
    }
    model_count(m, MODEL_ACTIVE, b->small, -1);
    model_count(m, MODEL_ACTIVE_BYTES, b->small, -own);
    model_count(m, MODEL_REQUESTED_BYTES, b->small, -requested);
}

/* M011: by size, then by address. */
static bool is_less(const model_block *a, const model_block *b)
{
    return a->size != b->size ? a->size < b->size : a->address < b->address;
}

model_block *model_least(model *m, const model_request *r, const model_block *after, int64_t size)
{
    model_block *least = NULL;
    for (int i = 0; i < m->block_end; i++) {
        model_block *b = &m->blocks[i];
        if (!b->used || !b->mapped || !model_is_idle(b) || b->pool != r->pool ||
            b->small != r->small || b->stream != r->stream || b->size < size)
            continue;
        if ((after == NULL || is_less(after, b)) && (least == NULL || is_less(b, least)))
            least = b;
    }
    return least;
}

void model_trace_add(model_trace *trace, model_action action, uint64_t address, int64_t size)
{
    trace->count[action]++;
    trace->sum[action] += (address ^ (uint64_t)size << 20) * UINT64_C(0x9e3779b97f4a7c15);
}

void model_add(model_stat *s, int64_t amount)
{
    s->current += amount;
    if (s->current > s->peak)
        s->peak = s->current;
    if (amount > 0)
        s->allocated += amount;
    else
        s->freed -= amount;
}

void model_count(model *m, model_family family, bool small, int64_t amount)
{
    model_add(&m->stats.of[family][MODEL_ALL], amount);
    model_add(&m->stats.of[family][small ? MODEL_SMALL : MODEL_LARGE], amount);
}
