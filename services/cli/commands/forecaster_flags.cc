#include "services/cli/commands/forecaster_flags.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/llm/client.h"

namespace kernelcast::cli {
namespace {

constexpr std::array<std::string_view, 4> kBackends = {"embedded", "llm", "pool", "replay"};
constexpr int64_t kCheckTimeoutNs = 5'000'000'000;
constexpr const char* kModelTimeoutSeconds = "300";

// Services run in a folder of their own choice.
std::string Absolute(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  return absolute.empty() ? path : absolute.string();
}

std::string BackendOf(const ForecasterFlags& flags) {
  if (!flags.backend.empty()) return flags.backend;
  if (flags.llm.given()) return "pool";
  return flags.replay_file.empty() ? "embedded" : "replay";
}

}  // namespace

bool IsForecasterBackend(std::string_view word) {
  return std::find(kBackends.begin(), kBackends.end(), word) != kBackends.end();
}

void AddLlmFlags(CLI::App& app, llm::LlmFlags& flags) {
  app.add_option("--llm", flags.url,
                 "URL of an OpenAI-compatible endpoint, up to /v1, that models are asked at")
      ->type_name("URL");
  app.add_option("--llm-model", flags.model,
                 "The model's name there [the only one that the endpoint lists]")
      ->type_name("MODEL");
  app.add_option("--llm-key-file", flags.key_file, "File that holds the endpoint's API key")
      ->type_name("FILE");
  app.add_option("--llm-config", flags.config_file,
                 "YAML file of endpoints, instead of --llm; docs/llm.md describes it")
      ->type_name("FILE");
}

void AddForecasterFlags(CLI::App& app, ForecasterFlags& flags, bool with_backend) {
  if (with_backend) {
    app.add_option("--forecaster", flags.backend,
                   "What forecasts: embedded, llm, pool (both), or replay [pool with --llm, else "
                   "embedded]")
        ->check(CLI::IsMember({std::string(kBackends[0]), std::string(kBackends[1]),
                               std::string(kBackends[2]), std::string(kBackends[3])}))
        ->type_name("BACKEND");
  }
  AddLlmFlags(app, flags.llm);
  app.add_option("--prompt", flags.prompt, "Prompt that the model is asked with")
      ->type_name("VERSION");
  app.add_option("--prompt-directory", flags.prompt_directory,
                 "Folder of a prompt of your own, instead of --prompt")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_option("--llm-samples", flags.samples, "Answers to each question, which are pooled")
      ->check(CLI::Range(1, 64))
      ->type_name("K");
  app.add_option("--llm-token-budget", flags.token_budget,
                 "Most tokens spent on the problem [any number]")
      ->type_name("N");
  app.add_option("--replay-forecasts", flags.replay_file,
                 "Forecasts recorded before, for the backend replay")
      ->check(CLI::ExistingFile)
      ->type_name("FILE.jsonl");
  app.add_option("--record-forecasts", flags.record_file,
                 "Append every forecast to this file, for --replay-forecasts")
      ->type_name("FILE.jsonl");
}

void AddGeneratorServiceFlags(CLI::App& app, ForecasterFlags& flags) {
  app.add_option("--generator-prompt-directory", flags.generator_prompt_directory,
                 "Folder of a prompt of your own that kernels are asked for with")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_option("--generator-patience-seconds", flags.generator_patience_seconds,
                 "How long a search waits for an endpoint that is away [120]")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("S");
}

absl::Status CheckEndpoints(const llm::LlmFlags& flags, std::string& found) {
  KC_ASSIGN_OR_RETURN(const llm::LlmConfig config, llm::ConfigFromFlags(flags, kCheckTimeoutNs));
  std::vector<std::string> good;
  for (const llm::EndpointConfig& endpoint : config.endpoints) {
    KC_RETURN_IF_ERROR(llm::CheckEndpoint(endpoint, kCheckTimeoutNs));
    good.push_back(absl::StrCat(endpoint.model, " at ", endpoint.url));
  }
  found = absl::StrJoin(good, "; ");
  return absl::OkStatus();
}

absl::Status PrepareForecasts(const ForecasterFlags& flags) {
  const bool wants_model = flags.backend == "llm" || flags.backend == "pool";
  const bool names_model =
      flags.llm.given() || !flags.llm.model.empty() || !flags.llm.key_file.empty();
  if (!wants_model && !names_model) return absl::OkStatus();
  std::string found;
  return CheckEndpoints(flags.llm, found);
}

std::vector<std::string> ForecasterArguments(const ForecasterFlags& flags) {
  if (!flags.given()) return {};
  std::vector<std::string> arguments = {"--backend", BackendOf(flags)};
  const auto add = [&arguments](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  const auto add_path = [&add](const char* name, const std::string& path) {
    if (!path.empty()) add(name, Absolute(path));
  };
  add("--llm", flags.llm.url);
  add("--llm-model", flags.llm.model);
  add_path("--llm-key-file", flags.llm.key_file);
  add_path("--llm-config", flags.llm.config_file);
  add("--prompt", flags.prompt);
  add_path("--prompt-directory", flags.prompt_directory);
  if (flags.samples > 0) add("--llm-samples", absl::StrCat(flags.samples));
  if (flags.token_budget > 0) add("--llm-token-budget", absl::StrCat(flags.token_budget));
  add_path("--replay", flags.replay_file);
  add_path("--record", flags.record_file);
  return arguments;
}

std::vector<std::string> OrchestratorArguments(const ForecasterFlags& flags) {
  if (!flags.llm.given()) return {};
  std::vector<std::string> arguments = {"--forecast-timeout-seconds", kModelTimeoutSeconds};
  const auto add = [&arguments](const char* name, const std::string& value) {
    if (!value.empty()) arguments.insert(arguments.end(), {name, value});
  };
  const auto add_path = [&add](const char* name, const std::string& path) {
    if (!path.empty()) add(name, Absolute(path));
  };
  add("--llm", flags.llm.url);
  add("--llm-model", flags.llm.model);
  add_path("--llm-key-file", flags.llm.key_file);
  add_path("--llm-config", flags.llm.config_file);
  add_path("--generator-prompt-directory", flags.generator_prompt_directory);
  if (flags.generator_patience_seconds > 0) {
    add("--generator-patience-seconds", absl::StrCat(flags.generator_patience_seconds));
  }
  return arguments;
}

}  // namespace kernelcast::cli
