#include "model/model.h"

#include <algorithm>

#include "model/packer.h"
#include "model/vocabulary_from_gguf.h"

namespace cellar::model {

Model::Model(gguf::File file) : file_(std::move(file)) {}

Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::open(const std::string& path, const LoadOptions& options) {
    CELLAR_TRY(gguf::File file, gguf::File::open(path));
    std::shared_ptr<Model> out(new Model(std::move(file)));
    if (options.pack) {
        CELLAR_TRY(out->packer_, Packer::make(ops::cpu(), out->file_, options.threads));
    }
    CELLAR_TRY(out->network_, load_network(out->file_, out->packer_.get(), options.exact_activations));
    out->exact_activations_ = options.exact_activations;
    if (has_vocabulary(out->file_)) {
        CELLAR_TRY(text::VocabularyData data, read_vocabulary(out->file_));
        CELLAR_TRY(out->tokenizer_, text::Tokenizer::make(std::move(data)));
        if (out->tokenizer_->size() > out->config().vocabulary)
            return fail("{}: the vocabulary has {} tokens, but 'token_embd.weight' has rows for {} only", path, out->tokenizer_->size(),
                        out->config().vocabulary);
    } else {
        out->why_no_tokenizer_ = fmt::format("{} has no vocabulary; it can be run on token ids only", path);
    }
    if (out->file_.has("tokenizer.chat_template")) {
        CELLAR_TRY(const std::string_view text, out->file_.string("tokenizer.chat_template"));
        out->chat_template_ = std::string(text);
    }
    return out;
}

std::string Model::display_name() const {
    if (const auto named = file_.string_or("general.name", ""); named && !named->empty()) return std::string(*named);
    const std::string& path = file_.path();
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
}

uint64_t Model::weight_bytes() const {
    uint64_t sum = 0;
    for (const gguf::TensorInfo& tensor : file_.tensors()) sum += tensor.bytes;
    return sum;
}

uint64_t Model::unread_bytes() const {
    const uint64_t packed = packer_ == nullptr ? 0 : packer_->bytes();
    const uint64_t all = weight_bytes();
    return all - std::min(all, packed);
}

std::string Model::numeric_path() const {
    std::string out(ops::cpu_target());
    if (!ops::cpu_variant().empty()) out += fmt::format(", {}", ops::cpu_variant());
    return exact_activations_ ? out + ", exact activations" : out;
}

}  // namespace cellar::model
