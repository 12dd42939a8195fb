/* Autocast regions: a thread's setting, begun and put back. Rows A001-A014. */
#include <stdatomic.h>

#include "amp/autocast.h"
#include "core/backend.h"
#include "core/error.h"
#include "tern/device.h"
#include "tern/system.h"
#include "tern/error.h"

/* ---- setting ------------------------------------------------------------------------------------- */

uint32_t core_autocast_state(const tern_thread *self)
{
    uint32_t state = self->autocast;
    for (int kind = 1; kind < TERN_KINDS; kind++)
        state |= (uint32_t)self->autocast_dtype[kind] << (8 * kind);
    return state;
}

static void set_state(tern_thread *self, uint32_t state)
{
    self->autocast = (uint8_t)state;
    for (int kind = 1; kind < TERN_KINDS; kind++)
        self->autocast_dtype[kind] = (uint8_t)(state >> (8 * kind));
}

static void leave(tern_thread *self)
{
    if (--self->autocast_depth == 0)
        amp_cache_clear(self);
}

uint32_t core_autocast_replay_begin(tern_thread *self, uint32_t state)
{
    const uint32_t before = core_autocast_state(self);
    set_state(self, state);
    self->autocast_depth++;
    return before;
}

void core_autocast_replay_end(tern_thread *self, uint32_t before)
{
    set_state(self, before);
    leave(self);
}

static bool is_kind(int kind)
{
    return kind > TERN_KIND_NONE && kind < TERN_KINDS;
}

static bool is_low(tern_dtype_t dtype)
{
    return dtype == TERN_F16 || dtype == TERN_BF16;
}

bool tern_autocast_enabled(tern_dev_t dev)
{
    return is_kind(dev.kind) && (core_self()->autocast & B(dev.kind)) != 0;
}

tern_dtype_t tern_autocast_dtype(tern_dev_t dev)
{
    return is_kind(dev.kind) ? (tern_dtype_t)core_self()->autocast_dtype[dev.kind]
                             : TERN_DTYPE_NONE;
}

tern_status_t tern_set_autocast_dtype_at(tern_site_t site, tern_dev_t dev, tern_dtype_t dtype)
{
    static const char what[] = "set_autocast_dtype";
    if (!is_kind(dev.kind))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the device is missing or of no kind");
    if (!is_low(dtype))
        return tern_fail_at(site, TERN_ERR_ARGUMENT, what, "%s is neither f16 nor bf16",
                            tern_dtype_name(dtype));
    core_self()->autocast_dtype[dev.kind] = (uint8_t)dtype;
    return TERN_OK;
}

bool tern_autocast_cache_enabled(void)
{
    return core_self()->autocast_cache;
}

bool tern_set_autocast_cache_enabled(bool on)
{
    tern_thread *self = core_self();
    const bool previous = self->autocast_cache;
    self->autocast_cache = on;
    return previous;
}

void tern_autocast_clear_cache(void)
{
    amp_cache_clear(core_self());
}

/* ---- regions ------------------------------------------------------------------------------------- */

/* Off, with a warning, where a region that asks to be on cannot be. */
static bool can_be_on(tern_site_t site, int kind, tern_dtype_t dtype)
{
    if (kind == TERN_KIND_CUDA && tern_dev_count(kind) == 0)
        tern_log_write(TERN_LOG_WARNING, site,
                       "autocast for CUDA, but there is no CUDA device: the region is off");
    else if (!is_low(dtype))
        tern_log_write(TERN_LOG_WARNING, site,
                       "autocast takes f16 and bf16, not %s: the region is off",
                       tern_dtype_name(dtype));
    else
        return true;
    return false;
}

/* Asked once per device: what a device can does not change. */
static bool computes_bf16(tern_dev_t dev)
{
    static _Atomic uint64_t known;
    const uint64_t bit = (uint64_t)1 << (dev.index & 63);
    if ((atomic_load_explicit(&known, memory_order_relaxed) & bit) != 0)
        return true;
    const bool does = tern_bf16_supported(dev, true);
    if (does)
        atomic_fetch_or_explicit(&known, bit, memory_order_relaxed);
    return does;
}

/* A CUDA region that would be on, for bf16 on a device without it, or on none, is an error. */
static bool check_bf16(tern_site_t site, tern_dev_t dev, tern_dtype_t dtype)
{
    char name[TERN_DEV_NAME_BYTES];
    if (dev.kind != TERN_KIND_CUDA || dtype != TERN_BF16)
        return true;
    if (!core_dev_resolve(core_self(), site, "autocast", dev, &dev))
        return false;
    if (computes_bf16(dev))
        return true;
    (void)tern_fail_at(site, TERN_ERR_DTYPE, "autocast",
                       "%s does not compute in bf16\n  try TERN_F16, with a gradient scaler",
                       tern_dev_name(dev, name));
    return false;
}

static bool check_args(tern_site_t site, const tern_autocast_args *args)
{
    static const char what[] = "autocast";
    if (args == NULL || args->size_ < sizeof *args)
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                           "the device is missing\n  try TERN_AUTOCAST(dev, TERN_BF16)");
    else if (!is_kind(args->device.kind))
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what, "the device is missing or of no kind");
    else if (args->device.kind == TERN_KIND_EXT && tern_dev_count(TERN_KIND_EXT) == 0)
        (void)tern_fail_at(site, TERN_ERR_DEVICE, what,
                           "unsupported device: no plugin has brought devices of this kind");
    else if (args->cache < 0 || args->cache > TERN_CACHE_OFF)
        (void)tern_fail_at(site, TERN_ERR_ARGUMENT, what,
                           "cache = %d\n  try TERN_CACHE_ON or TERN_CACHE_OFF", args->cache);
    else
        return true;
    return false;
}

tern_autocast_region tern_autocast_begin_at(tern_site_t site, const tern_autocast_args *args)
{
    tern_autocast_region region = { 0 };
    if (!check_args(site, args))
        return region;
    tern_thread *self = core_self();
    const int kind = args->device.kind;
    const tern_dtype_t dtype =
        args->dtype != TERN_DTYPE_NONE ? args->dtype : (tern_dtype_t)self->autocast_dtype[kind];
    const bool on = !args->disabled && can_be_on(site, kind, dtype);
    if (on && !check_bf16(site, args->device, dtype))
        return region;
    region.kind_ = args->device.kind;
    region.enabled_ = (self->autocast & B(kind)) != 0;
    region.cache_ = self->autocast_cache;
    region.dtype_ = (tern_dtype_t)self->autocast_dtype[kind];
    self->autocast = (uint8_t)((self->autocast & ~B(kind)) | (on ? B(kind) : 0));
    if (is_low(dtype))
        self->autocast_dtype[kind] = (uint8_t)dtype;
    if (args->cache != 0)
        self->autocast_cache = args->cache == TERN_CACHE_ON;
    self->autocast_depth++;
    return region;
}

void tern_autocast_end(tern_autocast_region *region)
{
    tern_thread *self = core_self();
    const int kind = region != NULL ? region->kind_ : TERN_KIND_NONE;
    if (kind == TERN_KIND_NONE || self->autocast_depth == 0)
        return;
    region->kind_ = TERN_KIND_NONE;
    self->autocast = (uint8_t)((self->autocast & ~B(kind)) | (region->enabled_ ? B(kind) : 0));
    self->autocast_dtype[kind] = (uint8_t)region->dtype_;
    self->autocast_cache = region->cache_;
    leave(self);
}
