#ifndef KERNELCAST_SERVICES_WORKER_CORE_GUARDED_TARGET_H_
#define KERNELCAST_SERVICES_WORKER_CORE_GUARDED_TARGET_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/crash_journal.h"
#include "services/worker/core/target.h"

namespace kernelcast::worker {

// A target that refuses inputs that have crashed the worker. It notes in the journal what it
// compiles, measures or profiles. A candidate, or a problem's reference, that was in process at two
// crashes of the worker is refused with FAILED_PRECONDITION, which no caller retries. Thread-safe
// if the inner target is.
class GuardedTarget final : public Target {
 public:
  // `journal` must outlive this object. Null: nothing is noted or refused.
  GuardedTarget(std::unique_ptr<Target> inner, CrashJournal* journal)
      : inner_(std::move(inner)), journal_(journal) {}

  TargetInfo Describe() const override { return inner_->Describe(); }
  absl::StatusOr<CompileResult> Compile(const Problem& problem, const Candidate& candidate,
                                        const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileReference(const Problem& problem,
                                                 const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileFor(const std::string& device_model, const Problem& problem,
                                           const Candidate& candidate,
                                           const CancelToken& cancel) override;
  absl::StatusOr<CompileResult> CompileReferenceFor(const std::string& device_model,
                                                    const Problem& problem,
                                                    const CancelToken& cancel) override;
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override {
    return inner_->Resolve(candidate, sent);
  }
  // Does nothing for a problem that was announced at two crashes.
  void Announce(const Problem& problem, const CancelToken& cancel) override;
  absl::StatusOr<Measurement> Measure(const Problem& problem, const Candidate& candidate,
                                      const Artifact& artifact, MeasureSpec spec,
                                      const CancelToken& cancel) override;
  absl::StatusOr<Measurement> MeasureOn(size_t device, const Problem& problem,
                                        const Candidate& candidate, const Artifact& artifact,
                                        MeasureSpec spec, const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileCandidate(const Problem& problem, const Candidate& candidate,
                                           const Artifact& artifact,
                                           const CancelToken& cancel) override;
  absl::StatusOr<Profile> ProfileOn(size_t device, const Problem& problem,
                                    const Candidate& candidate, const Artifact& artifact,
                                    const CancelToken& cancel) override;
  bool Revive(size_t device) override { return inner_->Revive(device); }

 private:
  // Notes the input while `call` runs, or refuses it.
  template <class Call>
  auto Guard(std::string_view stage, const std::string& id, const Call& call) -> decltype(call());

  const std::unique_ptr<Target> inner_;
  CrashJournal* const journal_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_GUARDED_TARGET_H_
