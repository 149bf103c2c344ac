#include "services/forecaster/rpc/forecast_records.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/id.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "tests/support/deep_json.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

using Catch::Matchers::StartsWith;

class File {
 public:
  File()
      : path_((std::filesystem::temp_directory_path() / RandomId("kernelcast-records-")).string()) {
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }

 private:
  const std::string path_;
};

const PlantedProblem& Planted() {
  static const PlantedProblem& problem = *new PlantedProblem();
  return problem;
}

ForecastInput Input(size_t candidate) {
  ForecastInput input;
  input.problem = Planted().context();
  input.candidate = Planted().candidates()[candidate];
  return input;
}

// The first candidate's forecast depends on the labels, the next one's does not, and others
// abstain.
class Fickle final : public Backend {
 public:
  std::string_view name() const override { return "fickle"; }
  void Forecast(ForecastInput input, const ForecastCall&, Done done) override {
    if (input.candidate.candidate_id != Planted().candidates()[0].candidate_id &&
        input.candidate.candidate_id != Planted().candidates()[1].candidate_id) {
      return done(Abstention{Abstention::Cause::kModelDeferred, "fickle", "no"});
    }
    const bool first = input.candidate.candidate_id == Planted().candidates()[0].candidate_id;
    kernelcast::Forecast forecast;
    forecast.candidate_id = input.candidate.candidate_id;
    forecast.bin_probabilities = {0, 0, 0, 0, 1, 0, 0, 0};
    forecast.predicted_bin = 5;
    forecast.expected_log2_speedup = first ? labels_ : 0;
    forecast.backend = "fickle";
    forecast.latency_ns = ++asked_;
    forecast.components = {{"a", "1", 1, forecast.bin_probabilities, 0.5}};
    done(forecast);
  }
  void Observe(std::vector<ObservedLabel> labels) override {
    labels_ += static_cast<int>(labels.size());
  }
  BackendDescription Describe() const override { return {}; }

 private:
  int labels_ = 0;
  int asked_ = 0;
};

TEST_CASE("Recorded forecasts are replayed in order", "[forecaster][records]") {
  const File file;
  Fickle fickle;
  const auto observe = [](Backend& backend) {
    ObservedLabel observed;
    observed.problem = Planted().context();
    observed.label = Planted().MakeLabel(7);
    backend.Observe({observed});
  };
  const auto ask = [](Backend& backend, size_t candidate) {
    std::optional<ForecastResult> result;
    backend.Forecast(Input(candidate), {}, [&](ForecastResult got) { result = std::move(got); });
    REQUIRE(result.has_value());
    return *result;
  };
  std::vector<double> given;
  {
    auto recorder = ForecastRecorder::Open(file.path(), &fickle);
    REQUIRE(recorder.ok());
    for (int labels = 0; labels < 4; ++labels) {
      given.push_back(std::get<Forecast>(ask(**recorder, 0)).expected_log2_speedup);
      ask(**recorder, 1);
      ask(**recorder, 2);
      observe(**recorder);
    }
  }
  CHECK(given == std::vector<double>{0, 1, 2, 3});
  absl::StatusOr<std::vector<RecordedForecast>> records = ReadForecastRecords(file.path());
  INFO(records.status().ToString());
  REQUIRE(records.ok());
  // Four for the first candidate; one for each other, because they differed only in latency.
  CHECK(records->size() == 6);
  ReplayBackend replay(*std::move(records));
  for (int labels = 0; labels < 4; ++labels) {
    const auto forecast = std::get<Forecast>(ask(replay, 0));
    CHECK(forecast.expected_log2_speedup == given[static_cast<size_t>(labels)]);
    REQUIRE(forecast.components.size() == 1);
    CHECK(forecast.components[0].failure_probability == 0.5);
    CHECK(std::holds_alternative<Forecast>(ask(replay, 1)));
    CHECK(std::get<Abstention>(ask(replay, 2)).reason == "no");
    observe(replay);
  }
}

TEST_CASE("Exported records are accepted too", "[forecaster][records]") {
  v1::ExportRecord record;
  record.mutable_candidate()->set_problem_id("p_1");
  record.mutable_candidate()->set_target("cpu");
  record.mutable_evaluation()->set_candidate_id("k_1");
  Forecast forecast;
  forecast.bin_probabilities = {0, 0, 0, 0, 1, 0, 0, 0};
  forecast.predicted_bin = 5;
  forecast.labels_seen = 9;
  *record.mutable_evaluation()->mutable_decided_on() = ToProto(forecast);
  v1::ExportRecord without = record;
  without.mutable_evaluation()->clear_decided_on();
  std::string lines;
  for (const v1::ExportRecord& each : {record, without}) {
    const std::string line = ProtoToJson(each);
    lines += line + "\n";
  }
  const File file;
  file.Write(lines + "\n");
  const absl::StatusOr<std::vector<RecordedForecast>> records = ReadForecastRecords(file.path());
  INFO(records.status().ToString());
  REQUIRE(records.ok());
  REQUIRE(records->size() == 1);
  CHECK(records->front().candidate_id == "k_1");
  CHECK(records->front().problem_id == "p_1");
  CHECK(records->front().time == 1);
}

TEST_CASE("An unreadable record is reported with its line", "[forecaster][records]") {
  const File file;
  CHECK(absl::IsNotFound(ReadForecastRecords(file.path()).status()));
  const auto error = [&](const std::string& text) {
    file.Write(text);
    const absl::Status status = ReadForecastRecords(file.path()).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(error("\nnonsense\n") == file.path() + ":2: no JSON object");
  CHECK_THAT(error("{}\n"), StartsWith(file.path() + ":1: "));
  CHECK_THAT(error(R"({"candidateId": "k", "forecast": {"binSchemeId": "sqrt2/1"}})"),
             StartsWith(file.path() + ":1: bin_probabilities"));
  CHECK_THAT(error(R"({"forecast": []})"), StartsWith(file.path() + ":1: "));
}

TEST_CASE("An unwritable file is an immediate error", "[forecaster][records]") {
  Fickle fickle;
  const absl::Status status = ForecastRecorder::Open("/nonexistent/f.jsonl", &fickle).status();
  CHECK(absl::IsPermissionDenied(status));
}

TEST_CASE("Deeply nested recorded forecasts are refused", "[forecaster][records]") {
  const File file;
  for (const int times : {100, 10'000, 100'000}) {
    for (const char* const opening : {"[", "{\"evaluation\":", "{\"forecast\":[{\"a\":"}) {
      file.Write(testing::DeepJson(opening, times) + "\n");
      CHECK(absl::IsInvalidArgument(ReadForecastRecords(file.path()).status()));
    }
  }
}

}  // namespace
}  // namespace kernelcast::forecaster
