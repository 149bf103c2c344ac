#include "services/orchestrator/core/policy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"

namespace kernelcast::orchestrator {
namespace {

struct ThresholdParameters {
  double margin = 0.02;
  double promote_above = 0.5;
  double prune_below = 0.05;
  double stop_below = 1e-4;
  double fail_above = 0.7;
  double audit_min = 0.05;
  double audit_scale = 0.2;
  double audit_share = 0.05;
  double bootstrap_share = 0.25;
  double bootstrap_min = 6;
  double start_share = 0.5;
  double pace = 0.6;
};

struct ParameterSpec {
  std::string_view name;
  double ThresholdParameters::*field;
  double low;
  double high;
};

constexpr ParameterSpec kThresholdParameters[] = {
    {"margin", &ThresholdParameters::margin, 0, 1},
    {"promote_above", &ThresholdParameters::promote_above, 0, 1},
    {"prune_below", &ThresholdParameters::prune_below, 0, 1},
    {"stop_below", &ThresholdParameters::stop_below, 0, 1},
    {"fail_above", &ThresholdParameters::fail_above, 0, 1},
    {"audit_min", &ThresholdParameters::audit_min, 0, 1},
    {"audit_scale", &ThresholdParameters::audit_scale, 0, 10},
    {"audit_share", &ThresholdParameters::audit_share, 0, 1},
    {"bootstrap_share", &ThresholdParameters::bootstrap_share, 0, 1},
    {"bootstrap_min", &ThresholdParameters::bootstrap_min, 0, 1e6},
    {"start_share", &ThresholdParameters::start_share, 0, 1},
    {"pace", &ThresholdParameters::pace, 0, 1},
};

class ThresholdPolicy final : public Policy {
 public:
  explicit ThresholdPolicy(const ThresholdParameters& parameters) : p_(parameters) {}

  std::string_view name() const override { return "threshold"; }
  std::string_view version() const override { return "threshold/2"; }

  Decision Decide(const PolicyInput& input) const override {
    Decision decision;
    decision.policy = std::string(name());
    decision.policy_version = std::string(version());
    decision.incumbent_speedup = input.incumbent_speedup;
    decision.audit_propensity = 1;
    auto finish = [&](DecisionReason reason) {
      decision.reason = reason;
      decision.kind = KindOf(reason);
      return decision;
    };

    if (input.forecast == nullptr) {
      return finish(DecisionReason::kNoForecast);
    }
    const double win =
        WinProbability(*input.forecast, input.incumbent_speedup * (1 + p_.margin)).value_or(1);
    decision.win_probability = win;

    // Labels of earlier searches of the problem count as well.
    const uint64_t started =
        std::max(input.measured + input.measuring, input.forecast->labels_seen);
    if (started < BootstrapMeasurements(input) && (!input.selects || input.start)) {
      return finish(DecisionReason::kBootstrap);
    }
    if (input.forecast->failure_probability >= p_.fail_above) {
      decision.threshold = p_.fail_above;
      return PruneOrAudit(decision, input, DecisionReason::kLikelyFailure);
    }
    const bool waits = input.selects && !input.reconsidered;
    if (win >= p_.promote_above && !waits) {
      decision.threshold = p_.promote_above;
      return finish(DecisionReason::kPromising);
    }
    decision.threshold = input.reconsidered ? p_.stop_below : p_.prune_below;
    if (win < decision.threshold) {
      return PruneOrAudit(decision, input, DecisionReason::kUnpromising);
    }
    if (waits || (!input.reconsidered && !PaceAllows(input))) {
      return PruneOrAudit(decision, input, DecisionReason::kBudgetPace);
    }
    return finish(DecisionReason::kLowConfidence);
  }

  bool MaySelect(const PolicyInput& input) const override {
    return input.max_measurements == 0 || input.decided >= input.expected_decisions;
  }

 private:
  uint64_t BootstrapMeasurements(const PolicyInput& input) const {
    const double budget = static_cast<double>(input.max_measurements);
    if (!input.selects) {
      return static_cast<uint64_t>(
          std::ceil(std::max(p_.bootstrap_min, p_.bootstrap_share * budget)));
    }
    if (input.max_measurements == 0) return input.start_size;
    return std::min(input.start_size, static_cast<uint64_t>(std::ceil(p_.start_share * budget)));
  }

  // The budget left after the bootstrap is spent in proportion to the candidates seen, up to
  // `pace`; what remains goes to the best of the pruned, when all are known.
  bool PaceAllows(const PolicyInput& input) const {
    if (input.max_measurements == 0 || input.expected_decisions == 0) {
      return true;
    }
    const double bootstrap = static_cast<double>(BootstrapMeasurements(input));
    const double budget = static_cast<double>(input.max_measurements);
    const double progress = std::min(
        1.0, static_cast<double>(input.decided) / static_cast<double>(input.expected_decisions));
    const double allowed = bootstrap + std::max(0.0, p_.pace * budget - bootstrap) * progress;
    return static_cast<double>(input.measured + input.measuring) < allowed;
  }

  Decision PruneOrAudit(Decision decision, const PolicyInput& input, DecisionReason reason) const {
    const double spread =
        std::sqrt(std::max(0.0, decision.win_probability * (1 - decision.win_probability)));
    decision.audit_propensity = std::clamp(p_.audit_scale * spread, p_.audit_min, 1.0);
    if (input.selects && input.max_measurements > 0 && input.expected_decisions > 0) {
      const double share = p_.audit_share * static_cast<double>(input.max_measurements) /
                           static_cast<double>(input.expected_decisions);
      decision.audit_propensity = std::min(decision.audit_propensity, share);
    }
    decision.reason =
        input.audit_draw < decision.audit_propensity ? DecisionReason::kAudit : reason;
    decision.kind = KindOf(decision.reason);
    return decision;
  }

  const ThresholdParameters p_;
};

absl::StatusOr<std::unique_ptr<const Policy>> MakeThreshold(
    const std::map<std::string, double>& parameters) {
  ThresholdParameters result;
  for (const auto& [name, value] : parameters) {
    const ParameterSpec* spec = nullptr;
    for (const ParameterSpec& known : kThresholdParameters) {
      if (known.name == name) spec = &known;
    }
    if (spec == nullptr) {
      std::vector<std::string> names;
      for (const ParameterSpec& known : kThresholdParameters) names.emplace_back(known.name);
      return absl::InvalidArgumentError(absl::StrCat("policy_parameters: '", name,
                                                     "' is not a parameter of policy threshold; ",
                                                     "it has ", absl::StrJoin(names, ", ")));
    }
    if (!(value >= spec->low && value <= spec->high)) {
      return absl::InvalidArgumentError(absl::StrCat("policy_parameters[", name, "]: ", value,
                                                     " is outside [", spec->low, ", ", spec->high,
                                                     "]"));
    }
    result.*spec->field = value;
  }
  if (result.prune_below > result.promote_above) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy_parameters: prune_below ", result.prune_below,
                     " must not exceed promote_above ", result.promote_above));
  }
  return std::make_unique<const ThresholdPolicy>(result);
}

}  // namespace

std::vector<std::string> PolicyNames() { return {"threshold"}; }

absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(
    std::string_view name, const std::map<std::string, double>& parameters) {
  if (name.empty() || name == "threshold") {
    return MakeThreshold(parameters);
  }
  return absl::InvalidArgumentError(absl::StrCat("policy: '", std::string(name), "' is not one of ",
                                                 absl::StrJoin(PolicyNames(), ", ")));
}

}  // namespace kernelcast::orchestrator
