// Python tasks and their candidates, right and wrong, on a GPU.

#include "common/domain/python_task.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "services/worker/core/baseline_target.h"
#include "tests/gpu/task_fixture.h"

namespace kernelcast::testing {
namespace {

// About 100 us.
const char* const kTask = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, gate, value):
        return torch.nn.functional.silu(gate) * value

def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]

def get_init_inputs():
    return []
)";

const char* const kTriton = R"(
import torch
import triton
import triton.language as tl

@triton.jit
def silu(gate, value, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gate + at, mask=inside)
    v = tl.load(value + at, mask=inside)
    tl.store(out + at, g / (1 + tl.exp(-g)) * v, mask=inside)

class ModelNew(torch.nn.Module):
    def forward(self, gate, value):
        out = torch.empty_like(gate)
        n = out.numel()
        silu[(triton.cdiv(n, 1024),)](gate, value, out, n, BLOCK=1024)
        return out
)";

const char* const kInline = R"py(
import torch
from torch.utils.cpp_extension import load_inline

source = """
#include <torch/types.h>
#include <ATen/cuda/CUDAContext.h>
__global__ void silu(const float* g, const float* v, float* out, int n) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) out[at] = g[at] / (1 + __expf(-g[at])) * v[at];
}
torch::Tensor run(torch::Tensor gate, torch::Tensor value) {
  auto out = torch::empty_like(gate);
  const int n = out.numel();
  silu<<<(n + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      gate.data_ptr<float>(), value.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
built = load_inline(
    "silu",
    cpp_sources="torch::Tensor run(torch::Tensor gate, torch::Tensor value);",
    cuda_sources=source,
    functions=["run"],
)

class ModelNew(torch.nn.Module):
    def forward(self, gate, value):
        return built.run(gate, value)
)py";

struct Case {
  std::string name;
  std::string source;
  std::set<std::string> outcomes;
  std::string told = "";  // in the feedback
  // Of one that is measured although it cheats, because what it remembers is charged.
  std::optional<double> most_speedup = std::nullopt;
};

std::string ModelNew(const std::string& body, const std::string& before = "") {
  return absl::StrCat("import os\nimport torch\n", before,
                      "\nsilu = torch.nn.functional.silu\n"
                      "class ModelNew(torch.nn.Module):\n"
                      "    calls = 0\n"
                      "    def forward(self, gate, value):\n"
                      "        self.calls += 1\n",
                      body, "\n");
}

std::vector<Case> Cases() {
  const std::string right = "        return silu(gate).mul_(value)";
  const std::string triton = kTriton;
  const auto replaced = [](const std::string& text, const std::string& from,
                           const std::string& to) {
    return absl::StrReplaceAll(text, {{from, to}});
  };
  return {
      {"in place", ModelNew(right), {"ok"}},
      {"triton", triton, {"ok"}},
      {"triton, autotuned",
       replaced(replaced(triton, "@triton.jit",
                         "@triton.autotune([triton.Config({'BLOCK': b}) for b in (512, 2048)], "
                         "key=['n'])\n@triton.jit"),
                "silu[(triton.cdiv(n, 1024),)](gate, value, out, n, BLOCK=1024)",
                "silu[lambda meta: (triton.cdiv(n, meta['BLOCK']),)](gate, value, out, n)"),
       {"ok"}},
      {"load_inline", kInline, {"ok"}},
      {"torch.compile",
       ModelNew(
           "        return fused(gate, value)",
           "fused = torch.compile(lambda gate, value: torch.nn.functional.silu(gate) * value)"),
       {"ok"}},
      {"its own side stream, awaited",
       ModelNew("        main = torch.cuda.current_stream()\n"
                "        side.wait_stream(main)\n"
                "        with torch.cuda.stream(side):\n"
                "            out = silu(gate).mul_(value)\n"
                "        main.wait_stream(side)\n"
                "        return out",
                "side = torch.cuda.Stream()"),
       {"ok"}},
      {"patched timers",
       ModelNew(right,
                "torch.cuda.Event.elapsed_time = lambda *a: 0.001\n"
                "torch.cuda.synchronize = lambda *a: None\n"
                "torch.allclose = lambda *a, **k: True\n"
                "torch.Tensor.copy_ = lambda a, b: a"),
       {"ok"}},
      {"a call that cannot be captured",
       ModelNew("        assert gate.sum().item() < 1e30\n" + right),
       {"ok"},
       "no CUDA graph"},
      {"a graph of remembered results",
       ModelNew(
           "        if torch.cuda.is_current_stream_capturing(): return seen[gate.data_ptr()]\n"
           "        seen[gate.data_ptr()] = out = silu(gate).mul_(value)\n"
           "        return out",
           "seen = {}"),
       {"ok"},
       "no CUDA graph"},
      {"wrong gate", ModelNew("        return torch.sigmoid(gate) * value"), {"wrong_result"}},
      {"zeros", ModelNew("        return torch.zeros_like(gate)"), {"wrong_result"}},
      {"uninitialised memory", ModelNew("        return torch.empty_like(gate)"), {"wrong_result"}},
      {"an alias of an input", ModelNew("        return value"), {"wrong_result"}},
      {"half precision",
       ModelNew("        return (silu(gate.half()) * value.half()).float()"),
       {"wrong_result"}},
      {"raises", ModelNew("        return self.unknown"), {"crash"}, "unknown"},
      {"another dtype", ModelNew(right + ".double()"), {"crash"}, "float64"},
      {"another shape", ModelNew(right + "[:1]"), {"crash"}, "[1, 4096]"},
      {"on the processor", ModelNew(right + ".cpu()"), {"crash"}, "cpu"},
      {"exits", ModelNew("        os._exit(0)"), {"crash"}},
      {"too much memory",
       ModelNew("        return torch.empty(1 << 40, device='cuda')"),
       {"crash"},
       "memory"},
      {"reads far away",
       replaced(triton, "gate + at, mask=inside", "gate + 4000000000000 + at"),
       {"crash"}},
      {"hangs on the host", ModelNew("        while self.calls > 2: pass\n" + right), {"timeout"}},
      {"hangs on the device",
       ModelNew("        if self.calls > 2: torch.cuda._sleep(1 << 50)\n" + right),
       {"timeout"}},
      {"writes its input",
       ModelNew("        return gate.mul_(torch.sigmoid(gate)).mul(value)"),
       {"crash", "exploit"}},
      {"remembers by address",
       ModelNew("        key = gate.data_ptr()\n"
                "        if key not in seen: seen[key] = silu(gate).mul_(value)\n"
                "        return seen[key]",
                "seen = {}"),
       {"exploit", "wrong_result", "crash"}},
      {"remembers by value",
       ModelNew("        key = float(gate[0, :64].sum() + value[7, 9])\n"
                "        if key not in seen: seen[key] = silu(gate).mul_(value)\n"
                "        return seen[key]",
                "seen = {}"),
       {"exploit", "wrong_result", "crash", "ok"},
       "",
       1.1},
      {"right when checked only",
       ModelNew("        if self.calls > 40: return torch.empty_like(gate)\n" + right),
       {"exploit", "wrong_result"}},
      {"a side stream that nobody awaits",
       ModelNew("        with torch.cuda.stream(side):\n"
                "            torch.cuda._sleep(20000000)\n"
                "            out = silu(gate).mul_(value)\n"
                "        return out",
                "side = torch.cuda.Stream()"),
       {"exploit", "wrong_result"}},
      {"a thread",
       ModelNew(right, "import threading\nthreading.Thread(target=print).start()"),
       {"crash"},
       "thread"},
      {"a lazy tensor",
       ModelNew("        return silu(gate).mul_(value).as_subclass(Lazy)",
                "class Lazy(torch.Tensor): pass"),
       {"crash"},
       "Lazy"},
      {"files of the node", ModelNew(right, "open('/etc/passwd').read()"), {"crash"}, "passwd"},
      {"the network",
       ModelNew(right, "import socket\nsocket.socket().connect(('127.0.0.1', 1))"),
       {"crash"}},
  };
}

double Seconds(int64_t start_ns) {
  return static_cast<double>(Clock::Real().MonotonicNs() - start_ns) * 1e-9;
}

TEST_CASE("Python candidates get the verdict of what they do, and the worker measures on") {
  KERNELCAST_NEEDS_TASKS();
  const char* const only = std::getenv("KERNELCAST_CASE");
  TaskFixture fixture(MakeTask(kTask));
  for (const Case& made : Cases()) {
    if (only != nullptr && made.name != only) continue;
    const Measurement measurement = fixture.CheckOutcome(made.name, made.source, made.outcomes);
    const std::string feedback = MeasurementFeedback(measurement);
    INFO(made.name << ": " << feedback);
    CHECK_THAT(feedback, Catch::Contains(made.told));
    if (const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
        ok != nullptr && made.most_speedup) {
      CHECK(ok->speedup.value <= *made.most_speedup);
    }
  }
  const Measurement after = fixture.Measure(kTriton);
  INFO(MeasurementFeedback(after));
  CHECK(std::holds_alternative<MeasuredOk>(after.outcome));
}

TEST_CASE("The example tasks are judged on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  const std::string folder = "examples/tasks/kernelbench/";
  const std::vector<std::pair<std::string, std::vector<std::string>>> examples = {
      {"gated_silu", {"in_place", "rowwise", "wrong_gate"}},
      {"row_variance", {"one_call", "wrong_unbiased"}},
      {"linear_relu", {"clamp_in_place", "wrong_bias"}},
      {"masked_attention", {"added_mask", "wrong_unmasked"}},
  };
  for (const auto& [task, names] : examples) {
    TaskFixture fixture(LoadGpuProblem(absl::StrCat(folder, task, ".py")));
    for (const std::string& name : names) {
      const Measurement measurement = fixture.Measure(
          ReadFile(SourcePath(absl::StrCat(folder, "candidates/", task, "/", name, ".py")))
              .value());
      std::printf("%s/%s: %s\n", task.c_str(), name.c_str(),
                  MeasurementFeedback(measurement).c_str());
      INFO(MeasurementFeedback(measurement));
      CHECK(OutcomeName(measurement.outcome) ==
            (name.starts_with("wrong") ? "wrong_result" : "ok"));
    }
    const Measurement itself = fixture.Measure(fixture.gpu().problem().task->source);
    INFO(MeasurementFeedback(itself));
    REQUIRE(std::holds_alternative<MeasuredOk>(itself.outcome));
    const auto& ok = std::get<MeasuredOk>(itself.outcome);
    std::printf("%s itself: %.4f [%.4f, %.4f]\n", task.c_str(), ok.speedup.value, ok.speedup.low,
                ok.speedup.high);
    CHECK(ok.speedup.low < 1.02);
    CHECK(ok.speedup.high > 0.98);
  }
}

TEST_CASE("Candidates are compared with the reference under torch.compile on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(MakeTask(kTask));
  Candidate compiled = fixture.MakeCandidate(kTask);
  compiled.flags = {std::string(kTorchCompileFlag)};
  const Measurement baseline = fixture.gpu().Measure(compiled);
  std::printf("the compiled reference: %s\n", MeasurementFeedback(baseline).c_str());
  for (const std::string& source :
       {ModelNew("        return silu(gate).mul_(value)"), std::string(kTriton)}) {
    Measurement measurement = fixture.Measure(source);
    auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
    REQUIRE(ok != nullptr);
    ok->compiled = worker::CompareWithBaseline(*ok, baseline);
    std::printf("%s\n", MeasurementFeedback(measurement).c_str());
    INFO(ok->compiled->unavailable_reason);
    REQUIRE(ok->compiled->unavailable_reason.empty());
    CHECK(ok->compiled->speedup.value > 0);
    REQUIRE(ok->compiled->references.size() == 1);
    // It fuses the two operations.
    CHECK(ok->compiled->references[0].median_ns < ok->shapes[0].reference.median_ns);
  }
}

TEST_CASE("Python candidates are profiled on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(MakeTask(kTask));
  const auto profile = [&](const std::string& source) {
    worker::Profile made = fixture.gpu().Profile(fixture.MakeCandidate(source));
    std::printf("%s\n", made.unavailable_reason.c_str());
    INFO(made.unavailable_reason);
    REQUIRE(made.shapes.size() == 1);
    for (const KernelActivity& kernel : made.shapes[0].kernels) {
      std::printf("  %s: %.2f a call, %.1f us\n", kernel.name.c_str(), kernel.launches,
                  kernel.median_ns / 1000);
      CHECK(kernel.launches == Approx(1));
      CHECK(kernel.median_ns > 1000);
    }
    return made.shapes[0].kernels;
  };
  const auto triton = profile(kTriton);
  REQUIRE(triton.size() == 1);
  CHECK_THAT(triton[0].name, Catch::Contains("silu"));
  const auto torch = profile(ModelNew("        return silu(gate).mul_(value)"));
  REQUIRE(torch.size() == 2);
  CHECK_THAT(torch[0].name, Catch::Contains("silu"));
}

// Compiles in the order of the sources on several threads, as the worker does, and announces what
// is compiled.
class Compiling {
 public:
  Compiling(TaskFixture& fixture, const std::vector<std::string>& sources)
      : fixture_(fixture), sources_(sources), artifacts_(sources.size()) {
    for (size_t i = 0; i < sources.size(); ++i) compiled_.push_back(artifacts_[i].get_future());
    constexpr int kThreads = 4;
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Work(); });
  }

  Artifact Take(size_t i) { return compiled_[i].get(); }

 private:
  void Work() {
    for (size_t i = next_++; i < sources_.size(); i = next_++) {
      const Candidate candidate = fixture_.MakeCandidate(sources_[i]);
      worker::CudaTarget& target = fixture_.gpu().target();
      const auto compiled =
          target.Compile({fixture_.gpu().problem(), &candidate}, worker::CancelToken());
      target.Expect(fixture_.gpu().problem(), candidate);
      artifacts_[i].set_value(std::get<worker::CompileSuccess>(compiled->result).artifact);
    }
  }

  TaskFixture& fixture_;
  const std::vector<std::string>& sources_;
  std::vector<std::promise<Artifact>> artifacts_;
  std::vector<std::future<Artifact>> compiled_;
  std::atomic<size_t> next_ = 0;
  std::vector<std::jthread> threads_;
};

// Judges candidates as a worker does, and prints where the time went.
void PrintRate(TaskFixture& fixture, const std::string& name,
               const std::vector<std::string>& sources) {
  worker::CudaTarget& target = fixture.gpu().target();
  std::map<std::string, int64_t> stages_ns;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  Compiling compiling(fixture, sources);
  for (size_t i = 0; i < sources.size(); ++i) {
    const int64_t asked_ns = Clock::Real().MonotonicNs();
    const Artifact artifact = compiling.Take(i);
    const int64_t compiled_ns = Clock::Real().MonotonicNs();
    const auto measured =
        target.Measure({fixture.gpu().problem(), fixture.MakeCandidate(sources[i]), artifact,
                        MeasureLevel::kScreen},
                       worker::CancelToken());
    REQUIRE(measured.ok());
    INFO(MeasurementFeedback(*measured));
    CHECK(std::holds_alternative<MeasuredOk>(measured->outcome));
    const worker::CudaMeasurer::Times& times = target.last_times();
    const std::vector<std::pair<std::string, int64_t>> stages = {
        {"prepare", times.prepare_ns},
        {"attach", times.attach_ns},
        {"load", times.judge.load_ns},
        {"check", times.judge.check_ns},
        {"wait for the device", times.judge.wait_ns},
        {"capture", times.judge.capture_ns},
        {"graphs", times.judge.graphs_ns},
        {"eager", times.judge.timing_ns},
        {"new values", times.judge.fresh_ns},
        {"end", times.end_ns}};
    int64_t sum_ns = 0;
    for (const auto& [stage, ns] : stages) {
      stages_ns[stage] += ns;
      sum_ns += ns;
    }
    stages_ns["wait for the compiler"] += compiled_ns - asked_ns;
    // Mostly for its process, which loads it ahead.
    stages_ns["other, and wait for loading"] += Clock::Real().MonotonicNs() - compiled_ns - sum_ns;
  }
  const auto count = static_cast<double>(sources.size());
  std::printf("%s: %zu candidates in %.2f s, compile included: %.1f / s; ms of each:\n",
              name.c_str(), sources.size(), Seconds(start_ns), count / Seconds(start_ns));
  for (const auto& [stage, ns] : stages_ns) {
    std::printf("  %-28s %6.1f\n", stage.c_str(), static_cast<double>(ns) * 1e-6 / count);
  }
  std::fflush(stdout);
}

TEST_CASE("Rate of Python candidates") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(MakeTask(kTask));
  (void)fixture.Measure(kTriton);
  for (const bool triton : {false, true}) {
    std::vector<std::string> sources;
    for (int i = 0; i < 120; ++i) {
      sources.push_back(
          triton ? absl::StrReplaceAll(kTriton, {{"g / (1", absl::StrCat("(g + ", i, "e-9) / (1")}})
                 : ModelNew(absl::StrCat("        return silu(gate).mul_(value)  # ", i)));
    }
    PrintRate(fixture, triton ? "triton" : "torch", sources);
  }
}

}  // namespace
}  // namespace kernelcast::testing
