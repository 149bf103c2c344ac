#include "services/forecaster/rpc/conversion.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/convert.h"
#include "common/convert/convert_forecaster.h"
#include "common/convert/fields.h"

namespace kernelcast {

KC_FIELDS(ForecastMetrics, v1::ForecastMetrics) {
  KC_SAME(items, unparsable, accuracy, off_by_one_accuracy, expected_calibration_error, half_brier,
          crps, negative_log_likelihood, spearman, pairwise_accuracy);
}

}  // namespace kernelcast

namespace kernelcast::forecaster {

constexpr auto Pairs(ParseStatus) {
  return std::to_array<std::pair<ParseStatus, v1::ItemScore::ParseStatus>>({
      {ParseStatus::kOk, v1::ItemScore::PARSE_STATUS_OK},
      {ParseStatus::kRenormalized, v1::ItemScore::PARSE_STATUS_RENORMALIZED},
      {ParseStatus::kUnparsable, v1::ItemScore::PARSE_STATUS_UNPARSABLE},
      {ParseStatus::kDeferred, v1::ItemScore::PARSE_STATUS_DEFERRED},
  });
}

KC_FIELDS(ItemScore, v1::ItemScore) {
  KC_SAME(item_id, reward, hit, half_brier, crps, negative_log_likelihood, true_bin, predicted_bin,
          parse_status);
}

KC_FIELDS(GroupScore, v1::GroupScore) { KC_SAME(group_id, items, mean_reward, stddev_reward); }

KC_FIELDS(Scores, v1::ScoreReply) {
  KC_SAME(groups, metrics);
  KC_FIELD(items, scores);
  m.set_scoring_version(std::string(kScoringVersion));
}

KC_FIELDS(TargetLabels, v1::TargetLabels) {
  KC_SAME(target, problem_id, labels, failures, device_model);
}

KC_FIELDS(BackendDescription, v1::BackendDescription) {
  KC_SAME(name, version, ready, labels);
  if (d.model_use) *m.mutable_model_use() = kernelcast::ToProto(*d.model_use);
}

KC_FIELDS(PromptDescription, v1::PromptDescription) {
  KC_SAME(version);
  KC_FIELD(hash, sha256);
  KC_BYTES(system_template);
  KC_BYTES(user_template);
  KC_BYTES(answer_schema);
}

KC_FIELDS(RenderedPrompt, v1::RenderedPrompt) {
  KC_SAME(version);
  KC_BYTES(system);
  KC_BYTES(user);
}

namespace {

constexpr size_t kMaxRequestIdBytes = 256;

absl::StatusOr<std::shared_ptr<const Candidate>> ReadCandidate(const v1::Candidate& proto,
                                                               ReceivedCandidates& received) {
  return WithPrefix("candidate: ", received.Read(proto));
}

}  // namespace

absl::StatusOr<Label> FromProto(const v1::Label& proto, ReceivedCandidates& received) {
  Label label;
  label.label_id = proto.label_id();
  KC_ASSIGN_OR_RETURN(const auto candidate, ReadCandidate(proto.candidate(), received));
  label.candidate = *candidate;
  label.facts = kernelcast::FromProto(proto.facts());
  label.reference_facts = kernelcast::FromProto(proto.reference_facts());
  switch (proto.truth_case()) {
    case v1::Label::kSpeedup: label.truth = kernelcast::FromProto(proto.speedup()); break;
    case v1::Label::kFailure: {
      KC_ASSIGN_OR_RETURN(label.truth, kernelcast::FromProto(proto.failure()));
      break;
    }
    case v1::Label::TRUTH_NOT_SET:
      return absl::InvalidArgumentError("truth: either speedup or failure must be set");
  }
  label.propensity = proto.propensity();
  if (proto.decision_reason() != v1::DECISION_REASON_UNSPECIFIED) {
    KC_ASSIGN_OR_RETURN(label.decision_reason, kernelcast::FromProto(proto.decision_reason()));
  }
  if (proto.has_forecast()) label.forecast = kernelcast::FromProto(proto.forecast());
  label.device_model = DeviceModelOrUnknown(proto.device_model());
  KC_RETURN_IF_ERROR(ValidateLabel(label));
  return label;
}

absl::StatusOr<const BinScheme*> FindBinScheme(const std::string& id) {
  if (id.empty()) return &BinScheme::Default();
  absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(id);
  if (!scheme.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("bin_scheme_id: ", scheme.status().message()));
  }
  return scheme;
}

absl::StatusOr<ForecastInput> FromProto(const v1::ForecastRequest& request,
                                        ReceivedCandidates& received) {
  ForecastInput input;
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id: longer than ", kMaxRequestIdBytes, " bytes"));
  }
  input.request_id = request.request_id();
  KC_ASSIGN_OR_RETURN(const auto candidate, ReadCandidate(request.candidate(), received));
  input.candidate = *candidate;
  input.facts = kernelcast::FromProto(request.facts());
  KC_RETURN_IF_ERROR(ValidateOptionalFacts("facts", input.facts));
  input.reference_facts = kernelcast::FromProto(request.reference_facts());
  KC_RETURN_IF_ERROR(ValidateOptionalFacts("reference_facts", input.reference_facts));
  KC_ASSIGN_OR_RETURN(input.bin_scheme, FindBinScheme(request.bin_scheme_id()));
  input.baseline_candidate_id = request.baseline_candidate_id();
  input.baseline_speedup = request.baseline_speedup() == 0 ? 1 : request.baseline_speedup();
  if (!(input.baseline_speedup > 0) || !std::isfinite(input.baseline_speedup)) {
    return absl::InvalidArgumentError(absl::StrCat("baseline_speedup: ", input.baseline_speedup,
                                                   " is not a positive finite number"));
  }
  if (request.has_anchor()) {
    if (input.baseline_speedup != 1) {
      return absl::InvalidArgumentError(
          "anchor: is not allowed with a baseline other than the reference");
    }
    absl::StatusOr<AnchorKernel> anchor =
        WithPrefix("anchor: ", kernelcast::FromProto(request.anchor()));
    KC_RETURN_IF_ERROR(anchor.status());
    KC_ASSIGN_OR_RETURN(
        const auto anchored,
        WithPrefix("anchor.", ReadCandidate(request.anchor().candidate(), received)));
    anchor->candidate = *anchored;
    KC_RETURN_IF_ERROR(ValidateOptionalFacts("anchor.facts", anchor->facts));
    const double speedup = anchor->speedup.value;
    if (!(speedup > 0) || !std::isfinite(speedup)) {
      return absl::InvalidArgumentError(
          absl::StrCat("anchor.speedup: ", speedup, " is not a positive finite number"));
    }
    input.anchor = std::make_shared<const AnchorKernel>(*std::move(anchor));
  }
  input.device = kernelcast::FromProto(request.device());
  input.device_model = DeviceModelOrUnknown(input.device.model);
  KC_RETURN_IF_ERROR(ValidateDeviceModel("device.model", input.device_model));
  return input;
}

absl::StatusOr<ScoreItem> FromProto(const v1::ScoreItem& proto) {
  ScoreItem item;
  item.item_id = proto.item_id();
  item.group_id = proto.group_id();
  switch (proto.prediction_case()) {
    case v1::ScoreItem::kForecast: item.prediction = kernelcast::FromProto(proto.forecast()); break;
    case v1::ScoreItem::kAnswer: item.prediction = proto.answer(); break;
    case v1::ScoreItem::PREDICTION_NOT_SET:
      return absl::InvalidArgumentError("prediction: either forecast or answer must be set");
  }
  switch (proto.truth_case()) {
    case v1::ScoreItem::kSpeedup: item.truth = Speedup{proto.speedup()}; break;
    case v1::ScoreItem::kTrueBin:
      item.truth = TrueBin{static_cast<int>(std::min<uint32_t>(proto.true_bin(), 1 << 20))};
      break;
    case v1::ScoreItem::kFailure: {
      KC_ASSIGN_OR_RETURN(item.truth, kernelcast::FromProto(proto.failure()));
      break;
    }
    case v1::ScoreItem::TRUTH_NOT_SET:
      return absl::InvalidArgumentError("truth: speedup, true_bin or failure must be set");
  }
  return item;
}

RewardKind FromProto(v1::RewardKind kind) {
  switch (kind) {
    case v1::REWARD_KIND_HIT: return RewardKind::kHit;
    case v1::REWARD_KIND_HIT_BRIER: return RewardKind::kHitBrier;
    default: return RewardKind::kHitCrps;
  }
}

v1::ScoreReply ToProto(const Scores& scores) { return WriteFields<v1::ScoreReply>(scores); }

v1::BackendDescription ToProto(const BackendDescription& description) {
  return WriteFields<v1::BackendDescription>(description);
}

v1::PromptDescription ToProto(const PromptDescription& description) {
  return WriteFields<v1::PromptDescription>(description);
}

v1::RenderedPrompt ToProto(const RenderedPrompt& prompt) {
  return WriteFields<v1::RenderedPrompt>(prompt);
}

}  // namespace kernelcast::forecaster
