#pragma once
// Walks a parsed template and prints. One interpreter renders once; everything it makes lives in the heap of its runtime.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/template/ast.h"
#include "text/template/builder.h"
#include "text/template/builtin.h"

namespace cellar::jinja {

// The variables of one block. Blocks see those of the blocks around them, but assign only their own.
struct Scope : Object {
    explicit Scope(Value p) : Object(Kind::Scope), parent(std::move(p)) {}
    void drop() override {
        variables.clear();
        parent = Value();
    }
    const Value* find(Symbol symbol) const;
    void set(Symbol symbol, Value value);
    void reset();  // forgets its variables

    Value parent;  // the Scope around this one, or None
    std::vector<std::pair<Symbol, Value>> variables;
};

struct MacroValue : Object {
    MacroValue(const Macro& m, Value s) : Object(Kind::Macro), macro(&m), scope(std::move(s)) {}
    void drop() override { scope = Value(); }
    bool attribute(std::string_view name, Value& out) override;
    const Macro* macro;
    Value scope;  // where it was defined
};

class Interpreter;

// `loop`: where a for statement stands. It draws items one by one, at most one ahead, so that a condition sees what the body has done.
struct LoopValue : Object {
    LoopValue(Interpreter& i, const For& n, Value s, Value items, std::int64_t d);
    void drop() override;
    bool attribute(std::string_view name, Value& out) override;
    bool advance();  // to the next item; false at the end
    bool peek();     // whether there is a next item
    std::int64_t length();

    Interpreter* interpreter;
    const For* node;
    Value scope;  // around the statement
    Value source;
    std::optional<Cursor> cursor;
    std::int64_t depth;
    std::int64_t index = -1;         // from 0
    std::int64_t known_length = -1;  // once it had to be counted
    Value previous = Value::missing(), current = Value::missing(), following = Value::missing();
    Value changed = Value::missing();  // what loop.changed() saw last

  private:
    bool draw(Value& item);
    bool drawn = false;  // all items were drawn; those left wait in the cursor
};

class Interpreter {
  public:
    // variables: one for each of program.names, Missing where the caller gave none.
    Interpreter(Runtime& runtime, const Program& program, std::vector<Value> variables);

    std::string run();
    std::uint32_t line() const { return line_; }  // of what was evaluated last

  private:
    friend struct LoopValue;
    enum class Flow { Normal, Break, Continue };

    // Statements (interpreter.cc).
    Flow exec(const Body& body, Scope& scope);
    Flow exec(const Statement& statement, Scope& scope);
    Flow exec_if(const If& node, Scope& scope);
    Flow exec_for(const For& node, const Value& scope, Value items, std::int64_t depth);
    Flow exec_with(const With& node, Scope& scope);
    Flow exec_set_block(const SetBlock& node, Scope& scope);
    Flow exec_filter_block(const FilterBlock& node, Scope& scope);
    void exec_call_block(const CallBlock& node, Scope& scope);
    void assign(const Target& target, Value value, Scope& scope);
    Ref<Scope> inner(const Value& scope, const Hidden& hidden) {
        Ref<Scope> out(heap_.make<Scope>(scope));
        for (const Symbol symbol : hidden) out->set(symbol, Value::undefined());
        return out;
    }
    // Runs a body into a text of its own.
    Value capture(const Body& body, Scope& scope, Flow& flow);
    bool passes(const For& node, const Value& scope, const Value& item);

    // Expressions (evaluate.cc).
    Value eval(const Expr& expr, Scope& scope);
    Value eval_literal(const Literal& node);
    Value eval_variable(const Variable& node, Scope& scope);
    Value eval_sequence(const Sequence& node, Scope& scope);
    Value eval_mapping(const Mapping& node, Scope& scope);
    Value eval_unary(const Unary& node, Scope& scope);
    Value eval_chain(const Chain& node, Scope& scope);
    Value eval_concat(const Concat& node, Scope& scope);
    Value eval_logic(const Logic& node, Scope& scope);
    Value eval_compare(const Compare& node, Scope& scope);
    Value eval_choice(const Choice& node, Scope& scope);
    Value eval_slice(const Slice& node, Scope& scope);
    Value eval_item(const Item& node, Scope& scope);
    Value eval_attribute(const Attribute& node, Scope& scope);
    Value eval_applied(const Applied& node, Scope& scope);
    Args eval_arguments(const Arguments& arguments, Scope& scope);

    // Calls (call.cc).
    Value call(const Value& callee, Args args);
    Value call_macro(const MacroValue& macro, Args args);
    void bind_parameters(const Macro& macro, Args& args, Scope& locals);
    void bind_surplus(const Macro& macro, Args& args, Scope& locals);
    Value call_loop(LoopValue& loop, Args args);

    Runtime& runtime_;
    Heap& heap_;
    Budget& budget_;
    const Program& program_;
    std::vector<Value> variables_;
    Builder* out_ = nullptr;
    Value captured_;  // what a filter block works on
    std::uint32_t line_ = 1;
};

}  // namespace cellar::jinja
