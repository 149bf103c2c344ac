#include "services/worker/artifacts/compile_cache.h"

#include <chrono>
#include <variant>

#include "common/base/status.h"

namespace kernelcast::worker {
namespace {

// Maximum delay until a stopped token is noticed.
constexpr std::chrono::milliseconds kLook(5);

}  // namespace

absl::StatusOr<CompileResult> CompileCache::GetOrCompile(
    const std::string& artifact_id, const CancelToken& cancel,
    const std::function<absl::StatusOr<CompileResult>()>& compile) {
  {
    std::unique_lock lock(mutex_);
    while (compiling_.count(artifact_id) > 0) {
      KC_RETURN_IF_ERROR(cancel.Check());
      compiled_.wait_for(lock, kLook);
    }
    compiling_.insert(artifact_id);
  }
  struct Finish {
    CompileCache& cache;
    const std::string& artifact_id;
    ~Finish() {
      const std::lock_guard lock(cache.mutex_);
      cache.compiling_.erase(artifact_id);
      cache.compiled_.notify_all();
    }
  } finish{*this, artifact_id};
  if (auto cached = artifacts_->Get(artifact_id)) {
    return *std::move(cached);
  }
  absl::StatusOr<CompileResult> result = compile();
  if (result.ok()) {
    artifacts_->Put(artifact_id, *result);
  }
  return result;
}

std::optional<Artifact> CompileCache::Find(const std::string& artifact_id) {
  auto cached = artifacts_->Get(artifact_id);
  auto* success = cached ? std::get_if<CompileSuccess>(&cached->result) : nullptr;
  if (success == nullptr) {
    return std::nullopt;
  }
  return std::move(success->artifact);
}

}  // namespace kernelcast::worker
