#include "services/worker/cuda/judge/candidate_loading.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {
namespace {

bool LoadReference(Judgement& judgement) {
  return judgement.Must(judgement.prepared().LoadReference(
      *judgement.runners().reference, judgement.OutputsOf(Side::kReference), judgement.cancel()));
}

bool LoadModule(Judgement& judgement) {
  CudaRunner& runner = *judgement.runners().candidate;
  if (judgement.hosted() && runner.load_answer()) return true;  // LoadedAhead has accepted it
  const int64_t limit_ns = judgement.CopiesResults(Side::kCandidate)
                               ? judgement.options().python_load_limit_ns
                               : judgement.options().load_limit_ns;
  auto loaded =
      judgement.hosted()
          ? runner.LoadObject(judgement.candidate().object, limit_ns, judgement.cancel())
          : runner.Load(cuda_runner::kCandidate, judgement.candidate().cubin,
                        judgement.candidate().KernelNames(), limit_ns, judgement.cancel());
  if (!loaded.ok()) {
    return judgement.Fail(loaded.status());
  }
  return judgement.Accept(*loaded, Side::kCandidate, "load", limit_ns);
}

}  // namespace

bool LoadedAhead(Judgement& judgement) {
  const std::optional<CudaRunner::Answer>& loaded = judgement.runners().candidate->load_answer();
  return !judgement.hosted() || !loaded ||
         judgement.Accept(*loaded, Side::kCandidate, "load",
                          judgement.options().python_load_limit_ns);
}

bool LoadCandidate(Judgement& judgement) {
  if (!LoadedAhead(judgement)) return false;
  const int64_t limit_ns = judgement.options().load_limit_ns;
  CudaRunner& runner = *judgement.runners().candidate;
  judgement.set_running(std::nullopt);
  const CudaPreparedProblem::Programs& programs = judgement.ProgramsOf(Side::kCandidate);
  const uint64_t workspace_bytes = programs.max_workspace_bytes;
  absl::Status reserved =
      judgement.prepared().memory().ReserveScratch(workspace_bytes, runner, judgement.cancel());
  if (absl::IsResourceExhausted(reserved)) {
    Crash crash;
    crash.cause = Crash::Cause::kMemoryLimit;
    crash.output_tail = absl::StrCat("the device has no room for a workspace of ", workspace_bytes,
                                     " bytes: ", reserved.message(), "\n");
    return judgement.Settle(std::move(crash));
  }
  // The kernels that fill memory must be loaded before a shared object takes over the process.
  if (!judgement.Must(std::move(reserved)) ||
      !judgement.Must(judgement.prepared().memory().ClearOutputs()) ||
      !judgement.Must(judgement.kernels().hostile().Attach(runner, judgement.cancel())) ||
      (judgement.hosted() && !judgement.NoteInputs())) {
    return false;
  }
  // The address of code depends on what was loaded before, and affects the kernel's time.
  const bool reference_first = judgement.apart() || judgement.plan_random().Below(2) == 0;
  if ((reference_first && !LoadReference(judgement)) || !LoadModule(judgement) ||
      (!reference_first && !LoadReference(judgement))) {
    return false;
  }
  auto taken =
      runner.SetPrograms(cuda_runner::kCandidate, programs.programs, limit_ns, judgement.cancel());
  if (!taken.ok()) {
    return judgement.Fail(taken.status());
  }
  ++runner.candidates;
  if (judgement.prepared().task() != nullptr) {
    runner.BeginTiming();
    judgement.runners().reference->BeginTiming();
  }
  return judgement.Accept(*taken, Side::kCandidate, "load", limit_ns);
}

}  // namespace kernelcast::worker
