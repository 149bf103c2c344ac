#include "services/worker/cuda/compiler/cuda_compiler.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/standard_headers.h"
#include "tests/support/kernel_examples.h"
#include "tests/support/services.h"

namespace kernelcast::testing::cuda_compiler_test {
namespace {

using worker::ArtifactCache;
using worker::CancelToken;
using worker::CompileCache;
using worker::CompileResult;
using worker::CompileSuccess;
using worker::CudaCompiler;
using worker::CudaCompilerOptions;
using worker::FindCudaToolkit;
using worker::LaunchShape;
using worker::LaunchShapesOf;

constexpr const char* kScale =
    "#include <cuda_fp16.h>\n"
    "extern \"C\" __global__ void scale(const __half* x, float* y, long long n, float f) {\n"
    "  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "  if (i < n) y[i] = f * __half2float(x[i]);\n"
    "}\n";
const std::vector<LaunchShape> kScaleLaunch = {{"scale", 256, 0}};

bool HaveNvrtc() {
  const bool have = FindCudaToolkit({KERNELCAST_CUDA_HOME}).ok();
  if (!have) {
    WARN("no NVRTC next to the headers of this build: nothing is tested");
  }
  return have;
}

class Fixture {
 public:
  explicit Fixture(CudaCompilerOptions options = {}, const std::string& headers = "")
      : folder_("cuda") {
    options.process.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
    options.process.toolkit = *FindCudaToolkit({KERNELCAST_CUDA_HOME});
    if (!headers.empty()) {
      options.process.toolkit.include_directory = headers;
    }
    options.process.uid = 65534;
    auto artifacts = ArtifactCache::Open(folder_.File("artifacts"), 64 << 20);
    REQUIRE(artifacts.ok());
    cache_ = std::make_unique<CompileCache>(*std::move(artifacts));
    auto compiler = CudaCompiler::Make(options, *cache_);
    INFO(compiler.status().ToString());
    REQUIRE(compiler.ok());
    compiler_ = *std::move(compiler);
  }

  CudaCompiler& compiler() { return *compiler_; }

  CompileResult Compile(const std::string& source, const std::vector<std::string>& flags = {},
                        const std::vector<LaunchShape>& launches = {},
                        const std::string& architecture = "sm_90a") {
    auto result = compiler_->Compile(source, flags, launches, architecture, CancelToken());
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *std::move(result);
  }
  CompileSuccess Success(const std::string& source, const std::vector<std::string>& flags = {},
                         const std::vector<LaunchShape>& launches = {},
                         const std::string& architecture = "sm_90a") {
    CompileResult result = Compile(source, flags, launches, architecture);
    if (const auto* error = std::get_if<CompileError>(&result.result)) {
      FAIL(error->log);
    }
    return std::get<CompileSuccess>(std::move(result.result));
  }
  CompileError Refusal(const std::string& source, const std::vector<std::string>& flags = {},
                       const std::vector<LaunchShape>& launches = {},
                       const std::string& architecture = "sm_90a") {
    CompileResult result = Compile(source, flags, launches, architecture);
    REQUIRE(std::holds_alternative<CompileError>(result.result));
    return std::get<CompileError>(result.result);
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<CudaCompiler> compiler_;
};

double Fact(const CompileFacts& facts, std::string_view name) {
  const auto names = (*FindFactSchema(facts.schema))->names;
  const auto at = std::find(names.begin(), names.end(), name);
  REQUIRE(at != names.end());
  return facts.values.at(static_cast<size_t>(at - names.begin()));
}

// The compilers started by this process, which are its children.
std::vector<pid_t> CompilerProcesses() {
  std::vector<pid_t> found;
  std::ifstream children(absl::StrCat("/proc/self/task/", gettid(), "/children"));
  for (pid_t pid = 0; children >> pid;) {
    std::ifstream name(absl::StrCat("/proc/", pid, "/comm"));
    std::string comm;
    std::getline(name, comm);
    if (comm.rfind("kernelcast-cuda", 0) == 0) {
      found.push_back(pid);
    }
  }
  return found;
}

// Kills a child, and returns when it has ended.
void End(pid_t child) {
  kill(child, SIGKILL);
  siginfo_t info{};
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
}

// Rounds: compiled and simulated in one process; cached; cached, in a process that does not keep
// it.
TEST_CASE("A compiled kernel runs on the virtual GPU, also from the cache", "[integration]") {
  if (!HaveNvrtc()) return;
  auto files = ReadProblemFolder(KERNELCAST_SOURCE_DIR "/examples/problems/transpose");
  REQUIRE(files.ok());
  const auto problem = ParseProblem(*std::move(files));
  REQUIRE(problem.ok());
  const Candidate reference = ReferenceCandidate(*problem, kCudaTargetName).value();
  const AxisValues axes = {{"rows", 1024}, {"cols", 512}};
  Fixture fixture;
  std::vector<std::vector<double>> facts;
  for (int round = 0; round < 3; ++round) {
    const CompileResult compiled = fixture.Compile(
        reference.source, reference.flags, LaunchShapesOf(reference.launches, reference.tunables));
    CHECK(compiled.cached == (round > 0));
    const auto& success = std::get<CompileSuccess>(compiled.result);
    CHECK(success.ptx.find("ld.global") == std::string::npos);
    REQUIRE(CompilerProcesses().size() == 1);
    if (round == 2) End(CompilerProcesses()[0]);
    const auto cubin = worker::ReadCubin(success.artifact.content);
    REQUIRE(cubin.ok());
    auto plan = worker::PlanSimulation(*problem, reference.launches, reference.workspace_bytes,
                                       reference.tunables, axes, *cubin);
    REQUIRE(plan.ok());
    const auto simulations = fixture.compiler().Simulate(
        {"sm_90a", reference.source, reference.flags}, {*plan}, {}, "NVIDIA H200", CancelToken());
    REQUIRE(simulations.ok());
    REQUIRE(simulations->size() == 1);
    CHECK((*simulations)[0].gpu == "NVIDIA H200");
    REQUIRE((*simulations)[0].launches.size() == reference.launches.size());
    const LaunchSimulation& launch = (*simulations)[0].launches[0];
    CHECK(launch.not_covered == "");
    CompileFacts with = success.facts;
    with.simulations = *simulations;
    CHECK(ValidateFacts(with).ok());
    facts.push_back(launch.values);
  }
  CHECK(facts[0] == facts[1]);
  CHECK(facts[0] == facts[2]);
  const auto& names = (*FindSimulationSchema(kCudaSimulationSchemaId))->names;
  const auto fact = [&](std::string_view name) {
    return facts[0].at(
        static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin()));
  };
  // Everything is read once and written once.
  CHECK(fact("unique_bytes") == Approx(2.0 * 4 * 1024 * 512).epsilon(0.01));
  CHECK(fact("estimated_ns") > 1000);
}

// The simulation of a problem's reference with `from` replaced, compared with the oracle.
ShapeSimulation Simulated(Fixture& fixture, const Problem& problem, const std::string& from = "",
                          const std::string& to = "") {
  const ProblemTarget& target = problem.targets.at(std::string(kCudaTargetName));
  const std::string source = from.empty()
                                 ? target.reference.source
                                 : absl::StrReplaceAll(target.reference.source, {{from, to}});
  REQUIRE((from.empty() || source != target.reference.source));
  const CompileSuccess success = fixture.Success(source, target.reference.flags);
  const auto cubin = worker::ReadCubin(success.artifact.content);
  REQUIRE(cubin.ok());
  const auto cases = fixture.compiler().CasesOf(problem, target, "sm_90a", CancelToken());
  REQUIRE(cases.ok());
  const auto plan_at = [&](const AxisValues& axes) {
    auto plan = worker::PlanSimulation(problem, target.reference.launches,
                                       target.reference.workspace_bytes, {}, axes, *cubin);
    REQUIRE(plan.ok());
    return *std::move(plan);
  };
  std::vector<worker::SimulationPlan> checks;
  for (const worker::SimulatedCase& at : **cases) {
    worker::SimulationPlan& plan = checks.emplace_back(plan_at(at.spec.axes));
    worker::SetContents(at, plan);
    plan.shape = at.text;
    plan.compared = &at;
  }
  const auto simulations = fixture.compiler().Simulate(
      {"sm_90a", source, target.reference.flags}, {plan_at(target.bench_shapes.front())},
      std::move(checks), "NVIDIA H200", CancelToken());
  REQUIRE(simulations.ok());
  REQUIRE(simulations->size() == 1);
  return simulations->front();
}

TEST_CASE("Outputs of every example's reference agree on the virtual GPU", "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  int problems = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(KERNELCAST_SOURCE_DIR "/examples/problems")) {
    if (!std::filesystem::exists(folder.path() / "reference.cu")) continue;
    INFO(folder.path().filename().string());
    const ShapeSimulation simulation =
        Simulated(fixture, ReadExampleProblem(folder.path().filename().string()));
    CHECK(simulation.not_compared == "");
    CHECK(OutputsAgreed(simulation));
    ++problems;
  }
  CHECK(problems >= 19);
}

TEST_CASE("Wrong outputs are found on the virtual GPU", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  struct Mistake {
    const char* problem;
    const char* from;
    const char* to;
    FindingKind kind;
  };
  const Mistake mistakes[] = {
      {"row_softmax", "expf(x[c] - top) / sum", "expf(top - x[c]) / sum", FindingKind::kWrongValue},
      {"row_softmax", "c < cols;", "c < cols - 1;", FindingKind::kNotWritten},
      {"histogram", "x[i], 1)", "x[i], -1)", FindingKind::kWrongValue},
      {"layernorm_fp16", "1 / sqrtf(", "-1 / sqrtf(", FindingKind::kWrongValue},
      {"matmul_bf16", "int p = 0;", "int p = BK;", FindingKind::kWrongValue},
  };
  for (const Mistake& mistake : mistakes) {
    INFO(mistake.problem << ": " << mistake.to);
    const ShapeSimulation simulation =
        Simulated(fixture, ReadExampleProblem(mistake.problem), mistake.from, mistake.to);
    CHECK_FALSE(OutputsAgreed(simulation));
    bool found = false;
    for (const LaunchSimulation& launch : simulation.launches) {
      for (const Finding& finding : launch.findings) found = found || finding.kind == mistake.kind;
    }
    CHECK(found);
  }
}

TEST_CASE("The paths of a toolkit are absolute, also if its folder is not", "[integration]") {
  if (!HaveNvrtc()) return;
  const std::string relative = std::filesystem::relative(KERNELCAST_CUDA_HOME).string();
  const auto found = FindCudaToolkit({relative});
  REQUIRE(found.ok());
  for (const std::string& path : {found->home, found->include_directory, found->nvrtc_library,
                                  found->nvrtc_builtins, found->nvcc}) {
    INFO(path);
    CHECK((path.empty() || path.starts_with('/')));
  }
  CHECK(std::filesystem::equivalent(found->home, KERNELCAST_CUDA_HOME));
}

TEST_CASE("A kernel is compiled once to a cubin with facts", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const CompileResult first = fixture.Compile(kScale, {}, kScaleLaunch);
  const auto& success = std::get<CompileSuccess>(first.result);
  CHECK_FALSE(first.cached);
  CHECK(first.compile_ns > 0);
  CHECK(success.artifact.format == ArtifactFormat::kCubin);
  CHECK(success.artifact.architecture == "sm_90a");
  CHECK_THAT(success.artifact.toolchain, Catch::StartsWith("NVRTC "));
  CHECK_THAT(success.artifact.content, Catch::StartsWith("\x7f"
                                                         "ELF"));
  CHECK(success.log.empty());
  CHECK(ValidateFacts(success.facts).ok());
  CHECK(Fact(success.facts, "kernels") == 1);
  CHECK(Fact(success.facts, "launch_occupancy") == Approx(1));
  CHECK(Fact(success.facts, "conversions") >= 1);

  // Another launch gives other facts for the same cubin.
  const CompileResult second = fixture.Compile(kScale, {}, {{"scale", 32, 0}});
  CHECK(second.cached);
  const auto& shared = std::get<CompileSuccess>(second.result);
  CHECK(shared.artifact.content == success.artifact.content);
  CHECK(Fact(shared.facts, "launch_occupancy") == Approx(0.5));
  const auto found = fixture.compiler().Find(fixture.compiler().ArtifactId(kScale, {}, "sm_90a"));
  REQUIRE(found.has_value());
  CHECK(found->content == success.artifact.content);
}

TEST_CASE("The sandbox is complete where the machine allows it", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  CHECK(fixture.compiler().missing_protections().empty());
  const auto& toolchain = fixture.compiler().toolchain();
  CHECK(toolchain.nvrtc_version.find('.') != std::string::npos);
  CHECK(std::count(toolchain.architectures.begin(), toolchain.architectures.end(), "sm_90a") == 1);
  CHECK(toolchain.ArchitectureOf(9, 0) == "sm_90a");
  CHECK(toolchain.ArchitectureOf(8, 9) == "sm_89");
  CHECK_FALSE(toolchain.ArchitectureOf(3, 5).has_value());
}

TEST_CASE("Every architecture that NVRTC reports compiles in the sandbox", "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  for (const std::string& architecture : fixture.compiler().toolchain().architectures) {
    INFO(architecture);
    CHECK(fixture.Success(kScale, {}, kScaleLaunch, architecture).artifact.architecture ==
          architecture);
  }
  const CompileError unknown = fixture.Refusal(kScale, {}, kScaleLaunch, "sm_42");
  CHECK(unknown.stage == CompileStage::kAdmission);
  CHECK_THAT(unknown.log, Catch::Contains("does not compile for sm_42"));
}

TEST_CASE("The headers that nvcc sources include are available", "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const std::string body =
      "extern \"C\" __global__ void k(float* y) {\n"
      "  uint32_t bits = INT_MAX; y[0] = bits; y[1] = FLT_MAX; y[2] = INFINITY;\n"
      "  y[3] = fmaxf(y[4], sqrtf(y[5])); y[6] = M_PI;\n"
      "}\n";
  fixture.Success("#include <cuda_runtime.h>\n" + body);
  fixture.Success(
      "#include <cstdint>\n#include <climits>\n#include <cfloat>\n#include <cmath>\n"
      "#include <stdio.h>\n#include <stdint.h>\n#include <math.h>\n#include <cuda_runtime.h>\n" +
      body);
  for (const char* header :
       {"cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "mma.h", "cooperative_groups.h", "cuda.h",
        "cooperative_groups/reduce.h", "cuda_pipeline.h", "cuda/std/array", "cuda/barrier",
        "cuda/pipeline", "cuda/std/type_traits", "vector_types.h", "math_constants.h", "cuda/ptx",
        "cub/block/block_reduce.cuh", "cub/warp/warp_reduce.cuh"}) {
    INFO(header);
    fixture.Success(absl::StrCat("#include <", header,
                                 ">\nextern \"C\" __global__ void k(int* y) { y[0] = 1; }\n"));
  }
}

TEST_CASE("Each header of the standard library compiles alone and declares its names",
          "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  for (const worker::StandardHeader& header : worker::StandardHeaders()) {
    INFO(header.name);
    std::string source = absl::StrCat("#include <", header.name, ">\nnamespace used {\n");
    for (const std::string& name : header.names) {
      absl::StrAppend(&source, "using std::", name, ";\n");
    }
    absl::StrAppend(&source, "}\nextern \"C\" __global__ void k(int* y) { y[0] = 1; }\n");
    fixture.Success(source);
  }
}

constexpr const char* kStandardNames =
    "extern \"C\" __global__ void k(float* y, std::int64_t n, uint8_t b, std::size_t s) {\n"
    "  struct Pair { int a, b; };\n"
    "  static_assert(offsetof(Pair, b) == 4 && sizeof(std::max_align_t) > 0);\n"
    "  static_assert(std::is_same_v<std::remove_cvref_t<const float&>, float>);\n"
    "  std::nullptr_t none = nullptr;\n"
    "  const float* pointer = NULL;\n"
    "  y[0] = INT32_MAX + FLT_MAX + CHAR_BIT + b + s + n + (pointer == none);\n"
    "  y[1] = std::sqrt(y[2]) + std::pow(y[3], 2) + std::fabs(y[4]) + std::abs(y[5]);\n"
    "  y[2] = std::max(y[1], 2.0f) + std::clamp(y[3], 0.0f, 1.0f) + std::isnan(y[3]) + M_PI_2;\n"
    "  y[3] = std::numeric_limits<float>::infinity() + std::numeric_limits<int>::max();\n"
    "  std::array<float, 4> a = {1, 2, 3, 4};\n"
    "  auto [p, q] = std::make_pair(1, 2.0f);\n"
    "  auto t = std::make_tuple(1, 2.0f, 3.0);\n"
    "  auto [t0, t1, t2] = t;\n"
    "  y[4] = a[1] + p + q + std::get<1>(t) + t0 + t1 + t2 + std::plus<float>{}(1, 2);\n"
    "  y[5] = std::tuple_size_v<decltype(t)> + std::get<0>(a);\n"
    "  std::swap(y[1], y[2]);\n"
    "  float z = std::move(y[3]);\n"
    "  std::memcpy(y, &z, 4);\n"
    "  for (int i : {1, 2, 3}) y[i] += std::bit_cast<int>(z);\n"
    "  y[6] = std::complex<float>(1, 2).imag();\n"
    "  assert(y[6] == 2);\n"
    "}\n";

TEST_CASE("All headers of the standard library compile together", "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  std::string headers;
  for (const worker::StandardHeader& header : worker::StandardHeaders()) {
    absl::StrAppend(&headers, "#include <", header.name, ">\n");
  }
  fixture.Success(headers + kStandardNames);
  const std::string unqualified = absl::StrReplaceAll(kStandardNames, {{"std::", ""}});
  fixture.Success(headers + "using namespace std;\n" + unqualified, {"-std=c++20"});
}

TEST_CASE("CUB's algorithms of blocks and warps compile", "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  fixture.Success(
      "#include <cstdint>\n#include <cub/cub.cuh>\n#include <cuda/std/limits>\n"
      "extern \"C\" __global__ void k(const float* x, float* y, std::int64_t n) {\n"
      "  using Sort = cub::BlockRadixSort<float, 256, 4>;\n"
      "  using Load = cub::BlockLoad<float, 256, 4, cub::BLOCK_LOAD_VECTORIZE>;\n"
      "  __shared__ typename cub::BlockReduce<float, 256>::TempStorage reduce;\n"
      "  __shared__ typename cub::BlockScan<int, 256>::TempStorage scan;\n"
      "  __shared__ typename cub::WarpReduce<float>::TempStorage warp[8];\n"
      "  __shared__ union { typename Sort::TempStorage sort; typename Load::TempStorage load; } "
      "u;\n"
      "  float items[4];\n"
      "  int before;\n"
      "  Load(u.load).Load(x, items);\n"
      "  __syncthreads();\n"
      "  Sort(u.sort).Sort(items);\n"
      "  cub::BlockScan<int, 256>(scan).ExclusiveSum(threadIdx.x & 1, before);\n"
      "  const float sum = cub::BlockReduce<float, 256>(reduce).Sum(items[0]);\n"
      "  y[threadIdx.x] = sum + before + cub::WarpReduce<float>(warp[threadIdx.x / 32]).Sum(sum);\n"
      "}\n");
}

TEST_CASE("A missing header of NVIDIA's is named with its package", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const CompileError cub = fixture.Refusal("#include <cub/no_such.cuh>\n");
  CHECK(cub.stage == CompileStage::kAdmission);
  CHECK_THAT(cub.log, Catch::Contains("cub/no_such.cuh") &&
                          Catch::Contains("pip install 'nvidia-cuda-cccl"));
  CHECK_THAT(fixture.Refusal("#include <curand_no_such.h>\n").log,
             Catch::Contains("nvidia-curand"));
  CHECK_THAT(fixture.Refusal("#include <vector>\n").log, !Catch::Contains("nvidia"));
}

TEST_CASE("Headers of the standard library that need a missing package name it", "[integration]") {
  if (!HaveNvrtc()) return;
  const TemporaryFolder folder("headers");
  for (const char* header : {"cuda_fp16.h", "vector_types.h"}) {
    std::ofstream(folder.File(header)) << "\n";
  }
  Fixture fixture({}, folder.path().string());
  for (const char* header : {"cstdint", "type_traits", "tuple", "cuda_runtime.h"}) {
    const CompileError error = fixture.Refusal(absl::StrCat("#include <", header, ">\n"));
    CHECK(error.stage == CompileStage::kAdmission);
    CHECK_THAT(error.log, Catch::Contains("nvidia-cuda-cccl"));
  }
  fixture.Success(
      "#include <cmath>\nextern \"C\" __global__ void k(float* y) "
      "{ y[0] = std::sqrt(y[1]); }\n");
}

TEST_CASE("NVRTC accepts every allowed flag", "[integration][slow]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  for (const char* flag : {"-std=c++17",
                           "-std=c++20",
                           "--use_fast_math",
                           "-ftz=true",
                           "-ftz=false",
                           "-prec-div=true",
                           "-prec-div=false",
                           "-prec-sqrt=true",
                           "-prec-sqrt=false",
                           "-fmad=true",
                           "-fmad=false",
                           "--extra-device-vectorization",
                           "--restrict",
                           "--device-as-default-execution-space",
                           "--device-int128",
                           "-Xptxas=-O1",
                           "-Xptxas=-O2",
                           "-Xptxas=-O3",
                           "-Xptxas=-dlcm=ca",
                           "-Xptxas=-dlcm=cg",
                           "-Xptxas=-dlcm=cs",
                           "-Xptxas=-dscm=wb",
                           "-Xptxas=-dscm=cg",
                           "-Xptxas=-dscm=cs",
                           "-Xptxas=--allow-expensive-optimizations=true",
                           "-Xptxas=--allow-expensive-optimizations=false",
                           "-maxrregcount=32",
                           "-DTILE=32"}) {
    INFO(flag);
    // The assembler's report must survive other assembler options.
    CHECK(Fact(fixture.Success(kScale, {flag}, kScaleLaunch).facts, "registers") >= 4);
  }
  const CompileError refused = fixture.Refusal(kScale, {"-I/etc"}, kScaleLaunch);
  CHECK(refused.stage == CompileStage::kAdmission);
}

TEST_CASE("A command-line macro reaches the source", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const std::string source =
      "extern \"C\" __global__ void k(float* y) { __shared__ float s[TILE]; s[threadIdx.x] = "
      "y[0];\n"
      "  __syncthreads(); y[1] = s[TILE - 1 - threadIdx.x]; }\n";
  CHECK(Fact(fixture.Success(source, {"-DTILE=64"}).facts, "static_shared_bytes") == 256);
  CHECK(Fact(fixture.Success(source, {"-DTILE=128"}).facts, "static_shared_bytes") == 512);
}

TEST_CASE("A compile failure is a result with the compiler's messages", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const CompileError error = fixture.Refusal("__global__ void k() { nonsense; }\n");
  CHECK(error.stage == CompileStage::kCompiler);
  CHECK_THAT(error.log, Catch::Contains("kernel.cu(1): error: identifier \"nonsense\""));
  CHECK(error.log.find('\0') == std::string::npos);
  const CompileError assembler = fixture.Refusal(
      "extern \"C\" __global__ void k() { asm volatile(\"no_such_instruction;\"); }\n");
  CHECK(assembler.stage == CompileStage::kCompiler);
  CHECK_FALSE(assembler.log.empty());
  const CompileError shared = fixture.Refusal(
      "extern \"C\" __global__ void k(float* y) { __shared__ float s[90000]; s[y[0] > 0] = 1; "
      "__syncthreads(); y[0] = s[1]; }\n");
  CHECK_THAT(shared.log, Catch::Contains("shared data"));
  // The process that refused still works.
  fixture.Success(kScale, {}, kScaleLaunch);
}

TEST_CASE("A launched kernel must be in the source", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const std::string source =
      "__global__ void mangled(int* p) { *p = 1; }\nextern \"C\" __global__ void plain(int* p) { "
      "*p "
      "= 2; }\n";
  fixture.Success(source, {}, {{"plain", 32, 0}});
  const CompileError error = fixture.Refusal(source, {}, {{"plain", 32, 0}, {"mangled", 32, 0}});
  CHECK(error.stage == CompileStage::kAdmission);
  CHECK_THAT(error.log, Catch::Contains("no kernel 'mangled'") && Catch::Contains("plain") &&
                            Catch::Contains("_Z7mangledPi") && Catch::Contains("extern \"C\""));
}

TEST_CASE("A source cannot read host files", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const std::string kernel = "\nextern \"C\" __global__ void k(int* p) { *p = 1; }\n";
  for (const char* line :
       {"#include \"/etc/passwd\"", "#include </etc/passwd>", "#include \"../etc/passwd\"",
        "#define F \"/etc/passwd\"\n#include F", "#embed \"/etc/passwd\"", "#import <x>",
        "#include \"etc/passwd\"", "#include <stdlib.hpp>", "#line 1 \"/etc/passwd\"",
        "# 1 \"/etc/passwd\"", "%:include \"/etc/passwd\"", "#include_next <mma.h>",
        "#pragma GCC dependency \"/etc/passwd\"", "#if __has_include(\"/etc/passwd\")\n#endif",
        "#if __has_include(</etc/passwd>)\n#endif"}) {
    INFO(line);
    const CompileError error = fixture.Refusal(line + kernel);
    CHECK(error.stage == CompileStage::kAdmission);
    CHECK(error.log.find("root:") == std::string::npos);
  }
  // The compiler cannot see an existing host file.
  const CompileError there = fixture.Refusal(
      "#if __has_include(\"etc/passwd\")\n#error there\n#else\n#error not there\n#endif\n" +
      kernel);
  CHECK_THAT(there.log, Catch::Contains("not there"));
  const CompileError assembly = fixture.Refusal(
      "extern \"C\" __global__ void k() { asm volatile(\".file 1 \\\"/etc/passwd\\\"\\n\"); }\n");
  CHECK(assembly.log.find("root:") == std::string::npos);
}

// A program of an example problem to compile.
struct ExampleProgram {
  std::string description;
  std::string source;
  std::vector<std::string> flags;
  std::vector<LaunchShape> launches;
  std::string architecture;
};

ExampleProgram FromProgram(const std::string& description, const KernelProgram& program,
                           const std::string& architecture) {
  return {absl::StrCat(description, " for ", architecture), program.source, program.flags,
          LaunchShapesOf(program.launches, {}), architecture};
}

// References, oracles, and the first and last point of each template for sm_90a; references,
// oracles and the last point for sm_80; for sm_89 those that may differ in between.
std::vector<ExampleProgram> ExamplePrograms() {
  std::vector<ExampleProgram> programs;
  for (const auto& folder :
       std::filesystem::directory_iterator(KERNELCAST_SOURCE_DIR "/examples/problems")) {
    if (!folder.is_directory()) continue;
    const auto files = ReadProblemFolder(folder.path().string());
    INFO(files.status().ToString());
    REQUIRE(files.ok());
    const auto problem = ParseProblem(*files);
    INFO(problem.status().ToString());
    REQUIRE(problem.ok());
    const auto target = problem->targets.find(kCudaTargetName);
    if (target == problem->targets.end() || target->second.reference.launches.empty()) continue;
    std::map<int, std::vector<SpacePoint>> by_template;
    if (target->second.space) {
      for (const SpacePoint& point : EnumeratePoints(*target->second.space)) {
        by_template[point.template_index].push_back(point);
      }
    }
    for (const char* architecture : {"sm_80", "sm_89", "sm_90a"}) {
      programs.push_back(
          FromProgram(problem->name + "'s reference", target->second.reference, architecture));
      if (const auto& oracle = target->second.oracle) {
        programs.push_back(FromProgram(problem->name + "'s oracle", *oracle, architecture));
      }
      for (const auto& [unused, points] : by_template) {
        std::vector<SpacePoint> tried = {points.back()};
        if (architecture == std::string("sm_90a")) tried.push_back(points.front());
        for (const SpacePoint& point : tried) {
          const Candidate candidate =
              CandidateFromPoint(*target->second.space, point, problem->problem_id);
          std::string description = problem->name;
          for (const Tunable& tunable : candidate.tunables) {
            absl::StrAppend(&description, " ", tunable.name, "=", tunable.value);
          }
          programs.push_back(
              {absl::StrCat(description, " for ", architecture), candidate.source, candidate.flags,
               LaunchShapesOf(candidate.launches, candidate.tunables), architecture});
        }
      }
    }
  }
  std::erase_if(programs, [](const ExampleProgram& program) {
    return program.architecture == "sm_89" &&
           program.source.find("__CUDA_ARCH__") == std::string::npos &&
           program.source.find("cuda_fp8.h") == std::string::npos;
  });
  return programs;
}

TEST_CASE("The CUDA parts of the example problems compile for every architecture",
          "[integration][long]") {
  if (!HaveNvrtc()) return;
  CudaCompilerOptions options;
  options.max_processes = 2;
  Fixture fixture(options);
  const std::vector<ExampleProgram> programs = ExamplePrograms();
  std::vector<std::string> complaints(programs.size());
  std::atomic<size_t> next = 0;
  const auto compile = [&] {
    for (size_t i = next++; i < programs.size(); i = next++) {
      const ExampleProgram& program = programs[i];
      const auto result = fixture.compiler().Compile(
          program.source, program.flags, program.launches, program.architecture, CancelToken());
      if (!result.ok()) {
        complaints[i] = result.status().ToString();
      } else if (const auto* error = std::get_if<CompileError>(&result->result)) {
        complaints[i] = absl::StrCat("does not compile: ", error->log);
      } else if (!ValidateFacts(std::get<CompileSuccess>(result->result).facts).ok()) {
        complaints[i] = "has no valid facts";
      }
    }
  };
  std::thread other(compile);
  compile();
  other.join();
  for (size_t i = 0; i < programs.size(); ++i) {
    INFO(programs[i].description);
    INFO(complaints[i]);
    CHECK(complaints[i].empty());
  }
  CHECK(programs.size() >= 200);
}

TEST_CASE("Threads compile in parallel, each source once", "[integration]") {
  if (!HaveNvrtc()) return;
  CudaCompilerOptions options;
  options.max_processes = 2;
  Fixture fixture(options);
  std::atomic<int> good = 0;
  std::atomic<int> cached = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {
        const std::string source = absl::StrCat(kScale, "// ", i, "\n");
        const auto result =
            fixture.compiler().Compile(source, {}, kScaleLaunch, "sm_90a", CancelToken());
        if (result.ok() && std::holds_alternative<CompileSuccess>(result->result)) {
          ++good;
          cached += result->cached ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(good == 12);
  CHECK(cached == 9);
}

TEST_CASE("An endless compile is stopped and the next one gets a fresh compiler", "[integration]") {
  if (!HaveNvrtc()) return;
  CudaCompilerOptions options;
  options.timeout_ns = 1'500'000'000;
  Fixture fixture(options);
  const std::vector<pid_t> before = CompilerProcesses();
  REQUIRE(before.size() == 1);
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const CompileError error = fixture.Refusal(
      "template <int N, int M> struct F { static constexpr int v = F<N - 1, M>::v + F<N - 1, M + "
      "N>::v; };\n"
      "template <int M> struct F<0, M> { static constexpr int v = M; };\n"
      "extern \"C\" __global__ void k(int* p) { *p = F<60, 0>::v; }\n");
  CHECK(error.stage == CompileStage::kLimit);
  CHECK_THAT(error.log, Catch::Contains("more than 1 s") || Catch::Contains("memory"));
  // Ten times what it takes on an idle machine.
  CHECK(Clock::Real().MonotonicNs() - start_ns < 100'000'000'000);
  CHECK(CompilerProcesses().empty());
  fixture.Success("extern \"C\" __global__ void k(int* p) { *p = 1; }\n");
  const std::vector<pid_t> after = CompilerProcesses();
  REQUIRE(after.size() == 1);
  CHECK(after[0] != before[0]);
}

TEST_CASE("A source that exhausts memory is stopped", "[integration]") {
  if (!HaveNvrtc()) return;
  CudaCompilerOptions options;
  options.process.max_memory_bytes = 600 << 20;
  options.timeout_ns = 60'000'000'000;
  Fixture fixture(options);
  const CompileError error = fixture.Refusal(
      "template <int N> struct L { L<N - 1> a; L<N - 1> b; __device__ constexpr L() : a(), b() {} "
      "};\n"
      "template <> struct L<0> { int v = 1; };\n"
      "__device__ constexpr L<27> big;\n"
      "extern \"C\" __global__ void k(int* p, int n) { *p = ((const int*)&big)[n]; }\n");
  INFO(error.log);
  CHECK(error.stage == CompileStage::kLimit);
  fixture.Success(kScale, {}, kScaleLaunch);
}

TEST_CASE("A compiler killed while idle is replaced unnoticed", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const std::vector<pid_t> before = CompilerProcesses();
  REQUIRE(before.size() == 1);
  End(before[0]);
  fixture.Success(kScale, {}, kScaleLaunch);
  REQUIRE(CompilerProcesses().size() == 1);
  CHECK(CompilerProcesses()[0] != before[0]);
}

TEST_CASE("A compiler killed at work is replaced, and the source compiles", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  const pid_t victim = CompilerProcesses().at(0);
  kill(victim, SIGSTOP);
  bool killed = false;
  std::thread killer([&] {
    // A stopped process cannot answer, so the running compile waits.
    killed = kill(victim, SIGKILL) == 0;
  });
  fixture.Success(kScale, {}, kScaleLaunch);
  killer.join();
  CHECK(killed);
}

TEST_CASE("A compiler is replaced after a fixed number of compiles", "[integration]") {
  if (!HaveNvrtc()) return;
  CudaCompilerOptions options;
  options.compiles_per_process = 2;
  Fixture fixture(options);
  const pid_t first = CompilerProcesses().at(0);
  fixture.Success(absl::StrCat(kScale, "// 1"));
  CHECK(CompilerProcesses().at(0) == first);
  fixture.Success(absl::StrCat(kScale, "// 2"));
  CHECK(CompilerProcesses().empty());
  fixture.Success(absl::StrCat(kScale, "// 3"));
  CHECK(CompilerProcesses().at(0) != first);
}

TEST_CASE("A caller that left gets no answer and its compile is stopped", "[integration]") {
  if (!HaveNvrtc()) return;
  Fixture fixture;
  CancelToken gone;
  gone.Cancel();
  CHECK(absl::IsCancelled(
      fixture.compiler().Compile(kScale, {}, kScaleLaunch, "sm_90a", gone).status()));
  const CancelToken late(Clock::Real().MonotonicNs() + 300'000'000);
  const auto result = fixture.compiler().Compile(
      "template <int N, int M> struct F { static constexpr int v = F<N - 1, M>::v + F<N - 1, M + "
      "N>::v; };\n"
      "template <int M> struct F<0, M> { static constexpr int v = M; };\n"
      "extern \"C\" __global__ void k(int* p) { *p = F<60, 0>::v; }\n",
      {}, {}, "sm_90a", late);
  CHECK(absl::IsDeadlineExceeded(result.status()));
  CHECK(CompilerProcesses().empty());
}

TEST_CASE("A source gives the same cubin in another process", "[integration]") {
  if (!HaveNvrtc()) return;
  const std::string source =
      "namespace { __device__ int hidden; template <class T> __device__ T f(T t) { return t + "
      "hidden; } }\n"
      "static __global__ void internal(int* p) { *p = f(2); }\n"
      "extern \"C\" __global__ void k(int* p) { *p = f(1); hidden = *p; }\n";
  Fixture one;
  Fixture two;
  CHECK(one.Success(source).artifact.content == two.Success(source).artifact.content);
}

TEST_CASE("Missing tools are reported", "[integration]") {
  const TemporaryFolder folder("cuda");
  const auto make = [&](const CudaCompilerOptions& options) {
    auto artifacts = ArtifactCache::Open(folder.File("artifacts"), 1 << 20);
    REQUIRE(artifacts.ok());
    CompileCache cache(*std::move(artifacts));
    return CudaCompiler::Make(options, cache).status();
  };
  CudaCompilerOptions nowhere;
  nowhere.process.toolkit.include_directory = "/nonexistent";
  CHECK(absl::IsUnavailable(make(nowhere)));
  if (!HaveNvrtc()) return;
  CudaCompilerOptions options;
  options.process.toolkit = *FindCudaToolkit({KERNELCAST_CUDA_HOME});
  options.process.program = "/nonexistent/kernelcast-cuda-compiler";
  CHECK_THAT(std::string(make(options).message()),
             Catch::Contains("/nonexistent/kernelcast-cuda-compiler"));
  options.process.program = "/bin/true";
  CHECK(absl::IsUnavailable(make(options)));
  options.process.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
  options.process.toolkit.nvrtc_builtins = "/nonexistent/libnvrtc-builtins.so";
  CHECK_THAT(std::string(make(options).message()),
             Catch::Contains("/nonexistent/libnvrtc-builtins.so"));
}

}  // namespace
}  // namespace kernelcast::testing::cuda_compiler_test
