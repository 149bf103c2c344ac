// kernelcast-orchestrator: wires the parts together and waits for a signal.

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/service_flags.h"
#include "common/convert/convert.h"
#include "common/llm/client.h"
#include "common/llm_flags/llm_flags.h"
#include "common/metrics/metrics.h"
#include "common/rpc/certificate_expiry.h"
#include "common/rpc/server.h"
#include "services/orchestrator/clients/forecaster_client.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/observers.h"
#include "services/orchestrator/generator/llm_writer.h"
#include "services/orchestrator/rpc/metrics.h"
#include "services/orchestrator/rpc/orchestrator_service.h"
#include "services/orchestrator/status/status_board.h"
#include "services/orchestrator/status/status_page.h"
#include "services/orchestrator/status/status_server.h"
#include "services/orchestrator/store/sqlite_event_store.h"

namespace kernelcast::orchestrator {
namespace {

// A model is asked for this long at start whether it is there.
constexpr int64_t kCheckTimeoutNs = 3'000'000'000;

struct Flags {
  ServiceFlags service;
  std::string status_address = "127.0.0.1:0";
  std::string state_dir = ".";
  std::vector<std::string> workers;
  std::string forecaster;
  double forecast_timeout_seconds =
      absl::ToDoubleSeconds(ForecasterClientOptions().forecast_timeout);
  TlsOptions client_tls;
  std::string client_token_file;
  size_t max_in_flight = EngineOptions().max_live_evaluations;
  int confirm = EngineOptions().confirm_candidates;

  llm::LlmFlags llm;
  std::string generator_prompt = std::string(kDefaultKernelPrompt);
  std::string generator_prompt_directory;
  int generator_max_tokens = 32'768;
  std::optional<double> generator_temperature;
  double generator_patience_seconds = absl::ToDoubleSeconds(EngineOptions().generation_patience);
};

// What has kernels written. Members go in the reverse order, so that no call is left when the
// client is gone.
struct WriterParts {
  std::unique_ptr<WriterMetrics> metrics;
  std::unique_ptr<LlmWriter> writer;
  std::unique_ptr<llm::EndpointClient> endpoints;
  std::unique_ptr<llm::LlmClient> client;
};

// Where kernels of a target run: the first healthy worker that measures on it.
KernelSite SiteFor(const WorkerPool& workers, const std::string& target) {
  KernelSite site;
  for (const WorkerView& view : workers.View()) {
    if (!view.healthy) continue;
    for (const v1::TargetDescription& described : view.description.targets()) {
      if (described.target() != target || !described.can_measure()) continue;
      site.device = FromProto(described.device());
      site.toolchain = described.toolchain();
      site.allowed_flags.assign(described.allowed_flags().begin(), described.allowed_flags().end());
      return site;
    }
  }
  return site;
}

WorkerFigures FiguresOf(const WorkerPool& pool) {
  WorkerFigures figures;
  for (const WorkerView& view : pool.View()) ++(view.healthy ? figures.ready : figures.away);
  figures.cuda_device = pool.DeviceFor("cuda").model;
  return figures;
}

StatusPeers PeersOf(const WorkerPool& pool, const ForecasterClient& forecasters) {
  StatusPeers peers;
  const ForecasterView forecaster = forecasters.View();
  peers.forecaster = {.address = forecaster.address,
                      .healthy = forecaster.healthy,
                      .draining = false,
                      .reason = forecaster.unhealthy_reason,
                      .name = "",
                      .targets = {}};
  for (const WorkerView& view : pool.View()) {
    StatusPeer& peer = peers.workers.emplace_back();
    peer.address = view.address;
    peer.healthy = view.healthy;
    peer.draining = view.description.draining();
    peer.reason = view.unhealthy_reason;
    peer.name = view.description.worker_id();
    for (const v1::TargetDescription& target : view.description.targets()) {
      if (!target.can_measure()) continue;
      peer.targets.push_back(absl::StrCat(target.target(), " on ", target.device().model()));
    }
  }
  return peers;
}

// `workers` must outlive the parts.
absl::Status MakeWriter(const Flags& flags, const WorkerPool* workers, MetricsRegistry& metrics,
                        WriterParts& parts) {
  absl::StatusOr<KernelPrompt> prompt = flags.generator_prompt_directory.empty()
                                            ? KernelPrompt::Builtin(flags.generator_prompt)
                                            : KernelPrompt::Load(flags.generator_prompt_directory);
  KC_RETURN_IF_ERROR(prompt.status());
  KC_ASSIGN_OR_RETURN(llm::LlmConfig config, llm::ConfigFromFlags(flags.llm, kCheckTimeoutNs));
  std::vector<std::string> names;
  for (const llm::EndpointConfig& endpoint : config.endpoints) {
    names.push_back(endpoint.name);
    // One that says no is a mistake to be mended now; one that is away may come back.
    absl::Status status = llm::CheckEndpoint(endpoint, kCheckTimeoutNs);
    if (status.ok()) continue;
    if (!absl::IsUnavailable(status)) return status;
    Log(LogLevel::kWarning, "an endpoint is away; it is asked all the same",
        {{"endpoint", endpoint.name}, {"error", std::string(status.message())}});
  }
  LlmWriterOptions options(*std::move(prompt));
  options.max_answer_tokens = flags.generator_max_tokens;
  options.temperature = flags.generator_temperature;
  options.site_for = [workers](const std::string& target) { return SiteFor(*workers, target); };
  parts.metrics = std::make_unique<WriterMetrics>(metrics, names);
  KC_ASSIGN_OR_RETURN(parts.client, llm::LlmClient::Create(std::move(config), parts.metrics.get()));
  parts.endpoints = std::make_unique<llm::EndpointClient>(parts.client.get());
  parts.writer =
      std::make_unique<LlmWriter>(std::move(options), parts.endpoints.get(), parts.metrics.get());
  return absl::OkStatus();
}

absl::Status Serve(const Flags& flags) {
  TerminationSignal termination;
  std::error_code error;
  std::filesystem::create_directories(flags.state_dir, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("--state-dir: ", flags.state_dir, ": ", error.message()));
  }
  MetricsRegistry metrics;
  KC_ASSIGN_OR_RETURN(const auto tracing,
                      ProcessTracing::Start(flags.service.tracing, "kernelcast-orchestrator",
                                            RandomId("orchestrator-"), &metrics));
  KC_ASSIGN_OR_RETURN(auto store, SqliteEventStore::Open(std::filesystem::path(flags.state_dir) /
                                                         "orchestrator.db"));

  // The pool outlives the engine that it tells of changes, so it looks the engine up.
  std::atomic<Engine*> engine_for_pool = nullptr;
  WorkerPoolOptions pool_options;
  pool_options.addresses = flags.workers;
  pool_options.channel.tls = flags.client_tls;
  pool_options.channel.token_file = flags.client_token_file;
  KC_ASSIGN_OR_RETURN(auto workers, WorkerPool::Create(pool_options, [&engine_for_pool] {
                        if (Engine* engine = engine_for_pool) engine->CapacityChanged();
                      }));
  OrchestratorMetrics observer(&metrics, [pool = workers.get()] { return FiguresOf(*pool); });
  StatusBoard board;
  Observers observers({&observer, &board});
  ForecasterClientOptions forecaster_options;
  forecaster_options.address = flags.forecaster;
  forecaster_options.forecast_timeout = absl::Seconds(flags.forecast_timeout_seconds);
  forecaster_options.channel = pool_options.channel;
  forecaster_options.device_for = [pool = workers.get()](const std::string& target) {
    return pool->DeviceFor(target);
  };
  KC_ASSIGN_OR_RETURN(auto forecasters, ForecasterClient::Create(forecaster_options));

  const CertificateExpiry client_certificate("client", flags.client_tls, &metrics);

  WriterParts writer;
  if (flags.llm.any()) {
    KC_RETURN_IF_ERROR(MakeWriter(flags, workers.get(), metrics, writer));
  }

  EngineOptions engine_options;
  engine_options.max_live_evaluations = flags.max_in_flight;
  engine_options.confirm_candidates = flags.confirm;
  engine_options.generation_patience = absl::Seconds(flags.generator_patience_seconds);
  KC_ASSIGN_OR_RETURN(auto engine,
                      Engine::Start(engine_options, store.get(), workers.get(), forecasters.get(),
                                    &Clock::Real(), &observers, writer.writer.get()));
  engine_for_pool = engine.get();
  absl::Status failure;
  {
    OrchestratorService service(engine.get(), store.get(), workers.get(), forecasters.get());
    KC_ASSIGN_OR_RETURN(auto server, RpcServer::Start(flags.service.server, {&service}, &metrics));
    if (!flags.service.metrics_address.empty()) {
      KC_RETURN_IF_ERROR(metrics.Serve(flags.service.metrics_address));
    }
    std::unique_ptr<StatusServer> status;
    if (!flags.status_address.empty()) {
      const auto render = [&] {
        return RenderStatusPage(board.View(), PeersOf(*workers, *forecasters),
                                Clock::Real().WallNs());
      };
      KC_ASSIGN_OR_RETURN(status, StatusServer::Start(flags.status_address, render));
    }
    const std::string status_address = status != nullptr ? status->address() : "";
    KC_RETURN_IF_ERROR(WriteReadyFile(flags.service, {.grpc = server->address(),
                                                      .metrics_port = metrics.port(),
                                                      .health = server->health_address(),
                                                      .status = status_address}));
    Log(LogLevel::kInfo, "serving",
        {{"address", server->address()},
         {"metrics_port", metrics.port()},
         {"status_page", status_address}});

    engine->SetFailureCallback([&termination] { termination.Wake(); });
    termination.Wait();
    failure = engine->failure();
    Log(LogLevel::kInfo, "draining");
    server->BeginDrain();
    service.BeginDrain();
    server->Shutdown(failure.ok() ? absl::Seconds(flags.service.drain_seconds)
                                  : absl::ZeroDuration());
  }
  engine_for_pool = nullptr;
  engine.reset();
  return failure;
}

int Main(int argc, char** argv) {
  CLI::App app{"The Kernelcast orchestrator: routes each candidate to a forecast or a measurement.",
               "kernelcast-orchestrator"};
  Flags flags;
  flags.service.server.listen_address = "127.0.0.1:50051";
  AddServiceFlags(app, flags.service);
  app.add_option("--status", flags.status_address,
                 "Address to serve the status page on, host:port; empty: nowhere")
      ->capture_default_str();
  app.add_option("--state-dir", flags.state_dir, "Folder of the event log")->capture_default_str();
  app.add_option("--worker", flags.workers,
                 "Address of a worker, host:port; may be given more than once")
      ->required();
  app.add_option("--forecaster", flags.forecaster, "Address of the forecaster, host:port")
      ->required();
  app.add_option("--forecast-timeout-seconds", flags.forecast_timeout_seconds,
                 "How long a forecast may take; models that reason need minutes")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 3600.0));
  app.add_option("--client-ca-file", flags.client_tls.ca_file,
                 "Authority that workers and forecasters are checked against; turns on TLS");
  app.add_option("--client-certificate-file", flags.client_tls.certificate_file,
                 "Certificate shown to workers and forecasters");
  app.add_option("--client-key-file", flags.client_tls.key_file, "Its key");
  app.add_option("--client-token-file", flags.client_token_file,
                 "File of the token shown to workers (role measure) and to the forecaster (roles "
                 "submit and measure)");
  app.add_option("--max-in-flight", flags.max_in_flight,
                 "Evaluations accepted and not settled; more are refused")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
  app.add_option("--confirm", flags.confirm,
                 "How many of a search's best are measured again at the final level")
      ->capture_default_str()
      ->check(CLI::Range(0, 8));
  llm::AddLlmFlags(app, flags.llm);
  app.add_option("--generator-prompt", flags.generator_prompt,
                 "Prompt that kernels are asked for with")
      ->check(CLI::IsMember(KernelPrompt::BuiltinVersions()))
      ->capture_default_str();
  app.add_option("--generator-prompt-directory", flags.generator_prompt_directory,
                 "Folder of a prompt's files, instead of --generator-prompt");
  app.add_option("--generator-max-tokens", flags.generator_max_tokens,
                 "Most tokens of one answer, reasoning included; 0: the endpoint's own limit")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_option("--generator-temperature", flags.generator_temperature,
                 "Temperature of answers; the endpoint's own unless given")
      ->check(CLI::Range(0.0, 2.0));
  app.add_option("--generator-patience-seconds", flags.generator_patience_seconds,
                 "How long a search waits for an endpoint that is away before it goes on with the "
                 "template space, or ends")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0));
  if (int code = ParseServiceFlags(app, argc, argv); code >= 0) {
    return code;
  }
  SetLogService("orchestrator");
  if (absl::Status status = Serve(flags); !status.ok()) {
    Log(LogLevel::kError, "cannot go on", {{"error", std::string(status.ToString())}});
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::orchestrator

int main(int argc, char** argv) {
  return kernelcast::RunService(kernelcast::orchestrator::Main, argc, argv);
}
