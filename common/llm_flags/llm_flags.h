#ifndef KERNELCAST_COMMON_LLM_FLAGS_LLM_FLAGS_H_
#define KERNELCAST_COMMON_LLM_FLAGS_LLM_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/llm/endpoint_config.h"

namespace kernelcast::llm {

// How a program is told which endpoints to ask: --llm with --llm-model and --llm-key-file, or
// --llm-config.
struct LlmFlags {
  std::string url;
  std::string model;  // empty: the one that the endpoint has
  std::string key_file;
  std::string config_file;

  // Whether they name an endpoint; and whether there are any.
  bool given() const { return !url.empty() || !config_file.empty(); }
  bool any() const { return given() || !model.empty() || !key_file.empty(); }
};

// Declares them in the program.
void AddLlmFlags(CLI::App& app, LlmFlags& flags);

// Arguments that tell another program the same, wherever it runs.
std::vector<std::string> LlmArguments(const LlmFlags& flags);

// What the flags say. Where a URL is given and no model, the endpoint is asked, for `timeout_ns` at
// most. INVALID_ARGUMENT: flags that do not go together, none at all, or what ConfigForUrl and
// LoadLlmConfig say. NOT_FOUND: the endpoint lists no model, or several, which are named. Else as
// ListModels.
[[nodiscard]] absl::StatusOr<LlmConfig> ConfigFromFlags(const LlmFlags& flags, int64_t timeout_ns);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_FLAGS_LLM_FLAGS_H_
