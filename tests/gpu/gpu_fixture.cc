#include "tests/gpu/gpu_fixture.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/support/kernel_examples.h"

namespace kernelcast::testing {
namespace {

// A measurement is repeated if other work on the node disturbs it.
constexpr int kAttempts = 6;

worker::CudaTargetOptions Options(const std::string& cache_directory) {
  worker::CudaTargetOptions options;
  options.program_folder = ProgramFolder();
  options.cache_directory = cache_directory;
  options.compile_processes = 2;
  options.worker_id = "worker-under-test";
  options.untrusted_uid = 65534;
  options.python = PythonOfTests("triton");
  options.include_directories = CandidateHeaders();
  return options;
}

}  // namespace

Problem LoadGpuProblem(const std::string& folder) {
  auto files = ReadProblemFolder(SourcePath(folder));
  INFO(files.status().ToString());
  REQUIRE(files.ok());
  auto problem = ParseProblem(*std::move(files));
  INFO(problem.status().ToString());
  REQUIRE(problem.ok());
  return *std::move(problem);
}

namespace {

const worker::TargetInfo& ThisMachine() {
  static const auto* const info = [] {
    const TemporaryFolder folder("gpu-probe");
    const auto target = worker::CudaTarget::Make(Options(folder.path().string()));
    if (target.ok()) return new worker::TargetInfo((*target)->Describe());
    auto* const none = new worker::TargetInfo();
    none->unavailable_reason = target.status().ToString();
    return none;
  }();
  return *info;
}

}  // namespace

std::optional<std::string> NoGpu() {
  // Comes first because a worker needs a second to find out that there is no GPU.
  if (access("/dev/nvidiactl", F_OK) != 0 && access("/dev/dxg", F_OK) != 0) {
    return "no driver of NVIDIA: neither /dev/nvidiactl nor /dev/dxg exists";
  }
  const worker::TargetInfo& info = ThisMachine();
  return info.can_measure ? std::nullopt : std::make_optional(info.unavailable_reason);
}

std::optional<std::string> NoCounters() {
  if (auto reason = NoGpu(); reason) return reason;
  const worker::TargetInfo info = CopyFixture().target().Describe();
  return info.hardware_counters ? std::nullopt : std::optional(info.unavailable_reason);
}

GpuFixture& CopyFixture() {
  static GpuFixture fixture("tests/gpu/candidates/cuda_copy", worker::CudaMeasureOptions());
  return fixture;
}

worker::MeasureOptions ShortLimits() {
  worker::MeasureOptions options = worker::CudaMeasureOptions();
  options.min_call_limit_ns = 1'000'000'000;
  options.max_call_limit_ns = 2'000'000'000;
  return options;
}

std::optional<std::string> MissingTool(const std::string& what) {
  for (const std::string& missing : ThisMachine().missing_tools) {
    if (missing.starts_with(what)) return missing;
  }
  return std::nullopt;
}

GpuFixture::GpuFixture(const std::string& problem_folder, worker::MeasureOptions options)
    : GpuFixture(LoadGpuProblem(problem_folder), std::move(options)) {}

GpuFixture::GpuFixture(Problem problem, worker::MeasureOptions options)
    : folder_("gpu"), problem_(std::move(problem)) {
  worker::CudaTargetOptions with = Options(folder_.path().string());
  with.measure = std::move(options);
  auto target = worker::CudaTarget::Make(std::move(with));
  INFO(target.status().ToString());
  REQUIRE(target.ok());
  target_ = *std::move(target);
  INFO(target_->Describe().unavailable_reason);
  REQUIRE(target_->Describe().can_measure);
}

Candidate GpuFixture::MakeCandidate(const std::string& body,
                                    const std::vector<std::pair<std::string, std::string>>& defines,
                                    std::vector<Launch> launches) const {
  Candidate candidate = ReferenceCandidate(problem_, kCudaTargetName).value();
  candidate.source.clear();
  for (const auto& [name, value] : defines) {
    absl::StrAppend(&candidate.source, "#define ", name, " ", value, "\n");
  }
  absl::StrAppend(&candidate.source, body);
  if (!launches.empty()) {
    candidate.launches = std::move(launches);
  }
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

Artifact GpuFixture::Compile(const Candidate& candidate) {
  auto compiled = target_->Compile({problem_, &candidate}, worker::CancelToken());
  INFO(compiled.status().ToString());
  REQUIRE(compiled.ok());
  if (const auto* error = std::get_if<CompileError>(&compiled->result)) {
    FAIL("does not compile: " << error->log);
  }
  return std::get<worker::CompileSuccess>(compiled->result).artifact;
}

Measurement GpuFixture::Measure(const Candidate& candidate, MeasureLevel level) {
  const Artifact artifact = Compile(candidate);
  for (int attempt = 1;; ++attempt) {
    auto measurement =
        target_->Measure({problem_, candidate, artifact, level}, worker::CancelToken());
    INFO(measurement.status().ToString());
    REQUIRE(measurement.ok());
    if (!std::holds_alternative<EnvironmentUnstable>(measurement->outcome) || attempt == kAttempts)
      return *std::move(measurement);
    std::printf("measured again: %s\n", MeasurementFeedback(*measurement).c_str());
  }
}

absl::StatusOr<Measurement> GpuFixture::TryMeasure(const Candidate& candidate, MeasureLevel level) {
  return target_->Measure({problem_, candidate, Compile(candidate), level}, worker::CancelToken());
}

worker::Profile GpuFixture::Profile(const Candidate& candidate) {
  auto profile =
      target_->ProfileCandidate({problem_, candidate, Compile(candidate)}, worker::CancelToken());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *std::move(profile);
}

}  // namespace kernelcast::testing
