#include "services/cli/report/search_cost.h"

#include <algorithm>

namespace kernelcast::cli {

namespace {

// An answer that gave no forecast is paid for too.
const TokenUsage& TokensOf(const Forecast& forecast) {
  return forecast.model ? forecast.model->token_usage : forecast.token_usage;
}

}  // namespace

SearchUsage UsageOf(const ReportInput& input, const ReportAnalysis& analysis) {
  SearchUsage usage;
  usage.device_seconds = analysis.counts.device_seconds_spent;
  usage.avoided_device_seconds = analysis.counts.device_seconds_avoided;
  if (input.search) {
    const ReportSearch& search = *input.search;
    if (search.generation) usage.token_cost += search.generation->cost;
    if (search.model_use) usage.token_cost += search.model_use->token_usage.cost_dollars;
    usage.unpriced_tokens = search.unpriced_tokens;
    return usage;
  }
  for (const ReportCandidate& candidate : input.candidates) {
    if (!candidate.forecast || candidate.reused) continue;
    const TokenUsage& tokens = TokensOf(*candidate.forecast);
    usage.token_cost += tokens.cost_dollars;
    if (tokens.cost_dollars == 0) usage.unpriced_tokens += tokens;
  }
  return usage;
}

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
      const TokenUsage& usage = TokensOf(*candidate.forecast);
      forecasts += static_cast<double>(usage.input_tokens + usage.output_tokens);
    }
    so_far.push_back(forecasts + written);
  }
  if (so_far.empty() || so_far.back() == 0) return {};
  return so_far;
}

}  // namespace kernelcast::cli
