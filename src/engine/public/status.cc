#include <cellar/status.h>

#include <cstdio>
#include <cstdlib>

#include "engine/public/guard.h"

namespace cellar::v1 {

std::string_view name(StatusKind kind) {
    switch (kind) {
        case StatusKind::Ok:
            return "ok";
        case StatusKind::Input:
            return "input";
        case StatusKind::Unsupported:
            return "unsupported";
        case StatusKind::Full:
            return "full";
        case StatusKind::System:
            return "system";
        case StatusKind::Cancelled:
            return "cancelled";
        case StatusKind::Internal:
            return "internal";
    }
    return "?";
}

void value_of_failure(const Status& status) {
    std::fprintf(stderr, "cellar: the value of a call that failed was read: %s\n", status.message.c_str());
    std::abort();
}

Status to_status(const Error& error) {
    switch (error.kind) {
        case ErrorKind::Input:
            return {StatusKind::Input, error.message};
        case ErrorKind::Unsupported:
            return {StatusKind::Unsupported, error.message};
        case ErrorKind::Full:
            return {StatusKind::Full, error.message};
        case ErrorKind::System:
            return {StatusKind::System, error.message};
        case ErrorKind::Cancelled:
            return {StatusKind::Cancelled, error.message};
    }
    return {StatusKind::Internal, error.message};
}

}  // namespace cellar::v1
