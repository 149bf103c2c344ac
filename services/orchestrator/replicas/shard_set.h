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

// A shard that this orchestrator has, with the engine that runs on it. Shared by the calls that it
// serves: they end in their own time. Once it is given away the engine has stopped, and the store
// can only be read.
struct HeldShard {
  int shard = 0;
  std::unique_ptr<PostgresqlEventStore> store;
  std::unique_ptr<EngineObserver> observer;
  std::unique_ptr<Engine> engine;  // last: it uses the others

  // Problems that the engine is known to know.
  std::mutex problems_mutex;
  std::set<std::string, std::less<>> problems ABSL_GUARDED_BY(problems_mutex);
};

// Called from threads of the set's, one call at a time. Must not call the set but for Find.
class ShardListener {
 public:
  virtual ~ShardListener() = default;
  // Calls for it may come from now on.
  virtual void OnOpened(const std::shared_ptr<HeldShard>& held) = 0;
  // No more calls come; the engine is stopped when this returns.
  virtual void OnClosing(const std::shared_ptr<HeldShard>& held) = 0;
  // After each look at the leases, and after a shard was opened: Find may say something else.
  virtual void OnChanged() = 0;
};

struct ShardSetOptions {
  PostgresqlOptions database;
  // Of a log that does not exist yet; another one keeps its number.
  int shards = 8;
  // How long this orchestrator's silence is waited for before others take its shards.
  absl::Duration lease = absl::Seconds(10);
};

struct ShardFigures {
  int held = 0;
  // Of all shards, those that nobody holds, as the database said last, or that this orchestrator
  // does and does not serve: it is still opening them, or could not keep its leases.
  int unserved = 0;
  int replicas = 0;  // orchestrators that are alive and not leaving, as the database said last
  // Since the start:
  uint64_t taken = 0;   // shards opened
  uint64_t lost = 0;    // those that another took, or may have, while they were held
  uint64_t failed = 0;  // those that could not be opened, or whose engine could not go on
  uint64_t renewals = 0;
  uint64_t failed_renewals = 0;  // the database did not answer in time, or with an error
  int64_t renewed_wall_ns = 0;   // the last renewal; of none, the start
};

// The shards of a log in PostgreSQL that this orchestrator holds, out of all that there are:
//
//   nobody's, or run out  --lease--> opening --replayed--> held --+--> closing --> given back
//                                                                 |
//                   surplus, drain, lost lease, failed engine ----+
//
// A thread renews the leases, five times in the life of one, takes what nobody has up to an equal
// share (shards over live replicas, rounded up), and gives up what is beyond. Another opens shards,
// by replay, and closes them. That a lease was lost is noticed by the fence of the store at the
// latest: nothing is written by two.
//
// Thread-safe.
class ShardSet {
 public:
  using StartEngine = std::function<absl::StatusOr<std::unique_ptr<Engine>>(EventStore* store,
                                                                            EngineObserver* with)>;

  // Connects, and makes the log if it is missing. `start` and `observer` must outlive the set.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ShardSet>> Create(
      const ShardSetOptions& options, StartEngine start, MergedObserver* observer);
  ~ShardSet();

  // Begins to take shards. `address`: where other orchestrators reach this one.
  void Start(const std::string& address, ShardListener* listener);
  // Gives all shards back, one after the other, and takes no more.
  void BeginDrain();
  // Ends the threads; what is held still is given back, where the database answers. The listener
  // is not called any more.
  void Stop();

  int shards() const { return shards_; }
  // Where whatever goes by this id belongs; the same for ever.
  int ShardOf(std::string_view id) const;

  struct Place {
    // Not null: here. Shared: see HeldShard.
    std::shared_ptr<HeldShard> held;
    // Not empty: there. Else, and not here: nobody's at the moment.
    std::string address;
  };
  Place Find(int shard) const;
  std::vector<std::shared_ptr<HeldShard>> Held() const;
  // Whether there are other orchestrators that take shards.
  bool HasOthers() const;
  ShardFigures figures() const;

  // Problems of the whole log. They wait for the database: not for threads that must not block.
  [[nodiscard]] absl::Status PutProblem(const std::string& problem_id,
                                        const std::vector<ProblemFile>& files);
  [[nodiscard]] absl::StatusOr<std::optional<std::vector<ProblemFile>>> GetProblem(
      const std::string& problem_id);

 private:
  enum class Phase { kNone, kOpening, kHeld, kClosing, kClosed };
  struct Slot {
    Phase phase = Phase::kNone;
    std::shared_ptr<HeldShard> held;
    bool failed = false;        // its engine cannot go on
    int64_t not_before_ns = 0;  // it could not be opened: not tried again so soon
  };

  ShardSet(const ShardSetOptions& options, StartEngine start, MergedObserver* observer);

  void Run();
  // One look at the leases; what is to be opened and closed is handed to the other thread.
  void Look();
  // What Look found is true: closes, gives back and takes.
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

  // Used by the thread of the leases alone, but for its construction.
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
  // Until when the leases are ours, by the monotonic clock, if nobody renews them.
  int64_t valid_until_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  ShardFigures figures_ ABSL_GUARDED_BY(mutex_);

  std::mutex listener_mutex_;  // held while the listener is called
  std::unique_ptr<BackgroundThread> opener_;
  std::thread thread_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_SHARD_SET_H_
