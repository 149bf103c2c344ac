#ifndef KERNELCAST_SERVICES_WORKER_CORE_TARGET_DECORATOR_H_
#define KERNELCAST_SERVICES_WORKER_CORE_TARGET_DECORATOR_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "services/worker/core/target.h"

namespace kernelcast::worker {

// A target that passes all calls to the inner target. Decorators override those that they add a
// behaviour to. Thread-safe if the inner target is.
class TargetDecorator : public Target {
 public:
  explicit TargetDecorator(std::unique_ptr<Target> inner) : inner_(std::move(inner)) {}

  TargetInfo Describe() const override { return inner_->Describe(); }
  absl::StatusOr<CompileResult> Compile(const CompileRequest& request,
                                        const CancelToken& cancel) override {
    return inner_->Compile(request, cancel);
  }
  absl::StatusOr<Artifact> Resolve(const Candidate& candidate, const Artifact& sent) override {
    return inner_->Resolve(candidate, sent);
  }
  absl::StatusOr<Measurement> Measure(const MeasureRequest& request,
                                      const CancelToken& cancel) override {
    return inner_->Measure(request, cancel);
  }
  absl::StatusOr<Profile> ProfileCandidate(const MeasureRequest& request,
                                           const CancelToken& cancel) override {
    return inner_->ProfileCandidate(request, cancel);
  }
  void Announce(const Problem& problem, const CancelToken& cancel) override {
    inner_->Announce(problem, cancel);
  }
  std::optional<size_t> Expect(const Problem& problem, const Candidate& candidate,
                               MeasureLevel level, const DeviceWish& wish) override {
    return inner_->Expect(problem, candidate, level, wish);
  }
  bool Revive(size_t device) override { return inner_->Revive(device); }

 protected:
  Target& inner() { return *inner_; }

 private:
  const std::unique_ptr<Target> inner_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_TARGET_DECORATOR_H_
