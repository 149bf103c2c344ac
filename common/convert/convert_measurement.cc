#include "common/convert/convert.h"
#include "common/convert/fields.h"

namespace kernelcast {

constexpr auto Pairs(Determinism) {
  return std::to_array<std::pair<Determinism, v1::Determinism>>({
      {Determinism::kUnknown, v1::DETERMINISM_UNSPECIFIED},
      {Determinism::kBitwise, v1::DETERMINISM_BITWISE},
      {Determinism::kVaries, v1::DETERMINISM_VARIES},
  });
}

constexpr auto Pairs(MeasurementNote) {
  return std::to_array<std::pair<MeasurementNote, v1::MeasurementNote>>({
      {MeasurementNote::kInputsNeverChange, v1::MEASUREMENT_NOTE_INPUTS_NEVER_CHANGE},
      {MeasurementNote::kFewInputValues, v1::MEASUREMENT_NOTE_FEW_INPUT_VALUES},
      {MeasurementNote::kInputsOnlyScaled, v1::MEASUREMENT_NOTE_INPUTS_ONLY_SCALED},
  });
}
static_assert(Pairs(MeasurementNote()).size() == std::size(kMeasurementNotes));

constexpr auto Pairs(Comparison) {
  return std::to_array<std::pair<Comparison, v1::Comparison>>({
      {Comparison::kFaster, v1::COMPARISON_FASTER},
      {Comparison::kSlower, v1::COMPARISON_SLOWER},
      {Comparison::kSame, v1::COMPARISON_SAME},
      {Comparison::kAmbiguous, v1::COMPARISON_AMBIGUOUS},
  });
}

constexpr auto Pairs(WrongResult::Cause) {
  return std::to_array<std::pair<WrongResult::Cause, v1::WrongResult::Cause>>({
      {WrongResult::Cause::kValue, v1::WrongResult::CAUSE_VALUE},
      {WrongResult::Cause::kNonFinite, v1::WrongResult::CAUSE_NON_FINITE},
      {WrongResult::Cause::kNormwise, v1::WrongResult::CAUSE_NORMWISE},
      {WrongResult::Cause::kNotWritten, v1::WrongResult::CAUSE_NOT_WRITTEN},
      {WrongResult::Cause::kEntryStatus, v1::WrongResult::CAUSE_ENTRY_STATUS},
      {WrongResult::Cause::kTimedOutput, v1::WrongResult::CAUSE_TIMED_OUTPUT},
      {WrongResult::Cause::kForm, v1::WrongResult::CAUSE_FORM},
      {WrongResult::Cause::kShape, v1::WrongResult::CAUSE_SHAPE},
      {WrongResult::Cause::kDtype, v1::WrongResult::CAUSE_DTYPE},
  });
}

constexpr auto Pairs(Crash::Cause) {
  return std::to_array<std::pair<Crash::Cause, v1::Crash::Cause>>({
      {Crash::Cause::kSignal, v1::Crash::CAUSE_SIGNAL},
      {Crash::Cause::kExit, v1::Crash::CAUSE_EXIT},
      {Crash::Cause::kMemoryLimit, v1::Crash::CAUSE_MEMORY_LIMIT},
      {Crash::Cause::kOutputLimit, v1::Crash::CAUSE_OUTPUT_LIMIT},
      {Crash::Cause::kLoad, v1::Crash::CAUSE_LOAD},
      {Crash::Cause::kDeviceError, v1::Crash::CAUSE_DEVICE_ERROR},
  });
}

constexpr auto Pairs(Exploit::Kind) {
  return std::to_array<std::pair<Exploit::Kind, v1::Exploit::Kind>>({
      {Exploit::Kind::kForbiddenSystemCall, v1::Exploit::KIND_FORBIDDEN_SYSTEM_CALL},
      {Exploit::Kind::kMutatedInput, v1::Exploit::KIND_MUTATED_INPUT},
      {Exploit::Kind::kCachedOutput, v1::Exploit::KIND_CACHED_OUTPUT},
      {Exploit::Kind::kSkippedWork, v1::Exploit::KIND_SKIPPED_WORK},
      {Exploit::Kind::kImplausiblyFast, v1::Exploit::KIND_IMPLAUSIBLY_FAST},
      {Exploit::Kind::kWriteOutOfBounds, v1::Exploit::KIND_WRITE_OUT_OF_BOUNDS},
      {Exploit::Kind::kBackgroundWork, v1::Exploit::KIND_BACKGROUND_WORK},
      {Exploit::Kind::kForgedResult, v1::Exploit::KIND_FORGED_RESULT},
  });
}

constexpr auto Pairs(Roofline::Bound) {
  return std::to_array<std::pair<Roofline::Bound, v1::Roofline::Bound>>({
      {Roofline::Bound::kMemory, v1::Roofline::BOUND_MEMORY},
      {Roofline::Bound::kCompute, v1::Roofline::BOUND_COMPUTE},
  });
}

constexpr auto Pairs(MeasureLevel) {
  return std::to_array<std::pair<MeasureLevel, v1::MeasureLevel>>({
      {MeasureLevel::kScreen, v1::MEASURE_LEVEL_SCREEN},
      {MeasureLevel::kFinal, v1::MEASURE_LEVEL_FINAL},
      {MeasureLevel::kCheck, v1::MEASURE_LEVEL_CHECK},
  });
}

KC_FIELDS(Ratio, v1::Ratio) {
  KC_SAME(value, low, high, confidence, within_deviation, between_deviation);
}

KC_FIELDS(DeviceInfo, v1::DeviceInfo) {
  KC_SAME(model, uuid, driver_version, runtime_version, compute_units, memory_bytes);
}

KC_FIELDS(TimeStatistics, v1::TimeStatistics) {
  KC_SAME(median_ns, min_ns, quartile1_ns, quartile3_ns, cold_median_ns, samples);
}

KC_FIELDS(KernelActivity, v1::KernelActivity) {
  KC_SAME(name, launches, median_ns, registers, static_shared_bytes, dynamic_shared_bytes);
}

KC_FIELDS(StallReason, v1::StallReason) { KC_SAME(reason, share); }

KC_FIELDS(ShapeProfile, v1::ShapeProfile) {
  KC_SAME(kernels, warm_event_ns, warm_activity_ns, counters, stall_reasons, missing_counters);
}

KC_FIELDS(Roofline, v1::Roofline) { KC_SAME(time_ns, bound, peak, ratio, score); }

KC_FIELDS(EagerTiming, v1::EagerTiming) { KC_SAME(candidate, reference, speedup, no_graph_reason); }

KC_FIELDS(ShapeTiming, v1::ShapeTiming) {
  KC_SAME(shape, candidate, reference, speedup, blocks, discarded_blocks, stop_reason, bytes, flops,
          implausible_below_ns, call_overhead_ns, weight, profile, roofline, eager);
}

KC_FIELDS(Environment, v1::Environment) {
  KC_SAME(clock_start_hz, clock_min_hz, throttle_reasons, temperature_celsius, power_watts,
          counters_unavailable_reason);
}

KC_FIELDS(CompiledBaseline, v1::CompiledBaseline) {
  KC_SAME(speedup, references, eager, unavailable_reason);
}

KC_FIELDS(MeasuredOk, v1::MeasuredOk) {
  KC_SAME(speedup, comparison, shapes, environment, runners, runner_speedups, correctness_cases,
          rule, determinism, compiled, notes);
}

KC_FIELDS(WrongResult, v1::WrongResult) {
  KC_SAME(cause, shape, distribution, output, mismatches, elements, index, got, expected,
          normwise_error, entry_status, rule, detail);
}

KC_FIELDS(Crash, v1::Crash) {
  KC_SAME(cause, signal, exit_code);
  KC_BYTES(output_tail);
  KC_SAME(shape, distribution, stage);
}

KC_FIELDS(Timeout, v1::Timeout) {
  KC_FIELD(limit_ns, limit);
  KC_SAME(stage, shape, distribution);
}

KC_FIELDS(Exploit, v1::Exploit) { KC_SAME(kind, evidence, shape, distribution); }

KC_FIELDS(EnvironmentUnstable, v1::EnvironmentUnstable) {
  KC_SAME(reason, discarded_blocks, blocks, speedup);
}

KC_FIELDS(Passed, v1::Passed) { KC_SAME(correctness_cases, rule, notes); }

KC_FIELDS(Measurement, v1::Measurement) {
  KC_SAME(candidate_id, problem_id, target);
  KC_LENIENT(level);
  KC_SAME(worker_id, device);
  KC_FIELD(measured_at_ns, measured_at);
  KC_FIELD(device_time_ns, device_time);
  KC_FIELD(preparation_time_ns, preparation_time);
  KC_SAME(toolchain, architecture, protocol_version);
  KC_ARM(outcome, MeasuredOk, ok);
  KC_ARM(outcome, WrongResult, wrong_result);
  KC_ARM(outcome, Crash, crash);
  KC_ARM(outcome, Timeout, timeout);
  KC_ARM(outcome, Exploit, exploit);
  KC_ARM(outcome, EnvironmentUnstable, environment_unstable);
  KC_ARM(outcome, Passed, passed);
  if constexpr (Io::kReads) {
    if (m.outcome_case() == v1::Measurement::OUTCOME_NOT_SET) io.Fail("outcome", "not set");
  }
}

v1::Measurement ToProto(const Measurement& measurement) {
  return WriteFields<v1::Measurement>(measurement);
}
absl::StatusOr<Measurement> FromProto(const v1::Measurement& proto) {
  return ReadFields<Measurement>(proto);
}

v1::Ratio ToProto(const Ratio& ratio) { return WriteFields<v1::Ratio>(ratio); }
Ratio FromProto(const v1::Ratio& proto) { return *ReadFields<Ratio>(proto); }

v1::DeviceInfo ToProto(const DeviceInfo& device) { return WriteFields<v1::DeviceInfo>(device); }
DeviceInfo FromProto(const v1::DeviceInfo& proto) { return *ReadFields<DeviceInfo>(proto); }

v1::MeasureLevel ToProto(MeasureLevel level) { return convert_internal::EnumToProto(level); }
MeasureLevel FromProto(v1::MeasureLevel level) {
  return convert_internal::EnumFromProto<MeasureLevel>(level, "").value_or(MeasureLevel::kScreen);
}

}  // namespace kernelcast
