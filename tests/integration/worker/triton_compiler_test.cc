#include "services/worker/cuda/language/triton/triton_compiler.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/domain/problem.h"
#include "services/worker/cuda/api/cuda_toolkit.h"
#include "services/worker/cuda/compiler/cubin.h"
#include "services/worker/cuda/language/device_code.h"
#include "tests/support/services.h"

namespace kernelcast::testing::triton_compiler_test {
namespace {

using worker::ArtifactCache;
using worker::CancelToken;
using worker::CompileCache;
using worker::CompileResult;
using worker::CompileSuccess;
using worker::DecodeDeviceArtifact;
using worker::FindCudaToolkit;
using worker::TritonCompiler;
using worker::TritonCompilerOptions;

// One block handles a row in steps of BLOCK columns.
constexpr const char* kSoftmax = R"(
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    largest = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=-float("inf"))
        bigger = tl.maximum(largest, value)
        safe = tl.where(bigger == -float("inf"), 0.0, bigger)
        total = total * tl.exp(largest - safe) + tl.exp(value - safe)
        largest = bigger
    row_largest = tl.max(largest, 0)
    row_total = tl.sum(total * tl.exp(largest - row_largest), 0)
    for start in range(0, cols, BLOCK):
        inside = start + offsets < cols
        value = tl.load(x + row * cols + start + offsets, mask=inside, other=-float("inf"))
        tl.store(y + row * cols + start + offsets, tl.exp(value - row_largest) / row_total, mask=inside)
)";

const worker::CompileGpu kGpu{.name = "", .architecture = "sm_90a"};

std::string Python() { return KERNELCAST_SOURCE_DIR "/.setup/triton/bin/python"; }

// Why nothing is tested here, or "".
std::string Missing() {
  std::error_code ignored;
  if (!FindCudaToolkit({KERNELCAST_CUDA_HOME}).ok()) return "no CUDA toolkit";
  if (!std::filesystem::exists(Python(), ignored)) return "no .setup/triton (scripts/setup.sh)";
  return "";
}

bool HaveTriton() {
  const std::string missing = Missing();
  if (!missing.empty()) WARN(missing << ": nothing is tested");
  return missing.empty();
}

// `name` is a folder in examples.
Problem ReadProblem(const std::string& name) {
  auto files = ReadProblemFolder(absl::StrCat(KERNELCAST_SOURCE_DIR "/examples/", name));
  REQUIRE(files.ok());
  auto problem = ParseProblem(*std::move(files));
  REQUIRE(problem.ok());
  return *std::move(problem);
}

class Fixture {
 public:
  explicit Fixture(TritonCompilerOptions options = {},
                   const std::string& problem = "problems/row_softmax", bool relative = false)
      : folder_("triton"), problem_(ReadProblem(problem)) {
    options.python = Python();
    options.toolkit = *FindCudaToolkit({KERNELCAST_CUDA_HOME});
    options.work_directory =
        relative ? std::filesystem::relative(folder_.path()).string() : folder_.path().string();
    options.sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
    options.sandbox.uid = 65534;
    auto artifacts = ArtifactCache::Open(folder_.File("artifacts"), 64 << 20);
    REQUIRE(artifacts.ok());
    cache_ = std::make_unique<CompileCache>(*std::move(artifacts));
    auto compiler = TritonCompiler::Make(options, *cache_);
    INFO(compiler.status().ToString());
    REQUIRE(compiler.ok());
    compiler_ = *std::move(compiler);
  }

  TritonCompiler& compiler() { return *compiler_; }
  const Problem& problem() const { return problem_; }
  std::string folder() const { return folder_.path(); }

  Candidate SoftmaxCandidate(const std::string& source = kSoftmax) const {
    Candidate candidate;
    candidate.problem_id = problem_.problem_id;
    candidate.target = "cuda";
    candidate.kind = CandidateKind::kDeviceTriton;
    candidate.source = source;
    Launch& launch = candidate.launches.emplace_back();
    launch.kernel = "softmax";
    launch.grid = {"rows"};
    launch.arguments = {"x", "y", "cols"};
    launch.constexprs = {{"BLOCK", "1024"}};
    launch.num_warps = 8;
    return candidate;
  }

  CompileResult Compile(const Candidate& candidate, const std::string& architecture = "sm_90a") {
    const worker::CompileGpu gpu{.name = "", .architecture = architecture};
    auto result =
        compiler_->Compile({problem_, problem_.targets.at("cuda"), candidate, gpu}, CancelToken());
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *std::move(result);
  }
  CompileSuccess Success(const Candidate& candidate, const std::string& architecture = "sm_90a") {
    CompileResult result = Compile(candidate, architecture);
    if (const auto* error = std::get_if<CompileError>(&result.result)) FAIL(error->log);
    return std::get<CompileSuccess>(std::move(result.result));
  }
  CompileError Refusal(const Candidate& candidate) {
    CompileResult result = Compile(candidate);
    REQUIRE(std::holds_alternative<CompileError>(result.result));
    return std::get<CompileError>(result.result);
  }
  CompileError Refusal(const std::string& source) { return Refusal(SoftmaxCandidate(source)); }

 private:
  TemporaryFolder folder_;
  const Problem problem_;
  std::unique_ptr<CompileCache> cache_;
  std::unique_ptr<TritonCompiler> compiler_;
};

double Fact(const CompileFacts& facts, std::string_view name) {
  const auto names = (*FindFactSchema(facts.schema))->names;
  const auto at = std::find(names.begin(), names.end(), name);
  REQUIRE(at != names.end());
  return facts.values.at(static_cast<size_t>(at - names.begin()));
}

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("A Triton kernel compiles for each architecture, and again from the cache",
          "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  const Candidate candidate = fixture.SoftmaxCandidate();
  for (const std::string architecture : {"sm_80", "sm_89", "sm_90a"}) {
    INFO(architecture);
    const CompileSuccess made = fixture.Success(candidate, architecture);
    CHECK(made.artifact.architecture == architecture);
    CHECK(Contains(made.ptx, absl::StrCat(".target ", architecture, "\n")));
    CHECK(Fact(made.facts, "launch_block_threads") == 256);
    CHECK(Fact(made.facts, "registers") > 0);
    const auto artifact = DecodeDeviceArtifact(made.artifact.content);
    REQUIRE(artifact.ok());
    const auto cubin = worker::ReadCubin(artifact->cubin);
    REQUIRE(cubin.ok());
    // One variant for rows that are multiples of 16, and one for the others.
    REQUIRE(cubin->kernels.size() == 2);
    REQUIRE(artifact->launches.size() == 2);
    CHECK(artifact->launches[0].kernel == "softmax");
    CHECK(artifact->launches[0].when == "mod(cols,16)==0");
    CHECK(artifact->launches[1].kernel == "softmax__2");
    CHECK(artifact->launches[1].when == "(mod(cols,16)==0)==0");
    for (const Launch& launch : artifact->launches) {
      CHECK(launch.block == std::vector<std::string>{"256"});
      CHECK(launch.arguments ==
            std::vector<std::string>{"x", "y", "cols:int32", "0:uint64", "0:uint64"});
      CHECK(!launch.shared_memory_bytes.empty());
    }
    CHECK(fixture.Compile(candidate, architecture).cached);
  }
}

TEST_CASE("The folder of Triton's compilations may be given by a relative path, under any mask",
          "[integration]") {
  if (!HaveTriton()) return;
  const mode_t before = umask(077);
  Fixture fixture({}, "problems/row_softmax", /*relative=*/true);
  CHECK(Fact(fixture.Success(fixture.SoftmaxCandidate()).facts, "registers") > 0);
  umask(before);
}

TEST_CASE("What a Triton source prints does not harm it", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  for (const char* printed : {"print('x' * 300000, flush=True)\n",
                              "import os\nassert os.write(2, b'y' * 3000000) == 3000000\n"}) {
    fixture.Success(fixture.SoftmaxCandidate(std::string(printed) + kSoftmax));
  }
}

TEST_CASE("Points of a Triton space compile with their configuration", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture({}, "triton_spaces/rmsnorm_triton");
  const Space& space = *fixture.problem().targets.at("cuda").space;
  const std::vector<SpacePoint> points = EnumeratePoints(space);
  // One point of each template.
  for (const SpacePoint& point : {points.front(), points.back()}) {
    const Candidate candidate = CandidateFromPoint(space, point, fixture.problem().problem_id);
    const CompileSuccess made = fixture.Success(candidate);
    CHECK(Fact(made.facts, "launch_block_threads") == 32 * candidate.launches[0].num_warps);
  }
  CHECK(points.front().template_index != points.back().template_index);
}

TEST_CASE("Lines of the PTX belong to lines of the source", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  const CompileSuccess made = fixture.Success(fixture.SoftmaxCandidate());
  // The first load is in line 16.
  CHECK(Contains(made.ptx, ".loc\t1 16 "));
  CHECK(!Contains(made.ptx, ".file"));
  CHECK(!Contains(made.ptx, ".loc\t2"));
}

TEST_CASE("Faults of a Triton source are results that say what to change", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  {
    const CompileError error = fixture.Refusal(std::string("import torch\n") + kSoftmax);
    CHECK(error.stage == CompileStage::kCompiler);
    CHECK(Contains(error.log, "No module named 'torch'"));
    CHECK(Contains(error.log, "can import triton and Python's standard library only"));
  }
  {
    const CompileError error = fixture.Refusal("def softmax(:\n");
    CHECK(Contains(error.log, "candidate.py\", line 1"));
    CHECK(Contains(error.log, "SyntaxError"));
  }
  {
    std::string source = kSoftmax;
    source.replace(source.find("tl.maximum(largest"), 10, "tl.missing");
    const CompileError error = fixture.Refusal(source);
    CHECK(error.stage == CompileStage::kCompiler);
    CHECK(Contains(error.log, "missing"));
  }
  const auto with = [&](auto change) {
    Candidate candidate = fixture.SoftmaxCandidate();
    change(candidate);
    return fixture.Refusal(candidate);
  };
  {
    const auto error = with([](Candidate& c) { c.launches[0].kernel = "other"; });
    CHECK(error.stage == CompileStage::kAdmission);
    CHECK(error.log == "no @triton.jit function 'other' in the source; there are: softmax");
  }
  {
    const auto error = with([](Candidate& c) { c.launches[0].constexprs.clear(); });
    CHECK(Contains(error.log, "constexpr 'BLOCK' of kernel 'softmax' has no value"));
  }
  {
    const auto error = with([](Candidate& c) {
      c.launches[0].constexprs.push_back({"STAGES", "2"});
    });
    CHECK(Contains(error.log, "has no constexpr parameter 'STAGES'"));
  }
  {
    const auto error = with([](Candidate& c) { c.launches[0].arguments.pop_back(); });
    CHECK(Contains(error.log, "takes 3 arguments that are not constexpr (x, y, cols)"));
  }
  {
    const auto error = with([](Candidate& c) { c.launches[0].constexprs[0].value = "1000"; });
    CHECK(Contains(error.log, "power of 2"));
  }
  {
    const auto error = with([](Candidate& c) { c.flags = {"--use_fast_math"}; });
    CHECK(Contains(error.log, "flags: device_triton candidates have none"));
  }
}

TEST_CASE("A decorator for tuning does nothing, because the launch gives the configuration",
          "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  std::string source = kSoftmax;
  source.replace(source.find("@triton.jit"), 11,
                 "@triton.autotune([triton.Config({'BLOCK': 64}), triton.Config({'BLOCK': 128})], "
                 "key=['cols'])\n@triton.jit");
  CHECK(Fact(fixture.Success(fixture.SoftmaxCandidate(source)).facts, "launch_block_threads") ==
        256);
}

// Code that runs while the source is imported, before the kernel.
std::string Importing(const std::string& code) {
  return absl::StrCat("import ctypes, os, socket, struct, subprocess, sys, threading, time\n", code,
                      "\n", kSoftmax);
}

// Reports the outcome of `expression` as an error of the source.
std::string Reporting(const std::string& expression) {
  return Importing(absl::StrCat("try:\n  outcome = repr(", expression,
                                ")\nexcept BaseException as error:\n  outcome = repr(error)\n"
                                "raise ValueError('outcome: ' + outcome)"));
}

TEST_CASE("A source cannot leave the compiler's sandbox", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  const std::string beside = fixture.folder() + "/secret";
  std::ofstream(beside) << "expected outputs";
  const auto outcome = [&](const std::string& expression) {
    const CompileError error = fixture.Refusal(Reporting(expression));
    const size_t at = error.log.find("outcome: ");
    INFO(error.log);
    REQUIRE(at != std::string::npos);
    return error.log.substr(at + 9);
  };
  const auto denied = [&](const std::string& expression) {
    const std::string text = outcome(expression);
    INFO(expression << " -> " << text);
    CHECK((Contains(text, "PermissionError") || Contains(text, "FileNotFoundError")));
  };
  denied("open('/etc/passwd').read()");
  denied(absl::StrCat("open('", beside, "').read()"));
  denied("os.listdir('/proc')");
  denied("open('/proc/self/environ', 'rb').read()");
  denied("open('new', 'w')");
  denied("os.makedirs(os.environ['TRITON_CACHE_DIR'])");
  denied("open('/dev/shm/x', 'w')");
  denied("socket.socket()");
  denied("socket.socketpair()");
  denied("os.fork()");
  denied("subprocess.run(['/usr/bin/python3'])");
  denied("os.execv('/usr/bin/python3.11', ['python3'])");
  denied("os.kill(os.getpid(), 9)");
  denied("os.pidfd_open(os.getpid())");
  denied("os.setuid(0)");
  denied("os.memfd_create('x')");
  denied("os.eventfd(0)");
  denied("os.unlink('x')");
  CHECK(Contains(outcome("ctypes.CDLL(None).ptrace(16, 1, 0, 0)"), "-1"));
  // Nothing is open but the null device, the output and the socket to the worker.
  CHECK(Contains(outcome("sum(1 for f in range(64) if ctypes.CDLL(None).lseek(f, 0, 1) >= 0 or "
                         "ctypes.CDLL(None).fcntl(f, 1) >= 0)"),
                 "4"));
  CHECK(std::filesystem::exists(beside));
}

TEST_CASE("A source that exhausts something is stopped, and the next one compiles",
          "[integration][slow]") {
  if (!HaveTriton()) return;
  TritonCompilerOptions options;
  options.timeout_ns = 10'000'000'000;
  Fixture fixture(options);
  const auto limited = [&](const std::string& code) {
    const CompileError error = fixture.Refusal(Importing(code));
    INFO(code << " -> " << error.log);
    CHECK(error.stage == CompileStage::kLimit);
    return error.log;
  };
  CHECK(Contains(limited("time.sleep(1000)"), "ran for more than 10 s"));
  CHECK(!limited("while True: pass").empty());
  CHECK(Contains(limited("x = bytearray(1 << 40)"), "memory limit"));
  CHECK(Contains(limited("ctypes.string_at(0)"), "crashed"));
  CHECK(Contains(limited("os._exit(0)"), "crashed"));
  // Says that it sends 1 TB.
  CHECK(Contains(limited("os.write(3, struct.pack('<Q', 1 << 40)); time.sleep(1000)"),
                 "output is too large"));
  CHECK(Contains(limited("os.write(3, b'x' * 100); os._exit(0)"), "too large"));
  // Threads count against the same processor time.
  CHECK(!limited("def spin():\n  while True: pass\n"
                 "for i in range(64): threading.Thread(target=spin).start()\nspin()")
             .empty());
  // Printed output does not fill the disk.
  const CompileError printed =
      fixture.Refusal(Importing("try:\n  while True: os.write(1, b'y' * 65536)\n"
                                "except OSError as error: raise ValueError(error)"));
  CHECK(Contains(printed.log, "File too large"));
  CHECK(printed.log.size() <= 64 << 10);
  CHECK(Fact(fixture.Success(fixture.SoftmaxCandidate()).facts, "registers") > 0);
}

TEST_CASE("A source cannot change how others are compiled", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  const CompileSuccess clean = fixture.Success(fixture.SoftmaxCandidate());
  // Each changes Triton, Python or the disk as far as it can, and then compiles or fails.
  for (const std::string& code : {
           std::string("import triton.language as l\nl.exp = l.log\nl.max = l.min"),
           std::string("import triton.compiler.compiler as c\n"
                       "c.ASTSource.make_ir = lambda *a: 1"),
           std::string("import builtins\nbuiltins.len = lambda x: 0"),
           std::string("import linecache\nlinecache.cache.clear()\n"
                       "sys.modules['triton'] = None"),
           std::string("import triton, pathlib\n"
                       "for p in pathlib.Path(triton.__path__[0]).glob('*.py'):\n"
                       "  try: p.write_text('')\n  except OSError: pass"),
           std::string("libc = ctypes.CDLL(None)\nctypes.memset(id(None), 0, 8)"),
       }) {
    INFO(code);
    (void)fixture.Compile(fixture.SoftmaxCandidate(Importing(code)));
    Candidate again = fixture.SoftmaxCandidate(absl::StrCat(kSoftmax, "# ", code.size(), "\n"));
    CHECK(fixture.Success(again).ptx == clean.ptx);
  }
}

// Sends a reply in place of Triton's: `kernels` are tuples of PTX, shared memory, warps, scratch
// memory and clusters.
std::string Forging(const std::string& kernels) {
  return Importing(absl::StrCat(
      "def enc(*fields):\n"
      "  return b''.join(struct.pack('<Q', f) if isinstance(f, int) else struct.pack('<Q', len(f)) "
      "+ (f if isinstance(f, bytes) else f.encode()) for f in fields)\n"
      "KERNEL = '.version 8.7\\n.target sm_90a\\n.address_size 64\\n"
      ".visible .entry softmax(\\n.param .u64 softmax_param_0,\\n.param .u64 softmax_param_1,\\n"
      ".param .u32 softmax_param_2\\n)\\n.reqntid 128\\n{\\nret;\\n}\\n'\n"
      "kernels = ",
      kernels,
      "\n"
      "fields = enc(len(kernels), *[field for kernel in kernels for field in kernel])\n"
      "reply = enc(enc(0, '', fields))\n"
      "while reply: reply = reply[os.write(3, reply):]\n"
      "os._exit(0)"));
}

TEST_CASE("What a source sends in place of Triton's answer is only data", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  const auto refused = [&](const std::string& kernels) {
    const CompileError error = fixture.Refusal(Forging(kernels));
    INFO(kernels << " -> " << error.log);
    CHECK(!error.log.empty());
    return error.log;
  };
  // PTX of its own is what any candidate may have: the facts and the cubin are made from it.
  const CompileSuccess own = fixture.Success(
      fixture.SoftmaxCandidate(Forging("[(KERNEL, 0, 4, 0, 1), (KERNEL, 0, 4, 0, 1)]")));
  CHECK(Fact(own.facts, "launch_block_threads") == 128);
  CHECK(Contains(own.ptx, "softmax__2"));

  CHECK(Contains(refused("[(KERNEL, 0, 4, 0, 1)]"), "changed what the compiler returns"));
  CHECK(Contains(refused("[(KERNEL, 1 << 30, 4, 0, 1)] * 2"), "bytes of shared memory"));
  CHECK(Contains(refused("[(KERNEL, 0, 4, 64, 1)] * 2"), "scratch memory"));
  CHECK(Contains(refused("[(KERNEL, 0, 4, 0, 2)] * 2"), "clusters"));
  CHECK(Contains(refused("[('', 0, 4, 0, 1)] * 2"), "has no kernel"));
  CHECK(Contains(refused("[(KERNEL + KERNEL, 0, 4, 0, 1)] * 2"), "several kernels"));
  CHECK(Contains(refused("[(KERNEL.replace('sm_90a', 'sm_80'), 0, 4, 0, 1)] * 2"), "another GPU"));
  CHECK(Contains(refused("[(KERNEL.replace('.reqntid 128', ''), 0, 4, 0, 1)] * 2"),
                 "how many threads"));
  CHECK(Contains(refused("[(KERNEL.replace('128', '129'), 0, 4, 0, 1)] * 2"), "whole warps"));
  CHECK(Contains(refused("[(KERNEL.replace('128', '1024, 1024, 1024'), 0, 4, 0, 1)] * 2"),
                 "how many threads"));
  CHECK(Contains(refused("[(KERNEL.replace('ret;', 'nonsense;'), 0, 4, 0, 1)] * 2"), "ptxas"));
  CHECK(Contains(refused("[(KERNEL.replace('ret;', '.include \"/etc/passwd\"'), 0, 4, 0, 1)] * 2"),
                 ".include"));
  CHECK(Contains(refused("[(KERNEL.replace('.param .u32 softmax_param_2', "
                         "','.join('.param .u64 p%d\\n' % i for i in range(9))), 0, 4, 0, 1)] * 2"),
                 "parameters"));
  CHECK(!refused("[(KERNEL, 0, 4, 0, 1)] * 100000").empty());
  CHECK(Contains(refused("[(KERNEL + ' ' * (40 << 20), 0, 4, 0, 1)] * 2"), "too large"));
}

TEST_CASE("Several sources compile at the same time", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  std::vector<CompileResult> results(4);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] {
        const Candidate candidate = fixture.SoftmaxCandidate(absl::StrCat(kSoftmax, "# ", i, "\n"));
        auto made = fixture.compiler().Compile(
            {fixture.problem(), fixture.problem().targets.at("cuda"), candidate, kGpu},
            CancelToken());
        if (made.ok()) results[i] = *std::move(made);
      });
    }
  }
  for (const CompileResult& result : results) {
    REQUIRE(std::holds_alternative<CompileSuccess>(result.result));
    CHECK(std::get<CompileSuccess>(result.result).ptx ==
          std::get<CompileSuccess>(results[0].result).ptx);
  }
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> found;
  std::error_code error;
  std::filesystem::directory_iterator threads(absl::StrCat("/proc/", parent, "/task"), error);
  for (; !error && threads != std::filesystem::directory_iterator(); threads.increment(error)) {
    std::ifstream children(threads->path() / "children");
    for (pid_t pid = 0; children >> pid;) found.push_back(pid);
  }
  return found;
}

TEST_CASE("A compiler that may not run for longer than its limit has not exceeded it",
          "[integration][slow]") {
  if (!HaveTriton()) return;
  TritonCompilerOptions options;
  options.timeout_ns = 4'000'000'000;
  Fixture fixture(options);
  std::atomic<bool> ended = false;
  std::atomic<int> stopped = 0;
  std::thread stopper([&] {
    while (stopped == 0 && !ended) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      for (const pid_t server : ChildrenOf(getpid())) {
        for (const pid_t compiler : ChildrenOf(server)) {
          if (kill(compiler, SIGSTOP) != 0) continue;
          ++stopped;
          std::this_thread::sleep_for(std::chrono::nanoseconds(2 * options.timeout_ns));
          kill(compiler, SIGCONT);
        }
      }
    }
  });
  const auto made =
      fixture.compiler().Compile({fixture.problem(), fixture.problem().targets.at("cuda"),
                                  fixture.SoftmaxCandidate(Importing("time.sleep(0.5)")), kGpu},
                                 CancelToken());
  ended = true;
  stopper.join();
  CHECK(stopped > 0);
  INFO(made.status().ToString());
  REQUIRE(made.ok());
  if (const auto* error = std::get_if<CompileError>(&made->result)) FAIL(error->log);
}

TEST_CASE("A stopped compilation ends soon", "[integration]") {
  if (!HaveTriton()) return;
  Fixture fixture;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const CancelToken cancel(start_ns + 500'000'000);
  const Candidate candidate = fixture.SoftmaxCandidate(Importing("time.sleep(1000)"));
  const auto made = fixture.compiler().Compile(
      {fixture.problem(), fixture.problem().targets.at("cuda"), candidate, kGpu}, cancel);
  CHECK(absl::IsDeadlineExceeded(made.status()));
  CHECK(Clock::Real().MonotonicNs() - start_ns < 30'000'000'000);
}

TEST_CASE("An interpreter without Triton is named with what it said", "[integration]") {
  if (!HaveTriton()) return;
  TemporaryFolder folder("triton");
  auto artifacts = ArtifactCache::Open(folder.File("artifacts"), 64 << 20);
  REQUIRE(artifacts.ok());
  CompileCache cache(*std::move(artifacts));
  TritonCompilerOptions options;
  options.toolkit = *FindCudaToolkit({KERNELCAST_CUDA_HOME});
  options.work_directory = folder.path();
  options.sandbox.program = KERNELCAST_BIN_DIR "/kernelcast-compiler-sandbox";
  const auto message = [&](const std::string& python) {
    options.python = python;
    const auto made = TritonCompiler::Make(options, cache);
    CHECK(absl::IsUnavailable(made.status()));
    return std::string(made.status().message());
  };
  CHECK(message("") == "no Python interpreter with Triton is configured (--python)");
  CHECK(Contains(message("/no/such/python"), "/no/such/python"));
  CHECK(message("/usr/bin/python3") ==
        "/usr/bin/python3 cannot import triton: ModuleNotFoundError: No module named 'triton'");
}

}  // namespace
}  // namespace kernelcast::testing::triton_compiler_test
