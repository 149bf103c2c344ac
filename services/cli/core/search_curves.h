#ifndef KERNELCAST_SERVICES_CLI_CORE_SEARCH_CURVES_H_
#define KERNELCAST_SERVICES_CLI_CORE_SEARCH_CURVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "services/cli/core/forecast_eval.h"

namespace kernelcast::cli {

// What a search had found after some use of the device, without confirmations.
struct SearchCurve {
  struct Step {
    double device_seconds = 0;
    double speedup = 1;
  };
  std::string line;         // searches of one line are averaged
  std::string problem;      // with target and device model; its searches have the same best
  std::vector<Step> steps;  // ascending in both
  double device_seconds = 0;
  uint64_t measured = 0;
  uint64_t pruned = 0;
};

struct CurvePoint {
  double device_seconds = 0;  // mean over the problems of all lines
  // Best speedup so far, at least 1, relative to the best of the problem in all curves.
  Interval found;
};

// The mean over the searches of a line, with 95% intervals from resampling problems, and searches
// within them.
struct MeanCurve {
  std::string line;
  uint64_t searches = 0;
  double device_seconds = 0;            // of a search
  Interval candidates_per_measurement;  // measured and pruned ones; NaN without measurements
  // Equal steps of each problem's time, up to its longest search in all lines.
  std::vector<CurvePoint> points;
};

inline constexpr int kCurvePoints = 50;

// One curve for each line, in the order of their first searches.
std::vector<MeanCurve> MeanCurves(const std::vector<SearchCurve>& curves, int resamples = 1000,
                                  uint64_t seed = 1);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_SEARCH_CURVES_H_
