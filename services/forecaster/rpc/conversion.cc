#include "services/forecaster/rpc/conversion.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/convert.h"
#include "common/convert/convert_anchor.h"

namespace kernelcast::forecaster {
namespace {

constexpr size_t kMaxRequestIdBytes = 256;

absl::StatusOr<FailureKind> FromProto(v1::FailureLabel failure) {
  switch (failure) {
    case v1::FAILURE_LABEL_COMPILE_ERROR: return FailureKind::kCompileError;
    case v1::FAILURE_LABEL_WRONG_RESULT: return FailureKind::kWrongResult;
    case v1::FAILURE_LABEL_CRASH: return FailureKind::kCrash;
    case v1::FAILURE_LABEL_TIMEOUT: return FailureKind::kTimeout;
    case v1::FAILURE_LABEL_EXPLOIT: return FailureKind::kExploit;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("failure: ", static_cast<int>(failure), " is not a kind of failure"));
  }
}

absl::StatusOr<Candidate> ValidCandidate(const v1::Candidate& proto) {
  KC_ASSIGN_OR_RETURN(Candidate candidate, WithPrefix("candidate: ", kernelcast::FromProto(proto)));
  KC_RETURN_IF_ERROR(WithPrefix("candidate: ", ValidateCandidate(candidate)));
  return candidate;
}

v1::ItemScore::ParseStatus ToProto(ParseStatus status) {
  switch (status) {
    case ParseStatus::kOk: return v1::ItemScore::PARSE_STATUS_OK;
    case ParseStatus::kRenormalized: return v1::ItemScore::PARSE_STATUS_RENORMALIZED;
    case ParseStatus::kUnparsable: return v1::ItemScore::PARSE_STATUS_UNPARSABLE;
    case ParseStatus::kDeferred: return v1::ItemScore::PARSE_STATUS_DEFERRED;
  }
  return v1::ItemScore::PARSE_STATUS_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<Label> FromProto(const v1::Label& proto) {
  Label label;
  label.label_id = proto.label_id();
  KC_ASSIGN_OR_RETURN(label.candidate, ValidCandidate(proto.candidate()));
  label.facts = kernelcast::FromProto(proto.facts());
  label.reference_facts = kernelcast::FromProto(proto.reference_facts());
  switch (proto.truth_case()) {
    case v1::Label::kSpeedup: label.truth = kernelcast::FromProto(proto.speedup()); break;
    case v1::Label::kFailure: {
      KC_ASSIGN_OR_RETURN(label.truth, FromProto(proto.failure()));
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

absl::StatusOr<ForecastInput> FromProto(const v1::ForecastRequest& request) {
  ForecastInput input;
  if (request.request_id().size() > kMaxRequestIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_id: longer than ", kMaxRequestIdBytes, " bytes"));
  }
  input.request_id = request.request_id();
  KC_ASSIGN_OR_RETURN(input.candidate, ValidCandidate(request.candidate()));
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
    KC_RETURN_IF_ERROR(WithPrefix("anchor.candidate: ", ValidateCandidate(anchor->candidate)));
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
      KC_ASSIGN_OR_RETURN(item.truth, FromProto(proto.failure()));
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

v1::ScoreReply ToProto(const Scores& scores) {
  v1::ScoreReply reply;
  reply.set_scoring_version(std::string(kScoringVersion));
  for (const ItemScore& item : scores.items) {
    v1::ItemScore& out = *reply.add_scores();
    out.set_item_id(item.item_id);
    out.set_reward(item.reward);
    out.set_hit(item.hit);
    out.set_half_brier(item.half_brier);
    out.set_crps(item.crps);
    out.set_negative_log_likelihood(item.negative_log_likelihood);
    out.set_true_bin(static_cast<uint32_t>(item.true_bin));
    out.set_predicted_bin(static_cast<uint32_t>(item.predicted_bin));
    out.set_parse_status(ToProto(item.parse_status));
  }
  for (const GroupScore& group : scores.groups) {
    v1::GroupScore& out = *reply.add_groups();
    out.set_group_id(group.group_id);
    out.set_items(group.items);
    out.set_mean_reward(group.mean_reward);
    out.set_stddev_reward(group.stddev_reward);
  }
  const ForecastMetrics& metrics = scores.metrics;
  v1::ForecastMetrics& out = *reply.mutable_metrics();
  out.set_items(metrics.items);
  out.set_unparsable(metrics.unparsable);
  out.set_accuracy(metrics.accuracy);
  out.set_off_by_one_accuracy(metrics.off_by_one_accuracy);
  out.set_expected_calibration_error(metrics.expected_calibration_error);
  out.set_half_brier(metrics.half_brier);
  out.set_crps(metrics.crps);
  out.set_negative_log_likelihood(metrics.negative_log_likelihood);
  out.set_spearman(metrics.spearman);
  out.set_pairwise_accuracy(metrics.pairwise_accuracy);
  return reply;
}

v1::BackendDescription ToProto(const BackendDescription& description) {
  v1::BackendDescription out;
  out.set_name(description.name);
  out.set_version(description.version);
  out.set_ready(description.ready);
  for (const TargetLabels& labels : description.labels) {
    v1::TargetLabels& entry = *out.add_labels();
    entry.set_target(labels.target);
    entry.set_problem_id(labels.problem_id);
    entry.set_labels(labels.labels);
    entry.set_failures(labels.failures);
    entry.set_device_model(labels.device_model);
  }
  if (description.model_use) *out.mutable_model_use() = kernelcast::ToProto(*description.model_use);
  return out;
}

v1::PromptDescription ToProto(const PromptDescription& description) {
  v1::PromptDescription out;
  out.set_version(description.version);
  out.set_sha256(description.hash);
  out.set_system_template(description.system_template);
  out.set_user_template(description.user_template);
  out.set_answer_schema(description.answer_schema);
  return out;
}

v1::RenderedPrompt ToProto(const RenderedPrompt& prompt) {
  v1::RenderedPrompt out;
  out.set_version(prompt.version);
  out.set_system(prompt.system);
  out.set_user(prompt.user);
  return out;
}

}  // namespace kernelcast::forecaster
