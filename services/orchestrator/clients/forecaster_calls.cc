#include "services/orchestrator/clients/forecaster_calls.h"

#include <utility>

#include "common/convert/convert.h"
#include "common/rpc/request_error.h"
#include "common/rpc/unary_call.h"

namespace kernelcast::orchestrator {
namespace {

using AsyncForecaster = v1::Forecaster::StubInterface::async_interface;

}  // namespace

ForecasterPeer::ForecasterPeer(std::string peer_address,
                               const std::shared_ptr<grpc::Channel>& channel)
    : Peer(std::move(peer_address)),
      stub(v1::Forecaster::NewStub(channel)),
      forecasts([s = stub.get()](grpc::ClientContext* context, auto* reactor) {
        s->async()->ForecastStream(context, reactor);
      }) {}

void ForecasterPeer::Describe(absl::Duration timeout, std::stop_token stop, Done done) {
  StartUnaryCall(
      stub->async(), &AsyncForecaster::Describe, {}, {.timeout = timeout, .stop = std::move(stop)},
      [this, done = std::move(done)](const absl::Status& status, v1::ForecasterDescription& reply) {
        if (status.ok()) reported = std::move(reply);
        done(status);
      });
}

void ForecasterPeer::PutProblem(const Problem& problem, absl::Duration timeout,
                                std::stop_token stop, Done done) {
  v1::PutProblemRequest put;
  *put.mutable_problem() = ProblemFilesToProto(problem);
  StartUnaryCall(
      stub->async(), &AsyncForecaster::PutProblem, std::move(put),
      {.timeout = timeout, .stop = std::move(stop)},
      [done = std::move(done)](const absl::Status& status, const auto&) { done(status); });
}

void ForecastJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  auto& forecaster = static_cast<ForecasterPeer&>(peer);
  // A traced forecast uses a call of its own, because the trace is in the metadata.
  if (!trace.sampled) {
    SendInBatch(forecaster, std::move(ended));
    return;
  }
  StartUnaryCall(
      forecaster.stub->async(), &AsyncForecaster::Forecast, request,
      {timeout, std::move(stop), "kernelcast.v1.Forecaster/Forecast", forecaster.address, trace},
      [this, ended = std::move(ended)](const absl::Status& status, v1::ForecastReply& answer) {
        reply = std::move(answer);
        ended(status);
      });
}

// Sends the forecast as one of many in a message.
void ForecastJob::SendInBatch(ForecasterPeer& forecaster, Peer::Done ended) {
  forecaster.forecasts.Call(request, timeout,
                            [this, &forecaster, ended = std::move(ended)](
                                const absl::Status& status, v1::ForecastReply* answer) {
                              if (!status.ok()) {
                                ended(status);
                              } else if (answer->has_error()) {
                                const absl::Status error = FromRequestError(answer->error());
                                if (error.code() == absl::StatusCode::kUnavailable)
                                  forecaster.forecasts.Renew();
                                ended(error);
                              } else {
                                reply = std::move(*answer);
                                ended(status);
                              }
                            });
}

void ForecastJob::Finish(const absl::Status& status) {
  if (!status.ok()) {
    done(status);
  } else if (reply.has_forecast()) {
    done(ForecastResult(FromProto(reply.forecast())));
  } else if (absl::StatusOr<Abstention> abstention = FromProto(reply.abstention());
             abstention.ok()) {
    done(ForecastResult(*std::move(abstention)));
  } else {
    done(abstention.status());
  }
}

void ObserveJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  StartUnaryCall(
      static_cast<ForecasterPeer&>(peer).stub->async(), &AsyncForecaster::Observe,
      std::move(request), {.timeout = timeout, .stop = std::move(stop)},
      [ended = std::move(ended)](const absl::Status& status, const auto&) { ended(status); });
}

}  // namespace kernelcast::orchestrator
