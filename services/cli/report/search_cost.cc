#include "services/cli/report/search_cost.h"

#include <algorithm>

namespace kernelcast::cli {

std::vector<double> DeviceSecondsSoFar(const ReportInput& input, const ReportAnalysis& analysis) {
  std::vector<double> spent;
  spent.reserve(input.candidates.size());
  double seconds = 0;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    if (candidate.measurement && !candidate.reused && !analysis.is_confirmation[i]) {
      seconds += static_cast<double>(candidate.measurement->device_time_ns) * 1e-9;
    }
    spent.push_back(seconds);
  }
  return spent;
}

std::vector<double> TokensSoFar(const ReportInput& input, const ReportAnalysis& analysis) {
  std::vector<ReportTokenSpend> spends = input.token_spends;
  std::ranges::stable_sort(spends, {}, &ReportTokenSpend::time_ns);
  std::vector<double> so_far;
  so_far.reserve(input.candidates.size());
  double forecasts = 0;
  double written = 0;
  size_t next = 0;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    for (; next < spends.size() && spends[next].time_ns <= candidate.settled_ns; ++next) {
      written += static_cast<double>(spends[next].tokens);
    }
    if (candidate.forecast && !candidate.reused && !analysis.is_confirmation[i]) {
      const Forecast& forecast = *candidate.forecast;
      // An answer that gave no forecast is paid for too.
      const TokenUsage& usage = forecast.model ? forecast.model->token_usage : forecast.token_usage;
      forecasts += static_cast<double>(usage.input_tokens + usage.output_tokens);
    }
    so_far.push_back(forecasts + written);
  }
  if (so_far.empty() || so_far.back() == 0) return {};
  return so_far;
}

}  // namespace kernelcast::cli
