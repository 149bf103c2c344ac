#include "services/orchestrator/core/search_strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/external_strategy.h"
#include "services/orchestrator/core/model_strategy.h"
#include "services/orchestrator/core/template_strategy.h"

namespace kernelcast::orchestrator {

const SearchStrategy& StrategyFor(GeneratorKind kind) {
  static const TemplateStrategy template_space;
  static const ModelStrategy model;
  static const ExternalStrategy external;
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

}  // namespace kernelcast::orchestrator
