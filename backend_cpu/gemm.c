/* Matrix products of f32 and f64 by the library or by own kernels (isa/gemm.c), and batches. */
#include "backend_cpu/gemm.h"

#include "backend_cpu/crowd.h"
#include "backend_cpu/gemm_known.h"
#include "backend_cpu/gemm_trial.h"
#include "backend_cpu/gemm_way.h"
#include "backend_cpu/kernels.h"

enum {
    STACK_BYTES = 16384, /* scratch of small products */
    PART_ALIGN = 16,     /* parts of columns are whole vectors */
    DOT_PIECE = 1 << 15
};

/* Strides of dimensions of extent 1 mean nothing; here they become those of a dense matrix. Then what
 * depends on the whole product is decided. */
static void settle(int dtype, cpu_product *g)
{
    if (g->k == 1) {
        g->a_col = 1;
        g->b_row = g->n;
    }
    if (g->m == 1)
        g->a_row = g->a_col == 1 ? g->k : 1;
    if (g->n == 1)
        g->b_col = 1;
    g->by_dots = cpu_product_prefers_dots(g);
    g->alone = g->m == 1 && g->n == 1;
    g->turned = cpu_product_turns(dtype, g);
}

int cpu_product_threads(const tern_call *call, int dtype, const cpu_product *g, int64_t count)
{
    const int64_t elements = g->m * g->k + g->k * g->n + g->m * g->n;
    return cpu_threads(call, count * elements * cpu_dtype_size(dtype),
                       count * cpu_product_flops(g) * 2 / 3);
}

/* NULL: there was none, and the host has said so. */
static void *take_room(const tern_call *call, cpu_room *room, int64_t bytes)
{
    if (room->bytes < bytes) {
        room->data = call->host->scratch(call, bytes);
        room->bytes = room->data != NULL ? bytes : 0;
    }
    return room->data;
}

/* ---- own kernels ----------------------------------------------------------------------------- */

/* By own kernels; decided for the whole product: how it is cut for threads changes no bits. */
static void settle_half(cpu_half_way way, cpu_product *g, int64_t products)
{
    g->native = way == CPU_HALF_OWN;
    cpu_half_count(g->native ? CPU_HALF_OWN : CPU_HALF_F32, products);
}

static void run_own(int dtype, const cpu_product *g, void *scratch)
{
    if (dtype == TERN_F64)
        CPU_ISA_PICK(cpu_gemm_f64)(g, scratch);
    else if (dtype == TERN_F32)
        CPU_ISA_PICK(cpu_gemm_f32)(g, scratch);
    else if (dtype == TERN_F16)
        CPU_ISA_PICK(cpu_gemm_f16)(g, scratch);
    else if (g->native)
        CPU_ISA_PICK(cpu_gemm_bf16_pairs)(g, scratch);
    else
        CPU_ISA_PICK(cpu_gemm_bf16)(g, scratch);
}

static int64_t in_lines(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t packed_elements(const cpu_product *g, int64_t size);

/* A piece of C, and what its largest part or the rest behind those packs: the more may be the rest's, whose rows need
 * not be whole vectors. */
static int64_t turned_elements(const cpu_product *g, int64_t size)
{
    const int64_t rows = cpu_gemm_turned_rows(g), rest = g->m % rows;
    const cpu_product first = cpu_product_turned(g, g->a, rows, NULL);
    const cpu_product last = cpu_product_turned(g, g->a, rest > 0 ? rest : rows, NULL);
    const int64_t packs = packed_elements(&first, size), packs_last = packed_elements(&last, size);
    return rows * g->n + (packs > packs_last ? packs : packs_last);
}

/* Elements of what own kernels of f32 and f64 may pack (isa/gemm_tile.inc), whatever the tiles' size. */
static int64_t packed_elements(const cpu_product *g, int64_t size)
{
    if (g->by_dots && g->b_row == 1 && g->a_col == 1)
        return 0;
    if (g->turned)
        return turned_elements(g, size);
    const bool dense = cpu_gemm_reads_b(g, size, cpu_isa());
    const bool packs_b = g->b_col != 1 ||
                         (g->m > CPU_GEMM_FEW && g->n * g->k > CPU_GEMM_PACKED && !dense) ||
                         (cpu_isa() < CPU_ISA_AVX2 && g->n % 16 != 0);
    const bool packs_a = cpu_gemm_packs_a(g, size, 4);
    if (g->far == CPU_GEMM_FAR_B)
        return packs_a ? cpu_gemm_depth(g) * g->m : 0;
    return packs_b || packs_a ? cpu_gemm_scratch(g->m, g->n, g->k, packs_b) : 0;
}

static int64_t scratch_bytes(int dtype, const cpu_product *g)
{
    const int64_t size = cpu_dtype_size(dtype);
    if (cpu_is_half(dtype)) { /* a pair takes the place of one element, and k may be odd */
        const int64_t whole = cpu_half_sizes_of(g->m, g->n, g->k, 1).floats;
        const int64_t pairs = cpu_half_sizes_of(g->m, g->n, g->k, 2).floats;
        return in_lines(4 * (whole > pairs ? whole : pairs));
    }
    const int64_t bytes = in_lines(packed_elements(g, size) * size);
    return bytes > 0 ? bytes : 64;
}

/* Rows [begin, end) of C, or its columns. */
static cpu_product part_of(const cpu_product *g, int dtype, bool by_rows, int64_t begin,
                           int64_t end)
{
    const int64_t size = cpu_dtype_size(dtype);
    cpu_product part = *g;
    if (by_rows) {
        part.m = end - begin;
        part.a = (const char *)g->a + begin * g->a_row * size;
        part.c = (char *)g->c + begin * g->c_row * size;
    } else {
        part.n = end - begin;
        part.b = (const char *)g->b + begin * g->b_col * size;
        part.c = (char *)g->c + begin * size;
        part.bias = g->bias != NULL ? (const char *)g->bias + begin * size : NULL;
    }
    return part;
}

typedef struct own_parts {
    cpu_product whole; /* a copy: another thread finds it beside the rest */
    int dtype;
    bool by_rows;
    int64_t parts;
    int64_t align, units; /* of so many rows or columns */
    char *scratch;        /* NULL: each thread's stack */
    int64_t scratch_bytes;
} own_parts;

static cpu_product part_at(const own_parts *own, int64_t i)
{
    const int64_t extent = own->by_rows ? own->whole.m : own->whole.n;
    const int64_t first = i * own->units / own->parts * own->align;
    const int64_t last = (i + 1) * own->units / own->parts * own->align;
    cpu_product part =
        part_of(&own->whole, own->dtype, own->by_rows, first, last < extent ? last : extent);
    part.far = cpu_product_far(own->dtype, &part);
    part.beside = own->by_rows && own->parts > 1;
    if (cpu_isa() == CPU_ISA_AVX2) /* with AVX-512 as the whole product */
        part.turned = cpu_product_turns(own->dtype, &part);
    return part;
}

static void run_parts(void *context, int64_t begin, int64_t end)
{
    _Alignas(64) char stack[STACK_BYTES];
    const own_parts *own = context;
    for (int64_t i = begin; i < end; i++) {
        const cpu_product part = part_at(own, i);
        run_own(own->dtype, &part,
                own->scratch != NULL ? own->scratch + i * own->scratch_bytes : stack);
    }
}

/* Every part packs what it needs, so parts run without waiting for each other, and each element
 * of C is one sum in one order however many there are. */
static bool run_own_parallel(const tern_call *call, int dtype, const cpu_product *g,
                             cpu_blas_cut cut, int threads, cpu_room *room)
{
    own_parts own = { .whole = *g, .dtype = dtype, .parts = threads };
    own.by_rows = cut == CPU_BLAS_AS_PLANNED ? cpu_product_parts_are_rows(dtype, g, threads)
                                             : cut == CPU_BLAS_ROWS;
    own.align = own.by_rows && !cpu_is_half(dtype) ? 1 : PART_ALIGN;
    own.units = ((own.by_rows ? g->m : g->n) + own.align - 1) / own.align;
    if (own.parts > own.units)
        own.parts = own.units;
    for (int64_t i = 0; i < own.parts; i++) {
        const cpu_product part = part_at(&own, i);
        const int64_t bytes = scratch_bytes(dtype, &part);
        own.scratch_bytes = bytes > own.scratch_bytes ? bytes : own.scratch_bytes;
    }
    if (own.scratch_bytes > STACK_BYTES) {
        own.scratch = take_room(call, room, own.parts * own.scratch_bytes);
        if (own.scratch == NULL)
            return false;
    }
    cpu_parallel(threads, own.parts, 1, run_parts, &own);
    return true;
}

static bool run_own_small(const tern_call *call, int dtype, const cpu_product *whole,
                          cpu_room *room)
{
    _Alignas(64) char stack[STACK_BYTES];
    cpu_product g = *whole;
    g.far = cpu_product_far(dtype, &g);
    const int64_t bytes = scratch_bytes(dtype, &g);
    void *scratch = bytes <= STACK_BYTES ? stack : take_room(call, room, bytes);
    if (scratch == NULL)
        return false;
    run_own(dtype, &g, scratch);
    return true;
}

int64_t cpu_product_piece_bytes(int dtype, const cpu_product *g)
{
    return scratch_bytes(dtype, g);
}

void cpu_product_alone(int dtype, const cpu_product *g, void *piece)
{
    run_own(dtype, g, piece);
}

/* ---- one long dot product -------------------------------------------------------------------- */

/* A library takes it for a product of matrices, and ten times as long as a pass over memory. Pieces of
 * fixed length are added up in their order, whichever thread made them. */
typedef struct long_dot {
    const cpu_product *whole;
    int dtype;
    double *sums;
} long_dot;

static bool is_long_dot(int dtype, const cpu_product *g)
{
    return g->m == 1 && g->n == 1 && g->a_col == 1 && g->b_row == 1 && !g->accumulate &&
           g->bias == NULL && cpu_product_flops(g) > CPU_PRODUCT_NARROW && !cpu_is_half(dtype);
}

static void run_dot_pieces(void *context, int64_t begin, int64_t end)
{
    const long_dot *dot = context;
    const int64_t size = cpu_dtype_size(dot->dtype), k = dot->whole->k;
    for (; begin < end; begin++) {
        _Alignas(64) char scratch[64], sum[8];
        const int64_t first = begin * DOT_PIECE;
        cpu_product piece = *dot->whole;
        piece.a = (const char *)piece.a + first * size;
        piece.b = (const char *)piece.b + first * size;
        piece.c = sum;
        piece.k = k - first < DOT_PIECE ? k - first : DOT_PIECE;
        run_own(dot->dtype, &piece, scratch);
        dot->sums[begin] = cpu_load_f64(sum, dot->dtype);
    }
}

static bool run_long_dot(const tern_call *call, int dtype, const cpu_product *g, int threads,
                         cpu_room *room)
{
    const int64_t pieces = (g->k + DOT_PIECE - 1) / DOT_PIECE;
    long_dot dot = { g, dtype, take_room(call, room, pieces * (int64_t)sizeof(double)) };
    if (dot.sums == NULL)
        return false;
    cpu_parallel(threads, pieces, 1, run_dot_pieces, &dot);
    double sum = 0;
    for (int64_t i = 0; i < pieces; i++)
        sum += dot.sums[i];
    cpu_store_f64(g->c, dtype, sum);
    return true;
}

/* ---- whole products --------------------------------------------------------------------------- */

bool cpu_product_half(const tern_call *call, int dtype, const cpu_product *product, int threads,
                      cpu_room *room)
{
    cpu_product g = *product;
    if (g.m == 0 || g.n == 0)
        return true;
    settle(dtype, &g);
    const cpu_half_way way = cpu_half_product_way(dtype, g.m, g.n, g.k);
    const cpu_gemm_choice by_table = { .threads = threads };
    if (way == CPU_HALF_LIBRARY && cpu_product_by_library(dtype, &g, &by_table)) {
        cpu_half_count(CPU_HALF_LIBRARY, 1);
        return true;
    }
    settle_half(way, &g, 1);
    if (threads == 1 && cpu_product_flops(&g) <= CPU_PRODUCT_OWN)
        return run_own_small(call, dtype, &g, room);
    return run_own_parallel(call, dtype, &g, CPU_BLAS_AS_PLANNED, threads, room);
}

/* ---- which of both --------------------------------------------------------------------------- */

static bool run_way(const tern_call *call, int dtype, const cpu_product *g,
                    const cpu_gemm_choice *way, cpu_room *room)
{
    if (way->own && way->threads == 1)
        return run_own_small(call, dtype, g, room);
    if (!way->own && cpu_product_by_library(dtype, g, way))
        return true;
    return run_own_parallel(call, dtype, g, way->cut, way->threads, room);
}

bool cpu_product_run_way(const tern_call *call, int dtype, const cpu_product *product,
                         const cpu_gemm_choice *way, cpu_room *room)
{
    cpu_product g = *product;
    settle(dtype, &g);
    return run_way(call, dtype, &g, way, room);
}

static bool run_by_tables(const tern_call *call, int dtype, const cpu_product *g, int threads,
                          cpu_room *room)
{
    const cpu_gemm_choice way = { .own = cpu_product_own_is_best(dtype, g, threads),
                                  .threads = threads };
    return run_way(call, dtype, g, &way, room);
}

/* What one thread does because other processes want the cores says nothing of a team. */
static bool is_crowded(int threads, int64_t now)
{
    return threads > 1 && !cpu_crowd_free(cpu_crowd_here(), now);
}

static bool run_trial(const tern_call *call, int dtype, const cpu_product *g, int threads,
                      cpu_gemm_trial *trial, cpu_room *room)
{
    bool decided;
    const cpu_gemm_choice way = cpu_gemm_trial_next(trial, &decided);
    if (decided)
        return run_way(call, dtype, g, &way, room);
    const int64_t begin = cpu_crowd_clock();
    if (is_crowded(threads, begin))
        return run_by_tables(call, dtype, g, threads, room);
    const bool ok = run_way(call, dtype, g, &way, room);
    const int64_t end = cpu_crowd_clock();
    if (!is_crowded(threads, end) && cpu_gemm_trial_took(trial, 1e-9 * (double)(end - begin))) {
        const cpu_gemm_choice found = cpu_gemm_trial_next(trial, &decided);
        cpu_gemm_trial_tell(trial, call->host);
        cpu_gemm_note(cpu_gemm_trial_key(trial), &found);
    }
    return ok;
}

/* May a way that was measured be taken? Small products have one, and one that is named comes first. */
static bool has_ways(const cpu_product *g)
{
    return cpu_product_flops(g) > CPU_PRODUCT_NARROW && !cpu_product_is_forced();
}

/* tern_cpu_set_benchmark; deterministic algorithms come first. */
static bool is_benchmarked(const tern_call *call)
{
    const uint32_t numerics = call->host->numerics();
    return (numerics & TERN_NUMERICS_CPU_BENCHMARK) != 0 &&
           (numerics & TERN_NUMERICS_DETERMINISTIC) == 0;
}

bool cpu_product_run(const tern_call *call, int dtype, const cpu_product *product, int threads,
                     cpu_room *room)
{
    cpu_product g = *product;
    if (g.m == 0 || g.n == 0)
        return true;
    settle(dtype, &g);
    if (is_long_dot(dtype, &g))
        return run_long_dot(call, dtype, &g, threads, room);
    const bool several = has_ways(&g);
    const cpu_gemm_choice *known = several ? cpu_gemm_known(dtype, &g, threads) : NULL;
    if (known != NULL)
        return run_way(call, dtype, &g, known, room);
    if (several && is_benchmarked(call)) {
        cpu_gemm_trial *trial =
            cpu_gemm_trial_of(dtype, &g, threads, cpu_product_suits_library(&g));
        if (trial != NULL)
            return run_trial(call, dtype, &g, threads, trial, room);
    }
    return run_by_tables(call, dtype, &g, threads, room);
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* out [M, N] = a [M, K] b [K, N], or [B, M, N] = [B, M, K] [B, K, N]; out is row-major. */
typedef struct product_batch {
    const tern_call *call;
    cpu_product first;
    int64_t a_step, b_step, c_step; /* bytes */
    int64_t count;
    int dtype;
    int64_t parts; /* ranges of products that threads share, each with its piece of scratch */
    char *scratch;
    int64_t scratch_bytes;
} product_batch;

static cpu_product product_at(const product_batch *batch, int64_t i)
{
    cpu_product g = batch->first;
    g.a = (const char *)g.a + i * batch->a_step;
    g.b = (const char *)g.b + i * batch->b_step;
    g.c = (char *)g.c + i * batch->c_step;
    return g;
}

static void run_batch_parts(void *context, int64_t begin, int64_t end)
{
    const product_batch *batch = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t last = (part + 1) * batch->count / batch->parts;
        for (int64_t i = part * batch->count / batch->parts; i < last; i++) {
            const cpu_product g = product_at(batch, i);
            cpu_product_alone(batch->dtype, &g, batch->scratch + part * batch->scratch_bytes);
        }
    }
}

/* Small products: threads share out whole ones. */
static bool run_batch_alone(product_batch *batch, int threads)
{
    const tern_call *call = batch->call;
    settle(batch->dtype, &batch->first);
    if (cpu_is_half(batch->dtype))
        settle_half(
            cpu_half_product_way(batch->dtype, batch->first.m, batch->first.n, batch->first.k),
            &batch->first, batch->count);
    batch->parts = threads == 1 ? 1 : 4 * threads;
    if (batch->parts > batch->count)
        batch->parts = batch->count;
    batch->scratch_bytes = cpu_product_piece_bytes(batch->dtype, &batch->first);
    batch->scratch = call->host->scratch(call, batch->parts * batch->scratch_bytes);
    if (batch->scratch == NULL)
        return false;
    cpu_parallel(threads, batch->parts, 1, run_batch_parts, batch);
    return true;
}

static bool run_batch(product_batch *batch, int threads)
{
    if (tern_dtype_is_float((tern_dtype_t)batch->dtype) && batch->count > 1 &&
        cpu_product_flops(&batch->first) <= CPU_PRODUCT_SMALL)
        return run_batch_alone(batch, threads);
    cpu_room room = { .data = NULL };
    for (int64_t i = 0; i < batch->count; i++) {
        const cpu_product g = product_at(batch, i);
        if (!cpu_product_any(batch->call, batch->dtype, &g, threads, &room))
            return false;
    }
    return true;
}

tern_status_t cpu_gemm(const tern_call *call)
{
    const tern_view *a = call->in[0], *b = call->in[1], *c = call->out[0];
    if (c->numel == 0)
        return TERN_OK;
    const int d = a->ndim - 2;
    product_batch batch = { .call = call,
                            .first = { .m = c->shape[d],
                                       .n = c->shape[d + 1],
                                       .k = a->shape[d + 1],
                                       .a = a->data,
                                       .b = b->data,
                                       .c = c->data,
                                       .a_row = a->stride[d],
                                       .a_col = a->stride[d + 1],
                                       .b_row = b->stride[d],
                                       .b_col = b->stride[d + 1],
                                       .c_row = c->shape[d + 1] },
                            .count = d > 0 ? c->shape[0] : 1,
                            .dtype = c->dtype };
    const int64_t size = cpu_dtype_size(c->dtype);
    const int threads = cpu_product_threads(call, c->dtype, &batch.first, batch.count);
    if (d > 0) {
        batch.a_step = a->stride[0] * size;
        batch.b_step = b->stride[0] * size;
        batch.c_step = c->stride[0] * size;
    }
    return run_batch(&batch, threads) ? TERN_OK : TERN_ERR_OOM;
}
