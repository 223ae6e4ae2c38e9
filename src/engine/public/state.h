#pragma once
// What the handles of the public face stand for.
#include <memory>
#include <mutex>

#include <cellar/engine.h>

#include "engine/conversation.h"
#include "engine/engine.h"
#include "engine/public/guard.h"

namespace cellar::v1 {

struct Model::State {
    std::shared_ptr<const model::Model> model;
    ModelInfo info;
};

// Invariants
//  1. Whoever touches `engine` holds the mutex. It is recursive, since callbacks run while it is held and may read.
//  2. While `running`, only the thread that holds the mutex can see it: that is how calls from inside a callback are told apart.
//  3. `broken`: an exception went through a step, which may be open for ever. Nothing runs any more.
struct Engine::State {
    explicit State(const Model& m) : model(m) {}

    std::recursive_mutex mutex;
    Model model;
    std::unique_ptr<cellar::Engine> engine;
    EngineInfo info;
    bool running = false;
    bool broken = false;
};

struct Session::State {
    State(std::shared_ptr<Engine::State> e, SeqId s, SessionOptions o) : engine(std::move(e)), seq(s), options(std::move(o)) {}
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    std::shared_ptr<Engine::State> engine;
    SeqId seq;
    SessionOptions options;
    std::unique_ptr<Conversation> chat;  // made by the first turn, on `seq`
    bool appended = false;               // tokens that no answer has kept as a prefix
};

// The formats that the options name.
cellar::Result<model::CacheFormats> cache_formats(const EngineOptions& options);

// Checked, in the words of the public options.
cellar::Result<cellar::EngineOptions> engine_options(const EngineOptions& options);

// A new sequence, Full when max_sessions are open.
cellar::Result<SeqId> open_seq(cellar::Engine& engine);

}  // namespace cellar::v1
