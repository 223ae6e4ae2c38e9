#include <bit>
#include <cstring>

#include "tensor/row_codec.h"

namespace cellar {

float f16_to_f32(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = (bits >> 10) & 31U;
    const uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    // Zero or subnormal: mantissa * 2^-24, exact in a float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t f32_to_f16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000U;
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));  // NaN, made quiet
    if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);                              // rounds to 65536 or is above
    if (magnitude < 0x38800000U) {
        // Below 2^-14 the result counts in steps of 2^-24. Adding 0.5 makes that the last bit of the float, so the addition rounds.
        const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0.5F)));
    }
    const uint32_t half_up = 0xFFFU + (magnitude >> 13 & 1U);
    return static_cast<uint16_t>(sign | ((magnitude + half_up - 0x38000000U) >> 13));
}

float bf16_to_f32(uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t f32_to_bf16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);
    return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace cellar
