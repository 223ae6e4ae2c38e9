#pragma once
// A parsed template: its statements, and the whole. Immutable after parsing, so that any number of threads may render it at once.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/expression.h"

namespace cellar::jinja {

enum class StatementKind : std::uint8_t { Text, Print, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Break, Continue };

using Hidden = std::vector<Symbol>;  // what a block finds undefined when it begins (scopes.h)

struct Statement {
    Statement(StatementKind k, std::uint32_t l) : kind(k), line(l) {}
    virtual ~Statement() = default;
    StatementKind kind;
    std::uint32_t line;
};
using Body = std::vector<std::unique_ptr<Statement>>;

struct Target {  // what is assigned to
    enum class Kind : std::uint8_t { Name, Field, Tuple };
    Kind kind = Kind::Name;
    Symbol symbol = 0;
    std::string field;  // Field: of the namespace in `symbol`
    std::vector<Target> parts;
};

struct Text : Statement {
    Text(std::uint32_t l, std::string_view t) : Statement(StatementKind::Text, l), text(t) {}
    std::string_view text;  // in Program::source
};

struct Print : Statement {
    explicit Print(std::uint32_t l) : Statement(StatementKind::Print, l) {}
    ExprPtr value;
};

struct If : Statement {
    explicit If(std::uint32_t l) : Statement(StatementKind::If, l) {}
    std::vector<std::pair<ExprPtr, Body>> branches;
    Body otherwise;
};

struct For : Statement {
    explicit For(std::uint32_t l) : Statement(StatementKind::For, l) {}
    Target target;
    ExprPtr source;
    ExprPtr condition;  // null when not written
    bool recursive = false;
    Body body, otherwise;
    Hidden hidden, hidden_otherwise;
};

struct Set : Statement {
    explicit Set(std::uint32_t l) : Statement(StatementKind::Set, l) {}
    Target target;
    ExprPtr value;
};

struct SetBlock : Statement {
    explicit SetBlock(std::uint32_t l) : Statement(StatementKind::SetBlock, l) {}
    Target target;
    ExprPtr filter;  // null when not written
    Body body;
    Hidden hidden;
};

struct Macro : Statement {
    explicit Macro(std::uint32_t l) : Statement(StatementKind::Macro, l) {}
    Symbol symbol = 0;
    std::string name;
    std::vector<std::pair<Symbol, ExprPtr>> parameters;  // with their defaults, or null
    // Whether the body speaks of them; a macro that does not takes no surplus arguments.
    bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
    Body body;
    Hidden hidden;
};

struct CallBlock : Statement {
    explicit CallBlock(std::uint32_t l) : Statement(StatementKind::CallBlock, l) {}
    ExprPtr call;  // a Call
    std::unique_ptr<Macro> caller;
};

struct FilterBlock : Statement {
    explicit FilterBlock(std::uint32_t l) : Statement(StatementKind::FilterBlock, l) {}
    ExprPtr filter;
    Body body;
    Hidden hidden;
};

struct With : Statement {  // also {% generation %}, which has no variables
    explicit With(std::uint32_t l) : Statement(StatementKind::With, l) {}
    std::vector<std::pair<Target, ExprPtr>> variables;
    Body body;
    Hidden hidden;
};

struct Program {
    std::string source;  // normalized; the texts point into it
    std::vector<std::string> names;
    Symbol loop = 0, caller = 0, varargs = 0, kwargs = 0;  // names that the language itself gives
    Body body;
    Hidden hidden;
};

}  // namespace cellar::jinja
