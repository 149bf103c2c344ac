#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ORCHESTRATOR_SERVICE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ORCHESTRATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/work_queue.h"
#include "common/convert/problem_cache.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/clients/forecaster_pool.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/replicas/engine_directory.h"
#include "services/orchestrator/replicas/shard_listener.h"
#include "services/orchestrator/rpc/log_streams.h"
#include "services/orchestrator/rpc/replica_metrics.h"
#include "services/orchestrator/rpc/routing.h"

namespace kernelcast::orchestrator {

// The gRPC interface of an orchestrator, over the engines of a directory. A call goes to the shard
// of its search, or of its request if it has no search. A call about all searches goes to every
// shard. Calls for shards that other orchestrators hold are forwarded to them. With a log of its
// own there is one shard, which is always here. Handlers validate, pass the request on and return.
// Thread-safe.
class OrchestratorService final : public v1::Orchestrator::CallbackService, public ShardListener {
 public:
  // All pointers must outlive the service, and the service must outlive its server. For a shared
  // log: `channel` is for calls to other orchestrators, and `patience` is how long a call waits for
  // a holder of its shard.
  OrchestratorService(EngineDirectory* engines, const WorkerPool* workers,
                      const ForecasterPool* forecasters, const ChannelOptions& channel,
                      absl::Duration patience, ReplicaMetrics* metrics);
  // The server must be shut down before, and the directory's threads and engines stopped, if they
  // call the service.
  ~OrchestratorService() override;

  // The address at which other orchestrators, and this one, reach this one. Set before calls
  // arrive.
  void set_address(const std::string& address) { router_.set_own_address(address); }
  // Refuses evaluations and searches from now on, and ends the streams of watchers. With a shared
  // log, calls continue as long as other orchestrators can take the shards.
  void BeginDrain();

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::OrchestratorDescribeRequest* request,
                                     v1::OrchestratorDescription* response) override;
  grpc::ServerUnaryReactor* PutProblem(grpc::CallbackServerContext* context,
                                       const v1::PutProblemRequest* request,
                                       v1::PutProblemReply* response) override;
  grpc::ServerUnaryReactor* Evaluate(grpc::CallbackServerContext* context,
                                     const v1::EvaluateRequest* request,
                                     v1::EvaluateReply* response) override;
  grpc::ServerBidiReactor<v1::EvaluateStreamRequest, v1::EvaluateStreamReply>* EvaluateStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* StartSearch(grpc::CallbackServerContext* context,
                                        const v1::StartSearchRequest* request,
                                        v1::StartSearchReply* response) override;
  grpc::ServerWriteReactor<v1::SearchEvent>* WatchSearch(
      grpc::CallbackServerContext* context, const v1::WatchSearchRequest* request) override;
  grpc::ServerUnaryReactor* StopSearch(grpc::CallbackServerContext* context,
                                       const v1::StopSearchRequest* request,
                                       v1::StopSearchReply* response) override;
  grpc::ServerUnaryReactor* GetSearch(grpc::CallbackServerContext* context,
                                      const v1::GetSearchRequest* request,
                                      v1::GetSearchReply* response) override;
  grpc::ServerUnaryReactor* ListSearches(grpc::CallbackServerContext* context,
                                         const v1::ListSearchesRequest* request,
                                         v1::ListSearchesReply* response) override;
  grpc::ServerWriteReactor<v1::ExportRecord>* Export(grpc::CallbackServerContext* context,
                                                     const v1::ExportRequest* request) override;

  void OnOpened(const std::shared_ptr<HeldShard>& held) override;
  void OnClosing(const std::shared_ptr<HeldShard>& held) override;
  void OnChanged(const ShardFigures& figures) override;

 private:
  class EvaluateStreamReactor;
  class LocalEvaluations;
  using RoutedEvaluation = RoutedCall<v1::EvaluateRequest, v1::EvaluateReply>;
  using Streams = std::shared_ptr<LogStreams>;

  // Who waits for the reply to an evaluation.
  struct Caller {
    std::function<bool()> open;  // whether anybody still waits
    RoutedEvaluation::Done done;
  };

  // Passes the request to the engine here, through `local`, or to another orchestrator. Returns the
  // routed call if there is one.
  std::shared_ptr<RoutedEvaluation> EvaluateOne(const v1::EvaluateRequest& request,
                                                const CallOrigin& origin, Caller caller,
                                                LocalEvaluations& local);
  std::shared_ptr<RoutedEvaluation> MakeRoute(int shard, v1::EvaluateRequest request,
                                              const CallOrigin& origin, Caller caller);
  // Makes sure that the shard's engine has the problem, if the log does, and continues with `then`.
  void WithProblem(const std::shared_ptr<HeldShard>& held, const std::string& problem_id,
                   EngineDirectory::ProblemDone then);
  void EvaluateWithProblem(const std::shared_ptr<HeldShard>& held, Engine::EvaluateCommand command,
                           Engine::EvaluateDone done);
  // For the three calls about one search. `here` asks the local engine.
  template <class Request, class Reply>
  grpc::ServerUnaryReactor* RouteSearchCall(
      grpc::CallbackServerContext* context, const Request& request, Reply* response,
      const char* method,
      std::function<void(const std::shared_ptr<HeldShard>&, const Request&, const CallOrigin&,
                         Engine::SearchDone)>
          here,
      typename RoutedCall<Request, Reply>::Method there);
  // The streams of a shard. Null if the shard is no longer held.
  Streams StreamsOf(int shard) const;
  // Whether a stream about the shard must be served here.
  bool StreamsHere(const CallOrigin& origin) const { return origin.shard || !engines_->shared(); }
  int ShardOf(const CallOrigin& origin, std::string_view id) const;
  int ShardOf(const CallOrigin& origin, const v1::EvaluateRequest& request) const;

  EngineDirectory* const engines_;
  const WorkerPool* const workers_;
  const ForecasterPool* const forecasters_;
  ReplicaMetrics* const metrics_;
  std::atomic<bool> draining_ = false;
  Router router_;

  mutable std::mutex streams_mutex_;
  // Shared with their streams, but released here last.
  std::map<int, Streams> streams_ ABSL_GUARDED_BY(streams_mutex_);
  std::vector<Streams> closed_streams_ ABSL_GUARDED_BY(streams_mutex_);

  ProblemCache problems_;
  WorkQueue parser_;  // parses problems; last: its tasks use the other members
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ORCHESTRATOR_SERVICE_H_
