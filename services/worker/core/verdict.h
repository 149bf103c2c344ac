#ifndef KERNELCAST_SERVICES_WORKER_CORE_VERDICT_H_
#define KERNELCAST_SERVICES_WORKER_CORE_VERDICT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/domain/measurement.h"
#include "services/worker/core/options.h"
#include "services/worker/core/statistics.h"
#include "services/worker/core/timing_session.h"

namespace kernelcast::worker {

// What timing one bench shape of a correct candidate has given, over all its runners.
struct TimedShape {
  AxisValues axes = {};
  double bytes = 0;  // declared traffic and work; 0: not declared
  double flops = 0;
  ShapeRatios ratios = {};
  std::vector<double> candidate_ns = {};
  std::vector<double> reference_ns = {};
  std::vector<double> candidate_cold_ns = {};
  std::vector<double> reference_cold_ns = {};
  uint32_t blocks = 0;
  uint32_t discarded_blocks = 0;
  std::string stop_reason = {};
  double overhead_ns = 0;

  // Takes over what one runner's session has given.
  void Add(const TimingSession& session);
};

Exploit MakeExploit(Exploit::Kind kind, std::string evidence);

// The outcome: ok, below what moving the declared bytes takes, or too noisy to tell. Everything of
// MeasuredOk is set but the environment.
MeasureOutcome Conclude(std::span<const TimedShape> shapes, const MeasureOptions& options,
                        MeasureLevel level, uint32_t correctness_cases);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_VERDICT_H_
