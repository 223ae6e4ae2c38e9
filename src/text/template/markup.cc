#include "text/template/markup.h"

#include "text/template/print.h"

namespace cellar::jinja {

bool is_markup(const Value& value) {
    return value.is(Kind::String) && value.as<String>().markup;
}

void append_escaped(Builder& out, std::string_view text) {
    while (!text.empty()) {
        const std::size_t plain = std::min(text.find_first_of("&<>\"'"), text.size());
        out.append(text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty()) break;
        switch (text.front()) {
            case '&':
                out.append("&amp;");
                break;
            case '<':
                out.append("&lt;");
                break;
            case '>':
                out.append("&gt;");
                break;
            case '"':
                out.append("&#34;");
                break;
            default:
                out.append("&#39;");
        }
        text.remove_prefix(1);
    }
}

Value escape(Heap& heap, const Value& value) {
    if (is_markup(value)) return value;
    const Value text = to_text(heap, value);
    Builder out(heap);
    append_escaped(out, text.text());
    return out.finish(true);
}

Value add_texts(Heap& heap, const Value& a, const Value& b) {
    const bool markup = is_markup(a) || is_markup(b);
    Builder out(heap);
    for (const Value& part : {a, b}) out.append(markup ? escape(heap, part).text() : part.text());
    return out.finish(markup);
}

}  // namespace cellar::jinja
