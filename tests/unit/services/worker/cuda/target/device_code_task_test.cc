// Device code in Python tasks on the fake driver, whose kernels compute scale * x + add.

#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/worker/core/problem_faults.h"
#include "tests/unit/services/worker/cuda/target/task_subject.h"

namespace kernelcast::worker {
namespace {

using testing::CheckRight;
using testing::HaveTaskPython;
using testing::TaskSubject;
using testing::TextOf;

using Code = TaskSubject::DeviceCode;

// Two outputs, of which one depends on a buffer alone.
const char* const kWeighted = R"(
import torch
import torch.nn as nn

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.rand(40))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(3))
        self.inner = Inner()

    def forward(self, x, n):
        return 2 * x + 1, 2 * self.inner.shift + 1

def get_inputs():
    return [torch.randn(16, 64), 7]

def get_init_inputs():
    return []
)";

Problem KernelBenchTask(const std::string& source) {
  return ParseProblem({{"task.py", source}}).value();
}

// Tasks of GPU MODE whose input is what `body` and `inputs` say.
Problem GpuModeTask(const std::string& body, const std::string& inputs) {
  return ParseProblem(
             {{"task.yml",
               "files:\n  - {name: reference.py, source: reference.py}\n"
               "tests:\n  - {size: 8, seed: 1}\nbenchmarks:\n  - {size: 64, seed: 1}\n"},
              {"reference.py", absl::StrCat("import torch\ndef ref_kernel(data):\n", body,
                                            "\ndef generate_input(size, seed):\n"
                                            "    torch.manual_seed(seed)\n    return ",
                                            inputs,
                                            "\ndef check_implementation(data, output):\n"
                                            "    good = torch.allclose(output, ref_kernel(data))\n"
                                            "    return good, '' if good else 'differs'\n")}})
      .value();
}

Launch LaunchOf(const std::string& kernel, const std::vector<std::string>& arguments) {
  return {.kernel = kernel,
          .grid = {"1"},
          .block = {"32"},
          .shared_memory_bytes = "",
          .arguments = arguments,
          .cluster = {}};
}

Code Weighted(const std::string& options) {
  return {{absl::StrCat("map affine ns=50000 ", options), "shift affine scale=2 add=1 ns=50000"},
          {LaunchOf("map", {"x", "output0", "x_shape_0 * x_shape_1 + 7 - n:int64"}),
           LaunchOf("shift", {"model_inner_shift", "output1", "model_inner_shift_numel"})}};
}

const std::string kRight = "scale=2 add=1";

template <class Outcome>
Outcome As(const MeasureOutcome& outcome) {
  INFO(TextOf(outcome));
  REQUIRE(std::holds_alternative<Outcome>(outcome));
  return std::get<Outcome>(outcome);
}

TEST_CASE("Device code is judged against a task's reference, and gets its weights") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(KernelBenchTask(kWeighted)).ok());
  const auto ok = As<MeasuredOk>(subject.MeasureCode(Weighted(kRight)));
  REQUIRE(ok.shapes.size() == 1);
  // The fake driver cannot capture PyTorch.
  REQUIRE(ok.shapes[0].eager);
  CHECK_THAT(ok.shapes[0].eager->no_graph_reason, Catch::Contains("reference cannot be captured"));
  CHECK_THAT(ok.rule, Catch::Contains("kernelbench: every element"));
  // Others follow in the same process, also after wrong ones.
  const auto wrong = As<WrongResult>(subject.MeasureCode(Weighted("scale=2 add=1.5")));
  CHECK(wrong.output == "output0");
  Code other = Weighted(kRight);
  other.launches[1].arguments[0] = "model_scale";
  other.launches[1].arguments[2] = "model_scale_numel";
  CHECK(As<WrongResult>(subject.MeasureCode(other)).output == "output1");
  other = Weighted(kRight);
  other.launches.pop_back();
  CHECK(As<WrongResult>(subject.MeasureCode(other)).cause == WrongResult::Cause::kNotWritten);
  CheckRight(subject.MeasureCode(Weighted(kRight)));
  // And so do Python candidates of the task, of which the second has other memory for its outputs.
  const std::string python = absl::StrCat(kWeighted, "\nModelNew = Model\n");
  CheckRight(subject.MeasureLoaded(python));
  CheckRight(subject.MeasureLoaded(python));
  CheckRight(subject.MeasureCode(Weighted(kRight)));
}

TEST_CASE("Device code of a task cannot cheat by what it cannot do elsewhere") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(KernelBenchTask(kWeighted)).ok());
  // Inputs and weights are read-only.
  CHECK(As<Crash>(subject.MeasureCode(Weighted(kRight + " write_input=1"))).cause ==
        Crash::Cause::kDeviceError);
  Code code = Weighted(kRight);
  code.kernels[1] += " write_input=1";
  const auto crash = As<Crash>(subject.MeasureCode(code));
  CHECK(crash.cause == Crash::Cause::kDeviceError);
  CHECK_THAT(crash.output_tail, Catch::Contains("inputs are read-only"));
  // Results of earlier calls are wrong for new values.
  const auto stale = subject.MeasureCode(Weighted(kRight + " from=12 stale=1"));
  INFO(TextOf(stale));
  CHECK((std::holds_alternative<Exploit>(stale) || std::holds_alternative<WrongResult>(stale)));
  // Skipped work in timed calls, and writes beyond an output.
  const auto skipped = subject.MeasureCode(Weighted(kRight + " from=12 skip=1"));
  INFO(TextOf(skipped));
  CHECK((std::holds_alternative<Exploit>(skipped) || std::holds_alternative<WrongResult>(skipped)));
  CHECK(As<Exploit>(subject.MeasureCode(Weighted(kRight + " beyond=1"))).kind ==
        Exploit::Kind::kWriteOutOfBounds);
  // The reference's results are not mapped where the arena after its outputs would be.
  const auto steal = subject.MeasureCode(Weighted(kRight + " from=12 steal=1"));
  INFO(TextOf(steal));
  CHECK_FALSE(std::holds_alternative<MeasuredOk>(steal));
  CheckRight(subject.MeasureCode(Weighted(kRight)));
}

TEST_CASE("A final figure of device code in a task has processes of its own") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(KernelBenchTask(kWeighted)).ok());
  const MeasureOutcome outcome = subject.MeasureCode(Weighted(kRight), MeasureLevel::kFinal);
  CheckRight(outcome);
  CHECK_FALSE(std::holds_alternative<Exploit>(outcome));
  As<WrongResult>(subject.MeasureCode(Weighted("scale=3 add=1"), MeasureLevel::kFinal));
}

TEST_CASE(
    "Device code in a task has a workspace, and unknown names and too large ones are errors") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(KernelBenchTask(kWeighted)).ok());
  Code code = Weighted(kRight);
  code.kernels.push_back("copy affine scale=1 add=0 ns=1000");
  code.workspace_bytes = "4 * x_numel";
  code.launches[0].arguments[1] = "workspace";
  code.launches.push_back(LaunchOf("copy", {"workspace", "output0", "x_numel"}));
  CheckRight(subject.MeasureCode(code));
  code.launches[0].arguments[0] = "y";
  const auto unknown = subject.TryMeasureCode(code);
  CHECK(absl::IsInvalidArgument(unknown.status()));
  CHECK_THAT(std::string(unknown.status().message()),
             Catch::Contains("'y' is not one of x, model_scale, model_inner_shift, output0"));
  CheckRight(subject.MeasureCode(Weighted(kRight)));
}

TEST_CASE("Device code in a task gets its own copy of an input that the reference changes") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject
              .Take(GpuModeTask("    x, out = data\n    out[...] = 2 * x + 1\n    return out",
                                "torch.randn(size, size), torch.zeros(size, size)"))
              .ok());
  REQUIRE(subject.task().cases()[0].written == std::vector<size_t>{1});
  const Code direct{{"map affine scale=2 add=1 ns=50000"},
                    {LaunchOf("map", {"data_0", "output0", "size * size:int64"})}};
  CheckRight(subject.MeasureCode(direct));
  // The copy can be written.
  const Code through{{"map affine scale=2 add=1 ns=50000", "copy affine scale=1 add=0 ns=1000"},
                     {LaunchOf("map", {"data_0", "data_1", "data_0_numel"}),
                      LaunchOf("copy", {"data_1", "output0", "data_1_numel"})}};
  CheckRight(subject.MeasureCode(through));
  const Code wrong{{"map affine scale=2 add=2 ns=50000"},
                   {LaunchOf("map", {"data_0", "output0", "data_0_numel"})}};
  CHECK_THAT(As<WrongResult>(subject.MeasureCode(wrong)).rule,
             Catch::Contains("check_implementation"));

  // In place: the copy has the input's values before each call.
  REQUIRE(
      subject.Take(GpuModeTask("    return data.mul_(2).add_(1)", "torch.randn(size, size)")).ok());
  CheckRight(subject.MeasureCode({{"map affine scale=2 add=1 ns=50000"},
                                  {LaunchOf("map", {"data", "output0", "data_numel"})}}));
  CheckRight(subject.MeasureCode(
      {{"map affine scale=2 add=1 ns=50000", "copy affine scale=1 add=0 ns=1000"},
       {LaunchOf("map", {"data", "data", "data_numel"}),
        LaunchOf("copy", {"data", "output0", "data_numel"})}}));
}

TEST_CASE("Device code sees the memory order of inputs that are not row-major") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject
              .Take(GpuModeTask("    return (2 * data + 1).t().contiguous()",
                                "torch.randn(size, 2 * size).t()"))
              .ok());
  CHECK(subject.task().launches().sizes[0].at("data_stride_0") == 1);
  CHECK(subject.task().launches().sizes[0].at("data_stride_1") == 16);
  // In memory the rows of the output follow each other.
  CheckRight(subject.MeasureCode(
      {{"map affine scale=2 add=1 ns=50000"},
       {LaunchOf("map", {"data", "output0", "data_stride_1 * data_shape_1:int64"})}}));
}

TEST_CASE("Device code in a task is profiled with hardware counters") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(KernelBenchTask(kWeighted)).ok());
  CheckRight(subject.MeasureCode(Weighted(kRight)));
  (void)subject.ProfileCode(Weighted(kRight));
  CheckRight(subject.MeasureCode(Weighted(kRight)));
}

TEST_CASE("A task whose weights cannot be made is at fault") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  // Only the process of weights constructs the model without calling it.
  const std::string task = absl::StrCat(kWeighted, R"(
first = Model.__init__
def init(self):
    first(self)
    import inspect
    if any(frame.function == "__init__" and "WeightsOnDevice" in str(frame.frame.f_locals.get("self"))
           for frame in inspect.stack(0)):
        raise RuntimeError("no weights today")
Model.__init__ = init
)");
  REQUIRE(subject.Take(KernelBenchTask(task)).ok());
  const auto outcome = subject.TryMeasureCode(Weighted(kRight));
  CHECK(absl::IsFailedPrecondition(outcome.status()));
  CHECK_THAT(std::string(outcome.status().message()),
             Catch::Contains("the task failed (weights)") && Catch::Contains("no weights today"));
}

}  // namespace
}  // namespace kernelcast::worker
