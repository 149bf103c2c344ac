// Candidates that take long.

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "services/worker/cpu/cpu_target.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/integration/worker/python_fixture.h"
#include "tests/support/services.h"

namespace kernelcast::testing::slow_candidates_test {
namespace {

using worker::CpuTarget;

// A worker that gives a candidate's calls a few seconds.
class ImpatientWorker {
 public:
  explicit ImpatientWorker(int seconds) : folder_("slow-candidates") {
    worker::CpuTargetOptions options = CpuFixture::Options(folder_.path());
    options.python = kPython;
    options.runner.max_memory_bytes = int64_t{512} << 20;
    options.measure.max_judgement_ns = int64_t{1'000'000'000} * seconds;
    target_ = CpuTarget::Make(std::move(options)).value();
  }

  struct Judged {
    MeasureOutcome outcome;
    double seconds = 0;
  };
  Judged Judge(const std::string& source) {
    const Problem problem = MakeTask(kReluTask);
    const Candidate candidate = PythonCandidate(problem, source);
    const auto compiled = target_->Compile({problem, &candidate}, worker::CancelToken());
    REQUIRE(compiled.ok());
    const Artifact& artifact = std::get<worker::CompileSuccess>(compiled->result).artifact;
    const int64_t start_ns = Clock::Real().MonotonicNs();
    const auto measured = target_->Measure({problem, candidate, artifact, MeasureLevel::kScreen},
                                           worker::CancelToken());
    const double seconds = 1e-9 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns);
    INFO(measured.status().ToString());
    REQUIRE(measured.ok());
    UNSCOPED_INFO(MeasurementFeedback(*measured));
    return {measured->outcome, seconds};
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<CpuTarget> target_;
};

// `when` is a condition over `calls`, the number of calls before this one.
std::string Spinning(const std::string& when, int milliseconds) {
  return absl::StrReplaceAll(R"(
import time
import torch
import torch.nn as nn
calls = -1
class ModelNew(nn.Module):
    def forward(self, x, n):
        global calls
        calls += 1
        if WHEN:
            end = time.monotonic() + MILLISECONDS / 1000
            while time.monotonic() < end:
                pass
        return torch.relu(x) * n
)",
                             {{"WHEN", when}, {"MILLISECONDS", absl::StrCat(milliseconds)}});
}

void CheckHonest(ImpatientWorker& worker) {
  const auto honest = worker.Judge(Spinning("False", 0));
  CHECK_FALSE(std::holds_alternative<Timeout>(honest.outcome));
  CHECK_FALSE(std::holds_alternative<Crash>(honest.outcome));
}

void CheckBounded(ImpatientWorker& worker, const std::string& source) {
  INFO(source);
  const auto judged = worker.Judge(source);
  const auto* const timeout = std::get_if<Timeout>(&judged.outcome);
  REQUIRE(timeout != nullptr);
  CHECK(timeout->stage == "judgement");
  CHECK(timeout->limit_ns >= 3'000'000'000);
  CHECK(timeout->limit_ns < 5'000'000'000);
  // Without the limit it would be minutes.
  CHECK(judged.seconds < 40);
}

TEST_CASE("A candidate that spins in each call is stopped when its calls took too long", "[slow]") {
  if (!HaveTorch()) return;
  ImpatientWorker worker(3);
  CheckHonest(worker);  // prepares the task
  CheckBounded(worker, Spinning("True", 900));
  CheckBounded(worker, Spinning("calls > 60", 600));
  CheckBounded(worker, Spinning("calls % 2 == 0", 800));
  CheckHonest(worker);
}

TEST_CASE("A candidate that is much slower than the reference gets a figure from few calls",
          "[slow]") {
  if (!HaveTorch()) return;
  ImpatientWorker worker(10);
  CheckHonest(worker);
  // All rounds of new values would take longer.
  const auto slow = worker.Judge(Spinning("True", 40));
  REQUIRE(std::holds_alternative<MeasuredOk>(slow.outcome));
  CHECK(std::get<MeasuredOk>(slow.outcome).speedup.high < 0.1);
}

}  // namespace
}  // namespace kernelcast::testing::slow_candidates_test
