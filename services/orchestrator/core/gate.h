#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_GATE_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_GATE_H_

#include <span>
#include <string>
#include <vector>

#include "services/orchestrator/core/confirmation.h"

namespace kernelcast::orchestrator {

// The gate at the end of a search: the finalists are also measured at held-out bench shapes
// (HeldOutProblem), so that a kernel that is fast at the bench shapes alone is not the best.
//
// A finalist does not carry over if
// - its interval at the held-out bench shapes lies below 1, and above 1 at the bench shapes, or
// - another finalist is slower at the bench shapes, but faster by a larger factor at the held-out
//   ones: the product of both speedups is larger, beyond the error of both.
// At least one finalist passes the second rule, because the largest product is never exceeded.
//
// Pure functions of the measurements, so a restart continues with the same candidates.

// The candidates to measure next at held-out bench shapes: the first kGatedFinalists, and if none
// of them may win, the others one by one. `ranked` is the result of RankFinalists, and all of
// `gates` must be settled. Empty: the gate has ended.
inline constexpr int kGatedFinalists = 3;
std::vector<std::string> NextGated(std::span<const Finalist> ranked,
                                   std::span<const FinalMeasurement> gates);

// The result of RankFinalists with what the gate found. First come those that carry over, then
// those not measured, then those that do not carry over, and failed ones last. `tied` compares with
// the first.
std::vector<Finalist> ApplyGate(std::vector<Finalist> ranked,
                                std::span<const FinalMeasurement> gates);

// Whether it may be the best kernel of the search.
bool MayWin(const Finalist& finalist);

// Whether the gate leaves no best kernel. `finalists` is the result of ApplyGate.
bool NothingCarriesOver(std::span<const Finalist> finalists);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_GATE_H_
