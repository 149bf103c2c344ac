#include "common/convert/convert.h"

#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/convert_internal.h"

namespace kernelcast {
namespace {

using convert_internal::AddStrings;
using convert_internal::EnumFromProto;
using convert_internal::EnumToProto;
using convert_internal::Strings;
using convert_internal::Utf8;

// The numbers are equal, so that the table of kinds serves for both.
static_assert(kCandidateKinds.size() + 1 == v1::CandidateKind_ARRAYSIZE);

constexpr std::pair<CompileStage, v1::CompileError::Stage> kCompileStages[] = {
    {CompileStage::kAdmission, v1::CompileError::STAGE_ADMISSION},
    {CompileStage::kCompiler, v1::CompileError::STAGE_COMPILER},
    {CompileStage::kLinker, v1::CompileError::STAGE_LINKER},
    {CompileStage::kLimit, v1::CompileError::STAGE_LIMIT},
};

constexpr std::pair<ArtifactFormat, v1::ArtifactFormat> kArtifactFormats[] = {
    {ArtifactFormat::kSharedObject, v1::ARTIFACT_FORMAT_SHARED_OBJECT},
    {ArtifactFormat::kCubin, v1::ARTIFACT_FORMAT_CUBIN},
    {ArtifactFormat::kPythonSource, v1::ARTIFACT_FORMAT_PYTHON_SOURCE},
};

constexpr std::pair<Abstention::Cause, v1::Abstention::Cause> kAbstentionCauses[] = {
    {Abstention::Cause::kModelDeferred, v1::Abstention::CAUSE_MODEL_DEFERRED},
    {Abstention::Cause::kUnparsable, v1::Abstention::CAUSE_UNPARSABLE},
    {Abstention::Cause::kEndpointUnavailable, v1::Abstention::CAUSE_ENDPOINT_UNAVAILABLE},
    {Abstention::Cause::kBudget, v1::Abstention::CAUSE_BUDGET},
    {Abstention::Cause::kNotCovered, v1::Abstention::CAUSE_NOT_COVERED},
};

constexpr std::pair<ForecastBasis, v1::ForecastBasis> kForecastBases[] = {
    {ForecastBasis::kUnspecified, v1::FORECAST_BASIS_UNSPECIFIED},
    {ForecastBasis::kPriorOnly, v1::FORECAST_BASIS_PRIOR_ONLY},
    {ForecastBasis::kLabels, v1::FORECAST_BASIS_LABELS},
    {ForecastBasis::kFacts, v1::FORECAST_BASIS_FACTS},
    {ForecastBasis::kRecording, v1::FORECAST_BASIS_RECORDING},
    {ForecastBasis::kSimulation, v1::FORECAST_BASIS_SIMULATION},
    {ForecastBasis::kModel, v1::FORECAST_BASIS_MODEL},
};
constexpr std::pair<ModelOutcome, v1::ModelOutcome> kModelOutcomes[] = {
    {ModelOutcome::kNotAsked, v1::MODEL_OUTCOME_NOT_ASKED},
    {ModelOutcome::kUsed, v1::MODEL_OUTCOME_USED},
    {ModelOutcome::kDeclined, v1::MODEL_OUTCOME_DECLINED},
    {ModelOutcome::kUnreadable, v1::MODEL_OUTCOME_UNREADABLE},
    {ModelOutcome::kUnanswered, v1::MODEL_OUTCOME_UNANSWERED},
    {ModelOutcome::kBudget, v1::MODEL_OUTCOME_BUDGET},
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
    {DecisionReason::kSelected, v1::DECISION_REASON_SELECTED},
    {DecisionReason::kDeclined, v1::DECISION_REASON_DECLINED},
    {DecisionReason::kForecastOnly, v1::DECISION_REASON_FORECAST_ONLY},
    {DecisionReason::kUnpromising, v1::DECISION_REASON_UNPROMISING},
    {DecisionReason::kBudgetPace, v1::DECISION_REASON_BUDGET_PACE},
    {DecisionReason::kLikelyFailure, v1::DECISION_REASON_LIKELY_FAILURE},
    {DecisionReason::kCompileError, v1::DECISION_REASON_COMPILE_ERROR},
    {DecisionReason::kDuplicate, v1::DECISION_REASON_DUPLICATE},
    {DecisionReason::kBudget, v1::DECISION_REASON_BUDGET},
    {DecisionReason::kCancelled, v1::DECISION_REASON_CANCELLED},
    {DecisionReason::kUnavailable, v1::DECISION_REASON_UNAVAILABLE},
};

v1::TokenUsage UsageToProto(const TokenUsage& usage) {
  v1::TokenUsage proto;
  proto.set_input_tokens(usage.input_tokens);
  proto.set_cached_input_tokens(usage.cached_input_tokens);
  proto.set_output_tokens(usage.output_tokens);
  proto.set_cost_dollars(usage.cost_dollars);
  return proto;
}

TokenUsage UsageFromProto(const v1::TokenUsage& proto) {
  return {proto.input_tokens(), proto.cached_input_tokens(), proto.output_tokens(),
          proto.cost_dollars()};
}

}  // namespace

v1::CandidateKind ToProto(CandidateKind kind) {
  return static_cast<v1::CandidateKind>(KindInfoOf(kind).kind);
}

v1::Candidate ToProto(const Candidate& candidate) {
  v1::Candidate proto;
  proto.set_candidate_id(Utf8(candidate.candidate_id));
  proto.set_problem_id(Utf8(candidate.problem_id));
  proto.set_target(Utf8(candidate.target));
  proto.set_kind(ToProto(candidate.kind));
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
    added->set_when(Utf8(launch.when));
    for (const Constexpr& constant : launch.constexprs) {
      v1::Constexpr* const to = added->add_constexprs();
      to->set_name(Utf8(constant.name));
      to->set_value(Utf8(constant.value));
    }
    added->set_num_warps(static_cast<uint32_t>(launch.num_warps));
    added->set_num_stages(static_cast<uint32_t>(launch.num_stages));
  }
  proto.set_workspace_bytes(Utf8(candidate.workspace_bytes));
  proto.set_parent_candidate_id(Utf8(candidate.parent_candidate_id));
  proto.set_origin(Utf8(candidate.origin));
  proto.set_name(Utf8(candidate.name));
  return proto;
}

absl::StatusOr<Candidate> FromProto(const v1::Candidate& proto) {
  Candidate candidate;
  candidate.candidate_id = proto.candidate_id();
  candidate.problem_id = proto.problem_id();
  candidate.target = proto.target();
  candidate.kind = static_cast<CandidateKind>(proto.kind());
  if (ToProto(candidate.kind) != proto.kind()) {
    return absl::InvalidArgumentError(
        absl::StrCat("kind: ", static_cast<int>(proto.kind()), " is not a known value"));
  }
  candidate.source = std::string(WithoutByteOrderMark(proto.source()));
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
    added.when = launch.when();
    for (const v1::Constexpr& constant : launch.constexprs()) {
      added.constexprs.push_back({constant.name(), constant.value()});
    }
    // Values that do not fit become negative, which ValidateCandidate refuses too.
    added.num_warps = static_cast<int32_t>(launch.num_warps());
    added.num_stages = static_cast<int32_t>(launch.num_stages());
  }
  candidate.workspace_bytes = proto.workspace_bytes();
  candidate.parent_candidate_id = proto.parent_candidate_id();
  candidate.origin = proto.origin();
  candidate.name = proto.name();
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
      to.set_not_checked(Utf8(launch.not_checked));
      for (const Finding& finding : launch.findings) {
        v1::Finding& found = *to.add_findings();
        found.set_kind(static_cast<v1::Finding::Kind>(static_cast<int>(finding.kind) + 1));
        found.set_ptx_line(finding.ptx_line);
        found.set_source_line(finding.source_line);
        found.set_detail(Utf8(finding.detail));
        found.set_count(finding.count);
      }
    }
    added.set_findings_schema(Utf8(simulation.findings_schema));
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
                                launch.not_covered(),
                                {},
                                launch.not_checked()});
      for (const v1::Finding& finding : launch.findings()) {
        // Kinds of a later version are skipped; the schema names the version.
        const int kind = static_cast<int>(finding.kind()) - 1;
        if (kind < 0 || kind >= static_cast<int>(kFindingKinds)) continue;
        added.launches.back().findings.push_back({static_cast<FindingKind>(kind),
                                                  finding.ptx_line(), finding.source_line(),
                                                  finding.detail(), finding.count()});
      }
    }
    added.findings_schema = simulation.findings_schema();
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
  if (forecast.labels_seen) proto.set_labels_seen(*forecast.labels_seen);
  proto.set_device_model(Utf8(forecast.device_model));
  proto.set_rationale(forecast.rationale);
  *proto.mutable_token_usage() = UsageToProto(forecast.token_usage);
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
  if (forecast.model) *proto.mutable_model() = ToProto(*forecast.model);
  if (forecast.anchor) {
    proto.mutable_anchor()->set_candidate_id(Utf8(forecast.anchor->candidate_id));
    proto.mutable_anchor()->set_speedup(forecast.anchor->speedup);
  }
  proto.set_basis(EnumToProto(kForecastBases, forecast.basis));
  proto.set_evidence_id(Utf8(forecast.evidence_id));
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
  if (proto.has_labels_seen()) forecast.labels_seen = proto.labels_seen();
  forecast.device_model = proto.device_model();
  forecast.rationale = proto.rationale();
  forecast.token_usage = UsageFromProto(proto.token_usage());
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
  if (proto.has_model()) forecast.model = FromProto(proto.model());
  if (proto.has_anchor()) {
    forecast.anchor = ForecastAnchor{proto.anchor().candidate_id(), proto.anchor().speedup()};
  }
  forecast.basis =
      EnumFromProto(kForecastBases, proto.basis(), "basis").value_or(ForecastBasis::kUnspecified);
  forecast.evidence_id = proto.evidence_id();
  return forecast;
}

v1::Abstention ToProto(const Abstention& abstention) {
  v1::Abstention proto;
  proto.set_cause(EnumToProto(kAbstentionCauses, abstention.cause));
  proto.set_backend(Utf8(abstention.backend));
  proto.set_reason(abstention.reason);
  if (abstention.model) *proto.mutable_model() = ToProto(*abstention.model);
  return proto;
}

absl::StatusOr<Abstention> FromProto(const v1::Abstention& proto) {
  Abstention abstention;
  KC_ASSIGN_OR_RETURN(abstention.cause, EnumFromProto(kAbstentionCauses, proto.cause(), "cause"));
  abstention.backend = proto.backend();
  abstention.reason = proto.reason();
  if (proto.has_model()) abstention.model = FromProto(proto.model());
  return abstention;
}

v1::ModelAnswer ToProto(const ModelAnswer& answer) {
  v1::ModelAnswer proto;
  proto.set_outcome(EnumToProto(kModelOutcomes, answer.outcome));
  proto.set_fault(Utf8(answer.fault));
  proto.set_detail(answer.detail);
  *proto.mutable_token_usage() = UsageToProto(answer.token_usage);
  return proto;
}

ModelAnswer FromProto(const v1::ModelAnswer& proto) {
  ModelAnswer answer;
  // An outcome of a later release counts as kNotAsked: in either case the forecast does not contain
  // the model's answer.
  answer.outcome =
      EnumFromProto(kModelOutcomes, proto.outcome(), "outcome").value_or(ModelOutcome::kNotAsked);
  answer.fault = proto.fault();
  answer.detail = proto.detail();
  answer.token_usage = UsageFromProto(proto.token_usage());
  return answer;
}

v1::ModelUse ToProto(const ModelUse& use) {
  v1::ModelUse proto;
  proto.set_asked(use.asked);
  proto.set_used(use.used);
  proto.set_declined(use.declined);
  for (const auto& [fault, answers] : use.unreadable) {
    v1::UnreadableAnswers& out = *proto.add_unreadable();
    out.set_fault(Utf8(fault));
    out.set_count(answers.count);
    out.set_example(answers.example);
  }
  proto.set_unanswered(use.unanswered);
  proto.set_over_budget(use.over_budget);
  *proto.mutable_token_usage() = UsageToProto(use.token_usage);
  proto.set_last_error(use.last_error);
  return proto;
}

ModelUse FromProto(const v1::ModelUse& proto) {
  ModelUse use;
  use.asked = proto.asked();
  use.used = proto.used();
  use.declined = proto.declined();
  for (const v1::UnreadableAnswers& answers : proto.unreadable()) {
    use.unreadable[answers.fault()] = {answers.count(), answers.example()};
  }
  use.unanswered = proto.unanswered();
  use.over_budget = proto.over_budget();
  use.token_usage = UsageFromProto(proto.token_usage());
  use.last_error = proto.last_error();
  return use;
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
  if (decision.audited_reason) proto.set_audited_reason(ToProto(*decision.audited_reason));
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
  if (proto.audited_reason() != v1::DECISION_REASON_UNSPECIFIED) {
    KC_ASSIGN_OR_RETURN(decision.audited_reason, FromProto(proto.audited_reason()));
  }
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
