#include "services/cli/core/paper_rows.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kernelcast::cli {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

const char* const kEvaluation =
    R"({"comparison_id":"c1","pack":"scan","anchor_code":"__global__ a\n","candidate_code":"b","hardware":"NVIDIA L40S","aggregated_speedup":1.2,"true_bin":4,"source_id":17,"source_search":"s1","internal_experiment":null})";
const char* const kPrediction =
    R"({"comparison_id":"c1","pack":"scan","surrogate_label":"gpt-oss-20b","repeat":2,"predicted_bin":5,"bin_probabilities":[{"bin":1,"p":0.0},{"bin":2,"p":0.0},{"bin":3,"p":0.05},{"bin":4,"p":0.15},{"bin":5,"p":0.5},{"bin":6,"p":0.25},{"bin":7,"p":0.02},{"bin":8,"p":0.0}],"reasoning":"fewer loads","raw_probability_sum":0.97,"parse_failed":false,"parse_error":null,"input_tokens":2100,"output_tokens":700,"elapsed_s":12.5})";
const char* const kFailedPrediction =
    R"({"comparison_id":"c1","pack":"scan","surrogate_label":"gpt-oss-20b","repeat":0,"predicted_bin":null,"bin_probabilities":[],"reasoning":"","raw_probability_sum":null,"parse_failed":true,"parse_error":"no tool call","input_tokens":2100,"output_tokens":null,"elapsed_s":null})";
const char* const kTraining =
    R"({"row_id":"r9","pack":"scan","anchor_code":"a","candidate_code":"b","aggregated_speedup":2.5,"relative_bin":6,"pair_type":"parent_edit","hardware":"NVIDIA A100-SXM4-80GB","source_id":"x","source_search":"s1","internal_experiment":true})";
const char* const kPair =
    R"({"pair_id":"p3","problem_id":"conv","benchmark_family":"kernelbench_l3","parent_code":"a","child_code":"b","g_speedup":0.9,"true_bin":3,"hardware":"NVIDIA L40S","parent_node_id":"n1","child_node_id":"n2","source_id":1,"source_search":2,"internal_experiment":"e"})";
const char* const kEvent =
    R"({"event_index":4,"event_kind":"candidate_deferred","payload":{"candidate_id":"k1","depth":{"of":["anything",1,null]}}})";

struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kc-rows-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

template <typename Row>
std::string RoundTrip(absl::StatusOr<Row> (*read)(const RowJson&), const std::string& line) {
  const absl::StatusOr<Row> row = read(RowJson::parse(line));
  INFO(line);
  REQUIRE(row.ok());
  return JsonLine(ToJson(*row));
}

TEST_CASE("Every published format round-trips byte for byte") {
  CHECK(RoundTrip(EvaluationRowFromJson, kEvaluation) == kEvaluation);
  CHECK(RoundTrip(PredictionRowFromJson, kPrediction) == kPrediction);
  CHECK(RoundTrip(PredictionRowFromJson, kFailedPrediction) == kFailedPrediction);
  CHECK(RoundTrip(TrainingRowFromJson, kTraining) == kTraining);
  CHECK(RoundTrip(DiscoveryPairFromJson, kPair) == kPair);
  CHECK(RoundTrip(SearchEventFromJson, kEvent) == kEvent);
}

TEST_CASE("Additions to the published fields round-trip too") {
  RowJson evaluation = RowJson::parse(kEvaluation);
  evaluation["bin_scheme_id"] = "sqrt2/1";
  evaluation["propensity"] = 0.25;
  CHECK(RoundTrip(EvaluationRowFromJson, evaluation.dump()) == evaluation.dump());
  RowJson prediction = RowJson::parse(kPrediction);
  prediction["bin_scheme_id"] = "sqrt2/1";
  prediction["failure_probability"] = 0.125;
  prediction["expected_log2_speedup"] = -0.5;
  CHECK(RoundTrip(PredictionRowFromJson, prediction.dump()) == prediction.dump());
  TrainingRow row = *TrainingRowFromJson(RowJson::parse(kTraining));
  row.details = TrainingDetails{.bin_scheme_id = "sqrt2/1",
                                .prompt_version = "speedup-bins/2@01234567",
                                .prompt_hash = "01",
                                .answer_schema_hash = "",
                                .speedup_low = 2.4,
                                .speedup_high = 2.6,
                                .confidence = 0.95,
                                .low_bin = 7,
                                .high_bin = 7,
                                .provenance = {{"device", "H200"}}};
  const std::string line = JsonLine(ToJson(row));
  CHECK(RoundTrip(TrainingRowFromJson, line) == line);
  CHECK_THAT(line, Contains(R"("answer_schema_hash":null)"));
}

TEST_CASE("The format is detected from the fields, and unknown fields are skipped") {
  CHECK(*DetectFormat(RowJson::parse(kEvaluation)) == RowFormat::kEvaluationRows);
  CHECK(*DetectFormat(RowJson::parse(kPrediction)) == RowFormat::kPredictionRows);
  CHECK(*DetectFormat(RowJson::parse(kTraining)) == RowFormat::kTrainingRows);
  CHECK(*DetectFormat(RowJson::parse(kPair)) == RowFormat::kDiscoveryPairs);
  CHECK(*DetectFormat(RowJson::parse(kEvent)) == RowFormat::kSearchEvents);
  CHECK(*DetectFormat(RowJson::parse(R"({"sequence":"1","evaluation":{}})")) ==
        RowFormat::kRecords);
  CHECK_FALSE(DetectFormat(RowJson::parse("[]")).ok());
  CHECK_FALSE(DetectFormat(RowJson::parse("{}")).ok());
  for (const RowFormat format : kRowFormats) CHECK(*ParseRowFormat(Name(format)) == format);
  CHECK_THAT(std::string(ParseRowFormat("csv").status().message()), Contains("discovery-pairs"));
  RowJson more = RowJson::parse(kEvaluation);
  more["new_in_2027"] = {1, 2};
  CHECK(RoundTrip(EvaluationRowFromJson, more.dump()) == kEvaluation);
}

TEST_CASE("A bad field is reported with its value and allowed values") {
  const auto error = [](auto read, const char* line, const char* field, const RowJson& value) {
    RowJson json = RowJson::parse(line);
    json[field] = value;
    const auto row = read(json);
    REQUIRE_FALSE(row.ok());
    CHECK(row.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(row.status().message()), Contains(field));
    return std::string(row.status().message());
  };
  CHECK(error(EvaluationRowFromJson, kEvaluation, "aggregated_speedup", -1) ==
        "aggregated_speedup: '-1' is not a positive finite number");
  CHECK(error(EvaluationRowFromJson, kEvaluation, "aggregated_speedup", nullptr) ==
        "aggregated_speedup: 'null' is not a positive finite number");
  CHECK(error(EvaluationRowFromJson, kEvaluation, "true_bin", 9) ==
        "true_bin: '9' is not a whole number from 1 to 8");
  CHECK(error(EvaluationRowFromJson, kEvaluation, "true_bin", 2.5) ==
        "true_bin: '2.5' is not a whole number from 1 to 8");
  CHECK(error(EvaluationRowFromJson, kEvaluation, "true_bin", 1e300) ==
        "true_bin: '1e+300' is not a whole number from 1 to 8");
  CHECK(error(EvaluationRowFromJson, kEvaluation, "comparison_id", "") ==
        "comparison_id: '\"\"' is not a string that is not empty");
  CHECK_THAT(error(EvaluationRowFromJson, kEvaluation, "source_id", RowJson::array()),
             EndsWith("is not a string, a number, true, false or null"));
  CHECK_THAT(error(EvaluationRowFromJson, kEvaluation, "bin_scheme_id", "mine/1"),
             Contains("paper-floor/1"));
  CHECK_THAT(error(EvaluationRowFromJson, kEvaluation, "propensity", 0),
             EndsWith("is not a number above 0 and at most 1"));
  CHECK(error(PredictionRowFromJson, kPrediction, "parse_failed", "yes") ==
        "parse_failed: '\"yes\"' is not true or false");
  CHECK(error(PredictionRowFromJson, kPrediction, "repeat", -1) ==
        "repeat: '-1' is not a whole number from 0 to 2^53");
  CHECK(error(PredictionRowFromJson, kPrediction, "repeat", 1e18) ==
        "repeat: '1e+18' is not a whole number from 0 to 2^53");
  CHECK_THAT(error(PredictionRowFromJson, kPrediction, "bin_probabilities", RowJson::object()),
             Contains("a list of"));
  CHECK_THAT(error(PredictionRowFromJson, kPrediction, "bin_probabilities",
                   RowJson::parse(R"([{"bin":1,"p":0.5},{"bin":1,"p":0.5}])")),
             EndsWith("bin_probabilities[1].bin: '1' is not a bin that has not been given before"));
  CHECK_THAT(error(PredictionRowFromJson, kPrediction, "bin_probabilities",
                   RowJson::parse(R"([{"bin":0,"p":0.5}])")),
             EndsWith("bin_probabilities[0].bin: '0' is not a whole number from 1 to 8"));
  CHECK_THAT(error(PredictionRowFromJson, kPrediction, "bin_probabilities",
                   RowJson::parse(R"([{"bin":1,"p":-0.5}])")),
             EndsWith("bin_probabilities[0].p: '-0.5' is not a finite number of 0 or more"));
  CHECK_THAT(error(PredictionRowFromJson, kPrediction, "bin_probabilities",
                   RowJson::parse(R"([{"bin":1}])")),
             EndsWith("is not an object with bin and p"));
  // Parsed rows have probabilities.
  CHECK_THAT(error(PredictionRowFromJson, kPrediction, "bin_probabilities", RowJson::array()),
             Contains("is not a distribution, and parse_failed is false"));
  CHECK(error(TrainingRowFromJson, kTraining, "pair_type", "twin") ==
        "pair_type: '\"twin\"' is not one of seed, parent_edit, pair");
  CHECK_THAT(error(DiscoveryPairFromJson, kPair, "benchmark_family", "mine"),
             EndsWith("is not one of gpu_mode, kernelbench_l3, kernelcast"));
  CHECK_THAT(error(SearchEventFromJson, kEvent, "event_kind", "candidate_pruned"),
             Contains("candidate_deferred"));
  CHECK(error(SearchEventFromJson, kEvent, "payload", 3) == "payload: '3' is not an object");

  RowJson missing = RowJson::parse(kTraining);
  missing.erase("hardware");
  CHECK(std::string(TrainingRowFromJson(missing).status().message()) ==
        "hardware: missing; it is a string");
  CHECK(std::string(SearchEventFromJson(RowJson(7)).status().message()) ==
        "line: '7' is not a JSON object");
}

TEST_CASE("A bad line is reported with file and line, and the rest is not read") {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/rows.jsonl";
  const auto read = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    int lines = 0;
    const absl::Status status = ReadJsonLines(path, [&](const RowJson& json, const std::string&) {
      ++lines;
      return EvaluationRowFromJson(json).status();
    });
    return std::make_pair(lines, std::string(status.message()));
  };
  const std::string good = std::string(kEvaluation) + "\r\n";
  CHECK(read(good + "\n  \t\n" + good) == std::make_pair(2, std::string()));
  CHECK_THAT(read(good + "\n{\"comparison_id\": \n" + good).second,
             Contains(path + ":3: not JSON: "));
  CHECK(read(good + "{}\n" + good).second ==
        path + ":2: comparison_id: missing; it is a string that is not empty");
  CHECK_THAT(read(std::string("\xff\xfe\0{", 4) + "\n").second, Contains(":1: not JSON"));
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  CHECK_THAT(read(R"({"event_kind":)" + deep + "}\n").second, Contains(":1: values within values"));
  CHECK_THAT(read(R"({"a":"\ud800"})").second, Contains(":1: not JSON"));
  CHECK(read(good + R"({"comparison_id":"c","aggregated_speedup":-1e999})").second ==
        path + ":2: 'aggregated_speedup': '-1e999' is too large for any number");
  CHECK(read("1e999").second == path + ":1: line: '1e999' is too large for any number");
  CHECK_THAT(read(R"({"a":NaN})").second, Contains(":1: not JSON"));
  CHECK_THAT(read(R"({"a":1e308*10})").second, Contains(":1: not JSON"));
  CHECK_THAT(std::string(ReadJsonLines("/nowhere/rows.jsonl", {}).message()),
             Contains("cannot read /nowhere/rows.jsonl"));
}

}  // namespace
}  // namespace kernelcast::cli
