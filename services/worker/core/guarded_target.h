#ifndef KERNELCAST_SERVICES_WORKER_CORE_GUARDED_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CORE_GUARDED_TARGET_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/crash_journal.h"
#include "services/worker/core/target_decorator.h"

namespace kernelcast::worker {

// Refuses inputs that have crashed the worker. It notes in the journal what is compiled, measured
// or profiled. A candidate, or a problem's reference, that was in process at two crashes of the
// worker is refused with FAILED_PRECONDITION, which no caller retries. A call whose token is
// stopped does not begin.
class GuardedTarget final : public TargetDecorator {
 public:
  // `journal` must outlive this object. Null: nothing is noted or refused.
  GuardedTarget(std::unique_ptr<Target> inner, CrashJournal* journal)
      : TargetDecorator(std::move(inner)), journal_(journal) {}

  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override;
  // Does nothing for a problem that was announced at two crashes.
  void Announce(const Problem& problem, const CancelToken& cancel) override;
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileCandidate(const MeasureRequest& request,
                                           const CancelToken& cancel) override;

 private:
  // An input, and what is done with it.
  struct Input {
    std::string_view stage;
    const std::string& id;
  };
  // Notes the input while `call` runs, or refuses it.
  template <class Call>
  auto Guard(const Input& input, const CancelToken& cancel, const Call& call) -> decltype(call());

  CrashJournal* const journal_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_GUARDED_TARGET_H_
