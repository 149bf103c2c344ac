#include "services/cli/core/paper_rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/domain/bins.h"
#include "common/domain/text.h"

namespace kernelcast::cli {
namespace {

constexpr int kMaxBins = 64;
// Number of bins of the published formula and of all existing schemes.
constexpr int kBins = 8;
constexpr int64_t kMaxCount = int64_t{1} << 53;

std::string Shown(const RowJson& value) {
  return Quoted(value.dump(-1, ' ', false, RowJson::error_handler_t::replace));
}

// Reads the fields of one object and keeps the first error.
class FieldReader {
 public:
  explicit FieldReader(const RowJson& json) : json_(json) {
    if (!json.is_object()) Refuse("line", json, "a JSON object");
  }

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // Reads text, or an integer as its digits.
  std::string Id(const char* field) {
    const RowJson* value = Find(field, "a string that is not empty");
    if (value == nullptr) return "";
    if (value->is_number_integer()) return value->dump();
    if (!value->is_string() || value->get_ref<const std::string&>().empty()) {
      Refuse(field, *value, "a string that is not empty");
      return "";
    }
    return value->get<std::string>();
  }

  std::string Text(const char* field) {
    const RowJson* value = Find(field, "a string");
    if (value == nullptr) return "";
    if (!value->is_string()) {
      Refuse(field, *value, "a string");
      return "";
    }
    return value->get<std::string>();
  }

  // Returns "" for an absent or null field.
  std::string OptionalText(const char* field) {
    const RowJson* value = FindOptional(field);
    if (value == nullptr) return "";
    if (!value->is_string()) {
      Refuse(field, *value, "a string or null");
      return "";
    }
    return value->get<std::string>();
  }

  std::string OneOf(const char* field, std::initializer_list<std::string_view> words) {
    std::string allowed = "one of ";
    for (const std::string_view word : words) {
      absl::StrAppend(&allowed, word == *words.begin() ? "" : ", ", std::string(word));
    }
    const RowJson* value = Find(field, allowed);
    if (value == nullptr) return "";
    if (!value->is_string() || std::find(words.begin(), words.end(),
                                         value->get_ref<const std::string&>()) == words.end()) {
      Refuse(field, *value, allowed);
      return "";
    }
    return value->get<std::string>();
  }

  double Positive(const char* field) {
    const RowJson* value = Find(field, "a positive finite number");
    if (value == nullptr) return 1;
    if (!value->is_number() || !(value->get<double>() > 0) ||
        !std::isfinite(value->get<double>())) {
      Refuse(field, *value, "a positive finite number");
      return 1;
    }
    return value->get<double>();
  }

  // Returns nullopt for an absent or null field.
  std::optional<double> OptionalNumber(const char* field, double low, double high,
                                       const char* allowed) {
    const RowJson* value = FindOptional(field);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !(value->get<double>() >= low) || !(value->get<double>() <= high)) {
      Refuse(field, *value, allowed);
      return std::nullopt;
    }
    return value->get<double>();
  }

  int64_t Count(const char* field) {
    const RowJson* value = Find(field, kCountWords);
    if (value == nullptr) return 0;
    return CountOf(field, *value).value_or(0);
  }

  std::optional<int64_t> OptionalCount(const char* field) {
    const RowJson* value = FindOptional(field);
    return value == nullptr ? std::nullopt : CountOf(field, *value);
  }

  int Bin(const char* field) {
    const RowJson* value = Find(field, kBinWords);
    return value == nullptr ? 0 : BinOf(field, *value).value_or(0);
  }

  std::optional<int> OptionalBin(const char* field) {
    const RowJson* value = FindOptional(field);
    return value == nullptr ? std::nullopt : BinOf(field, *value);
  }

  bool Flag(const char* field) {
    const RowJson* value = Find(field, "true or false");
    if (value == nullptr) return false;
    if (!value->is_boolean()) {
      Refuse(field, *value, "true or false");
      return false;
    }
    return value->get<bool>();
  }

  // Returns false for an absent field.
  bool OptionalFlag(const char* field) { return FindOptional(field) != nullptr && Flag(field); }

  // Accepts strings, numbers, true, false and null; an absent field is null.
  RowJson Scalar(const char* field) {
    const auto found = json_.find(field);
    if (!ok() || found == json_.end()) return nullptr;
    if (found->is_structured()) {
      Refuse(field, *found, "a string, a number, true, false or null");
      return nullptr;
    }
    return *found;
  }

  RowJson Object(const char* field) {
    const RowJson* value = Find(field, "an object");
    if (value == nullptr) return RowJson::object();
    if (!value->is_object()) {
      Refuse(field, *value, "an object");
      return RowJson::object();
    }
    return *value;
  }

  RowOrigin Origin() {
    return {Scalar("source_id"), Scalar("source_search"), Scalar("internal_experiment")};
  }

  // Returns "" for an absent field.
  std::string Scheme(const char* field) {
    std::string id = OptionalText(field);
    if (!ok() || id.empty()) return id;
    if (const auto scheme = BinScheme::Find(id); !scheme.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(field, ": ", std::string(scheme.status().message())));
    }
    return id;
  }

  const RowJson* Find(const char* field, const std::string& allowed) {
    if (!ok()) return nullptr;
    const auto found = json_.find(field);
    if (found == json_.end()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(field, ": missing; it is ", allowed));
      return nullptr;
    }
    return &*found;
  }

  const RowJson* FindOptional(const char* field) {
    if (!ok()) return nullptr;
    const auto found = json_.find(field);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  void Refuse(const std::string& field, const RowJson& value, const std::string& allowed) {
    if (!ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat(field, ": ", Shown(value), " is not ", allowed));
  }

 private:
  static constexpr const char* kCountWords = "a whole number from 0 to 2^53";
  static constexpr const char* kBinWords = "a whole number from 1 to 8";

  std::optional<int64_t> CountOf(const char* field, const RowJson& value) {
    const bool whole = value.is_number_integer() ||
                       (value.is_number_float() && std::isfinite(value.get<double>()) &&
                        std::floor(value.get<double>()) == value.get<double>());
    // Compare as double first: a value that does not fit 64 bits is out of range too.
    if (!whole || value.get<double>() < 0 || value.get<double>() > static_cast<double>(kMaxCount)) {
      Refuse(field, value, kCountWords);
      return std::nullopt;
    }
    return value.get<int64_t>();
  }

  std::optional<int> BinOf(const char* field, const RowJson& value) {
    if (!value.is_number() || value.get<double>() < 1 || value.get<double>() > kBins ||
        std::floor(value.get<double>()) != value.get<double>()) {
      Refuse(field, value, kBinWords);
      return std::nullopt;
    }
    return value.get<int>();
  }

  const RowJson& json_;
  absl::Status status_;
};

// Parses [{"bin": 1, "p": 0.1}, ...]; missing bins are 0.
std::vector<double> Probabilities(FieldReader& fields, const RowJson& list) {
  static constexpr const char* kField = "bin_probabilities";
  static constexpr const char* kAllowed = "a list of {\"bin\": 1 to 8, \"p\": 0 or more}";
  std::vector<double> p(kBins, 0.0);
  std::vector<bool> seen(kBins, false);
  if (!list.is_array() || list.size() > kMaxBins) {
    fields.Refuse(kField, list, kAllowed);
    return {};
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const RowJson& entry = list[i];
    const std::string where = absl::StrCat(kField, "[", i, "]");
    if (!entry.is_object() || !entry.contains("bin") || !entry.contains("p")) {
      fields.Refuse(where, entry, "an object with bin and p");
      return {};
    }
    const RowJson& bin = entry["bin"];
    if (!bin.is_number() || bin.get<double>() < 1 || bin.get<double>() > kBins ||
        std::floor(bin.get<double>()) != bin.get<double>()) {
      fields.Refuse(absl::StrCat(where, ".bin"), bin, "a whole number from 1 to 8");
      return {};
    }
    const RowJson& value = entry["p"];
    if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>())) {
      fields.Refuse(absl::StrCat(where, ".p"), value, "a finite number of 0 or more");
      return {};
    }
    const size_t index = static_cast<size_t>(bin.get<int>() - 1);
    if (seen[index]) {
      fields.Refuse(absl::StrCat(where, ".bin"), bin, "a bin that has not been given before");
      return {};
    }
    seen[index] = true;
    p[index] = value.get<double>();
  }
  return list.empty() ? std::vector<double>() : p;
}

template <typename T>
RowJson OrNull(const std::optional<T>& value) {
  return value.has_value() ? RowJson(*value) : RowJson(nullptr);
}

void AddOrigin(const RowOrigin& origin, RowJson& json) {
  json["source_id"] = origin.source_id;
  json["source_search"] = origin.source_search;
  json["internal_experiment"] = origin.internal_experiment;
}

}  // namespace

std::string_view Name(RowFormat format) {
  switch (format) {
    case RowFormat::kRecords: return "records";
    case RowFormat::kEvaluationRows: return "evaluation-rows";
    case RowFormat::kPredictionRows: return "prediction-rows";
    case RowFormat::kTrainingRows: return "training-rows";
    case RowFormat::kDiscoveryPairs: return "discovery-pairs";
    case RowFormat::kSearchEvents: return "search-events";
  }
  return "";
}

std::string_view Name(PairType type) {
  switch (type) {
    case PairType::kSeed: return "seed";
    case PairType::kParentEdit: return "parent_edit";
    case PairType::kPair: return "pair";
  }
  return "";
}

absl::StatusOr<RowFormat> ParseRowFormat(std::string_view name) {
  std::vector<std::string> known;
  for (const RowFormat format : kRowFormats) {
    if (Name(format) == name) return format;
    known.emplace_back(Name(format));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("format ", Quoted(name), " is not one of ", CommaList(known)));
}

absl::StatusOr<EvaluationRow> EvaluationRowFromJson(const RowJson& json) {
  FieldReader fields(json);
  EvaluationRow row;
  row.comparison_id = fields.Id("comparison_id");
  row.pack = fields.Text("pack");
  row.anchor_code = fields.Text("anchor_code");
  row.candidate_code = fields.Text("candidate_code");
  row.hardware = fields.Text("hardware");
  row.aggregated_speedup = fields.Positive("aggregated_speedup");
  row.true_bin = fields.Bin("true_bin");
  row.origin = fields.Origin();
  row.bin_scheme_id = fields.Scheme("bin_scheme_id");
  row.propensity = fields.OptionalNumber("propensity", std::numeric_limits<double>::min(), 1,
                                         "a number above 0 and at most 1");
  if (!fields.ok()) return fields.status();
  return row;
}

absl::StatusOr<PredictionRow> PredictionRowFromJson(const RowJson& json) {
  FieldReader fields(json);
  PredictionRow row;
  row.comparison_id = fields.Id("comparison_id");
  row.pack = fields.OptionalText("pack");
  row.surrogate_label = fields.Id("surrogate_label");
  row.repeat = fields.Count("repeat");
  row.predicted_bin = fields.OptionalBin("predicted_bin");
  if (const RowJson* list = fields.FindOptional("bin_probabilities"); list != nullptr) {
    row.bin_probabilities = Probabilities(fields, *list);
  }
  row.reasoning = fields.OptionalText("reasoning");
  row.raw_probability_sum =
      fields.OptionalNumber("raw_probability_sum", 0, 1e300, "a number of 0 or more, or null");
  row.parse_failed = fields.Flag("parse_failed");
  row.parse_error = fields.OptionalText("parse_error");
  row.input_tokens = fields.OptionalCount("input_tokens");
  row.output_tokens = fields.OptionalCount("output_tokens");
  row.elapsed_s = fields.OptionalNumber("elapsed_s", 0, 1e300, "a number of 0 or more, or null");
  row.bin_scheme_id = fields.Scheme("bin_scheme_id");
  row.failure_probability =
      fields.OptionalNumber("failure_probability", 0, 1, "a number from 0 to 1");
  row.expected_log2_speedup =
      fields.OptionalNumber("expected_log2_speedup", -1e3, 1e3, "a number from -1000 to 1000");
  row.abstained = fields.OptionalFlag("abstained");
  row.cost_dollars = fields.OptionalNumber("cost_dollars", 0, 1e300, "a number of 0 or more");
  if (!fields.ok()) return fields.status();
  // A row that claims to be parsed must have probabilities.
  double sum = 0;
  for (const double value : row.bin_probabilities) sum += value;
  if (!row.parse_failed && row.predicted_bin.has_value() && !(sum > 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "bin_probabilities: ", Shown(json.value("bin_probabilities", RowJson(nullptr))),
        " is not a distribution, and parse_failed is false"));
  }
  return row;
}

absl::StatusOr<TrainingRow> TrainingRowFromJson(const RowJson& json) {
  FieldReader fields(json);
  TrainingRow row;
  row.row_id = fields.Id("row_id");
  row.pack = fields.Text("pack");
  row.anchor_code = fields.Text("anchor_code");
  row.candidate_code = fields.Text("candidate_code");
  row.aggregated_speedup = fields.Positive("aggregated_speedup");
  row.relative_bin = fields.Bin("relative_bin");
  const std::string type = fields.OneOf("pair_type", {"seed", "parent_edit", "pair"});
  for (const PairType known : {PairType::kSeed, PairType::kParentEdit, PairType::kPair}) {
    if (Name(known) == type) row.pair_type = known;
  }
  row.hardware = fields.Text("hardware");
  row.origin = fields.Origin();
  const std::string scheme = fields.Scheme("bin_scheme_id");
  if (!scheme.empty()) {
    TrainingDetails& details = row.details.emplace();
    details.bin_scheme_id = scheme;
    details.prompt_version = fields.OptionalText("prompt_version");
    details.prompt_hash = fields.OptionalText("prompt_hash");
    details.answer_schema_hash = fields.OptionalText("answer_schema_hash");
    details.speedup_low = fields.Positive("speedup_low");
    details.speedup_high = fields.Positive("speedup_high");
    details.confidence =
        fields.OptionalNumber("speedup_confidence", 0, 1, "a number from 0 to 1").value_or(0);
    details.low_bin = fields.Bin("low_bin");
    details.high_bin = fields.Bin("high_bin");
    details.provenance = fields.Object("provenance");
  }
  if (!fields.ok()) return fields.status();
  return row;
}

absl::StatusOr<DiscoveryPair> DiscoveryPairFromJson(const RowJson& json) {
  FieldReader fields(json);
  DiscoveryPair row;
  row.pair_id = fields.Id("pair_id");
  row.problem_id = fields.Id("problem_id");
  row.benchmark_family =
      fields.OneOf("benchmark_family", {"gpu_mode", "kernelbench_l3", "kernelcast"});
  row.parent_code = fields.Text("parent_code");
  row.child_code = fields.Text("child_code");
  row.g_speedup = fields.Positive("g_speedup");
  row.true_bin = fields.Bin("true_bin");
  row.hardware = fields.Text("hardware");
  row.parent_node_id = fields.Id("parent_node_id");
  row.child_node_id = fields.Id("child_node_id");
  row.origin = fields.Origin();
  row.bin_scheme_id = fields.Scheme("bin_scheme_id");
  if (!fields.ok()) return fields.status();
  return row;
}

absl::StatusOr<SearchEventRow> SearchEventFromJson(const RowJson& json) {
  FieldReader fields(json);
  SearchEventRow row;
  row.event_index = fields.Count("event_index");
  row.event_kind = fields.Id("event_kind");
  if (fields.ok() &&
      std::ranges::find(kSearchEventKinds, row.event_kind) == std::end(kSearchEventKinds)) {
    std::string allowed = "one of ";
    for (const std::string_view kind : kSearchEventKinds) {
      absl::StrAppend(&allowed, kind == kSearchEventKinds[0] ? "" : ", ", std::string(kind));
    }
    fields.Refuse("event_kind", RowJson(row.event_kind), allowed);
  }
  row.payload = fields.Object("payload");
  if (!fields.ok()) return fields.status();
  return row;
}

RowJson ToJson(const EvaluationRow& row) {
  RowJson json = {{"comparison_id", row.comparison_id},
                  {"pack", row.pack},
                  {"anchor_code", row.anchor_code},
                  {"candidate_code", row.candidate_code},
                  {"hardware", row.hardware},
                  {"aggregated_speedup", row.aggregated_speedup},
                  {"true_bin", row.true_bin}};
  AddOrigin(row.origin, json);
  if (!row.bin_scheme_id.empty()) json["bin_scheme_id"] = row.bin_scheme_id;
  if (row.propensity.has_value()) json["propensity"] = *row.propensity;
  return json;
}

RowJson ToJson(const PredictionRow& row) {
  RowJson json = {{"comparison_id", row.comparison_id},
                  {"pack", row.pack},
                  {"surrogate_label", row.surrogate_label},
                  {"repeat", row.repeat},
                  {"predicted_bin", OrNull(row.predicted_bin)}};
  RowJson& list = json["bin_probabilities"] = RowJson::array();
  for (size_t i = 0; i < row.bin_probabilities.size(); ++i) {
    list.push_back({{"bin", i + 1}, {"p", row.bin_probabilities[i]}});
  }
  json["reasoning"] = row.reasoning;
  json["raw_probability_sum"] = OrNull(row.raw_probability_sum);
  json["parse_failed"] = row.parse_failed;
  json["parse_error"] = row.parse_error.empty() ? RowJson(nullptr) : RowJson(row.parse_error);
  json["input_tokens"] = OrNull(row.input_tokens);
  json["output_tokens"] = OrNull(row.output_tokens);
  json["elapsed_s"] = OrNull(row.elapsed_s);
  if (!row.bin_scheme_id.empty()) json["bin_scheme_id"] = row.bin_scheme_id;
  if (row.failure_probability.has_value()) json["failure_probability"] = *row.failure_probability;
  if (row.expected_log2_speedup.has_value()) {
    json["expected_log2_speedup"] = *row.expected_log2_speedup;
  }
  if (row.abstained) json["abstained"] = true;
  if (row.cost_dollars.has_value()) json["cost_dollars"] = *row.cost_dollars;
  return json;
}

RowJson ToJson(const TrainingRow& row) {
  RowJson json = {{"row_id", row.row_id},
                  {"pack", row.pack},
                  {"anchor_code", row.anchor_code},
                  {"candidate_code", row.candidate_code},
                  {"aggregated_speedup", row.aggregated_speedup},
                  {"relative_bin", row.relative_bin},
                  {"pair_type", std::string(Name(row.pair_type))},
                  {"hardware", row.hardware}};
  AddOrigin(row.origin, json);
  if (row.details.has_value()) {
    const TrainingDetails& details = *row.details;
    const auto or_null = [](const std::string& text) {
      return text.empty() ? RowJson(nullptr) : RowJson(text);
    };
    json["bin_scheme_id"] = details.bin_scheme_id;
    json["prompt_version"] = or_null(details.prompt_version);
    json["prompt_hash"] = or_null(details.prompt_hash);
    json["answer_schema_hash"] = or_null(details.answer_schema_hash);
    json["speedup_low"] = details.speedup_low;
    json["speedup_high"] = details.speedup_high;
    json["speedup_confidence"] = details.confidence;
    json["low_bin"] = details.low_bin;
    json["high_bin"] = details.high_bin;
    json["provenance"] = details.provenance;
  }
  return json;
}

RowJson ToJson(const DiscoveryPair& row) {
  RowJson json = {{"pair_id", row.pair_id},
                  {"problem_id", row.problem_id},
                  {"benchmark_family", row.benchmark_family},
                  {"parent_code", row.parent_code},
                  {"child_code", row.child_code},
                  {"g_speedup", row.g_speedup},
                  {"true_bin", row.true_bin},
                  {"hardware", row.hardware},
                  {"parent_node_id", row.parent_node_id},
                  {"child_node_id", row.child_node_id}};
  AddOrigin(row.origin, json);
  if (!row.bin_scheme_id.empty()) json["bin_scheme_id"] = row.bin_scheme_id;
  return json;
}

RowJson ToJson(const SearchEventRow& row) {
  return {
      {"event_index", row.event_index}, {"event_kind", row.event_kind}, {"payload", row.payload}};
}

absl::StatusOr<RowFormat> DetectFormat(const RowJson& json) {
  if (json.is_object()) {
    if (json.contains("event_kind")) return RowFormat::kSearchEvents;
    if (json.contains("pair_id")) return RowFormat::kDiscoveryPairs;
    if (json.contains("row_id")) return RowFormat::kTrainingRows;
    if (json.contains("surrogate_label")) return RowFormat::kPredictionRows;
    if (json.contains("comparison_id")) return RowFormat::kEvaluationRows;
    if (json.contains("evaluation") || json.contains("candidate")) return RowFormat::kRecords;
  }
  return absl::InvalidArgumentError(
      "a line of no known format: records have evaluation, evaluation rows comparison_id, "
      "prediction "
      "rows surrogate_label, training rows row_id, discovery pairs pair_id, search events "
      "event_kind");
}

absl::Status ReadJsonLines(
    const std::string& path,
    const std::function<absl::Status(const RowJson& json, const std::string& text)>& on_line) {
  return ForEachGzipRecord(path, [&on_line](const std::string& line) -> absl::Status {
    JsonDepthLimit limit;
    RowJson json;
    try {
      json = RowJson::parse(line, limit.Callback<RowJson>());
    } catch (const RowJson::out_of_range&) {
      const JsonNumberError error = FindNumberTooLarge<RowJson>(line);
      return absl::InvalidArgumentError(
          absl::StrCat(error.field.empty() ? "line" : Quoted(error.field), ": ",
                       Quoted(error.number), " is too large for any number"));
    } catch (const RowJson::exception&) {
      return absl::InvalidArgumentError("not JSON: " + Quoted(line));
    }
    if (limit.exceeded()) {
      return absl::InvalidArgumentError(
          absl::StrCat("values within values, more than ", kMaxJsonDepth, " deep"));
    }
    return on_line(json, line);
  });
}

std::string JsonLine(const RowJson& json) {
  return json.dump(-1, ' ', false, RowJson::error_handler_t::replace);
}

}  // namespace kernelcast::cli
