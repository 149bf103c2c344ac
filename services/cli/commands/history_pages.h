#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_HISTORY_PAGES_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_HISTORY_PAGES_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/pages/page_server.h"
#include "services/cli/commands/context.h"
#include "services/cli/report/comparison.h"
#include "services/cli/report/history.h"
#include "services/cli/report/suite.h"

namespace kernelcast::cli {

// The history of a state folder: its suites and the searches of the orchestrator that runs on it,
// with their reports and comparisons. Thread-safe.
class HistoryPages {
 public:
  HistoryPages(const Context& context, std::string state_dir);

  PageReply Answer(const PageRequest& request);

 private:
  struct KnownSuite {
    std::filesystem::file_time_type changed;
    uintmax_t bytes = 0;
    HistoryRow row;
  };

  PageReply List();
  absl::StatusOr<std::string> SearchReport(const std::string& id);
  absl::StatusOr<std::string> SuiteReport(const std::string& id);
  absl::StatusOr<std::string> Comparison(const PageRequest& request);
  absl::StatusOr<ComparedSide> SideOf(const std::string& key);
  // NOT_FOUND: no suite has this id.
  absl::StatusOr<std::string> SuiteFolderOf(const std::string& id) const;
  std::vector<HistoryRow> Suites();
  // Reads the results again only if they have changed.
  HistoryRow SuiteRowOf(const std::string& id, const std::string& folder);

  const Context& context_;
  const std::string state_dir_;
  std::mutex mutex_;
  std::map<std::string, KnownSuite> suites_ ABSL_GUARDED_BY(mutex_);  // by id
};

// Serves the pages, and calls nothing of them once PageServer::Stop has returned. `context` must
// outlive that. Errors as PageServer::Start.
[[nodiscard]] absl::StatusOr<std::unique_ptr<PageServer>> ServeHistory(const Context& context,
                                                                       const std::string& state_dir,
                                                                       const std::string& address);

// Makes the suite whose results are in `folder`, outside of the state folder, known to its history.
[[nodiscard]] absl::Status RecordSuite(const std::string& state_dir, const std::string& folder);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_HISTORY_PAGES_H_
