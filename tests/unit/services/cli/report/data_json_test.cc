#include "services/cli/report/data_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "services/cli/report/learning.h"
#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::json;

TEST_CASE("The data are JSON that cannot end their script element") {
  ReportInput input = SampleReport(20);
  input.candidates[0].candidate.source = "// </script><!-- \xff\xE2\x80\xA8";
  input.candidates[0].feedback = std::string("</SCRIPT>\0<!--", 14);
  input.candidates[0].candidate.tunables = {{"\xff", "</script>"}};
  const std::string text = ReportDataJson(input, Analyze(input));
  CHECK(text.find('<') == std::string::npos);
  const Json json = Json::parse(text);
  CHECK(json["schema"] == "kernelcast-report/2");
  CHECK(json["candidates"].size() == 20);
}

TEST_CASE("A source is its definitions plus a body that is stored once") {
  const ReportInput input = SampleReport(50);
  const Json json = Json::parse(ReportDataJson(input, Analyze(input)));
  CHECK(json["bodies"].size() == 1);
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const Json& source = json["candidates"][i]["source"];
    CHECK(source[0].get<std::string>() +
              json["bodies"][source[1].get<size_t>()].get<std::string>() ==
          input.candidates[i].candidate.source);
  }
}

TEST_CASE("Excess sources are omitted, the fastest candidates' last") {
  ReportInput input;
  for (int i = 0; i < 12; ++i) {
    ReportCandidate candidate = MeasuredCandidate("k_" + std::to_string(i), 1.0 + i);
    candidate.candidate.source = std::to_string(i) + std::string(1 << 20, 'x');
    input.candidates.push_back(std::move(candidate));
  }
  const std::string text = ReportDataJson(input, Analyze(input));
  CHECK(text.size() < kMaxEmbeddedSourceBytes + (1 << 20));
  const Json json = Json::parse(text);
  CHECK(json["candidates"][11].contains("source"));
  CHECK_FALSE(json["candidates"][0].contains("source"));
  CHECK(json["candidates"][0]["source_omitted"] == true);
}

TEST_CASE("Facts are listed once for the reference and each candidate, by schema name") {
  const ReportInput input = SampleReport(5);
  const Json json = Json::parse(ReportDataJson(input, Analyze(input)));
  const size_t names = json["facts"]["names"].size();
  CHECK(names > 10);
  CHECK(json["facts"]["reference"]["values"].size() == names);
  CHECK(json["candidates"][0]["facts"]["values"].size() == names);
}

TEST_CASE("Candidates, forecasts and measurements are protobuf's JSON") {
  const ReportInput input = SampleReport(30);
  const Json json = Json::parse(ReportDataJson(input, Analyze(input)));
  for (size_t i = 0; i < input.candidates.size(); ++i) {
    const ReportCandidate& from = input.candidates[i];
    const Json& to = json["candidates"][i];
    v1::Candidate candidate = ToProto(from.candidate);
    candidate.clear_source();
    CHECK(to["candidate"] == Json::parse(ProtoToJson(candidate)));
    if (from.forecast) CHECK(to["forecast"] == Json::parse(ProtoToJson(ToProto(*from.forecast))));
    if (from.measurement) {
      CHECK(to["measurement"] == Json::parse(ProtoToJson(ToProto(*from.measurement))));
    }
  }
}

TEST_CASE("The data have usage, cost with prices, the search and what was learnt") {
  ReportInput input;
  input.candidates = {MeasuredCandidate("a", 1.5)};
  v1::Search& search = input.search.emplace();
  // 1.5 of 2 h for measuring; measuring all would have taken another hour.
  v1::SearchCounts& counts = *search.mutable_counts();
  counts.mutable_device_time_spent()->set_seconds(7200);
  counts.mutable_device_time_preparing()->set_seconds(900);
  counts.mutable_device_time_confirming()->set_seconds(900);
  counts.mutable_device_time_avoided()->set_seconds(3600);
  counts.mutable_generation()->set_input_tokens(3'000'000);
  counts.mutable_generation()->set_output_tokens(500'000);
  *counts.mutable_model_use()->mutable_token_usage() =
      ToProto(TokenUsage{1'000'000, 0, 100'000, 0.25});
  *counts.mutable_unpriced_tokens() = ToProto(TokenUsage{3'000'000, 1'000'000, 500'000, 0});
  search.mutable_archive()->set_strategy("map_elites");
  search.mutable_archive()->add_entries()->set_place("memory, wide");
  // The best candidate is listed once.
  search.mutable_incumbent()->set_request_id("r");
  Json json = Json::parse(ReportDataJson(input, Analyze(input)));
  CHECK(json["usage"] == Json({{"device_hours", 2.0},
                               {"avoided_device_hours", 1.0},
                               {"input_tokens", 4'000'000},
                               {"output_tokens", 600'000}}));
  CHECK_FALSE(json.contains("cost"));
  const Learning learning = LearningOf(input);
  CHECK(json["learning"]["labels"] == kLearningLabels);
  CHECK(json["learning"]["before"]["forecasts"] == 1);
  CHECK(json["learning"]["before"]["exact"] == learning.before.exact);
  CHECK(json["learning"]["after"]["forecasts"] == 0);
  CHECK(json["search"]["archive"]["strategy"] == "map_elites");
  CHECK(json["search"]["archive"]["entries"][0]["place"] == "memory, wide");
  CHECK_FALSE(json["search"].contains("incumbent"));

  input.prices.device_hour = 3;
  input.prices.input_tokens = 1;
  input.prices.cached_input_tokens = 0.5;
  input.prices.output_tokens = 4;
  json = Json::parse(ReportDataJson(input, Analyze(input)));
  const Json& cost = json["cost"];
  CHECK(cost["devices"].get<double>() == Approx(6));
  CHECK(cost["avoided"].get<double>() == Approx(3));
  // 0.25 from the endpoint, 2 + 0.5 for input, 2 for output.
  CHECK(cost["tokens"].get<double>() == Approx(4.75));
  CHECK(cost["total"].get<double>() == Approx(10.75));
  CHECK(cost["prices"] == Json({{"device_hour", 3.0},
                                {"million_input_tokens", 1.0},
                                {"million_cached_input_tokens", 0.5},
                                {"million_output_tokens", 4.0}}));
}

}  // namespace
}  // namespace kernelcast::cli
