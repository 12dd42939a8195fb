/* One element in host memory, read and written in any dtype. */
#include "core/promote.h"

#include "core/error.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { F16_BIAS_SHIFT = 112 }; /* 127 - 15 */

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float f16_to_float(uint16_t half)
{
    const int exponent = (half >> 10) & 31, mantissa = half & 1023;
    const float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return mantissa != 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(mantissa + 1024), exponent - 25);
}

static uint16_t float_to_f16(float value)
{
    const uint32_t sign = (float_bits(value) >> 16) & 0x8000u;
    const uint32_t bits = float_bits(value) & 0x7FFFFFFFu;
    if (bits > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (bits >= 0x47800000u) /* 65536 */
        return (uint16_t)(sign | 0x7C00u);
    if (bits < 0x38800000u) /* 2^-14: subnormal; nearbyint rounds ties to even */
        return (uint16_t)(sign | (uint32_t)nearbyintf(ldexpf(bits_float(bits), 24)));
    const uint32_t even = (bits >> 13) & 1u;
    return (uint16_t)(sign | ((bits + 0xFFFu + even - ((uint32_t)F16_BIAS_SHIFT << 23)) >> 13));
}

static uint16_t float_to_bf16(float value)
{
    const uint32_t bits = float_bits(value);
    if (isnan(value))
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static bool is_half(tern_dtype_t dtype)
{
    return dtype == TERN_F16 || dtype == TERN_BF16;
}

static float load_half(const void *data, tern_dtype_t dtype)
{
    uint16_t bits;
    memcpy(&bits, data, sizeof bits);
    return dtype == TERN_F16 ? f16_to_float(bits) : bits_float((uint32_t)bits << 16);
}

double core_load_double(const void *data, tern_dtype_t dtype)
{
    if (is_half(dtype))
        return (double)load_half(data, dtype);
    if (dtype == TERN_F32) {
        float value;
        memcpy(&value, data, sizeof value);
        return (double)value;
    }
    if (dtype == TERN_F64) {
        double value;
        memcpy(&value, data, sizeof value);
        return value;
    }
    return (double)core_load_int(data, dtype);
}

/* Toward zero; NaN is 0, what does not fit becomes the nearest end. */
static int64_t double_to_int(double value)
{
    if (!(value == value))
        return 0;
    if (value >= 9223372036854775808.0)
        return INT64_MAX;
    return value < -9223372036854775808.0 ? INT64_MIN : (int64_t)value;
}

int64_t core_load_int(const void *data, tern_dtype_t dtype)
{
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case TERN_BOOL:
    case TERN_U8:
        return *(const uint8_t *)data;
    case TERN_I8:
        return *(const int8_t *)data;
    case TERN_I16:
        memcpy(&i16, data, sizeof i16);
        return i16;
    case TERN_I32:
        memcpy(&i32, data, sizeof i32);
        return i32;
    case TERN_I64:
        memcpy(&i64, data, sizeof i64);
        return i64;
    default:
        return double_to_int(core_load_double(data, dtype));
    }
}

void core_store_double(void *data, tern_dtype_t dtype, double value)
{
    const float f32 = (float)value;
    if (is_half(dtype)) {
        const uint16_t bits = dtype == TERN_F16 ? float_to_f16(f32) : float_to_bf16(f32);
        memcpy(data, &bits, sizeof bits);
    } else if (dtype == TERN_F32) {
        memcpy(data, &f32, sizeof f32);
    } else if (dtype == TERN_F64) {
        memcpy(data, &value, sizeof value);
    } else if (dtype == TERN_BOOL) {
        *(uint8_t *)data = value != 0;
    } else {
        core_store_int(data, dtype, double_to_int(value));
    }
}

void core_store_int(void *data, tern_dtype_t dtype, int64_t value)
{
    if (tern_dtype_is_float(dtype)) {
        core_store_double(data, dtype, (double)value);
    } else if (dtype == TERN_BOOL) {
        *(uint8_t *)data = value != 0;
    } else {
        const uint64_t bits = (uint64_t)value;
        const uint8_t low8 = (uint8_t)bits;
        const uint16_t low16 = (uint16_t)bits;
        const uint32_t low32 = (uint32_t)bits;
        const int64_t bytes = tern_dtype_size(dtype);
        memcpy(data,
               bytes == 1   ? (const void *)&low8
               : bytes == 2 ? (const void *)&low16
               : bytes == 4 ? (const void *)&low32
                            : (const void *)&bits,
               (size_t)bytes);
    }
}

double core_largest_of(tern_dtype_t dtype)
{
    switch (dtype) {
    case TERN_F32:
        return 0x1.fffffep127;
    case TERN_F16:
        return 65504;
    case TERN_BF16:
        return 0x1.fep127;
    default:
        return 0x1.fffffffffffffp1023;
    }
}

/* Whole numbers of an i64 are doubles here: 2^63, to which its greatest is rounded, fits. */
bool core_number_fits(tern_operand number, tern_dtype_t dtype)
{
    const double v = number.kind_ == TERN_NUMBER_FLOAT ? number.value_.f : (double)number.value_.i;
    const double end = (double)((uint64_t)1 << ((8 * tern_dtype_size(dtype) - 1) & 63));
    switch (dtype) {
    case TERN_BOOL:
    case TERN_F64:
        return true;
    case TERN_F32:
    case TERN_F16:
    case TERN_BF16:
        return !isfinite(v) || fabs(v) <= core_largest_of(dtype);
    case TERN_U8:
        return v > -256 && v < 256;
    case TERN_I64:
        return v >= -end && v <= end;
    default:
        return v > -end - 1 && v < end;
    }
}

bool core_require_number(tern_thread *self, tern_site_t site, const char *what, tern_operand number,
                         tern_dtype_t dtype)
{
    if (number.kind_ == 0 || core_number_fits(number, dtype))
        return true;
    char text[32];
    if (number.kind_ == TERN_NUMBER_FLOAT)
        (void)snprintf(text, sizeof text, "%g", number.value_.f);
    else
        (void)snprintf(text, sizeof text, "%lld", (long long)number.value_.i);
    core_error(self, core_site(self, site), TERN_ERR_ARGUMENT, what, "%s is beyond what %s can be",
               text, tern_dtype_name(dtype));
    return false;
}
