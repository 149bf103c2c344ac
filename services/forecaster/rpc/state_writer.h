#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_STATE_WRITER_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_STATE_WRITER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/lru_cache.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/rpc/service_metrics.h"
#include "services/forecaster/store/label_store.h"

namespace kernelcast::forecaster {

// A valid label and the bytes to store.
struct LabelToKeep {
  Label label;
  std::string content;
};

// The only thread that waits for the disk. Handles calls in order; the labels of all waiting calls
// are committed together. Refuses calls after Stop or above its limits. Thread-safe.
class StateWriter {
 public:
  struct Options {
    size_t max_calls = 1024;
    int64_t max_bytes = 128 << 20;
  };
  // Called before work on a call begins. Returns whether anyone still waits for it.
  using Open = std::function<bool()>;
  using ProblemDone = std::function<void(absl::StatusOr<std::shared_ptr<const ProblemContext>>)>;
  using ObserveDone = std::function<void(absl::StatusOr<v1::ObserveReply>)>;

  // All pointers must outlive the writer.
  StateWriter(const Options& options, LabelStore* store, LruCache<ProblemContext>* problems,
              std::vector<Backend*> backends, ServiceMetrics* metrics);
  ~StateWriter();

  // RESOURCE_EXHAUSTED with a retry delay if full, UNAVAILABLE after Stop; then `done` is not
  // called. Otherwise it is called once, on the writer's thread.
  [[nodiscard]] absl::Status PutProblem(v1::Problem problem, Open open, ProblemDone done);
  [[nodiscard]] absl::Status Observe(std::vector<LabelToKeep> labels, Open open, ObserveDone done);

  // Finishes the submitted work, then ends the thread.
  void Stop();

 private:
  struct PutProblemCall {
    v1::Problem problem;
    Open open;
    ProblemDone done;
  };
  struct ObserveCall {
    std::vector<LabelToKeep> labels;
    Open open;
    ObserveDone done;
  };
  using Call = std::variant<PutProblemCall, ObserveCall>;
  struct Queued {
    Call call;
    int64_t bytes = 0;
  };

  absl::Status Submit(Queued queued);
  void Loop();
  void Handle(PutProblemCall& call);
  void Handle(std::vector<ObserveCall*>& calls);
  absl::StatusOr<std::shared_ptr<const ProblemContext>> FindProblem(const std::string& problem_id);

  const Options options_;
  LabelStore* const store_;
  LruCache<ProblemContext>* const problems_;
  const std::vector<Backend*> backends_;
  ServiceMetrics* const metrics_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  int64_t queued_bytes_ = 0;
  bool stop_ = false;

  std::thread thread_;  // last: uses the other members
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_STATE_WRITER_H_
