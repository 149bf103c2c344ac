// kernelcast-orchestrator: connects the parts and waits for a signal.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/crash_journal.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/config/service_flags.h"
#include "common/config/service_host.h"
#include "common/convert/convert.h"
#include "common/llm/client.h"
#include "common/llm_flags/llm_flags.h"
#include "common/metrics/metrics.h"
#include "common/metrics/state_disk.h"
#include "common/rpc/certificate_expiry.h"
#include "common/rpc/server.h"
#include "services/orchestrator/clients/forecaster_pool.h"
#include "services/orchestrator/clients/worker_devices.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/core/merged_observer.h"
#include "services/orchestrator/core/observers.h"
#include "services/orchestrator/generator/llm_writer.h"
#include "services/orchestrator/replicas/shard_set.h"
#include "services/orchestrator/replicas/single_engine.h"
#include "services/orchestrator/rpc/metrics.h"
#include "services/orchestrator/rpc/orchestrator_service.h"
#include "services/orchestrator/rpc/replica_metrics.h"
#include "services/orchestrator/status/log_disk.h"
#include "services/orchestrator/status/status_board.h"
#include "services/orchestrator/status/status_page.h"
#include "services/orchestrator/status/status_server.h"
#include "services/orchestrator/store/sqlite_archive.h"
#include "services/orchestrator/store/sqlite_event_store.h"

namespace kernelcast::orchestrator {
namespace {

constexpr char kSqlite[] = "sqlite";
// A call waits this many lease durations for a holder of its shard: one until a dead holder's lease
// expires, the others for replay.
constexpr double kLeasesWaited = 3;

struct Flags {
  ServiceFlags service;
  std::string status_address = "127.0.0.1:0";
  std::string history_page;
  std::string state_dir = ".";
  std::string store = kSqlite;
  std::string store_password_file;
  bool accept_loss = false;
  bool read_only = false;
  std::optional<double> retention_days;
  std::string archive_dir;
  int store_shards = ShardSetOptions().shards;
  std::string advertise_address;
  double lease_seconds = absl::ToDoubleSeconds(ShardSetOptions().lease);
  std::vector<std::string> workers;
  std::vector<std::string> forecasters;
  double discovery_interval_seconds = absl::ToDoubleSeconds(AddressWatchOptions().interval);
  std::string gpu_model;
  double forecast_timeout_seconds = absl::ToDoubleSeconds(ForecasterPoolOptions().forecast_timeout);
  ChannelOptions client;
  size_t max_in_flight = EngineOptions().max_live_evaluations;
  int confirm = EngineOptions().confirm_candidates;

  llm::LlmFlags llm;
  std::string generator_prompt_directory;
  std::optional<int> generator_max_tokens;
  std::optional<double> generator_temperature;
  double generator_patience_seconds = absl::ToDoubleSeconds(EngineOptions().generation_patience);
  double device_grace_seconds = 10;
};

// Parts for writing kernels. Members are destroyed in reverse order, so that no call outlives the
// client.
struct WriterParts {
  std::unique_ptr<WriterMetrics> metrics;
  std::unique_ptr<LlmWriter> writer;
  std::unique_ptr<llm::EndpointClient> endpoints;
  std::unique_ptr<llm::LlmClient> client;
};

// Where kernels of a target run on a device model: the first healthy worker that measures on it.
KernelSite SiteFor(const WorkerPool& workers, const std::string& target,
                   const std::string& device_model) {
  KernelSite site;
  for (const WorkerView& view : workers.View()) {
    if (!view.healthy) continue;
    for (const v1::TargetDescription& described : view.description.targets()) {
      if (described.target() != target) continue;
      for (const v1::TargetDevice& device : MeasuringDevices(described)) {
        if (DeviceModelOf(target, device.device()) != device_model) continue;
        site.device = kernelcast::FromProto(device.device());
        site.toolchain = described.toolchain();
        site.allowed_flags.assign(described.allowed_flags().begin(),
                                  described.allowed_flags().end());
        return site;
      }
    }
  }
  return site;
}

template <class Pool>
PeerFigures FiguresOf(const Pool& pool) {
  PeerFigures figures;
  for (const auto& view : pool.View()) {
    ++(!view.healthy ? figures.away : view.ejected ? figures.ejected : figures.ready);
  }
  const PeerCounts counts = pool.Counts();
  figures.ejections = counts.ejections;
  figures.repeated_calls = {{"lost", counts.repeated_lost},
                            {"failed", counts.repeated_failed},
                            {"handed_back", counts.repeated_handed_back},
                            {"refused", counts.repeated_refused}};
  return figures;
}

StatusPeers PeersOf(const WorkerPool& pool, const ForecasterPool& forecasters) {
  StatusPeers peers;
  for (const ForecasterView& view : forecasters.View()) {
    peers.forecasters.push_back({.address = view.address,
                                 .healthy = view.healthy,
                                 .draining = view.draining,
                                 .left_out = view.behind || view.ejected,
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
                        CrashJournal* crash_journal, WriterParts& parts) {
  absl::StatusOr<KernelPrompt> prompt = flags.generator_prompt_directory.empty()
                                            ? KernelPrompt::Builtin()
                                            : KernelPrompt::Load(flags.generator_prompt_directory);
  KC_RETURN_IF_ERROR(prompt.status());
  KC_ASSIGN_OR_RETURN(llm::LlmConfig config, llm::CheckedConfigFromFlags(flags.llm));
  std::vector<std::string> names;
  for (const llm::EndpointConfig& endpoint : config.endpoints) {
    names.push_back(endpoint.name);
  }
  LlmWriterOptions options(*std::move(prompt));
  if (flags.llm.max_tokens) options.max_answer_tokens = *flags.llm.max_tokens;
  if (flags.generator_max_tokens) options.max_answer_tokens = *flags.generator_max_tokens;
  options.temperature = flags.generator_temperature;
  options.crash_journal = crash_journal;
  options.site_for = [workers](const std::string& target, const std::string& device_model) {
    return SiteFor(*workers, target, device_model);
  };
  parts.metrics = std::make_unique<WriterMetrics>(metrics, names);
  KC_ASSIGN_OR_RETURN(parts.client, llm::LlmClient::Create(std::move(config), parts.metrics.get()));
  parts.endpoints = std::make_unique<llm::EndpointClient>(parts.client.get());
  parts.writer =
      std::make_unique<LlmWriter>(std::move(options), parts.endpoints.get(), parts.metrics.get());
  return absl::OkStatus();
}

// Notifies the engines, while there are any, that workers have come or gone. The pool outlives the
// engines. Thread-safe.
class CapacityNotifier {
 public:
  void Notify() {
    const std::lock_guard lock(mutex_);
    if (callback_) callback_();
  }
  // Replaces the callback; empty: none. Returns when no call of the previous one is running.
  void SetCallback(std::function<void()> callback) {
    const std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
  }

 private:
  std::mutex mutex_;
  std::function<void()> callback_ ABSL_GUARDED_BY(mutex_);
};

// Parts that do not depend on the location of the log.
struct Parts {
  const Flags& flags;
  ServiceHost& host;
  EngineOptions engine_options;
  EngineObserver* observer = nullptr;
  StatusBoard* board = nullptr;
  const LogDiskWatch* log_disk = nullptr;  // null: the log is in a database
  std::unique_ptr<PageServer>& status;
  WorkerPool* workers = nullptr;
  ForecasterPool* forecasters = nullptr;
  KernelWriter* writer = nullptr;
  CapacityNotifier* notifier = nullptr;
};

// The file of the event log. Nothing: it is in a database.
std::optional<std::string> LogFile(const Flags& flags) {
  if (flags.store != kSqlite) return std::nullopt;
  return std::filesystem::path(flags.state_dir) / "orchestrator.db";
}

// Starts the servers for gRPC and the status page. Returns the gRPC server.
absl::StatusOr<std::unique_ptr<RpcServer>> StartServers(const Parts& parts,
                                                        grpc::Service* service) {
  const Flags& flags = parts.flags;
  KC_ASSIGN_OR_RETURN(auto server,
                      RpcServer::Start(flags.service.server, {service}, &parts.host.metrics()));
  if (!flags.status_address.empty()) {
    const auto render = [board = parts.board, workers = parts.workers,
                         forecasters = parts.forecasters, log_disk = parts.log_disk,
                         history_page = flags.history_page] {
      return RenderStatusPage(board->View(), PeersOf(*workers, *forecasters),
                              Clock::Real().WallNs(),
                              log_disk != nullptr ? log_disk->Look() : std::nullopt,
                              /*log_in_database=*/log_disk == nullptr, history_page);
    };
    KC_ASSIGN_OR_RETURN(parts.status, ServeStatusPage(flags.status_address, render));
  }
  return server;
}

absl::Status AnnounceReady(const Parts& parts, const RpcServer& server) {
  const std::string page = parts.status != nullptr ? parts.status->address() : "";
  return parts.host.AnnounceReady(
      {.grpc = server.address(), .health = server.health_address(), .status = page},
      {{"status_page", page}});
}

// Moves what was settled long ago from the log to an archive. An orchestrator that cannot do so
// continues with the log as it is.
void ArchiveOldEvents(const Flags& flags, const SqliteEventStore& store) {
  if (!flags.retention_days) return;
  const auto age = absl::Hours(24) * *flags.retention_days;
  const std::string archives = flags.archive_dir.empty()
                                   ? (std::filesystem::path(flags.state_dir) / "archive").string()
                                   : flags.archive_dir;
  const absl::StatusOr<ArchivedEvents> archived = ArchiveSettled(
      store, *LogFile(flags), Clock::Real().WallNs() - absl::ToInt64Nanoseconds(age), archives);
  if (!archived.ok()) {
    Log(LogLevel::kError, "old evaluations cannot be archived; they stay in the log",
        {{"archive_dir", archives}, {"error", std::string(archived.status().message())}});
  } else if (!archived->folder.empty()) {
    Log(LogLevel::kInfo, "old evaluations are archived",
        {{"archive", archived->folder},
         {"events", archived->events},
         {"searches", archived->searches},
         {"evaluations_outside_searches", archived->evaluations}});
  }
}

// Runs with the log in a local file, as the only process.
absl::Status ServeAlone(const Parts& parts, ReplicaMetrics& replica_metrics) {
  const Flags& flags = parts.flags;
  KC_ASSIGN_OR_RETURN(auto store,
                      SqliteEventStore::Open(*LogFile(flags), {.accept_loss = flags.accept_loss,
                                                               .read_only = flags.read_only}));
  ArchiveOldEvents(flags, *store);
  KC_ASSIGN_OR_RETURN(
      auto engine, Engine::Start(parts.engine_options, store.get(), parts.workers,
                                 parts.forecasters, &Clock::Real(), parts.observer, parts.writer));
  SingleEngine engines(std::move(store), std::move(engine));
  Engine& only = engines.engine();
  parts.notifier->SetCallback([&only] { only.CapacityChanged(); });
  const absl::Cleanup silence = [&parts] { parts.notifier->SetCallback(nullptr); };
  absl::Status failure;
  {
    OrchestratorService service(&engines, parts.workers, parts.forecasters, ChannelOptions(),
                                absl::ZeroDuration(), &replica_metrics);
    KC_ASSIGN_OR_RETURN(const auto server, StartServers(parts, &service));
    KC_RETURN_IF_ERROR(AnnounceReady(parts, *server));
    only.SetFailureCallback([&parts] { parts.host.termination().Wake(); });
    parts.host.Wait();
    failure = only.failure();
    parts.host.Drain(*server, service, failure.ok() ? parts.host.grace() : absl::ZeroDuration());
  }
  return failure;
}

// Whether clients cannot use the listen address as it is.
bool IsWildcard(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.empty() || host == "0.0.0.0" || host == "[::]" || host == "*";
}

// Runs as one of several replicas with the log in a database.
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
  options.database.accept_loss = flags.accept_loss;
  options.shards = flags.store_shards;
  options.lease = absl::Seconds(flags.lease_seconds);
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
    OrchestratorService service(shards.get(), parts.workers, parts.forecasters, flags.client,
                                kLeasesWaited * options.lease, &replica_metrics);
    KC_ASSIGN_OR_RETURN(const auto server, StartServers(parts, &service));
    const std::string address =
        flags.advertise_address.empty() ? server->address() : flags.advertise_address;
    service.set_address(address);
    shards->Start(address, &service);
    parts.notifier->SetCallback([raw = shards.get()] {
      for (const auto& held : raw->Held()) held->engine->CapacityChanged();
    });
    const absl::Status announced = AnnounceReady(parts, *server);
    if (announced.ok()) parts.host.Wait();
    parts.host.Drain(*server, service, announced.ok() ? parts.host.grace() : absl::ZeroDuration());
    parts.notifier->SetCallback(nullptr);
    shards->Stop();
    KC_RETURN_IF_ERROR(announced);
  }
  return absl::OkStatus();
}

// Opens the journal of inputs that crashed the process. With the log in a database there may be no
// writable folder; the orchestrator then runs without a journal.
absl::StatusOr<std::unique_ptr<CrashJournal>> OpenCrashJournal(const Flags& flags) {
  if (flags.read_only) return std::unique_ptr<CrashJournal>();
  std::error_code error;
  std::filesystem::create_directories(flags.state_dir, error);
  if (error && flags.store == kSqlite) {
    return absl::UnavailableError(
        absl::StrCat("--state-dir: ", flags.state_dir, ": ", error.message()));
  }
  auto journal =
      CrashJournal::Open(std::filesystem::path(flags.state_dir) / "orchestrator.crash-journal");
  if (journal.ok() || flags.store == kSqlite) return journal;
  Log(LogLevel::kWarning, "crashes are not counted", {{"error", journal.status().ToString()}});
  return std::unique_ptr<CrashJournal>();
}

// Parts that a normal orchestrator needs, and one that only reads a file cannot use.
absl::Status CheckFlags(const Flags& flags) {
  if (!flags.archive_dir.empty() && !flags.retention_days) {
    return absl::InvalidArgumentError("--archive-dir: is for use together with --retention-days");
  }
  if (flags.read_only) {
    if (flags.store != kSqlite || flags.accept_loss || !flags.workers.empty() ||
        !flags.forecasters.empty() || flags.llm.any() || flags.retention_days) {
      return absl::InvalidArgumentError(
          "--read-only: reads a log in a file, without --accept-loss, --retention-days, workers, "
          "forecasters and models");
    }
    return absl::OkStatus();
  }
  if (flags.retention_days && flags.store != kSqlite) {
    return absl::InvalidArgumentError(
        "--retention-days: is for a log in a file (--store sqlite); a log in a database keeps all "
        "events");
  }
  if (flags.workers.empty()) return absl::InvalidArgumentError("--worker is required");
  if (flags.forecasters.empty()) return absl::InvalidArgumentError("--forecaster is required");
  return absl::OkStatus();
}

absl::Status Serve(const Flags& flags) {
  KC_RETURN_IF_ERROR(CheckFlags(flags));
  KC_ASSIGN_OR_RETURN(const auto host, ServiceHost::Start(flags.service, "kernelcast-orchestrator",
                                                          RandomId("orchestrator-")));
  MetricsRegistry& metrics = host->metrics();
  // Never destroyed, because it would take up to two seconds.
  static auto& status = *new std::unique_ptr<PageServer>;
  CapacityNotifier notifier;
  WorkerPoolOptions pool_options;
  pool_options.discovery.addresses = flags.workers;
  pool_options.discovery.interval = absl::Seconds(flags.discovery_interval_seconds);
  pool_options.gpu_model = flags.gpu_model;
  pool_options.channel = flags.client;
  KC_ASSIGN_OR_RETURN(auto workers,
                      WorkerPool::Create(pool_options, [&notifier] { notifier.Notify(); }));
  ForecasterPoolOptions forecaster_options;
  forecaster_options.discovery = pool_options.discovery;
  forecaster_options.discovery.addresses = flags.forecasters;
  forecaster_options.forecast_timeout = absl::Seconds(flags.forecast_timeout_seconds);
  forecaster_options.channel = pool_options.channel;
  forecaster_options.device_for = [pool = workers.get()](const std::string& target,
                                                         const std::string& device_model) {
    return pool->DeviceFor(target, device_model);
  };
  KC_ASSIGN_OR_RETURN(auto forecasters, ForecasterPool::Create(forecaster_options));
  std::unique_ptr<LogDiskWatch> log_disk;
  std::unique_ptr<StateDisk> state_disk;
  if (const std::optional<std::string> log_file = LogFile(flags)) {
    log_disk = std::make_unique<LogDiskWatch>(*log_file);
    state_disk = std::make_unique<StateDisk>(flags.state_dir, &metrics);
  }
  OrchestratorMetrics observer(&metrics,
                               [pool = workers.get(), others = forecasters.get(), &log_disk] {
                                 if (log_disk != nullptr) {
                                   log_disk->Sample(Clock::Real().MonotonicNs());
                                 }
                                 return AllPeerFigures{FiguresOf(*pool), FiguresOf(*others)};
                               });
  ReplicaMetrics replica_metrics(&metrics);
  StatusBoard board;
  const absl::Cleanup stop_status = [] {
    if (status != nullptr) status->Stop();
  };
  Observers observers({&observer, &board});

  const CertificateExpiry client_certificate("client", flags.client.tls, &metrics);

  KC_ASSIGN_OR_RETURN(const auto crash_journal, OpenCrashJournal(flags));
  WriterParts writer;
  if (flags.llm.any()) {
    KC_RETURN_IF_ERROR(MakeWriter(flags, workers.get(), metrics, crash_journal.get(), writer));
  }

  EngineOptions engine_options;
  engine_options.crash_journal = crash_journal.get();
  engine_options.read_only = flags.read_only;
  engine_options.max_live_evaluations = flags.max_in_flight;
  engine_options.confirm_candidates = flags.confirm;
  engine_options.generation_patience = absl::Seconds(flags.generator_patience_seconds);
  engine_options.device_grace = absl::Seconds(flags.device_grace_seconds);
  const Parts parts = {.flags = flags,
                       .host = *host,
                       .engine_options = engine_options,
                       .observer = &observers,
                       .board = &board,
                       .log_disk = log_disk.get(),
                       .status = status,
                       .workers = workers.get(),
                       .forecasters = forecasters.get(),
                       .writer = writer.writer.get(),
                       .notifier = &notifier};
  return flags.store == kSqlite ? ServeAlone(parts, replica_metrics)
                                : ServeReplica(parts, replica_metrics);
}

absl::StatusOr<int> Main(int argc, char** argv) {
  CLI::App app{"The Kernelcast orchestrator: routes each candidate to a forecast or a measurement.",
               "kernelcast-orchestrator"};
  Flags flags;
  flags.service.server.listen_address = "127.0.0.1:50051";
  AddServiceFlags(app, flags.service);
  app.add_option("--status", flags.status_address,
                 "Address of the status page, host:port; empty: disabled")
      ->capture_default_str();
  app.add_option(
         "--history-page", flags.history_page,
         "URL of a history page that the status page links to, as `kernelcast up` serves it")
      ->check(CLI::Validator(
          [](const std::string& url) {
            return url.starts_with("http://") || url.starts_with("https://")
                       ? std::string()
                       : absl::StrCat("'", url, "' does not begin with http:// or https://");
          },
          "URL"));
  app.add_option("--state-dir", flags.state_dir,
                 "Folder of the event log, if that is a file, and of orchestrator.crash-journal")
      ->capture_default_str();
  app.add_option("--store", flags.store,
                 "The event log: sqlite (a local file), or "
                 "postgresql://USER@HOST/DATABASE?sslmode=verify-full&... (a database shared by "
                 "several orchestrators), without a password")
      ->capture_default_str();
  app.add_option("--store-password-file", flags.store_password_file,
                 "File with the password for the database; read again for each connection");
  app.add_flag("--accept-loss", flags.accept_loss,
               "Accept an event log that has lost acknowledged events: keep the events before the "
               "first loss and delete the others. Use it for one start, if there is no backup");
  app.add_flag("--read-only", flags.read_only,
               "Answer questions about an event log in a file, and do nothing else: no lock, no "
               "worker and no forecaster. Not for use together with the options that name these");
  app.add_option("--retention-days", flags.retention_days,
                 "At each start, searches and evaluations that ended more than this number of days "
                 "ago move "
                 "from an event log in a file to an archive, which --read-only reads [all stay]")
      ->check(NumberFrom(0, 36500));
  app.add_option("--archive-dir", flags.archive_dir,
                 "Folder of the archives of --retention-days [archive in --state-dir]");
  app.add_option("--store-shards", flags.store_shards,
                 "Number of shards of a new log in a database, which are divided among the "
                 "orchestrators; an existing log keeps its number")
      ->capture_default_str()
      ->check(WholeNumberFrom(1, 256));
  app.add_option("--advertise-address", flags.advertise_address,
                 "Address at which other orchestrators of the same database reach this one, "
                 "host:port; by default the listen address, unless that is a wildcard");
  app.add_option("--lease-seconds", flags.lease_seconds,
                 "How long other orchestrators wait before they take the shards of a silent one")
      ->capture_default_str()
      ->check(NumberFrom(1, 600));
  app.add_option("--worker", flags.workers,
                 "Address of a worker, host:port, or of all workers behind a DNS name, "
                 "dns:///name:port; may be given more than once. Required without --read-only");
  app.add_option("--forecaster", flags.forecasters,
                 "Address of a forecaster, in the forms of --worker; may be given more than once. "
                 "Required without --read-only");
  app.add_option("--discovery-interval-seconds", flags.discovery_interval_seconds,
                 "Interval between DNS look-ups; names are also looked up when a process is lost")
      ->capture_default_str()
      ->check(NumberFrom(1, 3600));
  app.add_option("--gpu-model", flags.gpu_model,
                 "GPU for requests for the target cuda that name no device model, by its driver's "
                 "name or a short name such as h100; by default the most common one");
  app.add_option("--device-grace-seconds", flags.device_grace_seconds,
                 "How long a search or evaluation waits for a starting worker before it fails, if "
                 "no worker measures its target or device model")
      ->capture_default_str()
      ->check(NumberFrom(0, 3600));
  app.add_option("--forecast-timeout-seconds", flags.forecast_timeout_seconds,
                 "Timeout of a forecast; reasoning models need minutes")
      ->capture_default_str()
      ->check(NumberFrom(0.1, 3600));
  AddClientFlags(
      app, flags.client, "workers and forecasters", "the certificates of workers and forecasters",
      "calls to workers (role measure), forecasters (roles submit and measure) and other "
      "orchestrators (role submit)");
  app.add_option("--max-in-flight", flags.max_in_flight,
                 "Maximum evaluations in progress; more are refused")
      ->capture_default_str()
      ->check(WholeNumberFrom(1, 1'000'000));
  app.add_option("--confirm", flags.confirm,
                 "Maximum number of a search's best candidates that are measured again at the "
                 "final level; 0: none")
      ->capture_default_str()
      ->check(WholeNumberFrom(0, 32));
  llm::AddLlmFlags(app, flags.llm);
  app.add_option("--generator-prompt-directory", flags.generator_prompt_directory,
                 "Folder of a custom prompt for writing kernels");
  app.add_option("--generator-max-tokens", flags.generator_max_tokens,
                 "The same limit for kernels alone [--llm-max-tokens]")
      ->check(WholeNumberFrom(0, 1'000'000));
  app.add_option("--generator-temperature", flags.generator_temperature,
                 "Sampling temperature; by default the endpoint's")
      ->check(NumberFrom(0, 2));
  app.add_option("--generator-patience-seconds", flags.generator_patience_seconds,
                 "How long a search waits for an unavailable endpoint before it continues with the "
                 "template space or ends")
      ->capture_default_str()
      ->check(NumberFrom(0, 86400));
  if (int code = ParseServiceFlags(app, argc, argv); code >= 0) {
    return code;
  }
  KC_RETURN_IF_ERROR(Serve(flags));
  return 0;
}

}  // namespace
}  // namespace kernelcast::orchestrator

int main(int argc, char** argv) {
  return kernelcast::RunService("orchestrator", kernelcast::orchestrator::Main, argc, argv);
}
