#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/convert_internal.h"

namespace kernelcast {
namespace {

using convert_internal::AddStrings;
using convert_internal::AxisValuesFromProto;
using convert_internal::AxisValuesToProto;
using convert_internal::EnumFromProto;
using convert_internal::EnumToProto;
using convert_internal::Strings;
using convert_internal::Utf8;

constexpr std::pair<Determinism, v1::Determinism> kDeterminisms[] = {
    {Determinism::kUnknown, v1::DETERMINISM_UNSPECIFIED},
    {Determinism::kBitwise, v1::DETERMINISM_BITWISE},
    {Determinism::kVaries, v1::DETERMINISM_VARIES},
};

constexpr std::pair<MeasurementNote, v1::MeasurementNote> kNotes[] = {
    {MeasurementNote::kInputsNeverChange, v1::MEASUREMENT_NOTE_INPUTS_NEVER_CHANGE},
    {MeasurementNote::kFewInputValues, v1::MEASUREMENT_NOTE_FEW_INPUT_VALUES},
    {MeasurementNote::kInputsOnlyScaled, v1::MEASUREMENT_NOTE_INPUTS_ONLY_SCALED},
};
static_assert(std::size(kNotes) == std::size(kMeasurementNotes));

constexpr std::pair<Comparison, v1::Comparison> kComparisons[] = {
    {Comparison::kFaster, v1::COMPARISON_FASTER},
    {Comparison::kSlower, v1::COMPARISON_SLOWER},
    {Comparison::kSame, v1::COMPARISON_SAME},
    {Comparison::kAmbiguous, v1::COMPARISON_AMBIGUOUS},
};

constexpr std::pair<WrongResult::Cause, v1::WrongResult::Cause> kWrongResultCauses[] = {
    {WrongResult::Cause::kValue, v1::WrongResult::CAUSE_VALUE},
    {WrongResult::Cause::kNonFinite, v1::WrongResult::CAUSE_NON_FINITE},
    {WrongResult::Cause::kNormwise, v1::WrongResult::CAUSE_NORMWISE},
    {WrongResult::Cause::kNotWritten, v1::WrongResult::CAUSE_NOT_WRITTEN},
    {WrongResult::Cause::kEntryStatus, v1::WrongResult::CAUSE_ENTRY_STATUS},
    {WrongResult::Cause::kTimedOutput, v1::WrongResult::CAUSE_TIMED_OUTPUT},
    {WrongResult::Cause::kForm, v1::WrongResult::CAUSE_FORM},
    {WrongResult::Cause::kShape, v1::WrongResult::CAUSE_SHAPE},
    {WrongResult::Cause::kDtype, v1::WrongResult::CAUSE_DTYPE},
};

constexpr std::pair<Crash::Cause, v1::Crash::Cause> kCrashCauses[] = {
    {Crash::Cause::kSignal, v1::Crash::CAUSE_SIGNAL},
    {Crash::Cause::kExit, v1::Crash::CAUSE_EXIT},
    {Crash::Cause::kMemoryLimit, v1::Crash::CAUSE_MEMORY_LIMIT},
    {Crash::Cause::kOutputLimit, v1::Crash::CAUSE_OUTPUT_LIMIT},
    {Crash::Cause::kLoad, v1::Crash::CAUSE_LOAD},
    {Crash::Cause::kDeviceError, v1::Crash::CAUSE_DEVICE_ERROR},
};

constexpr std::pair<Exploit::Kind, v1::Exploit::Kind> kExploitKinds[] = {
    {Exploit::Kind::kForbiddenSystemCall, v1::Exploit::KIND_FORBIDDEN_SYSTEM_CALL},
    {Exploit::Kind::kMutatedInput, v1::Exploit::KIND_MUTATED_INPUT},
    {Exploit::Kind::kCachedOutput, v1::Exploit::KIND_CACHED_OUTPUT},
    {Exploit::Kind::kSkippedWork, v1::Exploit::KIND_SKIPPED_WORK},
    {Exploit::Kind::kImplausiblyFast, v1::Exploit::KIND_IMPLAUSIBLY_FAST},
    {Exploit::Kind::kWriteOutOfBounds, v1::Exploit::KIND_WRITE_OUT_OF_BOUNDS},
    {Exploit::Kind::kBackgroundWork, v1::Exploit::KIND_BACKGROUND_WORK},
    {Exploit::Kind::kForgedResult, v1::Exploit::KIND_FORGED_RESULT},
};

constexpr std::pair<Roofline::Bound, v1::Roofline::Bound> kBounds[] = {
    {Roofline::Bound::kMemory, v1::Roofline::BOUND_MEMORY},
    {Roofline::Bound::kCompute, v1::Roofline::BOUND_COMPUTE},
};

v1::TimeStatistics TimesToProto(const TimeStatistics& times) {
  v1::TimeStatistics proto;
  proto.set_median_ns(times.median_ns);
  proto.set_min_ns(times.min_ns);
  proto.set_quartile1_ns(times.quartile1_ns);
  proto.set_quartile3_ns(times.quartile3_ns);
  proto.set_cold_median_ns(times.cold_median_ns);
  proto.set_samples(times.samples);
  return proto;
}

TimeStatistics TimesFromProto(const v1::TimeStatistics& proto) {
  TimeStatistics times;
  times.median_ns = proto.median_ns();
  times.min_ns = proto.min_ns();
  times.quartile1_ns = proto.quartile1_ns();
  times.quartile3_ns = proto.quartile3_ns();
  times.cold_median_ns = proto.cold_median_ns();
  times.samples = proto.samples();
  return times;
}

v1::ShapeProfile ProfileToProto(const ShapeProfile& profile) {
  v1::ShapeProfile proto;
  for (const KernelActivity& kernel : profile.kernels) {
    v1::KernelActivity* const added = proto.add_kernels();
    added->set_name(Utf8(kernel.name));
    added->set_launches(kernel.launches);
    added->set_median_ns(kernel.median_ns);
    added->set_registers(kernel.registers);
    added->set_static_shared_bytes(kernel.static_shared_bytes);
    added->set_dynamic_shared_bytes(kernel.dynamic_shared_bytes);
  }
  proto.set_warm_event_ns(profile.warm_event_ns);
  proto.set_warm_activity_ns(profile.warm_activity_ns);
  for (const auto& [name, value] : profile.counters) {
    (*proto.mutable_counters())[Utf8(name)] = value;
  }
  for (const StallReason& stall : profile.stall_reasons) {
    v1::StallReason* const added = proto.add_stall_reasons();
    added->set_reason(Utf8(stall.reason));
    added->set_share(stall.share);
  }
  AddStrings(profile.missing_counters, proto.mutable_missing_counters());
  return proto;
}

ShapeProfile ProfileFromProto(const v1::ShapeProfile& proto) {
  ShapeProfile profile;
  profile.kernels.reserve(proto.kernels_size());
  for (const v1::KernelActivity& kernel : proto.kernels()) {
    profile.kernels.push_back({kernel.name(), kernel.launches(), kernel.median_ns(),
                               kernel.registers(), kernel.static_shared_bytes(),
                               kernel.dynamic_shared_bytes()});
  }
  profile.warm_event_ns = proto.warm_event_ns();
  profile.warm_activity_ns = proto.warm_activity_ns();
  profile.counters.insert(proto.counters().begin(), proto.counters().end());
  profile.stall_reasons.reserve(proto.stall_reasons_size());
  for (const v1::StallReason& stall : proto.stall_reasons()) {
    profile.stall_reasons.push_back({stall.reason(), stall.share()});
  }
  profile.missing_counters = Strings(proto.missing_counters());
  return profile;
}

v1::ShapeTiming TimingToProto(const ShapeTiming& timing) {
  v1::ShapeTiming proto;
  *proto.mutable_shape() = AxisValuesToProto(timing.shape);
  *proto.mutable_candidate() = TimesToProto(timing.candidate);
  *proto.mutable_reference() = TimesToProto(timing.reference);
  *proto.mutable_speedup() = ToProto(timing.speedup);
  proto.set_blocks(timing.blocks);
  proto.set_discarded_blocks(timing.discarded_blocks);
  proto.set_stop_reason(Utf8(timing.stop_reason));
  proto.set_bytes(timing.bytes);
  proto.set_flops(timing.flops);
  proto.set_implausible_below_ns(timing.implausible_below_ns);
  proto.set_call_overhead_ns(timing.call_overhead_ns);
  proto.set_weight(timing.weight);
  if (timing.profile) {
    *proto.mutable_profile() = ProfileToProto(*timing.profile);
  }
  if (timing.roofline) {
    v1::Roofline* const roofline = proto.mutable_roofline();
    roofline->set_time_ns(timing.roofline->time_ns);
    roofline->set_bound(EnumToProto(kBounds, timing.roofline->bound));
    roofline->set_peak(Utf8(timing.roofline->peak));
    roofline->set_ratio(timing.roofline->ratio);
    roofline->set_score(timing.roofline->score);
  }
  if (timing.eager) {
    v1::EagerTiming* const eager = proto.mutable_eager();
    *eager->mutable_candidate() = TimesToProto(timing.eager->candidate);
    *eager->mutable_reference() = TimesToProto(timing.eager->reference);
    *eager->mutable_speedup() = ToProto(timing.eager->speedup);
    eager->set_no_graph_reason(Utf8(timing.eager->no_graph_reason));
  }
  return proto;
}

absl::StatusOr<ShapeTiming> TimingFromProto(const v1::ShapeTiming& proto) {
  ShapeTiming timing;
  timing.shape = AxisValuesFromProto(proto.shape());
  timing.candidate = TimesFromProto(proto.candidate());
  timing.reference = TimesFromProto(proto.reference());
  timing.speedup = FromProto(proto.speedup());
  timing.blocks = proto.blocks();
  timing.discarded_blocks = proto.discarded_blocks();
  timing.stop_reason = proto.stop_reason();
  timing.bytes = proto.bytes();
  timing.flops = proto.flops();
  timing.implausible_below_ns = proto.implausible_below_ns();
  timing.call_overhead_ns = proto.call_overhead_ns();
  timing.weight = proto.weight();
  if (proto.has_profile()) {
    timing.profile = ProfileFromProto(proto.profile());
  }
  if (proto.has_roofline()) {
    Roofline& roofline = timing.roofline.emplace();
    roofline.time_ns = proto.roofline().time_ns();
    KC_ASSIGN_OR_RETURN(roofline.bound, EnumFromProto(kBounds, proto.roofline().bound(),
                                                      "ok.shapes.roofline.bound"));
    roofline.peak = proto.roofline().peak();
    roofline.ratio = proto.roofline().ratio();
    roofline.score = proto.roofline().score();
  }
  if (proto.has_eager()) {
    EagerTiming& eager = timing.eager.emplace();
    eager.candidate = TimesFromProto(proto.eager().candidate());
    eager.reference = TimesFromProto(proto.eager().reference());
    eager.speedup = FromProto(proto.eager().speedup());
    eager.no_graph_reason = proto.eager().no_graph_reason();
  }
  return timing;
}

v1::CompiledBaseline CompiledToProto(const CompiledBaseline& compiled) {
  v1::CompiledBaseline proto;
  *proto.mutable_speedup() = ToProto(compiled.speedup);
  for (const TimeStatistics& times : compiled.references) {
    *proto.add_references() = TimesToProto(times);
  }
  proto.set_eager(compiled.eager);
  proto.set_unavailable_reason(Utf8(compiled.unavailable_reason));
  return proto;
}

CompiledBaseline CompiledFromProto(const v1::CompiledBaseline& proto) {
  CompiledBaseline compiled;
  compiled.speedup = FromProto(proto.speedup());
  for (const v1::TimeStatistics& times : proto.references()) {
    compiled.references.push_back(TimesFromProto(times));
  }
  compiled.eager = proto.eager();
  compiled.unavailable_reason = proto.unavailable_reason();
  return compiled;
}

v1::Environment EnvironmentToProto(const Environment& environment) {
  v1::Environment proto;
  proto.set_clock_start_hz(environment.clock_start_hz);
  proto.set_clock_min_hz(environment.clock_min_hz);
  AddStrings(environment.throttle_reasons, proto.mutable_throttle_reasons());
  proto.set_temperature_celsius(environment.temperature_celsius);
  proto.set_power_watts(environment.power_watts);
  proto.set_counters_unavailable_reason(Utf8(environment.counters_unavailable_reason));
  return proto;
}

Environment EnvironmentFromProto(const v1::Environment& proto) {
  Environment environment;
  environment.clock_start_hz = proto.clock_start_hz();
  environment.clock_min_hz = proto.clock_min_hz();
  environment.throttle_reasons = Strings(proto.throttle_reasons());
  environment.temperature_celsius = proto.temperature_celsius();
  environment.power_watts = proto.power_watts();
  environment.counters_unavailable_reason = proto.counters_unavailable_reason();
  return environment;
}

// Sets the shape and distribution of the case that an outcome names. Both are empty if it names
// none.
template <class Outcome, class Arm>
void SetCase(const Outcome& outcome, Arm& arm) {
  *arm.mutable_shape() = AxisValuesToProto(outcome.shape);
  arm.set_distribution(Utf8(outcome.distribution));
}

template <class Arm, class Outcome>
void GetCase(const Arm& arm, Outcome& outcome) {
  outcome.shape = AxisValuesFromProto(arm.shape());
  outcome.distribution = arm.distribution();
}

// Sets the proto field for the outcome it is called with.
struct OutcomeToProto {
  v1::Measurement& proto;

  void operator()(const MeasuredOk& ok) const {
    v1::MeasuredOk* const arm = proto.mutable_ok();
    *arm->mutable_speedup() = ToProto(ok.speedup);
    arm->set_comparison(EnumToProto(kComparisons, ok.comparison));
    for (const ShapeTiming& shape : ok.shapes) {
      *arm->add_shapes() = TimingToProto(shape);
    }
    *arm->mutable_environment() = EnvironmentToProto(ok.environment);
    arm->set_runners(ok.runners);
    arm->mutable_runner_speedups()->Assign(ok.runner_speedups.begin(), ok.runner_speedups.end());
    arm->set_correctness_cases(ok.correctness_cases);
    arm->set_rule(Utf8(ok.rule));
    arm->set_determinism(EnumToProto(kDeterminisms, ok.determinism));
    if (ok.compiled) *arm->mutable_compiled() = CompiledToProto(*ok.compiled);
    for (const MeasurementNote note : ok.notes) arm->add_notes(EnumToProto(kNotes, note));
  }

  void operator()(const WrongResult& wrong) const {
    v1::WrongResult* const arm = proto.mutable_wrong_result();
    arm->set_cause(EnumToProto(kWrongResultCauses, wrong.cause));
    *arm->mutable_shape() = AxisValuesToProto(wrong.shape);
    arm->set_distribution(Utf8(wrong.distribution));
    arm->set_output(Utf8(wrong.output));
    arm->set_mismatches(wrong.mismatches);
    arm->set_elements(wrong.elements);
    arm->set_index(wrong.index);
    arm->set_got(wrong.got);
    arm->set_expected(wrong.expected);
    arm->set_normwise_error(wrong.normwise_error);
    arm->set_entry_status(wrong.entry_status);
    arm->set_rule(Utf8(wrong.rule));
    arm->set_detail(Utf8(wrong.detail));
  }

  void operator()(const Crash& crash) const {
    v1::Crash* const arm = proto.mutable_crash();
    arm->set_cause(EnumToProto(kCrashCauses, crash.cause));
    arm->set_signal(crash.signal);
    arm->set_exit_code(crash.exit_code);
    arm->set_output_tail(crash.output_tail);
    SetCase(crash, *arm);
    arm->set_stage(Utf8(crash.stage));
  }

  void operator()(const Timeout& timeout) const {
    v1::Timeout* const arm = proto.mutable_timeout();
    *arm->mutable_limit() = DurationToProto(timeout.limit_ns);
    arm->set_stage(Utf8(timeout.stage));
    SetCase(timeout, *arm);
  }

  void operator()(const Exploit& exploit) const {
    v1::Exploit* const arm = proto.mutable_exploit();
    arm->set_kind(EnumToProto(kExploitKinds, exploit.kind));
    arm->set_evidence(Utf8(exploit.evidence));
    SetCase(exploit, *arm);
  }

  void operator()(const EnvironmentUnstable& unstable) const {
    v1::EnvironmentUnstable* const arm = proto.mutable_environment_unstable();
    arm->set_reason(Utf8(unstable.reason));
    arm->set_discarded_blocks(unstable.discarded_blocks);
    arm->set_blocks(unstable.blocks);
    *arm->mutable_speedup() = ToProto(unstable.speedup);
  }
};

absl::StatusOr<MeasureOutcome> OkFromProto(const v1::MeasuredOk& proto) {
  MeasuredOk ok;
  ok.speedup = FromProto(proto.speedup());
  KC_ASSIGN_OR_RETURN(ok.comparison,
                      EnumFromProto(kComparisons, proto.comparison(), "ok.comparison"));
  ok.shapes.reserve(proto.shapes_size());
  for (const v1::ShapeTiming& shape : proto.shapes()) {
    KC_ASSIGN_OR_RETURN(ok.shapes.emplace_back(), TimingFromProto(shape));
  }
  ok.environment = EnvironmentFromProto(proto.environment());
  ok.runners = proto.runners();
  ok.runner_speedups.assign(proto.runner_speedups().begin(), proto.runner_speedups().end());
  ok.correctness_cases = proto.correctness_cases();
  ok.rule = proto.rule();
  KC_ASSIGN_OR_RETURN(ok.determinism,
                      EnumFromProto(kDeterminisms, proto.determinism(), "ok.determinism"));
  if (proto.has_compiled()) ok.compiled = CompiledFromProto(proto.compiled());
  for (int i = 0; i < proto.notes_size(); ++i) {
    KC_ASSIGN_OR_RETURN(ok.notes.emplace_back(), EnumFromProto(kNotes, proto.notes(i), "ok.notes"));
  }
  return ok;
}

absl::StatusOr<MeasureOutcome> WrongFromProto(const v1::WrongResult& proto) {
  WrongResult wrong;
  KC_ASSIGN_OR_RETURN(wrong.cause,
                      EnumFromProto(kWrongResultCauses, proto.cause(), "wrong_result.cause"));
  wrong.shape = AxisValuesFromProto(proto.shape());
  wrong.distribution = proto.distribution();
  wrong.output = proto.output();
  wrong.mismatches = proto.mismatches();
  wrong.elements = proto.elements();
  wrong.index = proto.index();
  wrong.got = proto.got();
  wrong.expected = proto.expected();
  wrong.normwise_error = proto.normwise_error();
  wrong.entry_status = proto.entry_status();
  wrong.rule = proto.rule();
  wrong.detail = proto.detail();
  return wrong;
}

absl::StatusOr<MeasureOutcome> CrashFromProto(const v1::Crash& proto) {
  Crash crash;
  KC_ASSIGN_OR_RETURN(crash.cause, EnumFromProto(kCrashCauses, proto.cause(), "crash.cause"));
  crash.signal = proto.signal();
  crash.exit_code = proto.exit_code();
  crash.output_tail = proto.output_tail();
  GetCase(proto, crash);
  crash.stage = proto.stage();
  return crash;
}

absl::StatusOr<MeasureOutcome> ExploitFromProto(const v1::Exploit& proto) {
  Exploit exploit;
  KC_ASSIGN_OR_RETURN(exploit.kind, EnumFromProto(kExploitKinds, proto.kind(), "exploit.kind"));
  exploit.evidence = proto.evidence();
  GetCase(proto, exploit);
  return exploit;
}

absl::StatusOr<MeasureOutcome> OutcomeFromProto(const v1::Measurement& proto) {
  switch (proto.outcome_case()) {
    case v1::Measurement::kOk: return OkFromProto(proto.ok());
    case v1::Measurement::kWrongResult: return WrongFromProto(proto.wrong_result());
    case v1::Measurement::kCrash: return CrashFromProto(proto.crash());
    case v1::Measurement::kTimeout: {
      Timeout timeout{ToNanoseconds(proto.timeout().limit()), proto.timeout().stage()};
      GetCase(proto.timeout(), timeout);
      return timeout;
    }
    case v1::Measurement::kExploit: return ExploitFromProto(proto.exploit());
    case v1::Measurement::kEnvironmentUnstable: {
      const v1::EnvironmentUnstable& arm = proto.environment_unstable();
      return EnvironmentUnstable{arm.reason(), arm.discarded_blocks(), arm.blocks(),
                                 FromProto(arm.speedup())};
    }
    case v1::Measurement::OUTCOME_NOT_SET: break;
  }
  return absl::InvalidArgumentError("outcome: not set");
}

}  // namespace

v1::Measurement ToProto(const Measurement& measurement) {
  v1::Measurement proto;
  proto.set_candidate_id(Utf8(measurement.candidate_id));
  proto.set_problem_id(Utf8(measurement.problem_id));
  proto.set_target(Utf8(measurement.target));
  proto.set_level(ToProto(measurement.level));
  proto.set_worker_id(Utf8(measurement.worker_id));
  *proto.mutable_device() = ToProto(measurement.device);
  *proto.mutable_measured_at() = TimestampToProto(measurement.measured_at_ns);
  *proto.mutable_device_time() = DurationToProto(measurement.device_time_ns);
  *proto.mutable_preparation_time() = DurationToProto(measurement.preparation_time_ns);
  proto.set_toolchain(Utf8(measurement.toolchain));
  proto.set_architecture(Utf8(measurement.architecture));
  proto.set_protocol_version(Utf8(measurement.protocol_version));
  std::visit(OutcomeToProto{proto}, measurement.outcome);
  return proto;
}

absl::StatusOr<Measurement> FromProto(const v1::Measurement& proto) {
  Measurement measurement;
  measurement.candidate_id = proto.candidate_id();
  measurement.problem_id = proto.problem_id();
  measurement.target = proto.target();
  measurement.level = FromProto(proto.level());
  measurement.worker_id = proto.worker_id();
  measurement.device = FromProto(proto.device());
  measurement.measured_at_ns = ToNanoseconds(proto.measured_at());
  measurement.device_time_ns = ToNanoseconds(proto.device_time());
  measurement.preparation_time_ns = ToNanoseconds(proto.preparation_time());
  measurement.toolchain = proto.toolchain();
  measurement.architecture = proto.architecture();
  measurement.protocol_version = proto.protocol_version();
  KC_ASSIGN_OR_RETURN(measurement.outcome, OutcomeFromProto(proto));
  return measurement;
}

v1::Ratio ToProto(const Ratio& ratio) {
  v1::Ratio proto;
  proto.set_value(ratio.value);
  proto.set_low(ratio.low);
  proto.set_high(ratio.high);
  proto.set_confidence(ratio.confidence);
  proto.set_within_deviation(ratio.within_deviation);
  proto.set_between_deviation(ratio.between_deviation);
  return proto;
}

Ratio FromProto(const v1::Ratio& proto) {
  return {.value = proto.value(),
          .low = proto.low(),
          .high = proto.high(),
          .confidence = proto.confidence(),
          .within_deviation = proto.within_deviation(),
          .between_deviation = proto.between_deviation()};
}

v1::DeviceInfo ToProto(const DeviceInfo& device) {
  v1::DeviceInfo proto;
  proto.set_model(Utf8(device.model));
  proto.set_uuid(Utf8(device.uuid));
  proto.set_driver_version(Utf8(device.driver_version));
  proto.set_runtime_version(Utf8(device.runtime_version));
  proto.set_compute_units(device.compute_units);
  proto.set_memory_bytes(device.memory_bytes);
  return proto;
}

DeviceInfo FromProto(const v1::DeviceInfo& proto) {
  DeviceInfo device;
  device.model = proto.model();
  device.uuid = proto.uuid();
  device.driver_version = proto.driver_version();
  device.runtime_version = proto.runtime_version();
  device.compute_units = proto.compute_units();
  device.memory_bytes = proto.memory_bytes();
  return device;
}

v1::MeasureLevel ToProto(MeasureLevel level) {
  return level == MeasureLevel::kFinal ? v1::MEASURE_LEVEL_FINAL : v1::MEASURE_LEVEL_SCREEN;
}

MeasureLevel FromProto(v1::MeasureLevel level) {
  return level == v1::MEASURE_LEVEL_FINAL ? MeasureLevel::kFinal : MeasureLevel::kScreen;
}

}  // namespace kernelcast
