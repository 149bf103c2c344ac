#ifndef KERNELCAST_SERVICES_WORKER_RPC_WORKER_SERVICE_H_
#define KERNELCAST_SERVICES_WORKER_RPC_WORKER_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/trace_context.h"
#include "common/base/work_queue.h"
#include "common/convert/candidate_exchange.h"
#include "common/convert/problem_cache.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"
#include "services/worker/rpc/credits.h"
#include "services/worker/rpc/measure_queue.h"
#include "services/worker/telemetry/worker_metrics.h"

namespace kernelcast::worker {

// The Worker service over any number of targets. Handlers validate, take a credit, enqueue and
// return. Targets block on the threads of two queues; the measure queue has one thread per device:
//
//   Compile                              -> compile queue -> reply
//   Measure without an artefact          -> compile queue -> measure queue -> reply
//   Measure with an artefact             -> measure queue -> reply
//
// A request holds its credit from admission to reply. When its caller leaves or its deadline
// passes, it is dropped if it waits and stopped if it runs.
class WorkerService final : public v1::Worker::CallbackService {
 public:
  struct Options {
    std::string worker_id;
    int compile_threads = 1;
    uint32_t compile_credits = 8;
    uint32_t measure_credits = 4;
    size_t max_problems = 256;
    size_t max_problem_bytes = 256 << 20;
    // Retry delay sent to callers when the worker is full.
    int64_t compile_retry_ms = 100;
    int64_t measure_retry_ms = 500;
  };

  // Metrics and targets must outlive the service, and the service must outlive its server.
  WorkerService(const Options& options, std::map<std::string, Target*> targets,
                WorkerMetrics& metrics);
  // Waits for running jobs, which the server has cancelled by then.
  ~WorkerService() override;

  // From now on calls fail with UNAVAILABLE. Queued jobs that have not begun fail at once with "not
  // started", so that their callers ask another worker. Running jobs continue.
  void BeginDrain();

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::WorkerDescribeRequest* request,
                                     v1::WorkerDescription* response) override;
  grpc::ServerUnaryReactor* PutProblem(grpc::CallbackServerContext* context,
                                       const v1::PutProblemRequest* request,
                                       v1::PutProblemReply* response) override;
  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context,
                                    const v1::CompileRequest* request,
                                    v1::CompileReply* response) override;
  grpc::ServerBidiReactor<v1::CompileStreamRequest, v1::CompileStreamReply>* CompileStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Measure(grpc::CallbackServerContext* context,
                                    const v1::MeasureRequest* request,
                                    v1::MeasureReply* response) override;

 private:
  class Stream;
  struct Job;
  struct CompileJob;
  struct MeasureJob;
  using CompileDone = std::function<void(absl::StatusOr<v1::CompileReply>)>;
  using MeasureDone = std::function<void(absl::StatusOr<v1::MeasureReply>)>;

  absl::Status Available() const;
  absl::StatusOr<Target*> FindTarget(const std::string& name) const;
  absl::StatusOr<std::shared_ptr<const Problem>> FindProblem(const std::string& id);

  // Admit a request. They call `done` once, on a queue thread, unless they return an error or the
  // caller leaves.
  absl::StatusOr<std::shared_ptr<CompileJob>> StartJob(const v1::CompileRequest& request,
                                                       const std::shared_ptr<CancelToken>& cancel,
                                                       const TraceContext& trace, CompileDone done);
  absl::StatusOr<std::shared_ptr<MeasureJob>> StartJob(const v1::MeasureRequest& request,
                                                       const std::shared_ptr<CancelToken>& cancel,
                                                       const TraceContext& trace, MeasureDone done);
  // The call of a client, which starts one job.
  template <class Request, class Reply>
  grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext* context, const Request& request,
                                  Reply* response);
  void Cancel(Job& job);
  void Release(Job& job);
  // If the worker drains, returns the job to its caller and returns true.
  bool HandBack(MeasureJob& job);
  void CompileThenMeasure(std::shared_ptr<MeasureJob> job);
  void QueueMeasure(std::shared_ptr<MeasureJob> job);
  void RunOnLane(const std::shared_ptr<MeasureJob>& job, size_t lane, int64_t waited_ns);
  absl::StatusOr<Measurement> RunMeasure(MeasureJob& job, size_t device);
  // Takes the lane out of service if its device has failed. Returns whether it has.
  bool CloseFailedLane(size_t lane);
  // Compiles in advance what the problem's candidates need, once per problem.
  void Announce(Target* target, const std::shared_ptr<const Problem>& problem);

  // A device of a target.
  struct Lane {
    std::string target_name;
    Target* target = nullptr;
    size_t device = 0;
  };
  static std::vector<Lane> MakeLanes(const std::map<std::string, Target*>& targets);
  std::vector<MeasureLane> DescribeLanes() const;
  bool DeviceWorks(const Lane& lane) const;

  const Options options_;
  const std::map<std::string, Target*> targets_;
  const std::vector<Lane> lanes_;
  WorkerMetrics& metrics_;
  ProblemCache problems_;
  ReceivedCandidates candidates_;
  Credits compile_credits_;
  Credits measure_credits_;
  std::atomic<bool> draining_ = false;
  std::mutex announced_mutex_;
  // Targets and problems; protected by announced_mutex_.
  std::set<std::pair<const Target*, std::string>> announced_;
  // Last, so that they are destroyed before what their jobs use. Compiling submits to measuring.
  MeasureQueue measuring_;
  WorkQueue compiling_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_RPC_WORKER_SERVICE_H_
