/* Convolution by a column matrix and a matrix product, a block of pixels at a time, for every dtype
 * and geometry: half types in f32, f64 in f64, integers in i64, which wraps as they do. A column
 * matrix has a row for each pixel of the result and a column for each tap, in the order (height,
 * width, channel).
 *
 * Images are staged as padded [height][width][channel] of one group. Parts of the work are images;
 * partial sums of weight gradients are added in order, and their number depends on sizes alone. */
#include "backend_cpu/conv2d.h"
#include "backend_cpu/gemm.h"

enum {
    COLUMN_ELEMENTS = 12288, /* of a block of the column matrix: it stays in the nearest caches */
    MOST_PARTS = 8
};

/* An image of one dtype as it lies in a dense 4-D tensor. */
static int64_t image_elements(const tern_view *v)
{
    return v->shape[1] * v->shape[2] * v->shape[3];
}

static const char *image_at(const tern_view *v, int64_t image)
{
    return (const char *)v->data + image * image_elements(v) * cpu_dtype_size(v->dtype);
}

static int64_t padded_elements(const cpu_conv *conv)
{
    const int64_t *pad = conv->attr->padding;
    return cpu_times(cpu_times(conv->in[0] + 2 * pad[0], conv->in[1] + 2 * pad[1]), conv->group_in);
}

static int64_t taps_of(const cpu_conv *conv)
{
    return conv->kernel[0] * conv->kernel[1] * conv->group_in;
}

/* Pixels of a block of the column matrix. */
static int64_t block_pixels(const cpu_conv *conv)
{
    const int64_t pixels = conv->out[0] * conv->out[1], taps = taps_of(conv);
    const int64_t block = taps > 0 ? COLUMN_ELEMENTS / taps : pixels;
    return block < 8 ? (pixels < 8 ? pixels : 8) : block < pixels ? block : pixels;
}

/* What every part has for itself, in elements of the type that is computed in; NULL where
 * unused. */
typedef struct columns_part {
    char *x, *y;     /* images converted to that type */
    char *padded;    /* staged image */
    char *columns;   /* block of the column matrix */
    char *product;   /* scratch of the product */
    char *sums;      /* weight gradient: [groups][taps][group_out] */
    char *bias_sums; /* [out_channels] */
} columns_part;

typedef struct columns_plan {
    const cpu_conv *conv;
    int dtype; /* computed in */
    int64_t parts;
    columns_part part[4 * MOST_PARTS];
    char
        *weight; /* forward: [groups][taps][group_out]; input gradient: [groups][group_out][taps] */
    char *bias;  /* NULL: none */
} columns_plan;

/* Cuts `bytes` from a block of scratch; counts only while there is none. */
static char *cut(char *block, int64_t *used, int64_t bytes)
{
    char *piece = block != NULL ? block + *used : NULL;
    const int64_t sum = *used + (bytes + 63) / 64 * 64;
    *used = sum < CPU_TOO_MANY ? sum : CPU_TOO_MANY;
    return piece;
}

enum { USES_X = 1, USES_Y = 2, USES_SUMS = 4 };

static void cut_part(const columns_plan *plan, columns_part *part, char *block, int64_t *used,
                     int uses)
{
    const cpu_conv *conv = plan->conv;
    const int64_t size = cpu_dtype_size(plan->dtype), taps = taps_of(conv);
    const int64_t pixels = block_pixels(conv), longer = taps > pixels ? taps : pixels;
    const int64_t longest = longer > conv->group_out ? longer : conv->group_out;
    if (conv->x->dtype != plan->dtype) {
        if (uses & USES_X)
            part->x = cut(block, used, image_elements(conv->x) * size);
        if (uses & USES_Y)
            part->y = cut(block, used, image_elements(conv->y) * size);
    }
    part->padded = cut(block, used, cpu_times(padded_elements(conv), size));
    part->columns = cut(block, used, cpu_times(cpu_times(pixels, taps), size));
    part->product = cut(block, used, cpu_gemm_scratch_most(longest, longest) * size);
    if (uses & USES_SUMS) {
        part->sums = cut(block, used, conv->attr->groups * taps * conv->group_out * size);
        part->bias_sums = cut(block, used, conv->out_channels * size);
    }
}

/* `parts` parts and the weight; false: no memory. */
static bool plan_parts(columns_plan *plan, const cpu_conv *conv, int64_t parts, int uses)
{
    *plan = (columns_plan){ .conv = conv,
                            .dtype = !tern_dtype_is_float((tern_dtype_t)conv->x->dtype) ? TERN_I64
                                     : conv->x->dtype == TERN_F64                       ? TERN_F64
                                                                                        : TERN_F32,
                            .parts = parts };
    const int64_t weight_bytes =
        conv->attr->groups * taps_of(conv) * conv->group_out * cpu_dtype_size(plan->dtype);
    char *block = NULL;
    for (int pass = 0; pass < 2; pass++) {
        int64_t used = 0;
        plan->weight = cut(block, &used, weight_bytes);
        plan->bias = cut(block, &used, conv->out_channels * cpu_dtype_size(plan->dtype));
        for (int64_t i = 0; i < parts; i++)
            cut_part(plan, &plan->part[i], block, &used, uses);
        if (pass == 0 && (block = conv->call->host->scratch(conv->call, used + 64)) == NULL)
            return false;
    }
    return true;
}

static int64_t shared_parts(const cpu_conv *conv)
{
    const int64_t parts = conv->threads == 1 ? 1 : 4 * conv->threads;
    const int64_t most = parts < 4 * MOST_PARTS ? parts : 4 * MOST_PARTS;
    return most < conv->images ? most : conv->images;
}

/* Parts of a sum: few where the weight is large. */
static int64_t sum_parts(const cpu_conv *conv)
{
    const int64_t weights = conv->attr->groups * taps_of(conv) * conv->group_out;
    const int64_t most = weights > (1 << 20) ? 2 : MOST_PARTS;
    return most < conv->images ? most : conv->images > 0 ? conv->images : 1;
}

#define T float
#define FN(name) name##_f32
#define DTYPE TERN_F32
#define GEMM CPU_ISA_PICK(cpu_gemm_f32)
#include "backend_cpu/conv2d_columns.inc"
#undef T
#undef FN
#undef DTYPE
#undef GEMM

#define T double
#define FN(name) name##_f64
#define DTYPE TERN_F64
#define GEMM CPU_ISA_PICK(cpu_gemm_f64)
#include "backend_cpu/conv2d_columns.inc"
#undef T
#undef FN
#undef DTYPE
#undef GEMM

#define T uint64_t
#define FN(name) name##_i64
#define DTYPE TERN_I64
#define GEMM cpu_gemm_i64
#define WHOLE
#include "backend_cpu/conv2d_columns.inc"

/* What depends on the type that is computed in. */
typedef struct columns_passes {
    void (*pack_taps)(columns_plan *plan, bool taps_first);
    void (*forward)(void *context, int64_t begin, int64_t end);
    void (*grad_input)(void *context, int64_t begin, int64_t end);
} columns_passes;

static const columns_passes *passes_of(const columns_plan *plan)
{
#define PASSES(type)                                                  \
    {                                                                 \
        pack_taps_##type, forward_part_##type, grad_input_part_##type \
    }
    static const columns_passes f32 = PASSES(f32), f64 = PASSES(f64), i64 = PASSES(i64);
#undef PASSES
    return plan->dtype == TERN_I64 ? &i64 : plan->dtype == TERN_F64 ? &f64 : &f32;
}

bool cpu_conv_columns_forward(const cpu_conv *conv)
{
    columns_plan plan;
    if (!plan_parts(&plan, conv, shared_parts(conv), USES_X | USES_Y))
        return false;
    const columns_passes *passes = passes_of(&plan);
    passes->pack_taps(&plan, true);
    cpu_parallel(conv->threads, plan.parts, 1, passes->forward, &plan);
    return true;
}

bool cpu_conv_columns_grad_input(const cpu_conv *conv)
{
    columns_plan plan;
    if (!plan_parts(&plan, conv, shared_parts(conv), USES_X | USES_Y))
        return false;
    const columns_passes *passes = passes_of(&plan);
    passes->pack_taps(&plan, false);
    cpu_parallel(conv->threads, plan.parts, 1, passes->grad_input, &plan);
    return true;
}

bool cpu_conv_columns_grad_weight(const cpu_conv *conv)
{
    columns_plan plan;
    if (!plan_parts(&plan, conv, sum_parts(conv), USES_X | USES_Y | USES_SUMS))
        return false;
    const bool wide = plan.dtype == TERN_F64;
    cpu_parallel(conv->threads, plan.parts, 1, wide ? grad_weight_part_f64 : grad_weight_part_f32,
                 &plan);
    (wide ? unpack_sums_f64 : unpack_sums_f32)(&plan);
    return true;
}
