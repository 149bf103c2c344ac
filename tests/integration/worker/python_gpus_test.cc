// Python candidates on the fake driver (tests/fakes/cuda/fake_libcuda.cc) with several devices.

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "services/worker/lease/timing_lease.h"
#include "tests/integration/worker/python_fixture.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

using worker::CudaTarget;

// A node with two GPUs of different models.
class Node {
 public:
  Node() : folder_("python-gpus") {
    const std::string library = folder_.File("libcuda.so.1");
    std::filesystem::create_symlink(std::filesystem::path(KERNELCAST_FAKE_DRIVER) / "libcuda.so.1",
                                    library);
    std::ofstream(folder_.File("models")) << "Fake A\nFake B\n";
    // Runners find it by the variable, this process because it is loaded.
    setenv("LD_LIBRARY_PATH", folder_.path().c_str(), 1);
    REQUIRE(dlopen(library.c_str(), RTLD_NOW) != nullptr);
    worker::CudaTargetOptions options;
    options.cuda_home = KERNELCAST_CUDA_HOME;
    options.program_folder = ProgramFolder();
    options.cache_directory = folder_.File("cache");
    options.lease_directory = folder_.path().string();
    options.python = kPython;
    options.python_device = "cpu";
    options.untrusted_uid = 65534;
    auto target = CudaTarget::Make(std::move(options));
    INFO(target.status().ToString());
    REQUIRE(target.ok());
    target_ = *std::move(target);
    const worker::TargetInfo info = target_->Describe();
    INFO(info.unavailable_reason);
    REQUIRE(info.can_measure);
    REQUIRE(info.devices.size() == 2);
  }

  Candidate Number(int number) const {
    Candidate candidate = PythonCandidate(
        problem_, ModelNew(absl::StrCat("        return torch.relu(x) * n  # ", number)));
    candidate.target = "cuda";
    candidate.candidate_id = CandidateId(candidate);
    return candidate;
  }

  worker::CompileSuccess Compile(const std::string& body, bool artifact_only = false) const {
    Candidate candidate = PythonCandidate(problem_, ModelNew(body));
    candidate.target = "cuda";
    candidate.candidate_id = CandidateId(candidate);
    auto compiled = target_->Compile({.problem = problem_,
                                      .candidate = &candidate,
                                      .device_model = "Fake B",
                                      .artifact_only = artifact_only},
                                     worker::CancelToken());
    INFO(compiled.status().ToString());
    REQUIRE(compiled.ok());
    REQUIRE(std::holds_alternative<worker::CompileSuccess>(compiled->result));
    return std::get<worker::CompileSuccess>(std::move(compiled->result));
  }

  // Holds the timing leases of all GPUs, as measurements do.
  std::vector<std::unique_ptr<worker::TimingLease>> Leases() const {
    std::vector<std::unique_ptr<worker::TimingLease>> leases;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      if (file.path().extension() != ".lock") continue;
      leases.push_back(worker::TimingLease::Open(file.path()).value());
    }
    return leases;
  }

  std::optional<size_t> Expect(int number, const worker::DeviceWish& wish = {},
                               MeasureLevel level = MeasureLevel::kScreen) {
    return target_->Expect(problem_, Number(number), level, wish);
  }

  // Requires that its outputs are right. The fake driver's times mean nothing.
  void Measure(int number, size_t device, MeasureLevel level = MeasureLevel::kScreen) {
    const Candidate candidate = Number(number);
    const worker::CancelToken cancel;
    const auto compiled = target_->Compile({problem_, &candidate}, cancel);
    REQUIRE(compiled.ok());
    const auto measured = target_->Measure(
        {problem_, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact, level,
         device},
        cancel);
    INFO(measured.status().ToString());
    REQUIRE(measured.ok());
    INFO(MeasurementFeedback(*measured));
    CHECK(measured->device.model == (device == 0 ? "Fake A" : "Fake B"));
    CHECK_FALSE(std::holds_alternative<WrongResult>(measured->outcome));
    CHECK_FALSE(std::holds_alternative<Crash>(measured->outcome));
    CHECK_FALSE(std::holds_alternative<Timeout>(measured->outcome));
  }

  MeasureOutcome OutcomeOf(const Problem& problem, const std::string& source) {
    Candidate candidate = PythonCandidate(problem, source);
    candidate.target = "cuda";
    candidate.candidate_id = CandidateId(candidate);
    return OutcomeOf(problem, candidate);
  }

  // Why the candidate is refused.
  std::string CompileErrorOf(const Problem& problem, const Candidate& candidate) {
    const auto compiled = target_->Compile({problem, &candidate}, worker::CancelToken());
    if (!compiled.ok()) return std::string(compiled.status().message());
    REQUIRE(std::holds_alternative<CompileError>(compiled->result));
    return std::get<CompileError>(compiled->result).log;
  }

  MeasureOutcome OutcomeOf(const Problem& problem, const Candidate& candidate) {
    const worker::CancelToken cancel;
    const auto compiled = target_->Compile({problem, &candidate}, cancel);
    REQUIRE(compiled.ok());
    const auto measured = target_->Measure(
        {problem, candidate, std::get<worker::CompileSuccess>(compiled->result).artifact,
         MeasureLevel::kScreen, 0},
        cancel);
    INFO(measured.status().ToString());
    REQUIRE(measured.ok());
    INFO(MeasurementFeedback(*measured));
    return measured->outcome;
  }

 private:
  TemporaryFolder folder_;
  Problem problem_ = MakeTask(kReluTask);
  std::unique_ptr<CudaTarget> target_;
};

TEST_CASE("Python candidates are loaded ahead for each GPU of a node") {
  if (!HaveTorch()) return;
  Node node;
  // The first candidate makes the judge read the task's inputs.
  CHECK_FALSE(node.Expect(0));
  node.Measure(0, 1);
  // The GPU with the fewest is next.
  CHECK(node.Expect(1) == 0);
  CHECK(node.Expect(2) == 1);
  CHECK(node.Expect(3) == 0);
  CHECK(node.Expect(4, {.model = "Fake A", .architecture = ""}) == 0);
  CHECK_FALSE(node.Expect(5, {.model = "Fake C", .architecture = ""}));
  node.Measure(1, 0);
  node.Measure(2, 1);
  // Another GPU may take it, for which it is loaded anew.
  node.Measure(3, 1);
  node.Measure(4, 0);
  // A final figure has several processes, and takes all that were loaded.
  const worker::DeviceWish first{.model = "Fake A", .architecture = ""};
  const worker::DeviceWish second{.model = "Fake B", .architecture = ""};
  CHECK(node.Expect(8, first, MeasureLevel::kFinal) == 0);
  CHECK(node.Expect(9, second) == 1);
  CHECK(node.Expect(10, second) == 1);
  node.Measure(8, 0, MeasureLevel::kFinal);
  node.Measure(9, 1);
  node.Measure(10, 1, MeasureLevel::kFinal);
  // None waits any more.
  CHECK(node.Expect(6) == 0);
  CHECK(node.Expect(7) == 1);
}

TEST_CASE("A worker with GPUs records what Python candidates launch while a GPU measures") {
  if (!HaveTorch()) return;
  Node node;
  const auto leases = node.Leases();
  REQUIRE(leases.size() == 2);
  std::vector<worker::TimingLease::Held> held;
  for (const auto& lease : leases) held.push_back(lease->Acquire(worker::CancelToken()).value());
  const auto launches = [&](const std::string& body) {
    const worker::CompileSuccess compiled = node.Compile(body);
    REQUIRE(compiled.facts.simulations.size() == 1);
    return compiled.facts.simulations[0].launches;
  };
  const auto recorded = launches("        return torch.relu(x) * n");
  REQUIRE(recorded.size() == 1);
  CHECK(recorded[0].not_covered.empty());
  CHECK_FALSE(recorded[0].values.empty());
  const auto not_recorded = launches("        return x * x.sum().item()");
  REQUIRE(not_recorded.size() == 1);
  CHECK_THAT(not_recorded[0].not_covered, Catch::Contains("reads values of a tensor"));
  // A candidate that is only measured does not wait for it.
  const worker::CompileSuccess artifact = node.Compile("        return torch.relu(x) * n", true);
  CHECK(artifact.facts.simulations.empty());
  CHECK(artifact.artifact.content ==
        node.Compile("        return torch.relu(x) * n").artifact.content);
}

// 2 x + 1 as a real kernel, which the fake driver takes for an affine one with these options.
Candidate RealKernel(const Problem& problem, const std::string& options) {
  Candidate candidate;
  candidate.problem_id = problem.problem_id;
  candidate.target = "cuda";
  candidate.kind = CandidateKind::kDeviceCuda;
  candidate.source = absl::StrCat(
      R"(extern "C" __device__ const char fake[] = "fake cubin\nkernel map affine )", options,
      R"(\nend\n";
extern "C" __global__ void map(const float* x, float* y, long long n) {
  for (long long i = threadIdx.x; i < n; i += blockDim.x) y[i] = 2 * x[i] + 1;
  if (n < 0) y[0] = fake[threadIdx.x];
}
)");
  candidate.launches = {{.kernel = "map",
                         .grid = {"1"},
                         .block = {"256"},
                         .shared_memory_bytes = "",
                         .arguments = {"x", "output0", "x_numel"},
                         .cluster = {}}};
  candidate.candidate_id = CandidateId(candidate);
  return candidate;
}

TEST_CASE("A worker compiles device code for a task and judges it on a GPU") {
  if (!HaveTorch()) return;
  Node node;
  const Problem task = MakeTask(
      "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
      "        return 2 * x + 1\ndef get_inputs():\n    return [torch.randn(64, 96)]\n"
      "def get_init_inputs():\n    return []\n");
  const MeasureOutcome right =
      node.OutcomeOf(task, RealKernel(task, "scale=2 add=1 ns=100000 jitter=0.01"));
  CHECK_FALSE(std::holds_alternative<WrongResult>(right));
  CHECK_FALSE(std::holds_alternative<Crash>(right));
  CHECK(
      std::holds_alternative<WrongResult>(node.OutcomeOf(task, RealKernel(task, "scale=3 add=1"))));
  // The names and forms of launches are checked when it is compiled.
  Candidate candidate = RealKernel(task, "scale=2 add=1");
  candidate.launches[0].arguments[0] = "input";
  CHECK_THAT(node.CompileErrorOf(task, candidate),
             Catch::Contains("'input' is not one of x, output0"));
  candidate.launches[0].arguments = {"x", "output0", "x_numel:int"};
  CHECK_THAT(node.CompileErrorOf(task, candidate), Catch::Contains("kernel 'map'"));
  candidate.kind = CandidateKind::kHostNative;
  candidate.launches.clear();
  CHECK_THAT(node.CompileErrorOf(task, candidate),
             Catch::Contains("a task takes candidates of kind python, and device code"));
}

// KernelBench tasks that sum rows, whose inputs are what `inputs` returns.
Problem RowSums(const std::string& inputs) {
  return MakeTask(absl::StrCat(R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return x.cumsum(1)

def get_inputs():
    )",
                               inputs, R"(

def get_init_inputs():
    return []
)"));
}

TEST_CASE("New values on a GPU are new where a task seeds itself, and keep their structure") {
  if (!HaveTorch()) return;
  Node node;
  const auto candidate = [](const std::string& body) {
    return absl::StrCat(
        "import torch\nimport torch.nn as nn\n\nclass ModelNew(nn.Module):\n    def forward(self, "
        "x):\n        ",
        body, "\n");
  };
  const std::string keeps_first =
      "if not hasattr(self, 'o'): self.o = x.cumsum(1)\n        return self.o";
  const std::string needs_order =
      "assert bool((x.diff(dim=1) >= 0).all())\n        return x.cumsum(1)";
  for (const char* const inputs :
       {"torch.manual_seed(0); return [torch.randn(64, 64)]",
        "return [torch.randn(64, 64, generator=torch.Generator().manual_seed(1))]",
        "return [torch.linspace(-0.5, 0.7, 4096).view(64, 64)]"}) {
    INFO(inputs);
    CHECK(std::holds_alternative<WrongResult>(
        node.OutcomeOf(RowSums(inputs), candidate(keeps_first))));
  }
  const MeasureOutcome sorted =
      node.OutcomeOf(RowSums("return [torch.randint(0, 99, (64, 64)).sort(dim=1).values]"),
                     candidate(needs_order));
  CHECK_FALSE(std::holds_alternative<Crash>(sorted));
  CHECK_FALSE(std::holds_alternative<WrongResult>(sorted));
}

}  // namespace
}  // namespace kernelcast::testing
