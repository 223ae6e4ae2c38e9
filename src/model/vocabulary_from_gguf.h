#pragma once
// The vocabulary that a GGUF file carries, as plain data.
#include "base/result.h"
#include "model/gguf.h"
#include "text/vocabulary.h"

namespace cellar::model {

// False for files that say they have none ("no_vocab", "none"), or say nothing about it.
[[nodiscard]] bool has_vocabulary(const gguf::File& file);

// What the keys tokenizer.ggml.* say; whether it makes sense is for text::Tokenizer::make to find out. The strings are copied.
// Errors: no vocabulary, no list of tokens, a key of another type, a token type that is no number from 0 to 6.
[[nodiscard]] Result<text::VocabularyData> read_vocabulary(const gguf::File& file);

}  // namespace cellar::model
