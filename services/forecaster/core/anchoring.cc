#include "services/forecaster/core/anchoring.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kernelcast::forecaster {
namespace {

// A smaller probability beyond the last edge does not justify another question.
constexpr double kLeastBlindMass = 0.02;
constexpr double kWinMargin = 1.02;

// Lower and upper end of a bin, in log2 S.
std::pair<double, double> Extent(const BinScheme& scheme, int bin) {
  const int last = scheme.size();
  const double middle = scheme.Log2Midpoint(bin);
  if (bin == 1) {
    const double high = std::log2(scheme.edges()[0]);
    return {2 * middle - high, high};
  }
  const double low = std::log2(scheme.edges()[bin - 2]);
  return {low, bin == last ? 2 * middle - low : std::log2(scheme.edges()[bin - 1])};
}

}  // namespace

std::vector<double> ShiftBins(const BinScheme& scheme, const std::vector<double>& probabilities,
                              double factor) {
  const double shift = std::log2(factor);
  std::vector<double> shifted(probabilities.size(), 0.0);
  for (int from = 1; from <= scheme.size(); ++from) {
    const auto [begin, end] = Extent(scheme, from);
    const double low = begin + shift;
    const double high = end + shift;
    for (int to = 1; to <= scheme.size(); ++to) {
      const double from_edge = to == 1 ? low : std::log2(scheme.edges()[to - 2]);
      const double to_edge = to == scheme.size() ? high : std::log2(scheme.edges()[to - 1]);
      const double overlap = std::min(high, to_edge) - std::max(low, from_edge);
      if (overlap > 0) shifted[to - 1] += probabilities[from - 1] * overlap / (high - low);
    }
  }
  return shifted;
}

void RelativeToReference(const BinScheme& scheme, const ForecastAnchor& anchor,
                         Forecast& forecast) {
  // Adds the variance within each bin. Otherwise an answer with a single bin would say nothing
  // about thresholds inside an open bin.
  double variance = forecast.stddev_log2_speedup * forecast.stddev_log2_speedup;
  for (int bin = 1; bin <= scheme.size(); ++bin) {
    const auto [low, high] = Extent(scheme, bin);
    variance += forecast.bin_probabilities[bin - 1] * (high - low) * (high - low) / 12;
  }
  forecast.stddev_log2_speedup = std::sqrt(variance);
  forecast.bin_probabilities = ShiftBins(scheme, forecast.bin_probabilities, anchor.speedup);
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.expected_log2_speedup += std::log2(anchor.speedup);
  forecast.anchor = anchor;
}

bool IsBlindAt(const BinScheme& scheme, const Forecast& forecast, double incumbent_speedup) {
  const double anchor = forecast.anchor ? forecast.anchor->speedup : 1;
  const double last_edge = anchor * scheme.edges().back();
  if (incumbent_speedup * kWinMargin < last_edge) return false;
  return WinProbability(forecast, last_edge).value_or(1) >= kLeastBlindMass;
}

}  // namespace kernelcast::forecaster
