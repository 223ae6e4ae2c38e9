// cellar session: what is in a session file.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/session_picture.h"
#include "apps/terminal.h"
#include "base/quote.h"
#include "base/text_escape.h"
#include "base/units.h"
#include "engine/session_directory.h"
#include "text/template/json_input.h"

namespace cellar::apps {
namespace {

using Json = nlohmann::ordered_json;

// What a chat keeps beside its rows. Other programs may keep what they like.
struct Text {
    std::string system;
    std::vector<Message> messages;
};

std::optional<Text> text_of(const SessionFile& file, const SessionBranch& branch) {
    const auto json = jinja::parse_json_bounded(host_text(file, branch));
    if (!json) return std::nullopt;
    try {
        Text out;
        out.system = json->at("system");
        for (const auto& message : json->at("messages")) out.messages.push_back({message.at("role"), message.at("content")});
        return out;
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

// How many tokens a branch has in common with one before it, and with which.
std::pair<int32_t, const SessionBranch*> shared_with(const SessionDirectory& directory, size_t index) {
    std::pair<int32_t, const SessionBranch*> out{0, nullptr};
    const auto& parts = directory.branches[index].parts;
    for (size_t other = 0; other < index; ++other) {
        int32_t n = 0;
        const auto& theirs = directory.branches[other].parts;
        for (size_t i = 0; i < std::min(parts.size(), theirs.size()) && parts[i].piece == theirs[i].piece; ++i) {
            n = std::min(parts[i].hi, theirs[i].hi);
            if (parts[i].hi != theirs[i].hi) break;
        }
        if (n > out.first) out = {n, &directory.branches[other]};
    }
    return out;
}

std::string value_of(const Fingerprint& model, const std::string& name) {
    const auto found = model.find(name);
    return found == model.end() ? "?" : escape_for_terminal(found->second);
}

std::string formats_of(const Fingerprint& model) {
    std::string out;
    for (const auto& [name, value] : model)
        if (name.starts_with("format."))
            out += fmt::format("{}{} {}", out.empty() ? "" : ", ", escape_for_terminal(name.substr(7)), escape_for_terminal(value));
    return out;
}

std::string branch_line(const SessionFile& file, const SessionDirectory& directory, size_t index) {
    const SessionBranch& branch = directory.branches[index];
    const auto text = text_of(file, branch);
    std::string out = fmt::format("  {:<16} {} tokens", escape_for_terminal(branch.name), format_count(static_cast<uint64_t>(branch.length)));
    if (text) out += fmt::format(", {} messages", text->messages.size());
    if (branch.held() < branch.length) out += fmt::format(", only the first {} can be read", branch.held());
    if (branch.pure < branch.length) out += fmt::format(", coloured from {} on", branch.pure);
    if (const auto [n, other] = shared_with(directory, index); other != nullptr)
        out += fmt::format(", the first {} shared with {}", n, escape_for_terminal(other->name));
    if (branch.numbers != value_of(directory.model, "numbers")) out += fmt::format(", computed on {}", escape_for_terminal(branch.numbers));
    return out;
}

void print_session(const SessionFile& file, const SessionDirectory& directory) {
    const Fingerprint& model = directory.model;
    print_text(fmt::format("file          {} (session, {}, save {}, {} of it dead)\n", escape_for_terminal(file.path()),
                           format_bytes(file.file_bytes()), file.saves(), format_bytes(file.dead_bytes())));
    print_text(fmt::format("model         {}: {} layers of width {}, vocabulary {}, weights {}\n", value_of(model, "architecture"),
                           value_of(model, "layers"), value_of(model, "embedding"), value_of(model, "vocabulary"), value_of(model, "weights")));
    print_text(fmt::format("rows          {}, computed on {}\n", formats_of(model), value_of(model, "numbers")));
    print_text(fmt::format("branches      {}\n", directory.branches.size()));
    for (size_t i = 0; i < directory.branches.size(); ++i) print_text(branch_line(file, directory, i) + "\n");
    if (file.lost_saves() > 0)
        print_text(fmt::format("DAMAGED       the last {} saves cannot be read; this is the state before\n", file.lost_saves()));
    if (file.lost_pieces() > 0) print_text(fmt::format("DAMAGED       {} pieces cannot be read\n", file.lost_pieces()));
    if (file.unread_bytes() > 0 && file.lost_saves() == 0)
        print_text(fmt::format("unfinished    {} of a save that did not end\n", format_bytes(file.unread_bytes())));
}

Json to_json(const SessionFile& file, const SessionDirectory& directory) {
    Json out;
    out["file"] = file.path();
    out["bytes"] = file.file_bytes();
    out["dead_bytes"] = file.dead_bytes();
    out["saves"] = file.saves();
    out["lost_saves"] = file.lost_saves();
    out["lost_pieces"] = file.lost_pieces();
    out["unread_bytes"] = file.unread_bytes();
    out["model"] = directory.model;
    auto& branches = out["branches"] = Json::array();
    for (size_t i = 0; i < directory.branches.size(); ++i) {
        const SessionBranch& branch = directory.branches[i];
        Json one{{"name", branch.name}, {"tokens", branch.length}, {"held", branch.held()}, {"pure", branch.pure}, {"numbers", branch.numbers}};
        if (const auto text = text_of(file, branch)) one["messages"] = text->messages.size();
        if (const auto [n, other] = shared_with(directory, i); other != nullptr) one["shared"] = {{"tokens", n}, {"with", other->name}};
        branches.push_back(std::move(one));
    }
    return out;
}

Result<void> export_text(const SessionFile& file, const SessionDirectory& directory, const std::string& name) {
    const auto& branches = directory.branches;
    const auto branch =
        name.empty() ? branches.begin() : std::find_if(branches.begin(), branches.end(), [&](const SessionBranch& b) { return b.name == name; });
    if (branch == branches.end()) return fail("{}: there is no branch {}", file.path(), cellar::quoted(name));
    const auto text = text_of(file, *branch);
    if (!text) return fail("{}: branch {} is no chat: what its owner keeps is not text of a conversation", file.path(), cellar::quoted(branch->name));
    std::string out;
    const auto add = [&](const std::string& role, const std::string& content) {
        out += fmt::format("{}{}: {}\n", out.empty() ? "" : "\n", escape_for_terminal(role), content);
    };
    if (!text->system.empty()) add("system", text->system);
    for (const Message& message : text->messages) add(message.role, message.content);
    print_text(out);
    return {};
}

// To be changed.
Result<std::unique_ptr<SessionFile>> open_existing(const std::string& path) {
    auto file = SessionFile::open(path);
    if (file && (*file)->is_new()) return fail("{}: no such file", path);
    return file;
}

// To be shown; what is damaged as far as it can be read.
Result<std::unique_ptr<SessionFile>> open_to_read(const std::string& path) {
    auto file = SessionFile::open(path, Reading::Whole, Access::Read);
    if (!file)
        if (auto partly = SessionFile::open(path, Reading::Prefix, Access::Read)) file = std::move(partly);
    return file;
}

}  // namespace

Result<int> print_session_file(const std::string& path, bool json) {
    CELLAR_TRY(const auto file, open_to_read(path));
    CELLAR_TRY(const SessionDirectory directory, read_directory(*file));
    if (json) {
        print_text(to_json(*file, directory).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
    } else {
        print_session(*file, directory);
    }
    return kExitOk;
}

Result<int> session(const SessionArgs& args) {
    const bool changes = args.prune || !args.drop.empty();
    if (!changes && !args.export_text) return print_session_file(args.file, args.json);
    if (args.export_text) {
        CELLAR_TRY(const auto file, open_to_read(args.file));
        CELLAR_TRY(const SessionDirectory directory, read_directory(*file));
        CELLAR_TRY_VOID(export_text(*file, directory, args.branch));
        return kExitOk;
    }
    CELLAR_TRY(const auto file, open_existing(args.file));
    const uint64_t before = file->file_bytes() + file->unread_bytes();
    CELLAR_TRY_VOID(prune(*file, args.drop));
    if (const std::string note = file->take_note(); !note.empty()) say(note);
    say(fmt::format("{}: {}, {} before", args.file, format_bytes(file->file_bytes()), format_bytes(before)));
    return kExitOk;
}

}  // namespace cellar::apps
