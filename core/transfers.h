/* Counts of transfers and waits by site: behind tern/transfers.h.
 *
 * One table for the process, keyed by the site's address: noting something is a look-up and relaxed
 * additions, without lock and memory, so that it may happen anywhere. A site that finds no room counts
 * under NULL. */
#ifndef TERN_CORE_TRANSFERS_H
#define TERN_CORE_TRANSFERS_H

#include "tern/transfers.h"

/* `bytes` went from one device to another, one of which may be the CPU; `waited`: the host stood still
 * until the devices' work before it was done. Between tensors of the CPU nothing is counted. */
void core_transfer_note(tern_site_t site, tern_dev_t to, tern_dev_t from, int64_t bytes,
                        bool waited);
/* Has a transfer to a device been counted at that site, since the last reset? */
bool core_transfer_was_to_device(tern_site_t site);
/* The host read one number and waited for it. */
void core_transfer_note_read(tern_site_t site, int64_t bytes);
/* The host waited for a device, a stream or an event. */
void core_transfer_note_sync(tern_site_t site);

#endif
