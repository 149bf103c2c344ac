#ifndef KERNELCAST_SERVICES_WORKER_CORE_ROOFLINE_H_
#define KERNELCAST_SERVICES_WORKER_CORE_ROOFLINE_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/domain/measurement.h"
#include "common/domain/problem.h"
#include "services/worker/core/options.h"

namespace kernelcast::worker {

// Name of the memory bandwidth peak. Arithmetic peaks are named after data types.
inline constexpr std::string_view kMemoryPeak = "memory";

// Name of the peak that bounds a problem's arithmetic: the type of its narrowest floating-point
// input, or "int32" if all inputs are whole numbers. Devices are faster with narrower types, so
// this is an upper bound for any type that a kernel computes in.
std::string_view ComputePeak(const Problem& problem);

// Returns the memory peak for a working set: the smallest measured working set that holds it. Null
// if none is known.
const DevicePeak* MemoryPeak(std::span<const DevicePeak> peaks, double bytes);

// Returns nullopt if no considerable bytes or FLOPs are declared, or their peaks are not known. The
// time is at most kMaxTimeNs, as is that of ImplausibleBelowNs.
std::optional<Roofline> RooflineOf(std::span<const DevicePeak> peaks, std::string_view compute,
                                   double bytes, double flops, double candidate_ns,
                                   double reference_ns);

// Returns 1 / (1 + (candidate - light) / (reference - light)), between 0 and 1. If the reference
// already runs at the speed of light: 1 if the candidate does too, else 0.
double SpeedOfLightScore(double candidate_ns, double reference_ns, double light_ns);

// A time below this is taken for an exploit: no memory of the device moves the bytes that fast.
double ImplausibleBelowNs(const MeasureOptions& options, double bytes);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_ROOFLINE_H_
