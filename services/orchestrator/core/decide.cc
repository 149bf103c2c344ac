#include "services/orchestrator/core/decide.h"

#include "common/base/hash.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {
namespace {

// The random number that decides an audit. A function of seed and id, so that a replay draws the
// same.
double AuditDraw(uint64_t seed, const std::string& request_id) {
  ContentHasher hasher;
  const std::string hex =
      hasher.Add("audit").Add(static_cast<long long>(seed)).Add(request_id).Hex128();
  return static_cast<double>(std::stoull(hex.substr(0, 13), nullptr, 16)) * 0x1.0p-52;
}

bool IsInSpace(const Search& search, const Evaluation& evaluation) {
  return search.generator != nullptr && evaluation.generated &&
         search.generator->Has(evaluation.candidate.candidate_id);
}

}  // namespace

bool IsSelectedFrom(const Search& search, const Evaluation& evaluation) {
  const bool in_batch =
      search.strategy != nullptr && evaluation.generated && search.strategy->batches().has_value();
  return Selects(search) && (in_batch || IsInSpace(search, evaluation));
}

Decision Decide(const State& state, const Evaluation& evaluation, int64_t now_ns) {
  const Search* search = state.FindSearch(evaluation.search_id);
  const Policy& policy =
      search != nullptr && search->policy != nullptr ? *search->policy : DefaultPolicy();

  PolicyInput input;
  if (search != nullptr) {
    input = CountsFor(*search);
  } else if (const ProblemHistory* history =
                 state.FindHistory(evaluation.candidate.problem_id, evaluation.candidate.target,
                                   evaluation.device_model)) {
    input = history->Input();
  }
  input.forecast = evaluation.forecast ? &*evaluation.forecast : nullptr;
  input.declined = evaluation.declined;
  input.reconsidered = evaluation.reconsidered;
  input.audit_draw = AuditDraw(search != nullptr ? search->spec.seed : 0, evaluation.request_id);
  input.start = search != nullptr && IsInSpace(*search, evaluation) &&
                search->generator->IsStart(evaluation.candidate.candidate_id);
  input.selects = search != nullptr && IsSelectedFrom(*search, evaluation);

  Decision decision = policy.Decide(input);
  auto overrule = [&](DecisionReason reason) {
    decision.reason = reason;
    decision.kind = KindOf(reason);
    decision.audit_propensity = decision.kind == DecisionKind::kMeasure ? 1 : 0;
    decision.audited_reason.reset();
  };
  if (evaluation.mode == EvaluateMode::kForecast) {
    overrule(evaluation.forecast ? DecisionReason::kForecastOnly : DecisionReason::kUnavailable);
  } else if (evaluation.mode != EvaluateMode::kRoute ||
             (search != nullptr && search->spec.measure_everything)) {
    overrule(DecisionReason::kRequested);
  }
  const bool confirmation = evaluation.mode == EvaluateMode::kFinal && evaluation.generated;
  if (search == nullptr || confirmation) return decision;
  const std::string limit = ExhaustedBudget(*search, now_ns);
  if (limit.empty()) return decision;
  // No audit is possible any more.
  decision.audit_propensity = 0;
  if (GoesOnAfter(*search, limit)) {
    if (evaluation.mode == EvaluateMode::kForecast) return decision;
    overrule(DecisionReason::kBudget);
    if (evaluation.forecast) decision.kind = DecisionKind::kPrune;
  } else if (decision.kind == DecisionKind::kMeasure) {
    overrule(evaluation.forecast ? DecisionReason::kBudgetPace : DecisionReason::kBudget);
  }
  return decision;
}

bool NeedsNoForecast(const State& state, const Evaluation& evaluation) {
  if (evaluation.mode == EvaluateMode::kFinal || evaluation.mode == EvaluateMode::kCheck)
    return true;
  const Search* const search = state.FindSearch(evaluation.search_id);
  return search != nullptr && search->spec.measure_everything;
}

std::shared_ptr<const AnchorKernel> AnchorFor(const State& state, const Candidate& candidate,
                                              const Search* search,
                                              const std::string& device_model) {
  if (search == nullptr) {
    const ProblemHistory* const history =
        state.FindHistory(candidate.problem_id, candidate.target, device_model);
    return history != nullptr ? history->best() : nullptr;
  }
  std::shared_ptr<const AnchorKernel> incumbent = search->anchor;
  if (incumbent != nullptr && incumbent->speedup.value <= 1) incumbent = nullptr;
  const double best = incumbent != nullptr ? incumbent->speedup.value : 1;
  const Attempt* const parent =
      search->archive != nullptr ? search->archive->Find(candidate.parent_candidate_id) : nullptr;
  // Compare with the parent, from which the candidate differs least. If the incumbent is much
  // faster, use the incumbent, because the answer would say little about whether the candidate
  // beats it.
  if (parent == nullptr || parent->speedup <= 0 || 2 * parent->speedup < best) return incumbent;
  const Ratio speedup{parent->speedup, parent->speedup, parent->speedup, 0};
  return std::make_shared<const AnchorKernel>(
      AnchorKernel{parent->candidate, parent->facts, speedup, parent->times});
}

}  // namespace kernelcast::orchestrator
