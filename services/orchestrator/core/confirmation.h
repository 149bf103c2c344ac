#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_CONFIRMATION_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_CONFIRMATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/domain/measurement.h"

namespace kernelcast::orchestrator {

// Chooses the best kernel of a search. A single measurement, even a final one, is noisy: processes
// differ by 0.4% in the median and by up to 3%. So the candidates whose screening results do not
// differ significantly from the best are measured again at the final level, in rounds. After each
// round, candidates that are too far behind drop out. It ends when one is left or a limit is
// reached.
//
// Pure functions of the measurements, so a restart continues with the same candidates.

// The screening of a candidate ends early where its interval lies below the lower end of the
// incumbent's by this factor. So it could not have been a finalist by its interval.
inline constexpr double kBehindMargin = 0.94;

// Quantile of the normal distribution for intervals of 95%.
inline constexpr double kNormal95 = 1.96;
// Spread of log speedups between processes, where too few measurements show it.
inline constexpr double kProcessSpread = 0.006;

// Half the width of the interval of the log speedup. 0: it has no interval.
double LogHalfWidth(const Ratio& ratio);

struct ConfirmationLimits {
  int candidates = 12;
  // Maximum measurements of one candidate.
  int rounds = 6;

  // Maximum measurements of all candidates together.
  int measurements() const { return 3 * candidates + 4; }
};

// A correct candidate of the search. Lists are ordered best screening first.
struct Screened {
  Ratio speedup;
  std::string candidate_id;
  // Timing ended early because it was too slow. Such a candidate may be one of the three finalists
  // that there always are, but not a further one.
  bool behind = false;
};

// One measurement at the final level.
struct FinalMeasurement {
  std::string candidate_id;
  std::string request_id;
  bool settled = false;
  std::optional<Ratio> speedup;  // set if correct
  // The candidate was found to be wrong. If neither this nor `speedup` is set, no worker could
  // measure it.
  bool failed = false;
  std::string outcome = {};  // OutcomeName, if it failed
};

// The finding of the gate (gate.h).
enum class Gate { kNotMeasured, kCarriesOver, kDoesNotCarryOver, kFailed };

// A measurement at the held-out bench shapes.
struct HeldOutResult {
  Ratio speedup;        // unless it failed
  std::string outcome;  // OutcomeName, if it failed
  std::string request_id;
};

// orchestrator.proto defines the fields.
struct Finalist {
  std::string candidate_id;
  Ratio speedup;
  uint32_t measurements = 0;
  Ratio screening;
  bool tied = false;
  bool failed = false;
  // The measurement with the (lower) median speedup.
  std::string request_id;
  Gate gate = Gate::kNotMeasured;
  std::optional<HeldOutResult> held_out = {};  // unless it was not measured
};

// The candidates to measure in the next round. Empty: the best is known or a limit is reached. All
// of `finals` must be settled.
std::vector<std::string> NextFinals(std::span<const Screened> screened,
                                    std::span<const FinalMeasurement> finals,
                                    const ConfirmationLimits& limits);

// Candidates with at least one verdict, best first, failed ones last.
std::vector<Finalist> RankFinalists(std::span<const Screened> screened,
                                    std::span<const FinalMeasurement> finals);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_CONFIRMATION_H_
