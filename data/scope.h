/* The scope of what this folder makes on its way. */
#ifndef DATA_SCOPE_H
#define DATA_SCOPE_H

#include "tern/tensor.h"

typedef struct data_scope {
    bool owned;
    tern_scope scope;
} data_scope;

static inline data_scope data_scope_begin(void)
{
    data_scope s;
    s.owned = tern_set_owned_mode(false);
    s.scope = tern_scope_begin();
    return s;
}

static inline void data_scope_end(data_scope *s)
{
    tern_scope_end(&s->scope);
    (void)tern_set_owned_mode(s->owned);
}

/* Ends it, and hands t to whoever called: to the enclosing scope, or with a reference of its own. */
static inline tern_tensor *data_scope_end_with(data_scope *s, tern_tensor *t)
{
    if (s->owned)
        tern_retain(t);
    else
        tern_keep(t);
    data_scope_end(s);
    return t;
}

/* TERN_SCOPE, also on a binding's thread (tern_set_owned_mode), where calls hand over what they make. */
#define DATA_SCOPE \
    data_scope data_scope_ __attribute__((cleanup(data_scope_end), unused)) = data_scope_begin()

#endif
