#include "services/cli/report/search_cost.h"

#include <algorithm>

#include "common/convert/convert.h"

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
    const v1::SearchCounts& counts = input.search->counts();
    usage.token_cost = counts.generation().cost() + counts.model_use().token_usage().cost_dollars();
    usage.unpriced_tokens = FromProto(counts.unpriced_tokens());
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

TokenUsage AllTokensOf(const ReportInput& input) {
  TokenUsage all;
  const auto add = [&all](uint64_t input_tokens, uint64_t output_tokens) {
    all.input_tokens += input_tokens;
    all.output_tokens += output_tokens;
  };
  if (input.search) {
    const v1::SearchCounts& counts = input.search->counts();
    add(counts.generation().input_tokens(), counts.generation().output_tokens());
    const v1::TokenUsage& forecasts = counts.model_use().token_usage();
    add(forecasts.input_tokens(), forecasts.output_tokens());
    return all;
  }
  for (const ReportCandidate& candidate : input.candidates) {
    if (!candidate.forecast || candidate.reused) continue;
    const TokenUsage& tokens = TokensOf(*candidate.forecast);
    add(tokens.input_tokens, tokens.output_tokens);
  }
  return all;
}

std::vector<double> DeviceSecondsSoFar(const ReportInput& input, const ReportAnalysis& analysis) {
  std::vector<double> spent;
  spent.reserve(input.candidates.size());
  double seconds = 0;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    if (!analysis.is_confirmation[i]) seconds += DeviceSecondsOf(candidate);
    spent.push_back(seconds);
  }
  return spent;
}

SearchCurve CurveOf(const ReportInput& input) {
  const ReportAnalysis analysis = Analyze(input);
  const std::vector<double> spent = DeviceSecondsSoFar(input, analysis);
  SearchCurve curve;
  double best = 0;
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const Ratio* speedup = SpeedupOf(input.candidates[i]);
    if (speedup == nullptr || speedup->value <= best || analysis.is_confirmation[i]) continue;
    best = speedup->value;
    curve.steps.push_back({spent[i], best});
  }
  if (!spent.empty()) curve.device_seconds = spent.back();
  curve.measured = analysis.counts.measured;
  curve.pruned = analysis.counts.pruned;
  return curve;
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
