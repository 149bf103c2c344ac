#include "services/orchestrator/core/candidate_source.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/draws.h"
#include "services/orchestrator/core/external_source.h"
#include "services/orchestrator/core/model_source.h"
#include "services/orchestrator/core/ranking.h"
#include "services/orchestrator/core/template_source.h"

namespace kernelcast::orchestrator {

const CandidateSource& SourceFor(GeneratorKind kind) {
  static const TemplateSource template_space;
  static const ModelSource model;
  static const ExternalSource external;
  switch (kind) {
    case GeneratorKind::kTemplate: return template_space;
    case GeneratorKind::kLlm: return model;
    case GeneratorKind::kExternal: return external;
  }
  return external;
}

uint64_t InFlightLimit(const Search& search, const Workers::Capacity& capacity) {
  if (search.spec.max_in_flight > 0) return search.spec.max_in_flight;
  return std::max<uint64_t>(2, capacity.compile_credits) +
         2 * std::max<uint64_t>(1, capacity.measure_slots);
}

std::string NextRequestId(const Search& search) {
  return absl::StrCat(search.search_id, "/", search.counts.proposed + 1);
}

Parents NextParents(const Search& search) {
  const Batches& batches = search.batches;
  const uint64_t turn = batches.next_turn();
  Parents parents = search.strategy->ChooseParents(*search.archive, batches.BatchOf(turn),
                                                   DrawState(search.spec.seed, turn));
  if (!batches.Starts()) parents.first = batches.parent();
  return parents;
}

bool MayDerive(const Search& search) {
  const std::optional<BatchLimits> limits = search.strategy->batches();
  return !limits || search.spec.measure_everything || !search.batches.Starts() ||
         search.batches.Open(limits->admit) < limits->parents;
}

bool IsIdle(const State& state, const Search& search, const SourceInputs& inputs) {
  return search.in_flight == search.measuring && !inputs.ranking &&
         !AwaitsSelection(state, search) &&
         (search.generation == nullptr || search.generation->in_flight.empty());
}

}  // namespace kernelcast::orchestrator
