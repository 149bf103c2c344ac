// kernelcast-orchestrator: wires the parts together and waits for a signal.

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/service_flags.h"
#include "common/metrics/metrics.h"
#include "common/rpc/server.h"
#include "services/orchestrator/clients/forecaster_client.h"
#include "services/orchestrator/clients/worker_pool.h"
#include "services/orchestrator/core/engine.h"
#include "services/orchestrator/rpc/metrics.h"
#include "services/orchestrator/rpc/orchestrator_service.h"
#include "services/orchestrator/store/sqlite_event_store.h"

namespace kernelcast::orchestrator {
namespace {

struct Flags {
  ServiceFlags service;
  std::string state_dir = ".";
  std::vector<std::string> workers;
  std::string forecaster;
  double forecast_timeout_seconds =
      absl::ToDoubleSeconds(ForecasterClientOptions().forecast_timeout);
  TlsOptions client_tls;
  size_t max_in_flight = EngineOptions().max_live_evaluations;
  int confirm = EngineOptions().confirm_candidates;
};

absl::Status Serve(const Flags& flags) {
  TerminationSignal termination;
  std::error_code error;
  std::filesystem::create_directories(flags.state_dir, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("--state-dir: ", flags.state_dir, ": ", error.message()));
  }
  MetricsRegistry metrics;
  OrchestratorMetrics observer(&metrics);
  KC_ASSIGN_OR_RETURN(auto store, SqliteEventStore::Open(std::filesystem::path(flags.state_dir) /
                                                         "orchestrator.db"));

  // The pool outlives the engine that it tells of changes, so it looks the engine up.
  std::atomic<Engine*> engine_for_pool = nullptr;
  WorkerPoolOptions pool_options;
  pool_options.addresses = flags.workers;
  pool_options.channel.tls = flags.client_tls;
  KC_ASSIGN_OR_RETURN(auto workers, WorkerPool::Create(pool_options, [&engine_for_pool] {
                        if (Engine* engine = engine_for_pool) engine->CapacityChanged();
                      }));
  ForecasterClientOptions forecaster_options;
  forecaster_options.address = flags.forecaster;
  forecaster_options.forecast_timeout = absl::Seconds(flags.forecast_timeout_seconds);
  forecaster_options.channel.tls = flags.client_tls;
  forecaster_options.device_for = [pool = workers.get()](const std::string& target) {
    return pool->DeviceFor(target);
  };
  KC_ASSIGN_OR_RETURN(auto forecasters, ForecasterClient::Create(forecaster_options));

  EngineOptions engine_options;
  engine_options.max_live_evaluations = flags.max_in_flight;
  engine_options.confirm_candidates = flags.confirm;
  KC_ASSIGN_OR_RETURN(auto engine, Engine::Start(engine_options, store.get(), workers.get(),
                                                 forecasters.get(), &Clock::Real(), &observer));
  engine_for_pool = engine.get();
  absl::Status failure;
  {
    OrchestratorService service(engine.get(), store.get(), workers.get(), forecasters.get());
    KC_ASSIGN_OR_RETURN(auto server, RpcServer::Start(flags.service.server, {&service}, &metrics));
    if (!flags.service.metrics_address.empty()) {
      KC_RETURN_IF_ERROR(metrics.Serve(flags.service.metrics_address));
    }
    KC_RETURN_IF_ERROR(WriteReadyFile(flags.service, server->address(), metrics.port()));
    Log(LogLevel::kInfo, "serving",
        {{"address", server->address()}, {"metrics_port", metrics.port()}});

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
  app.add_option("--max-in-flight", flags.max_in_flight,
                 "Evaluations accepted and not settled; more are refused")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, size_t{1'000'000}));
  app.add_option("--confirm", flags.confirm,
                 "How many of a search's best are measured again at the final level")
      ->capture_default_str()
      ->check(CLI::Range(0, 8));
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
