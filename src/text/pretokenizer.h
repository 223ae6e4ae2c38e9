#pragma once
// Cuts text into words, inside which byte-level vocabularies merge: one or more regular expressions for each name that model
// files use. The expressions are those the models were trained with.
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cellar::text {

// What goes with a name besides the expressions.
struct PretokenizerTraits {
    bool ignore_merges = false;  // a word that is a token is taken as it is
    bool add_bos = false;        // unless the file says otherwise
    bool default_bos = true;     // false: a file that names no BOS has none
};

// The traits of a name; an empty one is "default". Errors: an unknown name, with the known ones.
[[nodiscard]] Result<PretokenizerTraits> pretokenizer_traits(std::string_view name);

// Thread rule: does not change after make(); any number of threads may use it at once.
class Pretokenizer {
  public:
    // Errors: as pretokenizer_traits().
    [[nodiscard]] static Result<Pretokenizer> make(std::string_view name);
    Pretokenizer(Pretokenizer&&) noexcept;
    Pretokenizer& operator=(Pretokenizer&&) noexcept;
    ~Pretokenizer();

    [[nodiscard]] const PretokenizerTraits& traits() const { return traits_; }

    // Where each word ends; the words are not empty, lie side by side and cover the text. The text may be any bytes: one that is
    // not UTF-8 counts as U+FFFD. Every expression splits what the one before it left: its matches, and what lies between them.
    void split(std::string_view text, std::vector<size_t>& ends) const;

  private:
    struct Step;
    Pretokenizer();
    void split_utf8(std::string_view text, std::vector<size_t>& ends) const;

    std::vector<Step> steps_;
    PretokenizerTraits traits_;
};

// The names that make() knows, sorted.
[[nodiscard]] std::vector<std::string_view> known_pretokenizers();

}  // namespace cellar::text
