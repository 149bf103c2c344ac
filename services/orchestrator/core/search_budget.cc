#include "services/orchestrator/core/search_budget.h"

#include <algorithm>

#include "services/orchestrator/core/candidate_source.h"

namespace kernelcast::orchestrator {

std::string ExhaustedBudget(const Search& search, int64_t now_ns) {
  const Budget& budget = search.spec.budget;
  if (budget.max_measurements > 0 &&
      search.counts.measurements + search.measuring >= budget.max_measurements) {
    return "max_measurements";
  }
  if (budget.max_device_time_ns > 0 &&
      search.counts.device_time_spent_ns - search.counts.device_time_confirming_ns >=
          budget.max_device_time_ns) {
    return "max_device_time";
  }
  if (budget.max_wall_time_ns > 0 && now_ns - search.started_ns >= budget.max_wall_time_ns) {
    return "max_wall_time";
  }
  if (search.spec.generator == GeneratorKind::kExternal && budget.max_candidates > 0 &&
      search.counts.considered > budget.max_candidates) {
    return "max_candidates";
  }
  return "";
}

bool GoesOnAfter(const Search& search, std::string_view limit) {
  return search.spec.generator == GeneratorKind::kExternal &&
         (limit == "max_measurements" || limit == "max_device_time");
}

PolicyInput CountsFor(const Search& search) {
  PolicyInput input;
  if (search.incumbent) {
    // At least 1: a candidate that only beats an incumbent slower than the reference is not a win.
    input.incumbent_speedup = std::max(1.0, MeasuredSpeedup(search.incumbent->measurement)->value);
  }
  input.measured = search.counts.measurements;
  input.measuring = search.measuring;
  input.max_measurements = search.spec.budget.max_measurements;
  input.decided = search.counts.considered -
                  std::min(search.counts.considered, search.in_flight - search.measuring);
  input.expected_decisions = SourceFor(search.spec.generator).ExpectedDecisions(search);
  input.history = &search.routes;
  input.selects = Selects(search);
  if (search.generator != nullptr) input.start_size = search.generator->start_size();
  return input;
}

bool Selects(const Search& search) {
  if (search.strategy == nullptr) return false;
  if (search.strategy->batches().has_value()) return true;
  return search.generator != nullptr &&
         search.strategy->points() == SearchStrategy::Points::kGenerator;
}

bool MaySelect(const Search& search) {
  const bool knows_all = search.strategy->points() == SearchStrategy::Points::kGenerator;
  if (search.spec.budget.max_wall_time_ns > 0 || !knows_all) return true;
  return search.policy->MaySelect(CountsFor(search));
}

}  // namespace kernelcast::orchestrator
