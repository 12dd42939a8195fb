/* See names.h: an open-addressing table over an array. */
#include "tools/tern/names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static uint32_t hash(const char *text)
{
    uint32_t value = 2166136261u; /* FNV-1a */
    for (; *text != '\0'; text++)
        value = (value ^ (uint8_t)*text) * 16777619u;
    return value;
}

/* Where `text` is, or the free slot where it belongs. */
static int32_t slot_of(const names *set, const char *text)
{
    const uint32_t mask = (uint32_t)set->slot_count - 1;
    uint32_t slot = hash(text) & mask;
    while (set->slots[slot] >= 0 && strcmp(set->text[set->slots[slot]], text) != 0)
        slot = (slot + 1) & mask;
    return (int32_t)slot;
}

/* Room for one more text, with the table at most half full. */
static bool make_room(names *set)
{
    if (set->count < set->capacity)
        return true;
    if (set->capacity > INT32_MAX / 8)
        return false;
    const int32_t capacity = set->capacity == 0 ? 64 : 2 * set->capacity;
    char **text = realloc(set->text, (size_t)capacity * sizeof *text);
    if (text == NULL)
        return false;
    set->text = text;
    int32_t *slots = malloc(2 * (size_t)capacity * sizeof *slots);
    if (slots == NULL)
        return false;
    free(set->slots);
    set->slots = slots;
    set->slot_count = 2 * capacity;
    set->capacity = capacity;
    memset(slots, 0xff, 2 * (size_t)capacity * sizeof *slots);
    for (int32_t i = 0; i < set->count; i++)
        slots[slot_of(set, text[i])] = i;
    return true;
}

int32_t names_add(names *set, const char *text)
{
    if (!make_room(set))
        return -1;
    const int32_t slot = slot_of(set, text);
    if (set->slots[slot] >= 0)
        return set->slots[slot];
    char *copy = malloc(strlen(text) + 1);
    if (copy == NULL)
        return -1;
    strcpy(copy, text);
    set->text[set->count] = copy;
    set->slots[slot] = set->count;
    return set->count++;
}

void names_free(names *set)
{
    for (int32_t i = 0; i < set->count; i++)
        free(set->text[i]);
    free(set->text);
    free(set->slots);
    *set = (names){ 0 };
}
