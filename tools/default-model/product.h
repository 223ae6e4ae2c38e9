// Matrix products for step.cc: float in, float out, multiplied in half precision where the CPU can, unless EXACT is defined.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace {

#if defined(__AVX512FP16__) && !defined(EXACT)
#define HALF
#endif

// Matrix products multiply in half precision where the CPU can, which doubles their speed, and move their sums to float every few
// products; gradients are scaled up meanwhile to stay in range.
#ifdef HALF
using Number = _Float16;
constexpr float kGradScale = 64;
#else
using Number = float;
constexpr float kGradScale = 1;
#endif
constexpr int kLanes = 64 / sizeof(Number), kCols = 2 * kLanes, kRows = 12, kDepth = 128;
typedef Number Vec __attribute__((vector_size(64)));

// Left-hand matrices hold every half twice: 32 bits are spread over a register by the load itself, 16 bits are not.
#ifdef HALF
using Left = uint32_t;
inline Vec spread(Left x) {
    return reinterpret_cast<Vec>(_mm512_set1_epi32(int(x)));
}
inline void to_left(int n, const float* from, Left* to) {
    for (int i = 0; i < n; i += 16) {
        const __mmask16 mask = __mmask16(n - i >= 16 ? 0xffff : (1 << (n - i)) - 1);
        const __m512i half = _mm512_cvtepu16_epi32(_mm256_castph_si256(_mm512_cvtxps_ph(_mm512_maskz_loadu_ps(mask, from + i))));
        _mm512_mask_storeu_epi32(to + i, mask, _mm512_or_si512(half, _mm512_slli_epi32(half, 16)));
    }
}
inline void to_numbers(int n, const float* from, Number* to) {
    for (int i = 0; i < n; i += 16) {
        const __mmask16 mask = __mmask16(n - i >= 16 ? 0xffff : (1 << (n - i)) - 1);
        _mm256_mask_storeu_epi16(to + i, mask, _mm256_castph_si256(_mm512_cvtxps_ph(_mm512_maskz_loadu_ps(mask, from + i))));
    }
}
inline void add_to(float* sums, Vec x) {
    const __m512i bits = reinterpret_cast<__m512i>(x);
    const __m256i half[2] = {_mm512_castsi512_si256(bits), _mm512_extracti64x4_epi64(bits, 1)};
    for (int i = 0; i < 2; ++i)
        _mm512_store_ps(sums + 16 * i, _mm512_add_ps(_mm512_load_ps(sums + 16 * i), _mm512_cvtxph_ps(_mm256_castsi256_ph(half[i]))));
}
#else
using Left = float;
inline Vec spread(Left x) {
    return x - Vec{};
}
inline void add_to(float* sums, Vec x) {
    *reinterpret_cast<Vec*>(sums) += x;
}
inline void to_left(int n, const float* from, Left* to) {
    std::copy_n(from, n, to);
}
inline void to_numbers(int n, const float* from, Number* to) {
    std::copy_n(from, n, to);
}
#endif

template <class T>
class Aligned {
  public:
    ~Aligned() { std::free(data_); }
    Aligned() = default;
    Aligned(const Aligned&) = delete;
    Aligned& operator=(const Aligned&) = delete;
    T* reserve(size_t n) {
        if (n > size_) {
            std::free(data_);
            data_ = static_cast<T*>(std::aligned_alloc(128, (n * sizeof(T) + 127) / 128 * 128));
            size_ = n;
        }
        return data_;
    }
    const T* data() const { return data_; }

  private:
    T* data_ = nullptr;
    size_t size_ = 0;
};

// The right-hand matrix [k, n] of a product, in panels of kCols columns: [panel][k][kCols], padded with zeros.
struct Right {
    int k = 0;
    Aligned<Number> panels;

    // src is [k, n] with n neighbouring, or [n, k] with k neighbouring where transposed.
    void pack(int depth, int n, const float* src, int ld, bool transposed) {
        k = depth;
        Number* to = panels.reserve(size_t((n + kCols - 1) / kCols) * k * kCols);
        for (int at = 0; at < n; at += kCols, to += size_t(k) * kCols) {
            const int cols = std::min(kCols, n - at);
            if (cols < kCols) std::fill_n(to, size_t(k) * kCols, Number(0));
            if (transposed) {
                for (int c = 0; c < cols; ++c)
                    for (int i = 0; i < k; ++i) to[size_t(i) * kCols + c] = Number(src[size_t(at + c) * ld + i]);
            } else {
                for (int i = 0; i < k; ++i) to_numbers(cols, src + size_t(i) * ld + at, to + size_t(i) * kCols);
            }
        }
    }
};

// One tile of kRows x kCols: sums[kRows][kCols] += a * b over n values of k. a[r * kRowStep + k * kStep].
template <int kRowStep, int kStep>
void tile(int n, const Left* a, const Number* b, float* sums) {
    Vec acc[kRows][2] = {};
    for (int k = 0; k < n; ++k, b += kCols) {
        const Vec b0 = *reinterpret_cast<const Vec*>(b), b1 = *reinterpret_cast<const Vec*>(b + kLanes);
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r) {
            const Vec x = spread(a[r * kRowStep + k * kStep]);
            acc[r][0] += x * b0;
            acc[r][1] += x * b1;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) add_to(sums + r * kCols, acc[r][0]), add_to(sums + r * kCols + kLanes, acc[r][1]);
}

enum class Out { set, add };

// c[m, n] = scale * a * b (+ c). a is [m, k] with k neighbouring, or [k, m] with m neighbouring where kTransposed; k may be less than
// b was packed with. Sums move to float after `chunk` products, which divides kDepth.
template <bool kTransposed = false>
void gemm(int m, int n, int k, float scale, const float* a, int lda, const Right& b, Out out, float* c, int ldc, int chunk = kDepth) {
    constexpr int kRowStep = kTransposed ? 1 : kDepth, kStep = kTransposed ? 16 : 1, kBlock = kTransposed ? 16 * kDepth : kRows * kDepth;
    thread_local Aligned<Left> left_store;
    thread_local Aligned<float> sums_store;
    Left* left = left_store.reserve(size_t((k + kDepth - 1) / kDepth) * kBlock);
    float* sums = sums_store.reserve(kRows * kCols);
    for (int row = 0; row < m; row += kRows) {
        const int rows = std::min(kRows, m - row);
        for (int k0 = 0; k0 < k; k0 += kDepth) {
            Left* to = left + size_t(k0 / kDepth) * kBlock;
            const int depth = std::min(kDepth, k - k0);
            if (kTransposed)
                for (int i = 0; i < depth; ++i) to_left(rows, a + size_t(k0 + i) * lda + row, to + i * 16);
            else
                for (int r = 0; r < kRows; ++r) to_left(depth, a + size_t(row + std::min(r, rows - 1)) * lda + k0, to + r * kDepth);
        }
        for (int col = 0; col < n; col += kCols) {
            const Number* panel = b.panels.data() + size_t(col / kCols) * b.k * kCols;
            std::fill_n(sums, kRows * kCols, 0.f);
            for (int k0 = 0; k0 < k; k0 += chunk) {
                const Left* from = left + size_t(k0 / kDepth) * kBlock + size_t(k0 % kDepth) * kStep;
                tile<kRowStep, kStep>(std::min(chunk, k - k0), from, panel + size_t(k0) * kCols, sums);
            }
            const int cols = std::min(kCols, n - col);
            for (int r = 0; r < rows; ++r) {
                float* to = c + size_t(row + r) * ldc + col;
                if (out == Out::set)
                    for (int i = 0; i < cols; ++i) to[i] = scale * sums[r * kCols + i];
                else
                    for (int i = 0; i < cols; ++i) to[i] += scale * sums[r * kCols + i];
            }
        }
    }
}

}  // namespace
