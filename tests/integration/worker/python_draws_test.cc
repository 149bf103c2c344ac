// Tasks whose inputs have a structure, seed themselves or never change. Right candidates are ok.
// Candidates that remember gain nothing, or the result says that they could.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/worker/python_fixture.h"

namespace kernelcast::testing::python_draws_test {
namespace {

const std::string kImports =
    "import random\nimport numpy as np\nimport torch\nimport torch.nn as nn\nimport "
    "torch.nn.functional as F\n";

// A function's body, indented by four.
std::string Body(const std::string& lines) {
  std::string text = "    ";
  for (const char c : lines) text += c == '\n' ? "\n    " : std::string(1, c);
  return text;
}

struct Task {
  std::string arguments;
  std::string work;         // of the reference and of a right candidate
  std::string inputs;       // of get_inputs
  std::string before = "";  // what the module makes at its import
};

Problem ProblemOf(const Task& task) {
  return MakeTask(
      absl::StrCat(kImports, task.before, "\ndef work(", task.arguments, "):\n", Body(task.work),
                   "\n\nclass Model(nn.Module):\n    def forward(self, ", task.arguments,
                   "):\n        return work(", task.arguments, ")\n\ndef get_inputs():\n",
                   Body(task.inputs), "\n\ndef get_init_inputs():\n    return []\n"));
}

// `forward` is the body of the candidate's, which may call work().
std::string CandidateOf(const Task& task, const std::string& forward,
                        const std::string& before = "") {
  return absl::StrCat(kImports, "\ndef work(", task.arguments, "):\n", Body(task.work), "\n\n",
                      before, "\nclass ModelNew(nn.Module):\n    def forward(self, ",
                      task.arguments, "):\n        ", forward, "\n");
}

const char* const kRounds = "for i in range(20): x = torch.sin(x) + torch.cos(x)\nreturn x";
const char* const kKeepFirst =
    "if not hasattr(self, 'kept'): self.kept = work(x)\n        return self.kept";
// By a sum of a few elements, which is enough to tell whole draws apart.
const char* const kKeepBySample =
    "key = x.reshape(-1)[:64].double().sum().item()\n"
    "        if key not in SEEN: SEEN[key] = work(x)\n        return SEEN[key]";

bool Has(const MeasuredOk& ok, MeasurementNote note) {
  return std::ranges::find(ok.notes, note) != ok.notes.end();
}

// No figure, or one that is no gain.
void RequireNoGain(const Problem& problem, const std::string& source) {
  const Measurement measurement = MeasurePython(problem, source);
  INFO(MeasurementFeedback(measurement));
  const Ratio* const speedup = MeasuredSpeedup(measurement);
  CHECK((speedup == nullptr || speedup->low < 1.15));
}

TEST_CASE("Candidates gain nothing from inputs that a task seeds itself", "[slow]") {
  if (!HaveTorch()) return;
  struct Seeded {
    Task task;
    std::string precomputed;  // what the candidate's module computes at its import
  };
  const std::vector<Seeded> tasks = {
      {{"x", kRounds, "torch.manual_seed(7)\nreturn [torch.randn(64, 256)]"},
       "torch.manual_seed(7)\nANSWER = work(torch.randn(64, 256))\n"},
      {{"x", kRounds,
        "return [torch.from_numpy(np.random.default_rng(0).standard_normal((64, 256)))]"},
       "ANSWER = work(torch.from_numpy(np.random.default_rng(0).standard_normal((64, 256))))\n"},
      {{"x", kRounds, "return [DATA.clone()]",
        "G = torch.Generator()\nG.manual_seed(3)\nDATA = torch.randn(64, 256, generator=G)\n"},
       "G = torch.Generator()\nG.manual_seed(3)\nANSWER = work(torch.randn(64, 256, "
       "generator=G))\n"},
  };
  for (const Seeded& seeded : tasks) {
    INFO(seeded.task.inputs);
    const Problem problem = ProblemOf(seeded.task);
    const auto honest = MeasureAs<MeasuredOk>(problem, CandidateOf(seeded.task, "return work(x)"));
    CHECK(honest.notes.empty());
    RequireNoGain(problem, CandidateOf(seeded.task, "return ANSWER", seeded.precomputed));
    RequireNoGain(problem, CandidateOf(seeded.task, kKeepFirst));
    RequireNoGain(problem, CandidateOf(seeded.task, kKeepBySample, "SEEN = {}\n"));
  }
}

TEST_CASE("Right candidates are ok where inputs have a structure", "[slow]") {
  if (!HaveTorch()) return;
  const std::vector<Task> tasks = {
      {"a", "return torch.linalg.cholesky(a)",
       "x = torch.randn(64, 32, 32)\nreturn [x @ x.mT + 32 * torch.eye(32)]"},
      {"value, decay", "return (value * torch.exp(decay[:, -1:] - decay)).cumsum(dim=1)",
       "decay = -torch.randn(64, 1024).abs().mul(5).cumsum(dim=1)\n"
       "return [torch.randn(64, 1024), decay]"},
      // Only sorted values give these counts, and a position that is out of range fails.
      {"values, order",
       "assert bool((values.diff() >= 0).all()) and order.unique().numel() == order.numel()\n"
       "return values[order].float()",
       "return [torch.randint(0, 9999, (4096,)).sort().values, torch.randperm(4096)]"},
      {"rows, columns, weights, x",
       "assert int(rows[-1]) == columns.numel() and bool((rows.diff() >= 0).all())\n"
       "return torch.sparse_csr_tensor(rows, columns, weights, (256, 256)) @ x",
       "dense = torch.rand(256, 256)\nkeep = torch.zeros(256, 256)\n"
       "keep.scatter_(1, torch.rand(256, 256).argsort(1)[:, :8], 1.0)\n"
       "m = (dense * keep + keep).to_sparse_csr()\n"
       "return [m.crow_indices(), m.col_indices(), m.values(), torch.randn(256, 64)]"},
      {"hot, mask, x",
       "assert bool((hot.sum(1) == 1).all()) and bool((mask.int().diff(dim=1) <= 0).all())\n"
       "return torch.softmax((x @ hot.float()).masked_fill(~mask, -1e30), 1)",
       "n = torch.randint(1, 64, (128, 1))\n"
       "return [F.one_hot(torch.randint(0, 64, (256,)), 64), torch.arange(64) < n, "
       "torch.randn(128, 256)]"},
  };
  for (const Task& task : tasks) {
    INFO(task.inputs);
    const auto ok = MeasureAs<MeasuredOk>(
        ProblemOf(task), CandidateOf(task, absl::StrCat("return work(", task.arguments, ")")));
    // Row pointers are the same where each row has as many elements.
    CHECK_FALSE(Has(ok, MeasurementNote::kInputsOnlyScaled));
    CHECK_FALSE(Has(ok, MeasurementNote::kFewInputValues));
    CHECK(ok.speedup.low < 1.2);
  }
}

TEST_CASE("A result says where its inputs let candidates remember answers", "[slow]") {
  if (!HaveTorch()) return;
  const Task fixed = {"x", kRounds, "return [torch.arange(16384).view(64, 256)]"};
  const auto remembered = MeasureAs<MeasuredOk>(ProblemOf(fixed), CandidateOf(fixed, kKeepFirst));
  CHECK(Has(remembered, MeasurementNote::kInputsNeverChange));
  const Task few = {"n",
                    "x = n * torch.ones(64, 256)\nfor i in range(20): x = torch.sin(x)\nreturn x",
                    "return [torch.randint(0, 2, (1,))]"};
  const auto table = MeasureAs<MeasuredOk>(
      ProblemOf(few),
      CandidateOf(few,
                  "key = n.item()\n        if key not in SEEN: SEEN[key] = work(n)\n        "
                  "return SEEN[key]",
                  "SEEN = {}\n"));
  CHECK(Has(table, MeasurementNote::kFewInputValues));
  // A remembered answer is wrong, unless it is rescaled.
  const Task scaled = {"x", kRounds, "return [torch.linspace(-1, 1, 16384).view(64, 256)]"};
  const Problem problem = ProblemOf(scaled);
  CHECK(Has(MeasureAs<MeasuredOk>(problem, CandidateOf(scaled, "return work(x)")),
            MeasurementNote::kInputsOnlyScaled));
  RequireNoGain(problem, CandidateOf(scaled, kKeepFirst));
  const Task partly = {"x, b", std::string(kRounds) + " + b",
                       "return [torch.linspace(-1, 1, 16384).view(64, 256), torch.randn(64, 256)]"};
  CHECK(Has(MeasureAs<MeasuredOk>(ProblemOf(partly), CandidateOf(partly, "return work(x, b)")),
            MeasurementNote::kInputsOnlyScaled));
  RequireNoGain(ProblemOf(partly),
                CandidateOf(partly,
                            "global SEEN\n        if SEEN is None: SEEN = work(x, b * 0)\n"
                            "        return SEEN + b",
                            "SEEN = None\n"));
}

TEST_CASE("A copy of the reference that allocates memory is as fast as the reference", "[slow]") {
  if (!HaveTorch()) return;
  const Task task = {"a, b", "return torch.mean((a - b) ** 2)",
                     "return [torch.randn(1024, 1024), torch.randn(1024, 1024)]"};
  for (const char* const before :
       {"", "_t = torch.empty(7 << 20)\ndel _t\n",
        "torch.set_num_threads(2)\ntorch.set_num_interop_threads(2)\n"}) {
    const auto ok =
        MeasureAs<MeasuredOk>(ProblemOf(task), CandidateOf(task, "return work(a, b)", before));
    CHECK(ok.speedup.low < 1.05);
    CHECK(ok.speedup.high > 0.95);
  }
}

}  // namespace
}  // namespace kernelcast::testing::python_draws_test
