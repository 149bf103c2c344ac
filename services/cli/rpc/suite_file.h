#ifndef KERNELCAST_SERVICES_CLI_RPC_SUITE_FILE_H_
#define KERNELCAST_SERVICES_CLI_RPC_SUITE_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernelcast/v1/orchestrator.pb.h"
#include "services/cli/report/suite.h"

namespace kernelcast::cli {

// The results of a suite, as they arrive: results.jsonl in its folder. The first line says how the
// candidates are judged, each other line is one result. Later lines about a candidate replace
// earlier ones. A line that was cut off by a crash is ignored.

struct SuiteSettings {
  std::string suite_id;
  std::string title;
  std::string mode;  // as in --mode of `suite`
  std::string baseline;
  std::string rules;
};

inline constexpr std::string_view kSuiteResults = "results.jsonl";

struct SuiteResults {
  SuiteSettings settings;
  std::vector<SuiteTaskInfo> tasks;  // of the last run
  // By task and name. `attempts` counts the lines of each.
  std::map<std::pair<std::string, std::string>, SuiteRow> rows;
  std::map<std::pair<std::string, std::string>, uint64_t> attempts;
};

// The line of a result, also printed with --json. `error` is used if `evaluation` is null.
[[nodiscard]] nlohmann::ordered_json SuiteLine(const SuiteRow& row,
                                               const v1::Evaluation* evaluation);
// Fills `judged`, `target` and `device_model`.
[[nodiscard]] absl::Status TakeEvaluation(const v1::Evaluation& evaluation, SuiteRow& row);

// Reads the results in a suite's folder, or in the file itself. NOT_FOUND: there are none.
// INVALID_ARGUMENT: names file and line of a malformed result.
[[nodiscard]] absl::StatusOr<SuiteResults> ReadSuiteResults(const std::string& path);
// Whether a path is a suite's folder or its file of results.
[[nodiscard]] bool IsSuiteResults(const std::string& path);
// The results of the candidates that the last run had, as they were then.
[[nodiscard]] std::vector<SuiteRow> CurrentRows(const SuiteResults& results);

// The input of the suite's report: the candidates of the last run.
[[nodiscard]] SuiteInput SuiteInputOf(const SuiteResults& results);
// Whether a process adds to the results in a suite's folder.
[[nodiscard]] bool SuiteIsRunning(const std::string& folder);

// A file of results that this process adds to. Not thread-safe.
class SuiteFile {
 public:
  // Makes the folder and the file if they are missing. Cuts a line that is not complete.
  // FAILED_PRECONDITION: another process adds to it. INVALID_ARGUMENT: it has results with other
  // settings, or as ReadSuiteResults.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<SuiteFile>> Open(const std::string& folder,
                                                                       SuiteSettings settings);
  ~SuiteFile();
  SuiteFile(const SuiteFile&) = delete;
  SuiteFile& operator=(const SuiteFile&) = delete;

  // Its content when it was opened, with its own id.
  const SuiteResults& results() const { return results_; }
  // Adds the tasks of this run. Later results are about them.
  [[nodiscard]] absl::Status AddTasks(const std::vector<SuiteTaskInfo>& tasks);
  // Adds a line at once, which is kept if this process is killed. RESOURCE_EXHAUSTED: it cannot be
  // written.
  [[nodiscard]] absl::Status Add(const nlohmann::ordered_json& line);

 private:
  SuiteFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  SuiteResults results_;
};

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_RPC_SUITE_FILE_H_
