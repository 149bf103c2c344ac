#include "services/orchestrator/replicas/single_engine.h"

#include <utility>

namespace kernelcast::orchestrator {
namespace {

std::shared_ptr<HeldShard> Hold(std::unique_ptr<EventStore> store, std::unique_ptr<Engine> engine) {
  auto held = std::make_shared<HeldShard>();
  held->store = std::move(store);
  held->engine = std::move(engine);
  return held;
}

}  // namespace

SingleEngine::SingleEngine(std::unique_ptr<EventStore> store, std::unique_ptr<Engine> engine)
    : held_(Hold(std::move(store), std::move(engine))) {}

EngineDirectory::Place SingleEngine::Find(int shard) const {
  if (shard != 0) return {};
  return {held_, ""};
}

void SingleEngine::PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done) {
  held_->engine->PutProblem(
      std::move(problem),
      [done = std::move(done)](const absl::StatusOr<std::shared_ptr<const Problem>>& stored) {
        done(stored.status());
      });
}

}  // namespace kernelcast::orchestrator
