// Python tasks on the fake driver, whose memory is the processor's. Its time is not the host's, so
// that no figure means anything.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/worker/cuda/target/cuda_measurer.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/zygote.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/support/services.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using testing::FakeCuda;

constexpr const char* kPython = "/usr/bin/python3";

const absl::StatusOr<PythonInterpreter>& Python() {
  static const auto found = ProbeTorch(kPython);
  return found;
}

bool HaveTorch() {
  if (!Python().ok()) {
    WARN(Python().status().message() << ": nothing is tested (install python3-torch)");
  }
  return Python().ok();
}

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

// The fake driver takes its devices from the folder from which it is loaded.
std::string DriverFolder() {
  static const testing::TemporaryFolder folder("fake-driver");
  const std::filesystem::path library = folder.path() / "libcuda.so.1";
  if (!std::filesystem::exists(library)) {
    std::filesystem::create_symlink(
        absl::StrCat(KERNELCAST_BIN_DIR, "/../fake_driver/libcuda.so.1"), library);
    std::ofstream(folder.path() / "models") << "Fake GPU\n";
  }
  return folder.path().string();
}

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

std::string Told(const MeasureOutcome& outcome) {
  Measurement measurement;
  measurement.outcome = outcome;
  return MeasurementFeedback(measurement);
}

class TaskSubject {
 public:
  TaskSubject() {
    FakeCuda::Instance().Reset();
    PythonZygote::Options zygote;
    zygote.python = *Python();
    zygote.library = absl::StrCat(KERNELCAST_BIN_DIR, "/kernelcast-cuda-python-runner.so");
    zygote.device = "cpu";
    zygote.environment = {absl::StrCat("LD_LIBRARY_PATH=", DriverFolder())};
    CudaMeasurerOptions options;
    options.measure = testing::QuickOptions();
    options.measure.min_call_limit_ns = 1'000'000'000;
    options.measure.max_call_limit_ns = 1'000'000'000;
    options.measure.python_load_limit_ns = 4'000'000'000;
    options.runner = testing::FakeRunner();
    options.python = options.runner;
    options.python.python = std::make_shared<PythonZygote>(std::move(zygote));
    options.python.start_limit_ns = kPythonStartLimitNs;
    measurer_ = std::make_unique<CudaMeasurer>(FakeCuda::Api(), monitor_, options, clock_);
  }
  ~TaskSubject() {
    measurer_.reset();
    CHECK(FakeCuda::Instance().Held().empty());
    CHECK(FakeCuda::Instance().misuse().empty());
  }

  absl::Status Take(const std::string& task) {
    problem_ = ParseProblem({{"task.py", task}}).value();
    auto described = measurer_->Describe(problem_, CancelToken());
    if (!described.ok()) return described.status();
    task_ = std::make_shared<const PythonTaskPrograms>(*std::move(described));
    return absl::OkStatus();
  }

  absl::StatusOr<MeasureOutcome> TryMeasure(const std::string& program) {
    CudaPrograms programs;
    programs.judge = testing::FakeJudgeCubins();
    programs.task = task_;
    programs.candidate.object = program;
    return measurer_->Measure(problem_, programs, MeasureLevel::kScreen, CancelToken());
  }
  MeasureOutcome Measure(const std::string& source) {
    const auto outcome = TryMeasure(task_->Candidate(source, {}).content);
    INFO(outcome.status().ToString());
    REQUIRE(outcome.ok());
    return *outcome;
  }
  template <class Outcome>
  Outcome MeasureAs(const std::string& source) {
    const MeasureOutcome outcome = Measure(source);
    INFO(source << Told(outcome));
    REQUIRE(std::holds_alternative<Outcome>(outcome));
    return std::get<Outcome>(outcome);
  }
  const PythonTaskPrograms& task() const { return *task_; }

 private:
  testing::TickingClock clock_;
  DeviceMonitor monitor_{nullptr, "GPU-1", clock_};
  std::unique_ptr<CudaMeasurer> measurer_;
  Problem problem_;
  std::shared_ptr<const PythonTaskPrograms> task_;
};

// The checks passed, whatever timing makes of the fake driver's time.
void CheckRight(const MeasureOutcome& outcome) {
  INFO(Told(outcome));
  CHECK_FALSE(std::holds_alternative<WrongResult>(outcome));
  CHECK_FALSE(std::holds_alternative<Crash>(outcome));
  CHECK_FALSE(std::holds_alternative<Timeout>(outcome));
}

TEST_CASE("Python candidates of a task are judged against its reference on a device") {
  if (!HaveTorch()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(kTask).ok());
  REQUIRE(subject.task().problem().inputs.size() == 1);
  REQUIRE(subject.task().problem().outputs.size() == 1);
  const std::string right = ModelNew("        return torch.relu(x).mul_(self.weight).add_(n)");
  CheckRight(subject.Measure(right));
  const auto wrong = subject.MeasureAs<WrongResult>(
      ModelNew("        return torch.relu(x) * self.weight + n + (x > 3)"));
  CHECK(wrong.cause == WrongResult::Cause::kValue);

  const auto crash = [&](const std::string& source) { return subject.MeasureAs<Crash>(source); };
  const auto raised = crash(ModelNew("        return self.unknown(x)"));
  CHECK(raised.cause == Crash::Cause::kExit);
  CHECK_THAT(raised.output_tail, Catch::Contains("unknown") && Catch::Contains("candidate.py"));
  CHECK_THAT(crash(ModelNew("        return x.double()")).output_tail,
             Catch::Contains("float64") && Catch::Contains("float32"));
  CHECK_THAT(crash(ModelNew("        return [x, x]")).output_tail,
             Catch::Contains("2 outputs instead of 1"));
  CHECK_THAT(crash(ModelNew("        return torch.nn.Parameter(x).as_subclass(Lazy)",
                            "class Lazy(torch.Tensor):\n    pass\n"))
                 .output_tail,
             Catch::Contains("Lazy"));
  CHECK(subject.MeasureAs<Timeout>(ModelNew("        while True: pass", "calls = 0")).stage ==
        "load");
  CheckRight(subject.Measure(right));
  // The reference can be judged too.
  const auto itself = subject.TryMeasure(subject.task().Reference({}).content);
  REQUIRE(itself.ok());
  CheckRight(*itself);
}

TEST_CASE("A Python candidate on a device starts programs and writes files only in its sandbox") {
  if (!HaveTorch()) return;
  TaskSubject subject;
  REQUIRE(subject.Take(kTask).ok());
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
  if (!HaveTorch()) return;
  TaskSubject subject;
  const auto why = [&](const std::string& from, const std::string& to) {
    std::string task = kTask;
    task.replace(task.find(from), from.size(), to);
    return std::string(subject.Take(task).message());
  };
  CHECK_THAT(why("torch.relu(x)", "self.nothing(x)"), Catch::Contains("nothing"));
  CHECK_THAT(why("return torch.relu(x) * self.weight + n", "return 1"), Catch::Contains("a int"));
  CHECK_THAT(why("torch.randn(64, 256)", "torch.randn(64, 256).to(torch.int16)"),
             Catch::Contains("int16"));
}

}  // namespace
}  // namespace kernelcast::worker
