#pragma once
// Tokens to a tree: recursive descent over the grammar of the template language. Errors say the line, what was found and what was expected.
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/ast.h"
#include "text/template/lexer.h"

namespace cellar::jinja {

class Parser {
  public:
    // Fills program.source, .names and .body.
    static void parse(std::string_view source, const ParseOptions& options, Program& program);

  private:
    Parser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}

    // One level of brackets or blocks, for as long as it lives.
    class Nested {
      public:
        explicit Nested(Parser& parser);
        ~Nested() { --parser_.depth_; }
        Nested(const Nested&) = delete;
        Nested& operator=(const Nested&) = delete;

      private:
        Parser& parser_;
    };

    // Statements (parse_statement.cc). A body ends before a tag with one of the given names.
    Body body(std::initializer_list<std::string_view> ends, std::string_view opened, std::uint32_t line);
    std::unique_ptr<Statement> statement();
    std::unique_ptr<Statement> parse_if(std::uint32_t line);
    std::unique_ptr<Statement> parse_for(std::uint32_t line);
    std::unique_ptr<Statement> parse_set(std::uint32_t line);
    std::unique_ptr<Statement> parse_macro(std::uint32_t line);
    std::unique_ptr<Statement> parse_call_block(std::uint32_t line);
    std::unique_ptr<Statement> parse_filter_block(std::uint32_t line);
    std::unique_ptr<Statement> parse_with(std::uint32_t line);
    std::unique_ptr<Statement> parse_generation(std::uint32_t line);
    std::unique_ptr<Statement> parse_jump(std::uint32_t line, StatementKind kind, std::string_view word);
    void parameters(Macro& macro);
    void macro_body(Macro& macro, std::string_view end, std::string_view opened);
    Target target(bool fields);
    Target single_target(bool fields);

    // Expressions (parse_expression.cc), from the loosest binding to the tightest.
    ExprPtr tuple(bool with_choice, bool parenthesized);  // a, or a, b
    ExprPtr expression() { return choice(); }
    ExprPtr choice();
    ExprPtr logic(bool any);
    ExprPtr negation();
    ExprPtr comparison();
    ExprPtr sum();
    ExprPtr concat();
    ExprPtr product();
    ExprPtr power();
    ExprPtr unary(bool with_filter);
    ExprPtr primary();
    ExprPtr string_literal();
    ExprPtr number_literal();
    ExprPtr list_literal();
    ExprPtr dict_literal();
    ExprPtr postfix(ExprPtr object);
    ExprPtr subscript(ExprPtr object, std::uint32_t line);
    ExprPtr attribute(ExprPtr object, std::uint32_t line);
    ExprPtr filters(ExprPtr input);
    ExprPtr filter(ExprPtr input);
    ExprPtr test(ExprPtr input);
    ExprPtr call(ExprPtr callee);
    void arguments(Expr& owner, Arguments& out);

    // Tokens.
    const Token& now() const { return tokens_[at_]; }
    const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
    bool is_op(std::string_view text) const { return now().kind == TokenKind::Operator && now().text == text; }
    bool is_name(std::string_view text) const { return now().kind == TokenKind::Name && now().text == text; }
    bool take_op(std::string_view text);
    bool take_name(std::string_view text);
    void expect_op(std::string_view text);
    void expect_name(std::string_view text);
    std::string expect_any_name(std::string_view what);
    void expect_block_end();
    std::string found() const;  // the current token, for messages

    Symbol symbol(std::string_view name);
    void adopt(Expr& parent, const ExprPtr& child);

    std::vector<Token> tokens_;
    Program& program_;
    std::map<std::string, Symbol, std::less<>> symbols_;
    std::size_t at_ = 0;
    std::uint32_t depth_ = 0;
    std::uint32_t loops_ = 0;     // loops around here that break and continue may end
    std::vector<Macro*> macros_;  // macros around here
};

}  // namespace cellar::jinja
