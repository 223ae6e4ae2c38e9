#include "base/bytes.h"

namespace cellar {

Result<std::span<const std::byte>> ByteReader::take(uint64_t count, std::string_view field) {
    if (count > remaining()) return fail("{}: {} at byte {} needs {} bytes, but only {} are left", source_, field, position_, count, remaining());
    const std::span<const std::byte> taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
}

Result<std::string_view> ByteReader::take_text(uint64_t count, std::string_view field) {
    CELLAR_TRY(const std::span<const std::byte> taken, take(count, field));
    return std::string_view(reinterpret_cast<const char*>(taken.data()), taken.size());
}

Result<std::span<const std::byte>> ByteReader::take_records(uint64_t count, uint64_t size, std::string_view field) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return fail("{}: {} at byte {} has {} records of {} bytes, which is more than any file holds", source_, field, position_, count, size);
    }
    return take(bytes, field);
}

Result<void> ByteReader::seek(uint64_t position, std::string_view field) {
    if (position > bytes_.size()) return fail("{}: {} begins at byte {}, but there are only {} bytes", source_, field, position, bytes_.size());
    position_ = position;
    return {};
}

}  // namespace cellar
