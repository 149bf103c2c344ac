// Compares the time to compile through the worker (checks of the source and the outputs, sandbox,
// facts) with that of the bare compiler on the same source and flags. The two take turns.
//
//   bench_worker_compile_wall [--rounds N] [--compiler g++|nvcc] [--uid N] [--jsonl FILE]
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/statistics.h"
#include "common/base/status.h"
#include "common/process/child_process.h"
#include "services/worker/cpu/compiler.h"
#include "services/worker/native/toolchain.h"
#include "tests/support/services.h"
#ifdef KERNELCAST_BENCH_CUDA
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/cuda/nvcc/nvcc_compiler.h"
#endif

namespace kernelcast::worker {
namespace {

struct Flags {
  int rounds = 15;
  std::string compiler = "g++";
  uint32_t uid = 65534;
  std::string jsonl;
};

constexpr int64_t kBareLimitNs = 120'000'000'000;
constexpr const char* kProblems[] = {"cross_entropy", "matmul", "row_softmax", "stencil2d"};

struct Cost {
  double wall_ms = 0;
  double cpu_ms = 0;  // of the child processes
};

double ChildrenCpuMs() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto ms = [](const timeval& time) {
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_usec);
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

using Compile = std::function<absl::Status(const std::string& source)>;

absl::StatusOr<Cost> Measure(const Compile& compile, const std::string& source) {
  const double cpu_ms = ChildrenCpuMs();
  const int64_t start_ns = Clock::Real().MonotonicNs();
  KC_RETURN_IF_ERROR(compile(source));
  Cost cost;
  cost.wall_ms = 1e-6 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns);
  cost.cpu_ms = ChildrenCpuMs() - cpu_ms;
  return cost;
}

// Runs a compiler without sandbox or checks.
Compile Bare(std::vector<std::string> command, std::string folder, std::string name) {
  return [command = std::move(command), folder = std::move(folder),
          name = std::move(name)](const std::string& source) -> absl::Status {
    std::ofstream(absl::StrCat(folder, "/", name)) << source;
    ChildOptions options;
    options.argv = command;
    options.working_directory = folder;
    options.environment = CompilerEnvironment(folder);
    KC_ASSIGN_OR_RETURN(const auto child, ChildProcess::Spawn(options));
    setpriority(PRIO_PROCESS, static_cast<id_t>(child->pid()), kCompileNice);
    const ChildExit exit = child->Wait(kBareLimitNs);
    return exit.exited && exit.exit_code == 0 ? absl::OkStatus()
                                              : absl::InternalError(exit.output.substr(0, 1000));
  };
}

absl::Status Succeeded(const absl::StatusOr<CompileResult>& result) {
  KC_RETURN_IF_ERROR(result.status());
  const auto* const error = std::get_if<CompileError>(&result->result);
  return error == nullptr ? absl::OkStatus() : absl::InternalError(error->log.substr(0, 1000));
}

absl::Status CompareOne(const Flags& flags, const std::string& name, const std::string& source,
                        const Compile& bare, const Compile& worker) {
  std::vector<double> bare_ms, worker_ms, wall_ratios, cpu_ratios;
  for (int round = 0; round <= flags.rounds; ++round) {
    // Results are cached by source.
    const std::string text = absl::StrCat(source, "\n// ", round, "\n");
    Cost first, second;
    const bool worker_first = round % 2 == 1;
    KC_ASSIGN_OR_RETURN(first, Measure(worker_first ? worker : bare, text));
    KC_ASSIGN_OR_RETURN(second, Measure(worker_first ? bare : worker, text));
    if (worker_first) std::swap(first, second);
    if (round == 0) continue;  // reads the toolchain from the disk
    bare_ms.push_back(first.wall_ms);
    worker_ms.push_back(second.wall_ms);
    wall_ratios.push_back(second.wall_ms / first.wall_ms);
    cpu_ratios.push_back(second.cpu_ms / first.cpu_ms);
  }
  const double wall_percent = 100 * (Median(wall_ratios) - 1);
  const double cpu_percent = 100 * (Median(cpu_ratios) - 1);
  std::printf("%s: bare %.1f ms, worker %.1f ms: wall %+.1f%%, CPU %+.1f%%\n", name.c_str(),
              Median(bare_ms), Median(worker_ms), wall_percent, cpu_percent);
  if (!flags.jsonl.empty()) {
    std::ofstream(flags.jsonl, std::ios::app)
        << nlohmann::ordered_json{{"compiler", flags.compiler},     {"source", name},
                                  {"rounds", flags.rounds},         {"bare_ms", Median(bare_ms)},
                                  {"worker_ms", Median(worker_ms)}, {"wall_percent", wall_percent},
                                  {"cpu_percent", cpu_percent}}
               .dump()
        << "\n";
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReferenceOf(const std::string& problem, const std::string& extension) {
  return ReadFile(
      absl::StrCat(KERNELCAST_SOURCE_DIR, "/examples/problems/", problem, "/reference", extension));
}

constexpr const char* kCandidateHeaders = KERNELCAST_SOURCE_DIR "/common/candidate_abi";
constexpr const char* kSandbox = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";

absl::Status CompareGcc(const Flags& flags) {
  const testing::TemporaryFolder folder("compile-wall");
  const testing::TemporaryFolder bare_folder("compile-bare");
  KC_ASSIGN_OR_RETURN(Toolchain toolchain, Toolchain::Probe(flags.compiler));
  std::vector<std::string> command = {toolchain.compiler};
  for (const std::string& flag : BaseFlags()) command.push_back(flag);
  for (const char* argument : {"-shared", "kernel.cc", "-o", "kernel.so", "-lm"}) {
    command.emplace_back(argument);
  }
  command.push_back(absl::StrCat("-I", kCandidateHeaders));
  CompilerOptions options;
  options.work_directory = folder.path().string();
  options.include_directories = {kCandidateHeaders};
  options.sandbox.program = kSandbox;
  options.sandbox.uid = flags.uid;
  const CpuCompiler compiler(std::move(toolchain), std::move(options));
  const Compile bare = Bare(std::move(command), bare_folder.path().string(), "kernel.cc");
  const Compile worker = [&compiler](const std::string& source) {
    return Succeeded(compiler.Compile(source, {}, CancelToken()));
  };
  for (const char* problem : kProblems) {
    KC_ASSIGN_OR_RETURN(const std::string source, ReferenceOf(problem, ".cc"));
    KC_RETURN_IF_ERROR(CompareOne(flags, problem, source, bare, worker));
  }
  return absl::OkStatus();
}

#ifdef KERNELCAST_BENCH_CUDA
constexpr const char* kLaunch =
    "#include <cuda_runtime.h>\n#include <kernelcast/candidate.h>\n"
    "__global__ void twice(const float* x, float* y, int n) {\n"
    "  const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
    "extern \"C\" int32_t kernelcast_run(const DLTensor* in, int32_t, const DLTensor* out, "
    "int32_t,\n                                  void* stream) {\n"
    "  const int n = (int)in[0].shape[0];\n"
    "  twice<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(kc_data<float>(in[0]),\n"
    "                                                           kc_data<float>(out[0]), n);\n"
    "  return cudaGetLastError();\n}\n";

absl::Status CompareNvcc(const Flags& flags) {
  const testing::TemporaryFolder folder("compile-wall");
  const testing::TemporaryFolder bare_folder("compile-bare");
  NvccOptions options;
  KC_ASSIGN_OR_RETURN(options.toolkit, FindCudaToolkit({KERNELCAST_CUDA_HOME}));
  options.work_directory = folder.path().string();
  options.include_directories = {kCandidateHeaders};
  options.sandbox.program = kSandbox;
  options.sandbox.uid = flags.uid;
  std::vector<std::string> command = {options.toolkit.nvcc,
                                      "-gencode=arch=compute_90a,code=sm_90a",
                                      "-O3",
                                      "-Xcompiler=-fPIC",
                                      "-shared",
                                      "kernel.cu",
                                      "-o",
                                      "kernel.so",
                                      absl::StrCat("-I", kCandidateHeaders)};
  KC_ASSIGN_OR_RETURN(auto artifacts, ArtifactCache::Open(folder.File("artifacts"), 64 << 20));
  CompileCache cache(std::move(artifacts));
  KC_ASSIGN_OR_RETURN(const auto compiler, NvccCompiler::Make(std::move(options), cache));
  const Compile bare = Bare(std::move(command), bare_folder.path().string(), "kernel.cu");
  const Compile worker = [&compiler](const std::string& source) {
    return Succeeded(compiler->Compile(source, {}, "sm_90a", CancelToken()));
  };
  return CompareOne(flags, "host-launched map", kLaunch, bare, worker);
}
#else
absl::Status CompareNvcc(const Flags&) {
  return absl::UnimplementedError("this build has no CUDA headers");
}
#endif

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  kernelcast::worker::Flags flags;
  CLI::App app("Compares compiling through the worker with the bare compiler.");
  app.add_option("--rounds", flags.rounds, "Compiles of each source")->check(CLI::PositiveNumber);
  app.add_option("--compiler", flags.compiler, "A C++ compiler, or nvcc");
  app.add_option("--uid", flags.uid, "User of the compilers when run as root; 0: the same");
  app.add_option("--jsonl", flags.jsonl, "Append the figures to this file");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = flags.compiler == "nvcc" ? kernelcast::worker::CompareNvcc(flags)
                                                       : kernelcast::worker::CompareGcc(flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
