// kernelcast-forecaster: forecasts how fast candidates will be, and learns from measurements.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/config/service_flags.h"
#include "common/config/service_host.h"
#include "common/llm/client.h"
#include "common/llm_flags/llm_flags.h"
#include "common/metrics/metrics.h"
#include "common/metrics/state_disk.h"
#include "common/rpc/server.h"
#include "services/forecaster/core/calibrated_backend.h"
#include "services/forecaster/embedded/embedded_backend.h"
#include "services/forecaster/embedded/prior.h"
#include "services/forecaster/llm/combined_comparisons.h"
#include "services/forecaster/llm/llm_backend.h"
#include "services/forecaster/pool/pool_backend.h"
#include "services/forecaster/replay/replay_backend.h"
#include "services/forecaster/rpc/forecast_records.h"
#include "services/forecaster/rpc/forecaster_service.h"
#include "services/forecaster/rpc/question_file.h"
#include "services/forecaster/rpc/training_records.h"
#include "services/forecaster/store/forecast_cache_file.h"
#include "services/forecaster/store/label_store.h"

namespace kernelcast::forecaster {
namespace {

namespace fs = std::filesystem;

// Values of --prior.
constexpr std::string_view kShippedPrior = "shipped";
constexpr std::string_view kNoPrior = "none";

struct Flags {
  ServiceFlags service;
  std::string state_dir = "kernelcast-state/forecaster";
  std::string forecaster_id;
  std::string backend = std::string(EmbeddedBackend::kName);
  uint64_t seed = 1;

  llm::LlmFlags llm;
  std::string prompt = std::string(kDefaultPromptVersion);
  std::string prompt_directory;
  int llm_samples = 1;
  std::optional<double> llm_temperature;
  std::string llm_compare = std::string(kCompareAnchor);
  uint64_t llm_token_budget = 0;
  int64_t llm_cache_mib = 256;

  std::string replay_file;
  std::string record_file;

  std::string prior = std::string(kShippedPrior);
  std::vector<std::string> train_folders;
  std::string train_problems;
  std::string train_output;

  bool list_prompts = false;
  std::string render_file;
  std::string ask_file;
  std::string question_output;
};

// The prior installed next to the program. Empty if there is no such file.
absl::StatusOr<Prior> FindPrior(const std::string& flag) {
  if (flag == kNoPrior) return Prior();
  if (flag != kShippedPrior) return ReadPrior(flag);
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path path = program.parent_path().parent_path() / "share/kernelcast/models/prior.json";
  if (error || !fs::exists(path, error)) return Prior();
  return ReadPrior(path.string());
}

// Trains a prior from the records, writes it and prints its id.
absl::Status Train(const Flags& flags) {
  std::vector<MeasuredProblem> all;
  for (const std::string& folder : flags.train_folders) {
    KC_ASSIGN_OR_RETURN(std::vector<MeasuredProblem> measured,
                        ReadMeasuredProblems(folder, flags.train_problems));
    std::move(measured.begin(), measured.end(), std::back_inserter(all));
  }
  KC_ASSIGN_OR_RETURN(const std::string content, TrainPrior(all, flags.seed));
  KC_ASSIGN_OR_RETURN(const Prior prior, ParsePrior(content));
  std::ofstream file(flags.train_output, std::ios::binary);
  file << content;
  file.close();
  if (!file) return absl::PermissionDeniedError("cannot write " + flags.train_output);
  size_t rows = 0;
  for (const MeasuredProblem& problem : all) rows += problem.rows.size();
  std::printf("%s: %s, %zu bytes, from %zu measurements of %zu problems and targets\n",
              flags.train_output.c_str(), prior.id.c_str(), content.size(), rows, all.size());
  return absl::OkStatus();
}

absl::StatusOr<ForecastPrompt> PromptOf(const Flags& flags) {
  return flags.prompt_directory.empty() ? ForecastPrompt::Builtin(flags.prompt)
                                        : ForecastPrompt::Load(flags.prompt_directory);
}

void PrintPrompt(const ForecastPrompt& prompt, bool is_default) {
  const PromptDescription description = prompt.Describe();
  const nlohmann::ordered_json line = {
      {"version", description.version},
      {"default", is_default},
      {"hash", description.hash},
      {"answer_schema_hash", ContentHasher().Add(description.answer_schema).Hex128()}};
  std::printf("%s\n", line.dump().c_str());
}

// Prints one JSON object per line, for exporting training data. The prompt of a folder is the only
// one, and the default.
absl::Status ListPrompts(const Flags& flags) {
  if (!flags.prompt_directory.empty()) {
    KC_ASSIGN_OR_RETURN(const ForecastPrompt prompt, PromptOf(flags));
    PrintPrompt(prompt, /*is_default=*/true);
    return absl::OkStatus();
  }
  for (const std::string& version : ForecastPrompt::BuiltinVersions()) {
    KC_ASSIGN_OR_RETURN(const ForecastPrompt prompt, ForecastPrompt::Builtin(version));
    PrintPrompt(prompt, version == kDefaultPromptVersion);
  }
  return absl::OkStatus();
}

// Parts for asking models. Members are destroyed in reverse order.
struct ModelParts {
  std::unique_ptr<LlmMetrics> metrics;
  std::unique_ptr<ForecastCacheFile> cache;
  std::unique_ptr<llm::LlmClient> client;
  std::unique_ptr<llm::EndpointClient> endpoints;
  std::unique_ptr<LlmBackend> backend;
  std::unique_ptr<CombinedComparisons> combined;  // null with --llm-compare anchor
};

struct LlmParts : ModelParts {
  std::unique_ptr<PoolMetrics> pool_metrics;
  std::unique_ptr<PoolBackend> pool;
  // Backends that can be selected by name. The pool uses the uncalibrated model and is calibrated
  // as a whole.
  std::unique_ptr<CalibratedBackend> calibrated_backend;
  std::unique_ptr<CalibratedBackend> calibrated_pool;
};

// `with_cache`: keeps answers in the state directory.
absl::Status MakeModel(const Flags& flags, MetricsRegistry& metrics, bool with_cache,
                       ModelParts& parts) {
  KC_ASSIGN_OR_RETURN(llm::LlmConfig config, llm::CheckedConfigFromFlags(flags.llm));
  absl::StatusOr<ForecastPrompt> prompt = PromptOf(flags);
  KC_RETURN_IF_ERROR(prompt.status());
  LlmBackendOptions options(*std::move(prompt));
  std::vector<std::string> names;
  for (const llm::EndpointConfig& endpoint : config.endpoints) {
    names.push_back(endpoint.name);
    options.models.push_back(endpoint.model);
  }
  std::ranges::sort(options.models);
  options.models.erase(std::unique(options.models.begin(), options.models.end()),
                       options.models.end());
  options.samples = flags.llm_samples;
  options.max_answer_tokens = flags.llm.max_tokens.value_or(options.max_answer_tokens);
  options.temperature = flags.llm_temperature;
  options.max_problem_tokens = flags.llm_token_budget;
  parts.metrics = std::make_unique<LlmMetrics>(metrics, names);
  if (with_cache && flags.llm_cache_mib > 0) {
    KC_ASSIGN_OR_RETURN(parts.cache,
                        ForecastCacheFile::Open(flags.state_dir, flags.llm_cache_mib << 20));
  }
  KC_ASSIGN_OR_RETURN(parts.client, llm::LlmClient::Create(std::move(config), parts.metrics.get()));
  parts.endpoints = std::make_unique<llm::EndpointClient>(parts.client.get());
  parts.backend = std::make_unique<LlmBackend>(std::move(options), parts.endpoints.get(),
                                               parts.cache.get(), parts.metrics.get());
  return absl::OkStatus();
}

absl::Status MakeLlm(const Flags& flags, MetricsRegistry& metrics, Backend* embedded,
                     LlmParts& parts) {
  KC_RETURN_IF_ERROR(MakeModel(flags, metrics, /*with_cache=*/true, parts));
  Backend* model = parts.backend.get();
  if (flags.llm_compare == kCompareBoth) {
    parts.combined = std::make_unique<CombinedComparisons>(model);
    model = parts.combined.get();
  }
  parts.pool_metrics = std::make_unique<PoolMetrics>(metrics);
  parts.pool =
      std::make_unique<PoolBackend>(PoolOptions(), embedded, model, parts.pool_metrics.get());
  const auto count_alarms = [&metrics](const Backend& backend) {
    prometheus::Counter& alarms = metrics.Counter(
        "kernelcast_forecaster_calibration_alarms_total",
        "Number of times that a backend's forecasts had drifted and its calibration "
        "restarted",
        {{"backend", std::string(backend.name())}});
    return [&alarms] { alarms.Increment(); };
  };
  parts.calibrated_backend = std::make_unique<CalibratedBackend>(model, count_alarms(*model));
  parts.calibrated_pool =
      std::make_unique<CalibratedBackend>(parts.pool.get(), count_alarms(*parts.pool));
  return absl::OkStatus();
}

// Renders the questions of a file, or asks the model.
absl::Status HandleQuestions(const Flags& flags) {
  if (!flags.render_file.empty()) {
    KC_ASSIGN_OR_RETURN(const ForecastPrompt prompt, PromptOf(flags));
    KC_ASSIGN_OR_RETURN(const std::vector<Question> questions, ReadQuestions(flags.render_file));
    return WritePrompts(questions, prompt, LlmBackendOptions(prompt).max_prompt_bytes,
                        flags.question_output);
  }
  KC_ASSIGN_OR_RETURN(std::vector<Question> questions, ReadQuestions(flags.ask_file));
  MetricsRegistry& metrics = ProcessMetrics();
  ModelParts parts;
  KC_RETURN_IF_ERROR(MakeModel(flags, metrics, /*with_cache=*/false, parts));
  return AskQuestions(std::move(questions), *parts.backend, AskOptions(), Clock::Real(),
                      flags.question_output);
}

// All backends that can be selected by name, with the default first.
absl::StatusOr<std::vector<Backend*>> Ordered(std::vector<Backend*> backends,
                                              const std::string& first) {
  const auto chosen = std::ranges::find(backends, first, &Backend::name);
  if (chosen == backends.end()) {
    return absl::InvalidArgumentError(
        first == ReplayBackend::kName
            ? "--backend replay needs --replay FILE"
            : absl::StrCat("--backend ", first, " needs a model: --llm URL, or --llm-config FILE"));
  }
  std::rotate(backends.begin(), chosen, chosen + 1);
  return backends;
}

absl::Status Serve(const Flags& flags) {
  const std::string forecaster_id =
      flags.forecaster_id.empty() ? RandomId("forecaster-") : flags.forecaster_id;
  KC_ASSIGN_OR_RETURN(const auto host,
                      ServiceHost::Start(flags.service, "kernelcast-forecaster", forecaster_id));
  MetricsRegistry& metrics = host->metrics();
  KC_ASSIGN_OR_RETURN(const auto store, LabelStore::Open(flags.state_dir));
  const StateDisk state_disk(flags.state_dir, &metrics);

  EmbeddedOptions embedded_options;
  embedded_options.seed = flags.seed;
  KC_ASSIGN_OR_RETURN(embedded_options.prior, FindPrior(flags.prior));
  if (const std::string& id = embedded_options.prior.id; !id.empty()) {
    Log(LogLevel::kInfo, "starting from a prior", {{"prior", id}});
  }
  embedded_options.keep_predictions = [&store](const std::vector<StoredPrediction>& predictions) {
    const absl::Status status = store->KeepPredictions(predictions);
    if (status.ok()) return;
    Log(LogLevel::kWarning, "predictions were not stored; a restart will compute them again",
        {{"error", std::string(status.message())}});
  };
  // Destroyed after the backends that answer through it.
  std::unique_ptr<ForecastRecorder> recorder;
  EmbeddedBackend embedded(std::move(embedded_options));
  std::unique_ptr<ReplayBackend> replay;
  LlmParts llm_parts;
  std::vector<Backend*> backends = {&embedded};
  if (flags.llm.any()) {
    KC_RETURN_IF_ERROR(MakeLlm(flags, metrics, &embedded, llm_parts));
    backends.insert(backends.end(),
                    {llm_parts.calibrated_backend.get(), llm_parts.calibrated_pool.get()});
  }
  if (!flags.replay_file.empty()) {
    KC_ASSIGN_OR_RETURN(std::vector<RecordedForecast> records,
                        ReadForecastRecords(flags.replay_file));
    replay = std::make_unique<ReplayBackend>(std::move(records));
    backends.push_back(replay.get());
  }
  KC_ASSIGN_OR_RETURN(backends, Ordered(std::move(backends), flags.backend));
  if (!flags.record_file.empty()) {
    KC_ASSIGN_OR_RETURN(recorder, ForecastRecorder::Open(flags.record_file, backends.front()));
    backends.front() = recorder.get();
  }

  ForecasterService::Options options;
  options.forecaster_id = forecaster_id;
  ForecasterService service(options, store.get(), backends, &metrics, Clock::Real());
  KC_RETURN_IF_ERROR(service.Load());
  return host->Serve(service, {{"forecaster_id", options.forecaster_id},
                               {"backend", flags.backend},
                               {"state_dir", flags.state_dir}});
}

absl::StatusOr<int> Main(int argc, char** argv) {
  CLI::App app("Forecasts how fast candidate kernels will be, and learns from measurements.",
               "kernelcast-forecaster");
  Flags flags;
  AddServiceFlags(app, flags.service);
  app.add_option("--state-dir", flags.state_dir,
                 "Directory of labels and cached answers; created if missing; used by one process "
                 "at a time")
      ->capture_default_str();
  app.add_option("--forecaster-id", flags.forecaster_id,
                 "Name of this process in replies; random by default");
  app.add_option("--backend", flags.backend,
                 "Default backend: embedded (models trained here), llm (a language model), pool "
                 "(both) or replay (a record)")
      ->check(CLI::IsMember({std::string(EmbeddedBackend::kName), std::string(LlmBackend::kName),
                             std::string(PoolBackend::kName), std::string(ReplayBackend::kName)}))
      ->capture_default_str();
  app.add_option("--seed", flags.seed,
                 "Seed of training: the same labels in the same order give the same forecasts")
      ->check(WholeNumberFrom(0))
      ->capture_default_str();
  llm::AddLlmFlags(app, flags.llm);
  app.add_option("--prompt", flags.prompt, "Prompt for forecasts")
      ->check(CLI::IsMember(ForecastPrompt::BuiltinVersions()))
      ->capture_default_str();
  app.add_option("--prompt-directory", flags.prompt_directory,
                 "Folder with prompt.json, system.txt and user.txt, instead of --prompt");
  app.add_option("--llm-samples", flags.llm_samples,
                 "Number of answers per question, which are pooled")
      ->check(WholeNumberFrom(1, 64))
      ->capture_default_str();
  app.add_option(
         "--llm-compare", flags.llm_compare,
         "What the model compares a candidate with: its anchor, which is the measured parent "
         "or the incumbent, or both the anchor and the reference, in two questions")
      ->check(CLI::IsMember({std::string(kCompareAnchor), std::string(kCompareBoth)}))
      ->capture_default_str();
  app.add_option("--llm-temperature", flags.llm_temperature,
                 "Sampling temperature; by default the endpoint's")
      ->check(NumberFrom(0, 2));
  app.add_option(
         "--llm-token-budget", flags.llm_token_budget,
         "Maximum tokens spent on one problem during the lifetime of this process; 0: no limit")
      ->check(WholeNumberFrom(0))
      ->capture_default_str();
  app.add_option("--llm-cache-mib", flags.llm_cache_mib,
                 "Maximum size of the answer cache in the state directory, in MiB; 0: no cache")
      ->check(WholeNumberFrom(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--replay", flags.replay_file,
                 "Recorded forecasts, from --record or kernelcast export, for the backend replay");
  app.add_option("--record", flags.record_file,
                 "File to which the forecasts of --backend are appended, for --replay");
  app.add_option("--prior", flags.prior,
                 "Pretrained model from which the embedded backend starts: a file, shipped (the "
                 "one installed with this program, if any) or none")
      ->capture_default_str();
  auto* train = app.add_option("--train", flags.train_folders,
                               "Train a prior instead of serving, from folders of measured "
                               "PROBLEM.jsonl[.gz] as written by kernelcast export")
                    ->group("Training");
  auto* problems =
      app.add_option("--train-problems", flags.train_problems, "Folder of the measured problems")
          ->group("Training");
  auto* output = app.add_option("--train-output", flags.train_output, "Output file of the prior")
                     ->group("Training");
  train->needs(problems)->needs(output);
  app.add_flag("--list-prompts", flags.list_prompts,
               "Print the built-in prompts with their hashes, one JSON object per line, instead of "
               "serving; with --prompt-directory, that prompt")
      ->group("Training");
  auto* render = app.add_option("--render", flags.render_file,
                                "Write the prompts of the questions in this file instead of "
                                "serving, as for kernelcast export --prompts")
                     ->group("Training");
  auto* ask = app.add_option("--ask", flags.ask_file,
                             "Ask the model the questions in this file instead of serving, as for "
                             "kernelcast eval --llm")
                  ->group("Training");
  auto* question_output = app.add_option("--question-output", flags.question_output,
                                         "Output file of --render and --ask")
                              ->group("Training");
  render->needs(question_output)->excludes(ask);
  ask->needs(question_output);
  const int exit_code = ParseServiceFlags(app, argc, argv);
  if (exit_code >= 0) return exit_code;
  const auto ended = [](const absl::Status& status) {
    if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return status.ok() ? 0 : 1;
  };
  if (flags.list_prompts) return ended(ListPrompts(flags));
  if (!flags.train_folders.empty()) return ended(Train(flags));
  if (!flags.render_file.empty() || !flags.ask_file.empty()) return ended(HandleQuestions(flags));
  KC_RETURN_IF_ERROR(Serve(flags));
  return 0;
}

}  // namespace
}  // namespace kernelcast::forecaster

int main(int argc, char** argv) {
  return kernelcast::RunService("forecaster", kernelcast::forecaster::Main, argc, argv);
}
