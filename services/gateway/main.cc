// kernelcast-gateway: connects the parts and waits for a signal.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "common/config/service_flags.h"
#include "common/config/service_host.h"
#include "common/metrics/metrics.h"
#include "common/metrics/state_disk.h"
#include "common/rpc/certificate_expiry.h"
#include "common/rpc/file_watch.h"
#include "common/rpc/local_address.h"
#include "common/rpc/token_check.h"
#include "services/gateway/clients/orchestrator_evaluator.h"
#include "services/gateway/core/catalogue.h"
#include "services/gateway/core/task_desk.h"
#include "services/gateway/dialects/dialects.h"
#include "services/gateway/http/front.h"
#include "services/gateway/http/http_server.h"
#include "services/gateway/http/task_metrics.h"
#include "services/gateway/store/task_file.h"

namespace kernelcast::gateway {
namespace {

constexpr absl::Duration kPutTimeout = absl::Seconds(10);
constexpr absl::Duration kRecallWait = absl::Seconds(2);
// Threads that answer while all others wait for tasks.
constexpr int kFreeThreads = 16;
constexpr int kHealthThreads = 4;

struct Flags {
  ServiceFlags service;
  std::string serve_file;
  std::vector<std::string> problem_folders;
  std::string orchestrator;
  ChannelOptions client;
  std::string state_dir = ".";
  bool behind_tls_proxy = false;
  HttpServerOptions http;
  TaskDeskOptions desk;
  int64_t archive_bytes = int64_t{1} << 30;
  double patience_seconds = absl::ToDoubleSeconds(OrchestratorEvaluatorOptions().patience);
  double wait_seconds = absl::ToDoubleSeconds(DialectContext().longest_wait);
};

struct Tokens {
  std::shared_ptr<TokenCheck> check;  // null: none are needed
  std::unique_ptr<FileWatch> watch;
};

absl::StatusOr<Tokens> ReadTokens(const Flags& flags, MetricsRegistry* metrics) {
  const ServerOptions& server = flags.service.server;
  const bool leaves_machine = !IsLocalAddress(server.listen_address);
  Tokens tokens;
  if (server.token_file.empty()) {
    if (leaves_machine && server.tls.ca_file.empty()) {
      Log(LogLevel::kWarning,
          "serving without authentication: neither tokens nor certificates are required",
          {{"address", server.listen_address}});
    }
    return tokens;
  }
  if (leaves_machine && server.tls.certificate_file.empty() && !flags.behind_tls_proxy) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens would cross the network to ", server.listen_address,
                     " in the clear: turn on TLS, listen on 127.0.0.1, or put a proxy with TLS in "
                     "front and give --behind-tls-proxy"));
  }
  KC_ASSIGN_OR_RETURN(tokens.check, TokenCheck::Create(server.token_file, metrics));
  tokens.watch = std::make_unique<FileWatch>(std::vector<std::string>{server.token_file},
                                             server.token_reload_interval,
                                             [check = tokens.check.get()] { check->Reload(); });
  return tokens;
}

absl::StatusOr<Catalogue> ReadCatalogue(const Flags& flags) {
  if (!flags.serve_file.empty()) return Catalogue::Read(flags.serve_file, flags.problem_folders);
  if (flags.problem_folders.empty()) {
    return absl::InvalidArgumentError("no problem is served: give --serve or --problems");
  }
  return Catalogue::ReadFolders(flags.problem_folders);
}

// Puts all problems and sets their default targets. A refused problem is a configuration error. If
// the orchestrator is unavailable, problems keep their targets and are put when they are needed.
absl::Status PutProblems(OrchestratorEvaluator& evaluator, Catalogue& catalogue) {
  for (size_t i = 0; i < catalogue.served().size(); ++i) {
    const Served& served = catalogue.served()[i];
    const auto target = evaluator.PutProblem(served.problem.files, kPutTimeout);
    if (target.ok()) {
      catalogue.SetDefaultTarget(i, *target);
      continue;
    }
    const absl::Status& put = target.status();
    if (!absl::IsUnavailable(put) && !absl::IsDeadlineExceeded(put)) {
      return WithPrefix(absl::StrCat(served.name, ": "), put);
    }
    Log(LogLevel::kWarning, "the orchestrator is unavailable; problems are put later",
        {{"error", std::string(put.message())}});
    break;
  }
  return absl::OkStatus();
}

absl::Status Serve(const Flags& flags) {
  KC_ASSIGN_OR_RETURN(const auto host, ServiceHost::Start(flags.service, "kernelcast-gateway",
                                                          RandomId("gateway-")));
  MetricsRegistry& metrics = host->metrics();
  const CertificateExpiry client_certificate("client", flags.client.tls, &metrics);
  KC_ASSIGN_OR_RETURN(Catalogue catalogue, ReadCatalogue(flags));
  KC_ASSIGN_OR_RETURN(const Tokens tokens, ReadTokens(flags, &metrics));
  KC_ASSIGN_OR_RETURN(const auto archive, TaskFile::Open(flags.state_dir, flags.archive_bytes));
  const StateDisk state_disk(flags.state_dir, &metrics);

  DialectContext context;
  context.catalogue = &catalogue;
  context.archive = archive.get();
  context.clock = &Clock::Real();
  context.longest_wait = absl::Seconds(flags.wait_seconds);
  std::vector<std::string> names;
  for (const auto& dialect : MakeDialects(context)) names.emplace_back(dialect->name());
  TaskMetrics task_metrics(&metrics, names);

  OrchestratorEvaluatorOptions asking;
  asking.address = flags.orchestrator;
  asking.channel = flags.client;
  asking.patience = absl::Seconds(flags.patience_seconds);
  asking.files_of = [&catalogue](std::string_view id) { return catalogue.FilesOf(id); };
  asking.on_repeat = [&task_metrics] { task_metrics.OnRepeat(); };
  KC_ASSIGN_OR_RETURN(const auto evaluator, OrchestratorEvaluator::Create(asking));
  KC_RETURN_IF_ERROR(PutProblems(*evaluator, catalogue));

  TaskDeskOptions desk_options = flags.desk;
  desk_options.recall_wait = kRecallWait;
  desk_options.max_waiting = static_cast<size_t>(flags.http.threads - kFreeThreads);
  TaskDesk desk(desk_options, evaluator.get(), archive.get(), &Clock::Real(), &task_metrics);
  const absl::Cleanup stop_calls = [&evaluator] { evaluator->Stop(); };
  context.desk = &desk;
  context.evaluator = evaluator.get();
  Front front(context, MakeDialects(context), tokens.check.get(), &metrics);
  HttpServerOptions http = flags.http;
  http.address = flags.service.server.listen_address;
  http.tls = flags.service.server.tls;
  KC_ASSIGN_OR_RETURN(const auto server, HttpServer::Start(http, &front));
  const CertificateExpiry server_certificate("server", http.tls, &metrics);
  // Without dialects it serves only health.
  Front health_front(context, {}, nullptr, &metrics);
  std::unique_ptr<HttpServer> health;
  if (!flags.service.server.health_address.empty()) {
    KC_ASSIGN_OR_RETURN(health, HttpServer::Start({.address = flags.service.server.health_address,
                                                   .threads = kHealthThreads},
                                                  &health_front));
  }
  const absl::Status status = host->AnnounceReady(
      {.health = health == nullptr ? "" : health->address(), .http = server->address()});
  if (status.ok()) host->Wait();
  // Tasks that have not ended go on in the orchestrator, and are asked for again after a restart.
  desk.Drain(status.ok() ? host->grace() : absl::ZeroDuration());
  return status;
}

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--serve", flags.serve_file,
                 "YAML file of the problems that are served, and their names; see "
                 "docs/howto/gateways.md. Without it all problems of --problems are served");
  app.add_option("--problems", flags.problem_folders,
                 "Folder in which problems are found by name; may be repeated");
  app.add_option("--orchestrator", flags.orchestrator,
                 "Address of the orchestrator, host:port or dns:///name:port")
      ->required();
  AddClientFlags(app, flags.client, "the orchestrator", "the certificate of the orchestrator",
                 "the orchestrator (role submit)");
  app.add_option("--state-dir", flags.state_dir, "Folder of gateway.db, which has the submissions")
      ->capture_default_str();
  app.add_option("--archive-bytes", flags.archive_bytes,
                 "Maximum size of the submissions in gateway.db; the oldest are dropped")
      ->capture_default_str()
      ->check(WholeNumberFrom(1 << 20, int64_t{1} << 40));
  app.add_flag("--behind-tls-proxy", flags.behind_tls_proxy,
               "A proxy with TLS is in front, so that tokens are allowed on an address that other "
               "machines can reach");
  app.add_option("--threads", flags.http.threads, "Maximum number of requests at the same time")
      ->capture_default_str()
      ->check(WholeNumberFrom(2 * kFreeThreads, 4096));
  app.add_option("--max-body-bytes", flags.http.max_body_bytes, "Maximum size of a request's body")
      ->capture_default_str()
      ->check(WholeNumberFrom(1 << 10, 256 << 20));
  app.add_option("--max-pending", flags.desk.max_pending,
                 "Maximum number of tasks that have not ended; more are refused with status 429")
      ->capture_default_str()
      ->check(WholeNumberFrom(1, 1'000'000));
  app.add_option("--max-finished", flags.desk.max_finished,
                 "Maximum number of finished tasks in memory; the results of others are asked for "
                 "again")
      ->capture_default_str()
      ->check(WholeNumberFrom(1, 1'000'000));
  app.add_option(
         "--wait-seconds", flags.wait_seconds,
         "Longest time that a request waits for its result; slime's clients give up after 120")
      ->capture_default_str()
      ->check(NumberFrom(0, 86400));
  app.add_option("--patience-seconds", flags.patience_seconds,
                 "How long a task waits for an orchestrator that is away or busy, before it ends "
                 "without a verdict")
      ->capture_default_str()
      ->check(NumberFrom(1, 86400));
}

absl::StatusOr<int> Main(int argc, char** argv) {
  CLI::App app{"The Kernelcast gateway: HTTP APIs of other projects in front of an orchestrator.",
               "kernelcast-gateway"};
  Flags flags;
  flags.service.server.listen_address = "127.0.0.1:8080";
  AddHttpServiceFlags(app, flags.service);
  AddFlags(app, flags);
  if (int code = ParseServiceFlags(app, argc, argv); code >= 0) {
    return code;
  }
  KC_RETURN_IF_ERROR(Serve(flags));
  return 0;
}

}  // namespace
}  // namespace kernelcast::gateway

int main(int argc, char** argv) {
  return kernelcast::RunService("gateway", kernelcast::gateway::Main, argc, argv);
}
