#include "common/domain/python_task.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "services/worker/core/baseline_target.h"
#include "services/worker/cpu/cpu_target.h"
#include "services/worker/python/interpreter.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/integration/worker/python_fixture.h"
#include "tests/support/services.h"

namespace kernelcast::testing::python_task_test {
namespace {

using worker::CpuTarget;

const std::string kTasks = "examples/tasks/kernelbench/";

TEST_CASE("A worker says whether it judges PyTorch tasks") {
  if (!HaveTorch()) return;
  const auto with = PythonTarget().Describe();
  CHECK(std::count(with.candidate_kinds.begin(), with.candidate_kinds.end(),
                   CandidateKind::kPython) == 1);
  const TemporaryFolder folder("no-python");
  const auto without = CpuTarget::Make(CpuFixture::Options(folder.path())).value();
  CHECK(without->Describe().can_measure);
  REQUIRE(without->Describe().missing_tools.size() == 1);
  CHECK_THAT(without->Describe().missing_tools[0], Catch::Contains("--python"));
  const Problem problem = MakeTask(kReluTask);
  const Candidate candidate = PythonCandidate(problem, ModelNew("        pass"));
  const auto compiled = without->Compile({problem, &candidate}, worker::CancelToken());
  CHECK(absl::IsUnimplemented(compiled.status()));
  CHECK_THAT(std::string(compiled.status().message()), Catch::Contains("--python"));
}

TEST_CASE("An interpreter may be named by a path relative to the working directory") {
  if (!HaveTorch()) return;
  const std::string link = absl::StrCat("python-task-test-", getpid());
  std::filesystem::create_symlink(kPython, link);
  const absl::Cleanup remove = [&link] { std::filesystem::remove(link); };
  const auto found = worker::ProbeTorch(absl::StrCat("./", link));
  REQUIRE(found.status().ToString() == "OK");
  CHECK(found->program == worker::ProbeTorch(kPython)->program);
}

TEST_CASE("The example tasks accept right candidates and refuse wrong ones", "[slow]") {
  if (!HaveTorch()) return;
  struct Example {
    std::string task;
    std::vector<std::string> right;
    std::string wrong;
  };
  const std::vector<Example> examples = {
      {"gated_silu", {"in_place", "rowwise"}, "wrong_gate"},
      {"row_variance", {"one_call"}, "wrong_unbiased"},
      {"linear_relu", {"clamp_in_place"}, "wrong_bias"},
      {"masked_attention", {"added_mask"}, "wrong_unmasked"},
  };
  for (const Example& example : examples) {
    const Problem problem = LoadProblem(absl::StrCat(kTasks, example.task, ".py"));
    const auto source = [&](const std::string& name) {
      return SourceFile(absl::StrCat(kTasks, "candidates/", example.task, "/", name, ".py"));
    };
    for (const std::string& name : example.right) {
      INFO(example.task << "/" << name);
      const auto ok = MeasureAs<MeasuredOk>(problem, source(name));
      CHECK(ok.correctness_cases >= 5);
      CHECK(ok.speedup.value > 0.05);
      REQUIRE(ok.shapes.size() == 1);
      CHECK(ok.shapes[0].candidate.samples > 0);
    }
    INFO(example.task << "/" << example.wrong);
    const auto wrong = MeasureAs<WrongResult>(problem, source(example.wrong));
    CHECK(wrong.cause == WrongResult::Cause::kValue);
    CHECK_FALSE(wrong.output.empty());
  }
}

TEST_CASE("The reference of a task measured as a candidate is indistinguishable from itself",
          "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const Measurement measurement =
      MeasurePython(problem, ReferenceCandidate(problem, "cpu").value());
  INFO(MeasurementFeedback(measurement));
  const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
  REQUIRE(ok != nullptr);
  CHECK(ok->speedup.low < 1.1);
  CHECK(ok->speedup.high > 0.9);
}

// The reference under torch.compile. Debian's PyTorch has none, so that the task brings a stand-in.
Measurement MeasureCompiled(const std::string& torch_compile) {
  const Problem problem = MakeTask(absl::StrCat("import torch\n", torch_compile, kReluTask));
  Candidate compiled = ReferenceCandidate(problem, "cpu").value();
  compiled.flags = {std::string(kTorchCompileFlag)};
  return MeasurePython(problem, compiled);
}

TEST_CASE("A candidate is compared with the reference under torch.compile", "[slow]") {
  if (!HaveTorch()) return;
  // Works sixteen times.
  const Measurement baseline = MeasureCompiled(R"(
def compiled(model):
    def run(*arguments):
        for _ in range(15): model(*arguments)
        return model(*arguments)
    return run
torch.compile = compiled
)");
  const Measurement itself =
      MeasurePython(MakeTask(kReluTask), ModelNew("        return torch.relu(x) * n"));
  for (const Measurement* const measurement : {&baseline, &itself}) {
    if (std::holds_alternative<EnvironmentUnstable>(measurement->outcome)) {
      WARN(MeasurementFeedback(*measurement) << " Nothing is compared.");
      return;
    }
  }
  INFO(MeasurementFeedback(baseline) << " " << MeasurementFeedback(itself));
  REQUIRE(std::holds_alternative<MeasuredOk>(itself.outcome));
  const auto& ok = std::get<MeasuredOk>(itself.outcome);
  const CompiledBaseline slow = worker::CompareWithBaseline(ok, baseline);
  REQUIRE(slow.unavailable_reason.empty());
  CHECK(slow.speedup.value > 2);
  CHECK(slow.speedup.low < slow.speedup.value);
  REQUIRE(slow.references.size() == 1);
  CHECK(slow.references[0].median_ns > ok.shapes[0].reference.median_ns);
}

TEST_CASE("Where torch.compile fails or is wrong, the result says so", "[slow]") {
  if (!HaveTorch()) return;
  const auto reason = [](const std::string& torch_compile) {
    return worker::CompareWithBaseline(MeasuredOk(), MeasureCompiled(torch_compile))
        .unavailable_reason;
  };
  CHECK_THAT(reason("if hasattr(torch, 'compile'): del torch.compile\n"),
             Catch::Contains("has no torch.compile"));
  CHECK_THAT(reason("def compiled(model): raise RuntimeError('no compiler')\n"
                    "torch.compile = compiled\n"),
             Catch::Contains("no compiler"));
  CHECK_THAT(reason("torch.compile = lambda model: lambda x, n: model(x, n) + 1\n"),
             Catch::Contains("Wrong result"));
}

TEST_CASE("A collection of Python's garbage during a call takes little time", "[slow]") {
  if (!HaveTorch()) return;
  const auto ok =
      MeasureAs<MeasuredOk>(MakeTask(kReluTask), ModelNew("        gc.collect()\n"
                                                          "        return torch.relu(x) * n",
                                                          "import gc\n"));
  CHECK(ok.speedup.value > 0.1);
}

TEST_CASE("Sources that cannot be candidates are refused before they run") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const auto refusal = [&](const std::string& source) {
    const auto compiled = CompilePython(problem, PythonCandidate(problem, source));
    REQUIRE(std::holds_alternative<CompileError>(compiled.result));
    return std::get<CompileError>(compiled.result).log;
  };
  CHECK_THAT(refusal("class ModelNew(:\n  pass\n"), Catch::Contains("line 1"));
  CHECK_THAT(refusal("class Other:\n  pass\n"), Catch::Contains("ModelNew"));
  CHECK_THAT(refusal(absl::StrCat("x = ", std::string(100'000, '('))), Catch::Contains("Error"));
  // A right candidate still compiles.
  const auto compiled = CompilePython(
      problem, PythonCandidate(problem, ModelNew("        return torch.relu(x).mul_(n)")));
  REQUIRE(std::holds_alternative<worker::CompileSuccess>(compiled.result));
  const auto& made = std::get<worker::CompileSuccess>(compiled.result);
  CHECK(made.facts.schema == kPythonSourceSchemaId);
  CHECK(made.artifact.format == ArtifactFormat::kPythonSource);
}

TEST_CASE("What a Python candidate prints does not harm it", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const std::string work = "        return torch.relu(x).mul_(n)";
  for (const std::string& source : {
           ModelNew("        print('call', x.shape, flush=True)\n" + work),
           ModelNew("        import sys\n        print('call', x.shape, file=sys.stderr)\n" + work),
           ModelNew("        import os\n        os.write(1, b'x' * 100)\n" + work),
           ModelNew(work, "print('x' * 100000, flush=True)"),
           ModelNew(work, "import sys\nsys.stderr.write('y' * 3000000)\nsys.stderr.flush()"),
           ModelNew(work, "import os\nassert os.write(1, b'z' * 3000000) == 3000000"),
       }) {
    INFO(source);
    const Measurement measurement = MeasurePython(problem, source);
    INFO(MeasurementFeedback(measurement));
    CHECK(std::holds_alternative<MeasuredOk>(measurement.outcome));
  }
  const auto endless =
      MeasureAs<Crash>(problem, ModelNew("        while True: print('The quick brown fox' * 100)"));
  CHECK(endless.cause == Crash::Cause::kOutputLimit);
}

TEST_CASE("A Python source may start with a byte order mark") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const auto compiled = CompilePython(
      problem,
      PythonCandidate(problem, "\xEF\xBB\xBF" + ModelNew("        return torch.relu(x).mul_(n)")));
  CHECK(std::holds_alternative<worker::CompileSuccess>(compiled.result));
  const auto not_text = CompilePython(problem, PythonCandidate(problem, "x = '\xFF'\n"));
  CHECK(std::holds_alternative<CompileError>(not_text.result));
}

TEST_CASE("Failures of Python candidates are distinguished", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const auto crash = [&](const std::string& source) { return MeasureAs<Crash>(problem, source); };
  {
    const auto raised = crash(ModelNew("        return self.unknown(x)"));
    CHECK(raised.cause == Crash::Cause::kExit);
    CHECK_THAT(raised.output_tail, Catch::Contains("unknown") && Catch::Contains("candidate.py"));
  }
  CHECK_THAT(crash(ModelNew("        return x", "raise ValueError('at import')")).output_tail,
             Catch::Contains("at import"));
  CHECK_THAT(crash(ModelNew("        import ctypes\n        ctypes.string_at(0)")).output_tail,
             !Catch::Contains("unreachable"));
  CHECK(crash(ModelNew("        import os\n        os._exit(0)")).exit_code == 0);
  CHECK_THAT(crash(ModelNew("        return torch.empty(1 << 40)")).output_tail,
             Catch::Contains("memory"));
  const auto late = MeasureAs<Timeout>(problem, ModelNew("        while True: pass"));
  CHECK(late.stage == "check");
  CHECK(MeasureAs<MeasuredOk>(problem, ModelNew("        return torch.relu(x).mul_(n)"))
            .speedup.value > 0.1);
}

TEST_CASE("Outputs of another dtype, shape or kind are wrong results in words", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  using Cause = WrongResult::Cause;
  struct Wrong {
    const char* body;
    const char* detail;
    Cause cause = Cause::kForm;
  };
  for (const auto& [body, detail, cause] : std::vector<Wrong>{
           {"(x * n).double()", "output 0 is float64 [64, 256] instead of float32 [64, 256]",
            Cause::kDtype},
           {"torch.relu(x)[:1] * n", "output 0 is float32 [1, 256] instead of float32 [64, 256]",
            Cause::kShape},
           {"(torch.relu(x) * n).to_sparse()",
            "output 0 is a sparse_coo tensor instead of a dense one"},
           {"{'out': x}", "output 0 is a dict instead of a tensor"},
           {"None", "output 0 is a NoneType instead of a tensor"},
           {"[x, x]", "2 outputs instead of 1"}}) {
    INFO(body);
    const Measurement measurement =
        MeasurePython(problem, ModelNew(absl::StrCat("        return ", body)));
    const std::string feedback = MeasurementFeedback(measurement);
    INFO(feedback);
    const auto* const wrong = std::get_if<WrongResult>(&measurement.outcome);
    REQUIRE(wrong != nullptr);
    CHECK(wrong->cause == cause);
    CHECK(wrong->detail == detail);
    CHECK_FALSE(wrong->distribution.empty());
    CHECK_THAT(feedback, Catch::Contains(detail));
  }
}

TEST_CASE("A source that has only the task's class is refused before it is measured") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  const auto compiled = [&](const std::string& source) {
    const auto result = CompilePython(problem, PythonCandidate(problem, source));
    const auto* const error = std::get_if<CompileError>(&result.result);
    return error == nullptr ? std::string() : error->log;
  };
  const std::string module = "import torch.nn as nn\n";
  CHECK_THAT(compiled(module + "class Model(nn.Module):\n    pass  # ModelNew\n"),
             Catch::Contains("candidate.py defines Model") && Catch::Contains("not ModelNew"));
  CHECK_THAT(compiled(module + "class Other(nn.Module):\n    pass\n"),
             Catch::Contains("does not define ModelNew"));
  // Candidates, and the task itself.
  CHECK(compiled(module + "class Model(nn.Module):\n    pass\nModelNew = Model\n").empty());
  CHECK(compiled(module + "class Model(nn.Module):\n    pass\nexec('class ModelNew: pass')\n")
            .empty());
  CHECK(compiled(kReluTask).empty());
  // Another task as a candidate, also after the artefact is cached.
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(compiled(std::string(kReluTask) + "\nOTHER = 1\n"), Catch::Contains("not ModelNew"));
  }
}

TEST_CASE("A Python candidate reaches neither files, processes nor the network", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(kReluTask);
  // Each raises, so that the right result is never returned.
  for (const std::string attempt :
       {"open('/etc/passwd').read()", "open('/tmp/kernelcast-candidate', 'w')",
        "__import__('os').listdir('/proc')", "__import__('os').fork()",
        "__import__('subprocess').run(['true'])",
        "__import__('socket').socket().connect(('127.0.0.1', 1))",
        // The processor time of process 1.
        "__import__('time').clock_gettime((~1 << 3) | 2)",
        "__import__('threading').Thread(target=print).start()",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "__import__('ctypes').CDLL(None).ptrace(16, 1, 0, 0) == 0 or 1 / 0"}) {
    INFO(attempt);
    const auto crash = MeasureAs<Crash>(
        problem, ModelNew(absl::StrCat("        ", attempt, "\n        return torch.relu(x) * n")));
    CHECK_THAT(crash.output_tail, Catch::Contains("Error"));
  }
}

TEST_CASE("A task at fault is reported as the task's", "[slow]") {
  if (!HaveTorch()) return;
  const auto failure = [&](const std::string& source) {
    const Problem problem = MakeTask(source);
    const auto measured =
        TryMeasure(problem, PythonCandidate(problem, ModelNew("        return torch.relu(x) * n")));
    INFO(MeasurementFeedback(measured.ok() ? *measured : Measurement()));
    REQUIRE(absl::IsFailedPrecondition(measured.status()));
    return std::string(measured.status().message());
  };
  const auto with = [](std::string text, const std::string& replacement) {
    const std::string task = kReluTask;
    const size_t at = task.find(text);
    REQUIRE(at != std::string::npos);
    return std::string(task).replace(at, text.size(), replacement);
  };
  CHECK_THAT(failure(with("torch.relu(x) * n", "undefined(x)")), Catch::Contains("undefined"));
  CHECK_THAT(failure(with("torch.randn(64, 256), 3", "{'x': 1}, 3")), Catch::Contains("dict"));
  CHECK_THAT(failure(with("torch.relu(x) * n", "'text'")), Catch::Contains("output 0 is a str"));
  CHECK_THAT(failure(with("torch.relu(x) * n", "torch.rand_like(x)")),
             Catch::Contains("gave other results when it was called again"));
  CHECK_THAT(failure(with("torch.relu(x) * n", "x.to(torch.complex64)")),
             Catch::Contains("complex64"));
  CHECK_THAT(failure(with("torch.relu(x) * n", "x / 0 * 0")), Catch::Contains("NaN"));
  CHECK_THAT(failure(with("torch.randn(64, 256), 3",
                          "torch.zeros(1, dtype=torch.int8).expand(1 << 17, 1 << 16), 3")),
             Catch::Contains("can't allocate memory: you tried to allocate 8589934592 bytes"));
}

TEST_CASE("Tasks that name a GPU are judged on the processor", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, device="cuda")).cuda()
    def forward(self, x):
        return x * self.weight

def get_inputs():
    return [torch.randn(64, 128, device="cuda").to("cuda:0")]

def get_init_inputs():
    return [128]
)");
  const auto ok = MeasureAs<MeasuredOk>(problem, R"(
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, device="cuda")).cuda()
    def forward(self, x):
        return self.weight * x
)");
  CHECK(ok.speedup.value > 0.3);
}

}  // namespace
}  // namespace kernelcast::testing::python_task_test
