#include "services/orchestrator/clients/worker_calls.h"

#include <utility>

#include "common/base/log.h"
#include "common/convert/convert.h"
#include "common/rpc/request_error.h"
#include "common/rpc/unary_call.h"
#include "services/orchestrator/clients/worker_replies.h"

namespace kernelcast::orchestrator {
namespace {

using AsyncWorker = v1::Worker::StubInterface::async_interface;

void LogRefusedReply(const Peer& worker, const absl::Status& why) {
  Log(LogLevel::kWarning, "a worker's reply is refused",
      {{"address", worker.address}, {"error", std::string(why.message())}});
}

}  // namespace

WorkerPeer::WorkerPeer(std::string peer_address, const std::shared_ptr<grpc::Channel>& channel)
    : Peer(std::move(peer_address)),
      stub(v1::Worker::NewStub(channel)),
      compiles([s = stub.get()](grpc::ClientContext* context, auto* reactor) {
        s->async()->CompileStream(context, reactor);
      }) {}

void WorkerPeer::Describe(absl::Duration timeout, std::stop_token stop, Done done) {
  StartUnaryCall(
      stub->async(), &AsyncWorker::Describe, {}, {.timeout = timeout, .stop = std::move(stop)},
      [this, done = std::move(done)](const absl::Status& status, v1::WorkerDescription& reply) {
        if (status.ok()) reported = std::move(reply);
        done(status);
      });
}

void WorkerPeer::PutProblem(const Problem& problem, absl::Duration timeout, std::stop_token stop,
                            Done done) {
  v1::PutProblemRequest request;
  *request.mutable_problem() = ProblemFilesToProto(problem);
  StartUnaryCall(
      stub->async(), &AsyncWorker::PutProblem, std::move(request),
      {.timeout = timeout, .stop = std::move(stop)},
      [done = std::move(done)](const absl::Status& status, const auto&) { done(status); });
}

bool WorkerJob::WaitsLike(const PeerJob& other) const {
  const auto& job = static_cast<const WorkerJob&>(other);
  return job.lane == lane && job.target == target && job.device_model == device_model;
}

void CompileJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  auto& worker = static_cast<WorkerPeer&>(peer);
  // A traced compile uses a call of its own, because the trace is in the metadata.
  if (!trace.sampled) {
    SendInBatch(worker, std::move(ended));
    return;
  }
  StartUnaryCall(worker.stub->async(), &AsyncWorker::Compile, request,
                 {timeout, std::move(stop), "kernelcast.v1.Worker/Compile", worker.address, trace},
                 [this, &worker, ended = std::move(ended)](const absl::Status& status,
                                                           const v1::CompileReply& reply) {
                   ended(Read(worker, status, request.request_id(), reply));
                 });
}

// Sends the compile as one of many in a message.
void CompileJob::SendInBatch(WorkerPeer& worker, Peer::Done ended) {
  worker.compiles.Call(request, timeout,
                       [this, &worker, ended = std::move(ended)](const absl::Status& status,
                                                                 const v1::CompileReply* answer) {
                         if (!status.ok()) {
                           ended(status);
                         } else if (answer->has_error()) {
                           const absl::Status error = FromRequestError(answer->error());
                           if (error.code() == absl::StatusCode::kUnavailable)
                             worker.compiles.Renew();
                           ended(error);
                         } else {
                           // A stream finds the request by its own id.
                           ended(Read(worker, status, answer->request_id(), *answer));
                         }
                       });
}

absl::Status CompileJob::Read(const WorkerPeer& worker, const absl::Status& status,
                              const std::string& id, const v1::CompileReply& reply) {
  if (!status.ok()) return status;
  auto compiled = ReadCompileReply(id, reply);
  if (compiled.ok()) {
    result = *std::move(compiled);
  } else {
    LogRefusedReply(worker, compiled.status());
  }
  return compiled.status();
}

void CompileJob::Finish(const absl::Status& status) {
  if (status.ok()) {
    done(std::move(result));
  } else {
    done(status);
  }
}

void MeasureJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  auto& worker = static_cast<WorkerPeer&>(peer);
  StartUnaryCall(worker.stub->async(), &AsyncWorker::Measure, request,
                 {timeout, std::move(stop), "kernelcast.v1.Worker/Measure", worker.address, trace},
                 [this, &worker, ended = std::move(ended)](const absl::Status& status,
                                                           const v1::MeasureReply& reply) {
                   if (!status.ok()) {
                     ended(status);
                     return;
                   }
                   auto measured = ReadMeasureReply(request, reply);
                   if (measured.ok()) {
                     result = *std::move(measured);
                   } else {
                     LogRefusedReply(worker, measured.status());
                   }
                   ended(measured.status());
                 });
}

void MeasureJob::Finish(const absl::Status& status) {
  if (status.ok()) {
    done(std::move(result));
  } else {
    done(status);
  }
}

}  // namespace kernelcast::orchestrator
