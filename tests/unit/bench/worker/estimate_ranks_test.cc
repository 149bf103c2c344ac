#include "tests/bench/worker/estimate_ranks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace kernelcast::testing {
namespace {

ComparedExample Compared(const std::string& task, std::vector<double> measured_ns,
                         std::vector<double> estimated_ns,
                         std::vector<double> estimated_reference_ns) {
  ComparedExample example;
  example.measured.task = task;
  example.measured.outcome = "ok";
  example.measured.reference_ns.assign(measured_ns.size(), 8000);
  example.measured.candidate_ns = std::move(measured_ns);
  example.estimated = {std::move(estimated_ns), std::move(estimated_reference_ns)};
  return example;
}

TEST_CASE("Estimates are ranked within their task", "[bench]") {
  const std::vector<ComparedExample> compared = {
      Compared("b", {1000}, {500}, {4000}),
      Compared("b", {2000}, {3000}, {4000}),
      Compared("b", {4000}, {2000}, {4000}),
      // Not estimated.
      Compared("b", {4000}, {}, {}),
      // The first of two shapes was estimated, and the reference was not.
      Compared("a", {16000, 1}, {8000}, {}),
      Compared("a", {8000}, {4000}, {}),
      // A crash.
      Compared("a", {}, {8000}, {8000}),
  };
  const std::vector<TaskRanks> ranks = RankTasks(compared);
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0].task == "a");
  CHECK(ranks[0].measured_log2_ns == std::vector<double>{std::log2(16000), std::log2(8000)});
  CHECK(ranks[0].log2_errors.empty());
  CHECK(std::isnan(ranks[0].Spearman()));
  CHECK(ranks[1].measured_log2_ns.size() == 3);
  // Two of three places are exchanged: 1 - 6 * 2 / (3 * 8).
  CHECK(ranks[1].Spearman() == Approx(0.5));
  // The first is estimated at 8x and measured at 8x, the last at 2x and measured at 2x.
  CHECK(ranks[1].log2_speedups[0] == Approx(3));
  CHECK(ranks[1].log2_errors[0] == Approx(0).margin(1e-9));
  CHECK(ranks[1].log2_errors[1] == Approx(std::log2(4.0 / 3) - 2));
  CHECK(ranks[1].log2_errors[2] == Approx(-0).margin(1e-9));
}

TEST_CASE("Measured examples are read as they are written", "[bench]") {
  MeasuredExample measured{"python",      "gpu_mode/prefix_sum", "cumsum",    "ok",
                           "NVIDIA H200", {1500.5, 2e6},         {1000, 3e6}, {9000, 2.1e6}};
  const std::string line = ToJsonLine(measured);
  const auto read = ParseMeasuredExamples(line + "\n\n" + line + "\n");
  INFO(read.status().ToString());
  REQUIRE(read.ok());
  REQUIRE(read->size() == 2);
  CHECK(ToJsonLine((*read)[1]) == line);
  CHECK((*read)[1].candidate_ns == measured.candidate_ns);

  measured.reference_ns.pop_back();
  for (const std::string& bad :
       {std::string("[]"), std::string("{"), std::string("{}"), ToJsonLine(measured)}) {
    INFO(bad);
    const auto status = ParseMeasuredExamples(line + "\n" + bad).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Catch::StartsWith("line 2: "));
  }
}

}  // namespace
}  // namespace kernelcast::testing
