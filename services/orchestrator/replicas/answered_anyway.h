#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_ANSWERED_ANYWAY_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_ANSWERED_ANYWAY_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::orchestrator {

// Wraps `done` so that it gets UNAVAILABLE if nobody calls it, e.g. when an engine stops.
template <class Result>
std::function<void(absl::StatusOr<Result>)> AnsweredAnyway(
    std::function<void(absl::StatusOr<Result>)> done) {
  struct Guard {
    explicit Guard(std::function<void(absl::StatusOr<Result>)> d) : done(std::move(d)) {}
    ~Guard() {
      if (done) done(absl::UnavailableError("the shard has gone to another orchestrator"));
    }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    std::function<void(absl::StatusOr<Result>)> done;
  };
  auto guard = std::make_shared<Guard>(std::move(done));
  return [guard](absl::StatusOr<Result> result) {
    auto answer = std::exchange(guard->done, nullptr);
    if (answer) answer(std::move(result));
  };
}

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_REPLICAS_ANSWERED_ANYWAY_H_
