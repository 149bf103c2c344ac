#include "services/worker/cuda/judge/correctness_check.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "services/worker/core/verdict.h"

namespace kernelcast::worker {
namespace {

using cuda_runner::RunRecord;
using Case = CudaPreparedProblem::Case;

}  // namespace

bool CorrectnessCheck::Reserve() {
  auto counts = DeviceBuffer::Allocate(
      judgement_.device(), judgement_.prepared().check_cases().size() * sizeof(uint64_t));
  if (!counts.ok()) return judgement_.Fail(counts.status());
  guard_counts_ = *std::move(counts);
  return true;
}

bool CorrectnessCheck::Run() {
  const std::vector<CudaPreparedProblem::CheckCase>& checks = judgement_.prepared().check_cases();
  for (const CudaPreparedProblem::CheckCase& check : checks) {
    if (!judgement_.Must(judgement_.prepared().memory().ResetGuards(
            judgement_.prepared().cases()[check.index]))) {
      return false;
    }
  }
  // Cases with values of their own come first, and are called together.
  const auto shared = std::ranges::find_if(
      checks, [](const CudaPreparedProblem::CheckCase& check) { return check.shape.has_value(); });
  if (shared != checks.begin() && !CallTwice(Checks(checks.begin(), shared))) return false;
  for (auto check = shared; check != checks.end(); ++check) {
    const bool going = PutValues(*check) && CallTwice(Checks(&*check, 1));
    // The next candidate must find the inputs as they were.
    if (judgement_.status().ok() && !PutBackValues(*check)) return false;
    if (!going) return false;
  }
  return CheckGuards();
}

bool CorrectnessCheck::CallTwice(Checks checks) {
  for (const bool plausible : {false, true}) {
    const uint32_t pattern = plausible ? PlausibleFor(checks) : judgement_.patterns().NextNan();
    if (!CallAndVerify(checks, pattern, /*finite_first=*/!plausible)) return false;
  }
  return true;
}

bool CorrectnessCheck::PutValues(const CudaPreparedProblem::CheckCase& check) {
  return judgement_.Must(judgement_.prepared().PutValues(check)) &&
         judgement_.Must(judgement_.device().Synchronize()) &&
         (!judgement_.hosted() || judgement_.NoteInputs());
}

bool CorrectnessCheck::PutBackValues(const CudaPreparedProblem::CheckCase& check) {
  return judgement_.Must(judgement_.prepared().PutBackValues(check)) &&
         judgement_.Must(judgement_.device().Synchronize()) &&
         (!judgement_.hosted() || judgement_.NoteInputs());
}

bool CorrectnessCheck::RunLargest(uint64_t& outputs) {
  const std::vector<Case>& cases = judgement_.prepared().cases();
  // The first of equals, whose values are in place.
  const CudaPreparedProblem::CheckCase& largest = judgement_.prepared().plan().LargestCheck();
  const Case& at = cases[largest.index];
  const Checks checks(&largest, 1);
  // The bytes around the outputs must be the same in all processes.
  if (!first_pattern_) first_pattern_ = PlausibleFor(checks);
  if (!judgement_.Must(judgement_.prepared().memory().ResetGuards(at)) ||
      !CallAndVerify(checks, *first_pattern_, /*finite_first=*/true)) {
    return false;
  }
  const absl::StatusOr<uint64_t> fingerprint =
      judgement_.prepared().OutputsFingerprint(judgement_.OutputsOf(Side::kCandidate), at);
  if (!fingerprint.ok()) return judgement_.Fail(fingerprint.status());
  outputs = *fingerprint;
  return true;
}

uint32_t CorrectnessCheck::PlausibleFor(Checks checks) {
  for (const CudaPreparedProblem::CheckCase& check : checks) {
    const std::vector<CudaExpected>& expected = judgement_.prepared().expected(check);
    if (!expected.empty()) return judgement_.patterns().NextPlausible(expected[0]);
  }
  return judgement_.patterns().NextNan();
}

bool CorrectnessCheck::CallAndVerify(Checks checks, uint32_t pattern, bool finite_first) {
  const std::vector<Case>& cases = judgement_.prepared().cases();
  std::vector<OutputVerifier::Look> looks;
  int64_t reference_ns = 0;
  for (const CudaPreparedProblem::CheckCase& check : checks) {
    reference_ns += cases[check.index].reference_ns;
    const std::vector<CudaExpected>& expected = judgement_.prepared().expected(check);
    for (size_t i = 0; i < expected.size(); ++i) {
      looks.push_back({check.index, i, &expected[i]});
    }
    // Overwrite what the reference has left.
    if (!judgement_.Must(judgement_.prepared().memory().FillOutputs(
            judgement_.OutputsOf(Side::kCandidate), cases[check.index], pattern))) {
      return false;
    }
  }
  // A kernel as slow as the reference must not be stopped, however long it takes.
  const int64_t limit_ns = judgement_.options().DeviceCallLimitNs(reference_ns);
  if (!judgement_.Must(judgement_.prepared().memory().FillWorkspace(
          judgement_.ProgramsOf(Side::kCandidate).max_workspace_bytes, pattern)) ||
      !CallCases(checks, finite_first, limit_ns) || !judgement_.CheckInputs()) {
    return false;
  }
  verified_ += static_cast<uint32_t>(checks.size());
  return verifier_.Verify(looks, {Side::kCandidate, pattern, /*timed=*/false});
}

bool CorrectnessCheck::CallCases(Checks checks, bool finite_first, int64_t limit_ns) {
  HostileMemory& hostile = judgement_.kernels().hostile();
  std::vector<size_t> indices;
  std::vector<RunRecord> runs;
  for (const CudaPreparedProblem::CheckCase& check : checks) {
    const bool finite = (indices.size() % 2 == 0) == finite_first;
    indices.push_back(check.index);
    runs.push_back(HostileMemory::Fill(finite ? HostileMemory::kFinite : HostileMemory::kNan));
    runs.push_back({cuda_runner::kCandidate, static_cast<uint32_t>(check.index)});
  }
  if (!judgement_.Must(hostile.ResetCount()) ||
      !judgement_.Must(judgement_.device().Synchronize())) {
    return false;
  }
  CudaRunner& runner = *judgement_.runners().candidate;
  if (judgement_.hosted()) {
    // Host code can fail before the device has begun a call, so run the cases one by one.
    for (size_t i = 0; i < indices.size(); ++i) {
      judgement_.set_running(indices[i]);
      const int64_t call_ns = judgement_.options().DeviceCallLimitNs(
          judgement_.prepared().cases()[indices[i]].reference_ns);
      if (!judgement_.Accept(
              runner.Run(std::span(runs).subspan(2 * i, 2), call_ns, judgement_.cancel()),
              Side::kCandidate, "check", call_ns)) {
        return false;
      }
    }
    return true;
  }
  const CudaRunner::Answer answer = runner.Run(runs, limit_ns, judgement_.cancel());
  if (!answer.ok()) {
    // Device code could change the count, but it only affects the name of the case in a message.
    const absl::StatusOr<uint32_t> begun = hostile.Count();
    if (begun.ok() && *begun >= 1 && *begun <= indices.size())
      judgement_.set_running(indices[*begun - 1]);
  }
  return judgement_.Accept(answer, Side::kCandidate, "check", limit_ns);
}

// Each case counts the changed words of its guards.
bool CorrectnessCheck::CheckGuards() {
  const std::vector<CudaPreparedProblem::CheckCase>& checks = judgement_.prepared().check_cases();
  std::vector<uint64_t> counts(checks.size());
  const size_t bytes = counts.size() * sizeof(uint64_t);
  const CudaApi& api = judgement_.device().api();
  if (!judgement_.Must(judgement_.device().Check(
          api.MemsetD8Async(guard_counts_.address(), 0, bytes, judgement_.device().stream()),
          "clearing counters"))) {
    return false;
  }
  for (size_t i = 0; i < checks.size(); ++i) {
    for (const CudaPreparedProblem::Place& place :
         judgement_.prepared().cases()[checks[i].index].outputs) {
      for (const CUdeviceptr guard : judgement_.prepared().memory().GuardAddresses(place)) {
        if (!judgement_.Must(judgement_.kernels().CountChanged(
                guard, CudaCasePlan::kGuardBytes / 4, ProblemMemory::kGuardPattern,
                guard_counts_.address() + i * sizeof(uint64_t)))) {
          return false;
        }
      }
    }
  }
  if (!judgement_.Must(judgement_.device().Read(counts.data(), guard_counts_.address(), bytes,
                                                "reading counters"))) {
    return false;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    judgement_.set_running(checks[i].index);
    return judgement_.Settle(MakeExploit(Exploit::Kind::kWriteOutOfBounds,
                                         "wrote beyond the end or before the start of an output"));
  }
  return true;
}

}  // namespace kernelcast::worker
