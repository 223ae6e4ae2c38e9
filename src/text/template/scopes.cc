#include "text/template/scopes.h"

#include <map>
#include <set>

namespace cellar::jinja {

namespace {

enum class Start : std::uint8_t { Given, Resolved, Outer, Undefined };  // what a name holds when its block begins

// The names of one block. A branch of an `if` is a frame over the one it stands in, and holds only what the branch adds: copies would make
// the time of a long chain of branches quadratic.
struct Frame {
    const Frame* parent = nullptr;  // the block around this one
    const Frame* base = nullptr;    // of a branch: the same block, up to the `if`
    std::map<Symbol, Start> names;
    std::set<Symbol> stores;

    bool has(Symbol name) const { return names.contains(name) || (base != nullptr && base->has(name)); }
    bool stored(Symbol name) const { return stores.contains(name) || (base != nullptr && base->stored(name)); }
    bool known_outside(Symbol name) const { return parent != nullptr && parent->knows(name); }
    bool knows(Symbol name) const { return has(name) || known_outside(name); }
    Frame branch() const { return {parent, this, {}, {}}; }

    void load(Symbol name) {
        if (!knows(name)) names[name] = Start::Resolved;
    }
    void store(Symbol name) {
        stores.insert(name);
        if (!has(name)) names[name] = known_outside(name) ? Start::Outer : Start::Undefined;
    }
    void declare(Symbol name) {
        stores.insert(name);
        names[name] = Start::Given;
    }

    // Takes over what the three branches of an `if` did. A name that not all of them store may still be the caller's.
    void merge(const Frame& body, const Frame& elifs, const Frame& otherwise) {
        std::map<Symbol, int> counts;
        for (const Frame* branch : {&body, &elifs, &otherwise})
            for (const Symbol name : branch->stores)
                if (!stored(name)) ++counts[name];
        for (const Frame* branch : {&body, &elifs, &otherwise}) {
            for (const auto& [name, start] : branch->names) names[name] = start;
            stores.insert(branch->stores.begin(), branch->stores.end());
        }
        for (const auto& [name, count] : counts)
            if (count < 3) names[name] = known_outside(name) ? Start::Outer : Start::Resolved;
    }

    std::vector<Symbol> hidden() const {
        std::vector<Symbol> out;
        for (const auto& [name, start] : names)
            if (start == Start::Undefined) out.push_back(name);
        return out;
    }
};

void read(const ExprPtr& expr, Frame& frame);

void read(const Arguments& arguments, Frame& frame) {
    for (const auto& value : arguments.given) read(value, frame);
    for (const auto& [name, value] : arguments.named) read(value, frame);
    read(arguments.rest, frame);
    read(arguments.rest_named, frame);
}

void read(const ExprPtr& expr, Frame& frame) {
    if (!expr) return;
    auto all = [&](std::initializer_list<const ExprPtr*> parts) {
        for (const ExprPtr* part : parts) read(*part, frame);
    };
    switch (expr->kind) {
        case ExprKind::Literal:
        case ExprKind::Captured:
            break;
        case ExprKind::Variable:
            frame.load(static_cast<const Variable&>(*expr).symbol);
            break;
        case ExprKind::Sequence:
            for (const auto& item : static_cast<const Sequence&>(*expr).items) read(item, frame);
            break;
        case ExprKind::Mapping:
            for (const auto& [key, value] : static_cast<const Mapping&>(*expr).entries) all({&key, &value});
            break;
        case ExprKind::Not:
        case ExprKind::Negate:
        case ExprKind::Positive:
            read(static_cast<const Unary&>(*expr).operand, frame);
            break;
        case ExprKind::Chain:
            read(static_cast<const Chain&>(*expr).first, frame);
            for (const auto& [sign, operand] : static_cast<const Chain&>(*expr).rest) read(operand, frame);
            break;
        case ExprKind::Concat:
            for (const auto& part : static_cast<const Concat&>(*expr).parts) read(part, frame);
            break;
        case ExprKind::Logic:
            for (const auto& part : static_cast<const Logic&>(*expr).parts) read(part, frame);
            break;
        case ExprKind::Compare:
            read(static_cast<const Compare&>(*expr).first, frame);
            for (const auto& [relation, operand] : static_cast<const Compare&>(*expr).rest) read(operand, frame);
            break;
        case ExprKind::Choice: {
            const auto& node = static_cast<const Choice&>(*expr);
            all({&node.condition, &node.then, &node.otherwise});
            break;
        }
        case ExprKind::Attribute:
            read(static_cast<const Attribute&>(*expr).object, frame);
            break;
        case ExprKind::Item:
            all({&static_cast<const Item&>(*expr).object, &static_cast<const Item&>(*expr).key});
            break;
        case ExprKind::Slice: {
            const auto& node = static_cast<const Slice&>(*expr);
            all({&node.object, &node.begin, &node.end, &node.step});
            break;
        }
        case ExprKind::Call:
            read(static_cast<const Call&>(*expr).callee, frame);
            read(static_cast<const Call&>(*expr).arguments, frame);
            break;
        case ExprKind::Filter:
        case ExprKind::Test:
            read(static_cast<const Applied&>(*expr).input, frame);
            read(static_cast<const Applied&>(*expr).arguments, frame);
    }
}

void assign(const Target& target, Frame& frame) {
    if (target.kind == Target::Kind::Name) frame.store(target.symbol);
    if (target.kind == Target::Kind::Field) frame.load(target.symbol);
    for (const Target& part : target.parts) assign(part, frame);
}

void declare(const Target& target, Frame& frame) {
    if (target.kind == Target::Kind::Name) frame.declare(target.symbol);
    for (const Target& part : target.parts) declare(part, frame);
}

// What the statements do in their own block; the blocks inside them come later.
void visit(const Body& body, Frame& frame) {
    for (const auto& statement : body) {
        switch (statement->kind) {
            case StatementKind::Print:
                read(static_cast<const Print&>(*statement).value, frame);
                break;
            case StatementKind::If: {
                // Each `elif` counts as an `if` of its own inside the second of three branches.
                const auto& node = static_cast<const If&>(*statement);
                read(node.branches[0].first, frame);
                Frame first = frame.branch(), elifs = frame.branch(), otherwise = frame.branch();
                visit(node.branches[0].second, first);
                for (std::size_t i = 1; i < node.branches.size(); ++i) {
                    read(node.branches[i].first, elifs);
                    Frame branch = elifs.branch();
                    visit(node.branches[i].second, branch);
                    elifs.merge(branch, Frame{}, Frame{});
                }
                visit(node.otherwise, otherwise);
                frame.merge(first, elifs, otherwise);
                break;
            }
            case StatementKind::For:
                read(static_cast<const For&>(*statement).source, frame);
                break;
            case StatementKind::Set:
                read(static_cast<const Set&>(*statement).value, frame);
                assign(static_cast<const Set&>(*statement).target, frame);
                break;
            case StatementKind::SetBlock:
                assign(static_cast<const SetBlock&>(*statement).target, frame);
                break;
            case StatementKind::Macro:
                frame.store(static_cast<const Macro&>(*statement).symbol);
                break;
            case StatementKind::CallBlock:
                read(static_cast<const CallBlock&>(*statement).call, frame);
                break;
            case StatementKind::FilterBlock:
                read(static_cast<const FilterBlock&>(*statement).filter, frame);
                break;
            case StatementKind::With:
                for (const auto& [target, value] : static_cast<const With&>(*statement).variables) read(value, frame);
                break;
            default:
                break;
        }
    }
}

void enter(const Body& body, const Frame& frame);

// Fills in what the block of these statements hides, and the blocks inside it.
std::vector<Symbol> close(const Body& body, Frame& frame) {
    visit(body, frame);
    enter(body, frame);
    return frame.hidden();
}

void enter_macro(Macro& macro, const Frame& frame) {
    Frame inner{&frame, nullptr, {}, {}};
    for (const auto& [symbol, otherwise] : macro.parameters) inner.declare(symbol);
    for (const auto& [symbol, otherwise] : macro.parameters) read(otherwise, inner);
    macro.hidden = close(macro.body, inner);
}

void enter(const Body& body, const Frame& frame) {
    for (const auto& statement : body) {
        Frame inner{&frame, nullptr, {}, {}};
        switch (statement->kind) {
            case StatementKind::If:
                for (const auto& [condition, branch] : static_cast<const If&>(*statement).branches) enter(branch, frame);
                enter(static_cast<const If&>(*statement).otherwise, frame);
                break;
            case StatementKind::For: {
                auto& node = static_cast<For&>(*statement);
                Frame otherwise{&frame, nullptr, {}, {}};
                declare(node.target, inner);
                node.hidden = close(node.body, inner);
                node.hidden_otherwise = close(node.otherwise, otherwise);
                break;
            }
            case StatementKind::SetBlock: {
                auto& node = static_cast<SetBlock&>(*statement);
                node.hidden = close(node.body, inner);
                break;
            }
            case StatementKind::Macro:
                enter_macro(static_cast<Macro&>(*statement), frame);
                break;
            case StatementKind::CallBlock:
                enter_macro(*static_cast<CallBlock&>(*statement).caller, frame);
                break;
            case StatementKind::FilterBlock: {
                auto& node = static_cast<FilterBlock&>(*statement);
                node.hidden = close(node.body, inner);
                break;
            }
            case StatementKind::With: {
                auto& node = static_cast<With&>(*statement);
                for (const auto& [target, value] : node.variables) assign(target, inner);
                node.hidden = close(node.body, inner);
                break;
            }
            default:
                break;
        }
    }
}

}  // namespace

void find_hidden(Program& program) {
    Frame root;
    program.hidden = close(program.body, root);
}

}  // namespace cellar::jinja
