#include "kv/step.h"

#include "base/check.h"
#include "kv/cache.h"

namespace cellar::kv {

Step::~Step() {
    if (cache_ != nullptr) cache_->abandon(*this);
}

const View& Step::view() const {
    CHECK(is_open());
    return view_;
}

}  // namespace cellar::kv
