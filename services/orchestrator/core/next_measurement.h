#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NEXT_MEASUREMENT_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NEXT_MEASUREMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/domain/forecast.h"

namespace kernelcast::orchestrator {

// Whether a forecast made before its problem has labels distinguishes candidates: its standard
// deviation is below one octave, or its expected log2 speedup differs from 0 by more than the
// deviation. A search with informed forecasts starts with the best of them. Otherwise it starts
// with one point of each template.
bool IsInformed(const Forecast& forecast);

// Whether the forecast rests on the launches of its candidate, simulated or recorded. Such
// forecasts compare candidates before their problem has labels. All may be off by the same factor,
// which the first results show.
bool ComparesLaunches(const Forecast& forecast);
// Candidates with such forecasts that a search or problem measures before it has a label.
inline constexpr uint64_t kComparedStart = 4;

// Returns the index of the forecast with the largest expected improvement over the incumbent. All
// forecasts must use the reference as baseline. `incumbent_speedup` is the best measured speedup,
// or 1. Null forecasts are skipped. Empty if all are null.
std::optional<size_t> ChooseNext(std::span<const Forecast* const> forecasts,
                                 double incumbent_speedup);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_NEXT_MEASUREMENT_H_
