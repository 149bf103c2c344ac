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
#include "common/sqlite/sqlite.h"
#include "services/forecaster/core/backend.h"

namespace kernelcast::forecaster {

// A label to store. The store does not interpret its content.
struct LabelRecord {
  std::string label_id;
  std::string problem_id;
  std::string target;
  std::string device_model;
  std::string content;
};

struct StoredLabel {
  uint64_t sequence = 0;
  LabelRecord record;
  std::optional<StoredPrediction> prediction;
};

// Labels, their problems, and the predictions made for them, in one SQLite file with a write-ahead
// log and a sync at every commit. Only one process can have it open. Thread-safe; every method
// waits for the disk.
//
// Labels belong to a device model. Files of layout 1, which lacks device models, are upgraded to
// layout 2 when opened; their labels get the device model "unknown".
//
// The file never shrinks, because labels are the result of paid measurements. Of the problems
// without labels only the latest kMaxIdleProblems are kept.
class LabelStore {
 public:
  static constexpr char kFileName[] = "forecaster.db";
  static constexpr int kMaxIdleProblems = 256;

  // Creates the directory and the file if they are missing. UNAVAILABLE: another process has the
  // file open. DATA_LOSS: it is damaged or not a database. FAILED_PRECONDITION: made by another
  // version.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LabelStore>> Open(
      const std::string& directory);

  // Appends all labels or none, in order. Returns the sequence of each label, or 0 if its id is
  // already known, also from earlier in the list.
  [[nodiscard]] absl::StatusOr<std::vector<uint64_t>> Append(
      std::span<const LabelRecord* const> labels);

  // Does nothing if the problem is known.
  [[nodiscard]] absl::Status PutProblem(const std::string& problem_id, const std::string& content);
  // NOT_FOUND: the problem is unknown.
  [[nodiscard]] absl::StatusOr<std::string> GetProblem(const std::string& problem_id);

  [[nodiscard]] absl::Status KeepPredictions(const std::vector<StoredPrediction>& predictions);

  // Visits labels in the order of their sequence. Stops at the first status that is not OK. The
  // callback must not use the store.
  [[nodiscard]] absl::Status ForEachLabel(const std::function<absl::Status(StoredLabel)>& handle);
  // Visits problems in the order in which they were put.
  [[nodiscard]] absl::Status ForEachProblem(
      const std::function<absl::Status(const std::string& problem_id, const std::string& content)>&
          handle);

 private:
  LabelStore() = default;

  std::mutex mutex_;
  sqlite::Database database_;
  // Statements come after the database, so that they are destroyed first.
  sqlite::Statement append_label_;
  sqlite::Statement put_problem_;
  sqlite::Statement drop_idle_problems_;
  sqlite::Statement get_problem_;
  sqlite::Statement keep_prediction_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_STORE_LABEL_STORE_H_
