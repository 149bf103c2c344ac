#include "services/orchestrator/core/template_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/ranking.h"
#include "services/orchestrator/core/search_budget.h"

namespace kernelcast::orchestrator {
namespace {

constexpr const char* kNothingLeft = "nothing left worth measuring";

}  // namespace

absl::Status TemplateSource::Check(const SearchSpec& spec, const Problem& problem, bool) const {
  if (!problem.targets.find(spec.target)->second.space) {
    return absl::InvalidArgumentError(absl::StrCat("spec.generator: problem ", problem.name,
                                                   " has no template space for target '",
                                                   spec.target, "'"));
  }
  if (spec.budget == Budget{}) {
    return absl::InvalidArgumentError(
        "spec.budget: at least one limit must be set for a template search");
  }
  return absl::OkStatus();
}

uint64_t TemplateSource::ExpectedDecisions(const Search& search) const {
  const uint64_t most = search.spec.budget.max_candidates;
  if (search.generator == nullptr) return most;
  const uint64_t space = std::min<uint64_t>(search.generator->space_size(), kLookAhead);
  return most == 0 ? space : std::min(most, space);
}

uint64_t TemplateSource::LookAhead(const Search& search) {
  return kLookAhead + search.looked_further +
         kLookAheadPerMeasurement * (search.counts.measurements + search.measuring);
}

std::optional<SourceAction> TemplateSource::Next(const State& state, const Search& search,
                                                 const SourceInputs& inputs) const {
  if (search.generator == nullptr) return std::nullopt;
  return NextOfSpace(state, search, inputs, [](const char* reason) {
    return std::optional<SourceAction>(FinishSearch{reason});
  });
}

std::optional<SourceAction> TemplateSource::Propose(const Search& search) {
  const SearchStrategy& strategy = *search.strategy;
  ProposeCandidate propose;
  propose.request_id = NextRequestId(search);
  if (search.spec.measure_everything) propose.mode = EvaluateMode::kMeasure;
  switch (strategy.points()) {
    case SearchStrategy::Points::kGenerator: propose.candidate = *search.generator->Next(); break;
    case SearchStrategy::Points::kUniform: propose.candidate = *search.generator->Random(); break;
    case SearchStrategy::Points::kDerived: {
      Parents parents = NextParents(search);
      // A model's kernel is no point that others can be derived from.
      if (!search.generator->Has(parents.first)) parents.first = search.archive->reference_id();
      propose.candidate = *search.generator->Derive(parents.first, parents.second);
      propose.candidate.parent_candidate_id = std::move(parents.first);
      break;
    }
  }
  return propose;
}

bool TemplateSource::LooksAhead(const Search& search) {
  if (search.spec.measure_everything) return true;
  switch (search.strategy->points()) {
    case SearchStrategy::Points::kGenerator: return search.counts.considered < LookAhead(search);
    case SearchStrategy::Points::kUniform: return true;
    case SearchStrategy::Points::kDerived: break;
  }
  return MayDerive(search);
}

std::optional<SourceAction> TemplateSource::NextOfSpace(
    const State& state, const Search& search, const SourceInputs& inputs,
    const std::function<std::optional<SourceAction>(const char* reason)>& finish) const {
  if (std::optional<ProposeCandidate> chosen = Chosen(search)) return *std::move(chosen);
  const SearchSpec& spec = search.spec;
  const uint64_t slots = std::max<uint64_t>(1, inputs.capacity.measure_slots);
  const bool all_proposed =
      search.generator->proposed() >= search.generator->space_size() ||
      (spec.budget.max_candidates > 0 && search.counts.considered >= spec.budget.max_candidates);
  // Only enough to keep the workers busy, because later decisions know more.
  const bool has_room =
      search.in_flight < InFlightLimit(search, inputs.capacity) && search.measuring < 2 * slots;
  if (!all_proposed && has_room && LooksAhead(search)) return Propose(search);
  if (spec.measure_everything) {
    return all_proposed && search.in_flight == 0 ? finish(kNothingLeft) : std::nullopt;
  }
  // If measurements are limited, each is chosen with the results of all before it. If only time is
  // limited, the next one already waits at the device.
  const uint64_t ahead = spec.budget.max_measurements > 0 ? 0 : slots;
  if (search.measuring >= slots + ahead || !MaySelect(search)) return std::nullopt;
  if (std::optional<RankPruned> ranking = PlanRanking(state, search, inputs, all_proposed)) {
    return *std::move(ranking);
  }
  if (inputs.ranking || AwaitsSelection(state, search)) return std::nullopt;
  if (all_proposed) return search.in_flight == 0 ? finish(kNothingLeft) : std::nullopt;
  // Nothing known is worth measuring.
  const bool further = search.strategy->batches().has_value()
                           ? IsIdle(state, search, inputs)
                           : search.counts.considered >= LookAhead(search);
  if (further && has_room) return Propose(search);
  return std::nullopt;
}

}  // namespace kernelcast::orchestrator
