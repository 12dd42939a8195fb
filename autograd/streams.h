/* Backward over several streams (rows T060-T062).
 *
 * A node's backward runs on the stream of its forward. A gradient that goes to a node, a leaf or the
 * program on another stream is ordered by an event and recorded there; leaves receive on the streams of
 * the thread that called backward. When all nodes and the caller share one stream per device nothing of
 * this happens. */
#ifndef TERN_AUTOGRAD_STREAMS_H
#define TERN_AUTOGRAD_STREAMS_H

#include "autograd/node.h"

typedef uint16_t stream_map[TERN_KINDS][CORE_MAX_DEVICES];

typedef struct backward_streams {
    tern_thread *self;
    bool mixed;
    uint16_t seen;     /* the one stream of all nodes so far, or STREAM_NONE */
    stream_map caller; /* current streams of the thread outside; filled when mixed */
} backward_streams;

static inline void backward_streams_begin(backward_streams *s, tern_thread *self)
{
    s->self = self;
    s->mixed = false;
    s->seen = STREAM_NONE;
}

/* While nodes are counted. */
static inline void backward_streams_see(backward_streams *s, const core_node *node)
{
    const uint16_t stream = node->edges[0].stream;
    if (__builtin_expect(stream != s->seen, 0) && stream != STREAM_NONE) {
        s->mixed |= s->seen != STREAM_NONE;
        s->seen = stream;
    }
}

/* After counting: decides, and hands the first gradient from the caller to the root. False after an
 * error. */
bool backward_streams_counted(backward_streams *s, const core_node *root, tern_tensor *gradient);

/* The rest for mixed streams only, but for leave. The node's stream becomes the thread's current one, all
 * others default streams. */
void backward_streams_enter(backward_streams *s, const core_node *node);
/* The streams of the caller again. */
void backward_streams_leave(backward_streams *s);
/* What is ready on the thread's current stream will be ready on the node's, or on the caller's, which
 * becomes current. False after an error. */
bool backward_streams_to_node(backward_streams *s, const core_node *node, tern_tensor *grad);
bool backward_streams_to_caller(backward_streams *s, tern_tensor *grad);

#endif
