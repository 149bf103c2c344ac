#include "services/orchestrator/clients/forecaster_calls.h"

#include <utility>

#include "common/convert/convert.h"
#include "common/rpc/unary_call.h"

namespace kernelcast::orchestrator {
void ForecastJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  auto& forecaster = static_cast<ForecasterPeer&>(peer);
  // A traced forecast uses a call of its own, because the trace is in the metadata.
  if (!trace.sampled) {
    forecaster.CallInBatch(request, timeout, std::move(ended), [this](v1::ForecastReply& answer) {
      reply = std::move(answer);
      return absl::OkStatus();
    });
    return;
  }
  StartUnaryCall(
      forecaster.stub->async(), &ForecasterPeer::Async::Forecast, request,
      {timeout, std::move(stop), "kernelcast.v1.Forecaster/Forecast", forecaster.address, trace},
      [this, ended = std::move(ended)](const absl::Status& status, v1::ForecastReply& answer) {
        reply = std::move(answer);
        ended(status);
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
      static_cast<ForecasterPeer&>(peer).stub->async(), &ForecasterPeer::Async::Observe,
      std::move(request), {.timeout = timeout, .stop = std::move(stop)},
      [ended = std::move(ended)](const absl::Status& status, const auto&) { ended(status); });
}

}  // namespace kernelcast::orchestrator
