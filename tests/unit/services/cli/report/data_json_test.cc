#include "services/cli/report/data_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/services/cli/report/sample_report.h"

namespace kernelcast::cli {
namespace {

using Json = nlohmann::json;

TEST_CASE("The data are JSON without a character that could end their script") {
  ReportInput input = SampleReport(20);
  input.candidates[0].candidate.source = "// </script><!-- \xff\xE2\x80\xA8";
  input.candidates[0].feedback = std::string("</SCRIPT>\0<!--", 14);
  input.candidates[0].candidate.tunables = {{"\xff", "</script>"}};
  const std::string text = ReportDataJson(input, Analyze(input));
  CHECK(text.find('<') == std::string::npos);
  const Json json = Json::parse(text);
  CHECK(json["schema"] == "kernelcast-report/1");
  CHECK(json["candidates"].size() == 20);
}

TEST_CASE("A source is its definitions and a body that is stored once") {
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

TEST_CASE("Too many sources are left out, those of the fastest last") {
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

TEST_CASE("The display is best first, then failures, forecasts and refusals") {
  ReportCandidate failed = MeasuredCandidate("k_f", 1);
  failed.measurement->outcome = Timeout{};
  ReportCandidate rejected = PrunedCandidate("k_r");
  rejected.rejection = "over the budget";
  ReportCandidate hopeful = PrunedCandidate("k_h");
  hopeful.forecast->expected_log2_speedup = 3;
  ReportInput input;
  input.candidates = {rejected, PrunedCandidate("k_p"),      hopeful,
                      failed,   MeasuredCandidate("k_1", 1), MeasuredCandidate("k_2", 2)};
  CHECK(DisplayOrder(input) == std::vector<size_t>{5, 4, 3, 2, 1, 0});
}

TEST_CASE(
    "Facts come once for the reference and for each candidate, by the names of their schema") {
  const ReportInput input = SampleReport(5);
  const Json json = Json::parse(ReportDataJson(input, Analyze(input)));
  const size_t names = json["facts"]["names"].size();
  CHECK(names > 10);
  CHECK(json["facts"]["reference"].size() == names);
  CHECK(json["candidates"][0]["facts"].size() == names);
}

}  // namespace
}  // namespace kernelcast::cli
