#include "services/worker/cuda/judge/runner_client.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "common/process/memory_file.h"
#include "tests/fakes/cuda/fake_kernels.h"
#include "tests/unit/services/worker/cuda/judge/judge_fixture.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::kCandidate;
using cuda_runner::kReference;
using cuda_runner::Program;
using cuda_runner::RunRecord;
using cuda_runner::SampleRecord;
using testing::FakeCubin;
using testing::FakeJudge;
using testing::FakeRunner;
using End = CudaRunner::End;

constexpr int64_t kLimitNs = 30'000'000'000;
constexpr int64_t kShortLimitNs = 100'000'000;
constexpr int64_t kArenaBytes = 4096;

// A runner process with an input and an output mapped.
class Mapped {
 public:
  explicit Mapped(const std::string& kernel) : runner(Start()) {
    REQUIRE(runner->Map(0, x.fd(), kArenaBytes, false, cancel).ok());
    REQUIRE(runner->Map(1, y.fd(), kArenaBytes, true, cancel).ok());
    const auto loaded = runner->Load(kCandidate, FakeCubin({kernel}), {"map"}, kLimitNs, cancel);
    REQUIRE((loaded.ok() && loaded->ok()));
    cuda_runner::ProgramLaunch launch;
    launch.arguments = {{.arena = 0}, {.arena = 1}, {.value = 10}};
    const Program program{{launch}};
    const auto taken = runner->SetPrograms(kCandidate, {&program, 1}, kLimitNs, cancel);
    REQUIRE((taken.ok() && taken->ok()));
  }
  static std::unique_ptr<CudaRunner> Start() {
    auto started = CudaRunner::Start(FakeRunner(), CancelToken());
    INFO(started.status().ToString());
    REQUIRE(started.ok());
    return *std::move(started);
  }
  CudaRunner::Answer Run(int64_t limit_ns = kLimitNs) {
    const RunRecord run{kCandidate, 0};
    return runner->Run({&run, 1}, limit_ns, cancel);
  }

  CancelToken cancel;
  MemoryFile x = MemoryFile::Create("x", kArenaBytes, MemoryFile::Sharing::kReadWrite).value();
  MemoryFile y = MemoryFile::Create("y", kArenaBytes, MemoryFile::Sharing::kReadWrite).value();
  std::unique_ptr<CudaRunner> runner;
};

TEST_CASE("Another process runs its requests on shared memory") {
  Mapped mapped("map affine scale=3 add=1 ns=20000");
  for (int i = 0; i < 10; ++i) reinterpret_cast<float*>(mapped.x.data())[i] = 2;
  const auto ran = mapped.Run();
  REQUIRE(ran.ok());
  CHECK(ran.reply.wall_ns == 20'000);
  CHECK(reinterpret_cast<const float*>(mapped.y.data())[9] == 7);
  const SampleRecord sample{kCandidate, 0, 0, 0};
  const auto timed = mapped.runner->Time({&sample, 1}, {}, /*flushes=*/1, kLimitNs, mapped.cancel);
  REQUIRE(timed.ok());
  REQUIRE(timed.values_us.size() == 2);
  CHECK(timed.values_us[1] == Approx(20));
  CHECK(mapped.runner->Unload(kCandidate, mapped.cancel).ok());
  CHECK(mapped.runner->Unmap(1, mapped.cancel).ok());
  CHECK(mapped.runner->alive());
}

TEST_CASE("A request that a runner refuses leaves it alive and has a reason") {
  Mapped mapped("map affine");
  const RunRecord run{kReference, 0};
  const auto refused = mapped.runner->Run({&run, 1}, kLimitNs, mapped.cancel);
  CHECK(refused.end == End::kFailed);
  CHECK(CudaRunner::FailureText(refused) == "no such program");
  CHECK(mapped.runner->alive());
  CHECK(mapped.Run().ok());
}

TEST_CASE("A runner with a lost context is unusable") {
  Mapped mapped("map affine fault=700");
  const auto failed = mapped.Run();
  CHECK(failed.end == End::kFailed);
  CHECK(failed.reply.cuda_error == 700);
  CHECK(CudaRunner::FailureText(failed) == "a kernel: CUDA error 700");
  CHECK_FALSE(mapped.runner->alive());
  CHECK(mapped.Run().end == End::kGone);
}

TEST_CASE("A runner that exits is gone") {
  Mapped mapped("map affine exit=1");
  const auto gone = mapped.Run();
  CHECK(gone.end == End::kGone);
  CHECK(CudaRunner::FailureText(gone) == "it ended");
  CHECK_FALSE(mapped.runner->alive());
}

TEST_CASE("A runner that misses its deadline is killed") {
  Mapped mapped("map affine hang=1");
  const auto late = mapped.Run(kShortLimitNs);
  CHECK(late.end == End::kTimeout);
  CHECK(CudaRunner::FailureText(late) == "it did not answer in time");
  CHECK_FALSE(mapped.runner->alive());
  CHECK(mapped.Run().end == End::kGone);
}

TEST_CASE("A stopped token ends the wait and the runner") {
  Mapped mapped("map affine hang=1");
  const CancelToken soon(Clock::Real().MonotonicNs() + kShortLimitNs);
  const RunRecord run{kCandidate, 0};
  const auto stopped = mapped.runner->Run({&run, 1}, kLimitNs, soon);
  CHECK(stopped.end == End::kStopped);
  CHECK(CudaRunner::FailureText(stopped) == "it was stopped");
  CHECK_FALSE(mapped.runner->alive());
}

TEST_CASE("A stopped token sends no request to a runner") {
  Mapped mapped("map affine hang=1");
  mapped.cancel.Cancel();
  CHECK(mapped.Run().end == End::kStopped);
  CHECK(mapped.runner->alive());
}

TEST_CASE("A runner that sends nonsense is gone") {
  const CancelToken cancel;
  const std::string how = GENERATE("short", "command", "values", "exit");
  INFO(how);
  SECTION("at the start") {
    const auto started = CudaRunner::Start(FakeRunner({"--answer=" + how}), cancel);
    CHECK(absl::IsUnavailable(started.status()));
    CHECK(started.status().message().find("cannot use the device") != std::string_view::npos);
  }
  SECTION("later") {
    auto runner = CudaRunner::Start(FakeRunner({"--answer=" + how + ":2"}), cancel);
    REQUIRE(runner.ok());
    CHECK((*runner)->Unmap(0, cancel).end == (how == "exit" ? End::kGone : End::kForged));
    CHECK_FALSE((*runner)->alive());
  }
}

TEST_CASE("Unrequested samples are not an answer") {
  const CancelToken cancel;
  auto runner = CudaRunner::Start(FakeRunner({"--answer=samples:2"}), cancel);
  REQUIRE(runner.ok());
  CHECK((*runner)->Time({}, {}, /*flushes=*/0, kLimitNs, cancel).end == End::kForged);
}

TEST_CASE("A failed start reports why") {
  const CancelToken cancel;
  const auto failed =
      CudaRunner::Start(FakeRunner({"--inject=DevicePrimaryCtxRetain:1:fail:46"}), cancel);
  CHECK(absl::IsUnavailable(failed.status()));
  CHECK(failed.status().message() ==
        "the runner cannot use the device: cuDevicePrimaryCtxRetain: CUDA error 46");
  CudaRunnerOptions nowhere;
  nowhere.path = "/nowhere/kernelcast-cuda-runner";
  CHECK(absl::IsUnavailable(CudaRunner::Start(nowhere, cancel).status()));
}

TEST_CASE("A start that hangs or is cancelled ends") {
  CudaRunnerOptions hanging = FakeRunner({"--inject=Init:1:hang"});
  hanging.start_limit_ns = kShortLimitNs;
  CHECK(absl::IsUnavailable(CudaRunner::Start(hanging, CancelToken()).status()));
  CancelToken stopped;
  stopped.Cancel();
  CHECK(
      absl::IsCancelled(CudaRunner::Start(FakeRunner({"--inject=Init:1:hang"}), stopped).status()));
}

TEST_CASE("A runner that prints endlessly is killed") {
  const auto started = CudaRunner::Start(FakeRunner({"--print"}), CancelToken());
  CHECK(absl::IsUnavailable(started.status()));
}

}  // namespace
}  // namespace kernelcast::worker
