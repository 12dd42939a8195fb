/* A grammar of small tales: who does what to whom, where and why. Words of a sentence depend on each
 * other over some distance (a name comes back as he, she or it), so that a model has more to learn
 * than spelling. */
#include <stdio.h>

#include "data/text.h"
#include "tern/tensor.h"

typedef struct hero {
    const char *name, *pronoun, *owner;
} hero;

static const hero heroes[] = {
    { "the old fisher", "he", "his" },         { "the miller's daughter", "she", "her" },
    { "a small grey cat", "it", "its" },       { "the king of the hill", "he", "his" },
    { "the tired gull", "it", "its" },         { "a girl with a lantern", "she", "her" },
    { "the boy from the ferry", "he", "his" }, { "the queen of the isles", "she", "her" },
};
static const char *const deeds[] = { "found",  "lost",       "carried",   "hid",        "mended",
                                     "wanted", "looked for", "gave away", "sang about", "painted" };
static const char *const things[] = { "silver key",    "broken oar",  "letter",       "red boat",
                                      "loaf of bread", "map",         "wooden spoon", "bell",
                                      "feather",       "sack of salt" };
static const char *const places[] = { "by the river",     "on the northern shore",
                                      "under the bridge", "in the long grass",
                                      "behind the mill",  "at the market" };
static const char *const times[] = { "one morning", "in the winter", "before the storm",
                                     "every summer", "late at night" };
static const char *const speech[] = { "Who has seen", "Nobody may touch", "I shall never sell",
                                      "What is the use of" };

typedef struct tale_random {
    uint32_t words[8];
    int next;
} tale_random;

static const char *pick(tale_random *random, const char *const *list, size_t count)
{
    return list[random->words[random->next++] % count];
}
#define PICK(random, list) pick(random, list, sizeof(list) / sizeof *(list))

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

int data_tale_sentence(uint64_t seed, uint64_t index, char *out, int bytes)
{
    tale_random random = { .next = 1 };
    tern_philox(seed, index, 0, random.words);
    tern_philox(seed, index, 1, random.words + 4);
    const uint32_t form = random.words[0] % 4;
    const hero *who = &heroes[random.words[random.next++] % (sizeof heroes / sizeof *heroes)];
    const char *deed = PICK(&random, deeds), *thing = PICK(&random, things);
    const char *place = PICK(&random, places), *when = PICK(&random, times);
    int length;
    if (form == 0)
        length = snprintf(out, (size_t)bytes, "%s, %s %s %s %s %s.\n", when, who->name, deed,
                          who->owner, thing, place);
    else if (form == 1)
        length = snprintf(out, (size_t)bytes, "%s %s a %s, and %s kept %s %s %s.\n", who->name,
                          deed, thing, who->pronoun, who->owner, thing, place);
    else if (form == 2)
        length = snprintf(out, (size_t)bytes, "%s %s waited %s because %s had lost %s %s.\n", when,
                          who->name, place, who->pronoun, who->owner, thing);
    else
        length = snprintf(out, (size_t)bytes, "\"%s my %s?\" said %s %s.\n\n",
                          PICK(&random, speech), thing, who->name, place);
    length = length < bytes ? length : bytes - 1;
    out[0] = upper(out[0]);
    return length;
}
