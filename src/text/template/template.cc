#include "text/template/template.h"

#include <algorithm>
#include <new>

#include "text/template/interpreter.h"
#include "text/template/json_input.h"
#include "text/template/parser.h"

namespace cellar::jinja {

namespace {

// Messages are one line, whatever a template puts into them.
std::string on_one_line(std::string_view text) {
    constexpr std::size_t longest = 2000;
    std::string out;
    for (const char c : text) {
        if (out.size() > longest && (static_cast<unsigned char>(c) & 0xc0) != 0x80) return out + "...";
        if (c == '\n') {
            out += "\\n";
        } else if (static_cast<unsigned char>(c) < 0x20) {
            out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
            out.push_back(c);
        }
    }
    return out;
}

std::tm local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm out{};
    localtime_r(&now, &out);
    return out;
}

}  // namespace

Result<std::tm> parse_time(std::string_view text) {
    std::tm out{};
    const std::string copy(text);
    for (const char* format : {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"}) {
        out = std::tm{};
        const char* end = strptime(copy.c_str(), format, &out);
        if (end == nullptr || end != copy.c_str() + copy.size()) continue;
        const int day = out.tm_mday;
        timegm(&out);  // fills in the weekday and the day of the year, and moves a 31st of February into March
        if (out.tm_mday == day) return out;
    }
    return fail("'{}' is no time: expected YYYY-MM-DD, optionally with HH:MM or HH:MM:SS", on_one_line(text));
}

Result<Template> Template::parse(std::string_view source, const ParseOptions& options) {
    try {
        auto program = std::make_shared<Program>();
        Parser::parse(source, options, *program);
        return Template(std::move(program));
    } catch (const Failure& failure) {
        return fail(failure.kind, "template {}", on_one_line(failure.message));
    } catch (const std::bad_alloc&) {
        return fail(ErrorKind::Full, "template: out of memory");
    }
}

namespace {

// find(heap, name): the value that the caller gave, or Missing.
template <class Find>
Result<std::string> render_with(const Program& program, const RenderOptions& options, Find find) {
    try {
        Runtime runtime(options.limits, options.now ? *options.now : local_time());
        std::vector<Value> variables;
        for (const std::string& name : program.names) variables.push_back(find(runtime.heap, name));
        Interpreter interpreter(runtime, program, std::move(variables));
        try {
            return interpreter.run();
        } catch (const Failure& failure) {
            return fail(failure.kind, "template line {}: {}", interpreter.line(), on_one_line(failure.message));
        }
    } catch (const Failure& failure) {
        return fail(failure.kind, "template variables: {}", on_one_line(failure.message));
    } catch (const std::bad_alloc&) {
        return fail(ErrorKind::Full, "template: out of memory");
    }
}

}  // namespace

Result<std::string> Template::render(const nlohmann::ordered_json& variables, const RenderOptions& options) const {
    return render_with(*program_, options, [&](Heap& heap, const std::string& name) { return variable_from_json(heap, variables, name); });
}

bool Template::mentions(std::string_view variable) const {
    return std::find(program_->names.begin(), program_->names.end(), variable) != program_->names.end();
}

}  // namespace cellar::jinja
