#include "services/cli/commands/forecaster_flags.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/path.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/llm/client.h"
#include "services/cli/core/text.h"

namespace kernelcast::cli {
namespace {

constexpr std::array<std::string_view, 4> kBackends = {"embedded", "llm", "pool", "replay"};
constexpr int64_t kCheckTimeoutNs = 5'000'000'000;
constexpr const char* kModelTimeoutSeconds = "300";
// Enough for a model that reasons before the one word.
constexpr int kTrialTokens = 512;
constexpr int64_t kTrialTimeoutNs = 60'000'000'000;

void Append(std::vector<std::string>& arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

void Add(std::vector<std::string>& arguments, const char* name, const std::string& value) {
  if (!value.empty()) arguments.insert(arguments.end(), {name, value});
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

void AddForecasterFlags(CLI::App& app, ForecasterFlags& flags, bool with_backend) {
  if (with_backend) {
    app.add_option(
           "--forecaster", flags.backend,
           "Forecaster: embedded, llm, pool (both), or replay [pool with --llm, else embedded]")
        ->check(CLI::IsMember({std::string(kBackends[0]), std::string(kBackends[1]),
                               std::string(kBackends[2]), std::string(kBackends[3])}))
        ->type_name("BACKEND");
  }
  app.add_option("--prior", flags.prior,
                 "Prior of the embedded forecaster: a file of `kernelcast train`, none or shipped "
                 "[shipped]")
      ->type_name("FILE");
  llm::AddLlmFlags(app, flags.llm);
  app.add_option("--prompt", flags.prompt, "Prompt for the model")->type_name("VERSION");
  app.add_option("--prompt-directory", flags.prompt_directory,
                 "Folder of a custom prompt, instead of --prompt")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_option("--llm-samples", flags.samples, "Number of answers per question, which are pooled")
      ->check(WholeNumberFrom(1, 64))
      ->type_name("K");
  app.add_option("--llm-compare", flags.compare,
                 "Compare a candidate with its measured parent or the incumbent (anchor), or also "
                 "with the reference (both) [anchor]")
      ->check(CLI::IsMember({"anchor", "both"}))
      ->type_name("WITH");
  app.add_option("--llm-token-budget", flags.token_budget,
                 "Maximum number of tokens spent on the problem [unlimited]")
      ->check(WholeNumberFrom(0))
      ->type_name("N");
  app.add_option("--replay-forecasts", flags.replay_file,
                 "Recorded forecasts, for the replay backend")
      ->check(CLI::ExistingFile)
      ->type_name("FILE.jsonl");
  app.add_option("--record-forecasts", flags.record_file,
                 "Append every forecast to this file, for --replay-forecasts")
      ->type_name("FILE.jsonl");
}

void AddGeneratorServiceFlags(CLI::App& app, ForecasterFlags& flags) {
  llm::AddLlmFlags(app, flags.generator_llm, "generator-", "for writing kernels");
  app.add_option("--generator-prompt-directory", flags.generator_prompt_directory,
                 "Folder of a custom prompt for writing kernels")
      ->check(CLI::ExistingDirectory)
      ->type_name("DIR");
  app.add_option("--generator-patience-seconds", flags.generator_patience_seconds,
                 "How long a search waits for an unavailable endpoint [120]")
      ->check(NumberFrom(0, 86400))
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

absl::Status TryEndpoints(const llm::LlmFlags& flags, const Interrupt& interrupt,
                          std::string& found) {
  KC_ASSIGN_OR_RETURN(const llm::LlmConfig config, llm::ConfigFromFlags(flags, kCheckTimeoutNs));
  std::vector<std::string> answered;
  for (const llm::EndpointConfig& endpoint : config.endpoints) {
    llm::LlmConfig one = config;
    one.endpoints = {endpoint};
    KC_ASSIGN_OR_RETURN(const auto client, llm::LlmClient::Create(std::move(one)));
    llm::ChatRequest request;
    request.prompt = std::make_shared<const llm::Prompt>(
        std::vector<llm::ChatMessage>{{"user", "Reply with the word ready."}});
    request.max_tokens = flags.max_tokens.value_or(kTrialTokens);
    request.deadline_ns = Clock::Real().MonotonicNs() + kTrialTimeoutNs;
    std::promise<llm::ChatOutcome> promise;
    std::future<llm::ChatOutcome> future = promise.get_future();
    KC_ASSIGN_OR_RETURN(const llm::CallId call,
                        client->Submit(std::move(request), [&promise](llm::ChatOutcome outcome) {
                          promise.set_value(std::move(outcome));
                        }));
    while (future.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      if (interrupt.requested()) client->Cancel(call);
    }
    const llm::ChatOutcome outcome = future.get();
    if (!outcome.ok()) {
      return absl::UnavailableError(absl::StrCat(
          endpoint.model, " at ", endpoint.url, " does not answer: ",
          std::string(llm::ErrorKindName(outcome.error.kind)), ": ", outcome.error.message));
    }
    const double seconds = static_cast<double>(outcome.latency_ns) * 1e-9;
    const int64_t tokens = outcome.answer.usage.completion_tokens;
    answered.push_back(absl::StrCat(endpoint.model, " at ", endpoint.url,
                                    " answers a short question in ", FormatSeconds(seconds),
                                    tokens > 0 ? absl::StrCat(", ", tokens, " tokens") : ""));
  }
  found = absl::StrJoin(answered, "; ");
  return absl::OkStatus();
}

absl::Status PrepareForecasts(const ForecasterFlags& flags) {
  const bool wants_model = flags.backend == "llm" || flags.backend == "pool";
  std::string found;
  if (flags.generator_llm.any()) KC_RETURN_IF_ERROR(CheckEndpoints(flags.generator_llm, found));
  if (!wants_model && !flags.llm.any()) return absl::OkStatus();
  return CheckEndpoints(flags.llm, found);
}

std::vector<std::string> ForecasterArguments(const ForecasterFlags& flags) {
  if (!flags.given()) return {};
  std::vector<std::string> arguments = {"--backend", BackendOf(flags)};
  const bool named = !flags.prior.empty() && flags.prior != "none" && flags.prior != "shipped";
  Add(arguments, "--prior", named ? AbsolutePath(flags.prior) : flags.prior);
  Append(arguments, llm::LlmArguments(flags.llm));
  Add(arguments, "--prompt", flags.prompt);
  Add(arguments, "--prompt-directory", AbsolutePath(flags.prompt_directory));
  if (flags.samples > 0) Add(arguments, "--llm-samples", absl::StrCat(flags.samples));
  Add(arguments, "--llm-compare", flags.compare);
  if (flags.token_budget > 0) {
    Add(arguments, "--llm-token-budget", absl::StrCat(flags.token_budget));
  }
  Add(arguments, "--replay", AbsolutePath(flags.replay_file));
  Add(arguments, "--record", AbsolutePath(flags.record_file));
  return arguments;
}

std::vector<std::string> OrchestratorArguments(const ForecasterFlags& flags) {
  if (!flags.writer().given()) return {};
  std::vector<std::string> arguments;
  if (flags.llm.given()) arguments = {"--forecast-timeout-seconds", kModelTimeoutSeconds};
  Append(arguments, llm::LlmArguments(flags.writer()));
  Add(arguments, "--generator-prompt-directory", AbsolutePath(flags.generator_prompt_directory));
  if (flags.generator_patience_seconds > 0) {
    Add(arguments, "--generator-patience-seconds", absl::StrCat(flags.generator_patience_seconds));
  }
  return arguments;
}

}  // namespace kernelcast::cli
