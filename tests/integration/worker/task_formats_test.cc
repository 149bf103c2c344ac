// Tasks of flashinfer-bench, SOL-ExecBench and GPU MODE, as they are.
#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/domain/python_task.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/integration/worker/python_fixture.h"

namespace kernelcast::testing::task_formats_test {
namespace {

struct Example {
  std::string task;
  std::string candidates;
  std::vector<std::string> right;
  std::string wrong;
  std::string rule;  // that the wrong one breaks
};

const std::string kFlashInfer = "examples/tasks/flashinfer_bench/";
const std::string kSol = "examples/tasks/sol_execbench/";
const std::string kGpuMode = "examples/tasks/gpu_mode/";

// Measures once. A machine that is too noisy to time is no failure here: outputs are checked first.
Measurement MeasureOnce(const Problem& problem, const std::string& source) {
  auto measured = TryMeasure(problem, PythonCandidate(problem, source));
  INFO(measured.status().ToString());
  REQUIRE(measured.ok());
  return *std::move(measured);
}

void CheckRight(const Problem& problem, const std::string& source) {
  const Measurement measurement = MeasureOnce(problem, source);
  INFO(MeasurementFeedback(measurement));
  if (std::holds_alternative<EnvironmentUnstable>(measurement.outcome)) return;
  const auto* const ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->correctness_cases >= 5);
  CHECK(ok->shapes.size() == problem.bench_shapes.size());
  CHECK(ok->speedup.value > 0.05);
  CHECK_THAT(ok->rule,
             Catch::Contains(absl::StrCat(std::string(Name(problem.task->format)), ": ")));
}

void CheckExample(const Example& example) {
  const Problem problem = LoadProblem(example.task);
  const auto source = [&](const std::string& name) {
    return SourceFile(absl::StrCat(example.candidates, "/", name));
  };
  for (const std::string& name : example.right) {
    INFO(example.task << ": " << name);
    CheckRight(problem, source(name));
  }
  INFO(example.task << ": " << example.wrong);
  const auto wrong = MeasureAs<WrongResult>(problem, source(example.wrong));
  CHECK_FALSE(wrong.output.empty());
  CHECK_THAT(wrong.rule, Catch::Contains(example.rule));
}

TEST_CASE("The examples in flashinfer-bench's form are judged", "[slow]") {
  if (!HaveTorch()) return;
  const auto example = [](const std::string& name, const std::vector<std::string>& right,
                          const std::string& wrong) {
    CheckExample({absl::StrCat(kFlashInfer, "definitions/", name, ".json"),
                  absl::StrCat(kFlashInfer, "solutions/", name), right, wrong,
                  "flashinfer_bench: every element"});
  };
  example("rmsnorm/rmsnorm_bf16_h1024", {"by_norm.json"}, "wrong_mean.py");
  example("gemm/gemm_n192_k256", {"one_call.json", "returning.py"}, "wrong_transpose.py");
  example("attention/causal_attention_h4_d32", {"batched.json"}, "wrong_unmasked.py");
}

TEST_CASE("A definition with row pointers from a file is judged, and the result notes constants",
          "[slow]") {
  if (!HaveTorch()) return;
  const std::string name = "sparse/csr_matmul_c256_n64";
  const std::string solutions = absl::StrCat(kFlashInfer, "solutions/", name);
  CheckExample({absl::StrCat(kFlashInfer, "definitions/", name, ".json"),
                solutions,
                {"segments.py"},
                "wrong_even_rows.py",
                "flashinfer_bench: every element"});
  const Problem problem = LoadProblem(absl::StrCat(kFlashInfer, "definitions/", name, ".json"));
  const auto ok = MeasureAs<MeasuredOk>(problem, SourceFile(solutions + "/segments.py"));
  CHECK(ok.notes == std::vector<MeasurementNote>{MeasurementNote::kInputsNeverChange});
}

TEST_CASE("A flashinfer-bench solution is judged as it is", "[slow]") {
  if (!HaveTorch()) return;
  CheckExample({kFlashInfer + "definitions/elementwise/scaled_gelu_h512.json",
                kFlashInfer + "solutions/elementwise/scaled_gelu_h512",
                {"fused.json"},
                "wrong_scale.json",
                "flashinfer_bench: every element"});
}

TEST_CASE("The examples in SOL-ExecBench's form are judged", "[slow]") {
  if (!HaveTorch()) return;
  const auto example = [](const std::string& name, const std::string& right,
                          const std::string& wrong) {
    CheckExample(
        {kSol + name, absl::StrCat(kSol, name, "/solutions"), {right}, wrong, "sol_execbench: "});
  };
  example("residual_layernorm", "layer_norm.json", "wrong_unnormalised_sum.json");
  example("masked_softmax", "one_mask.json", "wrong_no_mask.json");
  example("gated_projection", "one_matmul.json", "wrong_order.json");
}

TEST_CASE("The examples in GPU MODE's form are judged", "[slow]") {
  if (!HaveTorch()) return;
  const auto example = [](const std::string& name, const std::string& right,
                          const std::string& wrong) {
    CheckExample({kGpuMode + name,
                  absl::StrCat(kGpuMode, name, "/submissions"),
                  {right},
                  wrong,
                  "gpu_mode: check_implementation accepts every output; it said: "});
  };
  example("clamped_add", "out_variant.py", "wrong_bounds.py");
  example("prefix_sum", "cumsum.py", "wrong_exclusive.py");
  example("matmul_bf16", "in_float32.py", "wrong_half.py");
}

TEST_CASE("A GPU MODE task's own checker decides where several results are right", "[slow]") {
  if (!HaveTorch()) return;
  CheckExample({kGpuMode + "row_argmax",
                kGpuMode + "row_argmax/submissions",
                {"last_of_ties.py"},
                "wrong_argmin.py",
                "rows have larger elements"});
}

TEST_CASE("The program of a GPU MODE task decides in a process without the candidate", "[slow]") {
  if (!HaveTorch()) return;
  const std::string folder = kGpuMode + "rms_norm_pair";
  CheckExample(
      {folder,
       folder + "/submissions",
       {"fused.py"},
       "wrong_gradient.py",
       "the task's own program reports a pass for these outputs; it said: backward is off"});
  const Problem problem = LoadProblem(folder);
  // The report, the program and the reference are not there.
  const std::string wrong = SourceFile(folder + "/submissions/wrong_gradient.py");
  const auto forged = MeasureAs<WrongResult>(
      problem, absl::StrCat("import os, sys\n"
                            "for fd in range(3, 64):\n"
                            "    try:\n        os.write(fd, b'check: pass\\n')\n"
                            "    except OSError:\n        pass\n"
                            "try:\n    import reference\n    reference.expected = None\n"
                            "except ImportError:\n    pass\n",
                            wrong));
  CHECK(forged.output == "output2");
  const auto crash = MeasureAs<Crash>(problem, absl::StrCat("import eval\n", wrong));
  CHECK_THAT(crash.output_tail, Catch::Contains("No module named 'eval'"));
  const auto fewer = MeasureAs<WrongResult>(
      problem, absl::StrCat(wrong, "def rms_norm_forward(x, weight):\n    return x\n"));
  CHECK(fewer.cause == WrongResult::Cause::kForm);
  const auto compiled = CompilePython(
      problem, PythonCandidate(problem, "def rms_norm_forward(x, weight):\n    pass\n"));
  REQUIRE(std::holds_alternative<CompileError>(compiled.result));
  CHECK_THAT(std::get<CompileError>(compiled.result).log,
             Catch::Contains("does not define rms_norm_backward at its top level"));
}

// One axis, so that sizes that no workload has can be drawn.
Problem Definition(const std::string& reference, const std::string& op_type = "elementwise") {
  const std::string definition = absl::StrCat(
      R"({"name": "a", "op_type": ")", op_type,
      R"(", "axes": {"n": {"type": "var"}}, "inputs": {"x": {"shape": ["n"], "dtype": "float32"}},
       "outputs": {"y": {"shape": ["n"], "dtype": "float32"}}, "reference": ")",
      reference, "\"}");
  return ParseProblem(
             {{"a.json", definition},
              {"a.jsonl", R"({"axes": {"n": 4096}, "inputs": {"x": {"type": "random"}}})"}})
      .value();
}

TEST_CASE("Rules of passing of a definition are its own, and stricter ones come on top", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = Definition("import torch\\ndef run(x):\\n    return x * 2\\n");
  SECTION("a small relative error passes, however large the value") {
    CheckRight(problem, "def run(x):\n    return x * 2.015\n");
  }
  SECTION("a small absolute error passes, however small the value") {
    CheckRight(problem, "def run(x):\n    return x * 2 + 0.009\n");
  }
  SECTION("sizes of the workloads alone are not enough") {
    const auto wrong = MeasureAs<WrongResult>(
        problem, "def run(x):\n    return x * 2 if x.shape[0] == 4096 else x * 3\n");
    CHECK(wrong.distribution == "held_out");
  }
  SECTION("outputs are given, and all of them must be written") {
    const auto wrong = MeasureAs<WrongResult>(problem, "def run(x, y):\n    y[1:] = x[1:] * 2\n");
    CHECK(wrong.cause == WrongResult::Cause::kNotWritten);
    CHECK(wrong.rule == "kernelcast: every element is written");
  }
}

TEST_CASE("A share of wrong elements passes where the definition allows it, unless not written",
          "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = Definition("import torch\\ndef run(x):\\n    return x * 2\\n", "moe");
  const auto run = [](const std::string& body) {
    return "def run(x, y):\n    y.copy_(x * 2)\n" + body;
  };
  CheckRight(problem, run("    y[31::32] = 9\n"));
  const auto most = MeasureAs<WrongResult>(problem, run("    y[::8] = 9\n"));
  CHECK_THAT(most.rule, Catch::Contains("at least 95% of elements"));
  const auto nan = MeasureAs<WrongResult>(problem, run("    y[-1] = float('nan')\n"));
  CHECK(nan.cause == WrongResult::Cause::kNonFinite);
  const auto unwritten =
      MeasureAs<WrongResult>(problem, "def run(x, y):\n    y[16:] = x[16:] * 2\n");
  CHECK(unwritten.rule == "kernelcast: every element is written");
}

TEST_CASE("Solutions that cannot run here are refused before they run", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = Definition("def run(x):\\n    return x\\n");
  const auto refusal = [&](const std::string& source) {
    const auto compiled = CompilePython(problem, PythonCandidate(problem, source));
    REQUIRE(std::holds_alternative<CompileError>(compiled.result));
    return std::get<CompileError>(compiled.result).log;
  };
  CHECK_THAT(refusal("{"), Catch::Contains("not JSON"));
  CHECK_THAT(refusal("{\"spec\": {}}"), Catch::Contains("entry_point"));
  CHECK_THAT(refusal(R"({"spec": {"language": "cuda", "entry_point": "a.cu::run"},
                         "sources": [{"path": "a.cu", "content": "x"}]})"),
             Catch::Contains("language cuda is not supported here, but on the target cuda"));
  CHECK_THAT(refusal(R"({"spec": {"language": "python", "entry_point": "a.py::go"},
                         "sources": [{"path": "a.py", "content": "def run(x): pass"}]})"),
             Catch::Contains("a.py does not define go"));
  CHECK_THAT(refusal("def main(x):\n    return x\n"), Catch::Contains("does not define run"));
}

TEST_CASE("A task whose checker refuses its own reference is at fault", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem =
      ParseProblem(
          {{"task.yml",
            "files:\n  - {name: reference.py, source: reference.py}\ntests:\n  - {n: 8}\n"},
           {"reference.py",
            "import torch\ndef generate_input(n):\n    return torch.randn(n, device='cuda')\n"
            "def ref_kernel(data):\n    return data + 1\n"
            "def check_implementation(data, output):\n    return False, 'never'\n"}})
          .value();
  const auto measured = TryMeasure(
      problem, PythonCandidate(problem, "def custom_kernel(data):\n    return data + 1\n"));
  REQUIRE(absl::IsFailedPrecondition(measured.status()));
  CHECK_THAT(std::string(measured.status().message()),
             Catch::Contains("refuses its own reference") && Catch::Contains("never"));
}

// A folder whose reference and checker are in `reference`.
Problem GpuModeTask(const std::string& reference) {
  return ParseProblem({{"task.yml",
                        "files:\n  - {name: reference.py, source: reference.py}\n"
                        "tests:\n  - {n: 64, seed: 1}\nbenchmarks:\n  - {n: 4096, seed: 2}\n"},
                       {"reference.py",
                        "import torch\ndef generate_input(n, seed):\n"
                        "    generator = torch.Generator(device='cuda').manual_seed(seed)\n"
                        "    return torch.randn(n, device='cuda', generator=generator)\n" +
                            reference}})
      .value();
}

std::string CustomKernel(const std::string& body) {
  return "import torch\ndef custom_kernel(data):\n" + body;
}

TEST_CASE("A checker decides about NaN that the reference yields", "[slow]") {
  if (!HaveTorch()) return;
  const Problem roots = GpuModeTask(
      "def ref_kernel(data):\n    return data.sqrt()\n"
      "def check_implementation(data, output):\n"
      "    return torch.allclose(output, ref_kernel(data), equal_nan=True), 'not the root'\n");
  CheckRight(roots, CustomKernel("    return data ** 0.5\n"));
  const auto zeros =
      MeasureAs<WrongResult>(roots, CustomKernel("    return data.clamp(min=0).sqrt()\n"));
  CHECK_THAT(zeros.rule, Catch::Contains("not the root"));
  MeasureAs<WrongResult>(roots, CustomKernel("    return data.sqrt() * 1.5\n"));
  MeasureAs<WrongResult>(roots, CustomKernel("    return data * float('nan')\n"));

  // The first element may be anything.
  const Problem ratios = GpuModeTask(
      "def ref_kernel(data):\n    s = data / data.roll(1)\n    s[0] = float('nan')\n"
      "    return s, data.sum(0, keepdim=True)\n"
      "def check_implementation(data, output):\n    wanted = ref_kernel(data)\n"
      "    good = torch.allclose(output[0][1:], wanted[0][1:], rtol=1e-3)\n"
      "    return good and torch.allclose(output[1], wanted[1], atol=1e-3), 'differs'\n");
  CheckRight(ratios, CustomKernel("    return data / data.roll(1), data.sum().reshape(1)\n"));
  MeasureAs<WrongResult>(ratios,
                         CustomKernel("    return data / data.roll(2), data.sum().reshape(1)\n"));
}

TEST_CASE("A reference whose NaN its checker refuses is at fault", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = GpuModeTask(
      "def ref_kernel(data):\n    return data.sqrt()\n"
      "def check_implementation(data, output):\n"
      "    return torch.allclose(output, ref_kernel(data)), 'not the root'\n");
  const auto measured =
      TryMeasure(problem, PythonCandidate(problem, CustomKernel("    return data.sqrt()\n")));
  REQUIRE(absl::IsFailedPrecondition(measured.status()));
  CHECK_THAT(std::string(measured.status().message()),
             Catch::Contains("refuses its own reference"));
}

TEST_CASE("A task without a checker whose reference yields NaN is at fault", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = Definition("import torch\\ndef run(x):\\n    return (x - 10).sqrt()\\n");
  const auto measured =
      TryMeasure(problem, PythonCandidate(problem, "def run(x):\n    return (x - 10).sqrt()\n"));
  REQUIRE(absl::IsFailedPrecondition(measured.status()));
  CHECK_THAT(std::string(measured.status().message()), Catch::Contains("yields NaN"));
}

// A folder with the classes of `task`, whose cases differ in `kind`.
Problem TaskOfKinds(const std::string& task, const std::string& reference) {
  return ParseProblem({{"task.yml",
                        "files:\n  - {name: task.py, source: task.py}\n"
                        "  - {name: reference.py, source: reference.py}\n"
                        "tests:\n  - {n: 64, kind: 1, seed: 1}\n  - {n: 48, kind: 2, seed: 1}\n"
                        "benchmarks:\n  - {n: 512, kind: 1, seed: 2}\n"
                        "  - {n: 512, kind: 2, seed: 2}\n"},
                       {"task.py", task},
                       {"reference.py",
                        "import torch\nfrom task import *\n" + reference +
                            "def check_implementation(data, output):\n"
                            "    wanted = ref_kernel(data)\n"
                            "    pairs = zip(output, wanted) if isinstance(wanted, tuple) else "
                            "[(output, wanted)]\n"
                            "    good = all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) "
                            "for a, b in pairs)\n"
                            "    return good, 'differs'\n"}})
      .value();
}

TEST_CASE("Dtypes, numbers of tensors and numbers may differ between cases", "[slow]") {
  if (!HaveTorch()) return;
  const Problem masks =
      TaskOfKinds("import torch\n",
                  "def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n"
                  "    x = torch.randn(n, 64)\n"
                  "    mask = torch.ones(n, 64) if kind == 1 else torch.randint(0, 2, (n, 64))\n"
                  "    return x, mask, {'cols': 64 // kind}\n"
                  "def ref_kernel(data):\n    x, mask, numbers = data\n"
                  "    return (x * mask).reshape(-1, numbers['cols']).sum(dim=1)\n");
  CheckRight(masks, CustomKernel("    x, mask, numbers = data\n"
                                 "    kept = torch.where(mask != 0, x, torch.zeros(()))\n"
                                 "    return kept.view(-1, numbers['cols']).sum(dim=1)\n"));
  const auto of_one_kind = MeasureAs<WrongResult>(
      masks, CustomKernel("    x, mask, numbers = data\n"
                          "    return x.reshape(-1, numbers['cols']).sum(dim=1)\n"));
  CHECK(of_one_kind.shape.at("kind") == 2);

  // The second kind has one input and one output more.
  const Problem ends =
      TaskOfKinds("import torch\n",
                  "def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n"
                  "    return [torch.randn(n, 64), torch.randn(64).half() if kind == 2 else None]\n"
                  "def ref_kernel(data):\n    x, bias = data\n"
                  "    if bias is None:\n        return x.amax(dim=1)\n"
                  "    y = x + bias.float()\n    return y.amax(dim=1), y.argmax(dim=1)\n");
  CheckRight(ends, CustomKernel("    x, bias = data\n"
                                "    if bias is None:\n        return x.max(dim=1).values\n"
                                "    return tuple((x + bias).max(dim=1))\n"));
  const auto wrong = MeasureAs<WrongResult>(
      ends, CustomKernel("    x, bias = data\n"
                         "    if bias is None:\n        return x.max(dim=1).values\n"
                         "    return x.max(dim=1).values, x.argmax(dim=1)\n"));
  CHECK(wrong.shape.at("kind") == 2);
}

TEST_CASE("Inputs may be in dataclasses and named tuples of a task's modules", "[slow]") {
  if (!HaveTorch()) return;
  const std::string classes =
      "import dataclasses, typing, torch\n"
      "class Sizes(typing.NamedTuple):\n    rows: int\n    factor: float\n"
      "@dataclasses.dataclass(frozen=True)\nclass Batch:\n    x: torch.Tensor\n"
      "    parts: dict\n    sizes: Sizes\n";
  const std::string make =
      "def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n"
      "    bias = torch.randn(64).to(torch.float64 if kind == 2 else torch.float32)\n"
      "    return Batch(torch.randn(n, 64), {'bias': bias}, Sizes(n, 0.5 * kind))\n"
      "def ref_kernel(data):\n"
      "    return data.sizes.factor * data.x + data.parts['bias'].float()\n";
  const Problem problem = TaskOfKinds(classes, make);
  CheckRight(problem,
             "from task import Batch, Sizes\ndef custom_kernel(data):\n"
             "    assert type(data) is Batch and type(data.sizes) is Sizes\n"
             "    assert data.sizes.rows == data.x.shape[0]\n"
             "    return (data.x * data.sizes.factor).add(data.parts['bias'].float())\n");
  MeasureAs<WrongResult>(problem, CustomKernel("    return 0.5 * data.x + data.parts['bias']"
                                               ".float()\n"));

  // A class that needs the reference is not given to candidates.
  const Problem hidden = TaskOfKinds(
      "import torch\n", classes + "    def run(self):\n        return ref_kernel(self)\n" + make);
  const auto measured =
      TryMeasure(hidden, PythonCandidate(hidden, CustomKernel("    return data.x\n")));
  REQUIRE(absl::IsFailedPrecondition(measured.status()));
  CHECK_THAT(std::string(measured.status().message()),
             Catch::Contains("Batch of module reference, which candidates do not have"));
}

TEST_CASE("Inputs may be modules and objects of classes in reference.py", "[slow]") {
  if (!HaveTorch()) return;
  // Each call writes into the cache and moves its end.
  const Problem problem = TaskOfKinds(
      "import torch\n",
      "SCALE = 2.0\n"
      "class Config:\n    def __init__(self, weights, shape):\n"
      "        self.weights, self.shape = weights, shape\n"
      "class Cache(torch.nn.Module):\n    def __init__(self, rows):\n        super().__init__()\n"
      "        self.register_buffer('data', torch.zeros(rows, 64))\n        self.used = 0\n"
      "    def forward(self, new):\n        end = self.used + len(new)\n"
      "        self.data[self.used:end] = new * SCALE\n        self.used = end\n"
      "        return self.data[:end]\n"
      "def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n    cache = Cache(n)\n"
      "    cache(torch.randn(n // 2, 64))\n"
      "    config = Config({'w': [torch.randn(64)]}, torch.Size((4 * kind, 64)))\n"
      "    return config, torch.randn(config.shape), cache\n"
      "def ref_kernel(data):\n    config, x, cache = data\n"
      "    return (cache(x) * config.weights['w'][0]).sum(dim=1), cache.data\n");
  CheckRight(problem,
             "from reference import Cache, Config\ndef custom_kernel(data):\n"
             "    config, x, cache = data\n"
             "    assert type(cache) is Cache and type(config) is Config\n"
             "    assert x.shape == config.shape and cache.used == len(cache.data) // 2\n"
             "    return cache(x) @ config.weights['w'][0], cache.data\n");
  const auto wrong = MeasureAs<WrongResult>(
      problem, CustomKernel("    config, x, cache = data\n"
                            "    seen = torch.cat((cache.data[:cache.used], 2 * x))\n"
                            "    return seen @ config.weights['w'][0], cache.data\n"));
  CHECK_THAT(wrong.rule, Catch::Contains("check_implementation"));
  const auto crash = MeasureAs<Crash>(problem,
                                      "from reference import ref_kernel\ndef custom_kernel(data):\n"
                                      "    return ref_kernel(data)\n");
  CHECK_THAT(crash.output_tail, Catch::Contains("cannot import name 'ref_kernel'"));
}

TEST_CASE("A call changes its own copy of an input's attributes", "[slow]") {
  if (!HaveTorch()) return;
  // The reference writes into no tensor.
  const Problem problem = TaskOfKinds(
      "class Counter:\n    pass\n",
      "def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n    counter = Counter()\n"
      "    counter.x, counter.calls = torch.randn(n, 64), kind\n    return counter\n"
      "def ref_kernel(data):\n    data.calls += 1\n    return data.x * data.calls\n");
  CheckRight(problem, CustomKernel("    data.calls += 1\n    return data.calls * data.x\n"));
  MeasureAs<WrongResult>(problem, CustomKernel("    return data.calls * data.x\n"));
}

TEST_CASE("A call has at most 127 inputs and outputs", "[slow]") {
  if (!HaveTorch()) return;
  const auto experts = [](int count) {
    return TaskOfKinds(
        "import torch\n",
        absl::StrCat("def generate_input(n, kind, seed):\n    torch.manual_seed(seed)\n"
                     "    return {i: torch.randn(n, 4) for i in range(",
                     count, " * kind // 2)}\n",
                     "def ref_kernel(data):\n    return torch.stack([*data.values()]).sum(0)\n"));
  };
  const std::string right = CustomKernel(
      "    total = data[0].clone()\n    for i in range(1, len(data)):\n"
      "        total += data[i]\n    return total\n");
  CheckRight(experts(126), right);
  const Problem many = experts(128);
  const auto measured = TryMeasure(many, PythonCandidate(many, right));
  REQUIRE(absl::IsFailedPrecondition(measured.status()));
  CHECK_THAT(std::string(measured.status().message()),
             Catch::Contains("129 inputs and outputs; at most 127"));
}

TEST_CASE("A GPU MODE candidate has neither the reference nor the checker in its process",
          "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = LoadProblem(kGpuMode + "prefix_sum");
  const auto crash = MeasureAs<Crash>(problem,
                                      "from reference import ref_kernel\ndef custom_kernel(data):\n"
                                      "    return ref_kernel(data)\n");
  CHECK_THAT(crash.output_tail, Catch::Contains("No module named 'reference'"));
}

}  // namespace
}  // namespace kernelcast::testing::task_formats_test
