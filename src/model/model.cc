#include "model/model.h"

#include <algorithm>
#include <future>
#include <system_error>

#include "base/signals.h"
#include "model/packer.h"
#include "model/vocabulary_from_gguf.h"

namespace cellar::model {

namespace {

using TokenizerResult = Result<std::unique_ptr<text::Tokenizer>>;

// Null where the file has no vocabulary.
TokenizerResult read_tokenizer(const gguf::File& file) {
    if (!has_vocabulary(file)) return std::unique_ptr<text::Tokenizer>();
    CELLAR_TRY(text::VocabularyData data, read_vocabulary(file));
    return text::Tokenizer::make(std::move(data));
}

// A vocabulary takes about as long as the weights of a small model; with several threads both are read at once.
std::future<TokenizerResult> start_tokenizer(const gguf::File& file, int threads) {
    const auto read = [&file] { return read_tokenizer(file); };
    if (threads > 1) {
        const SignalsBlocked blocked;
        try {
            return std::async(std::launch::async, read);
        } catch (const std::system_error&) {
            // No thread to be had: it is read when it is asked for.
        }
    }
    return std::async(std::launch::deferred, read);
}

}  // namespace

Model::Model(gguf::File file) : file_(std::move(file)) {}

Model::~Model() = default;

Result<std::shared_ptr<const Model>> Model::open(const std::string& path, const LoadOptions& options) {
    CELLAR_TRY(gguf::File file, gguf::File::open(path));
    std::shared_ptr<Model> out(new Model(std::move(file)));
    std::future<TokenizerResult> tokenizer = start_tokenizer(out->file_, options.threads);
    if (options.pack) {
        CELLAR_TRY(out->packer_, Packer::make(ops::cpu(), out->file_, options.threads));
    }
    CELLAR_TRY(out->network_, load_network(out->file_, out->packer_.get(), options.exact_activations));
    out->exact_activations_ = options.exact_activations;
    CELLAR_TRY(out->tokenizer_, tokenizer.get());
    if (out->tokenizer_ != nullptr && out->tokenizer_->size() > out->config().vocabulary)
        return fail("{}: the vocabulary has {} tokens, but 'token_embd.weight' has rows for {} only", path, out->tokenizer_->size(),
                    out->config().vocabulary);
    if (out->tokenizer_ == nullptr) {
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
