/* See autograd/streams.h. */
#include "autograd/streams.h"

#include <string.h>

#include "core/backend.h"
#include "core/stream.h"

/* Has the thread this stream on its device, and default streams elsewhere? */
static bool is_only(const tern_thread *self, uint16_t stream)
{
    const tern_dev_t own = core_streams[stream].device;
    for (int kind = 0; kind < TERN_KINDS; kind++)
        for (int i = 0; i < CORE_MAX_DEVICES; i++)
            if (self->streams[kind][i] != (own.kind == kind && own.index == i ? stream : 0))
                return false;
    return true;
}

/* From the thread's current stream of the gradient's device to another one. */
static bool hand(backward_streams *s, tern_tensor *grad, uint16_t to)
{
    const tern_dev_t dev = grad->view.dev;
    if (dev.kind == TERN_KIND_CPU || s->self->streams[dev.kind][dev.index] == to)
        return true;
    const tern_stream_t from = { dev, core_stream_on(s->self, dev) };
    const tern_stream_t target = { dev, core_streams[to].handle };
    grad->storage->crossed = true;
    tern_status_t code = core_stream_order(target, from);
    if (code == TERN_OK)
        code = core_stream_record(grad, target);
    if (code != TERN_OK)
        (void)core_backend_failed(s->self, s->self->site, code, "backward");
    return code == TERN_OK;
}

static uint16_t stream_on(const core_node *node, tern_dev_t dev)
{
    const uint16_t stream = node->edges[0].stream;
    return stream != STREAM_NONE && tern_dev_equal(core_streams[stream].device, dev) ? stream : 0;
}

bool backward_streams_counted(backward_streams *s, const core_node *root, tern_tensor *gradient)
{
    if (s->seen == STREAM_NONE || !core_streams_used)
        return true;
    s->mixed |= !is_only(s->self, s->seen);
    if (!s->mixed)
        return true;
    memcpy(s->caller, s->self->streams, sizeof s->caller);
    return backward_streams_to_node(s, root, gradient);
}

void backward_streams_enter(backward_streams *s, const core_node *node)
{
    const uint16_t stream = node->edges[0].stream;
    memset(s->self->streams, 0, sizeof s->self->streams);
    if (stream == STREAM_NONE || stream == 0)
        return;
    const tern_dev_t dev = core_streams[stream].device;
    s->self->streams[dev.kind][dev.index] = stream;
}

void backward_streams_leave(backward_streams *s)
{
    if (s->mixed)
        memcpy(s->self->streams, s->caller, sizeof s->caller);
}

bool backward_streams_to_node(backward_streams *s, const core_node *node, tern_tensor *grad)
{
    const bool ok = hand(s, grad, stream_on(node, grad->view.dev));
    backward_streams_enter(s, node);
    return ok;
}

bool backward_streams_to_caller(backward_streams *s, tern_tensor *grad)
{
    const tern_dev_t dev = grad->view.dev;
    const bool ok = dev.kind == TERN_KIND_CPU || hand(s, grad, s->caller[dev.kind][dev.index]);
    backward_streams_leave(s);
    return ok;
}
