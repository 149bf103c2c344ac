// Launches of Python candidates, recorded without a GPU, and the estimates that follow from them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/file.h"
#include "common/domain/expected_verdicts.h"
#include "common/domain/facts.h"
#include "services/worker/cuda/language/pytorch/launch_recorder.h"
#include "services/worker/cuda/language/pytorch/recorded_program.h"
#include "services/worker/cuda/target/cuda_target.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/services.h"
#include "tests/support/task_examples.h"
#include "tests/support/verdict_trials.h"

namespace kernelcast::testing::recorded_candidate_test {
namespace {

namespace fs = std::filesystem;

using worker::CancelToken;
using worker::CudaTarget;
using worker::LaunchRecorder;
using worker::RecordedGpu;
using worker::Recording;

constexpr const char* kPython = "/usr/bin/python3";
constexpr RecordedGpu MakeGpu() { return {"NVIDIA H200", 132, 9, 0}; }

const std::string kRecorded = KERNELCAST_SOURCE_DIR "/tests/integration/worker/recorded/";

bool HaveTorch() {
  static const absl::Status found = worker::ProbeTorch(kPython).status();
  if (!found.ok()) WARN(found.message() << ": nothing is tested (install python3-torch)");
  return found.ok();
}

std::string Read(const std::string& path) { return ReadFile(path).value(); }

Problem MakeTask(const std::string& source) { return ParseProblem({{"task.py", source}}).value(); }

LaunchRecorder& Recorder() {
  static const TemporaryFolder folder("recorder");
  worker::CompilerSandbox sandbox;
  sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
  static LaunchRecorder recorder(worker::ProbeTorch(kPython).value(), sandbox,
                                 folder.path().string());
  return recorder;
}

Recording Record(const std::string& task, const std::string& source) {
  auto recording = Recorder().Record(*MakeTask(task).task, 0, source, MakeGpu(), CancelToken());
  INFO(recording.status().ToString());
  REQUIRE(recording.ok());
  return *std::move(recording);
}

std::string TextOf(const Launch& launch) {
  std::vector<std::string> constants;
  for (const Constexpr& constant : launch.constexprs) {
    constants.push_back(absl::StrCat(constant.name, "=", constant.value));
  }
  return absl::StrCat(launch.kernel, "[", absl::StrJoin(launch.grid, ","), "](",
                      absl::StrJoin(launch.arguments, ","), ") ", absl::StrJoin(constants, " "),
                      " warps ", launch.num_warps, " stages ", launch.num_stages);
}

TEST_CASE("The launches of Python candidates are recorded without a GPU and without Triton",
          "[slow]") {
  if (!HaveTorch()) return;
  struct Expected {
    std::string file;
    std::vector<std::string> launches;
    std::vector<std::string> operations = {};
  };
  const std::vector<Expected> all = {
      {"elementwise", {"silu[2048](t0,t1,t2,2097152:int32) BLOCK=1024 warps 8 stages 0"}},
      {"softmax",
       {"softmax[1024](t0,t1,1000:int32,1000:int32,1000:int32) BLOCK=1024 warps 4 stages 0"}},
      {"layernorm",
       {"layernorm_0[2048](t0,t1,t2,768:int32,1.0000000000000001e-05:float32) "
        "BLOCK=1024 HAS_BIAS=false bias=none warps 0 stages 0"}},
      {"matmul",
       {"matmul[8,8](t0,t1,t2,512:int32,512:int32,256:int32) K=32 M=64 N=64 warps 4 stages 3"}},
      {"mixed",
       {"gate[256](t0,t1,t2,1024:int32,512:int32) BLOCK=256 warps 0 stages 0"},
       {"addmm", "add_"}},
      {"gather", {"gather[2048](t0,t1,t2,256:int32) BLOCK=256 warps 0 stages 0"}, {"_to_copy"}},
      {"persistent",
       {"scaled[132,1,1](t0,t1,4194304:int32,132:int32) BLOCK=2048 warps 0 stages 0"}},
      {"reduction",
       {"partial_sums[256](t0,t1,1048576:int32) BLOCK=4096 warps 0 stages 0",
        "add_up[1](t1,t2,256:int32) BLOCK=256 warps 0 stages 0"},
       {"zeros"}},
      {"attention",
       {"attention[16](t0,t1,t2,t3,1024:int32,0.125:float32) ROWS=64 STEP=32 WIDTH=64 warps 0 "
        "stages 0"}},
  };
  for (const Expected& expected : all) {
    const std::string source = Read(absl::StrCat(kRecorded, expected.file, ".py"));
    // The candidate differs from the task, which would be the reference.
    const Recording recording = Record(source, source + "\n");
    INFO(expected.file << ": " << recording.not_recorded);
    CHECK(recording.not_recorded.empty());
    std::vector<std::string> launches;
    for (const Launch& launch : recording.launches) launches.push_back(TextOf(launch));
    CHECK(launches == expected.launches);
    std::vector<std::string> operations;
    for (const auto& operation : recording.operations) operations.push_back(operation.name);
    CHECK(operations == expected.operations);
    CHECK_THAT(recording.source, !Catch::Contains("torch"));
    if (expected.file == "gather") {
      CHECK(recording.tensors.at(1).range == std::pair<int64_t, int64_t>(0, 4095));
    }
    if (expected.file == "mixed") {
      // The second half of each row, from its start to the end of the allocation.
      CHECK(recording.tensors.at(1).elements == recording.tensors.at(0).elements - 512);
      CHECK(recording.operations.at(0).operations == 2.0 * 256 * 512 * 1024);
      CHECK(recording.operations.at(0).bytes == 4.0 * (256 * 512 + 512 * 1024 + 1024 + 256 * 1024));
    }
  }
}

const char* const kTask = R"(
import torch

class Model(torch.nn.Module):
    def forward(self, x, n):
        return torch.relu(x) * n

def get_inputs():
    return [torch.randn(64, 256), 3]

def get_init_inputs():
    return []
)";

std::string ModelNew(const std::string& body, const std::string& before = "") {
  return absl::StrCat("import os\nimport torch\nimport triton\nimport triton.language as tl\n",
                      before, R"(
@triton.jit
def relu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at), 0) * n)

class ModelNew(torch.nn.Module):
    def forward(self, x, n):
        y = torch.empty_like(x)
)",
                      body, "\n");
}

// A statement that answers in the recorder's place, over its socket (compile_server.py).
std::string Forge(const std::string& recording) {
  return absl::StrCat("import struct\ntext = b'''", recording, "'''", R"(
fields = struct.pack('<Q', len(text)) + text
answer = struct.pack('<QQQ', 0, 0, len(fields)) + fields
os.write(3, struct.pack('<Q', len(answer)) + answer)
os._exit(0))");
}

TEST_CASE("What cannot be recorded says why", "[slow]") {
  if (!HaveTorch()) return;
  const std::string launch = "        relu[(64,)](x, y, n, BLOCK=256)\n        return y";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {ModelNew("        return x * x.sum().item()"), "reads values of a tensor (item)"},
      {ModelNew("        return x if (x > 0).any() else -x"), "reads values of a tensor"},
      // The candidate does not notice.
      {ModelNew("        try: x.sum().item()\n        except BaseException: pass\n" + launch),
       "reads values of a tensor (item)"},
      {ModelNew(launch,
                "from torch.utils.cpp_extension import load_inline\n"
                "load_inline('a', cpp_sources='', functions=['a'])"),
       "compiles C++ or CUDA"},
      {ModelNew("        relu[(64,)](x, y, {}, BLOCK=256)"), "passes a dict as 'n'"},
      {ModelNew("        relu[(64,)](x.data_ptr(), y, n, BLOCK=256)"), "addresses"},
      {ModelNew("        return self.unknown"), "unknown"},
      {ModelNew(launch, "open('/etc/passwd').read()"), "passwd"},
      {ModelNew(launch, "os._exit(0)"), "the recorder ended"},
      {ModelNew(launch, Forge(R"({"launches": 1})")), "the recording has"},
  };
  for (const auto& [source, reason] : cases) {
    INFO(source);
    CHECK_THAT(Record(kTask, source).not_recorded, Catch::Contains(reason));
  }
}

// An interpreter with Debian's PyTorch and the Triton that scripts/setup.sh installs. "": none.
std::string PythonWithBoth(const std::string& folder) {
  const fs::path packages =
      fs::path(KERNELCAST_SOURCE_DIR) / ".setup/triton/lib/python3.11/site-packages";
  if (!HaveTorch() || !fs::exists(packages) || !fs::exists("/usr/bin/python3.11")) return "";
  fs::create_directories(folder + "/bin");
  fs::create_directories(folder + "/lib/python3.11");
  fs::create_symlink("/usr/bin/python3.11", folder + "/bin/python3");
  fs::create_directory_symlink(packages, folder + "/lib/python3.11/site-packages");
  std::ofstream(folder + "/pyvenv.cfg")
      << "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.11\n";
  return folder + "/bin/python3";
}

// A target that has no GPU.
class RecordingTarget {
 public:
  bool Make() {
    worker::CudaTargetOptions options;
    options.cuda_home = KERNELCAST_CUDA_HOME;
    options.program_folder = KERNELCAST_BIN_DIR;
    options.gpus = "none";
    options.architecture = "sm_90a";
    options.cache_directory = (folder_.path() / "cache").string();
    options.python = PythonWithBoth((folder_.path() / "python").string());
    if (options.python.empty()) {
      WARN("no interpreter with PyTorch and Triton: nothing is tested");
      return false;
    }
    target_ = CudaTarget::Make(std::move(options)).value();
    const auto kinds = target_->Describe().candidate_kinds;
    const auto has = [&](CandidateKind kind) {
      return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    };
    if (!has(CandidateKind::kDeviceTriton)) {
      WARN("no Triton or no CUDA toolkit: nothing is tested");
      return false;
    }
    CHECK(has(CandidateKind::kPython));
    return true;
  }

  worker::CompileSuccess Compile(const std::string& task, const std::string& source) {
    const Problem problem = MakeTask(task);
    Candidate candidate = ReferenceCandidate(problem, kCudaTargetName).value();
    candidate.source = source;
    candidate.candidate_id = CandidateId(candidate);
    return Compile(problem, candidate);
  }

  absl::StatusOr<worker::CompileResult> TryCompile(const Problem& problem,
                                                   const Candidate& candidate,
                                                   const std::string& device_model = "") {
    return target_->Compile(
        {.problem = problem, .candidate = &candidate, .device_model = device_model}, CancelToken());
  }

  worker::CompileSuccess Compile(const Problem& problem, const Candidate& candidate) {
    auto compiled = TryCompile(problem, candidate);
    INFO(compiled.status().ToString());
    REQUIRE(compiled.ok());
    if (const auto* error = std::get_if<CompileError>(&compiled->result)) FAIL(error->log);
    auto success = std::get<worker::CompileSuccess>(std::move(compiled->result));
    CHECK(ValidateFacts(success.facts).ok());
    REQUIRE(success.facts.simulations.size() == 1);
    return success;
  }

 private:
  const TemporaryFolder folder_{"recorded-candidate"};
  std::unique_ptr<CudaTarget> target_;
};

std::string NotCovered(const worker::CompileSuccess& success) {
  for (const LaunchSimulation& launch : success.facts.simulations.front().launches) {
    if (!launch.not_covered.empty()) return absl::StrCat(launch.kernel, ": ", launch.not_covered);
  }
  return "";
}

double EstimatedNs(const worker::CompileSuccess& success) {
  double sum = 0;
  for (const LaunchSimulation& launch : success.facts.simulations.front().launches) {
    // The estimated time is the last value of the schema.
    sum += launch.values.empty() ? 0 : launch.values.back();
  }
  return sum;
}

TEST_CASE("Recorded launches are compiled and simulated on the virtual GPU", "[slow]") {
  RecordingTarget target;
  if (!target.Make()) return;
  const auto compile = [&](const std::string& name, const std::string& more) {
    const std::string source = Read(absl::StrCat(kRecorded, name, ".py"));
    const worker::CompileSuccess compiled = target.Compile(source, source + more);
    std::printf("%s%s: %s\n", name.c_str(), more.empty() ? " (reference)" : "",
                compiled.log.c_str());
    INFO(name);
    CHECK(NotCovered(compiled).empty());
    CHECK_THAT(compiled.log, Catch::Contains("PyTorch's operations"));
    return compiled;
  };
  for (const char* name : {"gather", "matmul", "reduction", "softmax"}) {
    CHECK(EstimatedNs(compile(name, "\n")) > 1000);
  }
  // 25 MB at 3.35 TB/s take 7.5 us, and two operations of PyTorch move 42 MB.
  const worker::CompileSuccess one_pass = compile("elementwise", "\n");
  const worker::CompileSuccess two_passes = compile("elementwise", "");
  CHECK(EstimatedNs(one_pass) > 7'500);
  CHECK(EstimatedNs(one_pass) < EstimatedNs(two_passes));
  CHECK_THAT(one_pass.log, Catch::Contains(": 0%"));
  CHECK_THAT(two_passes.log, Catch::Contains(": 100%"));
  const worker::CompileSuccess mixed = compile("mixed", "\n");
  const auto& launches = mixed.facts.simulations.front().launches;
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].kernel == "gate");
  CHECK(launches[1].kernel == worker::kOperationsName);
}

TEST_CASE("Device code for a task is compiled and simulated without a GPU", "[slow]") {
  RecordingTarget target;
  if (!target.Make()) return;
  const auto load = [](const std::string& path) {
    return ParseProblem(ReadProblemFolder(SourcePath("examples/tasks/" + path)).value()).value();
  };
  const Problem linear = load("kernelbench/linear_relu.py");
  const std::string folder = SourcePath("examples/tasks/kernelbench/device_code/linear_relu/");
  for (const char* const file : {"tiled.cu", "blocked.py"}) {
    INFO(file);
    const auto compiled =
        target.Compile(linear, ReadExampleCandidate(folder + file, linear.problem_id));
    CHECK(NotCovered(compiled).empty());
    // 134 million operations and 4.5 MB.
    CHECK(EstimatedNs(compiled) > 2'000);
    CHECK(EstimatedNs(compiled) < 1'000'000);
  }
  const Problem clamped = load("gpu_mode/clamped_add");
  const Candidate grid_stride = ReadExampleCandidate(
      SourcePath("examples/tasks/gpu_mode/clamped_add/device_code/grid_stride.cu"),
      clamped.problem_id);
  CHECK(NotCovered(target.Compile(clamped, grid_stride)).empty());

  Candidate unknown = grid_stride;
  unknown.launches[0].arguments[0] = "a";
  const auto refused = target.TryCompile(clamped, unknown);
  REQUIRE(refused.ok());
  REQUIRE(std::holds_alternative<CompileError>(refused->result));
  CHECK_THAT(std::get<CompileError>(refused->result).log,
             Catch::Contains("'a' is not one of data_0, data_1, data_2, output0"));
  // Its reference reads positions, which shapes alone do not have.
  const Problem argmax = load("gpu_mode/row_argmax");
  const auto undescribed = target.TryCompile(argmax, grid_stride);
  CHECK(absl::IsFailedPrecondition(undescribed.status()));
  CHECK_THAT(std::string(undescribed.status().message()),
             Catch::Contains("not known without a GPU: reads values of a tensor"));
}

TEST_CASE("Outputs of device code for a task are compared with its reference without a GPU",
          "[slow]") {
  RecordingTarget target;
  if (!target.Make()) return;
  for (const char* const name : {"bias_gelu", "top_k_gating"}) {
    const std::string folder = SourcePath(absl::StrCat("examples/operations/", name));
    const Problem problem = ParseProblem(ReadProblemFolder(folder).value()).value();
    const Space& space = *problem.targets.at(std::string(kCudaTargetName)).space;
    const auto verdicts = ReadExpectedVerdicts(folder, space);
    INFO(verdicts.status().ToString());
    REQUIRE(verdicts.ok());
    for (const VerdictTrial& trial : VerdictTrials(problem, space, **verdicts, 1)) {
      INFO(trial.description);
      const auto compiled = target.Compile(problem, trial.candidate);
      REQUIRE_FALSE(compiled.facts.simulations.empty());
      const ShapeSimulation& simulation = compiled.facts.simulations.front();
      INFO(simulation.not_compared);
      const bool has_faults =
          std::any_of(simulation.launches.begin(), simulation.launches.end(),
                      [](const LaunchSimulation& launch) { return !launch.findings.empty(); });
      const bool is_right = OutputsAgreed(simulation) && !has_faults;
      CHECK(is_right == (trial.expected == ExpectedVerdict::kOk));
    }
  }
}

TEST_CASE("Operations of PyTorch are estimated at the peaks of the GPU") {
  const worker::virtual_gpu::GpuModel& gpu =
      *worker::virtual_gpu::FindGpuModel("NVIDIA H200", "sm_90a");
  using Unit = worker::RecordedOperation::Unit;
  const auto time_of = [&](const worker::RecordedOperation& operation) {
    return worker::SimulateOperations(std::vector{operation}, gpu).values.back();
  };
  // 4.8 GB take 1 ms at 4.8 TB/s.
  const double moved = time_of({"relu", Unit::kFloat32, 4.8e9, 1.2e9, 1});
  CHECK(moved > 1.0e6);
  CHECK(moved < 1.2e6);
  CHECK(time_of({"relu", Unit::kFloat32, 4.8e9, 1.2e9, 3}) == Approx(3 * moved));
  // 1e12 operations: 67 TFLOP/s in float32, 990 in half precision.
  CHECK(time_of({"mm", Unit::kFloat32, 1e6, 1e12, 1}) == Approx(1e12 / 67e12 * 1e9).epsilon(0.05));
  CHECK(time_of({"mm", Unit::kHalf, 1e6, 1e12, 1}) == Approx(1e12 / 1.07e15 * 1e9).epsilon(0.1));
}

TEST_CASE("A Python candidate that is not recorded is compiled as before, and says why") {
  RecordingTarget target;
  if (!target.Make()) return;
  const auto not_recorded = target.Compile(kTask, ModelNew("        return x * x.sum().item()"));
  CHECK_THAT(NotCovered(not_recorded), Catch::Contains("reads values of a tensor"));
  CHECK(not_recorded.artifact.format == ArtifactFormat::kPythonSource);
  const auto broken =
      target.Compile(kTask, ModelNew("        relu[(64,)](x, y, n, BLOCK=255)\n        return y"));
  CHECK_THAT(NotCovered(broken), Catch::Contains("do not compile"));
}

TEST_CASE("A worker without a GPU simulates each model of its architecture", "[slow]") {
  RecordingTarget target;
  if (!target.Make()) return;
  const Problem problem = MakeTask(kTask);
  const Candidate reference = ReferenceCandidate(problem, kCudaTargetName).value();
  for (const char* const model : {"NVIDIA H100", "NVIDIA H200"}) {
    const auto compiled = target.TryCompile(problem, reference, absl::StrCat(model, " of a cloud"));
    REQUIRE(compiled.ok());
    const auto& facts = std::get<worker::CompileSuccess>(compiled->result).facts;
    REQUIRE(facts.simulations.size() == 1);
    CHECK(facts.simulations[0].gpu == model);
  }
  const auto other = target.TryCompile(problem, reference, "NVIDIA A100-SXM4-80GB");
  CHECK(absl::IsFailedPrecondition(other.status()));
  CHECK_THAT(std::string(other.status().message()),
             Catch::Contains("compiles for sm_90a") &&
                 Catch::Contains("'NVIDIA A100-SXM4-80GB' is sm_80"));
}

TEST_CASE("A recording that touches less memory than the task needs is not believed", "[slow]") {
  if (!HaveTorch()) return;
  // The input of 64 x 256 floats, and the output.
  CHECK(Record(kTask, kTask).needed_bytes == 2 * 4 * 64 * 256);
  const std::string launch = "        relu[({},)](x, y, n, BLOCK=256)\n        return y";
  CHECK(Record(kTask, ModelNew(absl::StrReplaceAll(launch, {{"{}", "64"}}))).needed_bytes == 0);
  // An intermediate result counts no more than a view of the input, and a table that is indexed not
  // at all.
  const std::string gather = R"(
import torch

class Model(torch.nn.Module):
    def forward(self, table, rows):
        return (table[rows] + table[:8]).sum(1)

def get_inputs():
    return [torch.randn(4096, 64), torch.randint(0, 4096, (8,))]

def get_init_inputs():
    return []
)";
  CHECK(Record(gather, gather).needed_bytes == 4 * 8 * 64 + 8 * 8 + 4 * 8);

  RecordingTarget target;
  if (!target.Make()) return;
  for (const char* grid : {"64", "32"}) {
    INFO(grid);
    const auto honest =
        target.Compile(kTask, ModelNew(absl::StrReplaceAll(launch, {{"{}", grid}})));
    CHECK(NotCovered(honest).empty());
  }
  const auto wrong = target.Compile(kTask, ModelNew(absl::StrReplaceAll(launch, {{"{}", "1"}})));
  CHECK_THAT(NotCovered(wrong), Catch::Contains("touches 2048 bytes") &&
                                    Catch::Contains("the reference needs 131072"));
  const auto forged = target.Compile(
      kTask, ModelNew(launch, Forge(R"({"source": "", "tensors": [], "launches": [], "needed": 1,
"operations": [{"name": "relu", "bytes": 1, "operations": 1, "unit": "float32", "count": 1}]})")));
  CHECK_THAT(NotCovered(forged), Catch::Contains("touches 1 bytes"));
}

TEST_CASE("Variants of tasks are different candidates of their format") {
  const std::vector<TaskExample> variants = MakeTaskVariants();
  CHECK(variants.size() == 40);
  std::set<std::string> ids;
  for (const TaskExample& variant : variants) {
    INFO(variant.task << "/" << variant.name);
    ids.insert(CandidateOf(variant).candidate_id);
    CHECK_THAT(variant.source, Catch::Contains("\nclass ModelNew("));
    CHECK_THAT(variant.problem->task->source, Catch::Contains("\nclass Model("));
  }
  CHECK(ids.size() == variants.size());
}

// One in three. KERNELCAST_ALL_EXAMPLES=1: all of them.
TEST_CASE("Most example candidates are recorded", "[slow]") {
  if (!HaveTorch()) return;
  const auto examples = ReadTaskExamples();
  REQUIRE(examples.size() >= 30);
  int recorded = 0;
  int tried = 0;
  for (size_t i = 0; i < examples.size();
       i += std::getenv("KERNELCAST_ALL_EXAMPLES") != nullptr ? 1 : 3) {
    const TaskExample& example = examples[i];
    const Recording recording =
        Recorder()
            .Record(*example.problem->task, 0, example.source, MakeGpu(), CancelToken())
            .value();
    ++tried;
    if (recording.not_recorded.empty()) {
      ++recorded;
    } else {
      std::printf("%s/%s: %s\n", example.task.c_str(), example.name.c_str(),
                  recording.not_recorded.c_str());
    }
  }
  std::printf("%d of %d example candidates are recorded\n", recorded, tried);
  CHECK(recorded * 100 >= tried * 80);
}

}  // namespace
}  // namespace kernelcast::testing::recorded_candidate_test
