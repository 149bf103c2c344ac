#include "services/cli/report/analysis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/split_mix.h"
#include "common/convert/convert.h"
#include "common/domain/measuring_cost.h"
#include "services/cli/core/text.h"
#include "services/cli/report/gate_text.h"

namespace kernelcast::cli {
namespace {

// Length of a model's text shown as an example.
constexpr int kShownExample = 120;

std::string WrongResultPhrase(WrongResult::Cause cause) {
  switch (cause) {
    case WrongResult::Cause::kValue: return "wrong result: a value is off";
    case WrongResult::Cause::kNonFinite: return "wrong result: not a finite number";
    case WrongResult::Cause::kNormwise: return "wrong result: off as a whole";
    case WrongResult::Cause::kNotWritten: return "wrong result: output not written";
    case WrongResult::Cause::kEntryStatus: return "wrong result: the entry reported an error";
    case WrongResult::Cause::kTimedOutput: return "wrong result: wrong while being timed";
    case WrongResult::Cause::kForm: return "wrong result: kind of an output";
    case WrongResult::Cause::kShape: return "wrong result: shape of an output";
    case WrongResult::Cause::kDtype: return "wrong result: dtype of an output";
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
    case Exploit::Kind::kImplausiblyFast: return "exploit: faster than the hardware allows";
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
        } else if constexpr (std::is_same_v<T, Passed>) {
          return "correct, not timed";
        } else {
          return "";
        }
      },
      measurement.outcome);
}

// A forecast of the reliability diagram.
struct Scored {
  int bucket = 0;
  double weight = 0;
  double confidence = 0;
  bool hit = false;
};

constexpr int kBuckets = 10;
constexpr int kErrorResamples = 1000;

// The expected calibration error of forecasts, each counted `times` its weight.
double CalibrationError(const std::vector<Scored>& scored, const std::vector<int>& times) {
  std::array<double, kBuckets> gaps{};  // sum of weight * (hit - confidence)
  double total = 0;
  for (size_t i = 0; i < scored.size(); ++i) {
    const double weight = scored[i].weight * times[i];
    gaps[static_cast<size_t>(scored[i].bucket)] +=
        weight * ((scored[i].hit ? 1 : 0) - scored[i].confidence);
    total += weight;
  }
  double error = 0;
  for (const double gap : gaps) error += std::fabs(gap);
  return total > 0 ? error / total : std::numeric_limits<double>::quiet_NaN();
}

// With its interval from bootstrap resamples, which are the same for the same forecasts.
Interval CalibrationErrorInterval(const std::vector<Scored>& scored) {
  Interval interval;
  interval.value = CalibrationError(scored, std::vector<int>(scored.size(), 1));
  interval.low = interval.high = interval.value;
  if (scored.empty()) return interval;
  uint64_t state = 1;
  std::vector<double> errors;
  for (int resample = 0; resample < kErrorResamples; ++resample) {
    std::vector<int> times(scored.size(), 0);
    for (size_t draw = 0; draw < scored.size(); ++draw) {
      ++times[static_cast<size_t>(UnitInterval(state) * static_cast<double>(scored.size()))];
    }
    errors.push_back(CalibrationError(scored, times));
  }
  std::ranges::sort(errors);
  interval.low = errors[kErrorResamples / 40];
  interval.high = errors[kErrorResamples - 1 - kErrorResamples / 40];
  return interval;
}

void AnalyzeReliability(const ReportInput& input, ReportAnalysis& analysis) {
  const std::map<std::string, double> speedups = SpeedupsById(input.candidates);
  std::vector<Scored> scored;
  std::vector<ReliabilityPoint> points(kBuckets);
  std::vector<double> hits(kBuckets, 0);
  for (int b = 0; b < kBuckets; ++b) {
    points[static_cast<size_t>(b)].low = b / 10.0;
    points[static_cast<size_t>(b)].high = (b + 1) / 10.0;
  }
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
    scored.push_back({bucket, weight, confidence, predicted == *label});
    ++analysis.scored_forecasts;
  }
  analysis.reliability_error = CalibrationErrorInterval(scored);
  for (int b = 0; b < kBuckets; ++b) {
    ReliabilityPoint& point = points[static_cast<size_t>(b)];
    if (point.weight <= 0) continue;
    point.mean_confidence /= point.weight;
    point.accuracy = hits[static_cast<size_t>(b)] / point.weight;
  }
  analysis.reliability = std::move(points);
}

DecisionReason ReasonOf(const ReportCandidate& candidate) {
  if (candidate.reused) return DecisionReason::kReused;
  return candidate.decision.has_value() ? candidate.decision->reason : DecisionReason::kRequested;
}

void Count(const ReportInput& input, ReportAnalysis& analysis) {
  ReportCounts& counts = analysis.counts;
  MeasuringCost cost;
  std::map<std::string, double> pruned;  // P(failure) by candidate
  std::map<std::string, CountedCandidate> counted;
  std::set<std::string> faster;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    const double seconds = DeviceSecondsOf(candidate);
    double preparing = candidate.unstable_preparing_seconds;
    if (candidate.measurement.has_value() && !candidate.reused) {
      preparing += static_cast<double>(candidate.measurement->preparation_time_ns) * 1e-9;
    }
    counts.device_seconds_spent += seconds;
    counts.device_seconds_preparing += preparing;
    if (analysis.is_confirmation[i]) {
      counts.device_seconds_confirming += seconds - preparing;
      continue;
    }
    const std::string& id = candidate.candidate.candidate_id;
    CountedCandidate& one = counted[id];
    one.Accept(counts);
    one.Settle(ReasonOf(candidate), OutcomeOf(candidate), counts);
    const std::optional<double> failure_probability =
        candidate.forecast.has_value() ? std::optional(candidate.forecast->failure_probability)
                                       : std::nullopt;
    if (candidate.measurement.has_value()) {
      if (const auto before = pruned.extract(id)) cost.Unpruned(before.mapped());
      const Measurement& measurement = *candidate.measurement;
      if (!candidate.reused && measurement.level == MeasureLevel::kScreen &&
          OutcomeOf(candidate) != EvaluationOutcome::kUnstable) {
        cost.Measured(measurement.device_time_ns - measurement.preparation_time_ns,
                      SpeedupOf(candidate) != nullptr, failure_probability);
      }
    } else if (OutcomeOf(candidate) == EvaluationOutcome::kPruned && failure_probability) {
      if (const auto before = pruned.extract(id)) cost.Unpruned(before.mapped());
      pruned.emplace(id, *failure_probability);
      cost.Pruned(*failure_probability);
    }
    const Ratio* speedup = SpeedupOf(candidate);
    if (speedup != nullptr && speedup->low > 1) faster.insert(id);
  }
  counts.faster = faster.size();
  counts.device_seconds_avoided = static_cast<double>(cost.AvoidedNs()) * 1e-9;
  if (input.search.has_value() && input.search->counts().has_device_time_spent()) {
    const auto seconds = [](const google::protobuf::Duration& duration) {
      return static_cast<double>(ToNanoseconds(duration)) * 1e-9;
    };
    const v1::SearchCounts& known = input.search->counts();
    counts.device_seconds_spent = seconds(known.device_time_spent());
    counts.device_seconds_preparing = seconds(known.device_time_preparing());
    counts.device_seconds_confirming = seconds(known.device_time_confirming());
    counts.device_seconds_avoided = seconds(known.device_time_avoided());
  }
}

// Finds the search's named best, or else the best of the records.
void FindBest(const ReportInput& input, ReportAnalysis& analysis) {
  const bool named =
      input.confirmed.has_value() && MeasuredSpeedup(input.confirmed->measurement) != nullptr;
  const ReportRow* row = nullptr;
  if (named) {
    analysis.shown_best = input.confirmed;
    const std::string& id = analysis.shown_best->candidate.candidate_id;
    for (const ReportRow& one : analysis.rows) {
      if (input.candidates[one.standing].candidate.candidate_id == id) row = &one;
    }
  } else if (input.search.has_value() && NothingCarriesOver(*input.search)) {
    return;
  } else if (!analysis.rows.empty() && analysis.rows.front().speedup() != nullptr) {
    row = &analysis.rows.front();
    size_t place = row->standing;
    for (const size_t i : row->confirmations) {
      if (SpeedupOf(input.candidates[i]) != nullptr) place = i;
    }
    const ReportCandidate& best = input.candidates[place];
    analysis.shown_best = ReportBest{best.candidate, *best.measurement, best.request_id};
  }
  if (!analysis.shown_best.has_value()) return;
  Candidate& shown = analysis.shown_best->candidate;
  analysis.confirmed = named || row->final.has_value();
  analysis.best_speedup =
      row != nullptr ? *row->speedup() : *MeasuredSpeedup(analysis.shown_best->measurement);
  if (analysis.confirmed && row != nullptr) analysis.best_screening = row->screening;
  analysis.faster = analysis.best_speedup.low > 1;
  for (const ReportCandidate& candidate : input.candidates) {
    if (!shown.source.empty()) return;
    if (candidate.candidate.candidate_id == shown.candidate_id) shown = candidate.candidate;
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
    if (FateOf(candidate) == Fate::kPruned) {
      ++origin.pruned;
      if (candidate.decision.has_value()) ++analysis.counts.pruned_by[candidate.decision->reason];
    }
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
    // Searches have no checks.
    if (std::holds_alternative<EnvironmentUnstable>(candidate.measurement->outcome) ||
        std::holds_alternative<Passed>(candidate.measurement->outcome)) {
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

std::string NameOf(const Candidate& candidate) {
  return candidate.name.empty() ? OriginOf(candidate) : candidate.name;
}

Route RouteOf(const ReportCandidate& candidate) { return kernelcast::RouteOf(ReasonOf(candidate)); }

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
  if (!candidate.decision.has_value() || candidate.decision->audit_propensity <= 0) {
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

std::string RiskText(const v1::SelectiveRisk& risk) {
  std::string text =
      absl::StrCat("Of ", FormatCount(risk.candidates()),
                   " candidates that were pruned as unpromising or as a likely failure, or audited "
                   "instead, ");
  if (risk.measured() == 0) {
    absl::StrAppend(&text, "none was audited, so the loss from pruning is unknown.");
  } else {
    // With few audits the unbiased estimate can exceed 1.
    absl::StrAppend(&text, FormatShare(std::min(1.0, risk.estimate())), " [",
                    FormatShare(risk.low()), ", ", FormatShare(risk.high()),
                    "] would have won, by the ", FormatCount(risk.measured()),
                    risk.measured() == 1 ? " audit." : " audits.");
  }
  if (!risk.certifies()) return text;
  if (risk.certified_threshold() > 0) {
    absl::StrAppend(&text, " Certified with confidence ", FormatShare(1 - risk.delta()),
                    ": at most ", FormatShare(risk.alpha()),
                    " of those with a win probability below ",
                    FormatShare(risk.certified_threshold()), " are winners.");
  } else {
    absl::StrAppend(&text, " Nothing is certified",
                    risk.informative()
                        ? "."
                        : ": the forecasts have not been shown to distinguish faster from "
                          "slower.");
  }
  if (risk.alarms() > 0) {
    absl::StrAppend(&text, " A certificate was revoked ", FormatCount(risk.alarms()),
                    risk.alarms() == 1 ? " time." : " times.");
  }
  return text;
}

namespace {

constexpr std::string_view kCutOff = "cut_off";

// " (3 not_json, 1 cut_off)"
std::string KindsText(const google::protobuf::RepeatedPtrField<v1::UnreadableAnswers>& kinds) {
  std::string text;
  for (const v1::UnreadableAnswers& one : kinds) {
    absl::StrAppend(&text, text.empty() ? " (" : ", ", FormatCount(one.count()), " ",
                    OneLine(one.fault()));
  }
  return text.empty() ? text : text + ")";
}

// One sentence for each kind, and what to do about answers that are cut off.
std::string ExamplesText(const google::protobuf::RepeatedPtrField<v1::UnreadableAnswers>& kinds,
                         std::string_view limit_flag) {
  std::string text;
  for (const v1::UnreadableAnswers& one : kinds) {
    if (!one.example().empty()) {
      absl::StrAppend(&text, " First ", OneLine(one.fault()), ": \"",
                      Truncate(OneLine(one.example()), kShownExample), "\".");
    }
    if (one.fault() == kCutOff) {
      absl::StrAppend(&text, " Raise ", std::string(limit_flag), ": answers were cut off.");
    }
  }
  return text;
}

std::string RepairsText(const google::protobuf::Map<std::string, uint64_t>& repairs) {
  std::string text;
  for (const auto& [repair, count] :
       std::map<std::string, uint64_t>(repairs.begin(), repairs.end())) {
    absl::StrAppend(&text, text.empty() ? " Answers mended: " : ", ", FormatCount(count), " ",
                    OneLine(repair));
  }
  return text.empty() ? text : text + ".";
}

std::string GenerationText(const v1::GenerationCounts& generation) {
  std::string text = absl::StrCat(
      "Asked a model for ", FormatCount(generation.requested()),
      generation.requested() == 1 ? " kernel: " : " kernels: ", FormatCount(generation.written()),
      " written, ", FormatCount(generation.duplicates()), " repeated, ",
      FormatCount(generation.unusable()), " unusable", KindsText(generation.unusable_kinds()), ", ",
      FormatCount(generation.unanswered()), " unanswered");
  if (generation.given_up() > 0) {
    absl::StrAppend(&text, ", ", FormatCount(generation.given_up()), " abandoned at the end");
  }
  if (generation.advised() > 0) {
    absl::StrAppend(&text, ", on ", FormatCount(generation.advised()),
                    generation.advised() == 1 ? " answer of a critic" : " answers of a critic");
  }
  absl::StrAppend(&text, "; ", FormatCount(generation.input_tokens() + generation.output_tokens()),
                  " tokens");
  if (generation.cost() > 0) absl::StrAppend(&text, ", cost ", FormatNumber(generation.cost()));
  return absl::StrCat(text, ".", RepairsText(generation.repairs()),
                      ExamplesText(generation.unusable_kinds(), "--llm-max-tokens"));
}

std::string ModelUseText(const v1::ModelUse& use) {
  uint64_t unreadable = 0;
  for (const v1::UnreadableAnswers& one : use.unreadable()) unreadable += one.count();
  std::string text = absl::StrCat(
      "Asked a model for ", FormatCount(use.asked()),
      use.asked() == 1 ? " forecast: " : " forecasts: ", FormatCount(use.used()), " used, ",
      FormatCount(use.declined()), " declined, ", FormatCount(unreadable), " unreadable",
      KindsText(use.unreadable()), ", ", FormatCount(use.unanswered()), " unanswered");
  if (use.late() > 0) absl::StrAppend(&text, ", ", FormatCount(use.late()), " late");
  absl::StrAppend(&text, "; ",
                  FormatCount(use.token_usage().input_tokens() + use.token_usage().output_tokens()),
                  " tokens");
  if (use.token_usage().cost_dollars() > 0) {
    absl::StrAppend(&text, ", cost ", FormatNumber(use.token_usage().cost_dollars()));
  }
  text += ".";
  if (use.over_budget() > 0) {
    absl::StrAppend(&text, " Not asked for ", FormatCount(use.over_budget()),
                    " more: the token budget was spent.");
  }
  if (use.not_worth_it() > 0) {
    absl::StrAppend(&text, " Not asked for ", FormatCount(use.not_worth_it()),
                    " more: its answers gain less than they cost.");
  }
  if (use.used() == 0) text += " No forecast uses an answer of a model.";
  absl::StrAppend(&text, RepairsText(use.repairs()),
                  ExamplesText(use.unreadable(), "--llm-max-tokens"));
  if (use.unanswered() > 0 && !use.last_error().empty()) {
    absl::StrAppend(&text, " Last error: ", Truncate(OneLine(use.last_error()), kShownExample),
                    ".");
  }
  return text;
}

}  // namespace

std::vector<std::string> ModelTexts(const v1::Search& search) {
  std::vector<std::string> texts;
  const v1::SearchCounts& counts = search.counts();
  if (search.spec().generator() == v1::GENERATOR_LLM) {
    texts.push_back(GenerationText(counts.generation()));
  }
  if (counts.has_model_use()) texts.push_back(ModelUseText(counts.model_use()));
  return texts;
}

std::string MeasuredWhyText(const ReportCounts& counts) {
  std::string text;
  for (const auto& [count, word] :
       {std::pair(counts.bootstrap, "bootstrap"), std::pair(counts.selected, "selected"),
        std::pair(counts.deferred, "deferred"), std::pair(counts.promoted, "promoted"),
        std::pair(counts.audited, "audited"), std::pair(counts.requested, "requested"),
        std::pair(counts.unforecast, "without a forecast")}) {
    if (count > 0) absl::StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), " ", word);
  }
  return text;
}

std::string PrunedWhyText(const ReportCounts& counts) {
  std::string text;
  for (const auto& [reason, count] : counts.pruned_by) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), " ",
                    std::string(ReasonWord(reason)));
  }
  return text;
}

std::string DeviceTimeText(const ReportCounts& counts) {
  const double measuring = counts.device_seconds_spent - counts.device_seconds_preparing -
                           counts.device_seconds_confirming;
  return absl::StrCat(FormatSeconds(counts.device_seconds_spent),
                      " of device time: ", FormatSeconds(std::max(0.0, measuring)), " measuring, ",
                      FormatSeconds(counts.device_seconds_preparing), " preparing, ",
                      FormatSeconds(counts.device_seconds_confirming), " confirming; ",
                      FormatSeconds(counts.device_seconds_avoided), " avoided by pruning");
}

double DeviceSecondsOf(const ReportCandidate& candidate) {
  double seconds = candidate.unstable_seconds;
  if (candidate.measurement.has_value() && !candidate.reused) {
    seconds += static_cast<double>(candidate.measurement->device_time_ns) * 1e-9;
  }
  return seconds;
}

std::string ExpectedText(const Forecast& forecast) {
  if (forecast.basis == ForecastBasis::kPriorOnly) return "unknown";
  return FormatSpeedup(std::exp2(forecast.expected_log2_speedup));
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
    case DecisionReason::kSelected: return "selected";
    case DecisionReason::kDeclined: return "declined";
    case DecisionReason::kUnpromising: return "unpromising";
    case DecisionReason::kBudgetPace: return "budget pace";
    case DecisionReason::kLikelyFailure: return "likely failure";
    case DecisionReason::kForecastOnly: return "forecast only";
    case DecisionReason::kCompileError: return "does not compile";
    case DecisionReason::kDuplicate: return "duplicate";
    case DecisionReason::kBudget: return "over budget";
    case DecisionReason::kCancelled: return "cancelled";
    case DecisionReason::kUnavailable: return "unavailable";
  }
  return "";
}

ReportAnalysis Analyze(const ReportInput& input) {
  ReportAnalysis analysis;
  analysis.is_confirmation = Confirmations(input);
  analysis.rows = ReportRows(input, analysis.is_confirmation);
  analysis.superseded.assign(input.candidates.size(), false);
  for (const ReportRow& row : analysis.rows) {
    for (const size_t i : row.others) analysis.superseded[i] = true;
  }
  Count(input, analysis);
  FindBest(input, analysis);
  Summarize(input, analysis);
  AnalyzeReliability(input, analysis);
  CollectVersions(input, analysis);
  return analysis;
}

}  // namespace kernelcast::cli
