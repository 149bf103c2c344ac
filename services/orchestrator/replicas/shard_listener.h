#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_LISTENER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_LISTENER_H_

#include <cstdint>
#include <memory>

#include "services/orchestrator/replicas/engine_directory.h"

namespace kernelcast::orchestrator {

struct ShardFigures {
  int held = 0;
  // Shards that nobody holds according to the last reply of the database, and shards that this
  // orchestrator holds without serving them, because it is opening them or could not renew its
  // leases.
  int unserved = 0;
  int replicas = 0;  // replicas that are alive and not leaving, from the last reply of the database
  // Since the start:
  uint64_t taken = 0;   // shards opened
  uint64_t lost = 0;    // shards taken, or possibly taken, by another while they were held
  uint64_t failed = 0;  // shards that could not be opened, or whose engine failed
  uint64_t renewals = 0;
  uint64_t failed_renewals = 0;  // the database returned an error or no reply in time
  int64_t renewed_wall_ns = 0;   // last renewal; if none, the start
};

// Called on the threads of a ShardSet, one call at a time. Of the set, implementations may call
// only Find.
class ShardListener {
 public:
  virtual ~ShardListener() = default;
  // Calls for the shard may arrive from now on.
  virtual void OnOpened(const std::shared_ptr<HeldShard>& held) = 0;
  // No more calls arrive. The engine is stopped when this returns.
  virtual void OnClosing(const std::shared_ptr<HeldShard>& held) = 0;
  // Called after each check of the leases, and after a shard was opened: Find may return something
  // else.
  virtual void OnChanged(const ShardFigures& figures) = 0;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_LISTENER_H_
