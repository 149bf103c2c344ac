#include "services/cli/report/data_json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "common/base/utf8.h"
#include "common/convert/convert.h"
#include "common/domain/bins.h"
#include "services/cli/core/text.h"
#include "services/cli/report/search_json.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxTextBytes = 4096;

Json Text(std::string_view text, size_t max_bytes = kMaxTextBytes) {
  std::string cut(TruncateUtf8(text, max_bytes));
  if (cut.size() < text.size()) cut += " …";
  return SanitizeUtf8(cut);
}

Json FactsJson(const CompileFacts& facts) {
  v1::CompileFacts message = ToProto(facts);
  message.clear_simulations();
  return JsonOf(message);
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
  Json json = SummaryJson(input, analysis);
  json["schema"] = "kernelcast-report/2";
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
    if (reference_facts != nullptr) facts["reference"] = FactsJson(*reference_facts);
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
    if (one.final.has_value()) row["final"] = JsonOf(ToProto(*one.final));
    if (one.screening.has_value()) row["screening"] = JsonOf(ToProto(*one.screening));
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
    row["name"] = Text(NameOf(candidate.candidate));
    row["origin"] = Text(OriginOf(candidate.candidate));
    row["route"] = std::string(Name(RouteOf(candidate)));
    v1::Candidate described = ToProto(candidate.candidate);
    described.clear_source();
    row["candidate"] = JsonOf(described);
    row["fate"] = FateName(FateOf(candidate));
    if (candidate.reused) row["reused"] = true;
    if (candidate.unstable_seconds > 0) {
      row["unstable_device_ms"] = candidate.unstable_seconds * 1e3;
    }
    if (analysis.is_confirmation[i]) row["confirmation"] = true;
    if (analysis.superseded[i]) row["superseded"] = true;
    if (candidate.decision.has_value()) row["decision"] = JsonOf(ToProto(*candidate.decision));
    if (candidate.forecast.has_value()) row["forecast"] = JsonOf(ToProto(*candidate.forecast));
    if (candidate.measurement.has_value()) {
      row["measurement"] = JsonOf(ToProto(*candidate.measurement));
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
    if (!candidate.facts.values.empty()) row["facts"] = FactsJson(candidate.facts);
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
