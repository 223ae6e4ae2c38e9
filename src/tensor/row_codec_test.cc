#include "tensor/row_codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace cellar {
namespace {

// What 16 bits mean by definition: sign, exponent, mantissa.
double half_by_definition(uint16_t bits, int exponent_bits, int mantissa_bits) {
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) {
        return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

TEST(Half, all_bit_patterns_mean_what_they_should_and_come_back) {
    for (uint32_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        for (const bool brain : {false, true}) {
            const double expected = half_by_definition(bits, brain ? 8 : 5, brain ? 7 : 10);
            const float value = brain ? bf16_to_f32(bits) : f16_to_f32(bits);
            const uint16_t back = brain ? f32_to_bf16(value) : f32_to_f16(value);
            if (std::isnan(expected)) {
                ASSERT_TRUE(std::isnan(value)) << bits;
                ASSERT_TRUE(std::isnan(half_by_definition(back, brain ? 8 : 5, brain ? 7 : 10))) << bits;
            } else {
                ASSERT_EQ(value, expected) << bits;
                ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
                ASSERT_EQ(back, bits);
            }
        }
    }
}

// Between neighbouring values: below, at and above the middle.
TEST(Half, rounds_to_nearest_and_ties_to_even) {
    for (uint32_t i = 0; i < 65535; ++i) {
        for (const bool brain : {false, true}) {
            const auto below = static_cast<uint16_t>(i);
            const auto above = static_cast<uint16_t>(i + 1);
            const double low = half_by_definition(below, brain ? 8 : 5, brain ? 7 : 10);
            double high = half_by_definition(above, brain ? 8 : 5, brain ? 7 : 10);
            if (!std::isfinite(low) || std::isnan(high) || (below & 0x8000) != (above & 0x8000)) continue;
            // Infinity stands where the next value would be.
            if (std::isinf(high)) high = std::copysign(std::ldexp(1.0, brain ? 128 : 16), low);
            const double middle = (low + high) / 2;
            const auto middle_float = static_cast<float>(middle);
            if (static_cast<double>(middle_float) != middle) continue;
            const auto encode = [&](float v) { return brain ? f32_to_bf16(v) : f32_to_f16(v); };
            ASSERT_EQ(encode(middle_float), (below & 1) == 0 ? below : above) << middle;
            ASSERT_EQ(encode(std::nextafter(middle_float, static_cast<float>(low))), below) << middle;
            const float over = std::nextafter(middle_float, std::copysign(std::numeric_limits<float>::infinity(), middle_float));
            ASSERT_EQ(encode(over), above) << middle;
        }
    }
    EXPECT_EQ(f32_to_f16(1e30F), 0x7C00);
    EXPECT_EQ(f32_to_f16(-1e-30F), 0x8000);
    EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0x7F800001U)))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
    EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0xFFFFFFFFU)))));
}

// Writes numbers of a few bits into a block by bit address, the way the layouts are published, and works out what they mean.
class Block {
  public:
    explicit Block(DType type) : type_(type), bytes_(static_cast<size_t>(info(type).block_bytes)) {}

    void put_bits(int bit, int count, unsigned value) {
        for (int i = 0; i < count; ++i) {
            const unsigned one = value >> i & 1U;
            bytes_[static_cast<size_t>((bit + i) / 8)] |= static_cast<std::byte>(one << ((bit + i) % 8));
        }
    }
    void put_half(int byte, float value) { put_bits(byte * 8, 16, f32_to_f16(value)); }
    // The nibble of element i among 32, or among 256 in pairs of 32.
    void put_nibble(int byte, int i, unsigned value) { put_bits((byte + i % 16) * 8 + i / 16 * 4, 4, value); }

    [[nodiscard]] std::vector<float> decode() const {
        std::vector<float> out(static_cast<size_t>(info(type_).block));
        decode_row(type_, bytes_.data(), info(type_).block, out.data());
        return out;
    }

  private:
    DType type_;
    std::vector<std::byte> bytes_;
};

class Formats : public testing::Test {
  protected:
    unsigned bits(int count) { return static_cast<unsigned>(random_()) & ((1U << count) - 1U); }
    static void expect(const Block& block, const std::vector<double>& expected) {
        const std::vector<float> actual = block.decode();
        ASSERT_EQ(actual.size(), expected.size());
        for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5 * std::fabs(expected[i]) + 1e-5) << i;
    }
    std::mt19937 random_{17};
    static constexpr float kD = 0.1875F;  // exact in an f16
    static constexpr float kM = -0.625F;
    static constexpr double kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
};

TEST_F(Formats, of_32_decode_as_published) {
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q8_0, DType::IQ4_NL, DType::MXFP4}) {
        SCOPED_TRACE(name(type));
        Block b(type);
        std::vector<double> expected(32);
        const bool minimum = type == DType::Q4_1 || type == DType::Q5_1;
        const bool five = type == DType::Q5_0 || type == DType::Q5_1;
        const int head = type == DType::MXFP4 ? 1 : (minimum ? 4 : 2) + (five ? 4 : 0);
        if (type == DType::MXFP4) {
            b.put_bits(0, 8, 125);  // 2^-2 times the value, which the table holds doubled
        } else {
            b.put_half(0, kD);
        }
        if (minimum) b.put_half(2, kM);
        for (int i = 0; i < 32; ++i) {
            const unsigned q = type == DType::Q8_0 ? bits(8) : bits(five ? 5 : 4);
            const double d = kD;
            double& x = expected[static_cast<size_t>(i)];
            if (type == DType::Q8_0) {
                b.put_bits((2 + i) * 8, 8, q);
                x = d * static_cast<int8_t>(q);
                continue;
            }
            b.put_nibble(head, i, q & 15U);
            if (five) b.put_bits((head - 4) * 8 + i, 1, q >> 4);
            if (type == DType::Q4_0) x = d * (static_cast<int>(q) - 8);
            if (type == DType::Q5_0) x = d * (static_cast<int>(q) - 16);
            if (minimum) x = d * q + static_cast<double>(kM);
            if (type == DType::IQ4_NL) x = d * kIq4[q];
            if (type == DType::MXFP4) {
                static constexpr double kValues[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
                x = 0.25 * (q < 8 ? kValues[q] : -kValues[q - 8]);
            }
        }
        expect(b, expected);
    }
}

TEST_F(Formats, Q4_K_and_Q5_K_decode_as_published) {
    for (const bool five : {false, true}) {
        Block b(five ? DType::Q5_K : DType::Q4_K);
        std::vector<double> expected(256);
        b.put_half(0, kD);
        b.put_half(2, kM);
        for (int g = 0; g < 8; ++g) {
            const unsigned s = bits(6);
            const unsigned m = bits(6);
            if (g < 4) {
                b.put_bits((4 + g) * 8, 6, s);
                b.put_bits((8 + g) * 8, 6, m);
            } else {
                b.put_bits((12 + g - 4) * 8, 4, s & 15U);
                b.put_bits((12 + g - 4) * 8 + 4, 4, m & 15U);
                b.put_bits((4 + g - 4) * 8 + 6, 2, s >> 4);
                b.put_bits((8 + g - 4) * 8 + 6, 2, m >> 4);
            }
            for (int i = 0; i < 32; ++i) {
                const unsigned q = bits(five ? 5 : 4);
                b.put_bits(((five ? 48 : 16) + g / 2 * 32 + i) * 8 + g % 2 * 4, 4, q & 15U);
                if (five) b.put_bits((16 + i) * 8 + g, 1, q >> 4);
                expected[static_cast<size_t>(g * 32 + i)] = static_cast<double>(kD) * s * q - static_cast<double>(kM) * m;
            }
        }
        expect(b, expected);
    }
}

TEST_F(Formats, Q2_K_Q3_K_and_Q6_K_decode_as_published) {
    Block two(DType::Q2_K);
    Block three(DType::Q3_K);
    Block six(DType::Q6_K);
    std::vector<double> twos(256);
    std::vector<double> threes(256);
    std::vector<double> sixes(256);
    two.put_half(80, kD);
    two.put_half(82, kM);
    three.put_half(108, kD);
    six.put_half(208, kD);
    for (int g = 0; g < 16; ++g) {
        const unsigned s2 = bits(4);
        const unsigned m2 = bits(4);
        const unsigned s3 = bits(6);
        const unsigned s6 = bits(8);
        two.put_bits(g * 8, 4, s2);
        two.put_bits(g * 8 + 4, 4, m2);
        three.put_bits((96 + g % 8) * 8 + g / 8 * 4, 4, s3 & 15U);
        three.put_bits((104 + g % 4) * 8 + g / 4 * 2, 2, s3 >> 4);
        six.put_bits((192 + g) * 8, 8, s6);
        for (int k = g * 16; k < g * 16 + 16; ++k) {
            const auto at = static_cast<size_t>(k);
            const int half = k / 128;
            const int part = k % 128 / 32;
            const int i = k % 32;
            const unsigned q2 = bits(2);
            two.put_bits((16 + half * 32 + i) * 8 + part * 2, 2, q2);
            twos[at] = static_cast<double>(kD) * s2 * q2 - static_cast<double>(kM) * m2;
            const unsigned q3 = bits(3);
            three.put_bits((32 + half * 32 + i) * 8 + part * 2, 2, q3 & 3U);
            three.put_bits(i * 8 + half * 4 + part, 1, q3 >> 2);
            threes[at] = static_cast<double>(kD) * (static_cast<int>(s3) - 32) * (static_cast<int>(q3) - 4);
            const unsigned q6 = bits(6);
            six.put_bits((half * 64 + part % 2 * 32 + i) * 8 + part / 2 * 4, 4, q6 & 15U);
            six.put_bits((128 + half * 32 + i) * 8 + part * 2, 2, q6 >> 4);
            sixes[at] = static_cast<double>(kD) * static_cast<int8_t>(s6) * (static_cast<int>(q6) - 32);
        }
    }
    expect(two, twos);
    expect(three, threes);
    expect(six, sixes);
}

TEST_F(Formats, IQ4_XS_decodes_as_published) {
    Block b(DType::IQ4_XS);
    std::vector<double> expected(256);
    b.put_half(0, kD);
    for (int g = 0; g < 8; ++g) {
        const unsigned s = bits(6);
        b.put_bits(2 * 8 + g * 2, 2, s >> 4);
        b.put_bits((4 + g / 2) * 8 + g % 2 * 4, 4, s & 15U);
        for (int i = 0; i < 32; ++i) {
            const unsigned q = bits(4);
            b.put_nibble(8 + g * 16, i, q);
            expected[static_cast<size_t>(g * 32 + i)] = static_cast<double>(kD) * (static_cast<int>(s) - 32) * kIq4[q];
        }
    }
    expect(b, expected);
}

double relative_error(DType type, const std::vector<float>& x) {
    std::vector<std::byte> row(row_bytes(type, static_cast<int64_t>(x.size())));
    std::vector<float> y(x.size());
    encode_row(type, x.data(), static_cast<int64_t>(x.size()), row.data());
    decode_row(type, row.data(), static_cast<int64_t>(x.size()), y.data());
    double error = 0;
    double power = 0;
    for (size_t i = 0; i < x.size(); ++i) {
        error += (static_cast<double>(y[i]) - x[i]) * (static_cast<double>(y[i]) - x[i]);
        power += static_cast<double>(x[i]) * x[i];
    }
    return std::sqrt(error / power);
}

TEST(Encode, keeps_as_much_as_the_bits_allow) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    std::vector<float> x(256 * 64);
    for (float& v : x) v = normal(random);
    const std::map<DType, double> bounds{{DType::F32, 0},       {DType::F16, 3e-4},   {DType::BF16, 2.5e-3}, {DType::Q8_0, 6e-3},
                                         {DType::Q6_K, 0.03},   {DType::Q5_0, 0.045}, {DType::Q5_1, 0.04},   {DType::Q5_K, 0.045},
                                         {DType::Q4_0, 0.09},   {DType::Q4_1, 0.08},  {DType::Q4_K, 0.09},   {DType::IQ4_NL, 0.09},
                                         {DType::IQ4_XS, 0.09}, {DType::MXFP4, 0.14}, {DType::Q3_K, 0.2},    {DType::Q2_K, 0.4}};
    for (const DTypeInfo& t : all_dtypes()) {
        ASSERT_TRUE(can_encode(t.type));
        EXPECT_LE(relative_error(t.type, x), bounds.at(t.type)) << t.name;
        // The error does not grow with the size of the values, where a scale can hold them.
        std::vector<float> large = x;
        for (float& v : large) v *= 4096.0F;
        EXPECT_LE(relative_error(t.type, large), bounds.at(t.type)) << t.name;
    }
}

TEST(Encode, zeros_and_constants_survive) {
    for (const DTypeInfo& t : all_dtypes()) {
        std::vector<float> x(512, 0.0F);
        std::vector<std::byte> row(row_bytes(t.type, 512), std::byte{0xFF});
        std::vector<float> y(512, 1.0F);
        encode_row(t.type, x.data(), 512, row.data());
        decode_row(t.type, row.data(), 512, y.data());
        for (const float v : y) ASSERT_EQ(v, 0.0F) << t.name;
        std::fill(x.begin(), x.end(), -1.5F);
        EXPECT_LT(relative_error(t.type, x), 0.02) << t.name;
    }
}

TEST(Encode, Q8_0_rounds_to_even_with_the_scale_of_the_largest) {
    std::vector<float> x(32, 0.0F);
    x[0] = 127.0F;
    x[1] = 2.5F;
    x[2] = 3.5F;
    x[3] = -2.5F;
    std::vector<std::byte> row(34);
    encode_row(DType::Q8_0, x.data(), 32, row.data());
    const auto quant = [&](size_t i) { return static_cast<int>(static_cast<int8_t>(row[2 + i])); };
    EXPECT_EQ(quant(0), 127);
    EXPECT_EQ(quant(1), 2);
    EXPECT_EQ(quant(2), 4);
    EXPECT_EQ(quant(3), -2);
    // Not finite in, not finite out.
    x[5] = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> y(32);
    encode_row(DType::Q8_0, x.data(), 32, row.data());
    decode_row(DType::Q8_0, row.data(), 32, y.data());
    for (const float v : y) EXPECT_TRUE(std::isnan(v));
}

}  // namespace
}  // namespace cellar
