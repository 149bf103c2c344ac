#ifndef KERNELCAST_SERVICES_CLI_COMMANDS_FORECASTER_FLAGS_H_
#define KERNELCAST_SERVICES_CLI_COMMANDS_FORECASTER_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/llm_flags/llm_flags.h"

namespace kernelcast::cli {

// What forecasts, in services that are brought up here.
struct ForecasterFlags {
  std::string backend;  // empty: pool where a model is given, else embedded
  llm::LlmFlags llm;
  std::string prompt;
  std::string prompt_directory;
  int samples = 0;
  uint64_t token_budget = 0;
  std::string replay_file;
  std::string record_file;
  // Of the orchestrator, which has kernels written by the same endpoints.
  std::string generator_prompt_directory;
  double generator_patience_seconds = 0;

  // Whether any was given.
  bool given() const {
    return !backend.empty() || llm.any() || !prompt.empty() || !prompt_directory.empty() ||
           samples > 0 || token_budget > 0 || !replay_file.empty() || !record_file.empty() ||
           !generator_prompt_directory.empty() || generator_patience_seconds > 0;
  }
};

// "embedded", "llm", "pool" or "replay".
bool IsForecasterBackend(std::string_view word);

// The flags of llm::LlmFlags, --forecaster unless `with_backend` is false, and all else.
void AddForecasterFlags(CLI::App& app, ForecasterFlags& flags, bool with_backend = true);

// What an orchestrator that is brought up here has kernels written with.
void AddGeneratorServiceFlags(CLI::App& app, ForecasterFlags& flags);

// Asks the endpoints, if there are any, whether they are there and have the model: what is wrong is
// told before anything is started. The endpoint's status.
[[nodiscard]] absl::Status PrepareForecasts(const ForecasterFlags& flags);
[[nodiscard]] absl::Status CheckEndpoints(const llm::LlmFlags& flags, std::string& found);

std::vector<std::string> ForecasterArguments(const ForecasterFlags& flags);
// The endpoints, and more time: models take longer than a forecast does otherwise.
std::vector<std::string> OrchestratorArguments(const ForecasterFlags& flags);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_COMMANDS_FORECASTER_FLAGS_H_
