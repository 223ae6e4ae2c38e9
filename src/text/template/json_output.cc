#include <algorithm>
#include <cmath>

#include "text/template/ops.h"
#include "text/template/print.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

class JsonWriter {
  public:
    JsonWriter(Builder& out, const JsonStyle& style) : out_(out), style_(style), budget_(out.heap().budget()) {}

    void write(const Value& value, std::uint32_t nesting) {
        budget_.step();
        if (nesting > budget_.limits().nesting)
            throw Failure{fmt::format("a value is nested deeper than the limit of {}", budget_.limits().nesting), ErrorKind::Full};
        switch (value.kind()) {
            case Kind::None:
                return out_.append("null");
            case Kind::Bool:
                return out_.append(value.as_bool() ? "true" : "false");
            case Kind::Int:
            case Kind::Huge:
                return append_repr(out_, value);
            case Kind::Float:
                return out_.append(number(value.as_real()));
            case Kind::String:
                return text(value.text());
            case Kind::List:
            case Kind::Tuple:
                return array(value.items(), nesting);
            case Kind::Dict:
                return object(value.as<Dict>(), nesting);
            default:
                raise("Object of type {} is not JSON serializable", type_name(value));
        }
    }

  private:
    static std::string number(double d) { return std::isnan(d) ? "NaN" : std::isinf(d) ? (d < 0 ? "-Infinity" : "Infinity") : float_text(d); }

    void line(std::uint32_t nesting) {
        if (!style_.indent) return;
        out_.append("\n");
        for (std::uint32_t i = 0; i < nesting; ++i) out_.append(*style_.indent);
    }

    void array(const std::vector<Value>& items, std::uint32_t nesting) {
        if (items.empty()) return out_.append("[]");
        out_.append("[");
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i > 0) out_.append(style_.item_separator);
            line(nesting + 1);
            write(items[i], nesting + 1);
        }
        line(nesting);
        out_.append("]");
    }

    void object(const Dict& dict, std::uint32_t nesting) {
        if (dict.entries.empty()) return out_.append("{}");
        std::vector<const Dict::Entry*> entries;
        entries.reserve(dict.entries.size());
        for (const auto& entry : dict.entries) entries.push_back(&entry);
        if (style_.sort_keys)
            std::stable_sort(entries.begin(), entries.end(), [&](auto* a, auto* b) { return compare(budget_, a->key, b->key) == -1; });
        out_.append("{");
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (i > 0) out_.append(style_.item_separator);
            line(nesting + 1);
            key(entries[i]->key);
            out_.append(style_.key_separator);
            write(entries[i]->value, nesting + 1);
        }
        line(nesting);
        out_.append("}");
    }

    void key(const Value& key) {
        if (key.is(Kind::String)) return text(key.text());
        if (!key.is_number() && !key.is(Kind::None)) raise("keys must be str, int, float, bool or None, not {}", type_name(key));
        out_.append("\"");
        write(key, 0);
        out_.append("\"");
    }

    void text(std::string_view text) {
        out_.append("\"");
        std::size_t plain = 0;
        for (std::size_t at = 0; at < text.size();) {
            const auto byte = static_cast<unsigned char>(text[at]);
            if (byte >= 0x20 && byte != '"' && byte != '\\' && (!style_.ascii || byte < 0x7f)) {
                ++at;
                continue;
            }
            out_.append(text.substr(plain, at - plain));
            const Point p = decode(text, at);
            escaped(p.code);
            at += p.size;
            plain = at;
        }
        out_.append(text.substr(plain));
        out_.append("\"");
    }

    void escaped(char32_t code) {
        static constexpr std::string_view from = "\"\\\n\r\t\b\f", to = "\"\\nrtbf";
        const std::size_t i = code < 0x80 ? from.find(static_cast<char>(code)) : std::string_view::npos;
        if (i != std::string_view::npos) {
            out_.append("\\");
            return out_.append(to.substr(i, 1));
        }
        auto unit = [&](char32_t u) { out_.append(fmt::format("\\u{:04x}", static_cast<unsigned>(u))); };
        if (code < 0x10000) return unit(code);
        unit(0xd800 + ((code - 0x10000) >> 10));
        unit(0xdc00 + ((code - 0x10000) & 0x3ff));
    }

    Builder& out_;
    const JsonStyle& style_;
    Budget& budget_;
};

}  // namespace

void append_json(Builder& out, const Value& value, const JsonStyle& style) {
    JsonWriter(out, style).write(value, 0);
}

}  // namespace cellar::jinja
