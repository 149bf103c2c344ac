#include "services/cli/commands/connection.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/domain/text.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

constexpr int64_t kStartingPatienceNs = 60'000'000'000;
constexpr int64_t kWorkerPatienceNs = 5'000'000'000;
constexpr absl::Duration kWorkerPoll = absl::Milliseconds(20);
constexpr int kConnectAttempts = 3;
constexpr absl::Duration kConnectPatience = absl::Seconds(5);
// After an interrupt.
constexpr absl::Duration kHurriedPatience = absl::Milliseconds(300);
// More failures than this in one call are not explained by other commands ending their services.
constexpr int kAskAttempts = 5;
constexpr absl::Duration kAskPause = absl::Milliseconds(300);

}  // namespace

void AddStateFlags(CLI::App& app, ConnectionFlags& flags) {
  app.add_option("--state-dir", flags.state_dir,
                 "Folder of the services' state, logs and reports [$XDG_STATE_HOME/kernelcast or "
                 "~/.local/state/kernelcast]")
      ->type_name("DIR");
  app.add_option("--service-dir", flags.service_dir,
                 "Folder of the services' programs [that of this program]")
      ->type_name("DIR");
  app.add_option("--replay", flags.replay_file,
                 "A worker started by this command answers from these exported records instead of "
                 "measuring")
      ->check(CLI::ExistingFile)
      ->type_name("FILE.jsonl");
  app.add_option(
         "--python", flags.python,
         "Python interpreter for a worker started by this command, with PyTorch for tasks in "
         "Python or compilers of kernels in Python, such as Triton [that of the environment that "
         "pip has installed this program in; python3 for a task]")
      ->envname("KERNELCAST_PYTHON")
      ->type_name("FILE");
}

std::string PythonOf(const Context& context, const ConnectionFlags& flags) {
  return flags.python.empty() ? EnvironmentPython(context.program_folder) : flags.python;
}

std::vector<std::string> WorkerArguments(const Context& context, const ConnectionFlags& flags) {
  const std::string python = PythonOf(context, flags);
  if (python.empty()) return {};
  return {"--python", python};
}

void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, Needs needs) {
  if (needs == Needs::kOrchestrator || needs == Needs::kLog) {
    app.add_option("--orchestrator", flags.orchestrator,
                   "Address of a running orchestrator, or ipv4:HOST:PORT,HOST:PORT for several "
                   "[those of the state folder, which the command starts if none run]")
        ->envname("KERNELCAST_ORCHESTRATOR")
        ->type_name("HOST:PORT");
  } else {
    app.add_option("--worker", flags.worker,
                   "Address of a running worker [starts one on this machine]")
        ->type_name("HOST:PORT");
  }
  if (needs == Needs::kWorkerAndForecaster) {
    app.add_option_function<std::string>(
           "--forecaster",
           [&flags](const std::string& word) {
             (IsForecasterBackend(word) ? flags.forecasts.backend : flags.forecaster) = word;
           },
           "Address of a running forecaster; or embedded, llm, pool or replay, to start one on "
           "this machine [pool with --llm, else embedded]")
        ->type_name("HOST:PORT|BACKEND");
  }
  app.add_option("--tls-ca", flags.channel.tls.ca_file,
                 "Certificate authority of the services; turns on TLS")
      ->type_name("FILE");
  app.add_option("--tls-certificate", flags.channel.tls.certificate_file, "Client certificate")
      ->type_name("FILE");
  app.add_option("--tls-key", flags.channel.tls.key_file, "Its key")->type_name("FILE");
  app.add_option("--token-file", flags.channel.token_file,
                 "File of the token for the services, as made by `kernelcast token`")
      ->envname("KERNELCAST_TOKEN_FILE")
      ->type_name("FILE");
  AddStateFlags(app, flags);
}

absl::StatusOr<std::string> StateDir(const Context& context, const ConnectionFlags& flags) {
  if (!flags.state_dir.empty()) return flags.state_dir;
  return DefaultStateDir(context.environment);
}

void Connection::PrepareFor(const Problem& problem) {
  const std::lock_guard lock(mutex_);
  if (problem.task && PythonOf(context_, flags_).empty()) flags_.python = "python3";
}

absl::StatusOr<ServiceAddresses> Connection::LocalAddresses() {
  if (services_ != nullptr) return services_->addresses();
  KC_ASSIGN_OR_RETURN(const std::string state_dir, StateDir(context_, flags_));
  LocalServicesOptions options;
  options.state_dir = state_dir;
  options.program_folder =
      flags_.service_dir.empty() ? context_.program_folder : flags_.service_dir;
  options.replay_file = flags_.replay_file;
  options.worker_arguments = WorkerArguments(context_, flags_);
  if (!prepared_) {
    KC_RETURN_IF_ERROR(PrepareForecasts(flags_.forecasts));
    prepared_ = true;
  }
  options.forecaster_arguments = ForecasterArguments(flags_.forecasts);
  options.orchestrator_arguments = OrchestratorArguments(flags_.forecasts);
  options.with_forecaster = needs_ != Needs::kWorker;
  options.with_orchestrator = needs_ == Needs::kOrchestrator || needs_ == Needs::kLog;
  if (needs_ == Needs::kLog) {
    // An orchestrator that runs on the folder, or is about to, knows more than the log.
    const absl::StatusOr<ServiceAddresses> running = ReadServiceAddresses(state_dir);
    options.read_only =
        !StateIsLocked(state_dir) || (running.ok() && running->orchestrator.empty());
  }
  options.interrupt = &context_.interrupt;
  options.notify = [this](const std::string& what) { context_.console.Warn(what); };
  const int64_t give_up_ns = Clock::Real().MonotonicNs() + kStartingPatienceNs;
  for (;;) {
    absl::StatusOr<std::unique_ptr<LocalServices>> started = LocalServices::Start(options);
    if (started.ok()) {
      services_ = *std::move(started);
      return services_->addresses();
    }
    if (started.status().code() != absl::StatusCode::kAlreadyExists) return started.status();
    // Another process runs services on this folder: use them once they have started.
    absl::StatusOr<ServiceAddresses> addresses = ReadServiceAddresses(state_dir);
    if (addresses.ok() && flags_.forecasts.given()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the services of process ", addresses->supervisor, " run on ", state_dir,
          " already, with the forecaster chosen at their start; leave out --forecaster, --llm and "
          "related flags, or choose another folder with --state-dir"));
    }
    if (addresses.ok() || context_.interrupt.requested() ||
        Clock::Real().MonotonicNs() > give_up_ns) {
      if (addresses.ok() && !warned_) {
        context_.console.Note(absl::StrCat("using the services of process ", addresses->supervisor,
                                           " on ", state_dir));
        warned_ = true;
      }
      if (addresses.ok()) return addresses;
      return absl::UnavailableError(std::string(started.status().message()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connection::Reach(
    const std::string& service, const std::string& given, std::string ServiceAddresses::*member) {
  if (!given.empty() && service != "worker" && flags_.forecasts.given()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", service, " at ", given,
                     " is already running: --forecaster, --llm and related flags are for services "
                     "started by this command"));
  }
  for (int attempt = 1;; ++attempt) {
    std::string address = given;
    bool of_others = false;
    if (given.empty()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      KC_ASSIGN_OR_RETURN(const ServiceAddresses addresses, LocalAddresses());
      address = addresses.*member;
      of_others = services_ == nullptr;
      if (address.empty()) {
        return absl::UnavailableError(absl::StrCat(
            "the services on this state folder have no ", service,
            "; wait until the command that uses them has ended, or choose another folder "
            "with --state-dir"));
      }
    }
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
        Connect(service, address, given.empty() ? ChannelOptions{} : flags_.channel,
                context_.interrupt.requested() ? kHurriedPatience : kConnectPatience);
    if (channel.ok()) return channel;
    // Services of another process may have ended since their address was read.
    if (!of_others || attempt == kConnectAttempts) return channel.status();
  }
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connection::Orchestrator() {
  return Reach("orchestrator", flags_.orchestrator, &ServiceAddresses::orchestrator);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connection::Worker() {
  return Reach("worker", flags_.worker, &ServiceAddresses::worker);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connection::Forecaster() {
  return Reach("forecaster", flags_.forecaster, &ServiceAddresses::forecaster);
}

absl::Status Connection::AskOrchestrator(const OrchestratorWork& work) {
  const bool local = flags_.orchestrator.empty();
  for (int attempt = 1;; ++attempt) {
    KC_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, Orchestrator());
    absl::Status status = work(*v1::Orchestrator::NewStub(channel));
    // Nobody may serve a local address any more, in which case the call waits until its deadline. A
    // server that shuts down cancels its calls.
    const bool gone = absl::IsUnavailable(status) || absl::IsCancelled(status) ||
                      (local && absl::IsDeadlineExceeded(status));
    if (!gone || attempt == kAskAttempts || context_.interrupt.requested()) return status;
    // Another orchestrator should appear at the same address, or behind the same name, soon.
    if (!local) context_.interrupt.WaitFor(RetryAfter(status).value_or(kAskPause));
  }
}

absl::StatusOr<v1::PutProblemReply> Connection::PutProblem(const Problem& problem) {
  PrepareFor(problem);
  v1::PutProblemReply reply;
  KC_RETURN_IF_ERROR(AskOrchestrator([&](v1::Orchestrator::Stub& stub) {
    return Call(stub, &v1::Orchestrator::Stub::PutProblem, PutRequest(problem), &reply);
  }));
  return reply;
}

absl::Status Connection::CheckMeasures(const std::string& target) {
  if (!flags_.orchestrator.empty()) return absl::OkStatus();
  const int64_t give_up_ns = Clock::Real().MonotonicNs() + kWorkerPatienceNs;
  for (;;) {
    v1::OrchestratorDescription description;
    KC_RETURN_IF_ERROR(AskOrchestrator([&](v1::Orchestrator::Stub& stub) {
      return Call(stub, &v1::Orchestrator::Stub::Describe, v1::OrchestratorDescribeRequest(),
                  &description);
    }));
    bool known = false;
    std::string reason;
    std::vector<std::string> measured;
    for (const v1::WorkerStatus& worker : description.workers()) {
      known = known || worker.healthy();
      for (const v1::TargetDescription& described : worker.description().targets()) {
        if (described.can_measure()) measured.push_back(OneLine(described.target()));
        if (described.target() == target) reason = OneLine(described.unavailable_reason());
      }
    }
    if (std::ranges::find(measured, target) != measured.end()) return absl::OkStatus();
    if (known) {
      return absl::UnavailableError(absl::StrCat(
          "nothing on this machine measures ", target, reason.empty() ? "" : ": ", reason,
          measured.empty() ? std::string() : absl::StrCat("; it measures ", CommaList(measured))));
    }
    // The orchestrator has just started, and has not reached its worker yet.
    if (Clock::Real().MonotonicNs() > give_up_ns) return absl::OkStatus();
    KC_RETURN_IF_ERROR(CheckInterrupt(context_));
    context_.interrupt.WaitFor(kWorkerPoll);
  }
}

std::string Connection::WatchCommand(const std::string& search_id) const {
  const bool local = flags_.orchestrator.empty();
  // `watch` does not start services with a model.
  if (local && flags_.forecasts.given()) {
    return absl::StrCat("the same command with --search-id ", search_id);
  }
  std::string command = absl::StrCat("kernelcast watch ", search_id);
  const auto add = [&command](const char* option, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&command, " ", option, " ", value);
  };
  add("--orchestrator", flags_.orchestrator);
  add("--tls-ca", flags_.channel.tls.ca_file);
  add("--tls-certificate", flags_.channel.tls.certificate_file);
  add("--tls-key", flags_.channel.tls.key_file);
  add("--token-file", flags_.channel.token_file);
  if (!local) return command;
  add("--state-dir", flags_.state_dir);
  add("--service-dir", flags_.service_dir);
  add("--replay", flags_.replay_file);
  add("--python", flags_.python);
  return command;
}

bool Connection::owns_services() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return services_ != nullptr;
}

}  // namespace kernelcast::cli
