#ifndef KERNELCAST_SERVICES_WORKER_ARTIFACTS_COMPILE_CACHE_H_
#define KERNELCAST_SERVICES_WORKER_ARTIFACTS_COMPILE_CACHE_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "services/worker/artifacts/artifact_cache.h"
#include "services/worker/core/cancel.h"
#include "services/worker/core/target.h"

namespace kernelcast::worker {

// Compiles each artefact once. Results are read from disk, and concurrent requests for an artefact
// wait for the one that compiles it. Thread-safe.
class CompileCache {
 public:
  explicit CompileCache(std::unique_ptr<ArtifactCache> artifacts)
      : artifacts_(std::move(artifacts)) {}

  // Returns the cached result, or calls `compile`, which makes the artefact with this id, at most
  // once and on this thread. An error status from `compile` is returned and not cached. CANCELLED,
  // DEADLINE_EXCEEDED: the token was stopped while another thread compiled.
  [[nodiscard]] absl::StatusOr<CompileResult> GetOrCompile(
      const std::string& artifact_id, const CancelToken& cancel,
      const std::function<absl::StatusOr<CompileResult>()>& compile);

  // Returns the artefact on disk, or nullopt if there is none or compiling it failed.
  std::optional<Artifact> Find(const std::string& artifact_id);

 private:
  const std::unique_ptr<ArtifactCache> artifacts_;
  std::mutex mutex_;
  std::condition_variable compiled_;
  std::set<std::string> compiling_;  // protected by mutex_
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_ARTIFACTS_COMPILE_CACHE_H_
