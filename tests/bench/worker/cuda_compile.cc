// Measures the cost of compiling device CUDA: starting a compiler, the first and later compiles,
// and the memory of a compiler process.
//
//   bench_worker_cuda_compile [--compiles N] [--architecture sm_90a] [--uid N]
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "services/worker/core/source_scan.h"
#include "services/worker/cuda/compiler/compiler_process.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/compiler/header_archive.h"
#include "services/worker/cuda/compiler/ptx_facts.h"

namespace kernelcast::worker {
namespace {

struct Flags {
  int compiles = 50;
  std::string architecture = "sm_90a";
  uint32_t uid = 0;
};

constexpr std::pair<const char*, const char*> kSources[] = {
    {"no header",
     "extern \"C\" __global__ void k(const float* x, float* y, long long n) {\n"
     "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
     "  if (i < n) y[i] = 2 * x[i];\n}\n"},
    {"cuda_fp16.h",
     "#include <cuda_fp16.h>\n"
     "extern \"C\" __global__ void k(const __half* x, float* y, long long n) {\n"
     "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
     "  if (i < n) y[i] = 2 * __half2float(x[i]);\n}\n"},
    {"cuda_bf16.h, mma.h, cooperative_groups.h",
     "#include <cuda_bf16.h>\n#include <mma.h>\n#include <cooperative_groups.h>\n"
     "extern \"C\" __global__ void k(const __nv_bfloat16* x, float* y) {\n"
     "  y[threadIdx.x] = __bfloat162float(x[threadIdx.x]);\n}\n"},
    {"cub/block/block_reduce.cuh",
     "#include <cub/block/block_reduce.cuh>\n"
     "extern \"C\" __global__ void k(const float* x, float* y) {\n"
     "  using Reduce = cub::BlockReduce<float, 256>;\n"
     "  __shared__ typename Reduce::TempStorage storage;\n"
     "  float sum = Reduce(storage).Sum(x[threadIdx.x]);\n"
     "  if (threadIdx.x == 0) *y = sum;\n}\n"},
};

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

double Median(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return Ms(values[values.size() / 2]);
}

// Sum of "Rss", "Pss" or "Private_Dirty" over all mappings of the only child, in MiB.
double ChildMemoryMib(const std::string& name) {
  std::ifstream children("/proc/self/task/" + std::to_string(getpid()) + "/children");
  int pid = 0;
  children >> pid;
  std::ifstream rollup("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind(name + ":", 0) == 0) {
      return std::stod(line.substr(name.size() + 1)) / 1024;
    }
  }
  return 0;
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(const Flags& flags) {
  const Clock& clock = Clock::Real();
  auto toolkit = FindCudaToolkit({KERNELCAST_CUDA_HOME});
  if (!toolkit.ok()) return Fail(toolkit.status());
  CompilerProcessOptions options;
  options.program = KERNELCAST_BIN_DIR "/kernelcast-cuda-compiler";
  options.toolkit = *toolkit;
  options.uid = flags.uid;
  int64_t start_ns = clock.MonotonicNs();
  const auto headers = HeaderArchive::Read(toolkit->include_directory);
  if (!headers.ok()) return Fail(headers.status());
  std::printf("reading %zu headers: %.1f ms\n", (*headers)->size(),
              Ms(clock.MonotonicNs() - start_ns));

  for (const auto& [name, source] : kSources) {
    start_ns = clock.MonotonicNs();
    auto process = CompilerProcess::Start(options, (*headers)->fd(), CancelToken());
    if (!process.ok()) return Fail(process.status());
    const double started_ms = Ms(clock.MonotonicNs() - start_ns);
    const double fresh_mib = ChildMemoryMib("Rss");
    std::vector<int64_t> compile_ns;
    std::vector<int64_t> around_ns;
    compiler_wire::CompileReply reply;
    size_t reached = 0;
    for (int i = 0; i < flags.compiles; ++i) {
      start_ns = clock.MonotonicNs();
      compiler_wire::CompileRequest request;
      request.source = source;
      request.options = {"-arch=" + flags.architecture, "-Xptxas=-v", "--no-source-include",
                         "--no-cache", "--modify-stack-limit=false"};
      request.headers = (*headers)->Reach(IncludedFiles(request.source));
      reached = request.headers.size();
      const int64_t sent_ns = clock.MonotonicNs();
      if ((*process)->Compile(request, 60'000'000'000, CancelToken(), reply) !=
              CompilerProcess::End::kAnswered ||
          reply.code != compiler_wire::ReplyCode::kCompiled) {
        return Fail(absl::InternalError(reply.log));
      }
      const int64_t compiled_ns = clock.MonotonicNs();
      const auto cubin = ReadCubin(reply.cubin);
      if (!cubin.ok()) return Fail(cubin.status());
      ExtractPtxFacts(reply.ptx, *cubin, ReadPtxasInfo(reply.log));
      compile_ns.push_back(compiled_ns - sent_ns);
      around_ns.push_back(sent_ns - start_ns + clock.MonotonicNs() - compiled_ns);
    }
    std::printf(
        "%s (%zu headers): start %.1f ms, first %.1f ms, later %.1f ms, minimum %.1f ms, headers "
        "and "
        "facts %.2f ms; "
        "resident %.0f MiB fresh, %.0f MiB after %d, of which private %.0f MiB; cubin %zu, PTX %zu "
        "bytes\n",
        name, reached, started_ms, Ms(compile_ns[0]), Median(compile_ns),
        Ms(*std::min_element(compile_ns.begin(), compile_ns.end())), Median(around_ns), fresh_mib,
        ChildMemoryMib("Rss"), flags.compiles, ChildMemoryMib("Private_Dirty"), reply.cubin.size(),
        reply.ptx.size());
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) {
  kernelcast::worker::Flags flags;
  CLI::App app("Prints what compiling device CUDA costs.");
  app.add_option("--compiles", flags.compiles, "Compiles of each source")
      ->check(CLI::PositiveNumber);
  app.add_option("--architecture", flags.architecture, "Architecture by NVRTC's name");
  app.add_option("--uid", flags.uid, "User of the compiler when run as root; 0: the same");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::worker::Run(flags);
}
