#include "text/template/json_input.h"

#include <nlohmann/json.hpp>

#include "text/template/heap.h"
#include "text/template/print.h"
#include "text/template/template.h"
#include "text/template/unicode.h"

namespace cellar::jinja {

namespace {

using Json = nlohmann::ordered_json;

struct TooDeep {};

// The text of a parse error without the library's own name and number in front.
std::string reason(const Json::exception& error) {
    const std::string_view text = error.what();
    const std::size_t end = text.find("] ");
    return std::string(end == std::string_view::npos ? text : text.substr(end + 2));
}

Value from_json(Heap& heap, const Json& json, std::uint32_t depth) {
    heap.budget().step();
    if (depth > max_input_depth) raise("the input is nested deeper than the limit of {}", max_input_depth);
    switch (json.type()) {
        case Json::value_t::boolean:
            return Value::boolean(json.get<bool>());
        case Json::value_t::number_integer:
            return Value::integer(json.get<std::int64_t>());
        case Json::value_t::number_unsigned: {
            const auto number = json.get<std::uint64_t>();
            return number > INT64_MAX ? Value::huge(number) : Value::integer(static_cast<std::int64_t>(number));
        }
        case Json::value_t::number_float:
            return Value::real(json.get<double>());
        case Json::value_t::string: {
            const auto& text = json.get_ref<const std::string&>();
            if (const auto bad = invalid_utf8_at(text)) raise("a string of the input is not UTF-8 at byte {}", *bad);
            return heap.string(text);
        }
        case Json::value_t::array: {
            Ref<List> list(heap.make<List>(Kind::List));
            for (const Json& item : json) list->push(from_json(heap, item, depth + 1));
            return list.value();
        }
        case Json::value_t::object: {
            Ref<Dict> dict(heap.make<Dict>());
            for (const auto& [key, value] : json.items()) {
                if (invalid_utf8_at(key)) raise("a key of the input is not UTF-8");
                dict->set(heap.string(key), from_json(heap, value, depth + 1));
            }
            return dict.value();
        }
        default:
            return Value();
    }
}

}  // namespace

Result<Json> parse_json_bounded(std::string_view text, std::uint32_t max_depth) {
    const auto watch = [&](int depth, Json::parse_event_t event, Json&) {
        const bool opens = event == Json::parse_event_t::array_start || event == Json::parse_event_t::object_start;
        if (opens && depth >= static_cast<int>(max_depth)) throw TooDeep{};
        return true;
    };
    try {
        return Json::parse(text.begin(), text.end(), watch);
    } catch (const TooDeep&) {
        return fail("JSON is nested deeper than the limit of {}", max_depth);
    } catch (const Json::exception& error) {
        return fail("JSON: {}", reason(error));
    }
}

Value value_from_json(Heap& heap, const Json& json) {
    return from_json(heap, json, 0);
}

Value value_from_json_text(Heap& heap, std::string_view text) {
    heap.budget().work(16 * text.size());
    const auto json = parse_json_bounded(text);
    if (!json) throw Failure{json.error().message};
    return value_from_json(heap, *json);
}

Value variable_from_json(Heap& heap, const Json& variables, const std::string& name) {
    if (!variables.is_object()) raise("expected an object, found {}", variables.type_name());
    const auto at = variables.find(name);
    return at == variables.end() ? Value::missing() : value_from_json(heap, *at);
}

// Here and not beside render(), because only this file needs the JSON library, which is slow to compile.
Result<std::string> Template::render_text(std::string_view variables, RenderOptions options) const {
    CELLAR_TRY(const Json json, parse_json_bounded(variables));
    if (json.is_object() && json.contains("now") && json["now"].is_string()) {
        CELLAR_TRY(options.now, parse_time(json["now"].get<std::string>()));
    }
    return render(json, options);
}

}  // namespace cellar::jinja
