#include "services/cli/report/search_json.h"

#include <optional>

#include "common/base/bounded_json.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
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

}  // namespace

SearchJson JsonOf(const google::protobuf::Message& message) {
  SearchJson json = ParseBoundedJson<SearchJson>(ProtoToJson(message));
  return json.is_discarded() ? SearchJson() : json;
}

std::string StatusName(v1::SearchStatus status) {
  switch (status) {
    case v1::SEARCH_STATUS_RUNNING: return "running";
    case v1::SEARCH_STATUS_FINISHING: return "finishing";
    case v1::SEARCH_STATUS_DONE: return "done";
    case v1::SEARCH_STATUS_FAILED: return "failed";
    default: return "unknown";
  }
}

SearchJson SummaryJson(const ReportInput& input, const ReportAnalysis& analysis) {
  const ReportCounts& counts = analysis.counts;
  SearchJson json;
  if (input.search.has_value()) {
    json["search_id"] = input.search->search_id();
    json["status"] = StatusName(input.search->status());
    json["end_reason"] = input.search->end_reason();
  }
  json["problem"] = input.problem_name;
  json["target"] = input.target;
  if (analysis.device.has_value()) json["device_model"] = analysis.device->model;
  if (analysis.shown_best.has_value()) {
    const ReportBest& best = *analysis.shown_best;
    SearchJson& out = json["best"];
    out["candidate"] = JsonOf(ToProto(best.candidate));
    out["name"] = NameOf(best.candidate);
    out["speedup"] = JsonOf(ToProto(analysis.best_speedup));
    if (analysis.best_screening.has_value()) {
      out["screening"] = JsonOf(ToProto(*analysis.best_screening));
    }
    out["confirmed"] = analysis.confirmed;
    out["faster"] = analysis.faster;
  } else {
    json["best"] = nullptr;
  }
  json["counts"] = {{"considered", counts.considered},
                    {"decided", counts.decided()},
                    {"measured", counts.measured},
                    {"bootstrap", counts.bootstrap},
                    {"selected", counts.selected},
                    {"deferred", counts.deferred},
                    {"promoted", counts.promoted},
                    {"audited", counts.audited},
                    {"requested", counts.requested},
                    {"unforecast", counts.unforecast},
                    {"pruned", counts.pruned},
                    {"rejected", counts.rejected},
                    {"failures", counts.failures},
                    {"unstable", counts.unstable},
                    {"compile_errors", counts.compile_errors},
                    {"duplicates", counts.duplicates},
                    {"reused", counts.reused},
                    {"faster", counts.faster}};
  json["defer_rate"] = counts.DeferRate();
  json["device_seconds_spent"] = counts.device_seconds_spent;
  json["device_seconds_preparing"] = counts.device_seconds_preparing;
  json["device_seconds_confirming"] = counts.device_seconds_confirming;
  json["device_seconds_avoided"] = counts.device_seconds_avoided;
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
  if (input.search.has_value()) {
    v1::Search search = *input.search;
    // Large, and known to the reader: the best candidate is above.
    search.clear_incumbent();
    search.clear_confirmed_best();
    if (const int lessons = search.spec().lessons_size(); lessons > 0) json["lessons"] = lessons;
    search.mutable_spec()->clear_lessons();
    json["search"] = JsonOf(search);
  }
  return json;
}

}  // namespace kernelcast::cli
