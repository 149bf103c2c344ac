#include "services/orchestrator/core/policy.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/domain/search_names.h"
#include "services/orchestrator/core/next_measurement.h"

namespace kernelcast::orchestrator {
namespace {

struct Parameters {
  // A win is a speedup above incumbent * (1 + margin).
  double margin = 0.02;
  // Failure probability from which a candidate is pruned as a likely failure.
  double fail_above = 0.7;
  // Minimum probability with which a pruned candidate is measured anyway. Audits are drawn with
  // clip(audit_scale sqrt(p (1 - p)), audit_min, 1).
  double audit_min = 0.05;
  double audit_scale = 0.2;
  // In a search that selects, audits take at most this mean share of max_measurements. If that is
  // less than one measurement, there are none.
  double audit_share = 0.05;
  // Measurements spent before forecasts are trusted: a share of max_measurements, and a minimum.
  double bootstrap_share = 0.25;
  double bootstrap_min = 6;
  // Maximum share of max_measurements for the start set of a search that selects.
  double start_share = 0.5;
  // A search that selects stops measuring when the best win probability is below this.
  double stop_below = 1e-4;
  // The others are used by some policies only.
  // Win probability from which a candidate is measured as promising.
  double promote_above = 0.5;
  // Win probability below which a candidate is pruned as unpromising.
  double prune_below = 0.05;
  // Share of the budget that a first pass over all candidates may spend, in proportion to the
  // candidates seen.
  double pace = 0.6;
  // Share of the candidates that is measured.
  double share = 0.25;
  // Maximum share of winners among pruned candidates, and the probability of a false certificate.
  double alpha = 0.05;
  double delta = 0.05;
};

struct ParameterSpec {
  std::string_view name;
  double Parameters::*field;
  double low;
  double high;
};

constexpr ParameterSpec kCommon[] = {
    {"margin", &Parameters::margin, 0, 1},
    {"fail_above", &Parameters::fail_above, 0, 1},
    {"audit_min", &Parameters::audit_min, 0, 1},
    {"audit_scale", &Parameters::audit_scale, 0, 10},
    {"audit_share", &Parameters::audit_share, 0, 1},
    {"bootstrap_share", &Parameters::bootstrap_share, 0, 1},
    {"bootstrap_min", &Parameters::bootstrap_min, 0, 1e6},
    {"start_share", &Parameters::start_share, 0, 1},
    {"stop_below", &Parameters::stop_below, 0, 1},
};
constexpr ParameterSpec kOfThreshold[] = {
    {"promote_above", &Parameters::promote_above, 0, 1},
    {"prune_below", &Parameters::prune_below, 0, 1},
    {"pace", &Parameters::pace, 0, 1},
};
constexpr ParameterSpec kOfTopK[] = {{"share", &Parameters::share, 0, 1}};
constexpr ParameterSpec kOfRisk[] = {
    {"alpha", &Parameters::alpha, 0.001, 0.5},
    {"delta", &Parameters::delta, 0.001, 0.5},
    {"promote_above", &Parameters::promote_above, 0, 1},
};

// Common to all policies: the start of a search, likely failures, audits.
class BasePolicy : public Policy {
 public:
  explicit BasePolicy(const Parameters& parameters) : p_(parameters) {}

  double win_margin() const final { return p_.margin; }

  bool Distinguishes(const PolicyInput& input) const final {
    if (input.forecast->basis == ForecastBasis::kPriorOnly) return false;
    if (input.history == nullptr) return true;
    const double same = input.history->ShareWithSameForecast(*input.forecast, p_.margin);
    return input.selects ? same < 1 : same <= 0.5;
  }

  Decision Decide(const PolicyInput& input) const final {
    Decision decision;
    decision.policy = std::string(name());
    decision.policy_version = std::string(version());
    decision.incumbent_speedup = input.incumbent_speedup;
    decision.audit_propensity = 1;
    if (input.forecast == nullptr) {
      return Finished(std::move(decision),
                      input.declined ? DecisionReason::kDeclined : DecisionReason::kNoForecast);
    }
    decision.win_probability =
        WinProbability(*input.forecast, input.incumbent_speedup * (1 + p_.margin)).value_or(1);
    const bool distinguishes = Distinguishes(input);
    if (!distinguishes && !input.declined && IsLimited(input) && !input.selects &&
        !input.reconsidered) {
      return ByChance(std::move(decision), input);
    }
    // Labels from earlier searches of the problem count too.
    const uint64_t started =
        std::max(input.measured + input.measuring, input.forecast->labels_seen.value_or(0));
    const bool starts = !input.selects || (input.start && !IsInformed(*input.forecast));
    const bool prior_only = input.forecast->basis == ForecastBasis::kPriorOnly;
    if (started < StartSize(input) && starts && (input.selects || !prior_only)) {
      return Finished(std::move(decision), DecisionReason::kBootstrap);
    }
    if (input.declined && !input.selects) {
      return Finished(std::move(decision), DecisionReason::kDeclined);
    }
    if (!distinguishes && !Waits(input)) {
      return Finished(std::move(decision), DecisionReason::kNoForecast);
    }
    if (PrunesFailures() && input.forecast->failure_probability >= p_.fail_above) {
      decision.threshold = p_.fail_above;
      return PrunedOrAudited(std::move(decision), input, DecisionReason::kLikelyFailure);
    }
    decision = Weigh(std::move(decision), input);
    const bool chosen = decision.reason == DecisionReason::kPromising ||
                        decision.reason == DecisionReason::kLowConfidence;
    if (chosen && input.selects && input.reconsidered) decision.reason = DecisionReason::kSelected;
    return decision;
  }

 protected:
  // Decides on a candidate after the start, given its win probability.
  virtual Decision Weigh(Decision decision, const PolicyInput& input) const = 0;
  virtual bool PrunesFailures() const { return true; }

  // A search that selects waits until it knows all candidates.
  static bool Waits(const PolicyInput& input) { return input.selects && !input.reconsidered; }

  uint64_t StartSize(const PolicyInput& input) const {
    const uint64_t size = BootstrapMeasurements(input);
    if (input.selects || !ComparesLaunches(*input.forecast)) return size;
    return std::min(size, kComparedStart);
  }

  uint64_t BootstrapMeasurements(const PolicyInput& input) const {
    const double budget = static_cast<double>(input.max_measurements);
    if (!input.selects) {
      return static_cast<uint64_t>(
          std::ceil(std::max(p_.bootstrap_min, p_.bootstrap_share * budget)));
    }
    if (input.max_measurements == 0) return input.start_size;
    return std::min(input.start_size, static_cast<uint64_t>(std::ceil(p_.start_share * budget)));
  }

  static bool IsLimited(const PolicyInput& input) {
    return input.max_measurements > 0 && input.expected_decisions > 0;
  }

  // Measurements left, divided by the candidates to come and this one. 1 without a limit.
  static double Affordable(const PolicyInput& input) {
    if (!IsLimited(input)) return 1;
    const double left =
        static_cast<double>(input.max_measurements) -
        static_cast<double>(std::min(input.max_measurements, input.measured + input.measuring));
    const double to_come =
        static_cast<double>(input.expected_decisions) -
        static_cast<double>(std::min(input.expected_decisions - 1, input.decided));
    return left / to_come;
  }

  // Each of the candidates to come gets an equal share of the budget, whatever their order.
  static Decision ByChance(Decision decision, const PolicyInput& input) {
    decision.audit_propensity = std::min(1.0, Affordable(input));
    return Finished(std::move(decision), input.audit_draw < decision.audit_propensity
                                             ? DecisionReason::kNoForecast
                                             : DecisionReason::kBudgetPace);
  }

  static Decision Finished(Decision decision, DecisionReason reason) {
    decision.reason = reason;
    decision.kind = KindOf(reason);
    return decision;
  }

  // `chance`: probability of a measurement besides that of an audit, to break a tie.
  Decision PrunedOrAudited(Decision decision, const PolicyInput& input, DecisionReason reason,
                           double chance = 0) const {
    const double spread =
        std::sqrt(std::max(0.0, decision.win_probability * (1 - decision.win_probability)));
    decision.audit_propensity = std::clamp(p_.audit_scale * spread, p_.audit_min, 1.0);
    if (input.selects && input.max_measurements > 0 && input.expected_decisions > 0) {
      const double audits = p_.audit_share * static_cast<double>(input.max_measurements);
      // A single audit would take a larger share of a small budget.
      const double share = audits < 1 ? 0 : audits / static_cast<double>(input.expected_decisions);
      decision.audit_propensity = std::min(decision.audit_propensity, share);
    }
    decision.audit_propensity = std::max(decision.audit_propensity, chance);
    const bool audited = input.audit_draw < decision.audit_propensity;
    if (audited) decision.audited_reason = reason;
    return Finished(std::move(decision), audited ? DecisionReason::kAudit : reason);
  }

  const Parameters p_;
};

// Measures likely winners, prunes candidates that are confidently not better than the incumbent,
// and defers the others while the budget's pace allows. A search that selects first prunes
// everything except its start set, then measures the best of the pruned candidates one at a time.
class ThresholdPolicy : public BasePolicy {
 public:
  using BasePolicy::BasePolicy;
  std::string_view name() const override { return "threshold"; }
  std::string_view version() const override { return "threshold/6"; }

 private:
  Decision Weigh(Decision decision, const PolicyInput& input) const override {
    if (decision.win_probability >= p_.promote_above && !Waits(input)) {
      decision.threshold = p_.promote_above;
      return Finished(std::move(decision), DecisionReason::kPromising);
    }
    decision.threshold = PruneThreshold(input);
    if (decision.win_probability < decision.threshold) {
      return PrunedOrAudited(std::move(decision), input, DecisionReason::kUnpromising);
    }
    if (Waits(input) || (!input.reconsidered && !PaceAllows(input))) {
      return PrunedOrAudited(std::move(decision), input, DecisionReason::kBudgetPace);
    }
    return Finished(std::move(decision), DecisionReason::kLowConfidence);
  }

  virtual double PruneThreshold(const PolicyInput& input) const {
    return input.reconsidered ? p_.stop_below : p_.prune_below;
  }

  // The budget left after the bootstrap is spent in proportion to the candidates seen, up to
  // `pace`. The rest goes to the best of the pruned candidates, when all are known.
  virtual bool PaceAllows(const PolicyInput& input) const {
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
};

// Measures candidates that rank among the best of the last candidates by win probability. This is
// the filter of the paper (arXiv 2605.31464), which measures 4 of 16, but without its steps.
class TopKPolicy final : public BasePolicy {
 public:
  using BasePolicy::BasePolicy;
  std::string_view name() const override { return "top_k"; }
  std::string_view version() const override { return "top_k/5"; }

 private:
  Decision Weigh(Decision decision, const PolicyInput& input) const override {
    decision.threshold = p_.share;
    if (Waits(input)) {
      return PrunedOrAudited(std::move(decision), input, DecisionReason::kBudgetPace);
    }
    if (input.reconsidered) {
      if (decision.win_probability < p_.stop_below) {
        return PrunedOrAudited(std::move(decision), input, DecisionReason::kUnpromising);
      }
      return Finished(std::move(decision), DecisionReason::kPromising);
    }
    if (input.history == nullptr) return Finished(std::move(decision), DecisionReason::kPromising);
    const double chance =
        input.history->RankByWinProbability(decision.win_probability).ChanceAmong(p_.share);
    if (chance >= 1) return Finished(std::move(decision), DecisionReason::kPromising);
    return PrunedOrAudited(std::move(decision), input, DecisionReason::kUnpromising, chance);
  }
};

// Prunes only below a certified win probability: at most `alpha` of the candidates below it are
// winners, for forecasts that were observed to separate faster from slower (RiskMonitor). Defers
// everything else. Certificates are based on deferred and audited candidates, so a wrong forecaster
// costs measurements, not winners.
class RiskPolicy final : public ThresholdPolicy {
 public:
  using ThresholdPolicy::ThresholdPolicy;
  std::string_view name() const override { return "risk"; }
  std::string_view version() const override { return "risk/5"; }
  RiskOptions risk_options() const override { return {p_.alpha, p_.delta, true}; }

 private:
  // Forecasts of failures are not certified.
  bool PrunesFailures() const override { return false; }

  double PruneThreshold(const PolicyInput& input) const override {
    return input.history == nullptr ? 0 : input.history->risk().threshold();
  }
  bool PaceAllows(const PolicyInput&) const override { return true; }
};

absl::StatusOr<Parameters> Parse(std::string_view policy, std::span<const ParameterSpec> own,
                                 const std::map<std::string, double>& values) {
  std::vector<ParameterSpec> known(std::begin(kCommon), std::end(kCommon));
  known.insert(known.end(), own.begin(), own.end());
  Parameters result;
  for (const auto& [name, value] : values) {
    const auto spec = std::find_if(known.begin(), known.end(),
                                   [&name = name](const auto& each) { return each.name == name; });
    if (spec == known.end()) {
      std::vector<std::string> names;
      for (const ParameterSpec& each : known) names.emplace_back(each.name);
      return absl::InvalidArgumentError(
          absl::StrCat("policy_parameters: '", name, "' is not a parameter of policy ",
                       std::string(policy), "; it has ", absl::StrJoin(names, ", ")));
    }
    if (!(value >= spec->low && value <= spec->high)) {
      return absl::InvalidArgumentError(absl::StrCat("policy_parameters[", name, "]: ", value,
                                                     " is outside [", spec->low, ", ", spec->high,
                                                     "]"));
    }
    result.*spec->field = value;
  }
  const bool prunes = std::any_of(own.begin(), own.end(), [](const ParameterSpec& each) {
    return each.field == &Parameters::prune_below;
  });
  if (prunes && result.prune_below > result.promote_above) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy_parameters: prune_below ", result.prune_below,
                     " must not exceed promote_above ", result.promote_above));
  }
  return result;
}

template <class Made>
std::unique_ptr<const Policy> Make(const Parameters& parameters) {
  return std::make_unique<const Made>(parameters);
}

struct PolicyEntry {
  std::string_view name;
  std::span<const ParameterSpec> parameters;  // besides the common ones
  std::unique_ptr<const Policy> (*make)(const Parameters&);
};

// One row for each of PolicyNames().
constexpr PolicyEntry kPolicies[] = {
    {"threshold", kOfThreshold, Make<ThresholdPolicy>},
    {"top_k", kOfTopK, Make<TopKPolicy>},
    {"risk", kOfRisk, Make<RiskPolicy>},
};

}  // namespace

bool Policy::MaySelect(const PolicyInput& input) const {
  return input.max_measurements == 0 || input.decided >= input.expected_decisions;
}

const Policy& DefaultPolicy() {
  static const Policy* const policy =
      MakePolicy(kDefaultPolicy, {{"prune_below", 0.2}}).value().release();
  return *policy;
}

std::vector<PolicyParameter> OwnParameters(std::string_view name) {
  std::vector<PolicyParameter> parameters;
  for (const PolicyEntry& policy : kPolicies) {
    if (policy.name != name) continue;
    for (const ParameterSpec& each : policy.parameters) {
      parameters.push_back({each.name, Parameters().*each.field});
    }
  }
  return parameters;
}

absl::StatusOr<std::unique_ptr<const Policy>> MakePolicy(
    std::string_view name, const std::map<std::string, double>& parameters) {
  if (name.empty()) name = kDefaultPolicy;
  const std::span<const std::string_view> names = PolicyNames();
  if (std::ranges::find(names, name) == names.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "policy: '", std::string(name), "' is not one of ",
        absl::StrJoin(names, ", ",
                      [](std::string* out, std::string_view each) { out->append(each); })));
  }
  for (const PolicyEntry& policy : kPolicies) {
    if (policy.name != name) continue;
    KC_ASSIGN_OR_RETURN(const Parameters parsed, Parse(name, policy.parameters, parameters));
    return policy.make(parsed);
  }
  return absl::InternalError(absl::StrCat("policy '", std::string(name), "' is not implemented"));
}

}  // namespace kernelcast::orchestrator
