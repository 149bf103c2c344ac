#ifndef KERNELCAST_SERVICES_WORKER_RPC_MEASURE_QUEUE_H_
#define KERNELCAST_SERVICES_WORKER_RPC_MEASURE_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"

namespace kernelcast::worker {

// A device that measures one candidate at a time.
struct MeasureLane {
  std::string target;
  std::string device_model;
  std::string architecture;
};

// Constraints on the lane of a job, and its problem. An empty field matches any lane.
struct MeasureWish {
  std::string target;
  std::string device_model;
  std::string architecture;
  std::string problem_id;
  // The lane whose device loads the candidate. Another takes the job only if it has no other work,
  // or if the job was overtaken kMaxOvertaken times.
  std::optional<size_t> loaded_by = std::nullopt;
};

// Jobs that wait for a lane and run on the lane's thread. A lane prefers candidates of its last
// problem, because switching problems costs mapping memory, and preparation the first time. No job
// is overtaken more than kMaxOvertaken times. The queue itself is unbounded; the submitter's
// credits bound it. Thread-safe.
//
// Problems stand for callers, whom the worker does not know. A problem whose jobs have taken
// kAheadNs more of the lanes' time than those of another that waits lets it go first, so that
// candidates that take long delay no others for long.
class MeasureQueue {
 public:
  static constexpr size_t kNoLane = SIZE_MAX;
  static constexpr int kMaxOvertaken = 32;
  static constexpr int64_t kAheadNs = 10'000'000'000;
  static constexpr int64_t kReviveAfterNs = 10'000'000'000;

  // A job receives its lane and its waiting time. kNoLane: no open lane fits or the queue drains,
  // and the job must not begin; it then runs on the thread that submits, closes or drains.
  using Job = std::function<void(size_t lane, int64_t waited_ns)>;
  // Whether a closed lane can be opened again. Called on the lane's thread.
  using Revive = std::function<bool(size_t lane)>;

  MeasureQueue(std::vector<MeasureLane> lanes, Revive revive,
               int64_t revive_after_ns = kReviveAfterNs, const Clock& clock = Clock::Real());
  // Runs the queued jobs, then joins the threads.
  ~MeasureQueue();
  MeasureQueue(const MeasureQueue&) = delete;
  MeasureQueue& operator=(const MeasureQueue&) = delete;

  void Submit(MeasureWish wish, Job job);
  // The lane takes no more jobs until it is revived.
  void Close(size_t lane);
  // Runs queued jobs with kNoLane now, and jobs submitted from now on. Running jobs continue.
  void Drain();

  // Returns the index of the waiting job that lane `number` takes next, or kNoLane. `last` is the
  // lane's last problem, `elsewhere` the last problems of the other lanes.
  struct Waiting {
    MeasureWish wish;
    Job job;
    int64_t since_ns = 0;
    int overtaken = 0;
    bool ahead = false;  // its problem lets others go first
  };
  static size_t Choose(const std::deque<Waiting>& waiting, const MeasureLane& lane,
                       const std::string& last, const std::vector<std::string>& elsewhere,
                       size_t number = 0);

 private:
  void Work(size_t lane);
  // With the mutex held.
  void MarkAhead(const MeasureLane& lane);
  // Removes and returns the jobs that fit no open lane.
  std::deque<Waiting> TakeStranded();
  bool HasOpenLane(const MeasureWish& wish) const;

  const std::vector<MeasureLane> lanes_;
  const Revive revive_;
  const int64_t revive_after_ns_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::deque<Waiting> waiting_;
  std::vector<char> open_;
  std::vector<std::string> last_problem_;  // by lane
  // Time of lanes by problem, and the most of a problem when one of its jobs began. A problem that
  // comes later begins a little below that.
  std::map<std::string, int64_t> used_ns_;
  int64_t reached_ns_ = 0;
  bool stopping_ = false;
  bool draining_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_MEASURE_QUEUE_H_
