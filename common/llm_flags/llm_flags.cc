#include "common/llm_flags/llm_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/log.h"
#include "common/base/path.h"
#include "common/base/status.h"
#include "common/llm/client.h"

namespace kernelcast::llm {
namespace {

constexpr size_t kNamedModels = 5;
constexpr int64_t kCheckTimeoutNs = 3'000'000'000;

}  // namespace

void AddLlmFlags(CLI::App& app, LlmFlags& flags, const std::string& prefix,
                 const std::string& purpose) {
  const std::string llm = absl::StrCat("--", prefix, "llm");
  const std::string use = purpose.empty() ? "" : absl::StrCat(" ", purpose);
  app.add_option(llm, flags.url,
                 absl::StrCat("Base URL of an OpenAI-compatible endpoint", use,
                              ", which ends in /v1", purpose.empty() ? "" : " [that of --llm]"))
      ->type_name("URL");
  app.add_option(llm + "-model", flags.model,
                 "The model's name there [the only one that the endpoint lists]")
      ->type_name("MODEL");
  app.add_option(llm + "-key-file", flags.key_file,
                 "File that holds the endpoint's API key, on one line")
      ->type_name("FILE");
  app.add_option(llm + "-config", flags.config_file,
                 absl::StrCat("YAML file of endpoints", use, ", instead of ", llm,
                              "; docs/howto/llm.md describes it"))
      ->type_name("FILE");
  app.add_option(
         llm + "-max-tokens", flags.max_tokens,
         absl::StrCat("Maximum tokens of each answer, including reasoning; 0: the "
                      "endpoint's limit ",
                      purpose.empty() ? "[8192 for a forecast, 32768 for a kernel]" : "[32768]"))
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N");
}

std::vector<std::string> LlmArguments(const LlmFlags& flags) {
  std::vector<std::string> arguments;
  const auto add = [&arguments](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  add("--llm", flags.url);
  add("--llm-model", flags.model);
  add("--llm-key-file", AbsolutePath(flags.key_file));
  add("--llm-config", AbsolutePath(flags.config_file));
  if (flags.max_tokens) add("--llm-max-tokens", absl::StrCat(*flags.max_tokens));
  return arguments;
}

absl::StatusOr<LlmConfig> ConfigFromFlags(const LlmFlags& flags, int64_t timeout_ns) {
  if (!flags.config_file.empty()) {
    if (!flags.url.empty() || !flags.model.empty() || !flags.key_file.empty()) {
      return absl::InvalidArgumentError(
          "--llm-config says all of its endpoints: --llm, --llm-model and --llm-key-file do not go "
          "with it");
    }
    return LoadLlmConfig(flags.config_file);
  }
  if (flags.url.empty()) {
    return absl::InvalidArgumentError("a model is wanted: give --llm URL or --llm-config FILE");
  }
  // A placeholder is enough for checks without the network.
  KC_ASSIGN_OR_RETURN(
      LlmConfig config,
      ConfigForUrl(flags.url, flags.model.empty() ? "model" : flags.model, flags.key_file));
  if (!flags.model.empty()) return config;
  EndpointConfig& endpoint = config.endpoints.front();
  KC_ASSIGN_OR_RETURN(std::vector<std::string> models, ListModels(endpoint, timeout_ns));
  if (models.size() != 1) {
    const std::string known = absl::StrCat(
        absl::StrJoin(models.begin(),
                      models.begin() + static_cast<long>(std::min(models.size(), kNamedModels)),
                      ", "),
        models.size() > kNamedModels ? ", ..." : "");
    return absl::NotFoundError(absl::StrCat(
        "endpoint '", endpoint.name, "' ",
        models.empty() ? std::string("does not list its models") : absl::StrCat("has ", known),
        "; choose with --llm-model"));
  }
  endpoint.model = models.front();
  return config;
}

absl::StatusOr<LlmConfig> CheckedConfigFromFlags(const LlmFlags& flags) {
  KC_ASSIGN_OR_RETURN(LlmConfig config, ConfigFromFlags(flags, kCheckTimeoutNs));
  for (const EndpointConfig& endpoint : config.endpoints) {
    const absl::Status status = CheckEndpoint(endpoint, kCheckTimeoutNs);
    if (status.ok()) continue;
    // A refusal is a configuration error and must be fixed now.
    if (!absl::IsUnavailable(status)) return status;
    Log(LogLevel::kWarning, "an endpoint is unavailable; it will be tried again",
        {{"endpoint", endpoint.name}, {"error", std::string(status.message())}});
  }
  return config;
}

}  // namespace kernelcast::llm
