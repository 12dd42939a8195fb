/* The cases one after the other, their inputs and tolerances: what every walk over them shares. */
#include <string.h>

#include "core/call.h"
#include "tests/ops/opinfo.h"

uint64_t opinfo_seed = 1;

static const struct {
    const opinfo *cases;
    const int *count;
} lists[] = {
#define LISTED(family) { opinfo_##family, &opinfo_##family##_count },
    OPINFO_FAMILIES(LISTED)
#undef LISTED
};
enum { LISTS = sizeof lists / sizeof *lists };

const opinfo *opinfo_at(int i)
{
    for (int list = 0; list < LISTS; list++) {
        if (i < *lists[list].count)
            return &lists[list].cases[i];
        i -= *lists[list].count;
    }
    return NULL;
}

const tern_op *opinfo_row(const char *name)
{
    for (int id = 1; id < TERN_OP_COUNT; id++)
        if (strcmp(core_op_table[id].name, name) == 0)
            return &core_op_table[id];
    return NULL;
}

/* ---- inputs -------------------------------------------------------------------------------------- */

static tern_dtype_t input_dtype(const input_spec *spec, tern_dtype_t dtype)
{
    switch (spec->kind) {
    case INPUT_INDEX:
        return TERN_I64;
    case INPUT_BOOL:
        return TERN_BOOL;
    case INPUT_F32:
        return dtype == TERN_F64 ? TERN_F64 : TERN_F32;
    default:
        return dtype;
    }
}

static value make_value(const input_spec *spec, tern_dtype_t dtype, int i)
{
    const bool whole = spec->kind == INPUT_INDEX;
    double low = spec->low, high = spec->high;
    if (low == 0 && high == 0) {
        low = spec->kind == INPUT_BOOL ? 0 : -2;
        high = 2;
    }
    if (!tern_dtype_is_float(dtype) && spec->kind == INPUT_REAL && high - low >= 1)
        high *= 3; /* whole numbers need some room to differ, but for factors near 1: 0 and 1 */
    value v = value_random(spec->ndim, spec->dims, low, high, whole || spec->kind == INPUT_BOOL,
                           opinfo_seed * 1000 + (uint64_t)i);
    value_quantise(&v, input_dtype(spec, dtype));
    return v;
}

void opinfo_values(const opinfo *info, tern_dtype_t dtype, value *values)
{
    for (int i = 0; i < MAX_IN; i++) {
        values[i] = (value){ 0 };
        if (info->in[i].kind != INPUT_NONE)
            values[i] = make_value(&info->in[i], dtype, i);
    }
}

void opinfo_repeat(const opinfo *info, int turn, value *values)
{
    for (int i = 0; i < MAX_IN; i++) {
        const int ndim = info->in[i].kind != INPUT_NONE ? info->in[i].ndim : 0;
        int dim = ndim > 0 ? (turn + i) % ndim : 0;
        for (int tries = 1; tries < ndim && values[i].dims[dim] == 1; tries++)
            dim = (dim + 1) % ndim;
        if (ndim > 0)
            value_repeat(&values[i], dim);
    }
}

bool opinfo_has_layout(const opinfo *info, layout l)
{
    bool differs = l == LAYOUT_ROW_MAJOR;
    for (int i = 0; i < MAX_IN && !info->keep_layout; i++) {
        const int ndim = info->in[i].kind != INPUT_NONE ? info->in[i].ndim : 0;
        differs |= l == LAYOUT_LAST ? ndim == 4 : ndim > (l == LAYOUT_TRANSPOSED);
    }
    return differs;
}

void opinfo_tensors(const opinfo *info, tern_dtype_t dtype, layout l, const value *values,
                    tern_tensor **in)
{
    for (int i = 0; i < MAX_IN; i++) {
        in[i] = NULL;
        if (info->in[i].kind != INPUT_NONE)
            in[i] = value_tensor(&values[i], input_dtype(&info->in[i], dtype), l);
    }
}

bool opinfo_has_nothing(const opinfo *info)
{
    for (int i = 0; i < MAX_IN; i++)
        for (int d = 0; d < info->in[i].ndim; d++)
            if (info->in[i].kind != INPUT_NONE && info->in[i].dims[d] == 0)
                return true;
    return false;
}

bool opinfo_empty(const opinfo *info, opinfo *empty)
{
    int largest = 0;
    for (int i = 1; i < MAX_IN; i++)
        if (info->in[i].ndim > info->in[largest].ndim)
            largest = i;
    if (info->in[largest].ndim == 0 || opinfo_has_nothing(info))
        return false;
    *empty = *info;
    for (int i = 0; i < MAX_IN; i++)
        if (info->in[i].ndim > 0 && info->in[i].dims[0] == info->in[largest].dims[0])
            empty->in[i].dims[0] = 0;
    return true;
}

static const char *const not_empty[][3] = {
#define NOT_EMPTY(row, label, why) { #row, label, why },
#include "tests/ops/not_empty.def"
#undef NOT_EMPTY
};
const int opinfo_not_empty_count = sizeof not_empty / sizeof *not_empty;

const char *opinfo_not_empty(const opinfo *info)
{
    for (int i = 0; i < opinfo_not_empty_count; i++)
        if (strcmp(info->op, not_empty[i][0]) == 0 && strcmp(info->label, not_empty[i][1]) == 0)
            return not_empty[i][2];
    return NULL;
}

double opinfo_allowed(const tern_op *row, tern_dtype_t dtype)
{
    const double half = dtype_epsilon(dtype);
    if (dtype == TERN_F64)
        return row->tolerance * 1e-6 + 64 * half;
    if (dtype == TERN_F32)
        return row->tolerance + half;
    return 2.5 * half; /* computed in f32, rounded once; inputs of composed ops perhaps twice */
}
