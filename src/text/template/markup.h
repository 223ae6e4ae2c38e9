#pragma once
// Text that is marked as safe HTML, which `safe` and `escape` give: what is added to it or filled into it is escaped first. Chat templates meet
// this by accident, when they write `x | safe + y`, and models were trained on what came out.
#include <string_view>

#include "text/template/builder.h"

namespace cellar::jinja {

void append_escaped(Builder& out, std::string_view text);  // & < > " '
Value escape(Heap& heap, const Value& value);              // text of any value as markup; markup stays as it is
bool is_markup(const Value& value);
Value add_texts(Heap& heap, const Value& a, const Value& b);  // a + b. Requires: String both

}  // namespace cellar::jinja
