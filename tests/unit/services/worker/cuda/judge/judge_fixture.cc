#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

#include <catch2/catch.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/fakes/cuda/map_problem.h"
#include "tests/support/sanitized.h"

namespace kernelcast::testing {
namespace {

constexpr SecretKey kKey = {17};

}  // namespace

Problem MapProblem(const std::string& name) { return MapProblem(name, "a reference", "an oracle"); }

worker::CudaProgram MapProgram(const std::string& options) {
  worker::CudaProgram program;
  program.cubin = FakeCubin({"map affine " + options});
  Launch launch;
  launch.kernel = "map";
  launch.grid = {"1"};
  launch.block = {"256"};
  launch.arguments = {"x", "y", "n"};
  program.launches = {launch};
  return program;
}

worker::MeasureOptions QuickOptions() {
  worker::MeasureOptions options = worker::CudaMeasureOptions();
  options.input_sets = 4;
  options.warm_up_ns = 100'000;
  options.bootstrap_resamples = 300;
  options.final.min_time_ns = 5'000'000;
  options.final.block_ns = 400'000;
  options.problem_call_limit_ns = 5'000'000'000;
  // The machine may be busy. Tests of calls that hang have shorter limits.
  options.min_call_limit_ns = 20'000'000'000;
  options.max_call_limit_ns = 20'000'000'000;
  return options;
}

worker::CudaRunnerOptions FakeRunner(std::vector<std::string> arguments) {
  worker::CudaRunnerOptions options;
  options.path = absl::StrCat(KERNELCAST_BIN_DIR, "/fake_cuda_runner");
  options.arguments = std::move(arguments);
  return options;
}

FakeJudge::FakeJudge() {
  FakeCuda::Instance().Reset();
  device_ = worker::CudaDevice::Open(FakeCuda::Api()).value();
  kernels_ = worker::JudgeKernels::Load(*device_, FakeJudgeCubins()).value();
}

FakeJudge::~FakeJudge() {
  kernels_.reset();
  device_.reset();
  CHECK(FakeCuda::Instance().Held().empty());
  CHECK(FakeCuda::Instance().misuse().empty());
}

std::unique_ptr<worker::CudaRunner> FakeJudge::StartRunner(std::vector<std::string> arguments) {
  auto runner = worker::CudaRunner::Start(FakeRunner(std::move(arguments)), cancel);
  INFO(runner.status().ToString());
  REQUIRE(runner.ok());
  return *std::move(runner);
}

absl::StatusOr<std::unique_ptr<worker::CudaPreparedProblem>> FakeJudge::Prepare(
    const Problem& problem, worker::CudaRunner& runner, const std::string& reference,
    const std::string& oracle) {
  return worker::CudaPreparedProblem::Make(problem, MapProgram(oracle), MapProgram(reference),
                                           {QuickOptions(), *device_, *kernels_, kKey}, runner,
                                           cancel);
}

}  // namespace kernelcast::testing
