// kernelcast-forecaster: forecasts how fast candidates will be, and learns from what they turn out
// to be.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/config/service_flags.h"
#include "common/metrics/metrics.h"
#include "common/rpc/server.h"
#include "services/forecaster/embedded/embedded_backend.h"
#include "services/forecaster/rpc/forecaster_service.h"
#include "services/forecaster/store/label_store.h"

namespace kernelcast::forecaster {
namespace {

struct Flags {
  ServiceFlags service;
  std::string state_dir = "kernelcast-state/forecaster";
  std::string forecaster_id;
  std::string backend = std::string(EmbeddedBackend::kName);
  uint64_t seed = 1;
};

int Fail(const absl::Status& status) {
  Log(LogLevel::kError, "the forecaster cannot start", {{"error", std::string(status.message())}});
  return 1;
}

int Run(const Flags& flags) {
  TerminationSignal termination;
  MetricsRegistry metrics;

  absl::StatusOr<std::unique_ptr<LabelStore>> store = LabelStore::Open(flags.state_dir);
  if (!store.ok()) return Fail(store.status());

  EmbeddedOptions embedded_options;
  embedded_options.seed = flags.seed;
  embedded_options.keep_predictions = [&store](const std::vector<StoredPrediction>& predictions) {
    const absl::Status status = (*store)->KeepPredictions(predictions);
    if (status.ok()) return;
    Log(LogLevel::kWarning, "predictions were not kept; a restart makes them again",
        {{"error", std::string(status.message())}});
  };
  EmbeddedBackend embedded(std::move(embedded_options));

  ForecasterService::Options options;
  options.forecaster_id =
      flags.forecaster_id.empty() ? RandomId("forecaster-") : flags.forecaster_id;
  ForecasterService service(options, store->get(), {&embedded}, &metrics, Clock::Real());
  if (const absl::Status status = service.Load(); !status.ok()) return Fail(status);

  absl::StatusOr<std::unique_ptr<RpcServer>> server =
      RpcServer::Start(flags.service.server, {&service}, &metrics);
  if (!server.ok()) return Fail(server.status());
  if (!flags.service.metrics_address.empty()) {
    if (const absl::Status status = metrics.Serve(flags.service.metrics_address); !status.ok()) {
      return Fail(status);
    }
  }
  if (const absl::Status status =
          WriteReadyFile(flags.service, (*server)->address(), metrics.port());
      !status.ok()) {
    return Fail(status);
  }
  Log(LogLevel::kInfo, "serving",
      {{"address", (*server)->address()},
       {"metrics_port", metrics.port()},
       {"forecaster_id", options.forecaster_id},
       {"state_dir", flags.state_dir}});

  const int signal_number = termination.Wait();
  Log(LogLevel::kInfo, "draining", {{"signal", signal_number}});
  (*server)->BeginDrain();
  service.BeginDrain();
  (*server)->Shutdown(absl::Seconds(flags.service.drain_seconds));
  return 0;
}

int Main(int argc, char** argv) {
  SetLogService("forecaster");
  CLI::App app("Forecasts how fast candidate kernels will be, and learns from measurements.",
               "kernelcast-forecaster");
  Flags flags;
  AddServiceFlags(app, flags.service);
  app.add_option("--state-dir", flags.state_dir,
                 "Directory of what was learnt; made where it is missing, one process at a time")
      ->capture_default_str();
  app.add_option("--forecaster-id", flags.forecaster_id,
                 "Name of this process in replies; random unless given");
  app.add_option("--backend", flags.backend, "What makes the forecasts")
      ->check(CLI::IsMember({std::string(EmbeddedBackend::kName)}))
      ->capture_default_str();
  app.add_option("--seed", flags.seed,
                 "Seed of training: the same labels in the same order give the same forecasts")
      ->capture_default_str();
  const int exit_code = ParseServiceFlags(app, argc, argv);
  if (exit_code >= 0) return exit_code;
  return Run(flags);
}

}  // namespace
}  // namespace kernelcast::forecaster

int main(int argc, char** argv) {
  return kernelcast::RunService(kernelcast::forecaster::Main, argc, argv);
}
