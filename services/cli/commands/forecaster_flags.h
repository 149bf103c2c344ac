#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_FORECASTER_FLAGS_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_FORECASTER_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/llm_flags/llm_flags.h"
#include "services/cli/launch/interrupt.h"

namespace kernelcast::cli {

// Flags that choose the forecaster of services started by this command.
struct ForecasterFlags {
  std::string backend;  // empty: pool if a model is given, else embedded
  llm::LlmFlags llm;
  std::string prior;
  std::string prompt;
  std::string prompt_directory;
  int samples = 0;
  std::string compare;
  uint64_t token_budget = 0;
  std::string replay_file;
  std::string record_file;
  // For the orchestrator, which has kernels written by these endpoints, or else by those of `llm`.
  llm::LlmFlags generator_llm;
  std::string generator_prompt_directory;
  double generator_patience_seconds = 0;

  const llm::LlmFlags& writer() const { return generator_llm.any() ? generator_llm : llm; }
  // Whether any flag was given.
  bool given() const {
    return !backend.empty() || llm.any() || generator_llm.any() || !prior.empty() ||
           !prompt.empty() || !prompt_directory.empty() || samples > 0 || !compare.empty() ||
           token_budget > 0 || !replay_file.empty() || !record_file.empty() ||
           !generator_prompt_directory.empty() || generator_patience_seconds > 0;
  }
};

// Whether the word is "embedded", "llm", "pool" or "replay".
bool IsForecasterBackend(std::string_view word);

// Adds the flags of llm::LlmFlags, --forecaster unless `with_backend` is false, and all others.
void AddForecasterFlags(CLI::App& app, ForecasterFlags& flags, bool with_backend = true);

// Adds the flags for writing kernels, for an orchestrator started by this command.
void AddGeneratorServiceFlags(CLI::App& app, ForecasterFlags& flags);

// Checks that the configured endpoints, if any, answer and have the model, so that errors are
// reported before anything is started. Returns the endpoint's status.
[[nodiscard]] absl::Status PrepareForecasts(const ForecasterFlags& flags);
[[nodiscard]] absl::Status CheckEndpoints(const llm::LlmFlags& flags, std::string& found);

// Has each endpoint's model answer a short question. On success `found` says how fast each is. Ends
// early when interrupted. UNAVAILABLE: a model did not answer; the message says why.
[[nodiscard]] absl::Status TryEndpoints(const llm::LlmFlags& flags, const Interrupt& interrupt,
                                        std::string& found);

std::vector<std::string> ForecasterArguments(const ForecasterFlags& flags);
// The endpoints and longer timeouts: a model takes longer than other forecasters.
std::vector<std::string> OrchestratorArguments(const ForecasterFlags& flags);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_FORECASTER_FLAGS_H_
