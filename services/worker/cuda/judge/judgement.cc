#include "services/worker/cuda/judge/judgement.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/worker/core/problem_faults.h"
#include "services/worker/core/verdict.h"
#include "services/worker/cuda/judge/python_task.h"

namespace kernelcast::worker {
namespace {

using End = CudaRunner::End;

// For the worker's other work on the device.
constexpr int64_t kQuietLimitNs = 10'000'000'000;

}  // namespace

Judgement::Judgement(const CudaJudgeRequest& request)
    : JudgementEnd(request.prepared.plan()),
      request_(request),
      runners_(request.runners),
      plan_random_("plan"),
      budget_(request.prepared.BudgetOf(request.spec.level)) {}

absl::Status Judgement::MakePrograms() {
  auto programs = prepared().MakePrograms(candidate(), CudaPreparedProblem::kOutputs);
  if (!programs.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("candidate: ", programs.status().message()));
  }
  programs_ = *std::move(programs);
  programs_.programs.emplace_back();
  return absl::OkStatus();
}

bool Judgement::Settle(MeasureOutcome outcome) {
  if (auto* const wrong = std::get_if<WrongResult>(&outcome);
      wrong != nullptr && wrong->detail.empty() && prepared().task() != nullptr &&
      NamesStreams(PythonTaskPrograms::CandidateSourceOf(candidate().object))) {
    wrong->detail =
        "The candidate's source names streams: results are read on the stream that is current when "
        "it is called, so work on another stream must be awaited there";
  }
  return JudgementEnd::Settle(std::move(outcome));
}

bool Judgement::Resume() {
  outcome_.reset();
  status_ = cancel().Check();
  return status_.ok();
}

void Judgement::Quieten() {
  if (quiet_ != nullptr || !request_.pause_other_work) return;
  quiet_ = request_.pause_other_work(kQuietLimitNs);
}

absl::Status Judgement::RenewRunners() {
  runners_ = {};  // destroyed, also if there are no new ones
  KC_ASSIGN_OR_RETURN(runners_, request_.renew());
  return absl::OkStatus();
}

bool Judgement::Accept(const CudaRunner::Answer& answer, Side side, const std::string& stage,
                       int64_t limit_ns) {
  if (side == Side::kCandidate && stage != "load") {
    budget_.Spend(answer.wall_ns);
    if (answer.end == End::kDone && budget_.exceeded()) return Settle(budget_.Exceeded());
  }
  switch (answer.end) {
    case End::kDone: return true;
    case End::kStopped: return Fail(cancel().Check());
    case End::kTimeout:
      if (side == Side::kReference) {
        return Fail(ReferenceFailed(
            absl::StrCat("it did not end within ", limit_ns / 1'000'000, " ms (", stage, ")")));
      }
      return Settle(Timeout{limit_ns, stage});
    case End::kGone:
    case End::kForged:
    case End::kTooLarge:
    case End::kFailed: break;
  }
  if (side == Side::kReference && answer.lacks_memory()) {
    // Without the candidate it had enough.
    Crash crash;
    crash.cause = Crash::Cause::kMemoryLimit;
    crash.stage = stage;
    crash.output_tail =
        "next to the candidate, the device has too little memory for the reference\n";
    return Settle(std::move(crash));
  }
  std::string text = CudaRunner::FailureText(answer);
  absl::Status driver;
  if (answer.end == End::kFailed && answer.reply.failure == cuda_runner::Failure::kDriver) {
    driver = device().Check(static_cast<CUresult>(answer.reply.cuda_error),
                            std::string(answer.reply.where));
    text = std::string(driver.message());
  }
  if (side == Side::kReference) {
    // Only host code ends its process or returns an error. Otherwise the device or the driver may
    // be the reason.
    const bool by_itself =
        prepared().task() != nullptr && driver.ok() && answer.end != End::kForged;
    text = absl::StrCat(text, answer.exit.output.empty() ? "" : "; ", answer.exit.output);
    return Fail(by_itself ? ReferenceFailed(text)
                          : absl::UnavailableError(absl::StrCat("the reference: ", text)));
  }
  Crash crash;
  crash.cause = stage == "load" ? Crash::Cause::kLoad : Crash::Cause::kDeviceError;
  const bool illegal_address =
      !driver.ok() && answer.reply.cuda_error == CUDA_ERROR_ILLEGAL_ADDRESS;
  crash.output_tail = absl::StrCat(text, illegal_address ? InputsHint() : "", "\n");
  crash.stage = stage;
  if (hosted() && answer.reply.failure == cuda_runner::Failure::kEntry) {
    WrongResult wrong;
    wrong.cause = WrongResult::Cause::kEntryStatus;
    wrong.entry_status = answer.reply.cuda_error;
    return Settle(std::move(wrong));
  }
  if (hosted() && answer.end == End::kForged) {
    return Settle(MakeExploit(Exploit::Kind::kForgedResult, text));
  }
  if (hosted() && answer.took_output_memory()) {
    return Settle(TookOutputMemory());
  }
  const bool python = hosted() && prepared().task() != nullptr;
  if (const auto cause = answer.wrong_form(); python && cause) {
    return Settle(WrongForm(*cause, answer.exit.output));
  }
  if (python && answer.not_compiled()) {
    return Fail(NotCompiled(answer.exit.output));
  }
  if (hosted() && answer.end == End::kTooLarge) {
    crash.cause = Crash::Cause::kMemoryLimit;
  }
  if (hosted() && answer.end == End::kGone) {
    const ChildExit& exit = answer.exit;
    crash.cause = exit.output_limit       ? Crash::Cause::kOutputLimit
                  : exit.signal != 0      ? Crash::Cause::kSignal
                  : answer.lacks_memory() ? Crash::Cause::kMemoryLimit
                                          : Crash::Cause::kExit;
    crash.signal = exit.signal;
    crash.exit_code = exit.exit_code;
    crash.output_tail = exit.output;
    if (python && answer.illegal_address()) {
      crash.cause = Crash::Cause::kDeviceError;
      absl::StrAppend(&crash.output_tail, "an illegal memory access was encountered", InputsHint(),
                      "\n");
    }
  }
  return Settle(std::move(crash));
}

std::string Judgement::InputsHint() const {
  return prepared().problem().inputs.empty()
             ? ""
             : absl::StrCat("; ", std::string(IllegalAddressHint()));
}

bool Judgement::NoteInputs() {
  auto fingerprint = prepared().InputsFingerprint();
  if (!fingerprint.ok()) {
    return Fail(fingerprint.status());
  }
  inputs_fingerprint_ = *fingerprint;
  inputs_used_ = false;
  return true;
}

// Device code cannot write to inputs; host code could remap them as writable.
bool Judgement::CheckInputs() {
  if (!hosted()) {
    return true;
  }
  const uint64_t before = inputs_fingerprint_;
  if (!NoteInputs()) {
    return false;
  }
  return inputs_fingerprint_ == before ||
         Settle(MakeExploit(Exploit::Kind::kMutatedInput, "changed the values of its inputs"));
}

}  // namespace kernelcast::worker
