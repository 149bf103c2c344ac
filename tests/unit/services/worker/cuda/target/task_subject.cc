#include "tests/unit/services/worker/cuda/target/task_subject.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/worker/cuda/target/candidate_loader.h"
#include "services/worker/python/interpreter.h"
#include "services/worker/python/zygote.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

using worker::CancelToken;

constexpr const char* kPython = "/usr/bin/python3";

const absl::StatusOr<worker::PythonInterpreter>& Python() {
  static const auto found = worker::ProbeTorch(kPython);
  return found;
}

// The fake driver takes its devices from the folder from which it is loaded.
std::string DriverFolder() {
  static const TemporaryFolder folder("fake-driver");
  const std::filesystem::path library = folder.path() / "libcuda.so.1";
  if (!std::filesystem::exists(library)) {
    std::filesystem::create_symlink(
        absl::StrCat(KERNELCAST_BIN_DIR, "/../fake_driver/libcuda.so.1"), library);
    std::ofstream(folder.path() / "models") << "Fake GPU\n";
  }
  return folder.path().string();
}

}  // namespace

bool HaveTaskPython() {
  if (!Python().ok()) {
    WARN(Python().status().message() << ": nothing is tested (install python3-torch)");
  }
  return Python().ok();
}

std::string TextOf(const MeasureOutcome& outcome) {
  Measurement measurement;
  measurement.outcome = outcome;
  return MeasurementFeedback(measurement);
}

TaskSubject::TaskSubject(int64_t load_limit_ns) : load_limit_ns_(load_limit_ns) {
  FakeCuda::Instance().Reset();
  worker::PythonZygote::Options zygote;
  zygote.python = *Python();
  zygote.program = worker::kPythonCudaRunner;
  zygote.arguments = {absl::StrCat(KERNELCAST_BIN_DIR, "/kernelcast-cuda-python-runner.so"), "cpu"};
  zygote.environment = {absl::StrCat("LD_LIBRARY_PATH=", DriverFolder())};
  worker::CudaMeasurerOptions options;
  options.measure = QuickOptions();
  options.measure.python_load_limit_ns = load_limit_ns_;
  options.profile.cupti_library = absl::StrCat(DriverFolder(), "/libcuda.so.1");
  options.runner = FakeRunner();
  options.python = options.runner;
  options.python.python = std::make_shared<worker::PythonZygote>(std::move(zygote));
  options.python.start_limit_ns = worker::kPythonStartLimitNs;
  options.pause_other_work = [this](int64_t limit_ns) -> std::shared_ptr<void> {
    if (limit_ns > 0) ++stopped_;
    return nullptr;
  };
  python_ = options.python;
  measurer_ = std::make_unique<worker::CudaMeasurer>(FakeCuda::Api(), monitor_, options, clock_);
}

TaskSubject::~TaskSubject() {
  measurer_.reset();
  CHECK(FakeCuda::Instance().Held().empty());
  CHECK(FakeCuda::Instance().misuse().empty());
}

absl::Status TaskSubject::Take(const Problem& problem) {
  problem_ = problem;
  auto described = measurer_->Describe(problem_, CancelToken());
  if (!described.ok()) return described.status();
  task_ = std::make_shared<const worker::PythonTaskPrograms>(*std::move(described));
  return absl::OkStatus();
}

worker::CudaPrograms TaskSubject::ProgramsOf(const std::string& program) const {
  worker::CudaPrograms programs;
  programs.judge = FakeJudgeCubins();
  programs.task = task_;
  programs.candidate.object = program;
  return programs;
}

worker::Profile TaskSubject::Profile(const std::string& source) {
  auto profile = measurer_->ProfileCandidate(
      problem_, ProgramsOf(task_->Candidate(source, {}).content), CancelToken());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *std::move(profile);
}

absl::StatusOr<MeasureOutcome> TaskSubject::TryMeasure(const std::string& program,
                                                       worker::LoadedCandidate loaded,
                                                       MeasureLevel level) {
  return measurer_->Measure(problem_, ProgramsOf(program), level, CancelToken(), std::move(loaded),
                            Acquire());
}

worker::AcquireLease TaskSubject::Acquire() {
  return [this]() -> absl::StatusOr<worker::HeldLease> {
    ++acquired_;
    ++*held_;
    return worker::HeldLease(held_.get(), [held = held_](void*) { --*held; });
  };
}

worker::CudaPrograms TaskSubject::ProgramsOf(const DeviceCode& code) const {
  worker::CudaPrograms programs = ProgramsOf(std::string());
  programs.candidate.cubin = FakeCubin(code.kernels);
  programs.candidate.launches = code.launches;
  programs.candidate.workspace_bytes = code.workspace_bytes;
  return programs;
}

absl::StatusOr<MeasureOutcome> TaskSubject::TryMeasureCode(const DeviceCode& code,
                                                           MeasureLevel level) {
  return measurer_->Measure(problem_, ProgramsOf(code), level, CancelToken(), {}, Acquire());
}

MeasureOutcome TaskSubject::MeasureCode(const DeviceCode& code, MeasureLevel level) {
  const auto outcome = TryMeasureCode(code, level);
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  return *outcome;
}

worker::Profile TaskSubject::ProfileCode(const DeviceCode& code) {
  auto profile = measurer_->ProfileCandidate(problem_, ProgramsOf(code), CancelToken());
  INFO(profile.status().ToString());
  REQUIRE(profile.ok());
  return *std::move(profile);
}

MeasureOutcome TaskSubject::MeasureLoaded(const std::string& source, const std::string& loaded,
                                          MeasureLevel level) {
  const std::string program = task_->Candidate(loaded, {}).content;
  // A runner ends with the thread that starts it.
  worker::CandidateLoader loader(python_, load_limit_ns_, /*threads=*/1);
  loader.Expect(program);
  auto runner = loader.Take(program, worker::CancelToken());
  REQUIRE(runner.ok());
  worker::LoadedCandidate runners;
  runners.push_back(*std::move(runner));
  const auto outcome = TryMeasure(task_->Candidate(source, {}).content, std::move(runners), level);
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  return *outcome;
}

MeasureOutcome TaskSubject::MeasureLoaded(const std::string& source) {
  return MeasureLoaded(source, source, MeasureLevel::kScreen);
}

MeasureOutcome TaskSubject::MeasureFinal(const std::string& source, const std::string& loaded) {
  return MeasureLoaded(source, loaded, MeasureLevel::kFinal);
}

MeasureOutcome TaskSubject::Measure(const std::string& source) {
  const auto outcome = TryMeasure(task_->Candidate(source, {}).content);
  INFO(outcome.status().ToString());
  REQUIRE(outcome.ok());
  return *outcome;
}

void CheckRight(const MeasureOutcome& outcome) {
  INFO(TextOf(outcome));
  CHECK_FALSE(std::holds_alternative<WrongResult>(outcome));
  CHECK_FALSE(std::holds_alternative<Crash>(outcome));
  CHECK_FALSE(std::holds_alternative<Timeout>(outcome));
}

}  // namespace kernelcast::testing
