#include "services/cli/report/data_json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

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
  CHECK(json["schema"] == "kernelcast-report/1");
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
  CHECK(json["facts"]["reference"].size() == names);
  CHECK(json["candidates"][0]["facts"].size() == names);
}

}  // namespace
}  // namespace kernelcast::cli
