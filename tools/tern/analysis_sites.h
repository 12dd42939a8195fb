/* Sites of one device: see analysis.h. */
#ifndef TOOLS_TERN_ANALYSIS_SITES_H
#define TOOLS_TERN_ANALYSIS_SITES_H

#include "tools/tern/analysis.h"

/* Needs totals and the peak; fills sites. False without memory. */
bool analysis_make_sites(const snapshot *s, analysis *a);

#endif
