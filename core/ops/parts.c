/* split, chunk, unbind: views of all the parts of a tensor along one dimension. */
#include "core/compose.h"
#include "core/error.h"
#include "core/op_table.h"

/* What is asked for; the parts' extents are `size` each, or sizes[]. */
typedef struct parts {
    int32_t dim;
    int64_t extent; /* of x */
    int64_t size, count;
    const int64_t *sizes;
    bool bound; /* each part is one index, and loses the dimension */
} parts;

static bool check_dim(core_frame *frame, parts *p)
{
    const tern_view *x = core_view(&frame->call, 0);
    if (x->ndim == 0)
        return core_fail(&frame->call, TERN_ERR_SHAPE, NULL, "a 0-dim tensor has no parts");
    if (!core_normalise_dim(&frame->call, &p->dim, x->ndim))
        return false;
    p->extent = x->shape[p->dim];
    return true;
}

static int64_t part_size(const parts *p, int64_t i)
{
    if (p->sizes != NULL)
        return p->sizes[i];
    const int64_t left = p->extent - i * p->size;
    return left < p->size ? left : p->size;
}

/* All or none: the views made so far are let go after an error. */
static int64_t make_parts(core_call *call, const parts *p, tern_tensor **out_parts)
{
    int64_t start = 0;
    for (int64_t i = 0; i < p->count; i++) {
        tern_attr_slice part = {
            .dim = p->dim, .start = start, .length = part_size(p, i), .step = 1
        };
        out_parts[i] = p->bound ? tern_select_at(call->site, call->in[0], p->dim, i)
                                : core_op1(TERN_OP_slice, call->site, &part, call->in[0]);
        start += part.length;
        if (out_parts[i] != NULL)
            continue;
        for (; i > 0; i--) {
            if (call->self->owned_mode)
                core_release(call->self, out_parts[i - 1]);
            out_parts[i - 1] = NULL;
        }
        return -1;
    }
    return p->count;
}

/* Checks room and makes the parts outside of the frame, so that they belong to the caller. */
static int64_t finish(core_frame *frame, const parts *p, bool fine, tern_tensor **out_parts,
                      int64_t room)
{
    if (fine && (out_parts == NULL || room < p->count))
        fine = core_fail(&frame->call, TERN_ERR_ARGUMENT, NULL,
                         "there are %lld parts and room for %lld", (long long)p->count,
                         (long long)(out_parts == NULL ? 0 : room));
    (void)core_compose_end(frame, NULL);
    return fine ? make_parts(&frame->call, p, out_parts) : -1;
}

static bool begin(core_frame *frame, tern_op_id id, tern_site_t site, tern_tensor **x, parts *p)
{
    core_compose_begin(frame, id, site, 1, x);
    return core_compose_check(frame) && check_dim(frame, p);
}

/* An empty dimension has one empty part, as in PyTorch. */
static void count_parts(parts *p)
{
    p->count = p->extent == 0 ? 1 : (p->extent - 1) / p->size + 1;
}

int64_t tern_split_at(tern_site_t site, tern_tensor *x, int64_t size, int dim,
                      tern_tensor **out_parts, int64_t room)
{
    core_frame frame;
    parts p = { .dim = dim, .size = size };
    bool fine = begin(&frame, TERN_OP_split, site, &x, &p);
    if (fine && (size < 0 || (size == 0 && p.extent > 0)))
        fine =
            core_fail(&frame.call, TERN_ERR_ARGUMENT, NULL,
                      "parts of %lld elements of a dimension of %lld: the size has to be positive",
                      (long long)size, (long long)p.extent);
    if (fine)
        count_parts(&p);
    return finish(&frame, &p, fine, out_parts, room);
}

static bool check_sizes(core_frame *frame, const parts *p)
{
    int64_t left = p->extent;
    if (p->sizes == NULL || p->count < 1)
        return core_fail(&frame->call, TERN_ERR_ARGUMENT, NULL,
                         "a list of at least one size is needed");
    for (int64_t i = 0; i < p->count; i++) {
        if (p->sizes[i] < 0 || p->sizes[i] > left)
            return core_fail(&frame->call, TERN_ERR_SHAPE, NULL,
                             "size %lld is %lld, where %lld of %lld are left", (long long)i,
                             (long long)p->sizes[i], (long long)left, (long long)p->extent);
        left -= p->sizes[i];
    }
    if (left > 0)
        return core_fail(&frame->call, TERN_ERR_SHAPE, NULL,
                         "the sizes leave %lld of %lld elements over", (long long)left,
                         (long long)p->extent);
    return true;
}

int64_t tern_split_sizes_at(tern_site_t site, tern_tensor *x, const int64_t *sizes, int64_t count,
                            int dim, tern_tensor **out_parts, int64_t room)
{
    core_frame frame;
    parts p = { .dim = dim, .sizes = sizes, .count = count };
    const char *outer = core_calling_begin(core_self(), "split_sizes");
    const bool fine = begin(&frame, TERN_OP_split, site, &x, &p) && check_sizes(&frame, &p);
    const int64_t made = finish(&frame, &p, fine, out_parts, room);
    core_calling_end(frame.call.self, outer);
    return made;
}

int64_t tern_chunk_at(tern_site_t site, tern_tensor *x, int64_t chunks, int dim,
                      tern_tensor **out_parts, int64_t room)
{
    core_frame frame;
    parts p = { .dim = dim };
    bool fine = begin(&frame, TERN_OP_chunk, site, &x, &p);
    if (fine && chunks < 1)
        fine = core_fail(&frame.call, TERN_ERR_ARGUMENT, NULL,
                         "%lld chunks were asked for; it has to be at least 1", (long long)chunks);
    if (fine && p.extent == 0)
        p.count = chunks;
    if (fine && p.extent > 0) {
        p.size = (p.extent - 1) / chunks + 1;
        count_parts(&p);
    }
    return finish(&frame, &p, fine, out_parts, room);
}

int64_t tern_unbind_at(tern_site_t site, tern_tensor *x, int dim, tern_tensor **out_parts,
                       int64_t room)
{
    core_frame frame;
    parts p = { .dim = dim, .size = 1, .bound = true };
    const bool fine = begin(&frame, TERN_OP_unbind, site, &x, &p);
    p.count = p.extent;
    return finish(&frame, &p, fine, out_parts, room);
}
