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
#include "base/units.h"

namespace cellar::apps {
namespace {

bool is_branch_name(const std::string& name) {
    return !name.empty() && name.size() <= 64 && name.find_first_of(" \t/\n") == std::string::npos;
}

// Moves a file out of the way, unless somebody works with it.
Result<void> set_aside(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) return {};
    if (fd < 0) return fail(ErrorKind::System, "{}: cannot be replaced: {}", path, std::strerror(errno));
    const bool locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
    struct stat info {};
    const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    bool moved = false;
    int error = EEXIST;
    // What was set aside before is not lost either.
    for (int i = 1; locked && regular && !moved && error == EEXIST && i < 1000; ++i) {
        const std::string aside = path + (i == 1 ? ".old" : fmt::format(".old{}", i));
        moved = renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), RENAME_NOREPLACE) == 0;
        error = errno;
    }
    close(fd);
    if (!regular) return fail("{}: it is no regular file, so no session can take its place", path);
    if (!locked) return fail(ErrorKind::System, "{}: another process has this session open", path);
    if (!moved) return fail(ErrorKind::System, "{}: cannot be replaced: {}", path, std::strerror(error));
    return {};
}

}  // namespace

Result<ChatBranches> ChatBranches::open(Engine& engine, const ConversationOptions& options, const std::string& path, bool begin_anew) {
    ChatBranches out(engine, options);
    if (begin_anew && path.empty()) return fail("--session-new needs --session FILE");
    if (!path.empty()) {
        if (begin_anew) CELLAR_TRY_VOID(set_aside(path));
        auto session = Session::open(path, engine);
        if (!session && session.error().kind == ErrorKind::Input)
            return fail("{}; --session-new begins anew and keeps the old file as {}.old", session.error().message, path);
        if (!session) return pass(std::move(session));
        out.session_ = *std::move(session);
        if (const uint64_t unread = out.session_->file().unread_bytes(); unread > 0)
            say(fmt::format("{}: {} behind the last whole state cannot be read: a save that did not end, or damage", path, format_bytes(unread)));
    }
    if (out.session_ && !out.session_->branches().empty()) {
        CELLAR_TRY_VOID(out.take_up());
    } else {
        CELLAR_TRY(out.open_[out.current_], Conversation::make(engine, options));
    }
    return out;
}

Result<std::unique_ptr<Conversation>> ChatBranches::restore(const std::string& name) {
    CELLAR_TRY(auto chat, Conversation::make(*engine_, options_));
    CELLAR_TRY(const Session::Restored restored, session_->restore(name, chat->seq()));
    CELLAR_TRY_VOID(chat->resume(session_->find(name)->host));
    std::string note;
    if (restored.converted) note += "; its rows were stored in another format and are converted";
    if (restored.other_numbers) note += "; its rows were computed on another numeric path";
    say(fmt::format("branch '{}': {} messages, {} tokens are in the cache again, nothing was read anew{}", name, chat->messages().size(),
                    restored.length, note));
    return chat;
}

Result<void> ChatBranches::take_up() {
    current_ = session_->branches().front().name;
    CELLAR_TRY(auto chat, restore(current_));
    open_[current_] = std::move(chat);
    if (!options_.system.empty()) say("the chat goes on with the system text it was saved with; /system changes it");
    return {};
}

Result<Session::Saved> ChatBranches::write() {
    std::vector<Session::Source> sources{{current_, current().seq(), current().state()}};
    for (const auto& [name, chat] : open_)
        if (name != current_) sources.push_back({name, chat->seq(), chat->state()});
    for (const Session::Branch& branch : session_->branches())
        if (!open_.contains(branch.name)) sources.push_back({branch.name, std::nullopt, ""});
    return session_->save(sources);
}

Result<void> ChatBranches::save_if_wanted() {
    if (!session_) return {};
    auto saved = write();
    if (!saved) return fail(saved.error().kind, "not saved: {}", saved.error().message);
    return {};
}

Result<std::string> ChatBranches::save(const std::string& path) {
    if (path.empty() && !session_) return fail("/save wants a file name: /save chat.session");
    std::unique_ptr<Session> former;
    if (!path.empty() && (!session_ || session_->path() != path)) {
        CELLAR_TRY(auto session, Session::open(path, *engine_));
        if (!session->branches().empty()) return fail("{}: another chat stands in it; choose another name", path);
        // Branches that stand in the old file alone come along.
        if (session_) {
            const std::vector<Session::Branch> branches = session_->branches();
            for (const Session::Branch& branch : branches) {
                if (open_.contains(branch.name)) continue;
                CELLAR_TRY(auto chat, restore(branch.name));
                open_[branch.name] = std::move(chat);
            }
        }
        former = std::exchange(session_, std::move(session));
        auto saved = write();
        if (!saved) {
            session_ = std::move(former);  // the file that worked stays in use
            return pass(std::move(saved));
        }
        return fmt::format("saved to {}: {} tokens written, {} in all", session_->path(), saved->tokens_written, format_bytes(saved->file_bytes));
    }
    CELLAR_TRY(const Session::Saved saved, write());
    return fmt::format("saved to {}: {} tokens written, {} in all", session_->path(), saved.tokens_written, format_bytes(saved.file_bytes));
}

Result<std::string> ChatBranches::fork(const std::string& name) {
    if (!is_branch_name(name)) return fail("/fork wants a name of up to 64 characters without spaces and slashes");
    if (open_.contains(name) || (session_ && session_->find(name) != nullptr)) return fail("there is a branch '{}' already", name);
    CELLAR_TRY(auto chat, current().fork());
    open_[name] = std::move(chat);
    const std::string from = std::exchange(current_, name);
    return fmt::format("this is branch '{}' now; '{}' stays as it is", name, from);
}

Result<std::string> ChatBranches::go_to(const std::string& name) {
    if (name.empty()) {
        std::string names;
        for (const auto& [other, chat] : open_) names += fmt::format("{}{}{}", names.empty() ? "" : ", ", other, other == current_ ? " (here)" : "");
        if (session_)
            for (const Session::Branch& branch : session_->branches())
                if (!open_.contains(branch.name)) names += ", " + branch.name;
        return "branches: " + names;
    }
    if (!open_.contains(name)) {
        if (!session_ || session_->find(name) == nullptr) return fail("there is no branch '{}'; /switch alone lists them", name);
        CELLAR_TRY(auto chat, restore(name));
        open_[name] = std::move(chat);
    }
    current_ = name;
    return fmt::format("this is branch '{}' now, {} messages", name, current().messages().size());
}

}  // namespace cellar::apps
