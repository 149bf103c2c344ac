#include "services/orchestrator/clients/forecaster_calls.h"

#include <utility>

#include "common/convert/convert.h"
#include "common/convert/convert_forecaster.h"
#include "common/rpc/unary_call.h"

namespace kernelcast::orchestrator {

namespace {

// `sent`: the candidates that the receiver has.
v1::Label ToProto(const Label& label, SentCandidates& sent) {
  v1::Label message;
  message.set_label_id(label.label_id);
  *message.mutable_candidate() = sent.Write(label.candidate);
  *message.mutable_facts() = ToProto(label.facts);
  *message.mutable_reference_facts() = ToProto(label.reference_facts);
  if (const auto* speedup = std::get_if<Ratio>(&label.truth)) {
    *message.mutable_speedup() = ToProto(*speedup);
  } else {
    message.set_failure(ToProto(std::get<FailureKind>(label.truth)));
  }
  message.set_propensity(label.propensity);
  if (label.decision_reason) message.set_decision_reason(ToProto(*label.decision_reason));
  if (label.forecast) *message.mutable_forecast() = ToProto(*label.forecast);
  message.set_device_model(label.device_model);
  return message;
}

}  // namespace

void ForecastJob::ForEachCandidate(const std::function<void(const Candidate&)>& visit) const {
  visit(candidate);
  if (sends_anchor) visit(anchor->candidate);
}

void ForecastJob::Send(Peer& peer, std::stop_token stop, Peer::Done ended) {
  auto& forecaster = static_cast<ForecasterPeer&>(peer);
  v1::ForecastRequest message = request;
  *message.mutable_candidate() = peer.sent.Write(candidate);
  if (sends_anchor) {
    *message.mutable_anchor() = ToProto(*anchor);
    *message.mutable_anchor()->mutable_candidate() = peer.sent.Write(anchor->candidate);
  }
  // A traced forecast uses a call of its own, because the trace is in the metadata.
  if (!trace.sampled) {
    forecaster.CallInBatch(std::move(message), timeout, std::move(ended),
                           [this](v1::ForecastReply& answer) {
                             reply = std::move(answer);
                             return absl::OkStatus();
                           });
    return;
  }
  StartUnaryCall(
      forecaster.stub->async(), &ForecasterPeer::Async::Forecast, std::move(message),
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
  v1::ObserveRequest request;
  for (const auto& label : labels) *request.add_labels() = ToProto(*label, peer.sent);
  StartUnaryCall(
      static_cast<ForecasterPeer&>(peer).stub->async(), &ForecasterPeer::Async::Observe,
      std::move(request), {.timeout = timeout, .stop = std::move(stop)},
      [ended = std::move(ended)](const absl::Status& status, const auto&) { ended(status); });
}

}  // namespace kernelcast::orchestrator
