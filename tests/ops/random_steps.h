/* One step of a random graph: an op on up to three tensors, with small numbers. bench/peers/graphs.py has
 * the same steps in PyTorch. */
#ifndef TESTS_OPS_RANDOM_STEPS_H
#define TESTS_OPS_RANDOM_STEPS_H

#include "tern/tern.h"

enum { GRAPH_NUMBERS = 6 };

typedef enum graph_kind {
    GRAPH_ROW1, /* rows of one or two elementwise operands */
    GRAPH_ROW2,
    GRAPH_REDUCE, /* n: dimension, keepdim */
    GRAPH_ALONG,  /* softmax and the like; n: dimension */
    GRAPH_SCAN,   /* n: dimension */
    GRAPH_PART,   /* tril, triu; n: diagonal */
    GRAPH_SWAP,   /* transpose; n: two dimensions */
    GRAPH_SLICE,  /* n: dimension, start, end, step */
    GRAPH_FLAT,   /* all dimensions one */
    GRAPH_GROW,   /* unsqueeze; n: dimension */
    GRAPH_MATMUL,
    GRAPH_INNER, /* einsum "...i,...i->..." */
    GRAPH_CAT,   /* n: dimension */
    GRAPH_WHERE, /* a > b ? c : a */
    GRAPH_WRITE, /* of a copy, n[1]..n[2] of dimension n[0] times b, in place */
    GRAPH_NORM,  /* layer_norm */
    GRAPH_SORT,  /* values; n: dimension, descending */
    /* a's last dimensions are those of an image, others of 1 in front; weights are b's elements, row-major and
     * from the start again where they do not suffice; biases c's */
    GRAPH_CONV2D,       /* n: channels per group, kernel, stride, padding, dilation, with groups */
    GRAPH_CONV1D,       /* the same */
    GRAPH_CONV_SPREAD,  /* conv_transpose2d; n[4]: output padding */
    GRAPH_MAX_POOL,     /* n: kernel, stride, padding, dilation, ceil_mode */
    GRAPH_AVG_POOL,     /* n: kernel, stride, padding, exclude_pad, ceil_mode */
    GRAPH_MAX_ADAPTIVE, /* n: height, width */
    GRAPH_AVG_ADAPTIVE, /* the same */
    GRAPH_RESIZE,       /* bilinear; n: height, width, align_corners */
    GRAPH_RESIZE_NEAREST,
    /* index k of a dimension of `size` is (n[2] + n[3] k) modulo size */
    GRAPH_SELECT,      /* index_select; n: dimension, count, first, pace */
    GRAPH_GATHER,      /* the same; k counts all elements of the index */
    GRAPH_SCATTER,     /* the same with pace 1 and k along the dimension, of b's elements */
    GRAPH_SCATTER_ADD, /* as gather, of b's elements */
    GRAPH_EMBED,       /* embedding; n: -, count, first, pace */
    GRAPH_PUT,         /* index_put of b's mean, added up; n: -, count, first, pace */
    /* element k is chosen where (n[2] + k) modulo n[3] is 0 */
    GRAPH_FILL, /* masked_fill; n: -, number */
    GRAPH_PICK, /* masked_select */
    GRAPH_KINDS
} graph_kind;

typedef struct graph_step {
    graph_kind kind;
    int id;      /* the row, where the kind is about one */
    int from[3]; /* tensors: leaves first, then results of steps */
    int64_t n[GRAPH_NUMBERS];
} graph_step;

/* The name of a step: its row's, or its kind's. */
const char *graph_step_name(const graph_step *s);
/* t: what the step's numbers count. NULL after an error, which is pending, or where the step has no
 * sense. */
tern_tensor *graph_step_run(const graph_step *s, tern_tensor *const *t);

#endif
