/* Numbers in texts that programs read, such as JSON and variables of the environment: with a point, whatever the
 * locale of the program. */
#ifndef TERN_CORE_NUMERAL_H
#define TERN_CORE_NUMERAL_H

/* As strtod. */
double core_parse_real(const char *text, char **out_end);

enum { CORE_REAL_BYTES = 32 };
/* As %g. Returns `out`. */
const char *core_real_text(double value, char out[CORE_REAL_BYTES]);

#endif
