/* What JSON forbids and cJSON takes: a pass over a text before it is parsed. */
#include <string.h>

#include "io/safetensors.h"

/* Behind the text that begins before `at`; NULL where it has no end, a control character, or \u0000 or \uZZZZ,
 * which cJSON takes for the end of a text: a name would be cut short. */
static char *text_end(char *at)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < ' ')
            return NULL;
        if (*at != '\\')
            continue;
        at++;
        if (*at == '\0' ||
            (*at == 'u' && (strspn(at + 1, digits) < 4 || strncmp(at + 1, "0000", 4) == 0)))
            return NULL;
    }
    return at + 1;
}

static char *digits_end(char *at)
{
    return at + strspn(at, "0123456789");
}

/* Behind the number at `at`; NULL where it is not JSON's: cJSON takes 02 and 1. as well. One that is not written
 * as a whole number (2.0, 2e0, -0) becomes -1: of what is parsed cJSON tells the value alone. */
static char *number_end(char *at)
{
    char *first = at + (*at == '-'), *end = digits_end(first);
    bool fine = end > first && (*first != '0' || end == first + 1);
    if (*end == '.') {
        char *fraction = end + 1;
        end = digits_end(fraction);
        fine = fine && end > fraction;
    }
    if (*end == 'e' || *end == 'E') {
        char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');
        end = digits_end(exponent);
        fine = fine && end > exponent;
    }
    if (!fine)
        return NULL;
    if (digits_end(at) != end) {
        memset(at, ' ', (size_t)(end - at));
        memcpy(at, "-1", 2);
    }
    return end;
}

bool io_json_is_strict(char *text)
{
    for (char *at = text; *at;) {
        if (*at == '"')
            at = text_end(at + 1);
        else if (*at == '-' || (*at >= '0' && *at <= '9'))
            at = number_end(at);
        else if ((unsigned char)*at < ' ' && !strchr("\t\r\n", *at))
            return false;
        else
            at++;
        if (!at)
            return false;
    }
    return true;
}
