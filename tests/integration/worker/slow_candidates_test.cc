// Candidates that take long.

#include <catch2/catch.hpp>
#include <string>

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

// A worker that gives a candidate's calls three seconds.
CpuTarget& ImpatientTarget() {
  static const TemporaryFolder folder("slow-candidates");
  static const auto target = [] {
    worker::CpuTargetOptions options = CpuFixture::Options(folder.path());
    options.python = kPython;
    options.runner.max_memory_bytes = int64_t{512} << 20;
    options.measure.max_judgement_ns = 3'000'000'000;
    return CpuTarget::Make(std::move(options)).value();
  }();
  return *target;
}

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

struct Judged {
  MeasureOutcome outcome;
  double seconds = 0;
};
Judged Judge(const std::string& source) {
  const Problem problem = MakeTask(kReluTask);
  const Candidate candidate = PythonCandidate(problem, source);
  const auto compiled = ImpatientTarget().Compile({problem, &candidate}, worker::CancelToken());
  REQUIRE(compiled.ok());
  const Artifact& artifact = std::get<worker::CompileSuccess>(compiled->result).artifact;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  const auto measured = ImpatientTarget().Measure(
      {problem, candidate, artifact, MeasureLevel::kScreen}, worker::CancelToken());
  const double seconds = 1e-9 * static_cast<double>(Clock::Real().MonotonicNs() - start_ns);
  INFO(measured.status().ToString());
  REQUIRE(measured.ok());
  UNSCOPED_INFO(MeasurementFeedback(*measured));
  return {measured->outcome, seconds};
}

void CheckHonest() {
  const Judged honest = Judge(Spinning("False", 0));
  CHECK_FALSE(std::holds_alternative<Timeout>(honest.outcome));
  CHECK_FALSE(std::holds_alternative<Crash>(honest.outcome));
}

void CheckBounded(const std::string& source) {
  INFO(source);
  const Judged judged = Judge(source);
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
  CheckHonest();  // prepares the task
  CheckBounded(Spinning("True", 900));
  CheckBounded(Spinning("calls > 60", 600));
  CheckBounded(Spinning("calls % 2 == 0", 800));
  CheckHonest();
}

TEST_CASE("A candidate that is much slower than the reference gets a figure from few calls",
          "[slow]") {
  if (!HaveTorch()) return;
  CheckHonest();
  // All rounds of new values would take ten times as long.
  const Judged slow = Judge(Spinning("True", 40));
  REQUIRE(std::holds_alternative<MeasuredOk>(slow.outcome));
  CHECK(std::get<MeasuredOk>(slow.outcome).speedup.high < 0.1);
}

}  // namespace
}  // namespace kernelcast::testing::slow_candidates_test
