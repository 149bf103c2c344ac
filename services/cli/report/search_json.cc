#include "services/cli/report/search_json.h"

#include <optional>

#include "common/base/utf8.h"
#include "services/cli/report/learning.h"
#include "services/cli/report/search_cost.h"

namespace kernelcast::cli {
namespace {

using SearchJson = nlohmann::ordered_json;

SearchJson UsageJson(const SearchUsage& usage, const TokenUsage& tokens) {
  return {{"device_hours", usage.device_seconds / 3600},
          {"avoided_device_hours", usage.avoided_device_seconds / 3600},
          {"input_tokens", tokens.input_tokens},
          {"output_tokens", tokens.output_tokens}};
}

SearchJson CostJson(const SearchCost& cost, const Prices& prices) {
  SearchJson json = {{"total", cost.total()}};
  if (cost.devices) json["devices"] = *cost.devices;
  if (cost.tokens) json["tokens"] = *cost.tokens;
  if (cost.avoided) json["avoided"] = *cost.avoided;
  if (cost.unpriced_tokens > 0) json["unpriced_tokens"] = cost.unpriced_tokens;
  SearchJson& known = json["prices"];
  if (prices.device_hour) known["device_hour"] = *prices.device_hour;
  if (prices.input_tokens) known["million_input_tokens"] = *prices.input_tokens;
  if (prices.cached_input_tokens) {
    known["million_cached_input_tokens"] = *prices.cached_input_tokens;
  }
  if (prices.output_tokens) known["million_output_tokens"] = *prices.output_tokens;
  return json;
}

SearchJson HitRateJson(const HitRate& rate) {
  return {{"forecasts", rate.forecasts}, {"exact", rate.exact}, {"within_one", rate.within_one}};
}

SearchJson ArchiveJson(const ArchiveOverview& archive) {
  SearchJson entries = SearchJson::array();
  for (const ArchiveEntry& entry : archive.entries) {
    SearchJson& one = entries.emplace_back();
    if (!entry.place.empty()) one["place"] = SanitizeUtf8(entry.place);
    one["kernels"] = entry.kernels;
    if (entry.candidate_id.empty()) continue;
    one["candidate_id"] = SanitizeUtf8(entry.candidate_id);
    if (!entry.name.empty()) one["name"] = SanitizeUtf8(entry.name);
    if (!entry.origin.empty()) one["origin"] = SanitizeUtf8(entry.origin);
    one["speedup"] = entry.speedup;
    one["children"] = entry.children;
    one["expansions"] = entry.expansions;
    one["value"] = entry.value;
  }
  return {
      {"strategy", SanitizeUtf8(archive.strategy)}, {"total", archive.total}, {"entries", entries}};
}

}  // namespace

void AddSearchJson(const ReportInput& input, const ReportAnalysis& analysis, SearchJson& json) {
  const SearchUsage usage = UsageOf(input, analysis);
  json["usage"] = UsageJson(usage, AllTokensOf(input));
  if (const std::optional<SearchCost> cost = CostOf(input.prices, usage)) {
    json["cost"] = CostJson(*cost, input.prices);
  }
  const Learning learning = LearningOf(input);
  if (learning.before.forecasts + learning.after.forecasts > 0) {
    json["learning"] = {{"labels", kLearningLabels},
                        {"before", HitRateJson(learning.before)},
                        {"after", HitRateJson(learning.after)}};
  }
  if (!input.search) return;
  if (input.search->lessons > 0) json["lessons"] = input.search->lessons;
  if (input.search->archive && !input.search->archive->entries.empty()) {
    json["archive"] = ArchiveJson(*input.search->archive);
  }
}

}  // namespace kernelcast::cli
