#include "services/orchestrator/clients/worker_calls.h"

#include <utility>

#include "common/base/log.h"
#include "common/rpc/unary_call.h"
#include "services/orchestrator/clients/worker_replies.h"

namespace kernelcast::orchestrator {
namespace {

void LogRefusedReply(const Peer& worker, const absl::Status& why) {
  Log(LogLevel::kWarning, "a worker's reply is refused",
      {{"address", worker.address}, {"error", std::string(why.message())}});
}

}  // namespace

bool WorkerJob::WaitsLike(const PeerJob& other) const {
  const auto& job = static_cast<const WorkerJob&>(other);
  return job.lane == lane && job.target == target && job.device_model == device_model;
}

void CompileJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  auto& worker = static_cast<WorkerPeer&>(peer);
  v1::CompileRequest message = request;
  if (candidate) *message.mutable_candidate() = worker.sent.Write(*candidate);
  // A traced compile uses a call of its own, because the trace is in the metadata.
  if (!trace.sampled) {
    worker.CallInBatch(std::move(message), timeout, std::move(ended),
                       [this, &worker](v1::CompileReply& reply) { return Read(worker, reply); });
    return;
  }
  StartUnaryCall(worker.stub->async(), &WorkerPeer::Async::Compile, std::move(message),
                 {timeout, std::move(stop), "kernelcast.v1.Worker/Compile", worker.address, trace},
                 [this, &worker, ended = std::move(ended)](const absl::Status& status,
                                                           const v1::CompileReply& reply) {
                   ended(status.ok() ? Read(worker, reply) : status);
                 });
}

absl::Status CompileJob::Read(const WorkerPeer& worker, const v1::CompileReply& reply) {
  // A stream finds the request by an id of its own.
  auto compiled =
      ReadCompileReply(trace.sampled ? request.request_id() : reply.request_id(), reply);
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
  v1::MeasureRequest message = request;
  *message.mutable_candidate() = worker.sent.Write(*candidate);
  StartUnaryCall(worker.stub->async(), &WorkerPeer::Async::Measure, std::move(message),
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
