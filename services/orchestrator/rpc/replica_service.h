#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLICA_SERVICE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLICA_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/clients/forecaster_pool.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/core/background_thread.h"
#include "services/orchestrator/replicas/shard_set.h"
#include "services/orchestrator/rpc/log_streams.h"
#include "services/orchestrator/rpc/replica_metrics.h"
#include "services/orchestrator/rpc/routing.h"

namespace kernelcast::orchestrator {

// The gRPC interface of one of several orchestrators on one log. Same service as
// OrchestratorService, for all searches and evaluations regardless of their holder. A call goes to
// the shard of its search, or of its request if it has no search. A call about all searches goes to
// every shard. Thread-safe.
class ReplicaService final : public v1::Orchestrator::CallbackService, public ShardListener {
 public:
  // All pointers must outlive the service, and the service must outlive its server. `patience` is
  // how long a call waits for a holder of its shard.
  ReplicaService(ShardSet* shards, const WorkerPool* workers, const ForecasterPool* forecasters,
                 const ChannelOptions& channel, absl::Duration patience, ReplicaMetrics* metrics);
  // The server must be shut down and the set stopped before.
  ~ReplicaService() override;

  // The address at which other orchestrators, and this one, reach this one. Set before calls
  // arrive.
  void set_address(const std::string& address) { router_.set_own_address(address); }
  // Calls continue as long as other orchestrators can take the shards.
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
  grpc::ServerBidiReactor<v1::EvaluateRequest, v1::EvaluateReply>* EvaluateStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::EvaluateBatch, v1::EvaluateBatchReply>* EvaluateBatches(
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
  void OnChanged() override;

 private:
  class EvaluateStreamReactor;
  class EvaluateBatchStream;
  using Evaluation = RoutedCall<v1::EvaluateRequest, v1::EvaluateReply>;
  using Streams = std::shared_ptr<LogStreams>;

  std::shared_ptr<Evaluation> RouteEvaluation(const CallOrigin& origin,
                                              const v1::EvaluateRequest& request,
                                              std::function<bool()> open, Evaluation::Done done);
  // Handles one request of a stream and answers on the stream.
  template <class Sender>
  void EvaluateOn(const Sender& sender, const CallOrigin& origin,
                  const v1::EvaluateRequest& request);
  // Makes sure that the shard's engine has the problem, if the log does, and continues with `then`.
  void WithProblem(const std::shared_ptr<HeldShard>& held, const std::string& problem_id,
                   std::function<void(const absl::Status&)> then);
  // For the three calls about one search. `here` asks the local engine.
  template <class Request, class Reply, class There>
  grpc::ServerUnaryReactor* RouteSearchCall(
      grpc::CallbackServerContext* context, const Request& request, Reply* response,
      std::function<void(const std::shared_ptr<HeldShard>&, const Request&, Engine::SearchDone)>
          here,
      There there);
  // The streams of a shard. Null if the shard is no longer held.
  Streams StreamsOf(int shard) const;
  int ShardOf(const CallOrigin& origin, const std::string& id) const;

  ShardSet* const shards_;
  const WorkerPool* const workers_;
  const ForecasterPool* const forecasters_;
  ReplicaMetrics* const metrics_;
  std::atomic<bool> draining_ = false;
  Router router_;

  mutable std::mutex streams_mutex_;
  // Shared with their streams, but released here last.
  std::map<int, Streams> streams_ ABSL_GUARDED_BY(streams_mutex_);
  std::vector<Streams> closed_streams_ ABSL_GUARDED_BY(streams_mutex_);

  BackgroundThread catalogue_;  // reads and writes problems; last: its tasks use the other members
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_REPLICA_SERVICE_H_
