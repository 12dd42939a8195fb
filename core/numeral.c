/* See core/numeral.h. */
#include "core/numeral.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The thread's locale is changed meanwhile, and no other thread's. Without memory for it the program's stays. */
static locale_t enter(locale_t plain)
{
    return plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
}

static void leave(locale_t plain, locale_t before)
{
    if (plain == (locale_t)0)
        return;
    (void)uselocale(before);
    freelocale(plain);
}

double core_parse_real(const char *text, char **out_end)
{
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = enter(plain);
    const double value = strtod(text, out_end);
    leave(plain, before);
    return value;
}

const char *core_real_text(double value, char out[CORE_REAL_BYTES])
{
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = enter(plain);
    (void)snprintf(out, CORE_REAL_BYTES, "%g", value);
    leave(plain, before);
    return out;
}
