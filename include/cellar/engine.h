#pragma once
// An engine: one model, one cache, one team of threads. This header is all that most programs include; docs/library.md has the tour.
//
//   using namespace cellar::v1;
//   auto model = Model::open("model.gguf");
//   if (!model) return complain(model.status());
//   auto engine = Engine::make(*model, {.context = 4096});
//   auto session = engine->open_session();
//   auto answer = session->say("My name is Ada.");
//
// The names are in cellar::v1 and not in cellar, where the library's own parts live under some of the same names.
//
// Thread rule: any thread may call; calls that touch one engine, through sessions too, wait for each other.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <cellar/model.h>
#include <cellar/options.h>
#include <cellar/session.h>
#include <cellar/status.h>

namespace cellar::v1 {

// What was decided at the start.
struct EngineInfo {
    int threads = 0;
    int64_t context = 0;       // most tokens of one session
    std::string cache_type_k;  // "f16"
    std::string cache_type_v;
    std::string cpu_target;          // the instruction set of the kernels: "AVX2"
    std::vector<std::string> notes;  // worth a line: a context cut to memory, the rope regime
};

// Layers with one lifetime, and what is in use of their cells.
struct GroupStats {
    int64_t blocks = 0;         // that there are
    int64_t blocks_used = 0;    // each counted once however many sessions share it
    int64_t blocks_shared = 0;  // of these: by several sessions or kept prefixes
    int64_t cells_filled = 0;   // one holds one token
    uint64_t block_bytes = 0;   // in all layers of the group
};

struct CacheStats {
    std::vector<GroupStats> groups;
    uint64_t used_bytes = 0;   // of everything in use, tables and token logs included
    uint64_t table_bytes = 0;  // of these: fixed by the options
    int open_sessions = 0;
    uint64_t ledger_bytes = 0;  // used_bytes and what steps need: all that kv_budget bounds
    uint64_t budget_bytes = 0;  // that it may reach; 0: nobody knows how much memory there is
    int64_t kept_tokens = 0;    // of kept prefixes, whether a session holds them too or not
};

// A handle, as a Model is.
class Engine {
  public:
    Engine(const Engine&) = default;
    Engine& operator=(const Engine&) = default;

    static Result<Engine> make(const Model& model, const EngineOptions& options = {});

    [[nodiscard]] const Model& model() const;
    [[nodiscard]] const EngineInfo& info() const;
    [[nodiscard]] CacheStats stats() const;

    // Full when max_sessions are open. A wrong template is an error of the first turn, not of opening.
    Result<Session> open_session(const SessionOptions& options = {});

  private:
    friend class Session;
    struct State;
    explicit Engine(std::shared_ptr<State> state) : state_(std::move(state)) {}
    std::shared_ptr<State> state_;  // never null
};

}  // namespace cellar::v1
