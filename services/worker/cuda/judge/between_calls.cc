#include "services/worker/cuda/judge/between_calls.h"

#include <algorithm>

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

constexpr double kSlackShare = 0.3;
constexpr double kSlackUs = 10;
constexpr double kSlowestFillBytesPerUs = 5e5;
// With fewer requests of the reference, the slowest counts instead of the median.
constexpr size_t kFewRequests = 5;

}  // namespace

std::vector<double> TimesBetween(std::span<const float> values_us, const RequestedCalls& calls) {
  const size_t skipped = calls.copies ? 1 : 0;
  const size_t after_last = calls.copies && calls.single ? 1 : 0;
  std::vector<double> times_us;
  for (size_t i = calls.first + skipped; i < calls.first + calls.count + after_last; ++i) {
    times_us.push_back(values_us[2 * i]);
  }
  return times_us;
}

void BetweenCalls::SetReference(std::span<const double> before_us) {
  if (!before_us.empty()) reference_us_ = Median(before_us);
}

double BetweenCalls::ChargeUs(std::span<const double> before_us, uint64_t poisoned_bytes) const {
  if (before_us.empty() || reference_us_ <= 0) return 0;
  const double expected_us =
      reference_us_ + static_cast<double>(poisoned_bytes) / kSlowestFillBytesPerUs;
  const double excess_us = Median(before_us) - expected_us;
  return excess_us > kSlackShare * expected_us + kSlackUs ? excess_us : 0;
}

void BeyondCalls::AddReference(size_t samples, double beyond_us, double launching_us) {
  reference_us_[samples].push_back(std::max(beyond_us, launching_us));
}

double BeyondCalls::ChargeUs(size_t samples, size_t calls, double beyond_us,
                             uint64_t poisoned_bytes) {
  std::vector<double>& candidate_us = candidate_us_[samples];
  candidate_us.push_back(beyond_us);
  // A request with more samples takes longer.
  const auto reference = reference_us_.lower_bound(samples);
  if (reference == reference_us_.end()) return 0;
  const std::vector<double>& reference_us = reference->second;
  const double usual_us = reference_us.size() < kFewRequests
                              ? *std::ranges::max_element(reference_us)
                              : Median(reference_us);
  const auto count = static_cast<double>(calls);
  const double expected_us =
      usual_us + count * static_cast<double>(poisoned_bytes) / kSlowestFillBytesPerUs;
  const double excess_us = Median(candidate_us) - expected_us;
  return excess_us > kSlackShare * expected_us + count * kSlackUs ? excess_us / count : 0;
}

}  // namespace kernelcast::worker
