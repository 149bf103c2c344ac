// Candidates that call cuBLAS, as a user would for comparison.

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "tests/gpu/gpu_fixture.h"

namespace kernelcast::testing {
namespace {

// The reason to skip, if any.
std::optional<std::string> NoCublas() {
  if (auto reason = NoGpu(); reason) {
    return reason;
  }
  const auto toolkit = worker::FindCudaToolkit(worker::CudaHomes("", ProgramFolder()));
  if (!toolkit.ok() || toolkit->cublas_library.empty()) {
    return "the CUDA toolkit has no libcublas";
  }
  return std::nullopt;
}

TEST_CASE("Candidates that call cuBLAS are verified and timed like others") {
  if (const auto reason = NoCublas(); reason) {
    std::printf("skipped: %s\n", reason->c_str());
    SUCCEED("skipped: " << *reason);
    return;
  }
  const auto [name, file] =
      GENERATE(std::pair{"matmul", "cublas.cu"}, std::pair{"matmul_bf16", "cublas.cu"},
               std::pair{"matmul_fp8", "cublas_lt.cu"});
  GpuFixture fixture(absl::StrCat("examples/problems/", name), worker::CudaMeasureOptions());
  Candidate candidate = fixture.MakeCandidate(
      ReadFile(SourcePath(absl::StrCat("examples/candidates/", name, "/", file))).value());
  candidate.kind = CandidateKind::kHostNative;
  candidate.launches.clear();
  candidate.candidate_id = CandidateId(candidate);
  const Measurement measurement = fixture.Measure(candidate);
  const std::string feedback = MeasurementFeedback(measurement);
  std::printf("%s: %s\n", name, feedback.c_str());
  INFO(feedback);
  const Ratio* const speedup = MeasuredSpeedup(measurement);
  REQUIRE(speedup != nullptr);
  CHECK(speedup->value > 1);
}

}  // namespace
}  // namespace kernelcast::testing
