#include "services/worker/cuda/judge/python_timing.h"

#include <algorithm>
#include <cstdint>

namespace kernelcast::worker {
namespace {

// Two processes that make the same calls differ by about this: most of it is the same for short
// calls and long ones. What launching costs the host varies more.
constexpr double kProcessDeviation = 0.005;
constexpr double kGraphDeviationNs = 500;
constexpr double kEagerDeviationNs = 5'000;
constexpr double kMaxEagerDeviation = 0.1;

constexpr int64_t kEagerCapNs = 20'000'000;
constexpr double kEagerHalfWidth = 0.03;

constexpr double kSlowedShare = 0.1;
constexpr double kSlowedNs = 2'000;

void Widen(double deviation, SpreadOptions& spread) {
  spread.runner_deviation = std::max(spread.runner_deviation, deviation);
}

}  // namespace

void SpreadGraphs(double reference_ns, SpreadOptions& spread) {
  Widen(kProcessDeviation + kGraphDeviationNs / reference_ns, spread);
}

void SpreadEager(double reference_ns, SpreadOptions& spread) {
  Widen(std::min(kProcessDeviation + kEagerDeviationNs / reference_ns, kMaxEagerDeviation), spread);
}

PrecisionOptions EagerPrecision(PrecisionOptions precision) {
  precision.half_width = std::max(precision.half_width, kEagerHalfWidth);
  precision.cap_ns = std::min(precision.cap_ns, kEagerCapNs);
  return precision;
}

bool IsSlowed(double graph_ns, double eager_ns) {
  return graph_ns > (1 + kSlowedShare) * eager_ns + kSlowedNs;
}

}  // namespace kernelcast::worker
