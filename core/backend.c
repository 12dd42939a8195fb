/* Backends: registration, services for kernels, memory of their devices, cross-device copies. */
#include "core/backend.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/call.h"
#include "core/cuda/cuda.h"
#include "core/device_memory.h"
#include "core/error.h"
#include "core/log.h"
#include "core/numerics.h"
#include "core/owner.h"
#include "core/workspace.h"

/* Into tables, once registered; never changed again. Who sees an entry sees its kernels, too. */
static const tern_backend *_Atomic backends[TERN_KINDS];
static tern_backend tables[TERN_KINDS]; /* copies: members that a plugin lacks are NULL */

const tern_backend *core_backend_of(int kind)
{
    return kind > TERN_KIND_CPU && kind < TERN_KINDS
               ? atomic_load_explicit(&backends[kind], memory_order_acquire)
               : NULL;
}

/* ---- services ---------------------------------------------------------------------------------- */

static tern_status_t host_fail(tern_status_t code, const char *format, ...)
{
    tern_thread *self = core_self();
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(self->message, sizeof self->message, format, arguments);
    va_end(arguments);
    self->message_code = (int32_t)code;
    return code;
}

static void host_event(int level, const char *format, ...)
{
    if (!core_log_wants((tern_log_level_t)level))
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    core_log_text((tern_log_level_t)level, NULL, text);
}

static void host_forget(void)
{
    core_self()->message_code = TERN_OK;
}

/* The dispatcher says for which op. */
static void *refuse_scratch(tern_thread *self, int64_t bytes)
{
    const char *why = "";
    const bool used_up = self->error_code == TERN_ERR_OOM;
    const tern_status_t code = used_up ? TERN_ERR_OOM : core_oom_take(&why);
    self->error_code = TERN_OK;
    if (used_up)
        (void)host_fail(code, "no memory for %lld bytes of scratch space", (long long)bytes);
    else
        (void)host_fail(code, "%s", why);
    return NULL;
}

/* Scratch is a tensor of the thread's scratch list, which the dispatcher empties after the kernel. */
static void *host_scratch(const tern_call *call, int64_t bytes)
{
    tern_thread *self = core_self();
    tern_tensor *t = core_tensor_new(self, self->site, call->dev, TERN_U8, 1, &(int64_t){ bytes });
    if (t == NULL)
        return refuse_scratch(self, bytes);
    t->base = self->scratch; /* a list through base: released with it */
    self->scratch = t;
    return t->view.data != NULL ? t->view.data : (void *)t;
}

static void *host_try_scratch(const tern_call *call, int64_t bytes)
{
    core_oom_hush(true);
    void *data = host_scratch(call, bytes);
    core_oom_hush(false);
    if (data == NULL)
        host_forget();
    return data;
}

const tern_host core_host = { .size = sizeof(tern_host),
                              .version = TERN_PLUGIN_VERSION,
                              .fail = host_fail,
                              .event = host_event,
                              .scratch = host_scratch,
                              .cudnn_enabled = tern_cudnn_enabled,
                              .owner_of = core_owner_of,
                              .numerics = core_numerics,
                              .workspace = core_workspace,
                              .forget = host_forget,
                              .empty_cache = tern_empty_cache,
                              .try_scratch = host_try_scratch };

/* ---- registration ------------------------------------------------------------------------------ */

static const char *table_fault(const tern_backend *b)
{
    if (b->size < offsetof(tern_backend, event) || b->version != TERN_PLUGIN_VERSION)
        return "it was built for another version of the plugin interface";
    if (b->kind != TERN_KIND_CUDA && b->kind != TERN_KIND_EXT)
        return "its table names no device kind that a plugin may bring";
    if (b->name == NULL || b->device_count < 1 || b->device_count > CORE_MAX_DEVICES)
        return "its table has no name or no devices";
    if (b->memory == NULL || b->memory->alloc == NULL || b->memory->free == NULL)
        return "its table cannot allocate memory";
    if (b->copy == NULL || b->copy->from_host == NULL || b->copy->to_host == NULL)
        return "its table cannot copy to and from the host";
    if (backends[b->kind] != NULL)
        return "another backend brought devices of that kind already";
    return NULL;
}

static int op_id_of(const char *name)
{
    for (int id = 1; id < TERN_OP_COUNT; id++)
        if (strcmp(core_op_table[id].name, name) == 0)
            return id;
    return 0;
}

tern_status_t core_backend_register(const tern_backend *backend, const char **out_why)
{
    *out_why = table_fault(backend);
    if (*out_why != NULL)
        return TERN_ERR_BACKEND;
    tern_kernel *table = calloc(TERN_OP_COUNT, sizeof *table);
    if (table == NULL) {
        *out_why = "there is no memory for its kernel table";
        return TERN_ERR_OOM;
    }
    for (int64_t i = 0; i < backend->kernel_count; i++) {
        const int id = op_id_of(backend->kernels[i].op);
        if (id == 0)
            tern_log_write(TERN_LOG_WARNING, NULL, "backend %s has a kernel for an unknown op '%s'",
                           backend->name, backend->kernels[i].op);
        else
            table[id] = backend->kernels[i].kernel;
    }
    core_kernels[backend->kind] = table;
    tern_backend *copy = &tables[backend->kind];
    memcpy(copy, backend, backend->size < sizeof *copy ? backend->size : sizeof *copy);
    atomic_store_explicit(&backends[backend->kind], copy, memory_order_release);
    return TERN_OK;
}

/* ---- forks ------------------------------------------------------------------------------------- */

tern_status_t core_backend_left(void)
{
    return host_fail(TERN_ERR_STATE, "%s", core_cuda_left_words());
}

static tern_status_t left_kernel(const tern_call *call)
{
    (void)call;
    return core_backend_left();
}

/* In place of a check at each call. */
void core_backend_in_child(void)
{
    static tern_kernel fail[TERN_OP_COUNT];
    static const tern_kernel *theirs; /* known to who looks for leaks */
    if (!core_cuda_left(TERN_KIND_CUDA) || core_kernels[TERN_KIND_CUDA] == NULL || theirs != NULL)
        return;
    theirs = core_kernels[TERN_KIND_CUDA];
    for (int id = 0; id < TERN_OP_COUNT; id++)
        fail[id] = left_kernel;
    core_kernels[TERN_KIND_CUDA] = fail;
}

/* ---- failures ---------------------------------------------------------------------------------- */

const char *core_backend_words(tern_thread *self)
{
    const bool said = self->message_code != TERN_OK;
    self->message_code = TERN_OK;
    return said ? self->message : "the device's backend failed";
}

tern_status_t core_backend_failed(tern_thread *self, tern_site_t site, tern_status_t code,
                                  const char *what)
{
    return core_error(self, site, code, what, "%s", core_backend_words(self));
}
