// Tasks of flashinfer-bench, SOL-ExecBench and GPU MODE on the fake driver.

#include <catch2/catch.hpp>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "tests/support/services.h"
#include "tests/unit/services/worker/cuda/target/task_subject.h"

namespace kernelcast::worker {
namespace {

using testing::CheckRight;
using testing::HaveTaskPython;
using testing::TaskSubject;

const std::string kExamples = "examples/tasks/";

Problem LoadTask(const std::string& path) {
  return ParseProblem(ReadProblemFolder(testing::SourcePath(kExamples + path)).value()).value();
}

std::string Source(const std::string& path) {
  return ReadFile(testing::SourcePath(kExamples + path)).value();
}

// One axis, so that sizes that no workload has can be drawn.
Problem Definition(const std::string& op_type) {
  const std::string definition = absl::StrCat(
      R"({"name": "a", "op_type": ")", op_type,
      R"(", "axes": {"n": {"type": "var"}}, "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
       "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
       "reference": "import torch\ndef run(x):\n    return x * 2\n"})");
  return ParseProblem({{"a.json", definition},
                       {"a.jsonl", R"({"axes": {"n": 4096}, "inputs": {"x": {"type": "random"}}}
{"axes": {"n": 256}, "inputs": {"x": {"type": "random"}}})"}})
      .value();
}

TEST_CASE("A flashinfer-bench solution that takes its outputs is judged on a device") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(LoadTask("flashinfer_bench/definitions/elementwise/scaled_gelu_h512.json"))
              .ok());
  REQUIRE(subject.task().cases().size() > 3);
  CHECK(subject.task().cases().back().held_out);
  const std::string solutions = "flashinfer_bench/solutions/elementwise/scaled_gelu_h512/";
  CheckRight(subject.Measure(Source(solutions + "fused.json")));
  CheckRight(subject.Measure(Source(solutions + "returning.py")));
  const auto wrong = subject.MeasureAs<WrongResult>(Source(solutions + "wrong_scale.json"));
  CHECK(wrong.output == "y");
  CHECK_THAT(wrong.rule, Catch::Contains("flashinfer_bench: every element"));
}

TEST_CASE("Rules of passing of a definition hold on a device, and stricter ones come on top") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(Definition("elementwise")).ok());
  CheckRight(subject.Measure("def run(x):\n    return x * 2.015\n"));
  CheckRight(subject.Measure("def run(x):\n    return x * 2 + 0.009\n"));
  const auto listed = subject.MeasureAs<WrongResult>(
      "def run(x):\n    return x * 2 if x.shape[0] in (4096, 256) else x * 3\n");
  CHECK(listed.distribution == "held_out");
  const auto partly = subject.MeasureAs<WrongResult>("def run(x, y):\n    y[1:] = x[1:] * 2\n");
  CHECK(partly.cause == WrongResult::Cause::kNonFinite);
  CHECK(partly.index == 0);
  // The copied tensor is not the one that the candidate got.
  const auto exchanged = subject.MeasureAs<WrongResult>("def run(x, y):\n    y.data = x * 2\n");
  CHECK(exchanged.mismatches == exchanged.elements);

  REQUIRE(subject.Take(Definition("moe")).ok());
  const auto run = [](const std::string& body) {
    return "def run(x, y):\n    y.copy_(x * 2)\n" + body;
  };
  CheckRight(subject.Measure(run("    y[31::32] = 9\n")));
  const auto most = subject.MeasureAs<WrongResult>(run("    y[::8] = 9\n"));
  CHECK_THAT(most.rule, Catch::Contains("at least 95% of elements"));
  const auto nan = subject.MeasureAs<WrongResult>(run("    y[-1] = float('nan')\n"));
  CHECK(nan.cause != WrongResult::Cause::kNotWritten);
}

TEST_CASE("A SOL-ExecBench task makes its own inputs on a device", "[slow]") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(LoadTask("sol_execbench/masked_softmax")).ok());
  const std::string solutions = "sol_execbench/masked_softmax/solutions/";
  CheckRight(subject.Measure(Source(solutions + "one_mask.json")));
  const auto wrong = subject.MeasureAs<WrongResult>(Source(solutions + "wrong_no_mask.json"));
  CHECK_THAT(wrong.rule, Catch::Contains("sol_execbench: "));
  const auto zeros = subject.MeasureAs<WrongResult>("def run(x, lengths, y):\n    pass\n");
  CHECK(zeros.got == 0);
}

TEST_CASE("A GPU MODE task's own checker decides on a device where several results are right") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(LoadTask("gpu_mode/row_argmax")).ok());
  const std::string submissions = "gpu_mode/row_argmax/submissions/";
  CheckRight(subject.Measure(Source(submissions + "last_of_ties.py")));
  const auto wrong = subject.MeasureAs<WrongResult>(Source(submissions + "wrong_argmin.py"));
  CHECK_THAT(wrong.rule, Catch::Contains("gpu_mode: check_implementation accepts every output") &&
                             Catch::Contains("rows have larger elements"));
  const auto crash = subject.MeasureAs<Crash>(
      "from reference import ref_kernel\ndef custom_kernel(data):\n    return ref_kernel(data)\n");
  CHECK_THAT(crash.output_tail, Catch::Contains("No module named 'reference'"));
}

TEST_CASE("The program of a GPU MODE task decides on a device", "[slow]") {
  if (!HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(LoadTask("gpu_mode/rms_norm_pair")).ok());
  const std::string submissions = "gpu_mode/rms_norm_pair/submissions/";
  CheckRight(subject.Measure(Source(submissions + "fused.py")));
  const auto wrong = subject.MeasureAs<WrongResult>(Source(submissions + "wrong_gradient.py"));
  CHECK_THAT(wrong.rule, Catch::Contains("it said: backward is off"));
}

TEST_CASE("A checker decides on a device about NaN that the reference yields") {
  if (!HaveTaskPython()) return;
  const Problem problem =
      ParseProblem({{"task.yml",
                     "files:\n  - {name: reference.py, source: reference.py}\n"
                     "tests:\n  - {n: 64, seed: 1}\nbenchmarks:\n  - {n: 256, seed: 2}\n"},
                    {"reference.py",
                     "import torch\ndef generate_input(n, seed):\n"
                     "    generator = torch.Generator(device='cuda').manual_seed(seed)\n"
                     "    return torch.randn(n, device='cuda', generator=generator)\n"
                     "def ref_kernel(data):\n    return data.sqrt()\n"
                     "def check_implementation(data, output):\n"
                     "    good = torch.allclose(output, ref_kernel(data), equal_nan=True)\n"
                     "    return good, 'not the root'\n"}})
          .value();
  TaskSubject subject;
  REQUIRE(subject.Take(problem).ok());
  const auto custom = [](const std::string& body) {
    return "def custom_kernel(data):\n    return " + body + "\n";
  };
  CheckRight(subject.Measure(custom("data ** 0.5")));
  const auto zeros = subject.MeasureAs<WrongResult>(custom("data.clamp(min=0).sqrt()"));
  CHECK_THAT(zeros.rule, Catch::Contains("not the root"));
  subject.MeasureAs<WrongResult>(custom("data.sqrt() * 1.5"));
}

TEST_CASE("On a device too, cases may differ in dtypes and in numbers of tensors") {
  if (!HaveTaskPython()) return;
  const Problem problem =
      ParseProblem(
          {{"task.yml",
            "files:\n  - {name: task.py, source: task.py}\n"
            "  - {name: reference.py, source: reference.py}\n"
            "tests:\n  - {n: 64, kind: 1, seed: 1}\n  - {n: 48, kind: 2, seed: 1}\n"
            "benchmarks:\n  - {n: 96, kind: 1, seed: 2}\n  - {n: 96, kind: 2, seed: 2}\n"},
           {"task.py",
            "import dataclasses\n@dataclasses.dataclass\nclass Data:\n    x: object\n"
            "    bias: object\n    numbers: dict\n"},
           {"reference.py",
            "import torch\nfrom task import Data\n"
            "def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n"
            "    x = torch.randn(n, 8, device='cuda')\n"
            "    bias = None if kind == 1 else torch.randint(0, 9, (8,), device='cuda')\n"
            "    return Data(x, bias, {'factor': kind})\n"
            "def ref_kernel(data):\n    y = data.x * data.numbers['factor']\n"
            "    if data.bias is None:\n        return y.sum(dim=1)\n"
            "    y = (y + data.bias).double()\n    return y.sum(dim=1), y.argmax(dim=1)\n"
            "def check_implementation(data, output):\n    wanted = ref_kernel(data)\n"
            "    pairs = [(output, wanted)] if data.bias is None else zip(output, wanted)\n"
            "    good = all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)\n"
            "    return good, 'differs'\n"}})
          .value();
  TaskSubject subject;
  REQUIRE(subject.Take(problem).ok());
  REQUIRE(subject.task().cases().size() == 4);
  CHECK(subject.task().cases()[0].inputs.size() == 1);
  CHECK(subject.task().cases()[1].inputs.size() == 2);
  CHECK(subject.task().cases()[1].outputs[0].dtype == DataType::kFloat64);
  const auto custom = [](const std::string& last) {
    return "def custom_kernel(data):\n    y = data.x * data.numbers['factor']\n"
           "    if data.bias is None:\n        return y.sum(dim=1)\n" +
           last;
  };
  CheckRight(subject.Measure(
      custom("    y = y.double() + data.bias\n    return y.sum(dim=1), y.max(dim=1).indices\n")));
  const auto wrong = subject.MeasureAs<WrongResult>(
      custom("    y = y.double()\n    return y.sum(dim=1), y.argmax(dim=1)\n"));
  CHECK(wrong.shape.at("kind") == 2);
}

TEST_CASE("A task whose checker refuses its own reference on a device is at fault") {
  if (!HaveTaskPython()) return;
  const Problem problem =
      ParseProblem(
          {{"task.yml",
            "files:\n  - {name: reference.py, source: reference.py}\ntests:\n  - {n: 8}\n"},
           {"reference.py",
            "import torch\ndef generate_input(n):\n    return torch.randn(n, device='cuda')\n"
            "def ref_kernel(data):\n    return data + 1\n"
            "def check_implementation(data, output):\n    return False, 'never'\n"}})
          .value();
  TaskSubject subject;
  REQUIRE(subject.Take(problem).ok());
  const auto measured = subject.TryMeasure(
      subject.task().Candidate("def custom_kernel(data):\n    return data + 1\n", {}).content);
  REQUIRE(absl::IsFailedPrecondition(measured.status()));
  CHECK_THAT(std::string(measured.status().message()),
             Catch::Contains("refuses its own reference") && Catch::Contains("never"));
}

}  // namespace
}  // namespace kernelcast::worker
