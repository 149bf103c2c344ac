// Python tasks that are at fault themselves.

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/clock.h"
#include "services/worker/cpu/cpu_target.h"
#include "tests/integration/worker/cpu_fixture.h"
#include "tests/integration/worker/python_fixture.h"
#include "tests/support/services.h"

namespace kernelcast::testing::task_faults_test {
namespace {

using worker::CpuTarget;

// A worker whose references have little time.
CpuTarget& HastyTarget() {
  static const TemporaryFolder folder("task-faults");
  static const auto target = [] {
    worker::CpuTargetOptions options = CpuFixture::Options(folder.path());
    options.python = kPython;
    options.runner.max_memory_bytes = int64_t{512} << 20;
    options.measure.problem_call_limit_ns = 500'000'000;
    return CpuTarget::Make(std::move(options)).value();
  }();
  return *target;
}

// `calls` counts the reference's calls in a process.
std::string Task(const std::string& in_forward, const std::string& in_inputs = "",
                 const std::string& in_init_inputs = "") {
  return absl::StrReplaceAll(R"(
import ctypes
import os
import torch
import torch.nn as nn

calls = 0
seeds = set()

class Model(nn.Module):
    def forward(self, x):
        global calls
        calls += 1
        FORWARD
        return torch.relu(x)

def get_inputs():
    seeds.add(torch.initial_seed())
    IN_INPUTS
    return [torch.randn(16, 256)]

def get_init_inputs():
    INITIAL
    return []
)",
                             {{"FORWARD", in_forward.empty() ? "pass" : in_forward},
                              {"IN_INPUTS", in_inputs.empty() ? "pass" : in_inputs},
                              {"INITIAL", in_init_inputs.empty() ? "pass" : in_init_inputs}});
}

const char* const kCandidate = R"(
import torch
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x):
        return torch.relu(x)
)";

// `took_ns`: the time to measure.
absl::StatusOr<Measurement> Measure(const Problem& problem, const std::string& source,
                                    int64_t* took_ns = nullptr) {
  const Candidate candidate = PythonCandidate(problem, source);
  const auto compiled = HastyTarget().Compile({problem, &candidate}, worker::CancelToken());
  REQUIRE(compiled.ok());
  const Artifact& artifact = std::get<worker::CompileSuccess>(compiled->result).artifact;
  const int64_t start_ns = Clock::Real().MonotonicNs();
  auto measured = HastyTarget().Measure({problem, candidate, artifact, MeasureLevel::kScreen},
                                        worker::CancelToken());
  if (took_ns != nullptr) *took_ns = Clock::Real().MonotonicNs() - start_ns;
  return measured;
}

// Checks that the task is at fault for the reason, and that further candidates get the same answer
// at once.
void CheckAtFault(const std::string& task, const std::string& reason) {
  INFO(task);
  const Problem problem = MakeTask(task);
  int64_t first_ns = 0;
  const absl::Status first = Measure(problem, kCandidate, &first_ns).status();
  CHECK(absl::IsFailedPrecondition(first));
  CHECK_THAT(std::string(first.message()), Catch::Contains(reason));
  int64_t next_ns = 0;
  CHECK(Measure(problem, absl::StrCat(kCandidate, "# another\n"), &next_ns).status() == first);
  CHECK(10 * next_ns < first_ns);
}

TEST_CASE("A task whose code raises is at fault, and says what it raised") {
  if (!HaveTorch()) return;
  CheckAtFault(Task("raise ValueError('no such thing')"), "no such thing");
  CheckAtFault(Task("", "", "raise KeyError('no width')"), "no width");
}

TEST_CASE("A task whose code raises later, too", "[slow]") {
  if (!HaveTorch()) return;
  CheckAtFault(Task("", "if len(seeds) > 1: raise ValueError('seeds run out')"), "seeds run out");
  CheckAtFault(Task("if calls > 4: raise ValueError('called too often')"), "called too often");
  CheckAtFault(Task("x = x.reshape(3, 7)"), "shape '[3, 7]'");
}

TEST_CASE("A task whose reference ends its process is at fault", "[slow]") {
  if (!HaveTorch()) return;
  CheckAtFault(Task("os._exit(7)"), "exit code 7");
  CheckAtFault(Task("if calls > 4: os._exit(7)"), "exit code 7");
  CheckAtFault(Task("if calls > 4: ctypes.string_at(0)"), "SIGSEGV");
}

TEST_CASE("A reference that ends its process only after many calls is at fault, too", "[slow]") {
  if (!HaveTorch()) return;
  // Preparing the task makes fewer calls.
  CheckAtFault(Task("if calls > 150: os._exit(9)"), "exit code 9");
}

TEST_CASE("A reference that is not deterministic beyond its tolerance is at fault", "[slow]") {
  if (!HaveTorch()) return;
  CheckAtFault(Task("x = x + torch.rand(1, generator=torch.Generator().manual_seed(calls))"),
               "gave other results when it was called again");
  CheckAtFault(Task("x = x * float('nan')"), "NaN");
}

TEST_CASE("A reference that does not end in time is at fault", "[slow]") {
  if (!HaveTorch()) return;
  // Describing the task makes fewer calls.
  CheckAtFault(Task("while calls > 30: pass"), "it had not ended");
}

TEST_CASE("A candidate cannot make its task look at fault", "[slow]") {
  if (!HaveTorch()) return;
  const Problem problem = MakeTask(Task(""));
  const std::string bad = absl::StrReplaceAll(
      kCandidate, {{"        return torch.relu(x)", "        import os\n        os._exit(3)"}});
  const auto crashed = Measure(problem, bad);
  REQUIRE(crashed.ok());
  CHECK(std::holds_alternative<Crash>(crashed->outcome));
  CHECK(Measure(problem, kCandidate).ok());
}

}  // namespace
}  // namespace kernelcast::testing::task_faults_test
