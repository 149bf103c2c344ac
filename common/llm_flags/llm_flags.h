#ifndef KERNELCAST_COMMON_LLM_FLAGS_LLM_FLAGS_H_
#define KERNELCAST_COMMON_LLM_FLAGS_LLM_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/llm/endpoint_config.h"

namespace kernelcast::llm {

// Flags that select the LLM endpoints: --llm with --llm-model and --llm-key-file, or --llm-config.
// --llm-max-tokens goes with both.
struct LlmFlags {
  std::string url;
  std::string model;  // empty: the endpoint's only model
  std::string key_file;
  std::string config_file;
  // Limit for each answer. Empty: the program's default. 0: the endpoint's.
  std::optional<int> max_tokens;

  // given: whether the flags name an endpoint. any: whether any of them is set.
  bool given() const { return !url.empty() || !config_file.empty(); }
  bool any() const {
    return given() || !model.empty() || !key_file.empty() || max_tokens.has_value();
  }
};

// Adds the flags to a program. With a `prefix`, such as "generator-", they are --generator-llm and
// so on, for the model that the program uses for `purpose`.
void AddLlmFlags(CLI::App& app, LlmFlags& flags, const std::string& prefix = {},
                 const std::string& purpose = {});

// Arguments that pass the same flags to another program, in any working directory.
std::vector<std::string> LlmArguments(const LlmFlags& flags);

// The configuration from the flags. If there is a URL without a model, asks the endpoint for its
// models, for at most `timeout_ns`. INVALID_ARGUMENT: conflicting flags, no flags, or an error of
// ConfigForUrl or LoadLlmConfig. NOT_FOUND: the endpoint lists no model or several; the message
// names them. Other errors as ListModels.
[[nodiscard]] absl::StatusOr<LlmConfig> ConfigFromFlags(const LlmFlags& flags, int64_t timeout_ns);

// As ConfigFromFlags, and checks each endpoint with CheckEndpoint. For the start of a service. Only
// logs that an endpoint is unavailable, because it may come back. Each request takes at most three
// seconds.
[[nodiscard]] absl::StatusOr<LlmConfig> CheckedConfigFromFlags(const LlmFlags& flags);

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_FLAGS_LLM_FLAGS_H_
