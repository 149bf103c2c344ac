// TileLang kernels, right and wrong, on a GPU.

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/support/kernel_examples.h"

namespace kernelcast::testing {
namespace {

TEST_CASE("The TileLang examples are correct, and wrong ones are found") {
  KERNELCAST_NEEDS_GPU();
  if (const auto missing = MissingTool("no TileLang candidates"); missing) {
    std::printf("skipped: %s\n", missing->c_str());
    SUCCEED("skipped: " << *missing);
    return;
  }
  struct Mistake {
    const char* problem;
    const char* from;
    const char* to;
  };
  const std::vector<Mistake> mistakes = {
      {"row_softmax", "/ total[0]", "/ (total[0] + 1.0)"},
      // At the timed shape only.
      {"row_softmax", "T.clear(total)\n            for part in T.serial(T.ceildiv(cols, width)",
       "T.clear(total)\n            for part in T.serial(T.ceildiv(cols, width) - "
       "int(isinstance(cols, int))"},
      {"matmul_bf16", "T.ceildiv(k, TILE_K)", "T.ceildiv(k - TILE_K, TILE_K)"},
  };
  for (const KernelExample& example : ReadKernelExamples(SourcePath("examples/tilelang"))) {
    GpuFixture fixture(absl::StrCat("examples/problems/", example.problem),
                       worker::CudaMeasureOptions());
    const Measurement measurement = fixture.Measure(example.candidate);
    const std::string feedback = MeasurementFeedback(measurement);
    std::printf("%s: %s\n", example.problem.c_str(), feedback.c_str());
    INFO(example.problem << ": " << feedback);
    CHECK(std::holds_alternative<MeasuredOk>(measurement.outcome));
    for (const Mistake& mistake : mistakes) {
      if (mistake.problem != example.problem) continue;
      Candidate candidate = example.candidate;
      const size_t at = candidate.source.find(mistake.from);
      REQUIRE(at != std::string::npos);
      candidate.source.replace(at, std::string(mistake.from).size(), mistake.to);
      candidate.candidate_id = CandidateId(candidate);
      const Measurement wrong = fixture.Measure(candidate);
      std::printf("%s: %s\n", mistake.to, MeasurementFeedback(wrong).c_str());
      INFO(mistake.to << ": " << MeasurementFeedback(wrong));
      CHECK(std::holds_alternative<WrongResult>(wrong.outcome));
    }
  }
}

}  // namespace
}  // namespace kernelcast::testing
