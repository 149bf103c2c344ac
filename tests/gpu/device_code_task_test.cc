// Device code in PyTorch tasks on a GPU: right and wrong kernels in CUDA and Triton.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/domain/expected_verdicts.h"
#include "services/worker/core/verdict.h"
#include "tests/gpu/task_fixture.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/verdict_trials.h"

namespace kernelcast::testing {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

const std::string kLinear = "examples/tasks/kernelbench/device_code/linear_relu/";
const std::string kClamped = "examples/tasks/gpu_mode/clamped_add/device_code/";

Problem LoadTask(const std::string& path) {
  return ParseProblem(ReadProblemFolder(SourcePath("examples/tasks/" + path)).value()).value();
}

// An example, with replacements in its source.
Candidate Example(const TaskFixture& task, const std::string& file, const Texts& replaced = {}) {
  Candidate candidate = ReadExampleCandidate(SourcePath(file), task.MakeCandidate("").problem_id);
  for (const auto& [from, to] : replaced) {
    REQUIRE(absl::StrReplaceAll({{from, to}}, &candidate.source) > 0);
  }
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

std::vector<std::string> OperationFolders() {
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("examples/operations"))) {
    if (entry.is_directory()) folders.push_back(entry.path().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

Measurement Check(TaskFixture& task, const std::string& name, const Candidate& candidate,
                  const std::set<std::string>& outcomes,
                  MeasureLevel level = MeasureLevel::kScreen) {
  Measurement measurement = task.gpu().Measure(candidate, level);
  const std::string outcome(OutcomeName(measurement.outcome));
  const std::string feedback = MeasurementFeedback(measurement);
  std::printf("%s: %s, %.1f ms on the device: %s\n", name.c_str(), outcome.c_str(),
              1e-6 * static_cast<double>(measurement.device_time_ns), feedback.c_str());
  std::fflush(stdout);
  INFO(name << ": " << feedback);
  CHECK(outcomes.contains(outcome));
  return measurement;
}

void CheckGraphs(const Measurement& measurement) {
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  for (const ShapeTiming& shape : ok->shapes) {
    REQUIRE(shape.eager);
    CHECK(shape.eager->no_graph_reason.empty());
  }
}

TEST_CASE("Device code for a KernelBench task with weights gets the right verdicts") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture task(LoadTask("kernelbench/linear_relu.py"));
  for (const std::string file : {"tiled.cu", "blocked.py"}) {
    CheckGraphs(Check(task, file, Example(task, kLinear + file), {"ok"}));
    CheckGraphs(
        Check(task, file + ", final", Example(task, kLinear + file), {"ok"}, MeasureLevel::kFinal));
  }
  Check(task, "CUDA without the bias",
        Example(task, kLinear + "tiled.cu", {{"sum + bias[column]", "sum"}}), {"wrong_result"});
  Check(task, "CUDA without the last tile",
        Example(task, kLinear + "tiled.cu",
                {{"row < rows && column < outputs", "column < outputs - 16"}}),
        {"wrong_result"});
  Check(task, "Triton without relu",
        Example(task, kLinear + "blocked.py", {{"tl.maximum(total, 0.0)", "total"}}),
        {"wrong_result"});
  Check(task, "CUDA that writes a weight",
        Example(task, kLinear + "tiled.cu",
                {{"  float sum = 0;", "  const_cast<float*>(weight)[0] = 0;\n  float sum = 0;"}}),
        {"crash"});
  Check(task, "CUDA that remembers results",
        Example(task, kLinear + "tiled.cu",
                {{"constexpr int kTile = 16;",
                  "constexpr int kTile = 16;\n__device__ float kept[1 << 17];\n"
                  "__device__ int calls;"},
                 {"fmaxf(sum + bias[column], 0);",
                  "calls > 40 ? kept[row * outputs + column]\n"
                  "      : (kept[row * outputs + column] = fmaxf(sum + bias[column], 0));\n"
                  "  if (row == 0 && column == 0) ++calls;"}}),
        {"wrong_result", "exploit"});
  // The runner goes on.
  Check(task, "CUDA again", Example(task, kLinear + "tiled.cu"), {"ok"});
}

TEST_CASE("Points of the operations' spaces get their expected verdicts") {
  KERNELCAST_NEEDS_TASKS();
  const auto folder = GENERATE(from_range(OperationFolders()));
  const Problem problem = ParseProblem(ReadProblemFolder(folder).value()).value();
  const Space& space = *problem.targets.at(std::string(kCudaTargetName)).space;
  const auto verdicts = ReadExpectedVerdicts(folder, space);
  INFO(verdicts.status().ToString());
  REQUIRE(verdicts.ok());
  TaskFixture task(problem);
  for (const VerdictTrial& trial : VerdictTrials(problem, space, **verdicts, 2)) {
    const std::set<std::string> allowed =
        trial.expected == ExpectedVerdict::kRace
            ? std::set<std::string>{"ok", "wrong_result"}
            : std::set<std::string>{std::string(Name(trial.expected))};
    Check(task, trial.description, trial.candidate, allowed);
  }
}

TEST_CASE("The reference's own time decides about device code as about Python") {
  KERNELCAST_NEEDS_TASKS();
  const char* const kSource =
      "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
      "        return x * 2\ndef get_inputs():\n    return [torch.randn(4096, 4096)]\n"
      "def get_init_inputs():\n    return []\n";
  TaskFixture task(MakeTask(kSource));
  Candidate candidate = task.MakeCandidate(
      "extern \"C\" __global__ void twice(const float4* x, float4* y, int n) {\n"
      "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) { const float4 v = x[i]; y[i] = {2 * v.x, 2 * v.y, 2 * v.z, 2 * v.w}; }\n}\n");
  candidate.kind = CandidateKind::kDeviceCuda;
  candidate.launches = {{.kernel = "twice",
                         .grid = {"ceildiv(x_numel, 1024)"},
                         .block = {"256"},
                         .shared_memory_bytes = "",
                         .arguments = {"x", "output0", "x_numel / 4:int"},
                         .cluster = {}}};
  candidate.candidate_id = CandidateId(candidate);
  const Measurement device = Check(task, "twice in CUDA", candidate, {"ok"}, MeasureLevel::kFinal);
  const Measurement python = task.Measure(
      absl::StrReplaceAll(kSource, {{"class Model(", "class ModelNew("}}), MeasureLevel::kFinal);
  const auto* const of_device = std::get_if<MeasuredOk>(&device.outcome);
  const auto* const of_python = std::get_if<MeasuredOk>(&python.outcome);
  REQUIRE(of_device != nullptr);
  REQUIRE(of_python != nullptr);
  std::printf("twice: CUDA %.3f, PyTorch %.3f\n", of_device->speedup.value,
              of_python->speedup.value);
  // Both move the same bytes, so that neither can be much faster.
  CHECK(of_device->speedup.value == Approx(of_python->speedup.value).epsilon(0.05));
}

TEST_CASE("Device code for a GPU MODE task gets the right verdicts") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture task(LoadTask("gpu_mode/clamped_add"));
  Check(task, "clamped_add", Example(task, kClamped + "grid_stride.cu"), {"ok"});
  Check(task, "clamped_add with other bounds",
        Example(task, kClamped + "grid_stride.cu", {{", -1), 1)", ", -0.5f), 0.5f)"}}),
        {"wrong_result"});
  // It may write the copy of an input that the reference changes, and no other.
  Candidate through = Example(task, kClamped + "grid_stride.cu");
  through.launches[0].arguments[2] = "data_2";
  Check(task, "clamped_add to the input", through, {"wrong_result"});
  through.launches[0].arguments[2] = "data_1";
  Check(task, "clamped_add to an operand", through, {"crash"});
}

TEST_CASE("Device code in a task is profiled on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture task(LoadTask("kernelbench/linear_relu.py"));
  const worker::Profile profile = task.gpu().Profile(Example(task, kLinear + "tiled.cu"));
  std::printf("profile: %s\n", profile.unavailable_reason.c_str());
  REQUIRE(profile.shapes.size() == 1);
  if (profile.unavailable_reason.empty()) {
    REQUIRE_FALSE(profile.shapes[0].kernels.empty());
    CHECK_THAT(profile.shapes[0].kernels[0].name, Catch::Contains("linear_relu"));
  }
}

}  // namespace
}  // namespace kernelcast::testing
