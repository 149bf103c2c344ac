#include "tests/integration/worker/cpu_fixture.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace kernelcast::testing {

// Called on any thread, where Catch's assertions are not allowed. Throws if the file is missing.
std::string SourceFile(const std::string& path) {
  return ReadFile(absl::StrCat(KERNELCAST_SOURCE_DIR, "/", path)).value();
}

Problem LoadProblem(const std::string& folder) {
  auto files = ReadProblemFolder(std::filesystem::path(KERNELCAST_SOURCE_DIR) / folder);
  INFO(folder << ": " << files.status().ToString());
  REQUIRE(files.ok());
  auto problem = ParseProblem(*std::move(files));
  INFO(problem.status().ToString());
  REQUIRE(problem.ok());
  return *std::move(problem);
}

worker::CpuTargetOptions CpuFixture::Options(const std::string& cache_directory) {
  worker::CpuTargetOptions options;
  options.cache_directory = cache_directory;
  options.include_directories = {absl::StrCat(KERNELCAST_SOURCE_DIR, "/common/candidate_abi")};
  options.worker_id = "worker-under-test";
  options.lease_file = TimingLeaseFile();
  options.runner.path = absl::StrCat(KERNELCAST_BIN_DIR, "/kernelcast-runner");
  options.runner.max_memory_bytes = int64_t{128} << 20;
  options.runner.uid = 65534;
  options.measure.min_call_limit_ns = 1'000'000'000;
  options.measure.load_limit_ns = 2'000'000'000;
  return options;
}

CpuFixture::CpuFixture(const std::string& problem_folder,
                       const std::function<void(worker::CpuTargetOptions&)>& change)
    : folder_("cpu-target"), problem_(LoadProblem(problem_folder)) {
  worker::CpuTargetOptions options = Options(folder_.path().string());
  if (change) {
    change(options);
  }
  auto target = worker::CpuTarget::Make(std::move(options));
  INFO(target.status().ToString());
  REQUIRE(target.ok());
  target_ = *std::move(target);
  INFO(target_->Describe().unavailable_reason);
  REQUIRE(target_->Describe().can_measure);
}

Candidate CpuFixture::MakeCandidate(const std::string& source,
                                    std::vector<std::string> flags) const {
  Candidate candidate;
  candidate.problem_id = problem_.problem_id;
  candidate.target = "cpu";
  candidate.source = source;
  candidate.flags = std::move(flags);
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

Candidate CpuFixture::Load(const std::string& name,
                           const std::vector<std::pair<std::string, std::string>>& defines) const {
  std::string source;
  for (const auto& [macro, value] : defines) {
    absl::StrAppend(&source, "#define ", macro, " ", value, "\n");
  }
  absl::StrAppend(&source,
                  SourceFile(absl::StrCat("tests/candidates/iterated_map/candidates/", name)));
  return MakeCandidate(source);
}

Measurement CpuFixture::Measure(const Candidate& candidate, MeasureLevel level) {
  const worker::CancelToken cancel;
  auto compiled = target_->Compile({problem_, &candidate}, cancel);
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  if (const auto* error = std::get_if<CompileError>(&compiled->result)) {
    FAIL("does not compile: " << error->log);
  }
  auto measurement = target_->Measure(
      {problem_, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact, level},
      cancel);
  INFO(measurement.status().ToString());
  REQUIRE(measurement.ok());
  return *std::move(measurement);
}

CompileError CpuFixture::CompileFailure(const Candidate& candidate) {
  auto compiled = target_->Compile({problem_, &candidate}, worker::CancelToken());
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  REQUIRE(std::holds_alternative<CompileError>(compiled->result));
  return std::get<CompileError>(compiled->result);
}

}  // namespace kernelcast::testing
