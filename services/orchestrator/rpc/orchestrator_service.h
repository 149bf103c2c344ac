#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ORCHESTRATOR_SERVICE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ORCHESTRATOR_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/clients/forecaster_pool.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/rpc/log_streams.h"

namespace kernelcast::orchestrator {

// The gRPC interface of the engine. Handlers validate, pass the request on and return. The log is
// read on a background thread. Thread-safe.
class OrchestratorService final : public v1::Orchestrator::CallbackService {
 public:
  // All pointers must outlive the service, and the service must outlive its server.
  OrchestratorService(Engine* engine, const EventStore* store, const WorkerPool* workers,
                      const ForecasterPool* forecasters);
  ~OrchestratorService() override;

  // Refuses evaluations and searches from now on, and ends the streams of watchers.
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

 private:
  Engine* const engine_;
  const WorkerPool* const workers_;
  const ForecasterPool* const forecasters_;
  std::atomic<bool> draining_ = false;
  // Shared with its streams, which end before the server does.
  std::shared_ptr<LogStreams> log_streams_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_RPC_ORCHESTRATOR_SERVICE_H_
