// The gate at the end of a search, with the real services, a real compiler and real measurements.
// The kernels differ by factors, so that the result does not depend on a quiet machine.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/file.h"
#include "tests/e2e/program.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using nlohmann::json;

// Copies its input as often as REPEATS says. The barrier keeps the compiler from merging the
// copies.
std::string CopyKernel(const std::string& repeats) {
  return "#include <kernelcast/candidate.h>\n"
         "extern \"C\" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* "
         "outputs, int32_t, void*) {\n"
         "  const float* x = kc_data<float>(inputs[0]);\n"
         "  float* y = kc_data<float>(outputs[0]);\n"
         "  const int64_t n = inputs[0].shape[0];\n"
         "  const int repeats = " +
         repeats +
         ";\n"
         "  for (int r = 0; r < repeats; ++r) {\n"
         "    for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i];\n"
         "    asm volatile(\"\" ::: \"memory\");\n"
         "  }\n"
         "  return 0;\n}\n";
}

// The kernel `tuned` takes a tenth of the reference's time at the bench shape and three times as
// long elsewhere; `general` takes a third everywhere.
std::map<std::string, std::string> TunedProblem() {
  return {{"problem.yaml", R"(schema: 1
name: doubled
title: Twice a vector
family: elementwise
axes:
  n: {held_out: [1, 100]}
inputs:
  - {name: x, dtype: float32, shape: [n], init: {distribution: normal, mean: 0, stddev: 1}}
outputs:
  - {name: y, dtype: float32, shape: [n], tolerance: {atol: 0, rtol: 1.0e-6, normwise: 1.0e-6}}
oracle: oracle.cc
targets:
  cpu: {reference: reference.cc, space: space/cpu.yaml}
check_shapes: [{n: 7}]
bench_shapes: [{n: 16384}]
held_out_bench_shapes: [{n: 16000}]
)"},
          {"oracle.cc", R"(#include <kernelcast/candidate.h>
extern "C" int32_t kernelcast_run(const DLTensor* inputs, int32_t, const DLTensor* outputs, int32_t,
                                  void*) {
  const float* x = kc_data<float>(inputs[0]);
  double* y = kc_data<double>(outputs[0]);
  for (int64_t i = 0; i < inputs[0].shape[0]; ++i) y[i] = 2.0 * x[i];
  return 0;
}
)"},
          {"reference.cc", CopyKernel("60")},
          {"space/cpu.yaml",
           "schema: 1\ntarget: cpu\ntemplates:\n  - {name: tuned, file: tuned.cc}\n"
           "  - {name: general, file: general.cc}\n"},
          {"space/tuned.cc", CopyKernel("n == 16384 ? 6 : 180")},
          {"space/general.cc", CopyKernel("20")}};
}

TEST_CASE("A kernel that is fast at the bench shape alone does not win a search", "[e2e][gate]") {
  const TemporaryFolder home("gate");
  const std::string problem = home.File("problems/doubled");
  for (const auto& [path, content] : TunedProblem()) {
    fs::create_directories((fs::path(problem) / path).parent_path());
    std::ofstream(fs::path(problem) / path, std::ios::binary) << content;
  }
  const std::string report = home.File("r.html");
  const Outcome outcome =
      Program(home, {"search", problem, "--json", "--measure-everything", "--budget-measurements",
                     "2", "--search-id", "s", "--report", report})
          .Wait(900);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 0);
  const json summary = json::parse(outcome.out);
  INFO(summary.dump(1));
  CHECK(summary["best"]["name"] == "general");
  CHECK(summary["best"]["confirmed"] == true);
  REQUIRE(summary["held_out"].size() == 2);
  const json& general = summary["held_out"][0];
  const json& tuned = summary["held_out"][1];
  CHECK(general["candidate_id"] == summary["best"]["candidate_id"]);
  CHECK(general["gate"] == "carries_over");
  CHECK(tuned["gate"] == "does_not_carry_over");
  // Without the gate it would have won.
  CHECK(tuned["speedup"]["value"] > general["speedup"]["value"]);
  CHECK(tuned["held_out_speedup"]["value"] < 1);
  CHECK(general["held_out_speedup"]["value"] > 1);
  CHECK_THAT(ReadFile(report).value(), Contains("does not carry over"));
  CHECK(summary["counts"]["considered"] == 2);

  // The measurements at held-out bench shapes are in the log, and are no candidates of a report.
  const std::string records = home.File("records.jsonl");
  REQUIRE(Run(home, {"export", "s", "--sources", "-o", records}).exit_code == 0);
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
