// The gate at the end of a search, with the real services, a real compiler and real measurements.
// The kernels differ by factors, so that the result does not depend on a quiet machine.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "tests/e2e/program.h"
#include "tests/support/doubling_problem.h"

namespace kernelcast::testing {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

// The kernel `tuned` takes a tenth of the reference's time at the bench shape and three times as
// long elsewhere; `general` takes a third everywhere.
DoublingProblem TunedProblem() {
  return {.name = "doubled",
          .family = "elementwise",
          .reference_repeats = "60",
          .templates = "  - {name: tuned, file: tuned.cc}\n  - {name: general, file: general.cc}\n",
          .kernels = {{"tuned.cc", DoublingKernel("n == 16384 ? 6 : 180")},
                      {"general.cc", DoublingKernel("20")}}};
}

TEST_CASE("A kernel that is fast at the bench shape alone does not win a search", "[e2e][gate]") {
  const TemporaryFolder home("gate");
  const std::string problem = WriteProblem(home, TunedProblem());
  const std::string report = home.File("r.html");
  std::string search;
  const Outcome outcome = RunUntil(
      home,
      [&](int attempt) {
        search = absl::StrCat("s", attempt);
        return std::vector<std::string>{"search",
                                        problem,
                                        "--json",
                                        "--measure-everything",
                                        "--budget-measurements",
                                        "2",
                                        "--search-id",
                                        search,
                                        "--report",
                                        report};
      },
      [](const Outcome& searched) {
        if (searched.exit_code > 1) return true;
        const json ended = json::parse(searched.out);
        return ended["counts"]["unstable"] == 0 &&
               std::ranges::none_of(ended["search"]["finalists"], [](const json& one) {
                 return one.value("held_out_outcome", "") == "environment_unstable";
               });
      });
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  INFO(summary.dump(1));
  CHECK(summary["best"]["name"] == "general");
  CHECK(summary["best"]["confirmed"] == true);
  REQUIRE(summary["search"]["finalists"].size() == 2);
  const json& general = summary["search"]["finalists"][0];
  const json& tuned = summary["search"]["finalists"][1];
  CHECK(general["candidate_id"] == summary["best"]["candidate"]["candidate_id"]);
  CHECK(general["gate"] == "GATE_CARRIES_OVER");
  CHECK(tuned["gate"] == "GATE_DOES_NOT_CARRY_OVER");
  // Without the gate it would have won.
  CHECK(tuned["speedup"]["value"] > general["speedup"]["value"]);
  CHECK(tuned["held_out_speedup"]["value"] < 1);
  CHECK(general["held_out_speedup"]["value"] > 1);
  CHECK_THAT(ReadFile(report).value(), Contains("does not carry over"));
  CHECK(summary["counts"]["considered"] == 2);

  // The measurements at held-out bench shapes are in the log, and are no candidates of a report.
  const std::string records = home.File("records.jsonl");
  REQUIRE(Run(home, {"export", search, "--sources", "-o", records}).exit_code == 0);
  std::map<std::string, int> by_problem;
  std::ifstream file(records);
  for (std::string line; std::getline(file, line);) {
    ++by_problem[json::parse(line)["candidate"]["problem_id"]];
  }
  CHECK(by_problem.size() == 2);
  const Outcome reported =
      Run(home, {"report", "--records", records, "--json", "-o", home.File("records.html")});
  INFO(reported.err);
  REQUIRE(reported.exit_code == 0);
  CHECK(json::parse(reported.out)["counts"]["considered"] == 2);
}

}  // namespace
}  // namespace kernelcast::testing
