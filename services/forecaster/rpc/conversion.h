#ifndef KERNELCAST_SERVICES_FORECASTER_RPC_CONVERSION_H_
#define KERNELCAST_SERVICES_FORECASTER_RPC_CONVERSION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/convert/candidate_exchange.h"
#include "kernelcast/v1/forecaster.pb.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/core/label.h"
#include "services/forecaster/core/scorer.h"

namespace kernelcast::forecaster {

// Converts between forecaster.proto and the domain. FromProto validates: INVALID_ARGUMENT names the
// field. NOT_FOUND: it names a candidate by an id that is not in `received`.

[[nodiscard]] absl::StatusOr<Label> FromProto(const v1::Label& label, ReceivedCandidates& received);

// Converts everything except the problem, which the caller finds by its id.
[[nodiscard]] absl::StatusOr<ForecastInput> FromProto(const v1::ForecastRequest& request,
                                                      ReceivedCandidates& received);

// INVALID_ARGUMENT names the field: unknown scheme. An empty id is the default scheme.
[[nodiscard]] absl::StatusOr<const BinScheme*> FindBinScheme(const std::string& id);

[[nodiscard]] absl::StatusOr<ScoreItem> FromProto(const v1::ScoreItem& item);
// Unspecified means hit + (1 - CRPS).
RewardKind FromProto(v1::RewardKind kind);

v1::ScoreReply ToProto(const Scores& scores);
v1::BackendDescription ToProto(const BackendDescription& description);
v1::PromptDescription ToProto(const PromptDescription& description);
v1::RenderedPrompt ToProto(const RenderedPrompt& prompt);

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_RPC_CONVERSION_H_
