#include "services/cli/core/paper_rows.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>
#include <type_traits>

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
constexpr double kMaxCount = 9007199254740992;  // 2^53

std::string Shown(const RowJson& value) {
  return Quoted(value.dump(-1, ' ', false, RowJson::error_handler_t::replace));
}

bool IsText(const RowJson& value) { return value.is_string(); }
bool IsFlag(const RowJson& value) { return value.is_boolean(); }
bool IsObject(const RowJson& value) { return value.is_object(); }
bool IsId(const RowJson& value) {
  return value.is_number_integer() ||
         (value.is_string() && !value.get_ref<const std::string&>().empty());
}
bool IsPositive(const RowJson& value) {
  return value.is_number() && value.get<double>() > 0 && std::isfinite(value.get<double>());
}
// As double, because a value that does not fit 64 bits is out of range too.
bool IsWhole(const RowJson& value, double low, double high) {
  return value.is_number() && value.get<double>() >= low && value.get<double>() <= high &&
         std::floor(value.get<double>()) == value.get<double>();
}
bool IsCount(const RowJson& value) { return IsWhole(value, 0, kMaxCount); }
bool IsBin(const RowJson& value) { return IsWhole(value, 1, kBins); }

auto InRange(double low, double high) {
  return [low, high](const RowJson& value) {
    return value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
  };
}

constexpr char kCountWords[] = "a whole number from 0 to 2^53";
constexpr char kBinWords[] = "a whole number from 1 to 8";

// Reads the fields of one object and keeps the first error. RowWriter has the same methods, so one
// list of fields serves both.
class RowReader {
 public:
  static constexpr bool kReads = true;

  explicit RowReader(const RowJson& json) : json_(json) {
    if (!json.is_object()) Refuse("line", json, "a JSON object");
  }

  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  // Text, or an integer as its digits.
  void Id(const char* field, std::string& value) {
    Required(field, "a string that is not empty", IsId, value);
  }
  void Text(const char* field, std::string& value) { Required(field, "a string", IsText, value); }
  // "": absent or null.
  void OptionalText(const char* field, std::string& value) {
    Optional(field, "a string or null", IsText, value);
  }
  // The same; null stands for "".
  void NullableText(const char* field, std::string& value) { OptionalText(field, value); }
  void Word(const char* field, std::span<const std::string_view> words, std::string& value) {
    std::string allowed = "one of ";
    for (const std::string_view word : words) {
      absl::StrAppend(&allowed, word == words[0] ? "" : ", ", std::string(word));
    }
    const auto known = [words](const RowJson& text) {
      return text.is_string() &&
             std::ranges::find(words, text.get_ref<const std::string&>()) != words.end();
    };
    Required(field, allowed, known, value);
  }
  void Positive(const char* field, double& value) {
    Required(field, "a positive finite number", IsPositive, value);
  }
  // Absent or null: nullopt, written as null.
  void Nullable(const char* field, std::optional<double>& value) {
    Optional(field, "a number of 0 or more, or null", InRange(0, 1e300), value);
  }
  void Nullable(const char* field, std::optional<int64_t>& value) {
    Optional(field, kCountWords, IsCount, value);
  }
  void Nullable(const char* field, std::optional<int>& value) {
    Optional(field, kBinWords, IsBin, value);
  }
  // Absent: nullopt, and not written.
  void Extension(const char* field, double low, double high, const char* allowed,
                 std::optional<double>& value) {
    Optional(field, allowed, InRange(low, high), value);
  }
  void Extension(const char* field, bool& value) {
    Optional(field, "true or false", IsFlag, value);
  }
  void Count(const char* field, int64_t& value) { Required(field, kCountWords, IsCount, value); }
  void Bin(const char* field, int& value) { Required(field, kBinWords, IsBin, value); }
  void Flag(const char* field, bool& value) { Required(field, "true or false", IsFlag, value); }
  void Object(const char* field, RowJson& value) { Required(field, "an object", IsObject, value); }
  // Strings, numbers, true, false and null; an absent field is null.
  void Scalar(const char* field, RowJson& value) {
    const auto is_scalar = [](const RowJson& scalar) { return !scalar.is_structured(); };
    Optional(field, "a string, a number, true, false or null", is_scalar, value);
  }
  // "": absent.
  void Scheme(const char* field, std::string& value) {
    OptionalText(field, value);
    if (!ok() || value.empty()) return;
    if (const auto scheme = BinScheme::Find(value); !scheme.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(field, ": ", std::string(scheme.status().message())));
    }
  }
  void Probabilities(std::vector<double>& p);

  void Refuse(const std::string& field, const RowJson& value, const std::string& allowed) {
    if (!ok()) return;
    status_ =
        absl::InvalidArgumentError(absl::StrCat(field, ": ", Shown(value), " is not ", allowed));
  }

 private:
  template <class Accepts, class T>
  void Required(const char* field, const std::string& allowed, Accepts accepts, T& value) {
    if (ok() && !json_.contains(field)) {
      status_ = absl::InvalidArgumentError(absl::StrCat(field, ": missing; it is ", allowed));
    }
    if (ok()) Take(field, json_[field], allowed, accepts, value);
  }
  template <class Accepts, class T>
  void Optional(const char* field, const std::string& allowed, Accepts accepts, T& value) {
    if (!ok()) return;
    const auto found = json_.find(field);
    if (found != json_.end() && !found->is_null()) Take(field, *found, allowed, accepts, value);
  }
  template <class Accepts, class T>
  void Take(const char* field, const RowJson& json, const std::string& allowed, Accepts accepts,
            T& value) {
    if (!accepts(json)) {
      Refuse(field, json, allowed);
    } else if constexpr (std::is_same_v<T, RowJson>) {
      value = json;
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = json.is_string() ? json.get<std::string>() : json.dump();
    } else if constexpr (requires { typename T::value_type; }) {
      value = json.get<typename T::value_type>();
    } else {
      value = json.get<T>();
    }
  }

  const RowJson& json_;
  absl::Status status_;
};

class RowWriter {
 public:
  static constexpr bool kReads = false;

  RowJson Take() { return std::move(json_); }

  void Id(const char* field, const std::string& value) { json_[field] = value; }
  void Text(const char* field, const std::string& value) { json_[field] = value; }
  void OptionalText(const char* field, const std::string& value) { json_[field] = value; }
  void NullableText(const char* field, const std::string& value) {
    json_[field] = value.empty() ? RowJson(nullptr) : RowJson(value);
  }
  void Word(const char* field, std::span<const std::string_view>, const std::string& value) {
    json_[field] = value;
  }
  void Positive(const char* field, double value) { json_[field] = value; }
  template <class T>
  void Nullable(const char* field, const std::optional<T>& value) {
    json_[field] = value.has_value() ? RowJson(*value) : RowJson(nullptr);
  }
  void Extension(const char* field, double, double, const char*,
                 const std::optional<double>& value) {
    if (value.has_value()) json_[field] = *value;
  }
  void Extension(const char* field, bool value) {
    if (value) json_[field] = true;
  }
  void Count(const char* field, int64_t value) { json_[field] = value; }
  void Bin(const char* field, int value) { json_[field] = value; }
  void Flag(const char* field, bool value) { json_[field] = value; }
  void Object(const char* field, const RowJson& value) { json_[field] = value; }
  void Scalar(const char* field, const RowJson& value) { json_[field] = value; }
  void Scheme(const char* field, const std::string& value) {
    if (!value.empty()) json_[field] = value;
  }
  void Probabilities(const std::vector<double>& p) {
    RowJson& list = json_["bin_probabilities"] = RowJson::array();
    for (size_t i = 0; i < p.size(); ++i) list.push_back({{"bin", i + 1}, {"p", p[i]}});
  }

 private:
  RowJson json_ = RowJson::object();
};

// Parses [{"bin": 1, "p": 0.1}, ...]; missing bins are 0.
void RowReader::Probabilities(std::vector<double>& p) {
  static constexpr char kField[] = "bin_probabilities";
  RowJson list;
  const auto is_list = [](const RowJson& value) {
    return value.is_array() && value.size() <= kMaxBins;
  };
  Optional(kField, "a list of {\"bin\": 1 to 8, \"p\": 0 or more}", is_list, list);
  std::vector<std::optional<double>> given(kBins);
  for (size_t i = 0; ok() && i < list.size(); ++i) {
    const RowJson& entry = list[i];
    const std::string where = absl::StrCat(kField, "[", i, "]");
    if (!entry.is_object() || !entry.contains("bin") || !entry.contains("p")) {
      return Refuse(where, entry, "an object with bin and p");
    }
    const RowJson& bin = entry["bin"];
    const RowJson& value = entry["p"];
    if (!IsBin(bin)) return Refuse(absl::StrCat(where, ".bin"), bin, kBinWords);
    if (!value.is_number() || !(value.get<double>() >= 0) || !std::isfinite(value.get<double>())) {
      return Refuse(absl::StrCat(where, ".p"), value, "a finite number of 0 or more");
    }
    std::optional<double>& place = given[static_cast<size_t>(bin.get<int>() - 1)];
    if (place) {
      return Refuse(absl::StrCat(where, ".bin"), bin, "a bin that has not been given before");
    }
    place = value.get<double>();
  }
  if (!ok() || list.empty()) return;
  for (const std::optional<double>& value : given) p.push_back(value.value_or(0));
}

template <class Io, class Origin>
void MapOrigin(Io& io, Origin& origin) {
  io.Scalar("source_id", origin.source_id);
  io.Scalar("source_search", origin.source_search);
  io.Scalar("internal_experiment", origin.internal_experiment);
}

template <class Row, class Wanted>
concept Is = std::is_same_v<std::remove_const_t<Row>, Wanted>;

template <class Io>
void MapRow(Io& io, Is<EvaluationRow> auto& row) {
  io.Id("comparison_id", row.comparison_id);
  io.Text("pack", row.pack);
  io.Text("anchor_code", row.anchor_code);
  io.Text("candidate_code", row.candidate_code);
  io.Text("hardware", row.hardware);
  io.Positive("aggregated_speedup", row.aggregated_speedup);
  io.Bin("true_bin", row.true_bin);
  MapOrigin(io, row.origin);
  io.Scheme("bin_scheme_id", row.bin_scheme_id);
  io.Extension("propensity", std::numeric_limits<double>::min(), 1,
               "a number above 0 and at most 1", row.propensity);
}

template <class Io>
void MapRow(Io& io, Is<PredictionRow> auto& row) {
  io.Id("comparison_id", row.comparison_id);
  io.OptionalText("pack", row.pack);
  io.Id("surrogate_label", row.surrogate_label);
  io.Count("repeat", row.repeat);
  io.Nullable("predicted_bin", row.predicted_bin);
  io.Probabilities(row.bin_probabilities);
  io.OptionalText("reasoning", row.reasoning);
  io.Nullable("raw_probability_sum", row.raw_probability_sum);
  io.Flag("parse_failed", row.parse_failed);
  io.NullableText("parse_error", row.parse_error);
  io.Nullable("input_tokens", row.input_tokens);
  io.Nullable("output_tokens", row.output_tokens);
  io.Nullable("elapsed_s", row.elapsed_s);
  io.Scheme("bin_scheme_id", row.bin_scheme_id);
  io.Extension("failure_probability", 0, 1, "a number from 0 to 1", row.failure_probability);
  io.Extension("expected_log2_speedup", -1e3, 1e3, "a number from -1000 to 1000",
               row.expected_log2_speedup);
  io.Extension("abstained", row.abstained);
  io.Extension("cost_dollars", 0, 1e300, "a number of 0 or more", row.cost_dollars);
}

template <class Io>
void MapDetails(Io& io, Is<TrainingDetails> auto& details) {
  io.NullableText("prompt_version", details.prompt_version);
  io.NullableText("prompt_hash", details.prompt_hash);
  io.NullableText("answer_schema_hash", details.answer_schema_hash);
  io.Positive("speedup_low", details.speedup_low);
  io.Positive("speedup_high", details.speedup_high);
  std::optional<double> confidence = details.confidence;
  io.Extension("speedup_confidence", 0, 1, "a number from 0 to 1", confidence);
  if constexpr (Io::kReads) details.confidence = confidence.value_or(0);
  io.Bin("low_bin", details.low_bin);
  io.Bin("high_bin", details.high_bin);
  io.Object("provenance", details.provenance);
}

template <class Io>
void MapRow(Io& io, Is<TrainingRow> auto& row) {
  io.Id("row_id", row.row_id);
  io.Text("pack", row.pack);
  io.Text("anchor_code", row.anchor_code);
  io.Text("candidate_code", row.candidate_code);
  io.Positive("aggregated_speedup", row.aggregated_speedup);
  io.Bin("relative_bin", row.relative_bin);
  static constexpr std::string_view kTypes[] = {"seed", "parent_edit", "pair"};
  std::string type(Name(row.pair_type));
  io.Word("pair_type", kTypes, type);
  io.Text("hardware", row.hardware);
  MapOrigin(io, row.origin);
  std::string scheme = row.details ? row.details->bin_scheme_id : "";
  io.Scheme("bin_scheme_id", scheme);
  if constexpr (Io::kReads) {
    for (const PairType known : {PairType::kSeed, PairType::kParentEdit, PairType::kPair}) {
      if (Name(known) == type) row.pair_type = known;
    }
    if (!scheme.empty()) row.details.emplace().bin_scheme_id = scheme;
  }
  if (row.details) MapDetails(io, *row.details);
}

template <class Io>
void MapRow(Io& io, Is<DiscoveryPair> auto& row) {
  io.Id("pair_id", row.pair_id);
  io.Id("problem_id", row.problem_id);
  static constexpr std::string_view kFamilies[] = {"gpu_mode", "kernelbench_l3", "kernelcast"};
  io.Word("benchmark_family", kFamilies, row.benchmark_family);
  io.Text("parent_code", row.parent_code);
  io.Text("child_code", row.child_code);
  io.Positive("g_speedup", row.g_speedup);
  io.Bin("true_bin", row.true_bin);
  io.Text("hardware", row.hardware);
  io.Id("parent_node_id", row.parent_node_id);
  io.Id("child_node_id", row.child_node_id);
  MapOrigin(io, row.origin);
  io.Scheme("bin_scheme_id", row.bin_scheme_id);
}

template <class Io>
void MapRow(Io& io, Is<SearchEventRow> auto& row) {
  io.Count("event_index", row.event_index);
  io.Word("event_kind", kSearchEventKinds, row.event_kind);
  io.Object("payload", row.payload);
}

template <class Row>
absl::StatusOr<Row> ReadRow(const RowJson& json) {
  RowReader reader(json);
  Row row;
  MapRow(reader, row);
  if (!reader.ok()) return reader.status();
  return row;
}

template <class Row>
RowJson WriteRow(const Row& row) {
  RowWriter writer;
  MapRow(writer, row);
  return writer.Take();
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
  return ReadRow<EvaluationRow>(json);
}

absl::StatusOr<PredictionRow> PredictionRowFromJson(const RowJson& json) {
  KC_ASSIGN_OR_RETURN(PredictionRow row, ReadRow<PredictionRow>(json));
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
  return ReadRow<TrainingRow>(json);
}

absl::StatusOr<DiscoveryPair> DiscoveryPairFromJson(const RowJson& json) {
  return ReadRow<DiscoveryPair>(json);
}

absl::StatusOr<SearchEventRow> SearchEventFromJson(const RowJson& json) {
  return ReadRow<SearchEventRow>(json);
}

RowJson ToJson(const EvaluationRow& row) { return WriteRow(row); }
RowJson ToJson(const PredictionRow& row) { return WriteRow(row); }
RowJson ToJson(const TrainingRow& row) { return WriteRow(row); }
RowJson ToJson(const DiscoveryPair& row) { return WriteRow(row); }
RowJson ToJson(const SearchEventRow& row) { return WriteRow(row); }

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
