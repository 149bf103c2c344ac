#include "common/convert/convert.h"

#include "common/base/status.h"
#include "common/base/utf8.h"
#include "common/convert/fields.h"

namespace kernelcast {

// The numbers are equal, so that the table of kinds serves for both.
static_assert(kCandidateKinds.size() + 1 == v1::CandidateKind_ARRAYSIZE);

constexpr auto Pairs(CompileStage) {
  return std::to_array<std::pair<CompileStage, v1::CompileError::Stage>>({
      {CompileStage::kAdmission, v1::CompileError::STAGE_ADMISSION},
      {CompileStage::kCompiler, v1::CompileError::STAGE_COMPILER},
      {CompileStage::kLinker, v1::CompileError::STAGE_LINKER},
      {CompileStage::kLimit, v1::CompileError::STAGE_LIMIT},
  });
}

constexpr auto Pairs(ArtifactFormat) {
  return std::to_array<std::pair<ArtifactFormat, v1::ArtifactFormat>>({
      {ArtifactFormat::kSharedObject, v1::ARTIFACT_FORMAT_SHARED_OBJECT},
      {ArtifactFormat::kCubin, v1::ARTIFACT_FORMAT_CUBIN},
      {ArtifactFormat::kPythonSource, v1::ARTIFACT_FORMAT_PYTHON_SOURCE},
  });
}

constexpr auto Pairs(Abstention::Cause) {
  return std::to_array<std::pair<Abstention::Cause, v1::Abstention::Cause>>({
      {Abstention::Cause::kModelDeferred, v1::Abstention::CAUSE_MODEL_DEFERRED},
      {Abstention::Cause::kUnparsable, v1::Abstention::CAUSE_UNPARSABLE},
      {Abstention::Cause::kEndpointUnavailable, v1::Abstention::CAUSE_ENDPOINT_UNAVAILABLE},
      {Abstention::Cause::kBudget, v1::Abstention::CAUSE_BUDGET},
      {Abstention::Cause::kNotCovered, v1::Abstention::CAUSE_NOT_COVERED},
  });
}

constexpr auto Pairs(ForecastBasis) {
  return std::to_array<std::pair<ForecastBasis, v1::ForecastBasis>>({
      {ForecastBasis::kUnspecified, v1::FORECAST_BASIS_UNSPECIFIED},
      {ForecastBasis::kPriorOnly, v1::FORECAST_BASIS_PRIOR_ONLY},
      {ForecastBasis::kLabels, v1::FORECAST_BASIS_LABELS},
      {ForecastBasis::kFacts, v1::FORECAST_BASIS_FACTS},
      {ForecastBasis::kRecording, v1::FORECAST_BASIS_RECORDING},
      {ForecastBasis::kSimulation, v1::FORECAST_BASIS_SIMULATION},
      {ForecastBasis::kModel, v1::FORECAST_BASIS_MODEL},
  });
}

constexpr auto Pairs(ModelOutcome) {
  return std::to_array<std::pair<ModelOutcome, v1::ModelOutcome>>({
      {ModelOutcome::kNotAsked, v1::MODEL_OUTCOME_NOT_ASKED},
      {ModelOutcome::kUsed, v1::MODEL_OUTCOME_USED},
      {ModelOutcome::kDeclined, v1::MODEL_OUTCOME_DECLINED},
      {ModelOutcome::kUnreadable, v1::MODEL_OUTCOME_UNREADABLE},
      {ModelOutcome::kUnanswered, v1::MODEL_OUTCOME_UNANSWERED},
      {ModelOutcome::kBudget, v1::MODEL_OUTCOME_BUDGET},
      {ModelOutcome::kLate, v1::MODEL_OUTCOME_LATE},
      {ModelOutcome::kNotWorthIt, v1::MODEL_OUTCOME_NOT_WORTH_IT},
  });
}

constexpr auto Pairs(DecisionKind) {
  return std::to_array<std::pair<DecisionKind, v1::DecisionKind>>({
      {DecisionKind::kMeasure, v1::DECISION_KIND_MEASURE},
      {DecisionKind::kPrune, v1::DECISION_KIND_PRUNE},
      {DecisionKind::kReject, v1::DECISION_KIND_REJECT},
  });
}

constexpr auto Pairs(DecisionReason) {
  return std::to_array<std::pair<DecisionReason, v1::DecisionReason>>({
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
  });
}

KC_FIELDS(TokenUsage, v1::TokenUsage) {
  KC_SAME(input_tokens, cached_input_tokens, output_tokens, cost_dollars);
}

KC_FIELDS(Tunable, v1::Tunable) { KC_SAME(name, value); }

KC_FIELDS(Constexpr, v1::Constexpr) { KC_SAME(name, value); }

KC_FIELDS(Launch, v1::Launch) {
  KC_SAME(kernel, grid, block, shared_memory_bytes, arguments, cluster, when, constexprs);
  // Values that do not fit become negative, which ValidateCandidate refuses too.
  KC_SAME(num_warps, num_stages);
}

KC_FIELDS(Candidate, v1::Candidate) {
  KC_SAME(candidate_id, problem_id, target);
  if constexpr (Io::kReads) {
    d.kind = static_cast<CandidateKind>(m.kind());
    if (ToProto(d.kind) != m.kind()) {
      io.Fail("kind", absl::StrCat(static_cast<int>(m.kind()), " is not a known value"));
    }
    d.source = std::string(WithoutByteOrderMark(m.source()));
  } else {
    m.set_kind(ToProto(d.kind));
    m.set_source(d.source);
  }
  KC_SAME(flags, tunables, launches, workspace_bytes, parent_candidate_id, origin, name);
}

KC_FIELDS(Finding, v1::Finding) {
  if constexpr (Io::kReads) {
    d.kind = static_cast<FindingKind>(static_cast<int>(m.kind()) - 1);
  } else {
    m.set_kind(static_cast<v1::Finding::Kind>(static_cast<int>(d.kind) + 1));
  }
  KC_SAME(ptx_line, source_line, detail, count);
}

KC_FIELDS(LaunchSimulation, v1::LaunchSimulation) {
  KC_SAME(kernel, values, not_covered, not_checked, findings);
  // Kinds of a later version are skipped; the schema names the version.
  if constexpr (Io::kReads) {
    std::erase_if(d.findings, [](const Finding& finding) {
      return static_cast<size_t>(finding.kind) >= kFindingKinds;
    });
  }
}

KC_FIELDS(ShapeSimulation, v1::ShapeSimulation) {
  KC_SAME(schema, gpu, launches, findings_schema, not_compared);
}

KC_FIELDS(CompileFacts, v1::CompileFacts) { KC_SAME(schema, values, simulations); }

KC_FIELDS(CompileError, v1::CompileError) {
  KC_SAME(stage);
  KC_BYTES(log);
}

KC_FIELDS(Artifact, v1::Artifact) {
  KC_SAME(artifact_id, format, architecture, toolchain);
  KC_BYTES(content);
}

KC_FIELDS(ModelAnswer, v1::ModelAnswer) {
  // An outcome of a later release counts as kNotAsked: in either case the forecast does not contain
  // the model's answer.
  KC_LENIENT(outcome);
  KC_SAME(fault);
  KC_BYTES(detail);
  KC_SAME(token_usage, repairs);
}

KC_FIELDS(ForecastComponent, v1::ForecastComponent) {
  KC_SAME(backend, backend_version, weight, bin_probabilities, failure_probability);
}

KC_FIELDS(ForecastAnchor, v1::ForecastAnchor) { KC_SAME(candidate_id, speedup); }

KC_FIELDS(Forecast, v1::Forecast) {
  KC_SAME(candidate_id, bin_scheme_id, bin_probabilities, failure_probability, predicted_bin,
          expected_log2_speedup, stddev_log2_speedup, raw_probability_sum, argmax_mismatch,
          baseline_candidate_id, backend, backend_version, calibrator_version, labels_seen,
          device_model);
  KC_BYTES(rationale);
  KC_SAME(token_usage);
  KC_FIELD(latency_ns, latency);
  KC_SAME(prompt_version, components, model, anchor);
  KC_LENIENT(basis);
  KC_SAME(evidence_id);
}

KC_FIELDS(Abstention, v1::Abstention) {
  KC_SAME(cause, backend);
  KC_BYTES(reason);
  KC_SAME(model);
}

KC_FIELDS(ModelUse, v1::ModelUse) {
  KC_SAME(asked, used, declined);
  if constexpr (Io::kReads) {
    d.unreadable = FromProto(m.unreadable());
  } else {
    ToProto(d.unreadable, *m.mutable_unreadable());
  }
  KC_SAME(unanswered, over_budget, token_usage, repairs, late, not_worth_it);
  KC_BYTES(last_error);
}

KC_FIELDS(Decision, v1::Decision) {
  KC_SAME(kind, reason, policy, policy_version, audit_propensity, win_probability, threshold,
          incumbent_speedup, audited_reason);
}

v1::CandidateKind ToProto(CandidateKind kind) {
  return static_cast<v1::CandidateKind>(KindInfoOf(kind).kind);
}

v1::Candidate ToProto(const Candidate& candidate) { return WriteFields<v1::Candidate>(candidate); }
absl::StatusOr<Candidate> FromProto(const v1::Candidate& proto) {
  return ReadFields<Candidate>(proto);
}

v1::CompileFacts ToProto(const CompileFacts& facts) { return WriteFields<v1::CompileFacts>(facts); }
CompileFacts FromProto(const v1::CompileFacts& proto) { return *ReadFields<CompileFacts>(proto); }

v1::CompileError ToProto(const CompileError& error) { return WriteFields<v1::CompileError>(error); }
absl::StatusOr<CompileError> FromProto(const v1::CompileError& proto) {
  return ReadFields<CompileError>(proto);
}

v1::Artifact ToProto(const Artifact& artifact) { return WriteFields<v1::Artifact>(artifact); }
absl::StatusOr<Artifact> FromProto(const v1::Artifact& proto) {
  return ReadFields<Artifact>(proto);
}

v1::Forecast ToProto(const Forecast& forecast) { return WriteFields<v1::Forecast>(forecast); }
Forecast FromProto(const v1::Forecast& proto) { return *ReadFields<Forecast>(proto); }

v1::Abstention ToProto(const Abstention& abstention) {
  return WriteFields<v1::Abstention>(abstention);
}
absl::StatusOr<Abstention> FromProto(const v1::Abstention& proto) {
  return ReadFields<Abstention>(proto);
}

v1::ModelAnswer ToProto(const ModelAnswer& answer) { return WriteFields<v1::ModelAnswer>(answer); }
ModelAnswer FromProto(const v1::ModelAnswer& proto) { return *ReadFields<ModelAnswer>(proto); }

void ToProto(const UnreadableByFault& unreadable,
             google::protobuf::RepeatedPtrField<v1::UnreadableAnswers>& proto) {
  for (const auto& [fault, answers] : unreadable) {
    v1::UnreadableAnswers& out = *proto.Add();
    out.set_fault(convert_internal::Utf8(fault));
    out.set_count(answers.count);
    out.set_example(answers.example);
  }
}

UnreadableByFault FromProto(
    const google::protobuf::RepeatedPtrField<v1::UnreadableAnswers>& proto) {
  UnreadableByFault unreadable;
  for (const v1::UnreadableAnswers& answers : proto) {
    unreadable[answers.fault()] = {answers.count(), answers.example()};
  }
  return unreadable;
}

v1::ModelUse ToProto(const ModelUse& use) { return WriteFields<v1::ModelUse>(use); }
ModelUse FromProto(const v1::ModelUse& proto) { return *ReadFields<ModelUse>(proto); }

v1::TokenUsage ToProto(const TokenUsage& usage) { return WriteFields<v1::TokenUsage>(usage); }
TokenUsage FromProto(const v1::TokenUsage& proto) { return *ReadFields<TokenUsage>(proto); }

v1::Decision ToProto(const Decision& decision) { return WriteFields<v1::Decision>(decision); }
absl::StatusOr<Decision> FromProto(const v1::Decision& proto) {
  return ReadFields<Decision>(proto);
}

v1::DecisionReason ToProto(DecisionReason reason) { return convert_internal::EnumToProto(reason); }
absl::StatusOr<DecisionReason> FromProto(v1::DecisionReason reason) {
  return convert_internal::EnumFromProto<DecisionReason>(reason, "reason");
}

}  // namespace kernelcast
