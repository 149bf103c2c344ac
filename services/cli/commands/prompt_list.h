#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_PROMPT_LIST_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_PROMPT_LIST_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {

// Which prompt the forecaster uses.
struct PromptFlags {
  std::string prompt;  // empty: the forecaster's default
  std::string directory;

  // Arguments that pass them to the forecaster.
  std::vector<std::string> Arguments() const;
};

// Adds --prompt-directory. The commands add --prompt, each with a description of its own.
void AddPromptDirectoryFlag(CLI::App& app, PromptFlags& flags);

struct ListedPrompt {
  std::string version;  // "speedup-bins/2@0123abcd"
  std::string hash;
  std::string answer_schema_hash;
};

// Asks the forecaster's program in the folder for the prompt. INVALID_ARGUMENT: unknown; the
// message lists the built-in ones. Errors of RunForecasterProgram.
[[nodiscard]] absl::StatusOr<ListedPrompt> FindPrompt(const Context& context,
                                                      const std::string& program_folder,
                                                      const PromptFlags& flags);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_PROMPT_LIST_H_
