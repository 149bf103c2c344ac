#ifndef KERNELCAST_SERVICES_GATEWAY_CLIENTS_ORCHESTRATOR_EVALUATOR_H_
#define KERNELCAST_SERVICES_GATEWAY_CLIENTS_ORCHESTRATOR_EVALUATOR_H_

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/trace_context.h"
#include "common/rpc/channel.h"
#include "common/rpc/unary_call.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/gateway/core/task.h"

namespace kernelcast::gateway {

struct OrchestratorEvaluatorOptions {
  std::string address;
  ChannelOptions channel;
  // How long an evaluation may take, with all repetitions, before it ends without a verdict.
  absl::Duration patience = absl::Hours(1);
  // The deadline of one call. The evaluation continues after it, and the next call waits for it.
  absl::Duration call_timeout = absl::Minutes(1);
  // The files of a problem that submissions do not bring, or null.
  std::function<const std::vector<ProblemFile>*(std::string_view problem_id)> files_of;
  // Called when a call is made again, on any thread. May be empty.
  std::function<void()> on_repeat;
};

// Asks the orchestrator, with mode measure. Calls that fail because the orchestrator is away, busy
// or slow are made again with the same request id. A problem that the orchestrator does not know is
// put, and the call is made again. Calls belong to the trace of the thread that called Evaluate.
// Thread-safe.
class OrchestratorEvaluator final : public Evaluator {
 public:
  // INVALID_ARGUMENT: see MakeChannel.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OrchestratorEvaluator>> Create(
      const OrchestratorEvaluatorOptions& options);
  ~OrchestratorEvaluator() override;
  OrchestratorEvaluator(const OrchestratorEvaluator&) = delete;
  OrchestratorEvaluator& operator=(const OrchestratorEvaluator&) = delete;

  void Evaluate(const std::string& request_id, std::shared_ptr<const Submission> submission,
                Done done) override;
  bool healthy() const override;

  // Cancels all calls. Returns when no callback runs any more; some never run. Idempotent.
  void Stop();

  // Puts a problem and returns its default target. Blocks. For startup.
  [[nodiscard]] absl::StatusOr<std::string> PutProblem(const std::vector<ProblemFile>& files,
                                                       absl::Duration timeout);

 private:
  struct Call {
    v1::EvaluateRequest request;
    std::shared_ptr<const Submission> submission;
    Done done;
    int64_t give_up_ns = 0;
    absl::Duration pause;
    bool problem_put = false;
    TraceContext trace;  // of the request that asked
  };

  explicit OrchestratorEvaluator(const OrchestratorEvaluatorOptions& options);
  // Makes a call at a time of the monotonic clock.
  void Schedule(int64_t at_ns, std::shared_ptr<Call> call);
  void Run();
  UnaryCallOptions OptionsFor(const Call& call, const char* span);
  void Ask(const std::shared_ptr<Call>& call);
  void Put(const std::shared_ptr<Call>& call);
  void OnReply(const std::shared_ptr<Call>& call, const absl::Status& status,
               const v1::EvaluateReply& reply);
  void OnPut(const std::shared_ptr<Call>& call, const absl::Status& status);
  void Repeat(const std::shared_ptr<Call>& call, const absl::Status& status);
  void Finish(const std::shared_ptr<Call>& call, Verdict verdict);
  void CallStarts();
  void CallEnds();
  bool stopping() const;

  // Constant after construction.
  const OrchestratorEvaluatorOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Orchestrator::Stub> stub_;
  std::stop_source stop_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<int64_t, std::shared_ptr<Call>> due_ ABSL_GUARDED_BY(mutex_);
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;  // in flight
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The verdict in a settled evaluation. A forecast is none.
Verdict VerdictFrom(const v1::Evaluation& evaluation);

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_CLIENTS_ORCHESTRATOR_EVALUATOR_H_
