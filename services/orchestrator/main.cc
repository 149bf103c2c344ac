// kernelcast-orchestrator: wires the parts together and waits for a signal.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
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
#include "services/orchestrator/clients/forecaster_pool.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/merged_observer.h"
#include "services/orchestrator/core/observers.h"
#include "services/orchestrator/generator/llm_writer.h"
#include "services/orchestrator/replicas/shard_set.h"
#include "services/orchestrator/rpc/metrics.h"
#include "services/orchestrator/rpc/orchestrator_service.h"
#include "services/orchestrator/rpc/replica_metrics.h"
#include "services/orchestrator/rpc/replica_service.h"
#include "services/orchestrator/status/status_board.h"
#include "services/orchestrator/status/status_page.h"
#include "services/orchestrator/status/status_server.h"
#include "services/orchestrator/store/sqlite_event_store.h"

namespace kernelcast::orchestrator {
namespace {

// A model is asked for this long at start whether it is there.
constexpr int64_t kCheckTimeoutNs = 3'000'000'000;

constexpr char kSqlite[] = "sqlite";
// A call waits so many lives of a lease for somebody to hold its shard: one for the lease of who
// died to run out, and time to replay.
constexpr double kLeasesWaited = 3;

struct Flags {
  ServiceFlags service;
  std::string status_address = "127.0.0.1:0";
  std::string state_dir = ".";
  std::string store = kSqlite;
  std::string store_password_file;
  int store_shards = ShardSetOptions().shards;
  std::string advertise_address;
  double lease_seconds = absl::ToDoubleSeconds(ShardSetOptions().lease);
  std::vector<std::string> workers;
  std::vector<std::string> forecasters;
  double discovery_interval_seconds = absl::ToDoubleSeconds(AddressWatchOptions().interval);
  std::string gpu_model;
  double forecast_timeout_seconds = absl::ToDoubleSeconds(ForecasterPoolOptions().forecast_timeout);
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

// Where kernels of a target run: the first healthy worker that measures on it, with its GPU.
KernelSite SiteFor(const WorkerPool& workers, const std::string& target) {
  KernelSite site;
  for (const WorkerView& view : workers.View()) {
    if (!view.healthy) continue;
    for (const v1::TargetDescription& described : view.description.targets()) {
      if (described.target() != target || !described.can_measure()) continue;
      if (described.device().model() != workers.DeviceFor(target).model) continue;
      site.device = FromProto(described.device());
      site.toolchain = described.toolchain();
      site.allowed_flags.assign(described.allowed_flags().begin(), described.allowed_flags().end());
      return site;
    }
  }
  return site;
}

PeerFigures FiguresOf(const WorkerPool& pool, const ForecasterPool& forecasters) {
  PeerFigures figures;
  for (const WorkerView& view : pool.View()) {
    ++(!view.healthy ? figures.away : view.ejected ? figures.ejected : figures.ready);
  }
  const WorkerPoolCounts counts = pool.Counts();
  figures.ejections = counts.ejections;
  figures.repeated_calls = {{"lost", counts.repeated_lost},
                            {"failed", counts.repeated_failed},
                            {"handed_back", counts.repeated_handed_back},
                            {"refused", counts.repeated_refused}};
  figures.cuda_device = pool.DeviceFor("cuda").model;
  for (const ForecasterView& view : forecasters.View()) {
    ++(!view.healthy ? figures.forecasters_away : figures.forecasters_ready);
  }
  return figures;
}

StatusPeers PeersOf(const WorkerPool& pool, const ForecasterPool& forecasters) {
  StatusPeers peers;
  for (const ForecasterView& view : forecasters.View()) {
    peers.forecasters.push_back({.address = view.address,
                                 .healthy = view.healthy,
                                 .draining = view.draining,
                                 .left_out = view.behind,
                                 .reason = view.unhealthy_reason,
                                 .name = view.name,
                                 .targets = {}});
  }
  for (const WorkerView& view : pool.View()) {
    StatusPeer& peer = peers.workers.emplace_back();
    peer.address = view.address;
    peer.healthy = view.healthy;
    peer.draining = view.description.draining();
    peer.left_out = view.ejected;
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

// Tells engines, while there are any, that workers have come or gone: the pool outlives them.
// Thread-safe.
class CapacityBell {
 public:
  void Ring() {
    const std::lock_guard lock(mutex_);
    if (tell_) tell_();
  }
  // Empty: nobody. Returns when no call of the one before is under way.
  void Tell(std::function<void()> tell) {
    const std::lock_guard lock(mutex_);
    tell_ = std::move(tell);
  }

 private:
  std::mutex mutex_;
  std::function<void()> tell_ ABSL_GUARDED_BY(mutex_);
};

// What does not depend on where the log is.
struct Parts {
  const Flags& flags;
  TerminationSignal& termination;
  MetricsRegistry& metrics;
  EngineOptions engine_options;
  EngineObserver* observer = nullptr;
  StatusBoard* board = nullptr;
  WorkerPool* workers = nullptr;
  ForecasterPool* forecasters = nullptr;
  KernelWriter* writer = nullptr;
  CapacityBell* bell = nullptr;
};

// What listens. The server goes first.
struct Front {
  std::unique_ptr<StatusServer> status;
  std::unique_ptr<RpcServer> server;
};

absl::StatusOr<Front> StartFront(const Parts& parts, grpc::Service* service) {
  const Flags& flags = parts.flags;
  Front front;
  KC_ASSIGN_OR_RETURN(front.server,
                      RpcServer::Start(flags.service.server, {service}, &parts.metrics));
  if (!flags.service.metrics_address.empty()) {
    KC_RETURN_IF_ERROR(parts.metrics.Serve(flags.service.metrics_address));
  }
  if (!flags.status_address.empty()) {
    const auto render = [board = parts.board, workers = parts.workers,
                         forecasters = parts.forecasters] {
      return RenderStatusPage(board->View(), PeersOf(*workers, *forecasters),
                              Clock::Real().WallNs());
    };
    KC_ASSIGN_OR_RETURN(front.status, StatusServer::Start(flags.status_address, render));
  }
  return front;
}

absl::Status TellReady(const Parts& parts, const Front& front) {
  const std::string status_address = front.status != nullptr ? front.status->address() : "";
  KC_RETURN_IF_ERROR(WriteReadyFile(parts.flags.service, {.grpc = front.server->address(),
                                                          .metrics_port = parts.metrics.port(),
                                                          .health = front.server->health_address(),
                                                          .status = status_address}));
  Log(LogLevel::kInfo, "serving",
      {{"address", front.server->address()},
       {"metrics_port", parts.metrics.port()},
       {"status_page", status_address}});
  return absl::OkStatus();
}

// The log in a file of this process alone.
absl::Status ServeAlone(const Parts& parts) {
  const Flags& flags = parts.flags;
  std::error_code error;
  std::filesystem::create_directories(flags.state_dir, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("--state-dir: ", flags.state_dir, ": ", error.message()));
  }
  KC_ASSIGN_OR_RETURN(auto store, SqliteEventStore::Open(std::filesystem::path(flags.state_dir) /
                                                         "orchestrator.db"));
  KC_ASSIGN_OR_RETURN(
      auto engine, Engine::Start(parts.engine_options, store.get(), parts.workers,
                                 parts.forecasters, &Clock::Real(), parts.observer, parts.writer));
  parts.bell->Tell([raw = engine.get()] { raw->CapacityChanged(); });
  absl::Status failure;
  {
    OrchestratorService service(engine.get(), store.get(), parts.workers, parts.forecasters);
    KC_ASSIGN_OR_RETURN(Front front, StartFront(parts, &service));
    KC_RETURN_IF_ERROR(TellReady(parts, front));
    engine->SetFailureCallback([&parts] { parts.termination.Wake(); });
    parts.termination.Wait();
    failure = engine->failure();
    Log(LogLevel::kInfo, "draining");
    front.server->BeginDrain();
    service.BeginDrain();
    front.server->Shutdown(failure.ok() ? absl::Seconds(flags.service.drain_seconds)
                                        : absl::ZeroDuration());
  }
  parts.bell->Tell(nullptr);
  engine.reset();
  return failure;
}

// Whether nobody can reach us under the address that we listen at.
bool IsWildcard(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.empty() || host == "0.0.0.0" || host == "[::]" || host == "*";
}

// The log in a database, with others.
absl::Status ServeReplica(const Parts& parts, ReplicaMetrics& replica_metrics) {
  const Flags& flags = parts.flags;
  if (absl::Status valid = CheckPostgresqlUri(flags.store); !valid.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--store: ", std::string(valid.message()),
                     "; sqlite and postgresql://USER@HOST/DATABASE are allowed, a password in the "
                     "file of --store-password-file"));
  }
  if (flags.advertise_address.empty() && IsWildcard(flags.service.server.listen_address)) {
    return absl::InvalidArgumentError(
        "--advertise-address: with --store other orchestrators must know where to reach this one");
  }
  ShardSetOptions options;
  options.database.uri = flags.store;
  options.database.password_file = flags.store_password_file;
  options.shards = flags.store_shards;
  options.lease = absl::Seconds(flags.lease_seconds);
  ChannelOptions channel;
  channel.tls = flags.client_tls;
  channel.token_file = flags.client_token_file;

  MergedObserver observer(parts.observer);
  KC_ASSIGN_OR_RETURN(auto shards, ShardSet::Create(
                                       options,
                                       [&parts](EventStore* store, EngineObserver* with) {
                                         return Engine::Start(parts.engine_options, store,
                                                              parts.workers, parts.forecasters,
                                                              &Clock::Real(), with, parts.writer);
                                       },
                                       &observer));
  {
    ReplicaService service(shards.get(), parts.workers, parts.forecasters, channel,
                           kLeasesWaited * options.lease, &replica_metrics);
    KC_ASSIGN_OR_RETURN(Front front, StartFront(parts, &service));
    const std::string address =
        flags.advertise_address.empty() ? front.server->address() : flags.advertise_address;
    service.set_address(address);
    shards->Start(address, &service);
    parts.bell->Tell([raw = shards.get()] {
      for (const auto& held : raw->Held()) held->engine->CapacityChanged();
    });
    const absl::Status told = TellReady(parts, front);
    if (told.ok()) parts.termination.Wait();
    Log(LogLevel::kInfo, "draining");
    front.server->BeginDrain();
    service.BeginDrain();
    shards->BeginDrain();
    front.server->Shutdown(told.ok() ? absl::Seconds(flags.service.drain_seconds)
                                     : absl::ZeroDuration());
    parts.bell->Tell(nullptr);
    shards->Stop();
    KC_RETURN_IF_ERROR(told);
  }
  return absl::OkStatus();
}

absl::Status Serve(const Flags& flags) {
  TerminationSignal termination;
  MetricsRegistry metrics;
  KC_ASSIGN_OR_RETURN(const auto tracing,
                      ProcessTracing::Start(flags.service.tracing, "kernelcast-orchestrator",
                                            RandomId("orchestrator-"), &metrics));
  CapacityBell bell;
  WorkerPoolOptions pool_options;
  pool_options.discovery.addresses = flags.workers;
  pool_options.discovery.interval = absl::Seconds(flags.discovery_interval_seconds);
  pool_options.gpu_model = flags.gpu_model;
  pool_options.channel.tls = flags.client_tls;
  pool_options.channel.token_file = flags.client_token_file;
  KC_ASSIGN_OR_RETURN(auto workers, WorkerPool::Create(pool_options, [&bell] { bell.Ring(); }));
  ForecasterPoolOptions forecaster_options;
  forecaster_options.discovery = pool_options.discovery;
  forecaster_options.discovery.addresses = flags.forecasters;
  forecaster_options.forecast_timeout = absl::Seconds(flags.forecast_timeout_seconds);
  forecaster_options.channel = pool_options.channel;
  forecaster_options.device_for = [pool = workers.get()](const std::string& target) {
    return pool->DeviceFor(target);
  };
  KC_ASSIGN_OR_RETURN(auto forecasters, ForecasterPool::Create(forecaster_options));
  OrchestratorMetrics observer(&metrics, [pool = workers.get(), others = forecasters.get()] {
    return FiguresOf(*pool, *others);
  });
  ReplicaMetrics replica_metrics(&metrics);
  StatusBoard board;
  Observers observers({&observer, &board});

  const CertificateExpiry client_certificate("client", flags.client_tls, &metrics);

  WriterParts writer;
  if (flags.llm.any()) {
    KC_RETURN_IF_ERROR(MakeWriter(flags, workers.get(), metrics, writer));
  }

  EngineOptions engine_options;
  engine_options.max_live_evaluations = flags.max_in_flight;
  engine_options.confirm_candidates = flags.confirm;
  engine_options.generation_patience = absl::Seconds(flags.generator_patience_seconds);
  const Parts parts = {.flags = flags,
                       .termination = termination,
                       .metrics = metrics,
                       .engine_options = engine_options,
                       .observer = &observers,
                       .board = &board,
                       .workers = workers.get(),
                       .forecasters = forecasters.get(),
                       .writer = writer.writer.get(),
                       .bell = &bell};
  return flags.store == kSqlite ? ServeAlone(parts) : ServeReplica(parts, replica_metrics);
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
  app.add_option("--state-dir", flags.state_dir, "Folder of the event log, where that is a file")
      ->capture_default_str();
  app.add_option("--store", flags.store,
                 "The event log: sqlite, a file of this process, or "
                 "postgresql://USER@HOST/DATABASE?sslmode=verify-full&..., a database that several "
                 "orchestrators share; without a password")
      ->capture_default_str();
  app.add_option("--store-password-file", flags.store_password_file,
                 "File with the password for the database; read again for each connection");
  app.add_option("--store-shards", flags.store_shards,
                 "Parts that a new log in a database is made of, which orchestrators share out "
                 "among them; one that exists keeps its number")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  app.add_option("--advertise-address", flags.advertise_address,
                 "Where other orchestrators of the same database reach this one, host:port; the "
                 "address that it listens at, unless that is all of them");
  app.add_option("--lease-seconds", flags.lease_seconds,
                 "How long an orchestrator that says nothing keeps its part of the log from others")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 600.0));
  app.add_option("--worker", flags.workers,
                 "Address of a worker, host:port, or of all workers of a name, dns:///name:port; "
                 "may be given more than once")
      ->required();
  app.add_option("--forecaster", flags.forecasters,
                 "Address of a forecaster, or of all of a name, as --worker; may be given more "
                 "than once")
      ->required();
  app.add_option("--discovery-interval-seconds", flags.discovery_interval_seconds,
                 "How often names are looked up; besides, whenever one of their processes is lost")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 3600.0));
  app.add_option("--gpu-model", flags.gpu_model,
                 "GPU that the target cuda is measured on, as its driver names it or in short, "
                 "such as h100; that of the first worker that measures unless given");
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
                 "File of the token shown to workers (role measure), to the forecaster (roles "
                 "submit and measure) and to other orchestrators (role submit)");
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
