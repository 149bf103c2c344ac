#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "services/orchestrator/core/background_thread.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/merged_observer.h"
#include "services/orchestrator/store/postgresql_event_store.h"
#include "services/orchestrator/store/postgresql_leases.h"

namespace kernelcast::orchestrator {

// A shard that this orchestrator holds, with its engine. Shared by the calls that it serves, which
// may outlive the holding. After the shard is given back, the engine is stopped and the store is
// read-only.
struct HeldShard {
  int shard = 0;
  std::unique_ptr<PostgresqlEventStore> store;
  std::unique_ptr<EngineObserver> observer;
  std::unique_ptr<Engine> engine;  // last: uses the other members

  // Problems that the engine has.
  std::mutex problems_mutex;
  std::set<std::string, std::less<>> problems ABSL_GUARDED_BY(problems_mutex);
};

// Called on the set's threads, one call at a time. Of the set, implementations may call only Find.
class ShardListener {
 public:
  virtual ~ShardListener() = default;
  // Calls for the shard may arrive from now on.
  virtual void OnOpened(const std::shared_ptr<HeldShard>& held) = 0;
  // No more calls arrive. The engine is stopped when this returns.
  virtual void OnClosing(const std::shared_ptr<HeldShard>& held) = 0;
  // Called after each check of the leases, and after a shard was opened: Find may return something
  // else.
  virtual void OnChanged() = 0;
};

struct ShardSetOptions {
  PostgresqlOptions database;
  // Number of shards for a new log. An existing log keeps its number.
  int shards = 8;
  // How long other orchestrators wait before they take the shards of a silent one.
  absl::Duration lease = absl::Seconds(10);
};

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

// The shards of a log in PostgreSQL that this orchestrator holds:
//
//   free, or lease expired  --lease--> opening --replayed--> held --+--> closing --> given back
//                                                                   |
//                     surplus, drain, lost lease, failed engine ----+
//
// One thread renews the leases, five times per lease duration, takes free shards up to an equal
// share (shards over live replicas, rounded up), and gives up shards beyond that. Another thread
// opens shards, by replay, and closes them. The store's fencing detects a lost lease at the latest:
// two orchestrators never both write.
//
// Thread-safe.
class ShardSet {
 public:
  using StartEngine = std::function<absl::StatusOr<std::unique_ptr<Engine>>(EventStore* store,
                                                                            EngineObserver* with)>;

  // Connects, and creates the log if it is missing. `start` and `observer` must outlive the set.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardSet>> Create(
      const ShardSetOptions& options, StartEngine start, MergedObserver* observer);
  ~ShardSet();

  // Starts taking shards. `address` is where other orchestrators reach this one.
  void Start(const std::string& address, ShardListener* listener);
  // Gives all shards back, one after another, and takes no more.
  void BeginDrain();
  // Ends the threads. Gives back the remaining shards if the database responds. The listener gets
  // no more calls.
  void Stop();

  int shards() const { return shards_; }
  // The shard of an id. Never changes.
  int ShardOf(std::string_view id) const;

  struct Place {
    // Not null: the shard is held here. Shared: see HeldShard.
    std::shared_ptr<HeldShard> held;
    // Not empty: the address of another holder. If both are empty, nobody holds the shard now.
    std::string address;
  };
  Place Find(int shard) const;
  std::vector<std::shared_ptr<HeldShard>> Held() const;
  // Whether other orchestrators are taking shards.
  bool HasOthers() const;
  ShardFigures figures() const;

  // Problems of the whole log. These calls wait for the database, so threads that must not block
  // must not make them.
  [[nodiscard]] absl::Status PutProblem(const std::string& problem_id,
                                        const std::vector<ProblemFile>& files);
  [[nodiscard]] absl::StatusOr<std::optional<std::vector<ProblemFile>>> GetProblem(
      const std::string& problem_id);

 private:
  enum class Phase { kNone, kOpening, kHeld, kClosing, kClosed };
  struct Slot {
    Phase phase = Phase::kNone;
    std::shared_ptr<HeldShard> held;
    bool failed = false;        // its engine has failed
    int64_t not_before_ns = 0;  // when to try again to open it
  };

  ShardSet(const ShardSetOptions& options, StartEngine start, MergedObserver* observer);

  void Run();
  // Checks the leases once. Passes shards to be opened and closed to the other thread.
  void Look();
  // Acts on the result of Look: closes shards, gives them back and takes them.
  void Act(const PostgresqlLeases::View& view);
  void Open(int shard, const std::string& writer);
  void OpenNow(int shard, const std::string& writer);
  void Close(int shard, const char* why);
  void CloseNow(int shard);
  void Wake();

  const ShardSetOptions options_;
  const StartEngine start_;
  MergedObserver* const observer_;
  int shards_ = 0;
  std::string address_;
  ShardListener* listener_ = nullptr;
  std::atomic<bool> stop_ = false;

  // Used by the lease thread only, except during construction.
  std::unique_ptr<PostgresqlLeases> leases_;
  bool away_ = false;

  std::mutex catalogue_mutex_;
  std::unique_ptr<PostgresqlLeases> catalogue_ ABSL_GUARDED_BY(catalogue_mutex_);

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  PostgresqlLeases::View view_ ABSL_GUARDED_BY(mutex_);
  // End of our leases on the monotonic clock, if they are not renewed.
  int64_t valid_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  ShardFigures figures_ ABSL_GUARDED_BY(mutex_);

  std::mutex listener_mutex_;  // held while the listener is called
  std::unique_ptr<BackgroundThread> opener_;
  std::thread thread_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_
