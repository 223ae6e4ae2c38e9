#pragma once
// Engines on tiny models, for tests.
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cellar::tiny {

// The golden recipe of this name as a model file in the build folder, made once for each process.
std::shared_ptr<const model::Model> model(const std::string& recipe);

// The model that the repository ships.
std::string shipped_path();
std::shared_ptr<const model::Model> shipped();

// The words and the template of the shipped model over weights that mean nothing; every layer has a window of 32.
std::shared_ptr<const model::Model> windowed_chat();

// Options that tests start from: two threads, poisoned cells.
EngineOptions options(kv::RowFormat format = kv::RowFormat::F16);

std::unique_ptr<Engine> engine(const std::shared_ptr<const model::Model>& model, const EngineOptions& options);

// Pseudo-random ids inside the model's vocabulary.
std::vector<int32_t> tokens(const model::Model& model, size_t count, uint64_t seed = 1);

// Runs ids on a new sequence in chunks of `chunk` and returns the logits behind the last one.
std::vector<float> fresh_logits(Engine& engine, std::span<const int32_t> ids, size_t chunk = 512);

}  // namespace cellar::tiny
