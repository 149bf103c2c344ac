#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_EXPORT_PROMPTS_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_EXPORT_PROMPTS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/prompt_list.h"
#include "services/cli/commands/question_files.h"
#include "services/cli/report/row_export.h"

namespace kernelcast::cli {

struct PromptExport {
  std::string program_folder;
  PromptFlags prompt;
  ListedPrompt listed;     // the prompt that these flags choose
  std::string bin_scheme;  // for published rows; empty: that of the row
};

struct PromptCounts {
  uint64_t prompts = 0;
  // Rows whose problem is not found in the version that was measured, or whose prompt is too long.
  uint64_t without_problem = 0;
  uint64_t too_long = 0;
};

// Renders the questions of labelled rows as the forecaster does, without asking a model, and calls
// `write` with a line for each: messages, form of the answer, target and provenance of the label.
// docs/reference/formats.md lists the fields.
using WriteRow = std::function<absl::Status(const RowJson& row)>;

// Published rows.
[[nodiscard]] absl::StatusOr<PromptCounts> ExportPrompts(const Context& context,
                                                         const PromptExport& options,
                                                         const std::vector<Comparison>& comparisons,
                                                         const WriteRow& write);
// Rows of exported records, whose prompts have compile facts, tunables and devices.
[[nodiscard]] absl::StatusOr<PromptCounts> ExportPrompts(const Context& context,
                                                         const PromptExport& options,
                                                         const TrainingRows& rows,
                                                         const WriteRow& write);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_EXPORT_PROMPTS_H_
