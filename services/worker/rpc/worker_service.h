#ifndef KERNELCAST_SERVICES_WORKER_RPC_WORKER_SERVICE_H_
#define KERNELCAST_SERVICES_WORKER_RPC_WORKER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/trace_context.h"
#include "common/metrics/metrics.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/rpc/credits.h"
#include "services/worker/rpc/job_queue.h"
#include "services/worker/rpc/problem_store.h"
#include "services/worker/rpc/worker_metrics.h"

namespace kernelcast::worker {

// The Worker service over any number of targets. Handlers validate, take a credit, queue and
// return; targets block on the threads of two queues:
//
//   Compile                              -> compile queue -> reply
//   Measure without an artefact          -> compile queue -> measure queue -> reply
//   Measure with an artefact             -> measure queue -> reply
//
// A request keeps its credit from admission to reply. When its caller leaves or its deadline passes
// it is dropped where it waits and stopped where it runs.
class WorkerService final : public v1::Worker::CallbackService {
 public:
  struct Options {
    std::string worker_id;
    int compile_threads = 1;
    uint32_t compile_credits = 8;
    uint32_t measure_credits = 4;
    int64_t max_problems = 256;
    int64_t max_problem_bytes = int64_t{256} << 20;
    // What callers who find it full are told to wait.
    int64_t compile_retry_ms = 100;
    int64_t measure_retry_ms = 500;
  };

  // Metrics and targets must outlive the service, and the service its server. One thread measures.
  WorkerService(const Options& options, std::map<std::string, Target*> targets,
                MetricsRegistry& metrics);
  // Waits for the jobs that still run; the server has cancelled them by then.
  ~WorkerService() override;

  // From now on calls end with UNAVAILABLE, and so do at once those that are queued and not begun:
  // "not started", so that their callers ask another. What runs goes on.
  void BeginDrain();

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::WorkerDescribeRequest* request,
                                     v1::WorkerDescription* response) override;
  grpc::ServerUnaryReactor* PutProblem(grpc::CallbackServerContext* context,
                                       const v1::WorkerPutProblemRequest* request,
                                       v1::WorkerPutProblemReply* response) override;
  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context,
                                    const v1::CompileRequest* request,
                                    v1::CompileReply* response) override;
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>* CompileStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Measure(grpc::CallbackServerContext* context,
                                    const v1::MeasureRequest* request,
                                    v1::MeasureReply* response) override;
  grpc::ServerBidiReactor<v1::MeasureRequest, v1::MeasureStreamReply>* MeasureStream(
      grpc::CallbackServerContext* context) override;

 private:
  class Stream;
  class CompileBatchStream;
  struct Job;
  struct CompileJob;
  struct MeasureJob;
  // A measurement, or why there is none: a source that does not compile, or an error.
  using MeasureEnd = absl::StatusOr<v1::MeasureReply>;
  using MeasureDone = std::function<void(MeasureEnd)>;

  absl::Status Available() const;
  absl::StatusOr<Target*> FindTarget(const std::string& name) const;
  absl::StatusOr<std::shared_ptr<const Problem>> FindProblem(const std::string& id);
  absl::StatusOr<Candidate> AdmitCandidate(const v1::Candidate& message) const;

  using CompileDone = std::function<void(absl::StatusOr<v1::CompileReply>)>;
  // As StartMeasure.
  absl::StatusOr<std::shared_ptr<CompileJob>> StartCompile(
      const v1::CompileRequest& request, const std::shared_ptr<CancelToken>& cancel,
      const TraceContext& trace, CompileDone done);
  void Leave(Job& job);
  void Release(Job& job);
  // Calls `done` once, on a thread of the queues, unless it returns an error or the caller leaves.
  absl::StatusOr<std::shared_ptr<MeasureJob>> StartMeasure(
      const v1::MeasureRequest& request, const std::shared_ptr<CancelToken>& cancel,
      const TraceContext& trace, MeasureDone done);
  // Whether the worker drains, and the job has been given back for that.
  bool HandBack(MeasureJob& job);
  void CompileThenMeasure(std::shared_ptr<MeasureJob> job);
  void QueueMeasure(std::shared_ptr<MeasureJob> job);
  absl::StatusOr<Measurement> RunMeasure(MeasureJob& job);

  const Options options_;
  const std::map<std::string, Target*> targets_;
  WorkerMetrics metrics_;
  ProblemStore problems_;
  Credits compile_credits_;
  Credits measure_credits_;
  std::atomic<bool> draining_ = false;
  // Last, so that they end before what their jobs use. Compiling submits to measuring.
  JobQueue measuring_;
  JobQueue compiling_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_WORKER_SERVICE_H_
