/* CUDA_VISIBLE_DEVICES as a list: rows D041-D053.
 *
 * Pure functions of text, without state and without any other part of the library, so that a plugin
 * with simulated devices compiles this file too and counts as the driver would. On real hardware
 * the driver's own reading wins; there the list only tells that nothing can be visible. */
#ifndef TERN_CORE_VISIBLE_LIST_H
#define TERN_CORE_VISIBLE_LIST_H

#ifdef __cplusplus
extern "C" {
#endif

enum { CORE_VISIBLE_MOST = 64 };

typedef enum core_visible_form {
    CORE_VISIBLE_ALL = 1, /* the variable is not set */
    CORE_VISIBLE_NONE,    /* empty, blank or -1: hidden on purpose */
    CORE_VISIBLE_INDEX,
    CORE_VISIBLE_UUID, /* GPU-... */
    CORE_VISIBLE_MIG   /* MIG-...: only the driver knows which device that is */
} core_visible_form;

/* Why the list ends where it does. */
typedef enum core_visible_end {
    CORE_VISIBLE_END_OF_TEXT = 1,
    CORE_VISIBLE_END_NEGATIVE,  /* "0,-1,1": what follows is hidden */
    CORE_VISIBLE_END_GARBAGE,   /* an element that is no number (or of another form) */
    CORE_VISIBLE_END_REPEATED,  /* a device twice: nothing is visible */
    CORE_VISIBLE_END_TOO_LARGE, /* resolved: there is no device of that index */
    CORE_VISIBLE_END_UNKNOWN,   /* resolved: no device has that UUID, or several begin so */
    CORE_VISIBLE_END_TOO_MANY   /* CORE_VISIBLE_MOST are kept */
} core_visible_end;

/* A part of the text that was read. */
typedef struct core_visible_part {
    const char *text;
    int length;
} core_visible_part;

/* The text must live as long as this. */
typedef struct core_visible_list {
    core_visible_form form;
    core_visible_end end;
    int count;                                 /* entries kept; 0 with INDEX: nothing is visible */
    int index[CORE_VISIBLE_MOST];              /* INDEX */
    core_visible_part part[CORE_VISIBLE_MOST]; /* each entry as written */
    core_visible_part ended_by;                /* the element that ended the list, or empty */
} core_visible_list;

/* Any text, NULL when the variable is not set. Never fails. */
void core_visible_parse(const char *text, core_visible_list *out_list);

/* Which of `device_count` devices the list shows, in its order: writes their numbers to out_index and
 * returns how many. `uuids` ("GPU-...", one per device) may be NULL where they are not known.
 * *out_end says why no more. -1: only the driver can tell (MIG, or UUIDs that are not known). */
int core_visible_resolve(const core_visible_list *list, int device_count, const char *const *uuids,
                         int out_index[CORE_VISIBLE_MOST], core_visible_end *out_end);

/* The list hides every device, whatever the machine has. */
static inline int core_visible_hides_all(const core_visible_list *list)
{
    return list->form == CORE_VISIBLE_NONE || (list->form != CORE_VISIBLE_ALL && list->count == 0);
}

/* CUDA_DEVICE_ORDER is PCI_BUS_ID: devices are numbered by bus, else the fastest comes first (D057). */
int core_visible_by_bus(const char *device_order);

#ifdef __cplusplus
}
#endif
#endif
