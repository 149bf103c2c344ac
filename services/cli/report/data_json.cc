#include "services/cli/report/data_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "common/base/utf8.h"
#include "common/domain/bins.h"
#include "services/cli/core/text.h"
#include "services/cli/report/search_json.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTextBytes = 4096;

// Rounded to six significant digits: the page shows no more, and the data stay small.
Json Number(double value) {
  if (!std::isfinite(value)) return nullptr;
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  const double rounded = std::strtod(buffer, nullptr);
  if (rounded == std::floor(rounded) && std::fabs(rounded) < 1e15) {
    return static_cast<int64_t>(rounded);
  }
  return rounded;
}

Json Text(std::string_view text, size_t max_bytes = kMaxTextBytes) {
  std::string cut(TruncateUtf8(text, max_bytes));
  if (cut.size() < text.size()) cut += " …";
  return SanitizeUtf8(cut);
}

Json RatioJson(const Ratio& ratio) {
  return Json::array({Number(ratio.value), Number(ratio.low), Number(ratio.high)});
}

struct SplitSource {
  std::string_view defines;
  std::string_view body;
};

SplitSource Split(std::string_view source) {
  size_t end = 0;
  while (source.substr(end, 8) == "#define ") {
    const size_t newline = source.find('\n', end);
    if (newline == std::string_view::npos) {
      end = source.size();
      break;
    }
    end = newline + 1;
  }
  return {source.substr(0, end), source.substr(end)};
}

Json ForecastJson(const Forecast& forecast) {
  Json json;
  json["scheme"] = Text(forecast.bin_scheme_id);
  Json& bins = json["p"] = Json::array();
  for (const double p : forecast.bin_probabilities)
    bins.push_back(Number(std::round(p * 1e5) / 1e5));
  json["failure"] = Number(std::round(forecast.failure_probability * 1e5) / 1e5);
  json["predicted_bin"] = forecast.predicted_bin;
  json["log2"] = Number(forecast.expected_log2_speedup);
  json["sd"] = Number(forecast.stddev_log2_speedup);
  json["labels"] = forecast.labels_seen.value_or(0);
  json["basis"] = std::string(Name(forecast.basis));
  json["backend"] = Text(forecast.backend + " " + forecast.backend_version);
  if (!forecast.calibrator_version.empty()) json["calibrator"] = Text(forecast.calibrator_version);
  if (!forecast.baseline_candidate_id.empty())
    json["baseline"] = Text(forecast.baseline_candidate_id);
  if (!forecast.rationale.empty()) json["rationale"] = Text(forecast.rationale);
  return json;
}

Json DecisionJson(const Decision& decision) {
  Json json;
  json["kind"] = std::string(Name(decision.kind));
  json["reason"] = std::string(Name(decision.reason));
  json["policy"] = Text(decision.policy + " " + decision.policy_version);
  json["propensity"] = Number(decision.audit_propensity);
  json["win"] = Number(decision.win_probability);
  json["threshold"] = Number(decision.threshold);
  json["incumbent"] = Number(decision.incumbent_speedup);
  return json;
}

std::string_view ComparisonName(Comparison comparison) {
  switch (comparison) {
    case Comparison::kFaster: return "faster";
    case Comparison::kSlower: return "slower";
    case Comparison::kSame: return "same";
    case Comparison::kAmbiguous: return "ambiguous";
  }
  return "";
}

Json MeasurementJson(const Measurement& measurement) {
  Json json;
  json["outcome"] = std::string(OutcomeName(measurement.outcome));
  json["level"] = measurement.level == MeasureLevel::kFinal ? "final" : "screen";
  json["device_ms"] = Number(static_cast<double>(measurement.device_time_ns) * 1e-6);
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  if (ok == nullptr) return json;
  json["speedup"] = RatioJson(ok->speedup);
  json["comparison"] = std::string(ComparisonName(ok->comparison));
  json["runners"] = ok->runners;
  json["cases"] = ok->correctness_cases;
  json["determinism"] = Text(DeterminismPhrase(ok->determinism));
  json["notes"] = Json::array();
  for (const MeasurementNote note : ok->notes) json["notes"].push_back(std::string(Name(note)));
  Json& shapes = json["shapes"] = Json::array();
  for (const ShapeTiming& timing : ok->shapes) {
    Json shape;
    shape["shape"] = Text(FormatAxes(timing.shape));
    shape["candidate_ns"] = Number(timing.candidate.median_ns);
    shape["reference_ns"] = Number(timing.reference.median_ns);
    shape["speedup"] = RatioJson(timing.speedup);
    shape["weight"] = Number(timing.weight);
    shape["blocks"] = timing.blocks;
    shape["discarded"] = timing.discarded_blocks;
    shape["stop"] = Text(timing.stop_reason);
    shapes.push_back(std::move(shape));
  }
  return json;
}

const char* FateName(Fate fate) {
  switch (fate) {
    case Fate::kOk: return "ok";
    case Fate::kFailed: return "failed";
    case Fate::kUnstable: return "unstable";
    case Fate::kPruned: return "pruned";
    case Fate::kRejected: return "rejected";
  }
  return "";
}

// Sources of the page; each body is stored once.
class Sources {
 public:
  // Returns nullopt if there is no source, or the page would become too large.
  std::optional<Json> Add(std::string_view source) {
    if (source.empty()) return std::nullopt;
    const SplitSource split = Split(source);
    const auto known = bodies_.find(split.body);
    const size_t cost = split.defines.size() + (known == bodies_.end() ? split.body.size() : 0);
    if (bytes_ + cost > kMaxEmbeddedSourceBytes) return std::nullopt;
    bytes_ += cost;
    size_t index = 0;
    if (known != bodies_.end()) {
      index = known->second;
    } else {
      index = bodies_.size();
      bodies_.emplace(split.body, index);
      json_.push_back(SanitizeUtf8(split.body));
    }
    return Json::array({SanitizeUtf8(split.defines), index});
  }
  Json Take() { return std::move(json_); }

 private:
  std::map<std::string_view, size_t> bodies_;
  Json json_ = Json::array();
  size_t bytes_ = 0;
};

}  // namespace

std::string ReportDataJson(const ReportInput& input, const ReportAnalysis& analysis) {
  Json json;
  json["schema"] = "kernelcast-report/1";
  json["problem"] = Text(input.problem_name);
  json["target"] = Text(input.target);
  if (input.search.has_value()) {
    json["search_id"] = Text(input.search->search_id);
    json["status"] = Text(input.search->status);
    json["end_reason"] = Text(input.search->end_reason);
    json["policy"] = Text(input.search->policy);
    json["seed"] = input.search->seed;
  }
  if (input.search.has_value() && input.search->risk.has_value()) {
    const ReportRisk& risk = *input.search->risk;
    json["selective_risk"] = {{"estimate", Number(risk.estimate)},
                              {"low", Number(risk.low)},
                              {"high", Number(risk.high)},
                              {"candidates", risk.candidates},
                              {"measured", risk.measured},
                              {"certified_threshold", Number(risk.certified_threshold)},
                              {"alpha", Number(risk.alpha)},
                              {"delta", Number(risk.delta)},
                              {"informative", risk.informative},
                              {"alarms", risk.alarms},
                              {"certifies", risk.certifies}};
  }
  const ReportCounts& counts = analysis.counts;
  json["counts"] = {{"considered", counts.considered},
                    {"decided", counts.decided()},
                    {"measured", counts.measured},
                    {"reused", counts.reused},
                    {"pruned", counts.pruned},
                    {"bootstrap", counts.bootstrap},
                    {"selected", counts.selected},
                    {"requested", counts.requested},
                    {"unforecast", counts.unforecast},
                    {"deferred", counts.deferred},
                    {"promoted", counts.promoted},
                    {"audited", counts.audited},
                    {"rejected", counts.rejected},
                    {"failures", counts.failures},
                    {"faster", counts.faster},
                    {"defer_rate", Number(counts.DeferRate())},
                    {"device_seconds_spent", Number(counts.device_seconds_spent)},
                    {"device_seconds_preparing", Number(counts.device_seconds_preparing)},
                    {"device_seconds_confirming", Number(counts.device_seconds_confirming)},
                    {"device_seconds_avoided", Number(counts.device_seconds_avoided)}};
  AddSearchJson(input, analysis, json);
  if (analysis.shown_best.has_value()) {
    json["best"] = {{"candidate_id", Text(analysis.shown_best->candidate.candidate_id)},
                    {"confirmed", analysis.confirmed},
                    {"speedup", RatioJson(analysis.best_speedup)},
                    {"measurement", MeasurementJson(analysis.shown_best->measurement)}};
  }
  Json& schemes = json["bin_schemes"] = Json::object();
  const FactSchema* fact_schema = nullptr;
  const CompileFacts* reference_facts = nullptr;
  for (const ReportCandidate& candidate : input.candidates) {
    if (candidate.forecast.has_value()) {
      const std::string& id = candidate.forecast->bin_scheme_id;
      const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find(id);
      if (scheme.ok() && !schemes.contains(id)) {
        Json& bins = schemes[id] = Json::array();
        for (int bin = 1; bin <= (*scheme)->size(); ++bin) {
          bins.push_back(
              {{"name", (*scheme)->name(bin)}, {"interval", (*scheme)->IntervalText(bin)}});
        }
      }
    }
    if (fact_schema == nullptr && !candidate.facts.values.empty()) {
      const absl::StatusOr<const FactSchema*> schema = FindFactSchema(candidate.facts.schema);
      if (schema.ok() && (*schema)->names.size() == candidate.facts.values.size()) {
        fact_schema = *schema;
      }
    }
    if (reference_facts == nullptr && !candidate.reference_facts.values.empty()) {
      reference_facts = &candidate.reference_facts;
    }
  }
  if (fact_schema != nullptr) {
    Json& facts = json["facts"];
    facts["schema"] = std::string(fact_schema->id);
    Json& names = facts["names"] = Json::array();
    for (const std::string_view name : fact_schema->names) names.push_back(std::string(name));
    Json& meanings = facts["meanings"] = Json::array();
    for (const std::string_view text : fact_schema->meanings) meanings.push_back(std::string(text));
    if (reference_facts != nullptr && reference_facts->schema == fact_schema->id) {
      Json& values = facts["reference"] = Json::array();
      for (const double value : reference_facts->values) values.push_back(Number(value));
    }
  }

  Sources sources;
  std::vector<std::optional<Json>> source_of(input.candidates.size());
  for (const ReportRow& one : analysis.rows) {
    source_of[one.standing] = sources.Add(input.candidates[one.standing].candidate.source);
  }
  json["bodies"] = sources.Take();

  Json& rows = json["rows"] = Json::array();
  for (const ReportRow& one : analysis.rows) {
    Json row = {{"candidate", one.standing}};
    if (one.final.has_value()) row["final"] = RatioJson(*one.final);
    if (one.screening.has_value()) row["screening"] = RatioJson(*one.screening);
    if (!one.confirmations.empty()) row["confirmations"] = one.confirmations;
    if (!one.others.empty()) row["others"] = one.others;
    rows.push_back(std::move(row));
  }
  Json& candidates = json["candidates"] = Json::array();
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& candidate = input.candidates[i];
    Json row;
    row["sequence"] = candidate.sequence;
    row["request_id"] = Text(candidate.request_id);
    row["id"] = Text(candidate.candidate.candidate_id);
    row["name"] = Text(NameOf(candidate.candidate));
    row["origin"] = Text(OriginOf(candidate.candidate));
    row["route"] = std::string(Name(RouteOf(candidate)));
    if (!candidate.candidate.tunables.empty()) {
      Json& tunables = row["tunables"] = Json::object();
      for (const Tunable& tunable : candidate.candidate.tunables) {
        tunables[SanitizeUtf8(tunable.name)] = Text(tunable.value);
      }
    }
    if (!candidate.candidate.flags.empty()) {
      Json& flags = row["flags"] = Json::array();
      for (const std::string& flag : candidate.candidate.flags) flags.push_back(Text(flag));
    }
    if (!candidate.candidate.parent_candidate_id.empty()) {
      row["parent"] = Text(candidate.candidate.parent_candidate_id);
    }
    row["fate"] = FateName(FateOf(candidate));
    if (candidate.reused) row["reused"] = true;
    if (candidate.unstable_seconds > 0) {
      row["unstable_device_ms"] = Number(candidate.unstable_seconds * 1e3);
    }
    if (analysis.is_confirmation[i]) row["confirmation"] = true;
    if (analysis.superseded[i]) row["superseded"] = true;
    if (candidate.decision.has_value()) row["decision"] = DecisionJson(*candidate.decision);
    if (candidate.forecast.has_value()) row["forecast"] = ForecastJson(*candidate.forecast);
    if (candidate.measurement.has_value()) {
      row["measurement"] = MeasurementJson(*candidate.measurement);
    }
    if (const std::string phrase = FailurePhrase(candidate); !phrase.empty())
      row["failure"] = phrase;
    if (candidate.compile_error.has_value()) {
      row["log"] = Text(candidate.compile_error->log);
    }
    if (!candidate.rejection.empty()) row["rejection"] = Text(candidate.rejection);
    if (!candidate.feedback.empty()) row["feedback"] = Text(candidate.feedback);
    if (candidate.accepted_ns > 0) row["accepted_ms"] = candidate.accepted_ns / 1'000'000;
    if (candidate.settled_ns > 0) row["settled_ms"] = candidate.settled_ns / 1'000'000;
    if (fact_schema != nullptr && candidate.facts.schema == fact_schema->id &&
        candidate.facts.values.size() == fact_schema->names.size()) {
      Json& values = row["facts"] = Json::array();
      for (const double value : candidate.facts.values) values.push_back(Number(value));
    }
    if (source_of[i].has_value()) {
      row["source"] = std::move(*source_of[i]);
    } else if (!candidate.candidate.source.empty() && !analysis.superseded[i] &&
               !analysis.is_confirmation[i]) {
      row["source_omitted"] = true;
    }
    candidates.push_back(std::move(row));
  }
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size() + 1024);
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace kernelcast::cli
