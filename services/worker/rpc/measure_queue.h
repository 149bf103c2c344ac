#ifndef KERNELCAST_SERVICES_WORKER_RPC_MEASURE_QUEUE_H_
#define KERNELCAST_SERVICES_WORKER_RPC_MEASURE_QUEUE_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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
class MeasureQueue {
 public:
  static constexpr size_t kNoLane = SIZE_MAX;
  static constexpr int kMaxOvertaken = 32;
  static constexpr int64_t kReviveAfterNs = 10'000'000'000;

  // A job receives its lane and its waiting time. kNoLane: no open lane fits or the queue drains,
  // and the job must not begin; it then runs on the thread that submits, closes or drains.
  using Job = std::function<void(size_t lane, int64_t waited_ns)>;
  // Whether a closed lane can be opened again. Called on the lane's thread.
  using Revive = std::function<bool(size_t lane)>;

  MeasureQueue(std::vector<MeasureLane> lanes, Revive revive,
               int64_t revive_after_ns = kReviveAfterNs);
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
  };
  static size_t Choose(const std::deque<Waiting>& waiting, const MeasureLane& lane,
                       const std::string& last, const std::vector<std::string>& elsewhere,
                       size_t number = 0);

 private:
  void Work(size_t lane);
  // Removes and returns the jobs that fit no open lane.
  std::deque<Waiting> TakeStranded();
  bool HasOpenLane(const MeasureWish& wish) const;

  const std::vector<MeasureLane> lanes_;
  const Revive revive_;
  const int64_t revive_after_ns_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // State below is protected by mutex_.
  std::deque<Waiting> waiting_;
  std::vector<char> open_;
  std::vector<std::string> last_problem_;  // by lane
  bool stopping_ = false;
  bool draining_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_MEASURE_QUEUE_H_
