#ifndef KERNELCAST_SERVICES_FORECASTER_STORE_LABEL_STORE_H_
#define KERNELCAST_SERVICES_FORECASTER_STORE_LABEL_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/forecaster/core/backend.h"
#include "services/forecaster/store/sqlite.h"

namespace kernelcast::forecaster {

// A label to be kept: its content is the caller's business.
struct LabelRecord {
  std::string label_id;
  std::string problem_id;
  std::string target;
  std::string content;
};

struct StoredLabel {
  uint64_t sequence = 0;
  LabelRecord record;
  std::optional<StoredPrediction> prediction;
};

// Labels, the problems that they are about, and what was predicted of them, in one SQLite file with
// write-ahead log and a sync at every commit. Held by one process at a time. Thread-safe; every
// method waits for the disk.
//
// The file grows by the size of each label, for ever: labels are what was paid for with
// measurements. Of the problems without labels only the kMaxIdleProblems put last are kept.
class LabelStore {
 public:
  static constexpr char kFileName[] = "forecaster.db";
  static constexpr int kMaxIdleProblems = 256;

  // Makes the directory and the file where they are missing. UNAVAILABLE: another process holds the
  // file. DATA_LOSS: it is damaged or no database. FAILED_PRECONDITION: made by another version.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LabelStore>> Open(
      const std::string& directory);

  // Appends all or nothing, in order. For each label its sequence, or 0 where its id is known
  // already (also from earlier in the same list).
  [[nodiscard]] absl::StatusOr<std::vector<uint64_t>> Append(
      std::span<const LabelRecord* const> labels);

  // Does nothing where the problem is known.
  [[nodiscard]] absl::Status PutProblem(const std::string& problem_id, const std::string& content);
  // NOT_FOUND where it is not known.
  [[nodiscard]] absl::StatusOr<std::string> GetProblem(const std::string& problem_id);

  [[nodiscard]] absl::Status KeepPredictions(const std::vector<StoredPrediction>& predictions);

  // In the order of their sequence. Ends with the first status that is not OK. The callback must
  // not use the store.
  [[nodiscard]] absl::Status ForEachLabel(const std::function<absl::Status(StoredLabel)>& handle);
  // In the order in which they were put.
  [[nodiscard]] absl::Status ForEachProblem(
      const std::function<absl::Status(const std::string& problem_id, const std::string& content)>&
          handle);

 private:
  LabelStore() = default;

  std::mutex mutex_;
  Database database_;
  // Statements after the database, so that they go first.
  Statement append_label_;
  Statement put_problem_;
  Statement drop_idle_problems_;
  Statement get_problem_;
  Statement keep_prediction_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_STORE_LABEL_STORE_H_
