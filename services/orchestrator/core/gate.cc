#include "services/orchestrator/core/gate.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kernelcast::orchestrator {
namespace {

// A log speedup, or a sum of some, with its standard error.
struct LogSpeedup {
  double value = 0;
  double error = 0;
};

LogSpeedup LogOf(const Ratio& ratio) {
  return {std::log(ratio.value), std::max(LogHalfWidth(ratio) / kNormal95, kProcessSpread)};
}

LogSpeedup ProductOf(const Finalist& one) {
  const LogSpeedup bench = LogOf(one.speedup);
  const LogSpeedup held_out = LogOf(one.held_out->speedup);
  return {bench.value + held_out.value, std::hypot(bench.error, held_out.error)};
}

// Whether `a` is the larger one beyond the error of both.
bool IsLarger(const LogSpeedup& a, const LogSpeedup& b) {
  return a.value - b.value > kNormal95 * std::hypot(a.error, b.error);
}

const FinalMeasurement* Find(std::span<const FinalMeasurement> gates,
                             const std::string& candidate_id) {
  const auto found = std::find_if(gates.begin(), gates.end(), [&](const FinalMeasurement& one) {
    return one.candidate_id == candidate_id;
  });
  return found == gates.end() ? nullptr : &*found;
}

void SetGate(const FinalMeasurement& measurement, Finalist& one) {
  HeldOutResult result;
  result.request_id = measurement.request_id;
  if (measurement.speedup && measurement.speedup->value > 0) {
    result.speedup = *measurement.speedup;
    const bool falls_behind = result.speedup.high < 1 && one.speedup.low > 1;
    one.gate = falls_behind ? Gate::kDoesNotCarryOver : Gate::kCarriesOver;
  } else if (measurement.failed) {
    result.outcome = measurement.outcome;
    one.gate = Gate::kFailed;
    one.failed = true;
  } else {
    return;  // no worker could measure it
  }
  one.held_out = std::move(result);
}

// Applies the second rule. `ranked` is ordered by the speedup at the bench shapes.
void CompareProducts(std::vector<Finalist>& ranked) {
  const Finalist* best = nullptr;
  for (const Finalist& one : ranked) {
    if (one.gate != Gate::kCarriesOver) continue;
    if (best == nullptr || ProductOf(one).value > ProductOf(*best).value) best = &one;
  }
  for (Finalist& one : ranked) {
    if (&one == best) return;  // the others are slower at the bench shapes
    if (one.gate == Gate::kCarriesOver && IsLarger(ProductOf(*best), ProductOf(one))) {
      one.gate = Gate::kDoesNotCarryOver;
    }
  }
}

int Group(const Finalist& one) {
  if (one.failed) return 3;
  switch (one.gate) {
    case Gate::kCarriesOver: return 0;
    case Gate::kNotMeasured: return 1;
    case Gate::kDoesNotCarryOver: return 2;
    case Gate::kFailed: break;
  }
  return 3;
}

}  // namespace

bool MayWin(const Finalist& finalist) {
  return !finalist.failed && finalist.gate != Gate::kDoesNotCarryOver;
}

bool NothingCarriesOver(std::span<const Finalist> finalists) {
  return !finalists.empty() && !MayWin(finalists.front()) &&
         std::any_of(finalists.begin(), finalists.end(),
                     [](const Finalist& one) { return one.gate != Gate::kNotMeasured; });
}

std::vector<std::string> NextGated(std::span<const Finalist> ranked,
                                   std::span<const FinalMeasurement> gates) {
  std::vector<std::string> next;
  std::vector<std::string> later;
  int place = 0;
  for (const Finalist& one : ranked) {
    if (one.failed) continue;
    ++place;
    if (Find(gates, one.candidate_id) != nullptr) continue;
    (place <= kGatedFinalists ? next : later).push_back(one.candidate_id);
  }
  if (!next.empty() || later.empty()) return next;
  const std::vector<Finalist> gated = ApplyGate({ranked.begin(), ranked.end()}, gates);
  const bool any_may_win = std::any_of(gated.begin(), gated.end(), [&](const Finalist& one) {
    return MayWin(one) && Find(gates, one.candidate_id) != nullptr;
  });
  if (any_may_win) return {};
  later.resize(1);
  return later;
}

std::vector<Finalist> ApplyGate(std::vector<Finalist> ranked,
                                std::span<const FinalMeasurement> gates) {
  if (gates.empty() || ranked.empty()) return ranked;
  const std::string fastest = ranked.front().candidate_id;
  for (Finalist& one : ranked) {
    const FinalMeasurement* const measurement = Find(gates, one.candidate_id);
    if (!one.failed && measurement != nullptr) SetGate(*measurement, one);
  }
  CompareProducts(ranked);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Finalist& a, const Finalist& b) { return Group(a) < Group(b); });
  const Finalist& best = ranked.front();
  if (best.candidate_id == fastest) {
    for (Finalist& one : ranked) one.tied = one.tied && MayWin(one);
    return ranked;
  }
  for (Finalist& one : ranked) {
    one.tied = &one != &best && MayWin(one) && MayWin(best) &&
               !IsLarger(LogOf(best.speedup), LogOf(one.speedup)) &&
               !IsLarger(LogOf(one.speedup), LogOf(best.speedup));
  }
  return ranked;
}

}  // namespace kernelcast::orchestrator
