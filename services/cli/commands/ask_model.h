#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_ASK_MODEL_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_ASK_MODEL_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/llm_flags/llm_flags.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/prompt_list.h"

namespace kernelcast::cli {

// Flags of `kernelcast eval` for asking a model before its answers are scored.
struct AskFlags {
  llm::LlmFlags llm;
  std::vector<std::string> prompts;  // each is asked; empty: the forecaster's default
  PromptFlags prompt;                // of which only the directory is a flag
  int samples = 1;
  std::string predictions;
  std::string service_dir;
};

void AddAskFlags(CLI::App& app, AskFlags& flags);

// Asks the model about the pairs in the files that have no answer in flags.predictions, and appends
// each answer to it when it arrives, as a prediction row. Questions that an endpoint did not answer
// are left out, and are asked the next time. `bin_scheme`: the bins that the prompts show; empty:
// those of the row's label.
[[nodiscard]] absl::Status AskModel(Context& context, const AskFlags& flags,
                                    const std::vector<std::string>& files,
                                    const std::string& bin_scheme);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_ASK_MODEL_H_
