// kernelcast-cuda-compiler: compiles CUDA sources with NVRTC and runs the result on a virtual GPU.
// The worker starts it and talks to it over a socket (wire.h). Sources are untrusted and the
// compiler is large, so this process can open no files and has all headers in memory. Not meant to
// be started by hand.

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/cuda/api/nvrtc_api.h"
#include "services/worker/cuda/compiler/sandbox.h"
#include "services/worker/cuda/compiler/wire.h"
#include "services/worker/sandbox/namespaces.h"
#include "services/worker/virtual_gpu/estimate/gpu_model.h"
#include "services/worker/virtual_gpu/estimate/launch_facts.h"
#include "services/worker/virtual_gpu/execute/simulator.h"
#include "services/worker/virtual_gpu/parse/parser.h"

namespace kernelcast::worker {
namespace {

using compiler_wire::CompileReply;
using compiler_wire::CompileRequest;
using compiler_wire::Hello;
using compiler_wire::ReplyCode;
using compiler_wire::SimulateReply;
using compiler_wire::SimulateRequest;

constexpr uint64_t kMaxRequestBytes = 64 << 20;
constexpr rlim_t kStackBytes = 64 << 20;
constexpr size_t kKeptBytes = 32 << 20;
constexpr const char* kSourceName = "kernel.cu";
// Runs the compiler through all its stages, so that it opens its files before the sandbox is
// entered.
constexpr const char* kTrial =
    "extern \"C\" __global__ void trial(float* y, int n) {\n"
    "  extern __shared__ float s[];\n"
    "  for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = sinf(y[i]) / y[n - i];\n"
    "  __syncthreads();\n"
    "  y[threadIdx.x] = s[0];\n"
    "}\n";

bool ReadAll(int fd, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t count = read(fd, bytes, size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool WriteAll(int fd, const std::string& bytes) {
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t count = write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno != EINTR) {
      return false;
    }
    written += count > 0 ? static_cast<size_t>(count) : 0;
  }
  return true;
}

// The headers that the worker shares with all compiler processes.
struct Headers {
  const char* memory = nullptr;
  uint64_t bytes = 0;

  static absl::StatusOr<Headers> Map() {
    struct stat info {};
    if (fstat(compiler_wire::kHeadersFd, &info) != 0 || info.st_size <= 0) {
      return absl::FailedPreconditionError("is started by the worker only");
    }
    Headers headers;
    headers.bytes = static_cast<uint64_t>(info.st_size);
    void* mapped =
        mmap(nullptr, headers.bytes, PROT_READ, MAP_SHARED, compiler_wire::kHeadersFd, 0);
    headers.memory = static_cast<const char*>(mapped);
    if (mapped == MAP_FAILED || headers.memory[headers.bytes - 1] != '\0') {
      return absl::FailedPreconditionError("cannot map the headers");
    }
    return headers;
  }
};

template <class SizeFunction, class GetFunction>
std::string Output(nvrtcProgram program, SizeFunction size_of, GetFunction get) {
  size_t size = 0;
  if (size_of(program, &size) != NVRTC_SUCCESS || size == 0) {
    return "";
  }
  std::string bytes(size, '\0');
  return get(program, bytes.data()) == NVRTC_SUCCESS ? bytes : "";
}

std::string WithoutEnd(std::string text) {
  while (!text.empty() && text.back() == '\0') {
    text.pop_back();
  }
  return text;
}

class Compiler {
 public:
  Compiler(const NvrtcApi& api, const Headers& headers) : api_(api), headers_(headers) {}

  CompileReply Compile(const CompileRequest& request) const {
    CompileReply reply;
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const compiler_wire::NamedHeader& header : request.headers) {
      if (header.offset >= headers_.bytes) {
        reply.log = "a header beyond the end of the headers";
        return reply;
      }
      texts.push_back(headers_.memory + header.offset);
      names.push_back(header.name.c_str());
    }
    std::vector<const char*> options;
    for (const std::string& option : request.options) {
      options.push_back(option.c_str());
    }
    nvrtcProgram program = nullptr;
    nvrtcResult result =
        api_.CreateProgram(&program, request.source.c_str(), kSourceName,
                           static_cast<int>(names.size()), texts.data(), names.data());
    if (result == NVRTC_SUCCESS) {
      result = api_.CompileProgram(program, static_cast<int>(options.size()), options.data());
      reply.log = WithoutEnd(Output(program, api_.GetProgramLogSize, api_.GetProgramLog));
    }
    switch (result) {
      case NVRTC_SUCCESS:
        reply.code = ReplyCode::kCompiled;
        reply.ptx = WithoutEnd(Output(program, api_.GetPtxSize, api_.GetPtx));
        reply.cubin = Output(program, api_.GetCubinSize, api_.GetCubin);
        break;
      case NVRTC_ERROR_OUT_OF_MEMORY: reply.code = ReplyCode::kOutOfMemory; break;
      case NVRTC_ERROR_COMPILATION:
        reply.code = ReplyCode::kRefused;
        if (reply.log.empty()) {
          reply.log = "NVRTC failed without a message";
        }
        break;
      case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      case NVRTC_ERROR_PROGRAM_CREATION_FAILURE:
        reply.code = ReplyCode::kBroken;
        absl::StrAppend(&reply.log, reply.log.empty() ? "" : "\n", api_.GetErrorString(result));
        break;
      default:
        // Without a word about the source it is NVRTC that failed.
        reply.code = reply.log.empty() ? ReplyCode::kBroken : ReplyCode::kRefused;
        absl::StrAppend(&reply.log, reply.log.empty() ? "" : "\n", api_.GetErrorString(result));
    }
    if (program != nullptr) {
      api_.DestroyProgram(&program);
    }
    return reply;
  }

 private:
  const NvrtcApi& api_;
  const Headers& headers_;
};

// Returns "13.0.88" for "// Cuda compilation tools, release 13.0, V13.0.88". The library's own
// version is only "13.0".
std::string VersionIn(const std::string& ptx) {
  const size_t line = ptx.find("Cuda compilation tools");
  const size_t start = line == std::string::npos ? line : ptx.find(", V", line);
  if (start == std::string::npos) {
    return "";
  }
  const size_t end = ptx.find_first_not_of("0123456789.", start + 3);
  return ptx.substr(start + 3, end == std::string::npos ? end : end - start - 3);
}

absl::Status Warm(const NvrtcApi& api, const Compiler& compiler, Hello& hello) {
  int count = 0;
  if (api.GetNumSupportedArchs(&count) != NVRTC_SUCCESS || count <= 0) {
    return absl::UnavailableError("NVRTC does not list its architectures");
  }
  std::vector<int> architectures(static_cast<size_t>(count));
  if (api.GetSupportedArchs(architectures.data()) != NVRTC_SUCCESS) {
    return absl::UnavailableError("NVRTC does not list its architectures");
  }
  hello.architectures.assign(architectures.begin(), architectures.end());
  CompileRequest trial;
  trial.source = kTrial;
  trial.options = {absl::StrCat("-arch=sm_", architectures.back()), "-Xptxas=-v"};
  const CompileReply reply = compiler.Compile(trial);
  if (reply.code != ReplyCode::kCompiled || reply.cubin.empty() || reply.ptx.empty()) {
    return absl::UnavailableError(absl::StrCat("NVRTC cannot compile a trial: ", reply.log));
  }
  hello.version = VersionIn(reply.ptx);
  if (hello.version.empty()) {
    int major = 0;
    int minor = 0;
    api.Version(&major, &minor);
    hello.version = absl::StrCat(major, ".", minor);
  }
  return absl::OkStatus();
}

// The PTX of the programs that were compiled last.
class KeptPrograms {
 public:
  void Keep(const std::string& name, std::string ptx) {
    std::erase_if(programs_, [&](const Program& kept) { return kept.name == name; });
    programs_.push_back({name, std::move(ptx)});
    while (programs_.size() > compiler_wire::kKeptPrograms || Bytes() > kKeptBytes) {
      programs_.pop_front();
    }
  }
  // Null: it is not kept.
  const std::string* Find(const std::string& name) const {
    const auto found = std::find_if(programs_.begin(), programs_.end(),
                                    [&](const Program& kept) { return kept.name == name; });
    return found == programs_.end() ? nullptr : &found->ptx;
  }

 private:
  struct Program {
    std::string name;
    std::string ptx;
  };
  size_t Bytes() const {
    size_t bytes = 0;
    for (const Program& kept : programs_) bytes += kept.ptx.size();
    return bytes;
  }

  std::deque<Program> programs_;  // the oldest first
};

// Checks the launches at a shape, and adds what they found and wrote to the reply.
void CheckShape(const virtual_gpu::Program& program, const compiler_wire::SimulatedShape& shape,
                int64_t& steps, SimulateReply& reply) {
  virtual_gpu::GlobalMemory memory(shape.buffers, program);
  std::vector<SimulateReply::Launch>& launches = reply.shapes.emplace_back();
  bool exact = true;
  for (virtual_gpu::LaunchCheck& check : virtual_gpu::Check(
           program, shape.buffers, shape.launches, virtual_gpu::CheckLimits(steps), memory)) {
    steps -= check.steps;
    exact = exact && check.inexact().empty();
    launches.push_back({.kernel = check.kernel,
                        .not_covered = {},
                        .values = {},
                        .not_checked = check.not_checked,
                        .findings = std::move(check.findings),
                        .inexact = check.inexact()});
  }
  std::vector<std::string>& contents = reply.contents.emplace_back();
  for (const uint64_t wanted : shape.wanted) {
    if (exact && wanted < std::min<size_t>(shape.buffers.size(), virtual_gpu::kMaxBuffers)) {
      contents.emplace_back(memory.Content(static_cast<int>(wanted)));
    }
  }
}

// Runs a program on the virtual GPU.
SimulateReply Simulate(const SimulateRequest& request, const KeptPrograms& kept) {
  SimulateReply reply;
  const std::string* const ptx =
      request.program.empty() ? &request.ptx : kept.Find(request.program);
  if (ptx == nullptr) {
    reply.known = false;
    return reply;
  }
  const auto models = virtual_gpu::AllGpuModels();
  const virtual_gpu::GpuModel& gpu = models[std::min<size_t>(request.gpu, models.size() - 1)];
  const virtual_gpu::Program program = virtual_gpu::ParseProgram(*ptx);
  auto check_steps = static_cast<int64_t>(request.check_steps);
  for (const compiler_wire::SimulatedShape& shape : request.shapes) {
    if (shape.checks) {
      CheckShape(program, shape, check_steps, reply);
      continue;
    }
    reply.contents.emplace_back();
    const auto counts = virtual_gpu::Simulate(program, shape.buffers, shape.launches);
    const auto estimates = virtual_gpu::Estimate(gpu, shape.buffers, counts, shape.resources);
    auto& launches = reply.shapes.emplace_back();
    for (size_t k = 0; k < counts.size(); ++k) {
      launches.push_back({counts[k].kernel, counts[k].not_covered,
                          counts[k].not_covered.empty()
                              ? virtual_gpu::LaunchFacts(counts[k], estimates[k])
                              : std::vector<double>()});
    }
  }
  return reply;
}

// Answers requests until the socket is closed.
int Serve(const Compiler& compiler) {
  KeptPrograms kept;
  for (;;) {
    uint64_t size = 0;
    if (!ReadAll(compiler_wire::kSocketFd, reinterpret_cast<char*>(&size), sizeof(size))) {
      return 0;
    }
    if (size > kMaxRequestBytes) {
      return 1;
    }
    std::string content(size, '\0');
    if (!ReadAll(compiler_wire::kSocketFd, content.data(), size)) {
      return 1;
    }
    if (const auto simulation = SimulateRequest::Decode(content)) {
      if (!WriteAll(compiler_wire::kSocketFd, Simulate(*simulation, kept).Encode())) {
        return 1;
      }
      continue;
    }
    const auto request = CompileRequest::Decode(content);
    if (!request) {
      return 1;
    }
    CompileReply reply;
    try {
      reply = compiler.Compile(*request);
    } catch (const std::bad_alloc&) {
      // The compiler's state cannot be trusted after this.
      reply = CompileReply();
      reply.code = ReplyCode::kOutOfMemory;
      WriteAll(compiler_wire::kSocketFd, reply.Encode());
      return 1;
    }
    if (!WriteAll(compiler_wire::kSocketFd, reply.Encode())) {
      return 1;
    }
    if (reply.code == ReplyCode::kCompiled && !request->program.empty()) {
      kept.Keep(request->program, std::move(reply.ptx));
    }
  }
}

// Usage: kernelcast-cuda-compiler NVRTC BUILTINS UID MAX_MEMORY_BYTES
int Run(int argc, char** argv) {
  if (argc != 5) {
    fprintf(stderr, "kernelcast-cuda-compiler is started by the worker only\n");
    return 2;
  }
  // Room for deep template recursion; the stack grows on demand.
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) == 0) {
    stack.rlim_cur = std::min(stack.rlim_max, kStackBytes);
    setrlimit(RLIMIT_STACK, &stack);
  }
  // Must precede the compiler's threads.
  const bool own_namespaces = sandbox::LeaveNamespaces();
  CudaToolkit toolkit;
  toolkit.nvrtc_library = argv[1];
  toolkit.nvrtc_builtins = argv[2];
  const auto headers = Headers::Map();
  const auto api = LoadNvrtcApi(toolkit);
  Hello hello;
  if (!headers.ok() || !api.ok()) {
    hello.error = std::string((headers.ok() ? api.status() : headers.status()).message());
    WriteAll(compiler_wire::kSocketFd, hello.Encode());
    return 1;
  }
  const Compiler compiler(*api, *headers);
  if (const absl::Status warm = Warm(*api, compiler, hello); !warm.ok()) {
    hello.error = std::string(warm.message());
    WriteAll(compiler_wire::kSocketFd, hello.Encode());
    return 1;
  }
  hello.missing_protections =
      EnterCompilerSandbox(static_cast<uint32_t>(strtoul(argv[3], nullptr, 10)),
                           strtoll(argv[4], nullptr, 10), own_namespaces);
  if (!WriteAll(compiler_wire::kSocketFd, hello.Encode())) {
    return 1;
  }
  return Serve(compiler);
}

}  // namespace
}  // namespace kernelcast::worker

int main(int argc, char** argv) { return kernelcast::worker::Run(argc, argv); }
