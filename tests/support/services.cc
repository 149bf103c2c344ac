#include "tests/support/services.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"

namespace kernelcast::testing {
namespace {

// A forecaster with many labels reads them first, and the machine may be busy.
constexpr auto kStartLimit = std::chrono::seconds(120);

std::string FromEnvironment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

}  // namespace

std::string SourcePath(const std::string& path) {
  return FromEnvironment("KERNELCAST_SOURCE_DIR", KERNELCAST_SOURCE_DIR) + "/" + path;
}

std::string ProgramFolder() { return FromEnvironment("KERNELCAST_BIN_DIR", KERNELCAST_BIN_DIR); }

std::string TimingLeaseFile() {
  return FromEnvironment("KERNELCAST_LEASE_FILE", "/tmp/kernelcast-timing.lock");
}

std::vector<std::string> CandidateHeaders() {
  for (const char* folder : {"/../include/kernelcast-candidate", "/../candidate_include"}) {
    const std::string headers = ProgramFolder() + folder;
    if (std::filesystem::exists(headers)) return {std::filesystem::canonical(headers).string()};
  }
  return {};
}

TemporaryFolder::TemporaryFolder(const std::string& name)
    : path_(std::filesystem::temp_directory_path() / RandomId("kernelcast-" + name + "-")) {
  std::filesystem::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Service::Service(std::string program, std::vector<std::string> arguments,
                 const TemporaryFolder& folder, ServiceSite site)
    : program_(std::move(program)),
      arguments_(std::move(arguments)),
      site_(std::move(site)),
      ready_file_(folder.File((site_.name.empty() ? program_ : site_.name) + ".ready.json")),
      address_(absl::StrCat(site_.host, ":", site_.port)) {}

absl::Status Service::Start() {
  std::filesystem::remove(ready_file_);
  ChildOptions options;
  options.argv = site_.launcher;
  for (const std::string& argument :
       {ProgramFolder() + "/" + program_, std::string("--listen"), address_,
        std::string("--metrics"), site_.host + ":0", std::string("--ready-file"), ready_file_}) {
    options.argv.push_back(argument);
  }
  options.argv.insert(options.argv.end(), arguments_.begin(), arguments_.end());
  for (const char* name :
       {"PATH", "HOME", "TMPDIR", "KERNELCAST_LEASE_FILE", "ASAN_OPTIONS", "TSAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) {
      options.environment.push_back(std::string(name) + "=" + value);
    }
  }
  options.max_output_bytes = int64_t{1} << 30;
  KC_ASSIGN_OR_RETURN(child_, ChildProcess::Spawn(options));
  const auto limit = std::chrono::steady_clock::now() + kStartLimit;
  while (!std::filesystem::exists(ready_file_)) {
    if (child_->Poll() || std::chrono::steady_clock::now() > limit) {
      const std::string output = child_->output();
      child_.reset();
      return absl::UnavailableError(absl::StrCat(program_, " did not start:\n", output));
    }
    // The file appears by rename; no other notification works for every service.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  nlohmann::json ready = nlohmann::json::parse(std::ifstream(ready_file_));
  address_ = ready.at("grpc").get<std::string>();
  const std::string metrics = ready.value("metrics", std::string());
  if (const size_t colon = metrics.rfind(':'); colon != std::string::npos) {
    metrics_port_ = std::atoi(metrics.c_str() + colon + 1);
  }
  return absl::OkStatus();
}

void Service::Signal(int number) const {
  if (child_ != nullptr) kill(child_->pid(), number);
}

void Service::Kill() {
  if (child_ == nullptr) return;
  child_->Kill();
  child_->Wait(int64_t{10} * 1'000'000'000);
  child_.reset();
}

int Service::Terminate() {
  if (child_ == nullptr) return 0;
  kill(child_->pid(), SIGTERM);
  const ChildExit exit = child_->Wait(int64_t{60} * 1'000'000'000);
  child_.reset();
  return exit.exited ? exit.exit_code : -exit.signal;
}

}  // namespace kernelcast::testing
