#include "services/worker/cuda/language/tilelang/tilelang_language.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/language/device_code.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/services.h"

namespace kernelcast::testing::tilelang_language_test {
namespace {

using worker::CancelToken;
using worker::CompileResult;
using worker::CompileSuccess;

bool HaveTilelang() {
  const bool have =
      !PythonOfTests("tilelang").empty() && worker::FindCudaToolkit({KERNELCAST_CUDA_HOME}).ok();
  if (!have) WARN("no CUDA toolkit or no .setup/tilelang (scripts/setup.sh): nothing is tested");
  return have;
}

class Fixture {
 public:
  explicit Fixture(const std::string& problem = "row_softmax")
      : folder_("tilelang"), problem_(ReadExampleProblem(problem)) {
    auto artifacts = worker::ArtifactCache::Open(folder_.File("artifacts"), 64 << 20);
    REQUIRE(artifacts.ok());
    cache_ = std::make_unique<worker::CompileCache>(*std::move(artifacts));
    const auto toolkit = worker::FindCudaToolkit({KERNELCAST_CUDA_HOME});
    worker::CudaCompilerOptions nvrtc;
    nvrtc.process.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
    nvrtc.process.toolkit = *toolkit;
    auto compiler = worker::CudaCompiler::Make(nvrtc, *cache_);
    REQUIRE(compiler.ok());
    nvrtc_ = *std::move(compiler);
    worker::CompilerSandbox sandbox;
    sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
    sandbox.uid = 65534;
    auto language = worker::TilelangLanguage::Open({.python = PythonOfTests("tilelang"),
                                                    .host_compiler = "",
                                                    .include_directories = {},
                                                    .work_directory = folder_.path().string(),
                                                    .toolkit = *toolkit,
                                                    .sandbox = sandbox,
                                                    .cache = *cache_,
                                                    .nvrtc = *nvrtc_,
                                                    .nvrtc_options = nvrtc,
                                                    .torch = {},
                                                    .find = {}});
    INFO(language.status().ToString());
    REQUIRE(language.ok());
    language_ = *std::move(language);
  }

  worker::Language& language() { return *language_; }

  Candidate Of(const std::string& source) const {
    Candidate candidate;
    candidate.problem_id = problem_.problem_id;
    candidate.target = "cuda";
    candidate.kind = CandidateKind::kDeviceTilelang;
    candidate.source = source;
    return candidate;
  }
  absl::StatusOr<CompileResult> Compile(const Candidate& candidate,
                                        const CancelToken& cancel = CancelToken()) {
    const worker::CompileGpu gpu{.name = "NVIDIA H200", .architecture = "sm_90a"};
    return language_->Compile({problem_, problem_.targets.at("cuda"), candidate, gpu}, cancel);
  }
  CompileResult Result(const Candidate& candidate) {
    auto result = Compile(candidate);
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *std::move(result);
  }
  CompileSuccess Success(const Candidate& candidate) {
    CompileResult result = Result(candidate);
    if (const auto* error = std::get_if<CompileError>(&result.result)) FAIL(error->log);
    return std::get<CompileSuccess>(std::move(result.result));
  }
  CompileError Refusal(const std::string& source) {
    CompileResult result = Result(Of(source));
    REQUIRE(std::holds_alternative<CompileError>(result.result));
    return std::get<CompileError>(result.result);
  }

 private:
  TemporaryFolder folder_;
  const Problem problem_;
  std::unique_ptr<worker::CompileCache> cache_;
  std::unique_ptr<worker::CudaCompiler> nvrtc_;
  std::unique_ptr<worker::Language> language_;
};

double Fact(const CompileFacts& facts, std::string_view name) {
  const auto names = (*FindFactSchema(facts.schema))->names;
  const auto at = std::find(names.begin(), names.end(), name);
  REQUIRE(at != names.end());
  return facts.values.at(static_cast<size_t>(at - names.begin()));
}

// The source of an example.
std::string Example(const std::string& problem) {
  for (const KernelExample& example : ReadKernelExamples(SourcePath("examples/tilelang"))) {
    if (example.problem == problem) return example.candidate.source;
  }
  FAIL("there is no example for " << problem);
  return "";
}

// The example with one text in place of another.
std::string Softmax(const std::string& from = "", const std::string& to = "") {
  std::string source = Example("row_softmax");
  if (from.empty()) return source;
  const size_t at = source.find(from);
  REQUIRE(at != std::string::npos);
  return source.replace(at, from.size(), to);
}

TEST_CASE("A TileLang kernel is compiled for its timed shape, and for all others",
          "[integration][slow]") {
  if (!HaveTilelang()) return;
  Fixture fixture;
  const Candidate candidate = fixture.Of(Softmax());
  const CompileSuccess made = fixture.Success(candidate);
  CHECK(absl::StartsWith(made.artifact.toolchain, "TileLang "));
  CHECK(made.artifact.artifact_id == fixture.language().ArtifactId(candidate, "sm_90a"));
  CHECK(Fact(made.facts, "launch_block_threads") == 256);
  CHECK(Fact(made.facts, "registers") > 0);
  REQUIRE(made.facts.simulations.size() == 1);
  REQUIRE(made.facts.simulations[0].launches.size() == 1);
  INFO(made.facts.simulations[0].launches[0].not_covered);
  CHECK(!made.facts.simulations[0].launches[0].values.empty());
  CHECK(made.facts.simulations[0].launches[0].findings.empty());

  const auto program = fixture.language().Load(candidate, made.artifact, nullptr);
  REQUIRE(program.ok());
  REQUIRE(program->launches.size() == 2);
  const Launch& timed = program->launches[0];
  CHECK(timed.when == "cols==4096 && rows==8192");
  CHECK(timed.grid == std::vector<std::string>{"8192", "1", "1"});
  CHECK(timed.block == std::vector<std::string>{"256", "1", "1"});
  CHECK(timed.arguments == std::vector<std::string>{"x", "y"});
  CHECK(!timed.shared_memory_bytes.empty());
  const Launch& other = program->launches[1];
  CHECK(other.when == "(cols==4096 && rows==8192)==0");
  CHECK(other.grid[0] == "rows");
  CHECK(other.arguments == std::vector<std::string>{"x", "y", "cols:int32", "rows:int32"});
  const auto cubin = worker::ReadCubin(program->cubin);
  REQUIRE(cubin.ok());
  CHECK(cubin->kernels.size() == 2);
  CHECK(fixture.Result(candidate).cached);
}

TEST_CASE("A matrix product in TileLang uses the tensor cores", "[integration][slow]") {
  if (!HaveTilelang()) return;
  Fixture fixture("matmul_bf16");
  const CompileSuccess made = fixture.Success(fixture.Of(Example("matmul_bf16")));
  CHECK(Fact(made.facts, "launch_block_threads") == 128);
  CHECK(Fact(made.facts, "launch_dynamic_shared_bytes") > 32768);
  const auto artifact = worker::DecodeDeviceArtifact(made.artifact.content);
  REQUIRE(artifact.ok());
  CHECK(absl::StrContains(artifact->source, "wgmma"));
  REQUIRE(artifact->launches.size() == 2);
  CHECK(artifact->launches[1].grid ==
        std::vector<std::string>{"floor((n+127)/128)", "floor((m+127)/128)", "1"});
}

TEST_CASE("An error in a TileLang source names its line", "[integration][slow]") {
  if (!HaveTilelang()) return;
  Fixture fixture;
  {
    const CompileError error = fixture.Refusal(Softmax("T.clear(total)", "T.clear(sum_of_all)"));
    INFO(error.log);
    CHECK(error.stage == CompileStage::kCompiler);
    CHECK(absl::StrContains(error.log, "File \"candidate.py\", line 17"));
    CHECK(absl::StrContains(error.log, "NameError: name 'sum_of_all' is not defined"));
    // Not TileLang's own form of the source.
    CHECK(!absl::StrContains(error.log, "__tb"));
  }
  {
    const CompileError error = fixture.Refusal(Softmax("def kernelcast_kernel(", "def f(:"));
    CHECK(absl::StrContains(error.log, "File \"candidate.py\", line 5"));
    CHECK(absl::StrContains(error.log, "SyntaxError"));
  }
  {
    const CompileError error = fixture.Refusal(absl::StrCat("import cutlass\n", Softmax()));
    CHECK(absl::StrContains(error.log, "A device_tilelang source can import tilelang and"));
  }
}

TEST_CASE("A TileLang kernel that does not fit the problem is refused with words",
          "[integration][slow]") {
  if (!HaveTilelang()) return;
  Fixture fixture;
  const auto refused = [&](const std::string& from, const std::string& to) {
    const CompileError error = fixture.Refusal(Softmax(from, to));
    INFO(error.log);
    CHECK(error.stage == CompileStage::kAdmission);
    return error.log;
  };
  CHECK(refused("def kernelcast_kernel", "def kernel") ==
        "the source does not define kernelcast_kernel");
  CHECK(refused("cols, width=1024", "cols, width") ==
        "kernelcast_kernel has the parameter 'width', which is no axis of the problem and has no "
        "default");
  CHECK(
      refused("x: T.Tensor((rows, cols), \"float32\")", "x: T.Tensor((rows, cols), \"float16\")") ==
      "the kernel's parameter 'x' has elements of float16, and 'x' of float32");
  CHECK(refused("x: T.Tensor((rows, cols)", "x: T.Tensor((rows, cols + 1)") ==
        "the kernel's parameter 'x' has the shape [8192, 4097], and 'x' has 33554432 elements");
  CHECK(
      refused("y: T.Tensor((rows, cols), \"float32\"))",
              "y: T.Tensor((rows, cols), \"float32\"), z: T.Tensor((rows,), \"float32\"))") ==
      "the kernel has 3 parameters, of which 3 are tensors, and the problem has 2 tensors (x, y): "
      "its inputs and outputs, in this order");
  CHECK(refused("return row_softmax", "return 1") ==
        "kernelcast_kernel returns int instead of a T.prim_func");
}

// Code that runs while the source is imported, before the kernel.
std::string Importing(const std::string& code) {
  return absl::StrCat("import ctypes, os, struct, time\n", code, "\n", Softmax());
}

TEST_CASE("A TileLang source can only compute", "[integration][slow]") {
  if (!HaveTilelang()) return;
  Fixture fixture;
  for (const std::string& expression :
       {std::string("open('/etc/passwd').read()"), std::string("open('new', 'w')"),
        std::string("os.fork()"), std::string("os.kill(os.getpid(), 9)")}) {
    const CompileError error = fixture.Refusal(Importing(expression));
    INFO(expression << " -> " << error.log);
    CHECK((absl::StrContains(error.log, "PermissionError") ||
           absl::StrContains(error.log, "FileNotFoundError")));
  }
  const auto limited = [&](const std::string& code) {
    const CompileError error = fixture.Refusal(Importing(code));
    INFO(code << " -> " << error.log);
    CHECK(error.stage == CompileStage::kLimit);
    return error.log;
  };
  CHECK(absl::StrContains(limited("x = bytearray(1 << 40)"), "memory limit"));
  CHECK(absl::StrContains(limited("ctypes.string_at(0)"), "crashed"));
  CHECK(absl::StrContains(limited("os._exit(0)"), "crashed"));
  CHECK(absl::StrContains(limited("os.write(3, struct.pack('<Q', 1 << 40)); time.sleep(1000)"),
                          "too large"));
  // What it prints is not part of the answer.
  (void)fixture.Success(fixture.Of(Importing("print('a kernel')")));
  // A reply of its own is only data.
  const CompileError forged =
      fixture.Refusal(Importing("os.write(3, struct.pack('<QQQQ', 24, 0, 0, 0)); os._exit(0)"));
  CHECK(absl::StrContains(forged.log, "changed what the compiler returns"));
}

TEST_CASE("A TileLang source that does not end is stopped", "[integration][slow]") {
  if (!HaveTilelang()) return;
  Fixture fixture;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const CancelToken cancel(start_ns + 1'000'000'000);
  const auto made = fixture.Compile(fixture.Of(Importing("while True: pass")), cancel);
  CHECK(absl::IsDeadlineExceeded(made.status()));
  CHECK(Clock::Real().MonotonicNs() - start_ns < 30'000'000'000);
}

}  // namespace
}  // namespace kernelcast::testing::tilelang_language_test
