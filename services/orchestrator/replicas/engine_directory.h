#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_ENGINE_DIRECTORY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_ENGINE_DIRECTORY_H_

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/domain/problem.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/event_store.h"

namespace kernelcast::orchestrator {

// A shard of the log that this orchestrator holds, with its engine. Shared by the calls that it
// serves, which may outlive the holding. After the shard is given back, the engine is stopped and
// the store is read-only.
struct HeldShard {
  int shard = 0;
  std::unique_ptr<EventStore> store;
  // May be null.
  std::unique_ptr<EngineObserver> observer;
  std::unique_ptr<Engine> engine;  // last: uses the other members

  // Problems that the engine is known to have. For the directory.
  std::mutex problems_mutex;
  std::set<std::string, std::less<>> problems ABSL_GUARDED_BY(problems_mutex);
};

// The engines of an orchestrator: one with a log of its own (SingleEngine), or those of the shards
// that it holds of a log that several orchestrators share (ShardSet). Thread-safe.
class EngineDirectory {
 public:
  virtual ~EngineDirectory() = default;

  // Whether several orchestrators share the log. If not, its only shard is always held here.
  virtual bool shared() const = 0;
  virtual int shards() const = 0;
  // The shard of an id. Never changes.
  virtual int ShardOf(std::string_view id) const = 0;

  struct Place {
    // Not null: the shard is held here. Shared: see HeldShard.
    std::shared_ptr<HeldShard> held;
    // Not empty: the address of another holder. If both are empty, nobody holds the shard now.
    std::string address;
  };
  // `shard` may be any number.
  virtual Place Find(int shard) const = 0;
  virtual std::vector<std::shared_ptr<HeldShard>> Held() const = 0;
  // Whether other orchestrators are taking shards.
  virtual bool HasOthers() const = 0;

  // Accepts no more work, or gives all shards back.
  virtual void BeginDrain() = 0;

  // Stores a problem for all shards. Calls `done` later, on any thread.
  using ProblemDone = std::function<void(const absl::Status&)>;
  virtual void PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done) = 0;
  // Whether the shard's engine has the problem or nobody has. If false, call FetchProblem before
  // work for the problem.
  virtual bool HasProblem(HeldShard& held, std::string_view problem_id) const = 0;
  // Gives the problem to the shard's engine if it is known, then calls `done` on any thread. OK
  // also if it is unknown.
  virtual void FetchProblem(const std::shared_ptr<HeldShard>& held, const std::string& problem_id,
                            ProblemDone done) = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_ENGINE_DIRECTORY_H_
