/* What reductions keep of the elements that they have seen. A cell has start, add(x, its number), merge, across (see
 * warp_merge), value and place. */
#ifndef TERN_BACKEND_CUDA_REDUCE_CELLS_CUH
#define TERN_BACKEND_CUDA_REDUCE_CELLS_CUH

#include <cmath>
#include <type_traits>

#include "backend_cuda/reduce.cuh"

namespace cuda
{

/* What cells start with, and what becomes of them at the end. */
struct finish {
    double share, correction;
    double p;
    int fold;     /* FOLD_* */
    int least;    /* the least, not the greatest */
    int root;     /* of a variance */
    int reserved; /* the simulator takes what lies in a gap for an address */
};

template <typename A> struct sum_cell {
    using number = A;
    A sum;
    __device__ void start(const finish &)
    {
        sum = 0;
    }
    __device__ void add(A x, int64_t)
    {
        sum += x;
    }
    __device__ void merge(const sum_cell &other)
    {
        sum += other.sum;
    }
    __device__ sum_cell across(int lanes) const
    {
        return { shuffled(sum, lanes) };
    }
    __device__ A value(const finish &f) const
    {
        return (A)(f.share == 1.0 ? sum : (A)(sum * (A)f.share));
    }
    __device__ int64_t place() const
    {
        return 0;
    }
};

/* Chan's merge of means and squared deviations: one pass over memory, no cancellation. */
template <typename A> struct var_cell {
    using number = A;
    A count, mean, square;
    __device__ void start(const finish &)
    {
        count = mean = square = 0;
    }
    __device__ void add(A x, int64_t)
    {
        count += 1;
        const A d = x - mean, share = (A)1 / count; /* nothing waits for a division */
        mean += d * share;
        square += d * (x - mean);
    }
    /* Of a few, two passes over registers and one division; about the first, so that equal numbers have no variance. */
    template <int N> __device__ void add_all(const A (&x)[N])
    {
        A sum = 0, squares = 0;
#pragma unroll
        for (int k = 1; k < N; k++)
            sum += x[k] - x[0];
        const A shift = sum * ((A)1 / N);
#pragma unroll
        for (int k = 0; k < N; k++) {
            const A d = (x[k] - x[0]) - shift;
            squares += d * d;
        }
        merge({ (A)N, x[0] + shift, squares });
    }
    __device__ var_cell across(int lanes) const
    {
        return { shuffled(count, lanes), shuffled(mean, lanes), shuffled(square, lanes) };
    }
    __device__ void merge(const var_cell &other)
    {
        if (!(other.count > 0))
            return;
        if (!(count > 0)) {
            *this = other;
            return;
        }
        const A total = count + other.count;
        const A d = other.mean - mean;
        mean += d * (other.count / total);
        square += other.square + d * d * (count * (other.count / total));
        count = total;
    }
    __device__ A value(const finish &f) const
    {
        const A rest = count - (A)f.correction;
        const A var = square / (rest > 0 ? rest : (A)0);
        return f.root ? sqrt(var) : var;
    }
    __device__ int64_t place() const
    {
        return 0;
    }
};

/* A number of A's size: cells have no gaps, which would keep them out of registers. */
template <typename A> using whole = std::conditional_t<sizeof(A) == 8, int64_t, int32_t>;

/* GREATEST and LEAST are of sizes. */
enum { FOLD_PRODUCT, FOLD_SQUARES, FOLD_SIZES, FOLD_COUNT, FOLD_POWERS, FOLD_GREATEST, FOLD_LEAST };

/* Products, and what norms are made of. One cell for all: memory is what a reduction waits for. */
template <typename A> struct fold_cell {
    using number = A;
    A all, p;
    whole<A> fold;
    __device__ void start(const finish &f)
    {
        fold = f.fold;
        p = (A)f.p;
        all = fold == FOLD_PRODUCT ? (A)1 : (A)0;
        if constexpr (!std::is_same<A, int64_t>::value)
            if (fold == FOLD_LEAST)
                all = (A)INFINITY;
    }
    __device__ void take(A x)
    {
        if (fold == FOLD_PRODUCT)
            all *= x;
        else if (fold == FOLD_GREATEST)
            all = x > all || x != x ? x : all;
        else if (fold == FOLD_LEAST)
            all = x < all || x != x ? x : all;
        else
            all += x;
    }
    __device__ void add(A x, int64_t)
    {
        if constexpr (!std::is_same<A, int64_t>::value) {
            const A size = fabs(x); /* of -0, too: a negative power tells the two zeros apart */
            if (fold == FOLD_SQUARES)
                x = x * x;
            else if (fold == FOLD_COUNT)
                x = x != 0 ? (A)1 : (A)0;
            else if (fold == FOLD_POWERS)
                x = (A)pow(size, p);
            else if (fold == FOLD_SIZES || fold == FOLD_GREATEST || fold == FOLD_LEAST)
                x = size;
        }
        take(x);
    }
    __device__ void merge(const fold_cell &other)
    {
        take(other.all);
    }
    __device__ fold_cell across(int lanes) const
    {
        return { shuffled(all, lanes), p, fold };
    }
    __device__ A value(const finish &) const
    {
        if constexpr (!std::is_same<A, int64_t>::value) {
            if (fold == FOLD_SQUARES)
                return sqrt(all);
            if (fold == FOLD_POWERS)
                return (A)pow(all, 1 / p);
        }
        return all;
    }
    __device__ int64_t place() const
    {
        return 0;
    }
};

/* The greatest, or the least; NaN is beyond all. Apart from fold_cell, whose choices take longer than memory. */
template <typename A> struct peak_cell {
    using number = A;
    A all;
    whole<A> least;
    __device__ void start(const finish &f)
    {
        least = f.least;
        if constexpr (std::is_integral<A>::value)
            all = (A)(sizeof(A) == 8 ? (least ? INT64_MAX : INT64_MIN)
                                     : (least ? INT32_MAX : INT32_MIN));
        else
            all = least ? (A)INFINITY : -(A)INFINITY;
    }
    __device__ void add(A x, int64_t)
    {
        const bool beyond = least ? x < all : x > all;
        all = beyond || x != x ? x : all;
    }
    __device__ void merge(const peak_cell &other)
    {
        add(other.all, 0);
    }
    __device__ peak_cell across(int lanes) const
    {
        return { shuffled(all, lanes), least };
    }
    __device__ A value(const finish &) const
    {
        return all;
    }
    __device__ int64_t place() const
    {
        return 0;
    }
};

/* The first of the greatest, or of the least; NaN is beyond all. */
template <typename A> struct extreme_cell {
    using number = A;
    A most;
    whole<A> least;
    int64_t at;
    __device__ void start(const finish &f)
    {
        most = 0;
        least = f.least;
        at = -1;
    }
    __device__ void add(A x, int64_t i) /* behind all that were added */
    {
        const bool beyond = least ? x < most : x > most;
        if (at < 0 || ((beyond || x != x) && most == most)) {
            most = x;
            at = i;
        }
    }
    __device__ void merge(const extreme_cell &other)
    {
        if (other.at < 0)
            return;
        const bool nan = most != most, other_nan = other.most != other.most;
        const bool same = (nan && other_nan) || most == other.most;
        const bool beyond = least ? other.most < most : other.most > most;
        const bool beats = (other_nan && !nan) || (!nan && beyond);
        if (at < 0 || beats || (same && other.at < at))
            *this = other;
    }
    __device__ extreme_cell across(int lanes) const
    {
        return { shuffled(most, lanes), least, shuffled(at, lanes) };
    }
    __device__ A value(const finish &) const
    {
        return most;
    }
    __device__ int64_t place() const
    {
        return at;
    }
};

} // namespace cuda

#endif
