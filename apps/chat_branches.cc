#include "apps/chat_branches.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "apps/terminal.h"
#include "base/file.h"
#include "base/units.h"

namespace cellar::apps {
namespace {

bool is_branch_name(const std::string& name) {
    return !name.empty() && name.size() <= 64 && name.find_first_of(" \t/\n") == std::string::npos;
}

// Moves a file out of the way, unless somebody works with it, and says so.
Result<void> make_way(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return {};
    if (fd < 0) return fail(ErrorKind::System, "{}: cannot be replaced: {}", path, std::strerror(errno));
    const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    struct stat info {};
    const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    SetAside aside;
    if (locked && regular) aside = set_aside(path, "old", rename_to_free_name);
    close(fd);
    if (!regular) return fail("{}: it is no regular file, so no session can take its place", path);
    if (!locked) return fail(ErrorKind::System, "{}: another process has this session open", path);
    if (aside.error != 0) return fail(ErrorKind::System, "{}: cannot be replaced: {}", path, std::strerror(aside.error));
    say(fmt::format("{}: what was there is kept as {}", path, aside.name));
    return {};
}

tl::unexpected<Error> no_more_branches() {
    return fail(ErrorKind::Full, "{} branches are open, which is the most a chat can have; /drop NAME lets one go", kMostBranches);
}

bool same_file(const std::string& a, const std::string& b) {
    struct stat first {
    }, second{};
    return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// What can be done about a session that cannot be read.
std::string way_out(Engine& engine, const SessionRequest& request) {
    struct stat info {};
    if (stat(request.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
    const bool some = request.reading == Reading::Whole && Session::open(request.path, engine, Reading::Prefix).has_value();
    return fmt::format("; {}--session-new begins anew and keeps the old file as {}.old",
                       some ? "--session-prefix goes on with what is whole in it, " : "", request.path);
}

// What a reader of the file should know before going on with it.
void say_what_is_lost(const Session& session, SessionFile& file) {
    const std::string& path = session.path();
    if (file.lost_saves() > 0)
        say(fmt::format(
            "{}: its last {} damaged; the chat goes on from save {} before, and what came later is missing. The file as it is will be kept as "
            "{}.damaged when the chat is saved",
            path, file.lost_saves() == 1 ? "save is" : fmt::format("{} saves are", file.lost_saves()), file.saves(), path));
    if (file.lost_pieces() > 0)
        say(fmt::format(
            "{}: it is damaged; what comes before the damage is used. The file as it is will be kept as {}.damaged when the chat is saved", path,
            path));
    if (file.unread_bytes() > 0 && file.lost_saves() == 0)
        say(fmt::format("{}: {} of a save that did not end are left out; everything before is there", path, format_bytes(file.unread_bytes())));
}

std::string saved_line(const Session& session, const Session::Saved& saved) {
    const std::string size = format_bytes(saved.file_bytes);
    if (saved.tokens_written == 0) return fmt::format("{} is up to date: {} in all", session.path(), size);
    return fmt::format("saved to {}: {} tokens written, {} in all", session.path(), saved.tokens_written, size);
}

}  // namespace

Result<ChatBranches> ChatBranches::open(Engine& engine, const ConversationOptions& options, const SessionRequest& request) {
    ChatBranches out(engine, options, request.reading);
    if (!request.path.empty()) {
        if (same_file(request.path, engine.model().file().path()))
            return fail("{}: it is the model, and no session can take its place", request.path);
        if (request.begin_anew) CELLAR_TRY_VOID(make_way(request.path));
        auto session = Session::open(request.path, engine, request.reading);
        if (!session && session.error().kind == ErrorKind::Input) return fail("{}{}", session.error().message, way_out(engine, request));
        if (!session) return pass(std::move(session));
        out.session_ = *std::move(session);
        say_what_is_lost(*out.session_, out.session_->file());
    }
    if (out.session_ && !out.session_->branches().empty()) {
        CELLAR_TRY_VOID(out.take_up());
    } else {
        CELLAR_TRY_VOID(out.begin());
    }
    return out;
}

Result<void> ChatBranches::begin() {
    current_ = "main";
    CELLAR_TRY(open_[current_], Conversation::make(*engine_, options_));
    return {};
}

bool ChatBranches::stands_in_file(const std::string& name) const {
    return session_ && session_->find(name) != nullptr && !dropped_.contains(name);
}

std::vector<Session::OpenBranch> ChatBranches::open_now() const {
    std::vector<Session::OpenBranch> out;
    for (const auto& [name, chat] : open_) out.push_back({name, chat->seq()});
    return out;
}

std::vector<PicturedBranch> ChatBranches::pictured() const {
    std::vector<PicturedBranch> out;
    for (const auto& [name, chat] : open_) out.push_back({name, chat->seq(), name == current_});
    return out;
}

Result<std::unique_ptr<Conversation>> ChatBranches::restore(const std::string& name) {
    auto restored = session_->restore_beside(name, open_now());
    if (!restored && restored.error().kind == ErrorKind::Full && open_.size() > 1)
        return fail(ErrorKind::Full, "{}; {} other branches are open and hold room: /drop NAME lets one go", restored.error().message, open_.size());
    if (!restored) return pass(std::move(restored));
    CELLAR_TRY(auto chat, Conversation::adopt(*engine_, options_, restored->seq));
    const Session::Branch& branch = *session_->find(name);
    CELLAR_TRY_VOID(chat->resume(branch.host));
    std::string note = restored->length == branch.length ? "nothing was read anew" : "the rest is read anew with the next message";
    if (restored->shared > 0) note += fmt::format("; {} tokens are shared with open branches", restored->shared);
    if (restored->converted) note += "; its rows were stored in another format and are converted";
    if (restored->other_numbers) note += "; its rows were computed on another numeric path";
    const std::string of = restored->length == branch.length ? "" : fmt::format(" of {}", branch.length);
    say(fmt::format("branch '{}': {} messages, {}{} tokens are in the cache again, {}", name, chat->messages().size(), restored->length, of, note));
    return chat;
}

Result<void> ChatBranches::take_up() {
    const std::string name = session_->branches().front().name;
    CELLAR_TRY(auto chat, restore(name));
    open_[name] = std::move(chat);
    current_ = name;
    if (!options_.system.empty()) say("the chat goes on with the system text it was saved with; /system changes it");
    return {};
}

// To the branch that was the current one. Where nothing was saved yet, there is none.
Result<void> ChatBranches::go_back(const std::string& name) {
    if (!stands_in_file(name)) return begin();
    CELLAR_TRY(auto chat, restore(name));
    open_[name] = std::move(chat);
    current_ = name;
    return {};
}

Result<Session::Saved> ChatBranches::write() {
    std::vector<Session::Source> sources{{current_, current().seq(), current().state()}};
    for (const auto& [name, chat] : open_)
        if (name != current_) sources.push_back({name, chat->seq(), chat->state()});
    for (const Session::Branch& branch : session_->branches())
        if (!open_.contains(branch.name) && stands_in_file(branch.name)) sources.push_back({branch.name, std::nullopt, ""});
    CELLAR_TRY(Session::Saved saved, session_->save(sources));
    if (!saved.note.empty()) say(saved.note);
    dirty_ = false;
    dropped_.clear();
    return saved;
}

Result<void> ChatBranches::save_changes() {
    if (!session_ || !dirty_) return {};
    auto saved = write();
    if (!saved) return fail(saved.error().kind, "not saved: {}", saved.error().message);
    return {};
}

// The file that worked stays in use where another one does not.
Result<std::string> ChatBranches::save_elsewhere(const std::string& path) {
    CELLAR_TRY(auto session, Session::open(path, *engine_));
    if (!session->branches().empty()) return fail("{}: another chat stands in it; choose another name", path);
    // Branches that stand in the old file alone come along.
    if (session_) {
        const std::vector<Session::Branch> branches = session_->branches();
        for (const Session::Branch& branch : branches) {
            if (open_.contains(branch.name) || !stands_in_file(branch.name)) continue;
            CELLAR_TRY(auto chat, restore(branch.name));
            open_[branch.name] = std::move(chat);
        }
    }
    std::unique_ptr<Session> former = std::exchange(session_, std::move(session));
    auto saved = write();
    if (!saved) {
        session_ = std::move(former);
        return pass(std::move(saved));
    }
    return saved_line(*session_, *saved);
}

Result<std::string> ChatBranches::save(const std::string& path) {
    if (path.empty() && !session_) return fail("/save wants a file name: /save chat.session");
    if (!path.empty() && (!session_ || session_->path() != path)) return save_elsewhere(path);
    CELLAR_TRY(const Session::Saved saved, write());
    return saved_line(*session_, saved);
}

Result<std::string> ChatBranches::load(const std::string& path) {
    if (path.empty()) return fail("/load wants a file name: /load chat.session");
    if (session_ && session_->path() == path) return fail("{}: the chat is in this file already", path);
    for (const auto& [name, chat] : open_)
        if (!session_ && !chat->messages().empty()) return fail("this chat stands in no file: /save FILE keeps it, /clear lets it go");
    if (session_ && dirty_) CELLAR_TRY_VOID(write().map([](auto) {}));
    CELLAR_TRY(auto session, Session::open(path, *engine_, reading_));
    if (session->branches().empty()) return fail("{}: there is no such file; /save {} makes one", path, path);
    say_what_is_lost(*session, session->file());
    // What is open stands in its own file, or is empty; its room is needed.
    open_.clear();
    const std::string from = current_;
    std::unique_ptr<Session> former = std::exchange(session_, std::move(session));
    if (auto done = take_up(); !done) {
        session_ = std::move(former);
        if (auto back = go_back(from); !back)
            return fail("{}; nor can the chat before be taken up again: {}", done.error().message, back.error().message);
        return pass(std::move(done));
    }
    return fmt::format("{} is in use now, and saved to from here on", path);
}

Result<std::string> ChatBranches::fork(const std::string& name) {
    if (!is_branch_name(name)) return fail("/fork wants a name of up to 64 characters without spaces and slashes");
    if (open_.contains(name) || stands_in_file(name)) return fail("there is a branch '{}' already", name);
    if (open_.size() >= static_cast<size_t>(kMostBranches)) return no_more_branches();
    CELLAR_TRY(auto chat, current().fork());
    open_[name] = std::move(chat);
    dirty_ = true;
    const std::string from = std::exchange(current_, name);
    return fmt::format("this is branch '{}' now; '{}' stays as it is", name, from);
}

Result<std::string> ChatBranches::go_to(const std::string& name) {
    if (name.empty()) {
        std::string names;
        for (const auto& [other, chat] : open_) names += fmt::format("{}{}{}", names.empty() ? "" : ", ", other, other == current_ ? " (here)" : "");
        if (session_)
            for (const Session::Branch& branch : session_->branches())
                if (!open_.contains(branch.name) && stands_in_file(branch.name)) names += ", " + branch.name;
        return "branches: " + names;
    }
    if (!open_.contains(name)) {
        if (!stands_in_file(name)) return fail("there is no branch '{}'; /switch alone lists them", name);
        if (open_.size() >= static_cast<size_t>(kMostBranches)) return no_more_branches();
        CELLAR_TRY(auto chat, restore(name));
        open_[name] = std::move(chat);
    }
    current_ = name;
    dirty_ = true;  // the file says which branch comes first
    return fmt::format("this is branch '{}' now, {} messages", name, current().messages().size());
}

Result<std::string> ChatBranches::drop(const std::string& name) {
    if (name.empty()) return fail("/drop wants the name of a branch; /switch alone lists them");
    if (name == current_) return fail("this is branch '{}'; /switch to another one first", name);
    const bool in_file = stands_in_file(name);
    if (open_.erase(name) == 0 && !in_file) return fail("there is no branch '{}'; /switch alone lists them", name);
    if (in_file) dropped_.insert(name);
    dirty_ = true;
    return fmt::format("branch '{}' is gone", name);
}

}  // namespace cellar::apps
