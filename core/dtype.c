/* Dtypes: sizes, names, and the lattice in which they meet. */
#include "core/promote.h"

#include <string.h>

static const struct {
    const char *name;
    int64_t bytes;
} dtypes[TERN_DTYPES] = {
    [TERN_BOOL] = { "bool", 1 }, [TERN_U8] = { "u8", 1 },     [TERN_I8] = { "i8", 1 },
    [TERN_I16] = { "i16", 2 },   [TERN_I32] = { "i32", 4 },   [TERN_I64] = { "i64", 8 },
    [TERN_F16] = { "f16", 2 },   [TERN_BF16] = { "bf16", 2 }, [TERN_F32] = { "f32", 4 },
    [TERN_F64] = { "f64", 8 },
};

static bool is_dtype(tern_dtype_t dtype)
{
    return (int)dtype > TERN_DTYPE_NONE && (int)dtype < TERN_DTYPES;
}

int64_t tern_dtype_size(tern_dtype_t dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].bytes : 0;
}

const char *tern_dtype_name(tern_dtype_t dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

tern_dtype_t tern_dtype_parse(const char *name)
{
    for (int d = TERN_BOOL; name != NULL && d < TERN_DTYPES; d++)
        if (strcmp(name, dtypes[d].name) == 0)
            return (tern_dtype_t)d;
    return TERN_DTYPE_NONE;
}

tern_dtype_t tern_promote(tern_dtype_t a, tern_dtype_t b)
{
    const tern_dtype_t low = a < b ? a : b, high = a < b ? b : a;
    if (!is_dtype(low) || !is_dtype(high))
        return TERN_DTYPE_NONE;
    if (low == TERN_U8 && high == TERN_I8)
        return TERN_I16; /* the first that holds both */
    if (low == TERN_F16 && high == TERN_BF16)
        return TERN_F32;
    return high;
}

/* ---- operands ---------------------------------------------------------------------------------- */

enum { WITH_DIMENSIONS, ZERO_DIM, NUMBER };

static int category(const tern_view *v)
{
    return v->flags & TERN_VIEW_NUMBER ? NUMBER : v->ndim == 0 ? ZERO_DIM : WITH_DIMENSIONS;
}

/* bool 0, integers 1, floats 2 */
static int kind_rank(tern_dtype_t dtype)
{
    return dtype == TERN_BOOL ? 0 : tern_dtype_is_float(dtype) ? 2 : 1;
}

tern_dtype_t core_result_type(const tern_view *a, const tern_view *b)
{
    const tern_dtype_t x = (tern_dtype_t)a->dtype, y = (tern_dtype_t)b->dtype;
    if (x == y)
        return x;
    const int ca = category(a), cb = category(b);
    if (ca == cb)
        return tern_promote(x, y);
    const tern_dtype_t high = ca < cb ? x : y, low = ca < cb ? y : x;
    return kind_rank(low) > kind_rank(high) ? low : high;
}

tern_dtype_t core_result_type_of(const tern_view *const *views, int n)
{
    tern_dtype_t meet[3] = { TERN_DTYPE_NONE, TERN_DTYPE_NONE, TERN_DTYPE_NONE };
    for (int i = 0; i < n; i++) {
        const tern_dtype_t dtype = (tern_dtype_t)views[i]->dtype;
        tern_dtype_t *same = &meet[category(views[i])];
        *same = *same == TERN_DTYPE_NONE ? dtype : tern_promote(*same, dtype);
    }
    tern_dtype_t out = TERN_DTYPE_NONE;
    for (int c = WITH_DIMENSIONS; c <= NUMBER; c++)
        if (meet[c] != TERN_DTYPE_NONE &&
            (out == TERN_DTYPE_NONE || kind_rank(meet[c]) > kind_rank(out)))
            out = meet[c];
    return out;
}

tern_dtype_t core_number_dtype(const tern_thread *self, const tern_view *other, int number_kind)
{
    const tern_dtype_t own = number_kind == TERN_NUMBER_FLOAT ? (tern_dtype_t)self->default_dtype
                             : number_kind == TERN_NUMBER_INT ? TERN_I64
                                                              : TERN_BOOL;
    if (other == NULL || kind_rank(own) > kind_rank((tern_dtype_t)other->dtype))
        return own;
    return (tern_dtype_t)other->dtype;
}

bool core_dtype_can_hold(tern_dtype_t to, tern_dtype_t from)
{
    return kind_rank(to) >= kind_rank(from);
}

tern_tensor *core_number_new(tern_thread *self, tern_site_t site, tern_operand number,
                             tern_dtype_t dtype)
{
    tern_tensor *t = core_tensor_new(self, core_site(self, site), TERN_CPU, dtype, 0, NULL);
    if (t == NULL)
        return NULL;
    t->view.flags |= TERN_VIEW_NUMBER;
    if (number.kind_ == TERN_NUMBER_FLOAT)
        core_store_double(t->view.data, dtype, number.value_.f);
    else
        core_store_int(t->view.data, dtype, number.value_.i);
    return t;
}

tern_tensor *core_operand_begin(tern_thread *self, tern_site_t site, tern_operand operand,
                                tern_operand other)
{
    if (operand.kind_ == 0)
        return operand.value_.tensor;
    const tern_view *view =
        other.kind_ == 0 && other.value_.tensor != NULL ? &other.value_.tensor->view : NULL;
    return core_number_new(self, site, operand, core_number_dtype(self, view, (int)operand.kind_));
}
