// Answers that a format's tolerance accepts although they do not depend on the inputs, and right
// answers of less precision.
#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/worker/python_fixture.h"

namespace kernelcast::testing::python_trivial_answers_test {
namespace {

Problem TaskOf(const std::string& forward, const std::string& inputs) {
  return MakeTask(absl::StrCat(R"(
import torch
import torch.nn.functional as F
class Model(torch.nn.Module):
    def forward(self, *given):
)",
                               forward, "\ndef get_inputs():\n    return ", inputs,
                               "\ndef get_init_inputs():\n    return []\n"));
}

std::string Answer(const std::string& body) {
  return absl::StrCat(
      "import torch\nimport torch.nn.functional as F\n"
      "class ModelNew(torch.nn.Module):\n    def forward(self, *given):\n",
      body, "\n");
}

struct Example {
  const char* name;
  const char* forward;
  const char* inputs;
  std::vector<const char*> trivial;
  std::vector<const char*> right;
};

const std::vector<Example>& Examples() {
  static const std::vector<Example> examples = {
      {"wide softmax",
       "        return given[0].softmax(-1)",
       "[torch.rand(4, 32768)]",
       {"        return torch.zeros_like(given[0])",
        "        return torch.full_like(given[0], 1 / 32768)",
        "        return given[0][:1].softmax(-1).repeat(4, 1)"},
       {"        e = given[0].exp()\n        return e / e.sum(-1, keepdim=True)",
        "        e = given[0].bfloat16().float().exp()\n"
        "        return e / e.double().sum(-1, keepdim=True).float()"}},
      {"means of long vectors",
       "        return given[0].mean(-1)",
       "[1e-4 * torch.rand(64, 16384)]",
       {"        return torch.full((64,), 5e-5)", "        return given[0][:, 0].clone()"},
       {"        return given[0].reshape(64, 128, 128).sum(1).sum(-1) / 16384"}},
      {"saturated sigmoid",
       "        return torch.sigmoid(given[0] + 11)",
       "[torch.rand(256, 256)]",
       {"        return torch.ones_like(given[0])"},
       {"        return 1 / (1 + torch.exp(-given[0] - 11))"}},
      {"small normalised values",
       "        return 1e-5 * F.normalize(given[0], dim=-1)",
       "[torch.randn(64, 1024)]",
       {"        return torch.zeros_like(given[0])"},
       {"        x = given[0]\n        return x * (1e-5 / x.square().sum(-1, "
        "keepdim=True).sqrt())"}},
      {"a loss",
       "        return F.cross_entropy(1e-2 * given[0], given[1])",
       "[torch.randn(4096, 64), torch.randint(0, 64, (4096,))]",
       {"        return torch.tensor(4.15893)"},
       {"        x = 1e-2 * given[0]\n        return (x.exp().sum(-1).log() - "
        "x.gather(1, given[1][:, None])[:, 0]).mean()"}},
      {"zero in truth",
       "        x = given[0]\n        return F.group_norm(x, 4).flatten(1).mean(-1)",
       "[torch.randn(64, 8, 16, 16)]",
       {},
       {"        return torch.zeros(64)",
        "        x = given[0].half().float()\n        return F.group_norm(x, 4).mean((1, 2, 3))"}},
      {"zero by its operations",
       "        x = given[0].max(1, keepdim=True).values\n        return F.gelu(x - x.mean(1, "
       "keepdim=True))",
       "[torch.randn(128, 64)]",
       {},
       {"        return torch.zeros(128, 1)"}},
  };
  return examples;
}

TEST_CASE("Trivial answers to a task are wrong results, and right ones are not", "[slow]") {
  if (!HaveTorch()) return;
  for (const Example& example : Examples()) {
    const Problem problem = TaskOf(example.forward, example.inputs);
    for (const char* const body : example.trivial) {
      INFO(example.name << ": " << body);
      const auto wrong = MeasureAs<WrongResult>(problem, Answer(body));
      CHECK_THAT(wrong.rule, Catch::StartsWith("kernelcast: an output follows"));
      CHECK_THAT(wrong.rule, Catch::Contains("kernelbench: every element within 0.0001"));
      CHECK(wrong.mismatches == 0);
    }
    for (const char* const body : example.right) {
      INFO(example.name << ": " << body);
      // Times may be too noisy on a busy machine.
      const Measurement measurement = MeasurePython(problem, Answer(body));
      INFO(MeasurementFeedback(measurement));
      CHECK((std::holds_alternative<MeasuredOk>(measurement.outcome) ||
             std::holds_alternative<EnvironmentUnstable>(measurement.outcome)));
    }
  }
}

TEST_CASE("A task's candidate may be as inexact as its reference", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem =
      TaskOf("        return given[0] * 17 + given[1] * 23",
             "[torch.randn(64, 256).bfloat16(), torch.randn(64, 256).bfloat16()]");
  // More exact than the reference, and refused by the format's rule where the sum is near zero.
  const Measurement exact = MeasurePython(
      problem, Answer("        return (given[0].float() * 17 + given[1].float() * 23).bfloat16()"));
  INFO(MeasurementFeedback(exact));
  if (const auto* const ok = std::get_if<MeasuredOk>(&exact.outcome)) {
    CHECK_THAT(ok->rule, Catch::StartsWith("kernelbench: every element within 0.01") &&
                             Catch::Contains("; or kernelcast: ") &&
                             Catch::Contains("; decided by the latter: the former refuses "));
  } else {
    CHECK(std::holds_alternative<EnvironmentUnstable>(exact.outcome));
  }
  for (const char* const wrong :
       {"        return (given[0].float() * 17 + given[1].float() * 22.5).bfloat16()",
        "        x, y = given\n        return torch.where(x > 3, x * 0, x * 17 + y * 23)",
        "        x, y = given\n        z = x * 17 + y * 23\n        return torch.cat((z[:63], "
        "z[:1]))"}) {
    INFO(wrong);
    MeasureAs<WrongResult>(problem, Answer(wrong));
  }
}

TEST_CASE("A right answer that becomes trivial once it is timed is a wrong result", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = TaskOf("        return given[0].softmax(-1)", "[torch.rand(2, 32768)]");
  const std::string late = R"(
import torch
calls = 0
class ModelNew(torch.nn.Module):
    def forward(self, x):
        global calls
        calls += 1
        return x.softmax(-1) if calls < 40 else torch.zeros_like(x)
)";
  const auto wrong = MeasureAs<WrongResult>(problem, late);
  CHECK(wrong.cause == WrongResult::Cause::kTimedOutput);
  CHECK_THAT(wrong.rule, Catch::StartsWith("kernelcast: an output follows"));
}

}  // namespace
}  // namespace kernelcast::testing::python_trivial_answers_test
