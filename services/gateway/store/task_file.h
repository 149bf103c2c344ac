#ifndef KERNELCAST_SERVICES_GATEWAY_STORE_TASK_FILE_H_
#define KERNELCAST_SERVICES_GATEWAY_STORE_TASK_FILE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/sqlite/sqlite.h"
#include "services/gateway/core/task.h"

namespace kernelcast::gateway {

// Tasks in an SQLite file. When their contents exceed the limit, the oldest are removed. A crash of
// the machine may lose the latest tasks. Thread-safe.
class TaskFile final : public TaskArchive {
 public:
  static constexpr char kFileName[] = "gateway.db";

  // Creates folder and file if they are missing. UNAVAILABLE: another process has the file open.
  // DATA_LOSS: it is damaged. FAILED_PRECONDITION: it has another layout.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TaskFile>> Open(const std::string& directory,
                                                                      int64_t max_bytes);

  absl::Status Put(const Submission& submission, int64_t created_ns) override;
  absl::StatusOr<StoredTask> Find(const std::string& task_id) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& dialect,
                                                const std::string& owner, const std::string& name,
                                                size_t limit, size_t offset) override;
  absl::StatusOr<uint64_t> Count(const std::string& dialect, const std::string& name) override;

 private:
  TaskFile() = default;
  absl::Status Prepare();
  absl::Status Insert(const Submission& submission, int64_t created_ns);
  absl::Status Evict();

  int64_t max_bytes_ = 0;
  std::mutex mutex_;  // guards the members below, and the functions above
  sqlite::Database database_;
  // Statements come after the database, so that they are destroyed first.
  sqlite::Statement find_;
  sqlite::Statement put_;
  sqlite::Statement count_up_;
  sqlite::Statement count_;
  sqlite::Statement list_;
  sqlite::Statement oldest_;
  sqlite::Statement remove_;
  int64_t bytes_ = 0;
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_STORE_TASK_FILE_H_
