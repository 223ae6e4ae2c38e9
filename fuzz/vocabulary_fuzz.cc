// Any vocabulary: it is refused with a reason, or it encodes and decodes without harm.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "text/detokenizer.h"
#include "text/small_vocabularies.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace cellar::text;

void require(bool condition) {
    if (!condition) std::abort();
}

VocabularyData make_data(FuzzedDataProvider& input) {
    static const VocabularyData bases[] = {small_byte_vocabulary(), small_score_vocabulary(), small_unigram_vocabulary(), {}};
    VocabularyData data = bases[input.ConsumeIntegralInRange<size_t>(0, 3)];
    if (input.ConsumeBool()) data.model = input.PickValueInArray({"gpt2", "llama", "t5", "bert", ""});
    if (input.ConsumeBool()) data.pre = input.PickValueInArray({"", "default", "falcon", "phi-2", "x"});
    while (input.ConsumeBool()) {
        const std::string piece = input.ConsumeRandomLengthString(12);
        add_piece(data, piece, input.ConsumeFloatingPoint<float>(), static_cast<TokenType>(input.ConsumeIntegralInRange<int>(0, 6)));
    }
    while (input.ConsumeBool()) data.merges.add(input.ConsumeRandomLengthString(12));
    if (input.ConsumeBool()) data.precompiled_charsmap = input.ConsumeRandomLengthString(200);
    if (input.ConsumeBool()) data.scores.clear();
    if (input.ConsumeBool()) data.types.clear();
    for (auto* const id : {&data.bos, &data.eos, &data.unk, &data.eot, &data.fim_pad}) {
        if (input.ConsumeBool()) *id = input.ConsumeIntegralInRange<int64_t>(-2, 400);
    }
    for (auto* const flag : {&data.add_bos, &data.add_eos, &data.add_space_prefix, &data.remove_extra_whitespaces}) {
        if (input.ConsumeBool()) *flag = input.ConsumeBool();
    }
    if (input.ConsumeBool()) data.name = "phi3";
    return data;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
    FuzzedDataProvider input(bytes, size);
    auto made = Tokenizer::make(make_data(input));
    if (!made) {
        require(!made.error().message.empty() && made.error().message.find('\n') == std::string::npos);
        return 0;
    }
    const Tokenizer& tokenizer = **made;
    const std::string text = input.ConsumeRemainingBytesAsString();
    for (const bool parse_special : {false, true}) {
        const std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = true, .parse_special = parse_special});
        for (const int32_t id : ids) require(id >= 0 && id < tokenizer.size());
        require(is_utf8(tokenizer.decode(ids, true)));
    }
    for (int32_t id = 0; id < tokenizer.size(); ++id) (void)tokenizer.decode(id);
    return 0;
}
