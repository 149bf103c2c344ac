#include "services/worker/cuda/judge/between_calls.h"

#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

constexpr double kSlackShare = 0.3;
constexpr double kSlackUs = 10;
constexpr double kSlowestFillBytesPerUs = 5e5;

}  // namespace

void BetweenCalls::SetReference(std::span<const double> before_us) {
  if (const double median_us = MedianUs(before_us); median_us > 0) reference_us_ = median_us;
}

double BetweenCalls::ChargeUs(std::span<const double> before_us, uint64_t poisoned_bytes) const {
  const double median_us = MedianUs(before_us);
  if (median_us <= 0 || reference_us_ <= 0) return 0;
  const double expected_us =
      reference_us_ + static_cast<double>(poisoned_bytes) / kSlowestFillBytesPerUs;
  const double excess_us = median_us - expected_us;
  return excess_us > kSlackShare * expected_us + kSlackUs ? excess_us : 0;
}

double BetweenCalls::MedianUs(std::span<const double> before_us) const {
  if (delivers_ && !before_us.empty()) before_us = before_us.subspan(1);
  return before_us.empty() ? 0 : Median(before_us);
}

}  // namespace kernelcast::worker
