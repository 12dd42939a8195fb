/* Free lists: bins of nearly equal size, 16 per power of two, each a treap ordered by (size, address).
 * Most bins hold a few blocks, so a search is a bit scan and a step or two. */
#include "core/alloc/engine.h"

static unsigned bin_of(int64_t size)
{
    const uint64_t units = (uint64_t)size / UNIT;
    if (units < 16)
        return (unsigned)units;
    const unsigned log = 63u - (unsigned)__builtin_clzll(units);
    const unsigned bin = 16 * (log - 3) + ((unsigned)(units >> (log - 4)) & 15);
    return bin < BINS ? bin : BINS - 1;
}

/* The first filled bin from `bin` on; BINS when there is none. */
static unsigned filled_from(const free_list *list, unsigned bin)
{
    if (bin >= BINS)
        return BINS;
    unsigned word = bin / 64;
    uint64_t bits = list->filled[word] & (~UINT64_C(0) << bin % 64);
    while (bits == 0) {
        if (++word == BIN_WORDS)
            return BINS;
        bits = list->filled[word];
    }
    return word * 64 + (unsigned)__builtin_ctzll(bits);
}

/* The last filled bin under `bin`; BINS when there is none. */
static unsigned filled_before(const free_list *list, unsigned bin)
{
    while (bin-- > 0)
        if (list->filled[bin / 64] >> bin % 64 & 1)
            return bin;
    return BINS;
}

static bool less(const block *a, const block *b)
{
    return a->pub.size != b->pub.size ? a->pub.size < b->pub.size : a->pub.data < b->pub.data;
}

void list_insert(free_list *list, block *b)
{
    const unsigned bin = bin_of(b->pub.size);
    list->filled[bin / 64] |= UINT64_C(1) << bin % 64;
    block **at = &list->bin[bin];
    while (*at != NULL && (*at)->priority >= b->priority)
        at = less(b, *at) ? &(*at)->left : &(*at)->right;
    block **low = &b->left, **high = &b->right;
    for (block *node = *at; node != NULL;) {
        if (less(node, b)) {
            *low = node;
            low = &node->right;
            node = node->right;
        } else {
            *high = node;
            high = &node->left;
            node = node->left;
        }
    }
    *low = *high = NULL;
    *at = b;
}

void list_erase(free_list *list, block *b)
{
    const unsigned bin = bin_of(b->pub.size);
    block **at = &list->bin[bin];
    while (*at != b)
        at = less(b, *at) ? &(*at)->left : &(*at)->right;
    block *low = b->left, *high = b->right;
    while (low != NULL && high != NULL) {
        if (low->priority >= high->priority) {
            *at = low;
            at = &low->right;
            low = *at;
        } else {
            *at = high;
            at = &high->left;
            high = *at;
        }
    }
    *at = low != NULL ? low : high;
    if (list->bin[bin] == NULL)
        list->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
}

void list_change(free_list *list, block *b, char *data, int64_t size)
{
    const unsigned bin = bin_of(b->pub.size);
    const bool alone = list->bin[bin] == b && b->left == NULL && b->right == NULL;
    const bool stays = alone && bin == bin_of(size);
    if (!stays)
        list_erase(list, b);
    b->pub.data = data;
    b->pub.size = size;
    if (!stays)
        list_insert(list, b);
}

static block *leftmost(block *node)
{
    while (node != NULL && node->left != NULL)
        node = node->left;
    return node;
}
static block *rightmost(block *node)
{
    while (node != NULL && node->right != NULL)
        node = node->right;
    return node;
}

/* The smallest of a bin's that is not under (size, data). */
static block *lower_bound(block *node, int64_t size, const char *data)
{
    block *found = NULL;
    while (node != NULL) {
        if (node->pub.size > size || (node->pub.size == size && node->pub.data >= data)) {
            found = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return found;
}

static block *best_from(const free_list *list, int64_t size, const char *data)
{
    unsigned bin = bin_of(size);
    block *found = lower_bound(list->bin[bin], size, data);
    if (found != NULL)
        return found;
    bin = filled_from(list, bin + 1);
    return bin < BINS ? leftmost(list->bin[bin]) : NULL;
}

block *list_best(const free_list *list, int64_t size)
{
    return best_from(list, size, NULL);
}
block *list_after(const free_list *list, const block *b)
{
    return best_from(list, b->pub.size, b->pub.data + 1);
}

block *list_before(const free_list *list, const block *b)
{
    unsigned bin = bin_of(b->pub.size);
    block *found = NULL;
    for (block *node = list->bin[bin]; node != NULL;) {
        if (less(node, b)) {
            found = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    if (found != NULL)
        return found;
    bin = filled_before(list, bin);
    return bin < BINS ? rightmost(list->bin[bin]) : NULL;
}

block *list_largest(const free_list *list)
{
    const unsigned bin = filled_before(list, BINS);
    return bin < BINS ? rightmost(list->bin[bin]) : NULL;
}
