#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/lru_cache.h"
#include "common/base/work_queue.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/merged_observer.h"
#include "services/orchestrator/replicas/engine_directory.h"
#include "services/orchestrator/replicas/shard_listener.h"
#include "services/orchestrator/store/postgresql_event_store.h"
#include "services/orchestrator/store/postgresql_leases.h"

namespace kernelcast::orchestrator {

struct ShardSetOptions {
  PostgresqlOptions database;
  // Number of shards for a new log. An existing log keeps its number.
  int shards = 8;
  // How long other orchestrators wait before they take the shards of a silent one.
  absl::Duration lease = absl::Seconds(10);
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
class ShardSet final : public EngineDirectory {
 public:
  using StartEngine = std::function<absl::StatusOr<std::unique_ptr<Engine>>(EventStore* store,
                                                                            EngineObserver* with)>;

  // Connects, and creates the log if it is missing. `start` and `observer` must outlive the set.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardSet>> Create(
      const ShardSetOptions& options, StartEngine start, MergedObserver* observer);
  ~ShardSet() override;

  // Starts taking shards. `address` is where other orchestrators reach this one.
  void Start(const std::string& address, ShardListener* listener);
  // Gives all shards back, one after another, and takes no more.
  void BeginDrain() override;
  // Ends the threads. Gives back the remaining shards if the database responds. The listener gets
  // no more calls.
  void Stop();

  bool shared() const override { return true; }
  int shards() const override { return shards_; }
  int ShardOf(std::string_view id) const override;
  Place Find(int shard) const override;
  std::vector<std::shared_ptr<HeldShard>> Held() const override;
  bool HasOthers() const override;
  void PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done) override;
  bool HasProblem(HeldShard& held, std::string_view problem_id) const override;
  void FetchProblem(const std::shared_ptr<HeldShard>& held, const std::string& problem_id,
                    ProblemDone done) override;

 private:
  static constexpr size_t kMaxProblems = 256;
  static constexpr size_t kMaxProblemBytes = 256 << 20;

  enum class Phase { kNone, kOpening, kHeld, kClosing, kClosed };
  struct Slot {
    Phase phase = Phase::kNone;
    std::shared_ptr<HeldShard> held;
    PostgresqlEventStore* store = nullptr;  // of `held`
    bool failed = false;                    // its engine has failed
    int64_t not_before_ns = 0;              // when to try again to open it
  };

  ShardSet(const ShardSetOptions& options, StartEngine start, MergedObserver* observer);

  void Keep(const std::shared_ptr<const Problem>& problem);
  absl::StatusOr<std::shared_ptr<const Problem>> ReadProblem(const std::string& problem_id);
  ShardFigures figures() const;
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

  // The problems of the whole log. Used by the catalogue's thread only, except during construction.
  std::unique_ptr<PostgresqlLeases> catalogue_;
  // Those that this process has parsed, for the shards that need them later.
  LruCache<Problem> problems_{kMaxProblems, kMaxProblemBytes};

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
  std::unique_ptr<WorkQueue> opener_;
  std::thread thread_;
  // Null after Stop. Last: its tasks use the other members.
  std::unique_ptr<WorkQueue> catalogue_thread_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_
