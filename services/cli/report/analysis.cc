#include "services/cli/report/analysis.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {
namespace {

std::string WrongResultPhrase(WrongResult::Cause cause) {
  switch (cause) {
    case WrongResult::Cause::kValue: return "wrong result: a value is off";
    case WrongResult::Cause::kNonFinite: return "wrong result: not a finite number";
    case WrongResult::Cause::kNormwise: return "wrong result: off as a whole";
    case WrongResult::Cause::kNotWritten: return "wrong result: output not written";
    case WrongResult::Cause::kEntryStatus: return "wrong result: the entry reported an error";
    case WrongResult::Cause::kTimedOutput: return "wrong result: wrong while being timed";
  }
  return "wrong result";
}

std::string CrashPhrase(const Crash& crash) {
  switch (crash.cause) {
    case Crash::Cause::kSignal: {
      const char* name = sigabbrev_np(crash.signal);
      return name == nullptr ? absl::StrCat("crash: signal ", crash.signal)
                             : absl::StrCat("crash: SIG", name);
    }
    case Crash::Cause::kExit: return "crash: the process exited";
    case Crash::Cause::kMemoryLimit: return "crash: memory limit";
    case Crash::Cause::kOutputLimit: return "crash: output limit";
    case Crash::Cause::kLoad: return "crash: cannot be loaded";
    case Crash::Cause::kDeviceError: return "crash: device error";
  }
  return "crash";
}

std::string ExploitPhrase(Exploit::Kind kind) {
  switch (kind) {
    case Exploit::Kind::kForbiddenSystemCall: return "exploit: forbidden system call";
    case Exploit::Kind::kMutatedInput: return "exploit: changed its input";
    case Exploit::Kind::kCachedOutput: return "exploit: cached output";
    case Exploit::Kind::kSkippedWork: return "exploit: skipped work";
    case Exploit::Kind::kBelowRoofline: return "exploit: faster than the hardware allows";
    case Exploit::Kind::kWriteOutOfBounds: return "exploit: wrote out of bounds";
    case Exploit::Kind::kBackgroundWork: return "exploit: background work";
    case Exploit::Kind::kForgedResult: return "exploit: forged result";
  }
  return "exploit";
}

std::string CompileErrorPhrase(CompileStage stage) {
  switch (stage) {
    case CompileStage::kAdmission: return "not admitted: flag or include";
    case CompileStage::kCompiler: return "does not compile";
    case CompileStage::kLinker: return "does not link";
    case CompileStage::kLimit: return "compiler limit exceeded";
  }
  return "does not compile";
}

std::string MeasurementPhrase(const Measurement& measurement) {
  return std::visit(
      [](const auto& outcome) -> std::string {
        using T = std::decay_t<decltype(outcome)>;
        if constexpr (std::is_same_v<T, WrongResult>) {
          return WrongResultPhrase(outcome.cause);
        } else if constexpr (std::is_same_v<T, Crash>) {
          return CrashPhrase(outcome);
        } else if constexpr (std::is_same_v<T, Timeout>) {
          return "timeout";
        } else if constexpr (std::is_same_v<T, Exploit>) {
          return ExploitPhrase(outcome.kind);
        } else if constexpr (std::is_same_v<T, EnvironmentUnstable>) {
          return "environment too noisy to tell";
        } else {
          return "";
        }
      },
      measurement.outcome);
}

void AnalyzeReliability(const ReportInput& input, ReportAnalysis& analysis) {
  constexpr int kBuckets = 10;
  const std::map<std::string, double> speedups = SpeedupsById(input.candidates);
  std::vector<ReliabilityPoint> points(kBuckets);
  std::vector<double> hits(kBuckets, 0);
  for (int b = 0; b < kBuckets; ++b) {
    points[static_cast<size_t>(b)].low = b / 10.0;
    points[static_cast<size_t>(b)].high = (b + 1) / 10.0;
  }
  double total = 0;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    const Ratio* speedup = SpeedupOf(candidate);
    if (speedup == nullptr || !candidate.forecast.has_value() || candidate.reused ||
        analysis.is_confirmation[i] || candidate.forecast->bin_probabilities.empty()) {
      continue;
    }
    const Forecast& forecast = *candidate.forecast;
    const std::optional<double> relative = SpeedupOverBaseline(forecast, speedup->value, speedups);
    const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(forecast.bin_scheme_id);
    if (!relative.has_value() || !scheme.ok()) continue;
    const absl::StatusOr<int> label = (*scheme)->Label(*relative);
    if (!label.ok()) continue;
    const int predicted = ArgmaxBin(forecast.bin_probabilities);
    const double confidence = forecast.bin_probabilities[static_cast<size_t>(predicted - 1)];
    // A confidence of exactly k/10 belongs to the lower bucket, as in common/domain/scoring.h.
    const int bucket =
        std::clamp(static_cast<int>(std::ceil(confidence * kBuckets)) - 1, 0, kBuckets - 1);
    ReliabilityPoint& point = points[static_cast<size_t>(bucket)];
    const double weight = WeightOf(candidate);
    point.weight += weight;
    point.squared_weight += weight * weight;
    point.mean_confidence += weight * confidence;
    hits[static_cast<size_t>(bucket)] += weight * (predicted == *label ? 1 : 0);
    ++point.items;
    if (candidate.decision.has_value() && candidate.decision->reason == DecisionReason::kAudit) {
      ++point.audits;
    }
    total += weight;
    ++analysis.scored_forecasts;
  }
  analysis.reliability_error = total > 0 ? 0 : std::numeric_limits<double>::quiet_NaN();
  for (int b = 0; b < kBuckets; ++b) {
    ReliabilityPoint& point = points[static_cast<size_t>(b)];
    if (point.weight <= 0) continue;
    point.mean_confidence /= point.weight;
    point.accuracy = hits[static_cast<size_t>(b)] / point.weight;
    analysis.reliability_error +=
        point.weight / total * std::fabs(point.accuracy - point.mean_confidence);
  }
  analysis.reliability = std::move(points);
}

// Of several evaluations of one candidate, a measurement stands before a fact, a fact before a
// forecast, and a forecast before a refusal.
int Standing(const ReportCandidate& candidate) {
  if (candidate.measurement.has_value()) return 3;
  if (candidate.compile_error.has_value()) return 2;
  return FateOf(candidate) == Fate::kPruned ? 1 : 0;
}

void MarkSuperseded(const ReportInput& input, ReportAnalysis& analysis) {
  std::map<std::string, size_t> standing;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    analysis.superseded.push_back(false);
    const ReportCandidate& candidate = input.candidates[i];
    if (analysis.is_confirmation[i]) continue;
    const auto [entry, first] = standing.emplace(candidate.candidate.candidate_id, i);
    if (first) continue;
    const size_t other = entry->second;
    const int own = Standing(candidate);
    const int others = Standing(input.candidates[other]);
    // Two measurements of one candidate are both shown; the second is a repetition or reused.
    if (own == 3 && others == 3) continue;
    if (own >= others) {
      analysis.superseded[other] = true;
      entry->second = i;
    } else {
      analysis.superseded[i] = true;
    }
  }
}

void Count(const ReportInput& input, ReportAnalysis& analysis) {
  ReportCounts& counts = analysis.counts;
  double measured_seconds = 0;
  std::set<std::string> seen;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    const double seconds = candidate.measurement.has_value() && !candidate.reused
                               ? static_cast<double>(candidate.measurement->device_time_ns) * 1e-9
                               : 0;
    counts.device_seconds_spent += seconds;
    if (analysis.is_confirmation[i]) {
      counts.device_seconds_confirming += seconds;
      continue;
    }
    ++counts.decided;
    const DecisionReason reason =
        candidate.decision.has_value() ? candidate.decision->reason : DecisionReason::kRequested;
    if (reason == DecisionReason::kLowConfidence) ++counts.deferred;
    if (reason == DecisionReason::kPromising) ++counts.promoted;
    if (reason == DecisionReason::kAudit) ++counts.audited;
    if (analysis.superseded[i]) continue;
    if (seen.insert(candidate.candidate.candidate_id).second) ++counts.considered;
    const Fate fate = FateOf(candidate);
    if (fate == Fate::kPruned) ++counts.pruned;
    if (fate == Fate::kRejected) ++counts.rejected;
    if (candidate.compile_error.has_value()) ++counts.failures;
    if (!candidate.measurement.has_value()) continue;
    if (candidate.reused) {
      ++counts.reused;
    } else {
      ++counts.measured;
      measured_seconds += seconds;
    }
    if (fate == Fate::kFailed) ++counts.failures;
    const Ratio* speedup = SpeedupOf(candidate);
    if (speedup != nullptr && speedup->low > 1) ++counts.faster;
    switch (reason) {
      case DecisionReason::kLowConfidence: ++counts.measured_deferred; break;
      case DecisionReason::kPromising: ++counts.measured_promoted; break;
      case DecisionReason::kAudit: ++counts.measured_audited; break;
      default: ++counts.measured_otherwise;
    }
  }
  if (counts.measured > 0) {
    counts.device_seconds_avoided = static_cast<double>(counts.pruned) * measured_seconds /
                                    static_cast<double>(counts.measured);
  }
  if (counts.decided > 0) {
    counts.defer_rate = static_cast<double>(counts.deferred) / static_cast<double>(counts.decided);
  }
}

void FindBest(const ReportInput& input, ReportAnalysis& analysis) {
  double best_speedup = 0;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const Ratio* speedup = SpeedupOf(input.candidates[i]);
    if (speedup == nullptr || speedup->value <= best_speedup) continue;
    // A confirmation repeats what is already listed; it is shown as such, not as another best.
    if (analysis.is_confirmation[i]) continue;
    best_speedup = speedup->value;
    analysis.best = static_cast<int>(i);
  }
  if (input.search.has_value() && input.search->confirmed.has_value() &&
      MeasuredSpeedup(input.search->confirmed->measurement) != nullptr) {
    analysis.shown_best = input.search->confirmed;
    analysis.confirmed = true;
  } else {
    // Without a search at hand, a confirmation among the records counts the same.
    double confirmed_speedup = 0;
    for (size_t i = 0; i < input.candidates.size(); ++i) {
      const ReportCandidate& candidate = input.candidates[i];
      const Ratio* speedup = SpeedupOf(candidate);
      if (speedup == nullptr || candidate.measurement->level != MeasureLevel::kFinal ||
          speedup->value <= confirmed_speedup) {
        continue;
      }
      confirmed_speedup = speedup->value;
      analysis.shown_best =
          ReportBest{candidate.candidate, *candidate.measurement, candidate.request_id};
      analysis.confirmed = true;
    }
  }
  if (!analysis.shown_best.has_value() && analysis.best >= 0) {
    const ReportCandidate& best = input.candidates[static_cast<size_t>(analysis.best)];
    analysis.shown_best = ReportBest{best.candidate, *best.measurement, best.request_id};
  }
  if (!analysis.shown_best.has_value()) return;
  Candidate& shown = analysis.shown_best->candidate;
  const Ratio* speedup = MeasuredSpeedup(analysis.shown_best->measurement);
  analysis.faster = speedup != nullptr && speedup->low > 1;
  if (!shown.source.empty()) return;
  for (const ReportCandidate& candidate : input.candidates) {
    if (candidate.candidate.candidate_id == shown.candidate_id &&
        !candidate.candidate.source.empty()) {
      shown = candidate.candidate;
      return;
    }
  }
}

void Summarize(const ReportInput& input, ReportAnalysis& analysis) {
  std::map<std::string, OriginSummary> origins;
  std::map<std::string, FailureSummary> failures;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    if (analysis.is_confirmation[i] || analysis.superseded[i]) continue;
    const ReportCandidate& candidate = input.candidates[i];
    OriginSummary& origin = origins[OriginOf(candidate.candidate)];
    origin.origin = OriginOf(candidate.candidate);
    ++origin.considered;
    if (candidate.measurement.has_value()) ++origin.measured;
    if (FateOf(candidate) == Fate::kPruned) ++origin.pruned;
    if (const Ratio* speedup = SpeedupOf(candidate); speedup != nullptr) {
      origin.speedups.push_back(speedup->value);
    }
    const std::string phrase = FailurePhrase(candidate);
    if (phrase.empty()) continue;
    ++origin.failures;
    FailureSummary& failure = failures[phrase];
    failure.phrase = phrase;
    failure.measured = candidate.measurement.has_value();
    ++failure.count;
  }
  for (auto& [name, origin] : origins) {
    std::sort(origin.speedups.begin(), origin.speedups.end());
    analysis.origins.push_back(std::move(origin));
  }
  std::stable_sort(analysis.origins.begin(), analysis.origins.end(),
                   [](const OriginSummary& a, const OriginSummary& b) {
                     const double best_a = a.speedups.empty() ? 0 : a.speedups.back();
                     const double best_b = b.speedups.empty() ? 0 : b.speedups.back();
                     return best_a > best_b;
                   });
  for (auto& [phrase, failure] : failures) analysis.failures.push_back(std::move(failure));
  std::stable_sort(
      analysis.failures.begin(), analysis.failures.end(),
      [](const FailureSummary& a, const FailureSummary& b) { return a.count > b.count; });
}

void CollectVersions(const ReportInput& input, ReportAnalysis& analysis) {
  std::set<std::string> workers;
  std::set<std::string> forecasters;
  std::set<std::string> policies;
  const auto from_measurement = [&](const Measurement& measurement) {
    if (!measurement.worker_id.empty()) workers.insert(measurement.worker_id);
    if (!measurement.device.model.empty()) analysis.device = measurement.device;
    if (!measurement.toolchain.empty()) analysis.toolchain = measurement.toolchain;
    if (!measurement.architecture.empty()) analysis.architecture = measurement.architecture;
    if (!measurement.protocol_version.empty()) {
      analysis.protocol_version = measurement.protocol_version;
    }
  };
  for (const ReportCandidate& candidate : input.candidates) {
    if (candidate.measurement.has_value()) from_measurement(*candidate.measurement);
    if (candidate.forecast.has_value()) {
      const Forecast& forecast = *candidate.forecast;
      std::string name = absl::StrCat(forecast.backend, " ", forecast.backend_version);
      if (!forecast.calibrator_version.empty()) {
        absl::StrAppend(&name, ", calibrator ", forecast.calibrator_version);
      }
      forecasters.insert(std::move(name));
    }
    if (candidate.decision.has_value() && !candidate.decision->policy.empty()) {
      policies.insert(
          absl::StrCat(candidate.decision->policy, " ", candidate.decision->policy_version));
    }
  }
  if (analysis.shown_best.has_value()) from_measurement(analysis.shown_best->measurement);
  analysis.workers.assign(workers.begin(), workers.end());
  analysis.forecasters.assign(forecasters.begin(), forecasters.end());
  analysis.policies.assign(policies.begin(), policies.end());
}

}  // namespace

Fate FateOf(const ReportCandidate& candidate) {
  if (candidate.measurement.has_value()) {
    if (std::holds_alternative<MeasuredOk>(candidate.measurement->outcome)) return Fate::kOk;
    if (std::holds_alternative<EnvironmentUnstable>(candidate.measurement->outcome)) {
      return Fate::kUnstable;
    }
    return Fate::kFailed;
  }
  if (candidate.compile_error.has_value() || !candidate.rejection.empty()) return Fate::kRejected;
  return Fate::kPruned;
}

const Ratio* SpeedupOf(const ReportCandidate& candidate) {
  return candidate.measurement.has_value() ? MeasuredSpeedup(*candidate.measurement) : nullptr;
}

std::string OriginOf(const Candidate& candidate) {
  static constexpr std::string_view kPrefix = "template:";
  if (candidate.origin.empty()) return "unnamed";
  const std::string_view origin(candidate.origin);
  return std::string(origin.substr(0, kPrefix.size()) == kPrefix ? origin.substr(kPrefix.size())
                                                                 : origin);
}

std::string TunablesOf(const Candidate& candidate) {
  std::string text;
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "TEMPLATE" || tunable.name == "FLAGS") continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", tunable.name, "=", tunable.value);
  }
  for (const std::string& flag : candidate.flags) {
    absl::StrAppend(&text, text.empty() ? "" : " ", flag);
  }
  return text;
}

std::string FailurePhrase(const ReportCandidate& candidate) {
  if (candidate.measurement.has_value()) return MeasurementPhrase(*candidate.measurement);
  if (candidate.compile_error.has_value())
    return CompileErrorPhrase(candidate.compile_error->stage);
  return "";
}

std::map<std::string, double> SpeedupsById(const std::vector<ReportCandidate>& candidates) {
  std::map<std::string, double> speedups;
  for (const ReportCandidate& candidate : candidates) {
    if (const Ratio* speedup = SpeedupOf(candidate); speedup != nullptr) {
      speedups.emplace(candidate.candidate.candidate_id, speedup->value);
    }
  }
  return speedups;
}

std::optional<double> SpeedupOverBaseline(const Forecast& forecast, double speedup,
                                          const std::map<std::string, double>& speedups) {
  if (forecast.baseline_candidate_id.empty()) return speedup;
  const auto baseline = speedups.find(forecast.baseline_candidate_id);
  if (baseline == speedups.end() || baseline->second <= 0) return std::nullopt;
  return speedup / baseline->second;
}

double WeightOf(const ReportCandidate& candidate) {
  if (!candidate.decision.has_value() || candidate.decision->reason != DecisionReason::kAudit ||
      candidate.decision->audit_propensity <= 0) {
    return 1;
  }
  return 1 / candidate.decision->audit_propensity;
}

std::optional<ForecastOutcome> ForecastOutcomeOf(const ReportCandidate& candidate,
                                                 const std::map<std::string, double>& speedups,
                                                 uint64_t* unknown_baseline) {
  if (!candidate.forecast.has_value() || candidate.reused) return std::nullopt;
  ForecastOutcome outcome;
  outcome.forecast = *candidate.forecast;
  outcome.weight = WeightOf(candidate);
  outcome.pool = absl::StrCat(candidate.candidate.problem_id, "/", candidate.candidate.target);
  outcome.cluster = candidate.candidate.candidate_id;
  if (const Ratio* speedup = SpeedupOf(candidate); speedup != nullptr) {
    outcome.speedup = SpeedupOverBaseline(*candidate.forecast, speedup->value, speedups);
    if (outcome.speedup.has_value()) return outcome;
    ++*unknown_baseline;
    return std::nullopt;
  }
  outcome.failed = true;
  return FateOf(candidate) == Fate::kFailed ? std::make_optional(outcome) : std::nullopt;
}

std::vector<ForecastOutcome> ForecastOutcomes(const std::vector<ReportCandidate>& candidates,
                                              uint64_t* skipped) {
  const std::map<std::string, double> speedups = SpeedupsById(candidates);
  std::vector<ForecastOutcome> outcomes;
  uint64_t unknown_baseline = 0;
  for (const ReportCandidate& candidate : candidates) {
    std::optional<ForecastOutcome> outcome =
        ForecastOutcomeOf(candidate, speedups, &unknown_baseline);
    if (outcome.has_value()) outcomes.push_back(*std::move(outcome));
  }
  if (skipped != nullptr) *skipped = unknown_baseline;
  return outcomes;
}

std::string RiskText(const ReportRisk& risk) {
  std::string text =
      absl::StrCat("Of ", FormatCount(risk.candidates), " candidates pruned or audited, ");
  if (risk.measured == 0) {
    absl::StrAppend(&text, "none was measured all the same, so nothing is known.");
  } else {
    absl::StrAppend(&text, FormatShare(risk.estimate), " [", FormatShare(risk.low), ", ",
                    FormatShare(risk.high), "] would have won, by the ", FormatCount(risk.measured),
                    " that ", risk.measured == 1 ? "was" : "were", " measured all the same.");
  }
  if (risk.certified_threshold > 0) {
    absl::StrAppend(&text, " Certified with confidence ", FormatShare(1 - risk.delta), ": at most ",
                    FormatShare(risk.alpha), " of those with a win probability below ",
                    FormatShare(risk.certified_threshold), " are winners.");
  } else {
    absl::StrAppend(&text, " Nothing is certified",
                    risk.informative ? "."
                                     : ": the forecasts were not seen to tell faster from "
                                       "slower.");
  }
  if (risk.alarms > 0) {
    absl::StrAppend(&text, " A certificate was taken back ", FormatCount(risk.alarms),
                    risk.alarms == 1 ? " time." : " times.");
  }
  return text;
}

std::string_view ReasonWord(DecisionReason reason) {
  switch (reason) {
    case DecisionReason::kLowConfidence: return "deferred";
    case DecisionReason::kPromising: return "promoted";
    case DecisionReason::kAudit: return "audit";
    case DecisionReason::kNoForecast: return "no forecast";
    case DecisionReason::kRequested: return "requested";
    case DecisionReason::kBootstrap: return "bootstrap";
    case DecisionReason::kReused: return "measured before";
    case DecisionReason::kUnpromising: return "unpromising";
    case DecisionReason::kBudgetPace: return "budget pace";
    case DecisionReason::kLikelyFailure: return "likely failure";
    case DecisionReason::kForecastOnly: return "forecast only";
    case DecisionReason::kCompileError: return "does not compile";
    case DecisionReason::kDuplicate: return "duplicate";
    case DecisionReason::kBudget: return "over budget";
    case DecisionReason::kCancelled: return "cancelled";
    case DecisionReason::kUnavailable: return "no worker";
  }
  return "";
}

ReportAnalysis Analyze(const ReportInput& input) {
  ReportAnalysis analysis;
  std::set<std::string> measured_before;
  for (const ReportCandidate& candidate : input.candidates) {
    const bool again = measured_before.count(candidate.candidate.candidate_id) > 0;
    analysis.is_confirmation.push_back(candidate.measurement.has_value() && again &&
                                       candidate.measurement->level == MeasureLevel::kFinal);
    if (candidate.measurement.has_value()) {
      measured_before.insert(candidate.candidate.candidate_id);
    }
  }
  MarkSuperseded(input, analysis);
  Count(input, analysis);
  FindBest(input, analysis);
  Summarize(input, analysis);
  AnalyzeReliability(input, analysis);
  CollectVersions(input, analysis);
  return analysis;
}

}  // namespace kernelcast::cli
