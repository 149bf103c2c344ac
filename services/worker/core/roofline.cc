#include "services/worker/core/roofline.h"

#include <algorithm>
#include <cmath>

#include "common/domain/measurement_check.h"

namespace kernelcast::worker {
namespace {

// A shorter time bounds nothing, and what is relative to it might not be finite.
constexpr double kLeastTimeNs = 1e-6;

const DevicePeak* FindPeak(std::span<const DevicePeak> peaks, std::string_view name) {
  const auto found = std::ranges::find(peaks, name, &DevicePeak::name);
  return found == peaks.end() ? nullptr : &*found;
}

// Returns the time for this amount of work, at most what a measurement may hold: a problem may
// declare any amount.
double TimeNs(double amount, double per_second) {
  return std::min(kMaxTimeNs, 1e9 * (amount / per_second));
}

}  // namespace

std::string_view ComputePeak(const Problem& problem) {
  const TensorSpec* narrowest = nullptr;
  for (const TensorSpec& input : problem.inputs) {
    if (!IsFloat(input.dtype)) continue;
    if (narrowest == nullptr || SizeBytes(input.dtype) < SizeBytes(narrowest->dtype)) {
      narrowest = &input;
    }
  }
  return narrowest == nullptr ? Name(DataType::kInt32) : Name(narrowest->dtype);
}

const DevicePeak* MemoryPeak(std::span<const DevicePeak> peaks, double bytes) {
  const DevicePeak* best = nullptr;
  const auto room = [](const DevicePeak& peak) {
    return peak.working_set_bytes == 0 ? HUGE_VAL : static_cast<double>(peak.working_set_bytes);
  };
  for (const DevicePeak& peak : peaks) {
    if (peak.name != kMemoryPeak || room(peak) < bytes) continue;
    if (best == nullptr || room(peak) < room(*best)) best = &peak;
  }
  return best;
}

double SpeedOfLightScore(double candidate_ns, double reference_ns, double light_ns) {
  if (candidate_ns <= light_ns) return 1;
  if (reference_ns <= light_ns) return 0;
  return 1 / (1 + (candidate_ns - light_ns) / (reference_ns - light_ns));
}

std::optional<Roofline> RooflineOf(std::span<const DevicePeak> peaks, std::string_view compute,
                                   double bytes, double flops, double candidate_ns,
                                   double reference_ns) {
  Roofline roofline;
  const DevicePeak* const memory = MemoryPeak(peaks, bytes);
  if (bytes > 0 && memory != nullptr && memory->per_second > 0) {
    roofline.time_ns = TimeNs(bytes, memory->per_second);
    roofline.bound = Roofline::Bound::kMemory;
    roofline.peak = memory->name;
  }
  const DevicePeak* const arithmetic = FindPeak(peaks, compute);
  if (flops > 0 && arithmetic != nullptr && arithmetic->per_second > 0 &&
      TimeNs(flops, arithmetic->per_second) > roofline.time_ns) {
    roofline.time_ns = TimeNs(flops, arithmetic->per_second);
    roofline.bound = Roofline::Bound::kCompute;
    roofline.peak = arithmetic->name;
  }
  if (!(roofline.time_ns >= kLeastTimeNs)) return std::nullopt;
  roofline.ratio = candidate_ns / roofline.time_ns;
  roofline.score = SpeedOfLightScore(candidate_ns, reference_ns, roofline.time_ns);
  return roofline;
}

double ImplausibleBelowNs(const MeasureOptions& options, double bytes) {
  double fastest = 0;
  for (const DevicePeak& peak : options.peaks) {
    if (peak.name == kMemoryPeak) fastest = std::max(fastest, peak.per_second);
  }
  if (fastest == 0) fastest = options.fallback_bytes_per_second;
  return TimeNs(bytes, fastest * options.implausible_bandwidth_factor);
}

}  // namespace kernelcast::worker
