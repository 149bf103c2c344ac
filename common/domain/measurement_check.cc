#include "common/domain/measurement_check.h"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

constexpr double kMaxRatio = 1e9;
constexpr size_t kMaxShortTextBytes = 4 << 10;
constexpr size_t kMaxTextBytes = 1 << 20;
constexpr size_t kMaxItems = 10'000;
constexpr size_t kMaxFacts = 10'000;
constexpr int32_t kMaxSignal = 128;

// Keeps the first error, so that fields can be checked one after another.
class Checker {
 public:
  const absl::Status& status() const { return status_; }

  void Require(bool holds, std::string_view field, std::string_view wanted) {
    if (holds || !status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(std::string(field), " is not ", std::string(wanted)));
  }
  void Time(std::string_view field, double ns) {
    Require(ns >= 0 && ns <= kMaxTimeNs, field, "a time of 0 ns to a week");
  }
  void Amount(std::string_view field, double value) {
    Require(std::isfinite(value) && value >= 0, field, "a finite number of at least 0");
  }
  void Finite(std::string_view field, double value) {
    Require(std::isfinite(value), field, "a finite number");
  }
  // Checks an estimate of a ratio. If `may_be_unknown`, all zeros mean unknown.
  void Speedup(std::string_view field, const Ratio& ratio, bool may_be_unknown) {
    const bool unknown = ratio.value == 0 && ratio.low == 0 && ratio.high == 0;
    Require((unknown && may_be_unknown) || (ratio.value > 0 && ratio.value <= kMaxRatio), field,
            "a ratio above 0");
    Require(ratio.low >= 0 && ratio.low <= ratio.value && ratio.value <= ratio.high &&
                std::isfinite(ratio.high),
            field, "within its interval");
    Require(ratio.confidence >= 0 && ratio.confidence <= 1,
            absl::StrCat(std::string(field), ".confidence"), "from 0 to 1");
    Amount(absl::StrCat(std::string(field), ".within_deviation"), ratio.within_deviation);
    Amount(absl::StrCat(std::string(field), ".between_deviation"), ratio.between_deviation);
  }
  void Name(std::string_view field, const std::string& text) {
    Require(text.size() <= kMaxShortTextBytes, field, "short enough");
  }
  void Text(std::string_view field, const std::string& text) {
    Require(text.size() <= kMaxTextBytes, field, "short enough");
  }
  template <class List>
  void Items(std::string_view field, const List& list) {
    Require(list.size() <= kMaxItems, field, "short enough");
  }
  void Names(std::string_view field, const std::vector<std::string>& names) {
    Items(field, names);
    for (const std::string& name : names) Name(field, name);
  }

 private:
  absl::Status status_;
};

void Check(Checker& check, const std::string& field, const TimeStatistics& times) {
  check.Time(field + ".median_ns", times.median_ns);
  check.Time(field + ".min_ns", times.min_ns);
  check.Time(field + ".quartile1_ns", times.quartile1_ns);
  check.Time(field + ".quartile3_ns", times.quartile3_ns);
  check.Time(field + ".cold_median_ns", times.cold_median_ns);
  check.Require(times.samples == 0 || times.median_ns > 0, field + ".median_ns", "above 0");
}

void Check(Checker& check, const std::string& field, const ShapeProfile& profile) {
  check.Items(field + ".kernels", profile.kernels);
  for (const KernelActivity& kernel : profile.kernels) {
    check.Name(field + ".kernels.name", kernel.name);
    check.Amount(field + ".kernels.launches", kernel.launches);
    check.Time(field + ".kernels.median_ns", kernel.median_ns);
  }
  check.Time(field + ".warm_event_ns", profile.warm_event_ns);
  check.Time(field + ".warm_activity_ns", profile.warm_activity_ns);
  check.Items(field + ".counters", profile.counters);
  for (const auto& [name, value] : profile.counters) {
    check.Name(field + ".counters", name);
    check.Finite(field + ".counters", value);
  }
  check.Items(field + ".stall_reasons", profile.stall_reasons);
  for (const StallReason& stall : profile.stall_reasons) {
    check.Name(field + ".stall_reasons", stall.reason);
    check.Amount(field + ".stall_reasons.share", stall.share);
  }
  check.Names(field + ".missing_counters", profile.missing_counters);
}

void Check(Checker& check, const std::string& field, const ShapeTiming& shape) {
  check.Items(field + ".shape", shape.shape);
  Check(check, field + ".candidate", shape.candidate);
  Check(check, field + ".reference", shape.reference);
  check.Speedup(field + ".speedup", shape.speedup, /*may_be_unknown=*/true);
  check.Name(field + ".stop_reason", shape.stop_reason);
  check.Amount(field + ".bytes", shape.bytes);
  check.Amount(field + ".flops", shape.flops);
  check.Amount(field + ".weight", shape.weight);
  check.Time(field + ".implausible_below_ns", shape.implausible_below_ns);
  check.Time(field + ".call_overhead_ns", shape.call_overhead_ns);
  if (shape.profile.has_value()) Check(check, field + ".profile", *shape.profile);
  if (shape.eager.has_value()) {
    Check(check, field + ".eager.candidate", shape.eager->candidate);
    Check(check, field + ".eager.reference", shape.eager->reference);
    check.Speedup(field + ".eager.speedup", shape.eager->speedup, /*may_be_unknown=*/true);
  }
  if (shape.roofline.has_value()) {
    check.Time(field + ".roofline.time_ns", shape.roofline->time_ns);
    check.Name(field + ".roofline.peak", shape.roofline->peak);
    check.Amount(field + ".roofline.ratio", shape.roofline->ratio);
    check.Amount(field + ".roofline.score", shape.roofline->score);
  }
}

struct OutcomeChecker {
  Checker& check;

  void operator()(const MeasuredOk& ok) const {
    check.Speedup("ok.speedup", ok.speedup, /*may_be_unknown=*/false);
    check.Items("ok.shapes", ok.shapes);
    for (const ShapeTiming& shape : ok.shapes) Check(check, "ok.shapes", shape);
    const Environment& environment = ok.environment;
    check.Amount("ok.environment.clock_start_hz", environment.clock_start_hz);
    check.Amount("ok.environment.clock_min_hz", environment.clock_min_hz);
    check.Names("ok.environment.throttle_reasons", environment.throttle_reasons);
    check.Finite("ok.environment.temperature_celsius", environment.temperature_celsius);
    check.Amount("ok.environment.power_watts", environment.power_watts);
    check.Text("ok.environment.counters_unavailable_reason",
               environment.counters_unavailable_reason);
    check.Items("ok.runner_speedups", ok.runner_speedups);
    for (const double speedup : ok.runner_speedups) {
      check.Require(speedup > 0 && speedup <= kMaxRatio, "ok.runner_speedups", "a ratio above 0");
    }
    check.Items("ok.notes", ok.notes);
    if (ok.compiled.has_value()) {
      check.Speedup("ok.compiled.speedup", ok.compiled->speedup, /*may_be_unknown=*/true);
      check.Items("ok.compiled.references", ok.compiled->references);
      for (const TimeStatistics& times : ok.compiled->references) {
        Check(check, "ok.compiled.references", times);
      }
      check.Text("ok.compiled.unavailable_reason", ok.compiled->unavailable_reason);
    }
  }
  void operator()(const WrongResult& wrong) const {
    Case("wrong_result", wrong);
    check.Name("wrong_result.output", wrong.output);
    check.Require(wrong.mismatches <= wrong.elements, "wrong_result.mismatches",
                  "at most as many as elements");
    check.Text("wrong_result.detail", wrong.detail);
    // Results may have any value, but an error is never negative.
    check.Require(!(wrong.normwise_error < 0), "wrong_result.normwise_error", "at least 0");
  }
  void operator()(const Crash& crash) const {
    Case("crash", crash);
    check.Require(crash.signal >= 0 && crash.signal <= kMaxSignal, "crash.signal", "a signal");
    check.Text("crash.output_tail", crash.output_tail);
    check.Name("crash.stage", crash.stage);
  }
  void operator()(const Timeout& timeout) const {
    Case("timeout", timeout);
    check.Time("timeout.limit", static_cast<double>(timeout.limit_ns));
    check.Name("timeout.stage", timeout.stage);
  }
  void operator()(const Exploit& exploit) const {
    Case("exploit", exploit);
    check.Text("exploit.evidence", exploit.evidence);
  }
  void operator()(const EnvironmentUnstable& unstable) const {
    check.Text("environment_unstable.reason", unstable.reason);
    check.Speedup("environment_unstable.speedup", unstable.speedup, /*may_be_unknown=*/true);
  }
  void operator()(const Passed& passed) const { check.Items("passed.notes", passed.notes); }

  template <class Outcome>
  void Case(const std::string& field, const Outcome& outcome) const {
    check.Items(field + ".shape", outcome.shape);
    check.Name(field + ".distribution", outcome.distribution);
  }
};

absl::Status Other(std::string_view field, const std::string& got, const std::string& asked) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), " is ", Quoted(got),
                                                 ", and not ", Quoted(asked), " as was asked for"));
}

}  // namespace

absl::Status ValidateMeasurement(const Measurement& measurement) {
  Checker check;
  for (const auto& [field, text] :
       {std::pair<const char*, const std::string*>{"candidate_id", &measurement.candidate_id},
        {"problem_id", &measurement.problem_id},
        {"target", &measurement.target},
        {"worker_id", &measurement.worker_id},
        {"device.model", &measurement.device.model},
        {"device.uuid", &measurement.device.uuid},
        {"device.driver_version", &measurement.device.driver_version},
        {"device.runtime_version", &measurement.device.runtime_version},
        {"toolchain", &measurement.toolchain},
        {"architecture", &measurement.architecture},
        {"protocol_version", &measurement.protocol_version}}) {
    check.Name(field, *text);
  }
  check.Require(measurement.measured_at_ns >= 0, "measured_at", "after 1970");
  check.Time("device_time", static_cast<double>(measurement.device_time_ns));
  check.Time("preparation_time", static_cast<double>(measurement.preparation_time_ns));
  check.Require(measurement.preparation_time_ns <= measurement.device_time_ns, "preparation_time",
                "a part of device_time");
  std::visit(OutcomeChecker{check}, measurement.outcome);
  return check.status();
}

absl::Status CheckAgainst(const MeasurementOrder& order, const Measurement& measurement) {
  if (measurement.candidate_id != order.candidate_id) {
    return Other("candidate_id", measurement.candidate_id, order.candidate_id);
  }
  // Replayed records may have no problem id.
  if (!measurement.problem_id.empty() && measurement.problem_id != order.problem_id) {
    return Other("problem_id", measurement.problem_id, order.problem_id);
  }
  if (measurement.target != order.target) {
    return Other("target", measurement.target, order.target);
  }
  if (!order.device_model.empty() && !measurement.device.model.empty() &&
      measurement.device.model != order.device_model) {
    return Other("device.model", measurement.device.model, order.device_model);
  }
  if (measurement.level != order.level) {
    return absl::InvalidArgumentError("level is not the one that was asked for");
  }
  return ValidateMeasurement(measurement);
}

absl::Status CheckFactsAreFinite(const CompileFacts& facts) {
  Checker check;
  check.Name("facts.schema", facts.schema);
  check.Require(facts.values.size() <= kMaxFacts, "facts.values", "short enough");
  for (const double value : facts.values) check.Finite("facts.values", value);
  return check.status();
}

}  // namespace kernelcast
