/* Sorting of items of one type; included once per type, no include guard. The includer defines ITEM,
 * BEFORE(a, b), which orders items that are all different, DIGIT(item, d), digit d of the key, and
 * NAME(x). */

static void NAME(insert)(ITEM *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const ITEM moved = x[i];
        int64_t k = i;
        for (; k > 0 && BEFORE(moved, x[k - 1]); k--)
            x[k] = x[k - 1];
        x[k] = moved;
    }
}

/* Runs of 16, merged two by two; the result lies in x. */
static void NAME(merge_sort)(ITEM *x, ITEM *other, int64_t n)
{
    enum { RUN = 16 };
    ITEM *from = x, *to = other;
    for (int64_t i = 0; i < n; i += RUN)
        NAME(insert)(x + i, n - i < RUN ? n - i : RUN);
    for (int64_t width = RUN; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t middle = begin + width < n ? begin + width : n;
            const int64_t end = middle + width < n ? middle + width : n;
            int64_t a = begin, b = middle;
            for (int64_t k = begin; k < end; k++) {
                const bool left = b == end || (a < middle && BEFORE(from[a], from[b]));
                to[k] = left ? from[a++] : from[b++];
            }
        }
        ITEM *const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != x)
        memcpy(x, from, (size_t)n * sizeof *x);
}

/* Digit by digit from the lowest; digits that all items share are left out. Items come in the order of
 * their numbers, so equal keys stay in it. The result lies in x. */
static void NAME(radix_sort)(ITEM *x, ITEM *other, int64_t n, int digits)
{
    uint32_t counts[8][256];
    ITEM *from = x, *to = other;
    memset(counts, 0, (size_t)digits * sizeof counts[0]);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < digits; d++)
            counts[d][DIGIT(x[i], d)]++;
    for (int d = 0; d < digits; d++) {
        if (counts[d][DIGIT(x[0], d)] == n)
            continue;
        uint32_t place = 0;
        for (int k = 0; k < 256; k++) {
            const uint32_t count = counts[d][k];
            counts[d][k] = place;
            place += count;
        }
        for (int64_t i = 0; i < n; i++)
            to[counts[d][DIGIT(from[i], d)]++] = from[i];
        ITEM *const swapped = from;
        from = to;
        to = swapped;
    }
    if (from != x)
        memcpy(x, from, (size_t)n * sizeof *x);
}

static void NAME(sort)(ITEM *x, ITEM *other, int64_t n, int digits)
{
    if (n < (digits > 4 ? 2 * SORT_RADIX_FROM : SORT_RADIX_FROM))
        NAME(merge_sort)(x, other, n);
    else
        NAME(radix_sort)(x, other, n, digits);
}

/* Moves the items that belong in front of `place` there. After many uneven halves: false. */
static bool NAME(split)(ITEM *x, int64_t n, int64_t place)
{
    int64_t low = 0, high = n - 1;
    for (int tries = 0; low < high; tries++) {
        if (tries == 96)
            return false;
        const ITEM a = x[low], b = x[low + (high - low) / 2], c = x[high];
        const ITEM middle = BEFORE(a, b) ? (BEFORE(b, c)   ? b
                                            : BEFORE(a, c) ? c
                                                           : a)
                                         : (BEFORE(a, c)   ? a
                                            : BEFORE(b, c) ? c
                                                           : b);
        int64_t i = low, j = high;
        while (i <= j) {
            while (BEFORE(x[i], middle))
                i++;
            while (BEFORE(middle, x[j]))
                j--;
            if (i <= j) {
                const ITEM moved = x[i];
                x[i++] = x[j];
                x[j--] = moved;
            }
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return true;
}

/* The item that belongs at `place`: of those that share its digits from the highest on. */
static ITEM NAME(select)(ITEM *x, ITEM *other, int64_t n, int64_t place, int digits)
{
    for (int d = digits - 1; d >= 0 && n > 1; d--) {
        uint32_t counts[256] = { 0 };
        int64_t kept = 0;
        unsigned digit = 0;
        for (int64_t i = 0; i < n; i++)
            counts[DIGIT(x[i], d)]++;
        while (place >= counts[digit])
            place -= counts[digit++];
        if (counts[digit] == n)
            continue;
        for (int64_t i = 0; i < n; i++) {
            other[kept] = x[i];
            kept += DIGIT(x[i], d) == digit;
        }
        ITEM *const swapped = x;
        x = other;
        other = swapped;
        n = kept;
    }
    return x[place]; /* equal keys, in the order of their numbers */
}

/* The first `count` items in order come to the beginning, in any order. */
static void NAME(part)(ITEM *x, ITEM *other, int64_t n, int64_t count)
{
    if (count < n && !NAME(split)(x, n, count))
        NAME(merge_sort)(x, other, n);
}

/* Adds an item to the `held` of which the first `count` in order are wanted; returns how many there are
 * then. At `most` they are cut down to those, and from then on only what comes before *last is let in. */
static inline int64_t NAME(admit)(ITEM *x, ITEM *other, int64_t held, ITEM item, ITEM *last,
                                  int64_t count, int64_t most)
{
    if (!BEFORE(item, *last))
        return held;
    x[held++] = item;
    if (held < most)
        return held;
    NAME(part)(x, other, held, count);
    *last = x[0];
    for (int64_t i = 1; i < count; i++)
        if (BEFORE(*last, x[i]))
            *last = x[i];
    return count;
}
