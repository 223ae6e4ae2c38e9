#pragma once
// The expressions of a parsed template.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template/builtin.h"
#include "text/template/ops.h"

namespace cellar::jinja {

using Symbol = std::uint32_t;  // index of a variable's name in Program::names

enum class ExprKind : std::uint8_t {
    Literal,
    Variable,
    Captured,
    Sequence,
    Mapping,
    Not,
    Negate,
    Positive,
    Chain,
    Concat,
    Logic,
    Compare,
    Choice,
    Attribute,
    Item,
    Slice,
    Call,
    Filter,
    Test,
};

struct Expr {
    Expr(ExprKind k, std::uint32_t l) : kind(k), line(l) {}
    virtual ~Expr() = default;
    ExprKind kind;
    std::uint32_t line;
    std::uint32_t height = 1;  // of the tree below; bounded by max_parse_depth, so that walking and freeing it needs little stack
};
using ExprPtr = std::unique_ptr<Expr>;

struct Arguments {
    std::vector<ExprPtr> given;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr rest;        // *rest
    ExprPtr rest_named;  // **rest_named
};

struct Literal : Expr {
    explicit Literal(std::uint32_t l) : Expr(ExprKind::Literal, l) {}
    Kind value = Kind::None;  // None, Bool, Int, Float or String
    std::int64_t integer = 0;
    double real = 0;
    std::string text;
};

struct Variable : Expr {
    Variable(std::uint32_t l, Symbol s) : Expr(ExprKind::Variable, l), symbol(s) {}
    Symbol symbol;
};

struct Captured : Expr {  // the text of a filter block or of a block set
    explicit Captured(std::uint32_t l) : Expr(ExprKind::Captured, l) {}
};

struct Sequence : Expr {  // [a, b] and (a, b)
    Sequence(std::uint32_t l, bool t) : Expr(ExprKind::Sequence, l), tuple(t) {}
    bool tuple;
    std::vector<ExprPtr> items;
};

struct Mapping : Expr {
    explicit Mapping(std::uint32_t l) : Expr(ExprKind::Mapping, l) {}
    std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};

struct Unary : Expr {
    using Expr::Expr;
    ExprPtr operand;
};

struct Chain : Expr {  // a + b - c: operators of one rank, from the left
    explicit Chain(std::uint32_t l) : Expr(ExprKind::Chain, l) {}
    ExprPtr first;
    std::vector<std::pair<Sign, ExprPtr>> rest;
};

struct Concat : Expr {  // a ~ b ~ c
    explicit Concat(std::uint32_t l) : Expr(ExprKind::Concat, l) {}
    std::vector<ExprPtr> parts;
};

struct Logic : Expr {  // a and b and c; or with `or`
    Logic(std::uint32_t l, bool o) : Expr(ExprKind::Logic, l), any(o) {}
    bool any;
    std::vector<ExprPtr> parts;
};

enum class Relation : std::uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, NotIn };

struct Compare : Expr {  // a < b <= c
    explicit Compare(std::uint32_t l) : Expr(ExprKind::Compare, l) {}
    ExprPtr first;
    std::vector<std::pair<Relation, ExprPtr>> rest;
};

struct Choice : Expr {  // a if condition else b
    explicit Choice(std::uint32_t l) : Expr(ExprKind::Choice, l) {}
    ExprPtr condition, then, otherwise;  // otherwise: null when not written
};

struct Attribute : Expr {
    explicit Attribute(std::uint32_t l) : Expr(ExprKind::Attribute, l) {}
    ExprPtr object;
    std::string name;
};

struct Item : Expr {
    explicit Item(std::uint32_t l) : Expr(ExprKind::Item, l) {}
    ExprPtr object, key;
};

struct Slice : Expr {
    explicit Slice(std::uint32_t l) : Expr(ExprKind::Slice, l) {}
    ExprPtr object, begin, end, step;  // null when not written
};

struct Call : Expr {
    explicit Call(std::uint32_t l) : Expr(ExprKind::Call, l) {}
    ExprPtr callee;
    Arguments arguments;
};

struct Applied : Expr {  // Filter and Test
    using Expr::Expr;
    ExprPtr input;
    std::string name;
    const Builtin* builtin = nullptr;  // null: there is none of this name, which is an error once it is reached
    Arguments arguments;
};

}  // namespace cellar::jinja
