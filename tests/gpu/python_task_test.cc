// Python tasks and their candidates, right and wrong, on a GPU.

#include "common/domain/python_task.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/core/baseline_target.h"
#include "tests/gpu/task_fixture.h"
#include "tests/support/gated_silu_candidates.h"
#include "tests/support/task_examples.h"

namespace kernelcast::testing {
namespace {

TEST_CASE("Python candidates get the verdict of what they do, and the worker measures on") {
  KERNELCAST_NEEDS_TASKS();
  const char* const only = std::getenv("KERNELCAST_CASE");
  TaskFixture fixture(MakeTask(kGatedSiluTask));
  for (const PythonCase& made : GatedSiluCases()) {
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
  const Measurement after = fixture.Measure(kGatedSiluTriton);
  INFO(MeasurementFeedback(after));
  CHECK(std::holds_alternative<MeasuredOk>(after.outcome));
}

TEST_CASE("The example tasks are judged on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  std::optional<TaskFixture> fixture;
  const Problem* problem = nullptr;
  const std::vector<TaskExample> examples = ReadTaskExamples();
  for (const TaskExample& example : examples) {
    if (problem != example.problem.get()) {
      problem = example.problem.get();
      if (fixture) {
        fixture->Take(*problem);
      } else {
        fixture.emplace(*problem);
      }
      if (problem->task->format == PythonTask::Format::kKernelBench) {
        const Measurement itself =
            fixture->CheckOutcome(example.task + ": the reference", problem->task->source, {"ok"});
        const Ratio* const speedup = MeasuredSpeedup(itself);
        REQUIRE(speedup != nullptr);
        CHECK(speedup->low < 1.02);
        CHECK(speedup->high > 0.98);
      }
    }
    fixture->CheckOutcome(absl::StrCat(example.task, ": ", example.name), example.source,
                          {example.name.starts_with("wrong") ? "wrong_result" : "ok"});
  }
}

Problem TaskOf(const std::string& forward, const std::string& inputs) {
  return MakeTask(
      absl::StrCat("import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n"
                   "    def forward(self, *given):\n        return ",
                   forward, "\ndef get_inputs():\n    return [", inputs,
                   "]\ndef get_init_inputs():\n    return []\n"));
}

std::string Answer(const std::string& forward) {
  return absl::StrCat(
      "import torch\nimport torch.nn.functional as F\nclass ModelNew(torch.nn.Module):\n"
      "    def forward(self, *given):\n        return ",
      forward, "\n");
}

TEST_CASE("Trivial answers are wrong on a GPU whatever the tolerance accepts") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(TaskOf("given[0].softmax(-1)", "torch.rand(256, 32768)"));
  for (const char* const trivial :
       {"torch.zeros_like(given[0])", "torch.full_like(given[0], 1 / 32768)",
        "given[0][:1].softmax(-1).repeat(256, 1)"}) {
    const auto measurement = fixture.CheckOutcome(trivial, Answer(trivial), {"wrong_result"});
    CHECK_THAT(MeasurementFeedback(measurement), Catch::Contains("kernelcast: an output follows"));
  }
  fixture.CheckOutcome("half inside", Answer("given[0].half().float().softmax(-1)"), {"ok"});
  fixture.CheckOutcome("bfloat16 inside", Answer("given[0].bfloat16().float().softmax(-1)"),
                       {"ok"});
  fixture.Take(
      TaskOf("F.mse_loss(given[0], given[1])", "torch.rand(4096, 4096), torch.rand(4096, 4096)"));
  fixture.CheckOutcome("a constant loss", Answer("torch.full((), 1 / 6, device='cuda')"),
                       {"wrong_result"});
  fixture.CheckOutcome("another order", Answer("(given[0] - given[1]).square().mean(0).mean()"),
                       {"ok"});
  fixture.Take(
      TaskOf("F.group_norm(given[0], 8).flatten(1).mean(-1)", "torch.randn(128, 16, 64, 64)"));
  fixture.CheckOutcome("zero in truth", Answer("torch.zeros(128, device='cuda')"), {"ok"});
}

TEST_CASE("No kernel that need not move all bytes is too fast on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  struct Example {
    const char* forward;
    const char* inputs;
    const char* right;
  };
  const std::vector<Example> examples = {
      {"given[0].t().contiguous()", "torch.randn(4096, 4096)", "given[0].t()"},
      {"given[0][:, :1024].contiguous()", "torch.randn(4096, 4096)", "given[0][:, :1024]"},
      {"F.dropout(given[0], 0.5, False) * 1", "torch.randn(4096, 4096)", "given[0]"},
      {"given[0].mean(1, keepdim=True).repeat(1, 4096)", "torch.randn(4096, 16)",
       "given[0].mean(1, keepdim=True).expand(4096, 4096)"},
      {"torch.ones_like(given[0]).cumsum(0)", "torch.randn(256, 4096)",
       "torch.arange(1.0, 257, device='cuda')[:, None].expand(256, 4096)"},
      {"given[0][given[1]] * 2", "torch.randn(1 << 20, 64), torch.randint(0, 1 << 20, (64,))",
       "given[0][given[1]] * 2"},
      {"torch.diag(given[0]) @ given[1]", "torch.randn(4096), torch.randn(4096, 4096)",
       "given[0][:, None] * given[1]"},
      {"F.group_norm(given[0], 8).flatten(1).mean(-1)", "torch.randn(128, 16, 64, 64)",
       "torch.zeros(128, device='cuda')"},
      {"given[0] * 0 + given[1]", "torch.randn(4096, 4096), torch.randn(4096, 4096)", "given[1]"},
      {"given[0].tril().sum(1)", "torch.randn(4096, 4096)", "given[0].tril().sum(1)"},
      {"torch.where(given[1], given[0], 0.0)",
       "torch.randn(4096, 4096), torch.rand(4096, 4096) > 0.5", "given[0] * given[1]"},
      {"given[0].softmax(1).sum(1)", "torch.randn(4096, 4096)", "torch.ones(4096, device='cuda')"},
  };
  std::optional<TaskFixture> fixture;
  for (const Example& example : examples) {
    Problem problem = TaskOf(example.forward, example.inputs);
    if (fixture) {
      fixture->Take(std::move(problem));
    } else {
      fixture.emplace(std::move(problem));
    }
    fixture->CheckOutcome(example.forward, Answer(example.right), {"ok"});
  }
}

// One tensor is a twentieth of the device's memory, so that the checks do not fit as they do for
// smaller ones.
TEST_CASE("A task with tensors of gigabytes is judged on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(MakeTask(kGatedSiluTask));
  const Measurement small = fixture.Measure(kGatedSiluTriton);
  const int64_t rows = static_cast<int64_t>(small.device.memory_bytes) / 20 / 4 / 65536;
  fixture.Take(MakeTask(absl::StrCat(R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand()",
                                     rows, R"(, 65536) - 0.5]

def get_init_inputs():
    return []
)")));
  const auto model = [](const std::string& body) {
    return absl::StrCat("import torch\nimport torch.nn as nn\n",
                        "class ModelNew(nn.Module):\n    calls = 0\n    def forward(self, x):\n",
                        "        self.calls += 1\n", body, "\n");
  };
  const Measurement right =
      fixture.CheckOutcome("relu", model("        return torch.clamp(x, min=0)"), {"ok"});
  if (const Ratio* const speedup = MeasuredSpeedup(right); speedup != nullptr) {
    CHECK(speedup->value == Approx(1).margin(0.05));
  }
  // The last element is beyond the reach of 32 bits.
  fixture.CheckOutcome("last element", model(R"(
        y = torch.relu(x)
        y[-1, -1] += 0.5
        return y)"),
                       {"wrong_result"});
  // The first call is made when it is loaded.
  fixture.CheckOutcome("remembers", model(R"(
        if self.calls == 2:
            self.kept = torch.relu(x)
        return torch.relu(x) if self.calls < 2 else self.kept)"),
                       {"wrong_result", "exploit", "crash"});
  const Measurement lacking = fixture.CheckOutcome("too much", model(R"(
        return torch.cat([torch.relu(x)] * 40)[:x.shape[0]])"),
                                                   {"crash"});
  const auto* const crash = std::get_if<Crash>(&lacking.outcome);
  REQUIRE(crash != nullptr);
  CHECK(crash->cause == Crash::Cause::kMemoryLimit);
  fixture.CheckOutcome("relu again", model("        return torch.relu(x)"), {"ok"});
}

// A task whose model does `work`, and a candidate whose model does `forward`.
Problem TaskOf(const std::string& arguments, const std::string& work, const std::string& inputs,
               const std::string& before = "") {
  return MakeTask(absl::StrCat("import numpy as np\nimport torch\nimport torch.nn as nn\n", before,
                               "\nclass Model(nn.Module):\n    def forward(self, ", arguments,
                               "):\n        return ", work, "\n\ndef get_inputs():\n", inputs,
                               "\n\ndef get_init_inputs():\n    return []\n"));
}
std::string CandidateOf(const std::string& arguments, const std::string& forward,
                        const std::string& before = "") {
  return absl::StrCat("import numpy as np\nimport torch\nimport torch.nn as nn\n", before,
                      "\nclass ModelNew(nn.Module):\n    def forward(self, ", arguments,
                      "):\n        ", forward, "\n");
}

TEST_CASE("Candidates gain nothing on a GPU from inputs that a task seeds itself") {
  KERNELCAST_NEEDS_TASKS();
  const std::vector<std::string> inputs = {
      "    torch.manual_seed(0)\n    return [torch.randn(4096, 4096)]",
      "    g = torch.Generator(device='cuda').manual_seed(5)\n"
      "    return [torch.randn(4096, 4096, generator=g, device='cuda')]",
      "    return [torch.from_numpy(np.random.default_rng(0).random((4096, 4096)))]",
      "    return [DATA.clone()]",
      "    return [torch.linspace(-0.5, 0.7, 4096 * 4096).view(4096, 4096)]"};
  std::optional<TaskFixture> fixture;
  for (const std::string& made : inputs) {
    const Problem problem =
        TaskOf("x", "torch.cumsum(x, 1)", made, "DATA = torch.randn(4096, 4096)\n");
    if (fixture) {
      fixture->Take(problem);
    } else {
      fixture.emplace(problem);
    }
    fixture->CheckOutcome(made, CandidateOf("x", "return x.cumsum(dim=1)"), {"ok"});
    fixture->CheckOutcome(
        "kept: " + made,
        CandidateOf("x", "if not hasattr(self, 'o'): self.o = x.cumsum(1)\n        return self.o"),
        {"wrong_result"});
  }
  fixture->Take(
      TaskOf("x", "torch.cumsum(x, 1)", "    return [torch.arange(4096 * 4096).view(4096, 4096)]"));
  const Measurement kept = fixture->CheckOutcome(
      "never changes",
      CandidateOf("x", "if not hasattr(self, 'o'): self.o = x.cumsum(1)\n        return self.o"),
      {"ok"});
  if (const auto* const ok = std::get_if<MeasuredOk>(&kept.outcome); ok != nullptr) {
    CHECK(ok->notes == std::vector<MeasurementNote>{MeasurementNote::kInputsNeverChange});
  }
}

TEST_CASE("Inputs with a structure keep it on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(TaskOf("a", "torch.linalg.cholesky(a)",
                             "    x = torch.randn(256, 64, 64)\n"
                             "    return [x @ x.mT + 64 * torch.eye(64)]"));
  fixture.CheckOutcome(
      "symmetric", CandidateOf("a", "return torch.linalg.cholesky(a, upper=True).mT.contiguous()"),
      {"ok"});
  fixture.Take(TaskOf("value, decay", "(value * torch.exp(decay[:, -1:] - decay)).cumsum(dim=1)",
                      "    decay = -torch.randn(256, 2048).abs().mul(5).cumsum(dim=1)\n"
                      "    return [torch.randn(256, 2048), decay]"));
  fixture.CheckOutcome("decay",
                       CandidateOf("value, decay",
                                   "weight = (decay[:, -1].unsqueeze(1) - decay).exp()\n"
                                   "        return torch.cumsum(weight * value, 1)"),
                       {"ok"});
  // An index that is out of order reads beyond its segment.
  fixture.Take(
      TaskOf("rows, x", "torch.segment_reduce(x, 'sum', offsets=rows)",
             "    counts = torch.randint(1, 64, (4096,))\n"
             "    counts[-1] += 4096 * 64 - counts.sum()\n"
             "    rows = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])\n"
             "    return [rows, torch.randn(4096 * 64)]"));
  fixture.CheckOutcome(
      "CSR", CandidateOf("rows, x", "return torch.segment_reduce(x, 'sum', lengths=rows.diff())"),
      {"ok"});
  fixture.Take(TaskOf("order, x", "x[order]",
                      "    return [torch.randperm(1 << 20), torch.randn(1 << 20, 16)]"));
  fixture.CheckOutcome("permutation",
                       CandidateOf("order, x",
                                   "return torch.empty_like(x).index_copy_(0, order.argsort(), "
                                   "x)"),
                       {"ok"});
}

TEST_CASE("Candidates are compared with the reference under torch.compile on a GPU") {
  KERNELCAST_NEEDS_TASKS();
  TaskFixture fixture(MakeTask(kGatedSiluTask));
  Candidate compiled = fixture.MakeCandidate(kGatedSiluTask);
  compiled.flags = {std::string(kTorchCompileFlag)};
  const Measurement baseline = fixture.gpu().Measure(compiled);
  std::printf("the compiled reference: %s\n", MeasurementFeedback(baseline).c_str());
  for (const std::string& source :
       {GatedSiluModel("        return silu(gate).mul_(value)"), std::string(kGatedSiluTriton)}) {
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
  TaskFixture fixture(MakeTask(kGatedSiluTask));
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
  const auto triton = profile(kGatedSiluTriton);
  REQUIRE(triton.size() == 1);
  CHECK_THAT(triton[0].name, Catch::Contains("silu"));
  const auto torch = profile(GatedSiluModel("        return silu(gate).mul_(value)"));
  REQUIRE(torch.size() == 2);
  CHECK_THAT(torch[0].name, Catch::Contains("silu"));
}

}  // namespace
}  // namespace kernelcast::testing
