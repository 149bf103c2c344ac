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
auto GuardedTarget::Guard(const Input& input, const CancelToken& cancel, const Call& call)
    -> decltype(call()) {
  KC_RETURN_IF_ERROR(cancel.Check());
  const std::string name = absl::StrCat(std::string(input.stage), ":", input.id);
  if (CrashJournal::SetsAside(journal_, name)) {
    Log(LogLevel::kError, "an input is set aside", {{"input", name}});
    return absl::FailedPreconditionError(absl::StrCat("set aside: ", name, " was in process at ",
                                                      CrashJournal::kLimit,
                                                      " crashes of this worker"));
  }
  const CrashJournal::Hold hold(journal_, name);
  return call();
}

absl::StatusOr<CompileResult> GuardedTarget::Compile(const CompileRequest& request,
                                                     const CancelToken& cancel) {
  const Input input = request.candidate == nullptr
                          ? Input{kReference, request.problem.problem_id}
                          : Input{kCompile, request.candidate->candidate_id};
  return Guard(input, cancel, [&] { return inner().Compile(request, cancel); });
}

void GuardedTarget::Announce(const Problem& problem, const CancelToken& cancel) {
  // A refusal is reported by the calls that follow.
  (void)Guard({kAnnounce, problem.problem_id}, cancel, [&] {
    inner().Announce(problem, cancel);
    return absl::OkStatus();
  });
}

absl::StatusOr<Measurement> GuardedTarget::Measure(const MeasureRequest& request,
                                                   const CancelToken& cancel) {
  return Guard({kMeasure, request.candidate.candidate_id}, cancel,
               [&] { return inner().Measure(request, cancel); });
}

absl::StatusOr<Profile> GuardedTarget::ProfileCandidate(const MeasureRequest& request,
                                                        const CancelToken& cancel) {
  return Guard({kProfile, request.candidate.candidate_id}, cancel,
               [&] { return inner().ProfileCandidate(request, cancel); });
}

}  // namespace kernelcast::worker
