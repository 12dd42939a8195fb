/* Launchers of elementwise.def: by dtype, as the op's kinds say. See elementwise.cuh. */
#include "backend_cuda/elementwise.cuh"

using namespace cuda;

#define KINDS_FLOATS 1
#define KINDS_NUMBERS 3
#define KINDS_WHOLE 6 /* 2: integers, 4: bool */
#define KINDS_ALL 7

template <template <typename> class F, int kinds>
static cudaError_t launch_any(const cuda_elements *e, cudaStream_t stream)
{
    if constexpr ((kinds & KINDS_FLOATS) != 0) {
        switch (e->dtype) {
        case TERN_F16:
            return launch_map<F<real_type<__half>>, real_type<__half>>(e, stream);
        case TERN_BF16:
            return launch_map<F<real_type<__nv_bfloat16>>, real_type<__nv_bfloat16>>(e, stream);
        case TERN_F32:
            return launch_map<F<real_type<float>>, real_type<float>>(e, stream);
        case TERN_F64:
            return launch_map<F<real_type<double>>, real_type<double>>(e, stream);
        default:
            break;
        }
    }
    if constexpr ((kinds & 2) != 0) {
        switch (e->dtype) {
        case TERN_U8:
            return launch_map<F<integer_type<uint8_t, uint32_t>>, integer_type<uint8_t, uint32_t>>(
                e, stream);
        case TERN_I8:
            return launch_map<F<integer_type<int8_t, uint32_t>>, integer_type<int8_t, uint32_t>>(
                e, stream);
        case TERN_I16:
            return launch_map<F<integer_type<int16_t, uint32_t>>, integer_type<int16_t, uint32_t>>(
                e, stream);
        case TERN_I32:
            return launch_map<F<integer_type<int32_t, uint32_t>>, integer_type<int32_t, uint32_t>>(
                e, stream);
        case TERN_I64:
            return launch_map<F<integer_type<int64_t, uint64_t>>, integer_type<int64_t, uint64_t>>(
                e, stream);
        default:
            break;
        }
    }
    if constexpr ((kinds & 4) != 0)
        if (e->dtype == TERN_BOOL)
            return launch_map<F<bool_type>, bool_type>(e, stream);
    return cudaErrorInvalidValue;
}

#define ELEMENT(name, shape, kinds, real, integer)                                         \
    extern "C" cudaError_t cuda_launch_##name(const cuda_elements *e, cudaStream_t stream) \
    {                                                                                      \
        return launch_any<f_##name, KINDS_##kinds>(e, stream);                             \
    }
#include "backend_cpu/elementwise.def"
#undef ELEMENT
