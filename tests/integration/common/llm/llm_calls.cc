#include "tests/integration/common/llm/llm_calls.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "common/base/clock.h"

namespace kernelcast::testing {

llm::LlmClient::Done Outcomes::Expect() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++expected_;
  }
  // shared_ptr because std::function copies.
  auto called = std::make_shared<std::atomic<bool>>(false);
  return [this, called](llm::ChatOutcome outcome) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (called->exchange(true)) ++repeated_;
    outcomes_.push_back(std::move(outcome));
    came_.notify_all();
  };
}

bool Outcomes::WaitAll() {
  std::unique_lock<std::mutex> lock(mutex_);
  return came_.wait_for(lock, std::chrono::minutes(1),
                        [this] { return static_cast<int64_t>(outcomes_.size()) >= expected_; });
}

std::vector<llm::ChatOutcome> Outcomes::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  expected_ = 0;
  return std::exchange(outcomes_, {});
}

std::map<llm::ErrorKind, int64_t> Outcomes::Kinds() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::map<llm::ErrorKind, int64_t> kinds;
  for (const llm::ChatOutcome& outcome : outcomes_) ++kinds[outcome.error.kind];
  return kinds;
}

int64_t Outcomes::expected() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return expected_;
}

int64_t Outcomes::repeated() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return repeated_;
}

llm::ChatRequest Question(const std::string& text) {
  llm::ChatRequest request;
  request.prompt = std::make_shared<const llm::Prompt>(
      std::vector<llm::ChatMessage>{{"system", "You forecast."}, {"user", text}});
  return request;
}

llm::ChatOutcome Ask(llm::LlmClient& client, llm::ChatRequest request) {
  Outcomes outcomes;
  const auto call = client.Submit(std::move(request), outcomes.Expect());
  if (!call.ok() || !outcomes.WaitAll()) {
    llm::ChatOutcome none;
    none.error.message = "the call was not taken, or has not ended";
    none.error.kind = llm::ErrorKind::kNone;
    none.attempts = -1;
    return none;
  }
  return outcomes.Take().front();
}

std::unique_ptr<EndpointProcess> EndpointProcess::Start(const std::vector<std::string>& arguments) {
  ChildOptions options;
  options.argv = {KERNELCAST_BIN_DIR "/fake-llm-endpoint"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  auto child = ChildProcess::Spawn(options);
  if (!child.ok()) return nullptr;
  auto endpoint = std::make_unique<EndpointProcess>();
  endpoint->child_ = std::move(*child);
  const bool announced = Eventually([&] {
    return endpoint->child_->Poll() || endpoint->child_->output().find('\n') != std::string::npos;
  });
  endpoint->port_ = std::atoi(endpoint->child_->output().c_str());
  return announced && endpoint->port_ > 0 ? std::move(endpoint) : nullptr;
}

std::string EndpointProcess::url() const {
  return "http://127.0.0.1:" + std::to_string(port_) + "/v1";
}

namespace {

int Entries(const char* folder) {
  int entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++entries;
  return entries;
}

}  // namespace

int OpenDescriptors() { return Entries("/proc/self/fd"); }
int Threads() { return Entries("/proc/self/task"); }

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void RaiseDescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace kernelcast::testing
