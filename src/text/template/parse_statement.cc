#include <algorithm>

#include "text/template/parser.h"
#include "text/template/print.h"
#include "text/template/scopes.h"

namespace cellar::jinja {

void Parser::parse(std::string_view source, const ParseOptions& options, Program& program) {
    program.source = normalized(source, options);
    Parser parser(tokenize(program.source, options), program);
    program.loop = parser.symbol("loop");
    program.caller = parser.symbol("caller");
    program.varargs = parser.symbol("varargs");
    program.kwargs = parser.symbol("kwargs");
    program.body = parser.body({}, "", 1);
    find_hidden(program);
}

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
    if (parser_.depth_ >= max_parse_depth)
        raise_at(parser_.now().line, "brackets and blocks are nested deeper than the limit of {}", max_parse_depth);
    ++parser_.depth_;
}

bool Parser::take_op(std::string_view text) {
    if (!is_op(text)) return false;
    next();
    return true;
}

bool Parser::take_name(std::string_view text) {
    if (!is_name(text)) return false;
    next();
    return true;
}

void Parser::expect_op(std::string_view text) {
    if (!take_op(text)) raise_at(now().line, "expected '{}', found {}", text, found());
}

void Parser::expect_name(std::string_view text) {
    if (!take_name(text)) raise_at(now().line, "expected '{}', found {}", text, found());
}

std::string Parser::expect_any_name(std::string_view what) {
    if (now().kind != TokenKind::Name) raise_at(now().line, "expected {}, found {}", what, found());
    return std::string(next().text);
}

void Parser::expect_block_end() {
    if (now().kind != TokenKind::BlockEnd) raise_at(now().line, "expected '%}}', found {}", found());
    next();
}

std::string Parser::found() const {
    if (now().kind == TokenKind::End) return "the end of the template";
    if (now().kind == TokenKind::Data) return "text";
    return fmt::format("'{}'", shortened(now().text));
}

Symbol Parser::symbol(std::string_view name) {
    const auto [at, added] = symbols_.try_emplace(std::string(name), static_cast<Symbol>(program_.names.size()));
    if (added) program_.names.emplace_back(name);
    return at->second;
}

Body Parser::body(std::initializer_list<std::string_view> ends, std::string_view opened, std::uint32_t line) {
    const Nested nested(*this);
    Body out;
    while (true) {
        const Token token = now();
        switch (token.kind) {
            case TokenKind::End:
                if (ends.size() == 0) return out;
                raise_at(line, "'{}' is not closed: expected '{}', found the end of the template", opened, *(ends.end() - 1));
            case TokenKind::Data:
                next();
                out.push_back(std::make_unique<Text>(token.line, token.text));
                break;
            case TokenKind::PrintBegin: {
                next();
                auto print = std::make_unique<Print>(token.line);
                print->value = tuple(true, false);
                if (now().kind != TokenKind::PrintEnd) raise_at(now().line, "expected '}}}}', found {}", found());
                next();
                out.push_back(std::move(print));
                break;
            }
            default:  // BlockBegin: tags are closed, so nothing else can stand here.
                if (ahead().kind == TokenKind::Name && std::find(ends.begin(), ends.end(), ahead().text) != ends.end()) {
                    next();
                    return out;
                }
                next();
                out.push_back(statement());
        }
    }
}

std::unique_ptr<Statement> Parser::statement() {
    const std::uint32_t line = now().line;
    const std::string name = expect_any_name("the name of a tag");
    if (name == "if") return parse_if(line);
    if (name == "for") return parse_for(line);
    if (name == "set") return parse_set(line);
    if (name == "macro") return parse_macro(line);
    if (name == "call") return parse_call_block(line);
    if (name == "filter") return parse_filter_block(line);
    if (name == "with") return parse_with(line);
    if (name == "generation") return parse_generation(line);
    if (name == "break") return parse_jump(line, StatementKind::Break, name);
    if (name == "continue") return parse_jump(line, StatementKind::Continue, name);
    for (const std::string_view refused : {"include", "import", "from", "extends", "block"})
        if (name == refused) raise_at(line, "'{}' is not supported: a chat template stands alone and reads no other template", name);
    if (name.starts_with("end") || name == "else" || name == "elif") raise_at(line, "'{}' closes nothing that is open", shortened(name));
    raise_at(line, "unknown tag '{}': expected if, for, set, macro, call, filter, with, generation, break, continue or raw", shortened(name));
}

std::unique_ptr<Statement> Parser::parse_if(std::uint32_t line) {
    auto out = std::make_unique<If>(line);
    do {
        ExprPtr condition = tuple(false, false);
        expect_block_end();
        out->branches.emplace_back(std::move(condition), body({"elif", "else", "endif"}, "if", line));
    } while (take_name("elif"));
    if (take_name("else")) {
        expect_block_end();
        out->otherwise = body({"endif"}, "if", line);
    }
    expect_name("endif");
    expect_block_end();
    return out;
}

std::unique_ptr<Statement> Parser::parse_for(std::uint32_t line) {
    auto out = std::make_unique<For>(line);
    if (is_name("loop")) raise_at(line, "can't assign to 'loop' as the variable of a loop");
    out->target = target(false);
    expect_name("in");
    out->source = tuple(false, false);
    if (take_name("if")) out->condition = expression();
    out->recursive = take_name("recursive");
    expect_block_end();
    ++loops_;
    out->body = body({"else", "endfor"}, "for", line);
    --loops_;
    if (take_name("else")) {
        expect_block_end();
        out->otherwise = body({"endfor"}, "for", line);
    }
    expect_name("endfor");
    expect_block_end();
    return out;
}

std::unique_ptr<Statement> Parser::parse_set(std::uint32_t line) {
    Target to = target(true);
    if (take_op("=")) {
        auto out = std::make_unique<Set>(line);
        out->target = std::move(to);
        out->value = tuple(true, false);
        expect_block_end();
        return out;
    }
    auto out = std::make_unique<SetBlock>(line);
    out->target = std::move(to);
    if (is_op("|")) out->filter = filters(std::make_unique<Captured>(line));
    if (now().kind != TokenKind::BlockEnd) raise_at(now().line, "expected '=' or '%}}', found {}", found());
    next();
    out->body = body({"endset"}, "set", line);
    expect_name("endset");
    expect_block_end();
    return out;
}

Target Parser::target(bool fields) {
    Target first = single_target(fields);
    if (!is_op(",")) return first;
    Target out;
    out.kind = Target::Kind::Tuple;
    out.parts.push_back(std::move(first));
    while (take_op(",")) {
        if (now().kind != TokenKind::Name && !is_op("(")) break;
        if (is_name("in")) break;
        out.parts.push_back(single_target(fields));
    }
    return out;
}

Target Parser::single_target(bool fields) {
    const Nested nested(*this);
    const std::uint32_t line = now().line;
    if (take_op("(")) {
        Target out = target(fields);
        expect_op(")");
        return out;
    }
    const std::string name = expect_any_name("the name of a variable");
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
        if (name == constant) raise_at(line, "can't assign to '{}'", name);
    Target out;
    out.symbol = symbol(name);
    if (fields && take_op(".")) {
        out.kind = Target::Kind::Field;
        out.field = expect_any_name("the name of a field behind '.'");
    }
    return out;
}

std::unique_ptr<Statement> Parser::parse_macro(std::uint32_t line) {
    auto out = std::make_unique<Macro>(line);
    out->name = expect_any_name("the name of the macro");
    out->symbol = symbol(out->name);
    parameters(*out);
    expect_block_end();
    macro_body(*out, "endmacro", "macro");
    return out;
}

void Parser::parameters(Macro& macro) {
    expect_op("(");
    while (!is_op(")")) {
        const std::uint32_t line = now().line;
        const Symbol name = symbol(expect_any_name("the name of a parameter"));
        for (const auto& [other, unused] : macro.parameters)
            if (other == name) raise_at(line, "the parameter '{}' comes twice", shortened(program_.names[name]));
        if (macro.parameters.size() == max_parameters) raise_at(line, "a macro has more than {} parameters", max_parameters);
        ExprPtr otherwise;
        if (take_op("=")) {
            macros_.push_back(&macro);
            otherwise = expression();
            macros_.pop_back();
        } else if (!macro.parameters.empty() && macro.parameters.back().second) {
            raise_at(line, "a parameter without a default follows one with a default");
        }
        macro.parameters.emplace_back(name, std::move(otherwise));
        if (!take_op(",")) break;
    }
    expect_op(")");
}

void Parser::macro_body(Macro& macro, std::string_view end, std::string_view opened) {
    // A loop around a macro is not around its body, which runs when the macro is called.
    const std::uint32_t loops = std::exchange(loops_, 0);
    macros_.push_back(&macro);
    macro.body = body({end}, opened, macro.line);
    macros_.pop_back();
    loops_ = loops;
    expect_name(end);
    expect_block_end();
}

std::unique_ptr<Statement> Parser::parse_call_block(std::uint32_t line) {
    auto out = std::make_unique<CallBlock>(line);
    out->caller = std::make_unique<Macro>(line);
    out->caller->name = "caller";
    if (is_op("(")) parameters(*out->caller);
    out->call = unary(false);
    if (out->call->kind != ExprKind::Call) raise_at(line, "expected a call behind 'call'");
    expect_block_end();
    macro_body(*out->caller, "endcall", "call");
    return out;
}

std::unique_ptr<Statement> Parser::parse_filter_block(std::uint32_t line) {
    auto out = std::make_unique<FilterBlock>(line);
    out->filter = filters(filter(std::make_unique<Captured>(line)));
    expect_block_end();
    out->body = body({"endfilter"}, "filter", line);
    expect_name("endfilter");
    expect_block_end();
    return out;
}

std::unique_ptr<Statement> Parser::parse_with(std::uint32_t line) {
    auto out = std::make_unique<With>(line);
    while (now().kind != TokenKind::BlockEnd) {
        if (!out->variables.empty()) expect_op(",");
        Target to = single_target(false);
        expect_op("=");
        out->variables.emplace_back(std::move(to), expression());
    }
    expect_block_end();
    out->body = body({"endwith"}, "with", line);
    expect_name("endwith");
    expect_block_end();
    return out;
}

std::unique_ptr<Statement> Parser::parse_generation(std::uint32_t line) {
    auto out = std::make_unique<With>(line);
    expect_block_end();
    out->body = body({"endgeneration"}, "generation", line);
    expect_name("endgeneration");
    expect_block_end();
    return out;
}

std::unique_ptr<Statement> Parser::parse_jump(std::uint32_t line, StatementKind kind, std::string_view word) {
    if (loops_ == 0) raise_at(line, "'{}' stands outside of a loop", word);
    expect_block_end();
    return std::make_unique<Statement>(kind, line);
}

}  // namespace cellar::jinja
