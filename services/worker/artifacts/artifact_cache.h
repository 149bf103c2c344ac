#ifndef KERNELCAST_SERVICES_WORKER_ARTIFACTS_ARTIFACT_CACHE_H_
#define KERNELCAST_SERVICES_WORKER_ARTIFACTS_ARTIFACT_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "services/worker/core/target.h"

namespace kernelcast::worker {

// Compile results on disk, by artefact id: objects with their facts, and errors that recompiling
// would repeat. Bounded in size; evicts the least recently used entries. Entries are written by
// rename and carry a hash of their content, so a crash or a damaged file can lose an entry but
// never corrupt a result. Several processes may share a folder. Thread-safe.
class ArtifactCache {
 public:
  // Creates the folder. UNAVAILABLE: it cannot be created or written to.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ArtifactCache>> Open(
      const std::string& directory, int64_t max_bytes);

  // Marks the entry as used. Removes a damaged entry and returns nullopt.
  std::optional<CompileResult> Get(const std::string& artifact_id);

  // Does nothing if the disk is full, and for errors of the limit stage, which may be transient.
  void Put(const std::string& artifact_id, const CompileResult& result);

  int64_t bytes() const;

 private:
  ArtifactCache(std::string directory, int64_t max_bytes)
      : directory_(std::move(directory)), max_bytes_(max_bytes) {}
  std::string PathOf(const std::string& artifact_id) const;
  void Scan();
  void Evict();

  struct Entry {
    int64_t bytes = 0;
    int64_t last_used = 0;
  };

  const std::string directory_;
  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  // State below is protected by mutex_.
  std::map<std::string, Entry> entries_;  // by file name
  int64_t bytes_ = 0;
  int64_t clock_ = 0;
};

// Content of an entry's file. Decode returns nullopt if it is damaged. For the cache and its tests.
std::string EncodeCacheEntry(const CompileResult& result);
std::optional<CompileResult> DecodeCacheEntry(const std::string& file);

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_ARTIFACTS_ARTIFACT_CACHE_H_
