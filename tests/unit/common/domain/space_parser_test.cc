#include "common/domain/space_parser.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "common/domain/problem.h"
#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

using FileMap = std::map<std::string, std::string>;

TEST_CASE("A space has at most a million points", "[problem]") {
  const auto values = [](int count) {
    std::string list = "[0";
    for (int i = 1; i < count; ++i) list += ", " + std::to_string(i);
    return list + "]";
  };
  CHECK_THAT(ProblemError(WithReplaced("space/cpu.yaml", "[1, 2, 4]",
                                       values(1000) + "\n      MORE: " + values(1000))),
             StartsWith("space/cpu.yaml:4: templates[0]: the space has more than 1000000 points"));
  std::string many;
  for (int i = 0; i < 29; ++i) many += "\n      T" + std::to_string(i) + ": " + values(1000);
  CHECK_THAT(ProblemError(WithReplaced("space/cpu.yaml", "[1, 2, 4]", "[1]" + many)),
             StartsWith("space/cpu.yaml:4: templates[0]: the space has more than 1000000 points"));
  CHECK_THAT(ProblemError(WithReplaced("space/cpu.yaml", "[1, 2, 4]", values(1025))),
             StartsWith("space/cpu.yaml:8: templates[0].tunables.UNROLL: 1025 entries; from 1"));
}

TEST_CASE("Every candidate of a valid space is valid", "[problem]") {
  CheckEdits("space/cpu.yaml", {{"name: plain", "name: 2plain",
                                 "4: templates[0].name: '2plain' does not begin with a letter"}});
  FileMap files = SmallProblem();
  std::string long_name(64, 'N');
  std::string long_value(64, 'v');
  std::string yaml = "schema: 1\ntarget: cpu\ntemplates:\n  - name: " + std::string(64, 'n') +
                     "\n    file: plain.cc\n    tunables:\n";
  for (int i = 10; i < 42; ++i) {
    yaml += "      " + long_name.substr(2) + std::to_string(i) + ": [" + long_value + "]\n";
  }
  yaml += "    flags: [[], [-O2]]\n";
  files["space/cpu.yaml"] = yaml;
  files["space/plain.cc"].assign((1 << 20) - (8 << 10), ' ');
  files.erase("space/sub/bare.cc");
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  const Candidate candidate = CandidateFromPoint(*problem->targets.at("cpu").space,
                                                 {0, std::vector<int>(33, 0)}, problem->problem_id);
  CHECK(candidate.tunables.size() == 34);
  CHECK(ValidateCandidate(candidate).ok());
  files["space/plain.cc"].push_back(' ');
  CHECK_THAT(ProblemError(files), Contains("has 1040385 bytes; at most 1040384 are allowed"));
}

TEST_CASE("The number of constraints of a large space is limited", "[problem]") {
  std::string values = "[1";
  for (int i = 2; i <= 1000; ++i) values += ", " + std::to_string(i);
  FileMap files = WithReplaced("space/cpu.yaml", "[1, 2, 4]", values + "]");
  std::string constraints = "constraints: [";
  for (int i = 0; i < 30; ++i) constraints += "UNROLL > 0, ";
  std::string& yaml = files["space/cpu.yaml"];
  yaml.replace(yaml.find("constraints: ["), 14, constraints);
  yaml.replace(yaml.find("[4, 8]"), 6, values.substr(0, values.find(", 41,")) + "]");
  CHECK_THAT(ProblemError(files),
             StartsWith("space/cpu.yaml:4: templates[0]: more than 4000000 points "
                        "times constraints in the space"));
}

TEST_CASE("Constraints that are slow to evaluate are limited", "[problem]") {
  std::string values = "[1";
  for (int i = 2; i <= 900; ++i) values += ", " + std::to_string(i);
  values += "]";
  FileMap files = WithReplaced("space/cpu.yaml", "UNROLL: [1, 2, 4]\n      LANES: [4, 8]",
                               "UNROLL: " + values + "\n      LANES: [4, 8]\n      MORE: " +
                                   values.substr(0, values.find(", 101,")) + "]");
  std::string& yaml = files["space/cpu.yaml"];
  yaml.replace(yaml.find("mod(LANES, UNROLL) == 0"), 23, "UNROLL > 10000");
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  CHECK(problem.ok());
}

// Writes a problem with random contents as YAML and checks that parsing gives it back.

TEST_CASE("Mistakes in a Triton template are named", "[problem][cuda]") {
  CheckEdits(
      "space/cuda.yaml",
      {{"num_warps: WARPS", "num_warps: 3",
        "15: templates[0].launches[0].num_warps: '3' is not a power of two from 1 to 32, or the "
        "name "
        "of a tunable"},
       {"num_warps: WARPS", "num_warps: WARP",
        "15: templates[0].launches[0].num_warps: 'WARP' is not"},
       {"WARPS: [2, 4, 8]", "WARPS: [2, 4, 64]",
        "15: templates[0].launches[0].num_warps: '64' is not a power of two from 1 to 32"},
       {"num_stages: 3", "num_stages: 17",
        "16: templates[0].launches[0].num_stages: '17' is not a number from 1 to 16, or the name "
        "of a "
        "tunable"},
       {"BLOCK: BLOCK", "BLOCK: BLOK", "14: templates[0].launches[0].constexprs.BLOCK: "},
       {"        grid: [rows]\n", "        grid: [rows]\n        block: [32]\n",
        "13: templates[0].launches[0]: "},
       {"    file: rows.py\n", "    file: rows.py\n    flags: [[-O3]]\n", "6: templates[0]: "}},
      SmallTritonProblem());
}

}  // namespace
}  // namespace kernelcast
