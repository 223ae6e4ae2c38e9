// Encoding the row of one head, byte for byte as encode_head_row does. Included once for each target, after highway.h.
#if defined(CELLAR_OPS_CPU_ENCODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CELLAR_OPS_CPU_ENCODE_INL_H_
#undef CELLAR_OPS_CPU_ENCODE_INL_H_
#else
#define CELLAR_OPS_CPU_ENCODE_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "ops/row_store.h"
#include "tensor/row_codec.h"

HWY_BEFORE_NAMESPACE();
namespace cellar::ops::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

using D = hn::CappedTag<float, 16>;

// Writes as many whole vectors as fit; returns how many values those are.
int encode_f16(const float* x, int width, std::byte* row) {
    const D d;
    const hn::Rebind<hwy::float16_t, D> dh;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    int i = 0;
    for (; i + lanes <= width; i += lanes) hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, x + i)), dh, reinterpret_cast<hwy::float16_t*>(row) + i);
    return i;
}

int encode_bf16(const float* x, int width, std::byte* row) {
    const D d;
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> dh;
    const auto lanes = static_cast<int>(hn::Lanes(d));
    int i = 0;
    for (; i + lanes <= width; i += lanes) {
        const auto v = hn::LoadU(d, x + i);
        const auto bits = hn::BitCast(du, v);
        const auto top = hn::ShiftRight<16>(bits);
        const auto half = hn::Add(hn::Set(du, 0x7FFFU), hn::And(top, hn::Set(du, 1U)));
        const auto rounded = hn::ShiftRight<16>(hn::Add(bits, half));
        const auto nan = hn::RebindMask(du, hn::IsNaN(v));
        hn::StoreU(hn::TruncateTo(dh, hn::IfThenElse(nan, hn::Or(top, hn::Set(du, 0x40U)), rounded)), dh, reinterpret_cast<uint16_t*>(row) + i);
    }
    return i;
}

// One block of 32 values whose scale is an ordinary f16; false where it is not, with nothing written.
bool encode_block(const float* x, std::byte* block) {
    const D d;
    const hn::RebindToSigned<D> di;
    const hn::Rebind<int8_t, D> db;
    constexpr auto kLanes = static_cast<int>(hn::MaxLanes(D()));
    const auto magnitude = hn::Set(di, 0x7FFFFFFF);
    auto most_bits = hn::Zero(di);
    for (int i = 0; i < kPackedBlock; i += kLanes) most_bits = hn::Max(most_bits, hn::And(hn::BitCast(di, hn::LoadU(d, x + i)), magnitude));
    // As integers the magnitudes of floats keep their order, with infinity and NaN on top.
    const hn::CappedTag<float, 4> d4;  // of which one counts; a vector, since that is what can be made a f16 in one instruction
    const auto scale = hn::Div(hn::Set(d4, hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(di, most_bits)))), hn::Set(d4, 127.0F));
    const auto half_bits = hn::BitCast(hn::Rebind<uint16_t, decltype(d4)>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, decltype(d4)>(), scale));
    const uint16_t half = hn::GetLane(half_bits);
    if (half == 0 || (half & 0x7C00U) == 0x7C00U) return false;
    const auto inverse = hn::Set(d, hn::GetLane(hn::Div(hn::Set(d4, 1.0F), scale)));
    std::memcpy(block, &half, sizeof half);
    auto* out = reinterpret_cast<int8_t*>(block + 2);
    for (int i = 0; i < kPackedBlock; i += kLanes) {
        hn::StoreU(hn::DemoteTo(db, hn::NearestInt(hn::Mul(hn::LoadU(d, x + i), inverse))), db, out + i);
    }
    return true;
}

void encode_row(kv::RowFormat format, const float* x, int width, std::byte* row, size_t bytes) {
    if (format == kv::RowFormat::Q8_0) {
        size_t used = 0;
        for (int at = 0; at < width; at += kPackedBlock, used += kPackedBlockBytes) {
            const bool whole = width - at >= kPackedBlock;
            if (whole && encode_block(x + at, row + used)) continue;
            encode_head_row(format, x + at, std::min(kPackedBlock, width - at), row + used, kPackedBlockBytes);
        }
        std::fill(row + used, row + bytes, std::byte{0});
        return;
    }
    int done = 0;
    if (format == kv::RowFormat::F16) done = encode_f16(x, width, row);
    if (format == kv::RowFormat::BF16) done = encode_bf16(x, width, row);
    const size_t written = static_cast<size_t>(done) * 2;
    encode_head_row(format, x + done, width - done, row + written, bytes - written);
}

#else

void encode_row(kv::RowFormat format, const float* x, int width, std::byte* row, size_t bytes) {
    encode_head_row(format, x, width, row, bytes);
}

#endif

}  // namespace
}  // namespace cellar::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // CELLAR_OPS_CPU_ENCODE_INL_H_
