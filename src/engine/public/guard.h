#pragma once
// Where the library ends: errors of its parts become a Status, and nothing that is thrown goes further.
#include <exception>
#include <new>
#include <utility>

#include <cellar/status.h>

#include "base/result.h"

namespace cellar::v1 {

Status to_status(const Error& error);

// body() -> cellar::Result<T>.
template <class T, class Body>
Result<T> guarded(Body&& body) noexcept {
    try {
        auto result = std::forward<Body>(body)();
        if (!result) return to_status(result.error());
        return *std::move(result);
    } catch (const std::bad_alloc&) {
        // Short enough to need no memory itself.
        return Status{StatusKind::System, "out of memory"};
    } catch (const std::exception& thrown) {
        return Status{StatusKind::Internal, thrown.what()};
    } catch (...) {
        return Status{StatusKind::Internal, "unknown exception"};
    }
}

}  // namespace cellar::v1
