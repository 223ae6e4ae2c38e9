// cellar logits, tokenize, template, config: for people who check an engine, or their own set-up.
#include <sys/stat.h>

#include <fmt/format.h>

#include <charconv>
#include <span>

#include "apps/commands.h"
#include "apps/terminal.h"
#include "base/file.h"
#include "model/vocabulary_from_gguf.h"
#include "text/template/template.h"

namespace cellar::apps {
namespace {

constexpr int kRowsAtOnce = 32;

// Whole numbers separated by commas or white space.
Result<std::vector<int32_t>> parse_tokens(std::string_view text, const std::string& where, int64_t vocabulary) {
    constexpr std::string_view kBetween = ", \t\r\n";
    std::vector<int32_t> out;
    size_t at = 0;
    while ((at = text.find_first_not_of(kBetween, at)) != std::string_view::npos) {
        const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
        const std::string_view word = text.substr(at, end - at);
        int32_t id = 0;
        const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), id);
        if (error != std::errc() || stopped != word.data() + word.size()) return fail("{}: '{}' is no token id", where, word);
        if (id < 0 || id >= vocabulary) return fail("{}: token {} is outside the vocabulary of {}", where, id, vocabulary);
        out.push_back(id);
        at = end;
    }
    if (out.empty()) return fail("{}: there are no token ids in it", where);
    return out;
}

Result<std::unique_ptr<text::Tokenizer>> vocabulary_of(const std::string& path) {
    CELLAR_TRY(const gguf::File file, gguf::File::open(path));
    if (!model::has_vocabulary(file)) return fail("{} has no vocabulary", path);
    CELLAR_TRY(text::VocabularyData data, model::read_vocabulary(file));
    auto made = text::Tokenizer::make(std::move(data));
    if (!made) return fail("{}: {}", path, made.error().message);
    return made;
}

bool same_file(const std::string& a, const std::string& b) {
    struct stat first {
    }, second{};
    return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

// What is read must not be what is written.
Result<void> check_output(const LogitsArgs& args) {
    if (same_file(args.out, args.tokens)) return fail("--out {} would overwrite the file that --tokens reads", args.out);
    for (const std::string& part : gguf::part_paths(args.model))
        if (same_file(args.out, part)) return fail("--out {} would overwrite the model that is read", args.out);
    return {};
}

}  // namespace

Result<int> logits(const LogitsArgs& args) {
    const EngineSettings& settings = args.engine;
    CELLAR_TRY_VOID(check_output(args));
    CELLAR_TRY(const std::string text, read_text(args.tokens));
    CELLAR_TRY(EngineOptions options, engine_options(settings));
    CELLAR_TRY(const auto model, model::Model::open(args.model, load_options(settings, options)));
    CELLAR_TRY(const std::vector<int32_t> tokens, parse_tokens(text, args.tokens, model->config().vocabulary));
    if (args.last > static_cast<int64_t>(tokens.size())) return fail("--last is {}, but there are {} tokens", args.last, tokens.size());
    if (options.context == 0) options.context = static_cast<int64_t>(tokens.size());
    options.max_outputs = kRowsAtOnce;
    CELLAR_TRY(const auto engine, Engine::make(model, options));
    if (static_cast<int64_t>(tokens.size()) > engine->context())
        return fail(ErrorKind::Full, "{} has {} tokens, but the context holds {}: raise --ctx", args.tokens, tokens.size(), engine->context());
    CELLAR_TRY(AtomicFile out, AtomicFile::create(args.out));
    CELLAR_TRY(const SeqId seq, engine->cache().open());
    const size_t skip = args.last == 0 ? 0 : tokens.size() - static_cast<size_t>(args.last);
    size_t position = 0;
    Result<void> written;
    CELLAR_TRY_VOID(engine->append_all_logits(seq, tokens, [&](ops::Mat rows) {
        for (int64_t i = 0; i < rows.rows; ++i, ++position)
            if (position >= skip && written) written = out.write(std::as_bytes(std::span(rows.row(i), static_cast<size_t>(rows.cols))));
    }));
    if (!written) return pass(std::move(written));
    CELLAR_TRY_VOID(out.commit());
    return kExitOk;
}

Result<int> tokenize(const TokenizeArgs& args) {
    CELLAR_TRY(const std::string text, read_prompt(args.prompt, args.prompt_file));
    CELLAR_TRY(const auto words, vocabulary_of(args.model));
    const std::vector<int32_t> ids = words->encode(text, {!args.no_bos, args.special});
    std::string out;
    for (size_t i = 0; i < ids.size(); ++i) {
        if (args.ids) {
            out += fmt::format("{}{}", i == 0 ? "" : " ", ids[i]);
        } else {
            out += fmt::format("{:6}  {}\n", ids[i], words->piece(ids[i]));
        }
    }
    if (args.ids) out += '\n';
    print_text(out);
    return kExitOk;
}

Result<int> render_template(const TemplateArgs& args) {
    std::string source;
    if (args.file) {
        CELLAR_TRY(source, read_text(*args.file));
    } else {
        CELLAR_TRY(const gguf::File file, gguf::File::open(*args.model));
        CELLAR_TRY(const std::string_view text, file.string("tokenizer.chat_template"));
        source = std::string(text);
    }
    CELLAR_TRY(const std::string input, read_text(args.input));
    CELLAR_TRY(const jinja::Template parsed, jinja::Template::parse(source));
    CELLAR_TRY(const std::string text, parsed.render_text(input));
    print_text(text);
    return kExitOk;
}

Result<int> config(const EngineSettings& settings) {
    CELLAR_TRY(const std::vector<Setting> all, settings_in_force(settings));
    for (const Setting& setting : all) print_text(fmt::format("{:<14} {:<56} {}\n", setting.name, setting.value, setting.origin));
    return kExitOk;
}

}  // namespace cellar::apps
