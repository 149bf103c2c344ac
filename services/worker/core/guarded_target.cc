#include "services/worker/core/guarded_target.h"

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kCompile = "compile";
constexpr std::string_view kReference = "reference";
constexpr std::string_view kAnnounce = "announce";
constexpr std::string_view kMeasure = "measure";
constexpr std::string_view kProfile = "profile";

}  // namespace

template <class Call>
auto GuardedTarget::Guard(std::string_view stage, const std::string& id, const Call& call)
    -> decltype(call()) {
  const std::string input = absl::StrCat(std::string(stage), ":", id);
  if (CrashJournal::SetsAside(journal_, input)) {
    Log(LogLevel::kError, "an input is set aside", {{"input", input}});
    return absl::FailedPreconditionError(absl::StrCat("set aside: ", input, " was in process at ",
                                                      CrashJournal::kLimit,
                                                      " crashes of this worker"));
  }
  const CrashJournal::Hold hold(journal_, input);
  return call();
}

absl::StatusOr<CompileResult> GuardedTarget::Compile(const Problem& problem,
                                                     const Candidate& candidate,
                                                     const CancelToken& cancel) {
  return Guard(kCompile, candidate.candidate_id,
               [&] { return inner_->Compile(problem, candidate, cancel); });
}

absl::StatusOr<CompileResult> GuardedTarget::CompileReference(const Problem& problem,
                                                              const CancelToken& cancel) {
  return Guard(kReference, problem.problem_id,
               [&] { return inner_->CompileReference(problem, cancel); });
}

absl::StatusOr<CompileResult> GuardedTarget::CompileFor(const std::string& device_model,
                                                        const Problem& problem,
                                                        const Candidate& candidate,
                                                        const CancelToken& cancel) {
  return Guard(kCompile, candidate.candidate_id,
               [&] { return inner_->CompileFor(device_model, problem, candidate, cancel); });
}

absl::StatusOr<CompileResult> GuardedTarget::CompileReferenceFor(const std::string& device_model,
                                                                 const Problem& problem,
                                                                 const CancelToken& cancel) {
  return Guard(kReference, problem.problem_id,
               [&] { return inner_->CompileReferenceFor(device_model, problem, cancel); });
}

void GuardedTarget::Announce(const Problem& problem, const CancelToken& cancel) {
  // A refusal is reported by the calls that follow.
  (void)Guard(kAnnounce, problem.problem_id, [&] {
    inner_->Announce(problem, cancel);
    return absl::OkStatus();
  });
}

absl::StatusOr<Measurement> GuardedTarget::Measure(const Problem& problem,
                                                   const Candidate& candidate,
                                                   const Artifact& artifact, MeasureSpec spec,
                                                   const CancelToken& cancel) {
  return Guard(kMeasure, candidate.candidate_id,
               [&] { return inner_->Measure(problem, candidate, artifact, spec, cancel); });
}

absl::StatusOr<Measurement> GuardedTarget::MeasureOn(size_t device, const Problem& problem,
                                                     const Candidate& candidate,
                                                     const Artifact& artifact, MeasureSpec spec,
                                                     const CancelToken& cancel) {
  return Guard(kMeasure, candidate.candidate_id, [&] {
    return inner_->MeasureOn(device, problem, candidate, artifact, spec, cancel);
  });
}

absl::StatusOr<Profile> GuardedTarget::ProfileCandidate(const Problem& problem,
                                                        const Candidate& candidate,
                                                        const Artifact& artifact,
                                                        const CancelToken& cancel) {
  return Guard(kProfile, candidate.candidate_id,
               [&] { return inner_->ProfileCandidate(problem, candidate, artifact, cancel); });
}

absl::StatusOr<Profile> GuardedTarget::ProfileOn(size_t device, const Problem& problem,
                                                 const Candidate& candidate,
                                                 const Artifact& artifact,
                                                 const CancelToken& cancel) {
  return Guard(kProfile, candidate.candidate_id,
               [&] { return inner_->ProfileOn(device, problem, candidate, artifact, cancel); });
}

}  // namespace kernelcast::worker
