#include "graph/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/check.h"

namespace cellar::graph {
namespace {

std::string_view without_layer(const Node& node) {
    const std::string_view label = node.label;
    return node.layer < 0 ? label : label.substr(label.find('.', label.find('.') + 1) + 1);
}

std::string describe(const Graph& graph, const Node& node) {
    const std::string_view what = without_layer(node);
    if (node.weight.data != nullptr) {
        const auto times = node.gate.data != nullptr ? " 2 x" : "";
        const bool mixed = node.gate.data != nullptr && node.gate.type != node.weight.type;
        return fmt::format("{} {}{} {} x {}", what, mixed ? "mixed" : name(node.weight.type), times, node.weight.rows, node.weight.cols);
    }
    if (node.op == Op::Attend) return fmt::format("{} {} heads of {}", what, node.heads, node.v_width);
    const Value& out = graph.values[static_cast<size_t>(node.out[0] != kNone ? node.out[0] : node.in[0])];
    return fmt::format("{} {}", what, out.cols);
}

// Nodes of a stage together: "attn_q attn_k attn_v Q8_0 1152 x 896", "ffn_add attn_norm prepare".
std::string describe(const Graph& graph, const Stage& stage) {
    const auto nodes = std::span(graph.nodes).subspan(static_cast<size_t>(stage.first), static_cast<size_t>(stage.last - stage.first));
    if (nodes.size() == 1) return describe(graph, nodes.front());
    std::string what;
    int64_t rows = 0;
    for (const Node& node : nodes) {
        what += fmt::format("{}{}", what.empty() ? "" : " ", without_layer(node));
        rows += node.weight.rows + node.gate.rows;
    }
    if (stage.kind == Stage::Kind::Products) {
        const ops::WeightMatrix& w = nodes.front().weight;
        const bool mixed = std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) { return node.weight.type != w.type; });
        what += fmt::format(" {} {} x {}", mixed ? "mixed" : name(w.type), rows, w.cols);
    }
    return what;
}

void count_attention(const Node& node, const kv::View& view, Profile::Line& line) {
    const kv::GroupView& group = view.groups[static_cast<size_t>(node.place.group)];
    double row_bytes = 0.0;
    double width = 0.0;
    for (const kv::RowTable& rows : group.rows) {
        row_bytes += static_cast<double>(rows.row_bytes) * rows.heads;
        width += rows.width;
    }
    for (const kv::Visible& seen : group.visible) line.operations += 2.0 * width * node.heads * (seen.recent.length() + seen.sinks.length());
    // Every sequence's cells are read once at least; the last of its tokens sees nearly all that any of them sees.
    for (const kv::SeqView& seq : group.seqs) {
        const kv::Visible& seen = group.visible[static_cast<size_t>(seq.first_token + seq.tokens - 1)];
        line.bytes += row_bytes * (seen.recent.length() + seen.sinks.length());
    }
}

void count(const Graph& graph, const Node& node, const kv::View& view, Profile::Line& line) {
    if (node.op == Op::Attend) return count_attention(node, view, line);
    if (node.op != Op::MatMul && node.op != Op::ExpertMatMul) return;
    const auto rows = static_cast<double>(graph.values[static_cast<size_t>(node.out[0])].rows);
    for (const ops::WeightMatrix& w : {node.weight, node.gate}) {
        if (w.data == nullptr) continue;
        const double matrix = static_cast<double>(row_bytes(w.type, w.cols)) * static_cast<double>(w.rows);
        line.operations += 2.0 * rows * static_cast<double>(w.rows) * static_cast<double>(w.cols);
        line.bytes += node.op == Op::MatMul ? matrix : matrix * std::min(rows, static_cast<double>(node.experts));
    }
}

}  // namespace

void Profile::begin(const Graph& graph) {
    marks_.clear();
    marks_.reserve(graph.stages.size() + 1);
    mark();
}

Profile::Line& Profile::line(const Graph& graph, const Stage& stage) {
    std::string what = describe(graph, stage);
    const Op op = graph.nodes[static_cast<size_t>(stage.first)].op;
    const auto found = std::find_if(lines_.begin(), lines_.end(), [&](const Line& l) { return l.op == op && l.what == what; });
    if (found != lines_.end()) return *found;
    lines_.push_back({op, std::move(what)});
    return lines_.back();
}

void Profile::end(const Graph& graph, const kv::View& view) {
    CHECK_EQ(marks_.size(), graph.stages.size() + 1);
    ++walks_;
    seconds_ += std::chrono::duration<double>(marks_.back() - marks_.front()).count();
    for (size_t i = 0; i < graph.stages.size(); ++i) {
        const Stage& stage = graph.stages[i];
        Line& l = line(graph, stage);
        ++l.calls;
        l.seconds += std::chrono::duration<double>(marks_[i + 1] - marks_[i]).count();
        for (int32_t n = stage.first; n < stage.last; ++n) count(graph, graph.nodes[static_cast<size_t>(n)], view, l);
    }
}

void Profile::clear() {
    lines_.clear();
    walks_ = 0;
    seconds_ = 0.0;
}

std::vector<Profile::Line> Profile::lines() const {
    std::vector<Line> sorted = lines_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Line& a, const Line& b) { return a.seconds > b.seconds; });
    return sorted;
}

std::string Profile::text() const {
    if (walks_ == 0) return "no steps\n";
    const auto steps = static_cast<double>(walks_);
    std::string out = fmt::format("{} steps, {:.3f} ms each\n", walks_, seconds_ / steps * 1e3);
    out += fmt::format("{:<15}{:<46}{:>7}{:>10}{:>8}{:>8}{:>8}\n", "op", "what", "calls", "ms", "share", "GB/s", "GOP/s");
    for (const Line& l : lines()) {
        out += fmt::format("{:<15}{:<46}{:>7.0f}{:>10.4f}{:>7.1f}%", name(l.op), l.what, static_cast<double>(l.calls) / steps,
                           l.seconds / steps * 1e3, 100.0 * l.seconds / seconds_);
        if (l.operations > 0.0) out += fmt::format("{:>8.1f}{:>8.0f}", l.bytes / l.seconds / 1e9, l.operations / l.seconds / 1e9);
        out += '\n';
    }
    return out;
}

}  // namespace cellar::graph
