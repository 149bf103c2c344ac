#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/history_pages.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/table.h"
#include "services/cli/core/text.h"
#include "services/cli/launch/local_services.h"

namespace kernelcast::cli {
namespace {

constexpr char kGatewayAddress[] = "127.0.0.1:8080";

struct UpFlags {
  ConnectionFlags connection;
  std::string listen = "127.0.0.1:50051";
  std::string log_level = "info";
  std::string gpus = "all";
  double drain_seconds = 20;
  std::string otlp_endpoint;
  std::optional<double> trace_ratio;  // default: that of the services
  bool accept_loss = false;
  bool with_gateway = false;
  std::string gateway;  // empty: kGatewayAddress
  std::string gateway_serve;
};

// The gateway's flags: the problems that it serves.
std::vector<std::string> GatewayArguments(const Context& context, const UpFlags& flags) {
  std::vector<std::string> arguments;
  if (!flags.gateway_serve.empty()) arguments = {"--serve", flags.gateway_serve};
  for (const std::string& folder : ProblemFolders(context.environment, context.program_folder)) {
    arguments.insert(arguments.end(), {"--problems", folder});
  }
  return arguments;
}

absl::StatusOr<LocalServicesOptions> OptionsOf(Context& context, const UpFlags& flags) {
  Console& console = context.console;
  LocalServicesOptions options;
  KC_ASSIGN_OR_RETURN(options.state_dir, StateDir(context, flags.connection));
  options.program_folder =
      flags.connection.service_dir.empty() ? context.program_folder : flags.connection.service_dir;
  options.orchestrator_listen = flags.listen;
  options.keep_addresses = true;
  options.replay_file = flags.connection.replay_file;
  KC_RETURN_IF_ERROR(PrepareForecasts(flags.connection.forecasts));
  options.worker_arguments = WorkerArguments(context, flags.connection);
  if (flags.gpus != "all") {
    options.worker_arguments.insert(options.worker_arguments.end(), {"--gpus", flags.gpus});
  }
  options.forecaster_arguments = ForecasterArguments(flags.connection.forecasts);
  options.orchestrator_arguments = OrchestratorArguments(flags.connection.forecasts);
  if (!flags.otlp_endpoint.empty()) {
    options.service_arguments.push_back(absl::StrCat("--otlp-endpoint=", flags.otlp_endpoint));
  }
  if (flags.trace_ratio) {
    options.service_arguments.push_back(
        absl::StrCat("--trace-ratio=", FormatNumber(*flags.trace_ratio)));
  }
  options.accept_loss = flags.accept_loss;
  options.log_level = flags.log_level;
  options.drain = absl::Seconds(flags.drain_seconds);
  options.drain_after_interrupt = true;
  options.interrupt = &context.interrupt;
  options.notify = [&console](const std::string& what) { console.Warn(what); };
  options.with_gateway = flags.with_gateway;
  options.gateway_listen = flags.gateway.empty() ? kGatewayAddress : flags.gateway;
  options.gateway_arguments = GatewayArguments(context, flags);
  return options;
}

absl::StatusOr<ExitCode> RunUp(Context& context, const UpFlags& flags) {
  Console& console = context.console;
  KC_ASSIGN_OR_RETURN(LocalServicesOptions options, OptionsOf(context, flags));
  // Never destroyed, because it would take up to two seconds.
  static auto& history = *new std::unique_ptr<PageServer>;
  const absl::Cleanup stop_history = [] {
    if (history != nullptr) history->Stop();
  };
  options.serve_history = [&context, state_dir = options.state_dir](
                              const std::string& address) -> absl::StatusOr<std::string> {
    KC_ASSIGN_OR_RETURN(history, ServeHistory(context, state_dir, address));
    return history->address();
  };
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<LocalServices> services, LocalServices::Start(options));
  context.interrupt.LiftDeadline();
  const ServiceAddresses addresses = services->addresses();
  Table table({{"service"}, {"address"}, {"metrics"}, {"log"}});
  const auto add = [&](const std::string& name, const std::string& address,
                       const std::string& metrics) {
    table.AddRow({name, address,
                  metrics.empty() ? "-" : absl::StrCat("http://", metrics, "/metrics"),
                  absl::StrCat(options.state_dir, "/log/", name, ".log")});
  };
  add("orchestrator", addresses.orchestrator, addresses.orchestrator_metrics);
  add("worker", addresses.worker, addresses.worker_metrics);
  add("forecaster", addresses.forecaster, addresses.forecaster_metrics);
  if (!addresses.gateway.empty()) add("gateway", addresses.gateway, addresses.gateway_metrics);
  console.Out(table.Render(console.style(), 0));
  if (!addresses.orchestrator_status.empty()) {
    console.Out(absl::StrCat("\nstatus page: http://", addresses.orchestrator_status, "/\n"));
  }
  console.Out(absl::StrCat("history: http://", addresses.history, kHistoryPath, "\n"));
  if (!addresses.gateway.empty()) {
    console.Out(absl::StrCat("\ngateway: http://", addresses.gateway, "/\n"));
  }
  console.Out("\nready; Ctrl-C drains and ends the services\n");
  Json line = {{"state_dir", options.state_dir}};
  for (const auto& [name, address] : kAddressFields) line[name] = addresses.*address;
  console.Line(line);
  KC_RETURN_IF_ERROR(console.output_status());
  pollfd wake = {context.interrupt.fd(), POLLIN, 0};
  while (!context.interrupt.requested()) poll(&wake, 1, -1);
  console.Note("draining; interrupt again to quit now");
  services->Drain();
  return ExitCode::kOk;
}

}  // namespace

void AddUpCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<UpFlags>();
  CLI::App* up =
      AddCommand(app, context, "up", "Run the services on this machine until interrupted",
                 [&context, flags] { return RunUp(context, *flags); });
  up->add_option("--listen", flags->listen, "Where the orchestrator listens; port 0 picks one")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  up->add_option("--log-level", flags->log_level, "Log level of the services")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  up->add_option(
        "--gpus", flags->gpus,
        "GPUs to measure on: \"all\", \"none\", or a list of numbers or UUIDs, among those "
        "that CUDA_VISIBLE_DEVICES shows")
      ->capture_default_str()
      ->type_name("LIST");
  up->add_option("--drain-seconds", flags->drain_seconds,
                 "Time for each service to finish requests in flight")
      ->check(NumberFrom(0, 3600))
      ->capture_default_str();
  up->add_option("--otlp-endpoint", flags->otlp_endpoint,
                 "URL of an OpenTelemetry collector that the services send spans to over "
                 "OTLP/HTTP, such as http://HOST:4318; empty: nothing is traced")
      ->type_name("URL");
  up->add_option("--trace-ratio", flags->trace_ratio,
                 "Share of the calls without a trace that begin one; [0.01]")
      ->check(NumberFrom(0, 1))
      ->type_name("RATIO");
  up->add_flag(
      "--accept-loss", flags->accept_loss,
      "Continue with an event log that has lost acknowledged events: keep the events before "
      "the first lost one, delete the others. Use it only without a backup");
  up->add_option_function<std::vector<std::string>>(
        "--gateway",
        [flags](const std::vector<std::string>& address) {
          flags->with_gateway = true;
          if (!address.empty()) flags->gateway = address.front();
        },
        absl::StrCat("Also run the HTTP gateway, on this address; without one on ",
                     kGatewayAddress))
      ->expected(0, 1)
      ->type_name("[HOST:PORT]");
  up->add_option("--gateway-serve", flags->gateway_serve,
                 "The gateway's --serve; without it all problems that are found by name are served")
      ->needs("--gateway")
      ->type_name("FILE");
  AddForecasterFlags(*up, flags->connection.forecasts);
  AddGeneratorServiceFlags(*up, flags->connection.forecasts);
  AddStateFlags(*up, flags->connection);
}

}  // namespace kernelcast::cli
