#include "services/cli/launch/local_services.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/text.h"
#include "services/cli/launch/kept_addresses.h"
#include "services/cli/launch/service_process.h"

namespace kernelcast::cli {
namespace {

constexpr int64_t kFirstBackoffNs = 200'000'000;
constexpr int64_t kLongestBackoffNs = 10'000'000'000;
// A service that ran this long restarts with the shortest back-off.
constexpr int64_t kHealthyNs = 30'000'000'000;
constexpr off_t kMaxLogBytes = 16 << 20;
constexpr size_t kServices = 4;
constexpr int64_t kHurriedDrainNs = 200'000'000;
constexpr int kPollMs = 20;
constexpr int kIdlePollMs = 500;

// The end of a service's log, shown if it cannot be started: the messages of its JSON lines, and
// other lines unchanged.
std::string LogTail(const std::string& path, int64_t from_offset) {
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return "";
  std::fseek(file, 0, SEEK_END);
  const int64_t size = std::ftell(file);
  const int64_t start = std::max({int64_t{0}, from_offset, size - 4096});
  std::fseek(file, static_cast<long>(start), SEEK_SET);
  std::string text(static_cast<size_t>(std::max<int64_t>(0, size - start)), '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    const nlohmann::json json = ParseBoundedJson(line);
    if (!json.is_object()) {
      lines.push_back(line);
      continue;
    }
    std::string shown = json.value("message", "");
    for (const char* key : {"error", "status", "detail"}) {
      if (json.contains(key) && json[key].is_string()) {
        absl::StrAppend(&shown, ": ", json[key].get<std::string>());
      }
    }
    lines.push_back(shown);
  }
  std::string tail;
  const size_t first = lines.size() > 5 ? lines.size() - 5 : 0;
  for (size_t i = first; i < lines.size(); ++i) {
    absl::StrAppend(&tail, "\n  ", OneLine(lines[i]));
  }
  return tail;
}

int64_t FileSize(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 ? info.st_size : 0;
}

struct ReadyFile {
  std::string address;
  std::string metrics;
  std::string status;
};

// Returns nullopt until the service has written the file.
std::optional<ReadyFile> ReadReadyFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path, 1 << 16);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json json = ParseBoundedJson(*text);
  if (!json.is_object()) return std::nullopt;
  ReadyFile ready;
  ready.address = json.value("grpc", json.value("http", ""));
  ready.status = json.value("status", "");
  if (const auto metrics = json.find("metrics"); metrics != json.end()) {
    if (metrics->is_string()) ready.metrics = metrics->get<std::string>();
    if (metrics->is_number_integer() && metrics->get<int>() > 0) {
      ready.metrics = absl::StrCat("127.0.0.1:", metrics->get<int>());
    }
  }
  if (ready.address.empty()) return std::nullopt;
  return ready;
}

}  // namespace

// One thread starts, watches and ends the services: the kernel kills them when that thread ends.
class LocalServices::Supervisor {
 public:
  // `output_dir`: for logs and ready files.
  Supervisor(const LocalServicesOptions& options, const std::string& output_dir)
      : options_(options),
        output_dir_(output_dir),
        wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    services_[kWorker].name = "worker";
    services_[kForecaster].name = "forecaster";
    services_[kOrchestrator].name = "orchestrator";
    services_[kGateway].name = "gateway";
    services_[kWorker].wanted = options.with_worker && !options.read_only;
    services_[kForecaster].wanted = options.with_forecaster && !options.read_only;
    services_[kOrchestrator].wanted = options.with_orchestrator || options.read_only;
    services_[kGateway].wanted = options.with_gateway && !options.read_only;
    for (Service& service : services_) {
      service.program = absl::StrCat(options_.program_folder, "/kernelcast-", service.name);
      service.log_path = absl::StrCat(output_dir_, "/log/", service.name, ".log");
      service.ready_path = absl::StrCat(output_dir_, "/run/", service.name, ".json");
    }
    services_[kOrchestrator].listen = options.orchestrator_listen;
    services_[kGateway].listen = options.gateway_listen;
    thread_ = std::thread([this] { Run(); });
  }

  ~Supervisor() {
    Drain();
    close(wake_fd_);
  }

  absl::Status WaitUntilReady() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return started_.has_value(); });
    return *started_;
  }

  ServiceAddresses addresses() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return addresses_;
  }

  void Drain() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      draining_ = true;
    }
    Wake();
    if (thread_.joinable()) thread_.join();
  }

 private:
  enum Index { kWorker, kForecaster, kOrchestrator, kGateway };

  // Used only on the supervisor's thread.
  struct Service {
    std::string name;
    std::string program;
    std::string log_path;
    std::string ready_path;
    // Listening address; a service keeps the port that it got first.
    std::string listen = "127.0.0.1:0";
    std::string metrics = "127.0.0.1:0";
    std::string status = "127.0.0.1:0";  // the orchestrator's status page
    bool wanted = true;
    std::unique_ptr<ServiceProcess> process;
    bool ready = false;
    int64_t started_ns = 0;
    int64_t log_offset = 0;
    int64_t backoff_ns = kFirstBackoffNs;
    int64_t next_start_ns = 0;
    bool was_ready = false;
  };

  static int64_t Now() { return Clock::Real().MonotonicNs(); }

  void Wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = write(wake_fd_, &one, sizeof one);
  }

  bool draining() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return draining_;
  }

  void Report(const std::string& what) {
    if (options_.notify) options_.notify(what);
  }

  std::vector<std::string> ArgumentsOf(Index index) const {
    const Service& service = services_[index];
    std::vector<std::string> argv = {service.program,
                                     "--listen",
                                     service.listen,
                                     "--metrics",
                                     service.metrics,
                                     "--ready-file",
                                     service.ready_path,
                                     "--log-level",
                                     options_.log_level,
                                     "--drain-seconds",
                                     FormatNumber(absl::ToDoubleSeconds(options_.drain))};
    argv.insert(argv.end(), options_.service_arguments.begin(), options_.service_arguments.end());
    const std::string state = absl::StrCat(options_.state_dir, "/", service.name);
    switch (index) {
      case kWorker:
        argv.insert(argv.end(), {"--cache-dir", state});
        if (!options_.replay_file.empty()) {
          argv.insert(argv.end(), {"--replay", options_.replay_file});
        }
        argv.insert(argv.end(), options_.worker_arguments.begin(), options_.worker_arguments.end());
        break;
      case kForecaster:
        argv.insert(argv.end(), {"--state-dir", state});
        argv.insert(argv.end(), options_.forecaster_arguments.begin(),
                    options_.forecaster_arguments.end());
        break;
      case kOrchestrator:
        if (options_.read_only) {
          argv.insert(argv.end(), {"--state-dir", state, "--read-only", "--status", ""});
          break;
        }
        argv.insert(argv.end(),
                    {"--state-dir", state, "--worker", services_[kWorker].listen, "--forecaster",
                     services_[kForecaster].listen, "--status", service.status});
        argv.insert(argv.end(), options_.orchestrator_arguments.begin(),
                    options_.orchestrator_arguments.end());
        if (options_.accept_loss && !service.was_ready) argv.emplace_back("--accept-loss");
        if (options_.serve_history) {
          argv.insert(argv.end(), {"--history-page", absl::StrCat("http://", history_, "/")});
        }
        break;
      case kGateway:
        argv.insert(argv.end(),
                    {"--state-dir", state, "--orchestrator", services_[kOrchestrator].listen});
        argv.insert(argv.end(), options_.gateway_arguments.begin(),
                    options_.gateway_arguments.end());
        break;
    }
    return argv;
  }

  absl::Status StartService(Index index) {
    Service& service = services_[index];
    unlink(service.ready_path.c_str());
    if (FileSize(service.log_path) > kMaxLogBytes) {
      rename(service.log_path.c_str(), (service.log_path + ".1").c_str());
    }
    service.log_offset = FileSize(service.log_path);
    service.ready = false;
    service.started_ns = Now();
    KC_ASSIGN_OR_RETURN(service.process,
                        ServiceProcess::Spawn(ArgumentsOf(index), service.log_path));
    return absl::OkStatus();
  }

  // Reads the ready file. Returns true once the service is ready.
  bool CheckReady(Service& service) {
    if (service.ready) return true;
    const std::optional<ReadyFile> ready = ReadReadyFile(service.ready_path);
    if (!ready.has_value()) return false;
    service.ready = true;
    service.listen = ready->address;
    if (!ready->metrics.empty()) service.metrics = ready->metrics;
    if (!ready->status.empty()) service.status = ready->status;
    if (service.was_ready) {
      Report(absl::StrCat("the ", service.name, " is back at ", service.listen));
    }
    service.was_ready = true;
    return true;
  }

  absl::Status Failure(const Service& service, const std::string& what) {
    return absl::UnavailableError(absl::StrCat("the ", service.name, " ", what, "; its log is ",
                                               service.log_path,
                                               LogTail(service.log_path, service.log_offset)));
  }

  // Waits until the started services are ready.
  absl::Status AwaitReady(const std::vector<Index>& indices) {
    const int64_t deadline = Now() + absl::ToInt64Nanoseconds(options_.start_timeout);
    for (;;) {
      bool all_ready = true;
      for (const Index index : indices) {
        Service& service = services_[index];
        if (!service.wanted || CheckReady(service)) continue;
        all_ready = false;
        if (service.process->Ended()) {
          return Failure(service, absl::StrCat(service.process->ending(), " while starting"));
        }
        if (Now() > deadline) {
          return Failure(service,
                         absl::StrCat("was not ready within ",
                                      FormatNumber(absl::ToDoubleSeconds(options_.start_timeout)),
                                      " seconds"));
        }
      }
      if (all_ready) return absl::OkStatus();
      if (draining() || (options_.interrupt != nullptr && options_.interrupt->requested())) {
        return absl::CancelledError("interrupted while the services started");
      }
      WaitForEvents(kPollMs);
    }
  }

  void WaitForEvents(int timeout_ms) {
    std::array<pollfd, 1 + kServices> fds{};
    fds[0] = {wake_fd_, POLLIN, 0};
    nfds_t count = 1;
    for (Service& service : services_) {
      if (service.process != nullptr && service.process->fd() >= 0 && !service.process->Ended()) {
        fds[count++] = {service.process->fd(), POLLIN, 0};
      }
    }
    poll(fds.data(), count, timeout_ms);
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t result = read(wake_fd_, &ignored, sizeof ignored);
  }

  // Calls `visit` with the name and a reference to each stored address.
  template <class Visit>
  void VisitKeptAddresses(const Visit& visit) {
    for (Service& service : services_) {
      if (!service.wanted) continue;
      if (&service != &services_[kOrchestrator] && &service != &services_[kGateway]) {
        visit(service.name, service.listen);
      }
      visit(service.name + " metrics endpoint", service.metrics);
    }
    if (services_[kOrchestrator].wanted) visit("status page", services_[kOrchestrator].status);
    if (options_.serve_history) visit("history page", history_);
  }

  void UseKeptAddresses() {
    const KeptAddresses kept(options_.state_dir);
    VisitKeptAddresses([&](const std::string& name, std::string& address) {
      address = kept.Get(name, options_.notify);
    });
  }

  absl::Status KeepAddresses() {
    KeptAddresses kept(options_.state_dir);
    VisitKeptAddresses(
        [&](const std::string& name, const std::string& address) { kept.Set(name, address); });
    return kept.Write();
  }

  absl::Status StartAll() {
    if (options_.keep_addresses) UseKeptAddresses();
    KC_RETURN_IF_ERROR(MakeFolders(output_dir_ + "/log"));
    KC_RETURN_IF_ERROR(MakeFolders(output_dir_ + "/run"));
    for (const Index index : {kWorker, kForecaster}) {
      if (services_[index].wanted) KC_RETURN_IF_ERROR(StartService(index));
    }
    KC_RETURN_IF_ERROR(AwaitReady({kWorker, kForecaster}));
    if (options_.serve_history) {
      KC_ASSIGN_OR_RETURN(history_, options_.serve_history(history_));
    }
    for (const Index index : {kOrchestrator, kGateway}) {
      if (!services_[index].wanted) continue;
      KC_RETURN_IF_ERROR(StartService(index));
      KC_RETURN_IF_ERROR(AwaitReady({index}));
    }
    if (options_.keep_addresses) KC_RETURN_IF_ERROR(KeepAddresses());
    return Publish();
  }

  absl::Status Publish() {
    ServiceAddresses addresses;
    addresses.supervisor = getpid();
    const auto address_of = [&](Index index) {
      return services_[index].wanted ? services_[index].listen : std::string();
    };
    const auto metrics_of = [&](Index index) {
      const Service& service = services_[index];
      return service.wanted && service.metrics != "127.0.0.1:0" ? service.metrics : std::string();
    };
    addresses.worker = address_of(kWorker);
    addresses.forecaster = address_of(kForecaster);
    addresses.orchestrator = address_of(kOrchestrator);
    addresses.gateway = address_of(kGateway);
    addresses.worker_metrics = metrics_of(kWorker);
    addresses.forecaster_metrics = metrics_of(kForecaster);
    addresses.orchestrator_metrics = metrics_of(kOrchestrator);
    addresses.gateway_metrics = metrics_of(kGateway);
    const Service& orchestrator = services_[kOrchestrator];
    if (orchestrator.wanted && orchestrator.ready) {
      addresses.orchestrator_status = orchestrator.status;
    }
    if (options_.serve_history) addresses.history = history_;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      addresses_ = addresses;
    }
    if (options_.read_only) return absl::OkStatus();
    return WriteServiceAddresses(options_.state_dir, addresses);
  }

  // Restarts services that have died and whose back-off has passed. Returns the time until the next
  // step.
  int Attend() {
    int wait_ms = kIdlePollMs;
    for (const Index index : {kWorker, kForecaster, kOrchestrator, kGateway}) {
      Service& service = services_[index];
      if (!service.wanted) continue;
      if (service.process != nullptr && service.process->Ended()) {
        const int64_t now = Now();
        if (now - service.started_ns > kHealthyNs) service.backoff_ns = kFirstBackoffNs;
        Report(absl::StrCat("the ", service.name, " ", service.process->ending(),
                            "; restarting it in ",
                            FormatSeconds(static_cast<double>(service.backoff_ns) * 1e-9)));
        service.process.reset();
        service.ready = false;
        service.next_start_ns = now + service.backoff_ns;
        service.backoff_ns = std::min(service.backoff_ns * 2, kLongestBackoffNs);
      }
      if (service.process == nullptr) {
        const int64_t left_ns = service.next_start_ns - Now();
        if (left_ns <= 0) {
          if (const absl::Status status = StartService(index); !status.ok()) {
            Report(absl::StrCat("the ", service.name,
                                " cannot be started: ", std::string(status.message())));
            service.next_start_ns = Now() + service.backoff_ns;
            service.backoff_ns = std::min(service.backoff_ns * 2, kLongestBackoffNs);
          }
          wait_ms = kPollMs;
        } else {
          wait_ms = std::min(wait_ms, static_cast<int>(left_ns / 1'000'000) + 1);
        }
      } else if (!CheckReady(service)) {
        wait_ms = std::min(wait_ms, kPollMs);
      }
    }
    return wait_ms;
  }

  // Whether a user waits for this process to end.
  bool Hurried() const {
    return options_.interrupt != nullptr && options_.interrupt->requested() &&
           !(options_.drain_after_interrupt && started_->ok());
  }

  // Sends SIGTERM, and SIGKILL to services that still run after the drain time.
  void End(const std::vector<Index>& indices) {
    for (const Index index : indices) {
      if (services_[index].process != nullptr) services_[index].process->Signal(SIGTERM);
    }
    const int64_t start = Now();
    const int64_t patience = absl::ToInt64Nanoseconds(options_.drain + absl::Seconds(2));
    for (;;) {
      bool any = false;
      for (const Index index : indices) {
        Service& service = services_[index];
        any = any || (service.process != nullptr && !service.process->Ended());
      }
      // The interrupt may come while the services drain.
      if (!any || Now() - start > (Hurried() ? kHurriedDrainNs : patience)) break;
      WaitForEvents(kPollMs);
    }
    for (const Index index : indices) services_[index].process.reset();
  }

  void Run() {
    const absl::Status started = StartAll();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      started_ = started;
    }
    changed_.notify_all();
    if (started.ok()) {
      while (!draining()) WaitForEvents(Attend());
    }
    if (!options_.read_only) RemoveServiceAddresses(options_.state_dir);
    End({kGateway});
    End({kOrchestrator});
    End({kWorker, kForecaster});
  }

  const LocalServicesOptions options_;
  const std::string output_dir_;
  const int wake_fd_;
  // Used on the supervisor's thread only.
  std::array<Service, kServices> services_;
  std::string history_ = "127.0.0.1:0";  // address of the history page

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::optional<absl::Status> started_;
  ServiceAddresses addresses_;
  bool draining_ = false;

  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<LocalServices>> LocalServices::Start(
    const LocalServicesOptions& options) {
  std::unique_ptr<StateLock> lock;
  std::unique_ptr<ScratchFolder> scratch;
  if (options.read_only) {
    KC_ASSIGN_OR_RETURN(scratch, ScratchFolder::Make());
  } else {
    KC_ASSIGN_OR_RETURN(lock, StateLock::Acquire(options.state_dir));
    // The addresses left by a killed predecessor are no longer served.
    RemoveServiceAddresses(options.state_dir);
  }
  auto supervisor = std::make_unique<Supervisor>(
      options, options.read_only ? scratch->path() : options.state_dir);
  KC_RETURN_IF_ERROR(supervisor->WaitUntilReady());
  return std::unique_ptr<LocalServices>(
      new LocalServices(std::move(lock), std::move(scratch), std::move(supervisor)));
}

LocalServices::LocalServices(std::unique_ptr<StateLock> lock,
                             std::unique_ptr<ScratchFolder> scratch,
                             std::unique_ptr<Supervisor> supervisor)
    : lock_(std::move(lock)), scratch_(std::move(scratch)), supervisor_(std::move(supervisor)) {}

LocalServices::~LocalServices() = default;

ServiceAddresses LocalServices::addresses() const { return supervisor_->addresses(); }

void LocalServices::Drain() { supervisor_->Drain(); }

}  // namespace kernelcast::cli
