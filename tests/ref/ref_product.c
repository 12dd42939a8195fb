/* References: einsum by its definition, a sum over every value of every letter. See ref.h. */
#include "tests/ref/ref.h"

enum { LETTERS = 128 };

typedef struct part {
    int n;
    char letter[TERN_MAX_DIMS];
} part;

static const char *read_part(const char *text, part *p)
{
    p->n = 0;
    for (; *text >= 'A'; text++)
        p->letter[p->n++] = *text;
    return text;
}

static void note_sizes(const part *p, const value *v, int64_t *sizes)
{
    for (int d = 0; d < p->n; d++)
        if (sizes[(int)p->letter[d]] < v->dims[d] || v->dims[d] == 0)
            sizes[(int)p->letter[d]] = v->dims[d];
}

static int64_t place(const part *p, const value *v, const int64_t *at)
{
    int64_t i = 0;
    for (int d = 0; d < p->n; d++)
        i = i * v->dims[d] + (v->dims[d] == 1 ? 0 : at[(int)p->letter[d]]);
    return i;
}

value ref_einsum(const char *equation, const value *a, const value *b)
{
    part pa, pb = { 0 }, po;
    const char *text = read_part(equation, &pa);
    if (*text == ',')
        text = read_part(text + 1, &pb);
    read_part(text + 2, &po);
    int64_t sizes[LETTERS], dims[TERN_MAX_DIMS] = { 0 }, at[LETTERS] = { 0 };
    for (int k = 0; k < LETTERS; k++)
        sizes[k] = 1;
    note_sizes(&pa, a, sizes);
    if (b != NULL)
        note_sizes(&pb, b, sizes);
    for (int d = 0; d < po.n; d++)
        dims[d] = sizes[(int)po.letter[d]];
    value out = value_new(po.n, dims);
    if (a->numel > 0 && (b == NULL || b->numel > 0))
        do
            out.data[place(&po, &out, at)] +=
                a->data[place(&pa, a, at)] * (b == NULL ? 1 : b->data[place(&pb, b, at)]);
        while (ref_next(LETTERS, sizes, at));
    return out;
}
