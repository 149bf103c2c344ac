#include "services/worker/cuda/judge/between_calls.h"

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

constexpr double kSlackShare = 0.3;
constexpr double kSlackUs = 10;
constexpr double kSlowestFillBytesPerUs = 5e5;

}  // namespace

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

}  // namespace kernelcast::worker
