#include "common/convert/convert.h"

#include "common/base/status.h"
#include "common/convert/convert_internal.h"

namespace kernelcast {
namespace {

using convert_internal::AddStrings;
using convert_internal::EnumFromProto;
using convert_internal::EnumToProto;
using convert_internal::Strings;
using convert_internal::Utf8;

constexpr std::pair<CandidateKind, v1::CandidateKind> kCandidateKinds[] = {
    {CandidateKind::kUnspecified, v1::CANDIDATE_KIND_UNSPECIFIED},
    {CandidateKind::kHostNative, v1::CANDIDATE_KIND_HOST_NATIVE},
    {CandidateKind::kDeviceCuda, v1::CANDIDATE_KIND_DEVICE_CUDA},
    {CandidateKind::kPython, v1::CANDIDATE_KIND_PYTHON},
};

constexpr std::pair<CompileStage, v1::CompileError::Stage> kCompileStages[] = {
    {CompileStage::kAdmission, v1::CompileError::STAGE_ADMISSION},
    {CompileStage::kCompiler, v1::CompileError::STAGE_COMPILER},
    {CompileStage::kLinker, v1::CompileError::STAGE_LINKER},
    {CompileStage::kLimit, v1::CompileError::STAGE_LIMIT},
};

constexpr std::pair<ArtifactFormat, v1::ArtifactFormat> kArtifactFormats[] = {
    {ArtifactFormat::kSharedObject, v1::ARTIFACT_FORMAT_SHARED_OBJECT},
    {ArtifactFormat::kCubin, v1::ARTIFACT_FORMAT_CUBIN},
};

constexpr std::pair<Abstention::Cause, v1::Abstention::Cause> kAbstentionCauses[] = {
    {Abstention::Cause::kModelDeferred, v1::Abstention::CAUSE_MODEL_DEFERRED},
    {Abstention::Cause::kUnparsable, v1::Abstention::CAUSE_UNPARSABLE},
    {Abstention::Cause::kEndpointUnavailable, v1::Abstention::CAUSE_ENDPOINT_UNAVAILABLE},
    {Abstention::Cause::kBudget, v1::Abstention::CAUSE_BUDGET},
    {Abstention::Cause::kNotCovered, v1::Abstention::CAUSE_NOT_COVERED},
};

constexpr std::pair<DecisionKind, v1::DecisionKind> kDecisionKinds[] = {
    {DecisionKind::kMeasure, v1::DECISION_KIND_MEASURE},
    {DecisionKind::kPrune, v1::DECISION_KIND_PRUNE},
    {DecisionKind::kReject, v1::DECISION_KIND_REJECT},
};

constexpr std::pair<DecisionReason, v1::DecisionReason> kDecisionReasons[] = {
    {DecisionReason::kLowConfidence, v1::DECISION_REASON_LOW_CONFIDENCE},
    {DecisionReason::kPromising, v1::DECISION_REASON_PROMISING},
    {DecisionReason::kAudit, v1::DECISION_REASON_AUDIT},
    {DecisionReason::kNoForecast, v1::DECISION_REASON_NO_FORECAST},
    {DecisionReason::kRequested, v1::DECISION_REASON_REQUESTED},
    {DecisionReason::kBootstrap, v1::DECISION_REASON_BOOTSTRAP},
    {DecisionReason::kReused, v1::DECISION_REASON_REUSED},
    {DecisionReason::kForecastOnly, v1::DECISION_REASON_FORECAST_ONLY},
    {DecisionReason::kReused, v1::DECISION_REASON_REUSED},
    {DecisionReason::kUnpromising, v1::DECISION_REASON_UNPROMISING},
    {DecisionReason::kBudgetPace, v1::DECISION_REASON_BUDGET_PACE},
    {DecisionReason::kLikelyFailure, v1::DECISION_REASON_LIKELY_FAILURE},
    {DecisionReason::kCompileError, v1::DECISION_REASON_COMPILE_ERROR},
    {DecisionReason::kDuplicate, v1::DECISION_REASON_DUPLICATE},
    {DecisionReason::kBudget, v1::DECISION_REASON_BUDGET},
    {DecisionReason::kCancelled, v1::DECISION_REASON_CANCELLED},
    {DecisionReason::kUnavailable, v1::DECISION_REASON_UNAVAILABLE},
};

}  // namespace

v1::Candidate ToProto(const Candidate& candidate) {
  v1::Candidate proto;
  proto.set_candidate_id(Utf8(candidate.candidate_id));
  proto.set_problem_id(Utf8(candidate.problem_id));
  proto.set_target(Utf8(candidate.target));
  proto.set_kind(EnumToProto(kCandidateKinds, candidate.kind));
  proto.set_source(candidate.source);
  AddStrings(candidate.flags, proto.mutable_flags());
  for (const Tunable& tunable : candidate.tunables) {
    v1::Tunable* const added = proto.add_tunables();
    added->set_name(Utf8(tunable.name));
    added->set_value(Utf8(tunable.value));
  }
  for (const Launch& launch : candidate.launches) {
    v1::Launch* const added = proto.add_launches();
    added->set_kernel(Utf8(launch.kernel));
    AddStrings(launch.grid, added->mutable_grid());
    AddStrings(launch.block, added->mutable_block());
    added->set_shared_memory_bytes(Utf8(launch.shared_memory_bytes));
    AddStrings(launch.arguments, added->mutable_arguments());
    AddStrings(launch.cluster, added->mutable_cluster());
  }
  proto.set_workspace_bytes(Utf8(candidate.workspace_bytes));
  proto.set_parent_candidate_id(Utf8(candidate.parent_candidate_id));
  proto.set_origin(Utf8(candidate.origin));
  return proto;
}

absl::StatusOr<Candidate> FromProto(const v1::Candidate& proto) {
  Candidate candidate;
  candidate.candidate_id = proto.candidate_id();
  candidate.problem_id = proto.problem_id();
  candidate.target = proto.target();
  KC_ASSIGN_OR_RETURN(candidate.kind, EnumFromProto(kCandidateKinds, proto.kind(), "kind"));
  candidate.source = proto.source();
  candidate.flags = Strings(proto.flags());
  candidate.tunables.reserve(proto.tunables_size());
  for (const v1::Tunable& tunable : proto.tunables()) {
    candidate.tunables.push_back({tunable.name(), tunable.value()});
  }
  candidate.launches.reserve(proto.launches_size());
  for (const v1::Launch& launch : proto.launches()) {
    Launch& added = candidate.launches.emplace_back();
    added.kernel = launch.kernel();
    added.grid = Strings(launch.grid());
    added.block = Strings(launch.block());
    added.shared_memory_bytes = launch.shared_memory_bytes();
    added.arguments = Strings(launch.arguments());
    added.cluster = Strings(launch.cluster());
  }
  candidate.workspace_bytes = proto.workspace_bytes();
  candidate.parent_candidate_id = proto.parent_candidate_id();
  candidate.origin = proto.origin();
  return candidate;
}

v1::CompileFacts ToProto(const CompileFacts& facts) {
  v1::CompileFacts proto;
  proto.set_schema(Utf8(facts.schema));
  proto.mutable_values()->Add(facts.values.begin(), facts.values.end());
  for (const ShapeSimulation& simulation : facts.simulations) {
    v1::ShapeSimulation& added = *proto.add_simulations();
    added.set_schema(Utf8(simulation.schema));
    added.set_gpu(Utf8(simulation.gpu));
    for (const LaunchSimulation& launch : simulation.launches) {
      v1::LaunchSimulation& to = *added.add_launches();
      to.set_kernel(Utf8(launch.kernel));
      to.mutable_values()->Add(launch.values.begin(), launch.values.end());
      to.set_not_covered(Utf8(launch.not_covered));
    }
  }
  return proto;
}

CompileFacts FromProto(const v1::CompileFacts& proto) {
  CompileFacts facts{proto.schema(), {proto.values().begin(), proto.values().end()}};
  for (const v1::ShapeSimulation& simulation : proto.simulations()) {
    ShapeSimulation& added = facts.simulations.emplace_back();
    added.schema = simulation.schema();
    added.gpu = simulation.gpu();
    for (const v1::LaunchSimulation& launch : simulation.launches()) {
      added.launches.push_back({launch.kernel(),
                                {launch.values().begin(), launch.values().end()},
                                launch.not_covered()});
    }
  }
  return facts;
}

v1::CompileError ToProto(const CompileError& error) {
  v1::CompileError proto;
  proto.set_stage(EnumToProto(kCompileStages, error.stage));
  proto.set_log(error.log);
  return proto;
}

absl::StatusOr<CompileError> FromProto(const v1::CompileError& proto) {
  CompileError error;
  KC_ASSIGN_OR_RETURN(error.stage, EnumFromProto(kCompileStages, proto.stage(), "stage"));
  error.log = proto.log();
  return error;
}

v1::Artifact ToProto(const Artifact& artifact) {
  v1::Artifact proto;
  proto.set_artifact_id(Utf8(artifact.artifact_id));
  proto.set_format(EnumToProto(kArtifactFormats, artifact.format));
  proto.set_architecture(Utf8(artifact.architecture));
  proto.set_toolchain(Utf8(artifact.toolchain));
  proto.set_content(artifact.content);
  return proto;
}

absl::StatusOr<Artifact> FromProto(const v1::Artifact& proto) {
  Artifact artifact;
  artifact.artifact_id = proto.artifact_id();
  KC_ASSIGN_OR_RETURN(artifact.format, EnumFromProto(kArtifactFormats, proto.format(), "format"));
  artifact.architecture = proto.architecture();
  artifact.toolchain = proto.toolchain();
  artifact.content = proto.content();
  return artifact;
}

v1::Forecast ToProto(const Forecast& forecast) {
  v1::Forecast proto;
  proto.set_candidate_id(Utf8(forecast.candidate_id));
  proto.set_bin_scheme_id(Utf8(forecast.bin_scheme_id));
  proto.mutable_bin_probabilities()->Add(forecast.bin_probabilities.begin(),
                                         forecast.bin_probabilities.end());
  proto.set_failure_probability(forecast.failure_probability);
  proto.set_predicted_bin(static_cast<uint32_t>(forecast.predicted_bin));
  proto.set_expected_log2_speedup(forecast.expected_log2_speedup);
  proto.set_stddev_log2_speedup(forecast.stddev_log2_speedup);
  proto.set_raw_probability_sum(forecast.raw_probability_sum);
  proto.set_argmax_mismatch(forecast.argmax_mismatch);
  proto.set_baseline_candidate_id(Utf8(forecast.baseline_candidate_id));
  proto.set_backend(Utf8(forecast.backend));
  proto.set_backend_version(Utf8(forecast.backend_version));
  proto.set_calibrator_version(Utf8(forecast.calibrator_version));
  proto.set_labels_seen(forecast.labels_seen);
  proto.set_rationale(forecast.rationale);
  v1::TokenUsage* const usage = proto.mutable_token_usage();
  usage->set_input_tokens(forecast.token_usage.input_tokens);
  usage->set_cached_input_tokens(forecast.token_usage.cached_input_tokens);
  usage->set_output_tokens(forecast.token_usage.output_tokens);
  usage->set_cost_dollars(forecast.token_usage.cost_dollars);
  *proto.mutable_latency() = DurationToProto(forecast.latency_ns);
  proto.set_prompt_version(Utf8(forecast.prompt_version));
  for (const ForecastComponent& component : forecast.components) {
    v1::ForecastComponent& out = *proto.add_components();
    out.set_backend(Utf8(component.backend));
    out.set_backend_version(Utf8(component.backend_version));
    out.set_weight(component.weight);
    out.mutable_bin_probabilities()->Add(component.bin_probabilities.begin(),
                                         component.bin_probabilities.end());
    out.set_failure_probability(component.failure_probability);
  }
  return proto;
}

Forecast FromProto(const v1::Forecast& proto) {
  Forecast forecast;
  forecast.candidate_id = proto.candidate_id();
  forecast.bin_scheme_id = proto.bin_scheme_id();
  forecast.bin_probabilities.assign(proto.bin_probabilities().begin(),
                                    proto.bin_probabilities().end());
  forecast.failure_probability = proto.failure_probability();
  forecast.predicted_bin = static_cast<int>(proto.predicted_bin());
  forecast.expected_log2_speedup = proto.expected_log2_speedup();
  forecast.stddev_log2_speedup = proto.stddev_log2_speedup();
  forecast.raw_probability_sum = proto.raw_probability_sum();
  forecast.argmax_mismatch = proto.argmax_mismatch();
  forecast.baseline_candidate_id = proto.baseline_candidate_id();
  forecast.backend = proto.backend();
  forecast.backend_version = proto.backend_version();
  forecast.calibrator_version = proto.calibrator_version();
  forecast.labels_seen = proto.labels_seen();
  forecast.rationale = proto.rationale();
  forecast.token_usage.input_tokens = proto.token_usage().input_tokens();
  forecast.token_usage.cached_input_tokens = proto.token_usage().cached_input_tokens();
  forecast.token_usage.output_tokens = proto.token_usage().output_tokens();
  forecast.token_usage.cost_dollars = proto.token_usage().cost_dollars();
  forecast.latency_ns = ToNanoseconds(proto.latency());
  forecast.prompt_version = proto.prompt_version();
  for (const v1::ForecastComponent& component : proto.components()) {
    ForecastComponent& out = forecast.components.emplace_back();
    out.backend = component.backend();
    out.backend_version = component.backend_version();
    out.weight = component.weight();
    out.bin_probabilities.assign(component.bin_probabilities().begin(),
                                 component.bin_probabilities().end());
    out.failure_probability = component.failure_probability();
  }
  return forecast;
}

v1::Abstention ToProto(const Abstention& abstention) {
  v1::Abstention proto;
  proto.set_cause(EnumToProto(kAbstentionCauses, abstention.cause));
  proto.set_backend(Utf8(abstention.backend));
  proto.set_reason(abstention.reason);
  return proto;
}

absl::StatusOr<Abstention> FromProto(const v1::Abstention& proto) {
  Abstention abstention;
  KC_ASSIGN_OR_RETURN(abstention.cause, EnumFromProto(kAbstentionCauses, proto.cause(), "cause"));
  abstention.backend = proto.backend();
  abstention.reason = proto.reason();
  return abstention;
}

v1::Decision ToProto(const Decision& decision) {
  v1::Decision proto;
  proto.set_kind(EnumToProto(kDecisionKinds, decision.kind));
  proto.set_reason(ToProto(decision.reason));
  proto.set_policy(Utf8(decision.policy));
  proto.set_policy_version(Utf8(decision.policy_version));
  proto.set_audit_propensity(decision.audit_propensity);
  proto.set_win_probability(decision.win_probability);
  proto.set_threshold(decision.threshold);
  proto.set_incumbent_speedup(decision.incumbent_speedup);
  return proto;
}

absl::StatusOr<Decision> FromProto(const v1::Decision& proto) {
  Decision decision;
  KC_ASSIGN_OR_RETURN(decision.kind, EnumFromProto(kDecisionKinds, proto.kind(), "kind"));
  KC_ASSIGN_OR_RETURN(decision.reason, FromProto(proto.reason()));
  decision.policy = proto.policy();
  decision.policy_version = proto.policy_version();
  decision.audit_propensity = proto.audit_propensity();
  decision.win_probability = proto.win_probability();
  decision.threshold = proto.threshold();
  decision.incumbent_speedup = proto.incumbent_speedup();
  return decision;
}

v1::DecisionReason ToProto(DecisionReason reason) { return EnumToProto(kDecisionReasons, reason); }

absl::StatusOr<DecisionReason> FromProto(v1::DecisionReason reason) {
  return EnumFromProto(kDecisionReasons, reason, "reason");
}

v1::BinScheme ToProto(const BinScheme& scheme) {
  v1::BinScheme proto;
  proto.set_id(scheme.id());
  proto.mutable_upper_edges()->Add(scheme.edges().begin(), scheme.edges().end());
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    proto.add_names(scheme.name(bin));
  }
  return proto;
}

}  // namespace kernelcast
