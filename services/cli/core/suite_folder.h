#ifndef KERNELCAST_SERVICES_CLI_CORE_SUITE_FOLDER_H_
#define KERNELCAST_SERVICES_CLI_CORE_SUITE_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kernelcast::cli {

// A file with candidates of a task, for ReadCandidates: a source, a solution or JSON lines.
struct SuiteSource {
  std::string path;
  std::string name;     // unique in the task
  std::string author;   // a person, a model or a run; empty: the candidate says
  int64_t sample = -1;  // KernelBench's sample id; -1: none
};

struct SuiteTask {
  std::string name;                  // its path below the suite's folder, without extension
  std::string path;                  // for LoadProblemFolder
  std::string level;                 // "level1", or empty
  std::string category;              // as the folders say: an op type, a problem set; or empty
  int64_t number = 0;                // KernelBench's problem id; 0: none
  std::vector<SuiteSource> sources;  // sorted by name
};

struct SuiteFolder {
  std::vector<SuiteTask> tasks;  // in natural order of their names
  // Files among candidates that belong to no task, or to several.
  std::vector<std::string> unmatched;
};

// Finds the tasks below a folder, and their candidates below it and below `more`, in the layouts of
// docs/howto/suites.md. Does not follow links to folders. NOT_FOUND: there is no such folder,
// or no task in it.
[[nodiscard]] absl::StatusOr<SuiteFolder> FindSuite(const std::string& folder,
                                                    const std::vector<std::string>& more = {});

// Keeps the tasks whose names match one of the shell patterns. NOT_FOUND: none does.
[[nodiscard]] absl::Status KeepTasks(const std::vector<std::string>& patterns, SuiteFolder& found);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_SUITE_FOLDER_H_
