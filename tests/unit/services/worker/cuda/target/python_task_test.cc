// Python tasks on the fake driver.

#include "common/domain/python_task.h"

#include <catch2/catch.hpp>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/worker/core/verdict.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/unit/services/worker/cuda/target/task_subject.h"

namespace kernelcast::worker {
namespace {

using testing::CheckRight;
using testing::FakeCuda;
using testing::TaskSubject;

const char* const kTask = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(256) * factor)

    def forward(self, x, n):
        return torch.relu(x) * self.weight + n

def get_inputs():
    return [torch.randn(64, 256), 3]

def get_init_inputs():
    return [2.0]
)";

Problem MakeTask(const std::string& task) { return ParseProblem({{"task.py", task}}).value(); }

std::string ModelNew(const std::string& body, const std::string& before = "") {
  return absl::StrCat(R"(
import torch
import torch.nn as nn
)",
                      before, R"(
class ModelNew(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(256) * factor)

    def forward(self, x, n):
)",
                      body, "\n");
}

TEST_CASE("Trivial answers to a task are wrong on a device whatever the tolerance accepts") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  const auto task = [](const std::string& forward, const std::string& inputs) {
    return MakeTask(absl::StrCat(
        "import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n        return ",
        forward, "\ndef get_inputs():\n    return [", inputs,
        "]\ndef get_init_inputs():\n    return []\n"));
  };
  const auto answer = [](const std::string& forward) {
    return absl::StrCat(
        "import torch\nimport torch.nn.functional as F\nclass ModelNew(torch.nn.Module):\n"
        "    def forward(self, x):\n        return ",
        forward, "\n");
  };
  const auto refuse = [&](const std::string& forward) {
    const auto wrong = subject.MeasureAs<WrongResult>(answer(forward));
    INFO(wrong.rule);
    CHECK_THAT(wrong.rule, Catch::StartsWith("kernelcast: an output follows") &&
                               Catch::Contains("kernelbench: every element"));
  };
  REQUIRE(subject.Take(task("x.softmax(-1)", "torch.rand(2, 32768)")).ok());
  refuse("torch.zeros_like(x)");
  refuse("torch.full_like(x, 1 / 32768)");
  refuse("x[:1].softmax(-1).repeat(2, 1)");
  CheckRight(subject.Measure(answer("x.half().float().softmax(-1)")));
  REQUIRE(subject.Take(task("(1e-3 * x).mean()", "torch.rand(16, 64)")).ok());
  refuse("torch.tensor(0.0005)");
  CheckRight(subject.Measure(answer("(1e-3 * x).sum(0).sum() / 1024")));
  REQUIRE(subject.Take(task("F.group_norm(x, 4).mean((1, 2))", "torch.randn(32, 8, 64)")).ok());
  CheckRight(subject.Measure(answer("torch.zeros(32)")));
}

TEST_CASE("A task's candidate may be as inexact as its reference on a device") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  const absl::Status taken =
      subject.Take(MakeTask("import torch\nclass Model(torch.nn.Module):\n"
                            "    def forward(self, x, y):\n        return x * 17 + y * 23\n"
                            "def get_inputs():\n    return [torch.randn(64, 256).bfloat16(), "
                            "torch.randn(64, 256).bfloat16()]\n"
                            "def get_init_inputs():\n    return []\n"));
  INFO(taken.message());
  REQUIRE(taken.ok());
  const auto answer = [](const std::string& value) {
    return absl::StrCat(
        "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x, y):\n"
        "        return (",
        value, ").bfloat16()\n");
  };
  // More exact than the reference, and refused by the format's rule where the sum is near zero.
  CheckRight(subject.Measure(answer("x.float() * 17 + y.float() * 23")));
  const auto wrong = subject.MeasureAs<WrongResult>(answer("x.float() * 17 + y.float() * 22.5"));
  CHECK_THAT(wrong.rule, Catch::Contains("kernelbench: every element") &&
                             Catch::Contains("2 times the reference's own"));
  subject.MeasureAs<WrongResult>(
      answer("torch.where(x > 3, x * 0, x.float() * 17 + y.float() * 23)"));
}

TEST_CASE("Python candidates of a task are judged against its reference on a device") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  REQUIRE(subject.task().problem().inputs.size() == 1);
  REQUIRE(subject.task().problem().outputs.size() == 1);
  const std::string right = ModelNew("        return torch.relu(x).mul_(self.weight).add_(n)");
  const auto ok = subject.MeasureAs<MeasuredOk>(right);
  // Half of the output is the same for all inputs, and nearly all of the input is needed.
  CHECK(ok.shapes[0].bytes > 64 * 256 * 4);
  CHECK(ok.shapes[0].bytes < 2 * 64 * 256 * 4);
  CHECK(ok.shapes[0].implausible_below_ns > 0);
  const auto wrong = subject.MeasureAs<WrongResult>(
      ModelNew("        return torch.relu(x) * self.weight + n + (x > 3)"));
  CHECK(wrong.cause == WrongResult::Cause::kValue);

  const auto crash = [&](const std::string& source) { return subject.MeasureAs<Crash>(source); };
  const auto raised = crash(ModelNew("        return self.unknown(x)"));
  CHECK(raised.cause == Crash::Cause::kExit);
  CHECK_THAT(raised.output_tail, Catch::Contains("unknown") && Catch::Contains("candidate.py"));
  auto cause = WrongResult::Cause::kForm;
  const auto form = [&](const std::string& result, const std::string& before = "") {
    const auto other =
        subject.MeasureAs<WrongResult>(ModelNew(absl::StrCat("        return ", result), before));
    CHECK(other.cause == cause);
    CHECK_FALSE(other.distribution.empty());
    return other.detail;
  };
  cause = WrongResult::Cause::kDtype;
  CHECK(form("x.double()") == "output 0 is float64 [64, 256] instead of float32 [64, 256]");
  cause = WrongResult::Cause::kShape;
  CHECK(form("x[:1]") == "output 0 is float32 [1, 256] instead of float32 [64, 256]");
  cause = WrongResult::Cause::kForm;
  CHECK(form("[x, x]") == "2 outputs instead of 1");
  CHECK(form("{'out': x}") == "output 0 is a dict instead of a tensor");
  CHECK(form("x.to_sparse()") == "output 0 is a sparse_coo tensor instead of a dense one");
  CHECK(form("x.to('meta')") == "output 0 is on meta instead of the device (cpu)");
  CHECK(form("torch.nn.Parameter(x).as_subclass(Lazy)", "class Lazy(torch.Tensor):\n    pass\n") ==
        "output 0 is a Lazy instead of a tensor");
  CheckRight(subject.Measure(right));
  // The reference can be judged too.
  const auto itself = subject.TryMeasure(subject.task().Reference({}).content);
  REQUIRE(itself.ok());
  CheckRight(*itself);
}

// Debian has no Triton: a module of the candidate has the frames of Triton's compiler.
const char* const kStandInCompiler = R"(
import types
jit = types.ModuleType('triton.runtime.jit')
exec("""
def visit(node):
    raise AttributeError("module 'triton.language' has no attribute 'exponential'")
def cache_key(self):
    return visit(types.SimpleNamespace(lineno=2))
""", jit.__dict__)
jit.types = types
KERNEL = types.SimpleNamespace(src="""def kernel(a):
    return tl.exponential(a)
""")
def kernel(a):
    return tl.exponential(a)
)";

TEST_CASE("A Triton kernel that does not compile is a compile error with its line on a device") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  const auto refused = [&](const std::string& body) {
    const auto outcome =
        subject.TryMeasure(subject.task().Candidate(ModelNew(body, kStandInCompiler), {}).content);
    INFO(outcome.status().ToString());
    REQUIRE_FALSE(outcome.ok());
    const auto error = NotCompiledError(outcome.status());
    REQUIRE(error);
    CHECK(error->stage == CompileStage::kCompiler);
    return error->log;
  };
  const std::string log = refused("        print('noise'); return jit.cache_key(KERNEL)");
  CHECK_THAT(log, Catch::StartsWith("A kernel does not compile:\ncandidate.py:18: "
                                    "AttributeError: module 'triton.language' has no attribute "
                                    "'exponential'\n    return tl.exponential(a)\n"));
  // Also one that is first called when it is checked.
  refused(
      "        self.calls = getattr(self, 'calls', 0) + 1\n"
      "        return jit.cache_key(KERNEL) if self.calls > 1 else x");
  // Another error is a crash, and the subject measures on.
  subject.MeasureAs<Crash>(ModelNew("        raise AttributeError('exponential')"));
  CheckRight(subject.Measure(ModelNew("        return torch.relu(x).mul_(self.weight).add_(n)")));
}

TEST_CASE("A crash at an illegal address says that inputs are read-only") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  // The code with which a process ends whose kernels have accessed an illegal address.
  const auto crash = subject.MeasureAs<Crash>(ModelNew("        import os; os._exit(116)"));
  CHECK(crash.cause == Crash::Cause::kDeviceError);
  CHECK_THAT(crash.output_tail,
             Catch::Contains("illegal memory access") && Catch::Contains("inputs are read-only"));
}

TEST_CASE("A wrong result of a candidate that names streams says what they need") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(absl::StrCat(kTask, "# a stream of numbers\n"))).ok());
  const auto with =
      subject.MeasureAs<WrongResult>(ModelNew("        return torch.relu(x)  # torch.cuda.Stream"));
  CHECK_THAT(with.detail, Catch::Contains("names streams") && Catch::Contains("awaited"));
  CHECK(subject.MeasureAs<WrongResult>(ModelNew("        return torch.relu(x)")).detail.empty());
}

TEST_CASE("A Python candidate that never finishes loading is stopped on a device") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject(/*load_limit_ns=*/4'000'000'000);
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  CHECK(subject.MeasureAs<Timeout>(ModelNew("        while True: pass", "calls = 0")).stage ==
        "load");
}

TEST_CASE("The reference of a task is judged under torch.compile on a device") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  Candidate compiled;
  compiled.flags = {std::string(kTorchCompileFlag)};
  const auto measure = [&](const std::string& torch_compile) {
    compiled.source = absl::StrCat("import torch\n", torch_compile, kTask);
    REQUIRE(subject.Take(MakeTask(compiled.source)).ok());
    const auto outcome = subject.TryMeasure(subject.task().ProgramFor(compiled, {}).content);
    REQUIRE(outcome.ok());
    return *outcome;
  };
  // Debian's PyTorch has no torch.compile, so that the task brings a stand-in.
  CheckRight(measure("torch.compile = lambda model: lambda x, n: model(x, n)\n"));
  CHECK(std::holds_alternative<WrongResult>(
      measure("torch.compile = lambda model: lambda x, n: model(x, n) + 1\n")));
  const MeasureOutcome without = measure("if hasattr(torch, 'compile'): del torch.compile\n");
  REQUIRE(std::holds_alternative<Crash>(without));
  CHECK_THAT(std::get<Crash>(without).output_tail, Catch::Contains("has no torch.compile"));
}

TEST_CASE("Only a program that may use several streams has the driver's number of connections") {
  if (!testing::HaveTaskPython()) return;
  const std::string one = "import os\nassert os.environ['CUDA_DEVICE_MAX_CONNECTIONS'] == '1'\n";
  const std::string many =
      "import os\nassert 'CUDA_DEVICE_MAX_CONNECTIONS' not in os.environ  # torch.cuda.Stream\n";
  const std::string right = "        return torch.relu(x).mul_(self.weight).add_(n)";
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  for (const std::string& before : {one, many}) {
    CheckRight(subject.Measure(ModelNew(right, before)));
    CheckRight(subject.MeasureLoaded(ModelNew(right, before)));
  }
}

TEST_CASE("A Python candidate is checked while the process of the last one ends") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  const std::string right = ModelNew("        return torch.relu(x).mul_(self.weight).add_(n)");
  // The fake driver's times may be taken for an exploit, which ends the process at once.
  MeasureOutcome last;
  for (int i = 0; i < 3; ++i) {
    last = subject.MeasureLoaded(right);
    CheckRight(last);
    CHECK(subject.acquired() == i + 1);
  }
  // One that is not timed needs no lease, because the end of the last one's process holds it.
  CHECK(std::holds_alternative<WrongResult>(
      subject.MeasureLoaded(ModelNew("        return torch.relu(x)"))));
  CHECK(subject.acquired() == (std::holds_alternative<MeasuredOk>(last) ? 3 : 4));
  CHECK(subject.held() == 0);
  CheckRight(subject.MeasureLoaded(right));
  // A task is described when nothing runs any more.
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  CHECK(subject.held() == 0);
}

TEST_CASE("A final figure uses the processes that were loaded for it") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  const std::string right = ModelNew("        return torch.relu(x).mul_(self.weight).add_(n)");
  CheckRight(subject.MeasureFinal(right, right));
  CHECK(subject.stopped() > 0);
  CHECK(std::holds_alternative<WrongResult>(
      subject.MeasureFinal(right, ModelNew("        return torch.relu(x)"))));
  CHECK(std::holds_alternative<Crash>(
      subject.MeasureFinal(right, ModelNew("        return x", "raise RuntimeError()\n"))));
  CheckRight(subject.MeasureFinal(right, right));
}

// Inputs and outputs of 4 MiB each.
const char* const kLargeTask = R"(
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(1024, 1024)]

def get_init_inputs():
    return []
)";

std::string LargeModelNew(const std::string& body, const std::string& before = "") {
  return absl::StrCat("import torch\nimport torch.nn as nn\n", before,
                      "class ModelNew(nn.Module):\n    def forward(self, x):\n", body, "\n");
}

TEST_CASE("A task whose checks do not fit the device is checked on the values of its bench shape",
          "[long]") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  FakeCuda::Instance().set_memory_bytes(uint64_t{160} << 20);
  REQUIRE(subject.Take(MakeTask(kLargeTask)).ok());
  const std::string right = LargeModelNew("        return x.clamp(min=0)");
  CheckRight(subject.Measure(right));
  const int arenas = FakeCuda::Instance().calls("MemCreate");
  const auto cause = [&](const std::string& body, const std::string& before = "") {
    return subject.MeasureAs<WrongResult>(LargeModelNew(body, before)).cause;
  };
  CHECK(cause("        return x.clone()") == WrongResult::Cause::kValue);
  // Right for the first values only.
  CHECK(cause(R"(
        global first
        if first is None and float(x.abs().sum()) > 0 and calls > 0:
            first = torch.relu(x)
        calls_up()
        return torch.relu(x) if first is None else first)",
              R"(
first, calls = None, 0
def calls_up():
    global calls
    calls += 1
)") == WrongResult::Cause::kValue);
  // Wrong for one element, on the base values with some replaced. Loading draws others.
  CHECK(cause(R"(
        global seen
        seen.add(float(x.double().sum()))
        out = torch.relu(x)
        if len(seen) > 2:
            out[5, 5] += 1
        return out)",
              "seen = set()\n") == WrongResult::Cause::kValue);
  // The inputs are as they were, so that nothing was prepared again. Candidates that are timed may
  // have arenas moved.
  CHECK(FakeCuda::Instance().calls("MemCreate") == arenas);
  CheckRight(subject.Measure(right));
  CheckRight(subject.MeasureLoaded(right));
  CheckRight(subject.MeasureLoaded(right));
}

TEST_CASE("Inputs keep their order where altered ones do not fit the device", "[slow]") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  // A tensor has 64 MiB: all banks but the altered one take 12 of these, and all of them 13.
  FakeCuda::Instance().set_memory_bytes(uint64_t{830} << 20);
  REQUIRE(subject
              .Take(MakeTask(absl::StrReplaceAll(
                  kLargeTask, {{"torch.randn(1024, 1024)",
                                "(torch.rand(1) + torch.arange(2.0**24)).view(4096, 4096)"}})))
              .ok());
  CheckRight(subject.Measure(
      LargeModelNew("        values = x.view(-1)\n"
                    "        assert bool((values[1:] >= values[:-1]).all()), 'not in order'\n"
                    "        return x.clamp(min=0)")));
}

TEST_CASE("A candidate that lacks device memory may take that of other problems", "[slow]") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  const std::string source = "        raise torch.cuda.OutOfMemoryError('tried to allocate 9 GiB')";
  const auto used_bytes = [] {
    size_t free_bytes = 0;
    size_t total = 0;
    REQUIRE(FakeCuda::Api().MemGetInfo(&free_bytes, &total) == CUDA_SUCCESS);
    return total - free_bytes;
  };
  REQUIRE(subject.Take(MakeTask(kLargeTask)).ok());
  CheckRight(subject.Measure(LargeModelNew("        return torch.relu(x)")));
  const size_t large_bytes = used_bytes();
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  const auto crash = subject.MeasureAs<Crash>(ModelNew(source));
  CHECK(crash.cause == Crash::Cause::kMemoryLimit);
  CHECK_THAT(crash.output_tail, Catch::Contains("tried to allocate 9 GiB"));
  CHECK(used_bytes() < large_bytes / 2);
  // A candidate that leaves too little for the reference. By then the reference has been checked.
  std::string hogged = kTask;
  const std::string forward = "        return torch.relu(x) * self.weight + n";
  hogged.replace(hogged.find(forward), forward.size(), R"(
        global calls
        calls += 1
        if calls > 60:
            raise torch.cuda.OutOfMemoryError('too large')
        return torch.relu(x) * self.weight + n)");
  REQUIRE(subject.Take(MakeTask(absl::StrCat("calls = 0\n", hogged))).ok());
  const auto hog =
      subject.MeasureAs<Crash>(ModelNew("        return torch.relu(x).mul_(self.weight).add_(n)"));
  CHECK(hog.cause == Crash::Cause::kMemoryLimit);
  CHECK_THAT(hog.output_tail, Catch::Contains("too little memory for the reference"));
  // A reference for which nothing can be freed.
  std::string task = kLargeTask;
  const std::string call = "return torch.relu(x)";
  task.replace(task.find(call), call.size(), "raise torch.cuda.OutOfMemoryError('too large')");
  const absl::Status refused = subject.Take(MakeTask(task));
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(std::string(refused.message()), Catch::Contains("too large"));
}

#if defined(KERNELCAST_HAS_CUPTI_HEADERS)

TEST_CASE("The profile of a Python candidate has its kernels and says that it has no counters") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  // A kernel of the fake driver that takes 1 us. It works on no elements.
  const std::string launches = R"(
import ctypes

class Config(ctypes.Structure):
    _fields_ = [
        ("sizes", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint),
    ]

driver = ctypes.CDLL("libcuda.so.1")
module, function = ctypes.c_void_p(), ctypes.c_void_p()
cubin = b"fake cubin\nkernel _Z5scalePf affine scale=2 add=1 ns=1000\nend\n"
assert driver.cuModuleLoadData(ctypes.byref(module), cubin) == 0
assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"_Z5scalePf") == 0
config = Config((ctypes.c_uint * 7)(1, 1, 1, 1, 1, 1, 0))
memory = ctypes.c_uint64()
assert driver.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(256)) == 0

def launch():
    values = [memory, memory, ctypes.c_longlong(0)]
    pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(value) for value in values])
    assert driver.cuLaunchKernelEx(ctypes.byref(config), function, pointers, None) == 0
)";
  const std::string right = "        return torch.relu(x) * self.weight + n";
  const worker::Profile profile =
      subject.Profile(ModelNew("        launch()\n        launch()\n" + right, launches));
  CHECK_THAT(profile.unavailable_reason, Catch::Contains("launch from the host"));
  REQUIRE(profile.shapes.size() == 1);
  REQUIRE(profile.shapes[0].kernels.size() == 1);
  const KernelActivity& kernel = profile.shapes[0].kernels[0];
  CHECK(kernel.name == "scale(float*)");
  CHECK(kernel.launches == 2);
  CHECK(kernel.median_ns == Approx(1000));
  CHECK(profile.shapes[0].counters.empty());

  CHECK_THAT(subject.Profile(ModelNew(right)).unavailable_reason, Catch::Contains("saw no kernel"));
  CHECK_THAT(subject.Profile(ModelNew("        return self.unknown")).unavailable_reason,
             Catch::Contains("loading the candidate") && Catch::Contains("unknown"));
  // The problem is still prepared.
  CheckRight(subject.Measure(ModelNew(right)));
}

#endif

TEST_CASE("A Python candidate on a device starts programs and writes files only in its sandbox") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(MakeTask(kTask)).ok());
  // Each raises, so that the right result is never returned.
  for (const std::string attempt :
       {"open('/etc/passwd').read()", "open('/tmp/kernelcast-candidate', 'w')",
        "__import__('os').listdir('/proc')", "__import__('os').setsid()",
        "__import__('socket').socket().connect(('127.0.0.1', 1))",
        "__import__('time').clock_gettime((~1 << 3) | 2)",
        "__import__('threading').Thread(target=print).start()",
        "__import__('os').kill(__import__('os').getppid(), 9)",
        "__import__('ctypes').CDLL(None).ptrace(16, 1, 0, 0) == 0 or 1 / 0"}) {
    INFO(attempt);
    const auto crash = subject.MeasureAs<Crash>(ModelNew(
        absl::StrCat("        ", attempt, "\n        return torch.relu(x) * self.weight + n")));
    CHECK_THAT(crash.output_tail, Catch::Contains("Error"));
  }
}

TEST_CASE("A task that cannot be judged on a device says why") {
  if (!testing::HaveTaskPython()) return;
  TaskSubject subject;
  const auto why = [&](const std::string& from, const std::string& to) {
    std::string task = kTask;
    task.replace(task.find(from), from.size(), to);
    return std::string(subject.Take(MakeTask(task)).message());
  };
  CHECK_THAT(why("torch.relu(x)", "self.nothing(x)"), Catch::Contains("nothing"));
  CHECK_THAT(why("return torch.relu(x) * self.weight + n", "return 1"), Catch::Contains("a int"));
  CHECK_THAT(why("torch.randn(64, 256)", "torch.randn(64, 256).to(torch.int16)"),
             Catch::Contains("int16"));
}

}  // namespace
}  // namespace kernelcast::worker
