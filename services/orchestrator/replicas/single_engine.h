#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SINGLE_ENGINE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SINGLE_ENGINE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/orchestrator/replicas/engine_directory.h"

namespace kernelcast::orchestrator {

// The directory of an orchestrator with a log of its own: one shard, always held. Thread-safe.
class SingleEngine final : public EngineDirectory {
 public:
  // `store` must be the engine's.
  SingleEngine(std::unique_ptr<EventStore> store, std::unique_ptr<Engine> engine);

  Engine& engine() { return *held_->engine; }

  bool shared() const override { return false; }
  int shards() const override { return 1; }
  int ShardOf(std::string_view) const override { return 0; }
  Place Find(int shard) const override;
  std::vector<std::shared_ptr<HeldShard>> Held() const override { return {held_}; }
  bool HasOthers() const override { return false; }
  void BeginDrain() override { held_->engine->BeginDrain(); }
  void PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done) override;
  bool HasProblem(HeldShard&, std::string_view) const override { return true; }
  void FetchProblem(const std::shared_ptr<HeldShard>&, const std::string&,
                    ProblemDone done) override {
    done(absl::OkStatus());
  }

 private:
  // Shared: see HeldShard.
  const std::shared_ptr<HeldShard> held_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SINGLE_ENGINE_H_
