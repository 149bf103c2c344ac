// Measures the LLM client's throughput on an endpoint, compared with two plain load generators that
// send the same requests in turn: h2load, if installed, and a bare epoll loop that only looks for
// the end of each answer.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/llm/client.h"
#include "common/llm/request_body.h"
#include "common/process/child_process.h"

namespace kernelcast::llm {
namespace {

struct Settings {
  double seconds = 5;
  double warm_up_seconds = 1;
  int in_flight = 512;
  double latency_ms = 50;
  int rounds = 3;
  int prompt_bytes = 4000;
  int pieces = 3;
};

struct Figures {
  double per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double cpu_us = 0;  // of this process, per answer
  int64_t failures = 0;
};

int64_t NowNs() { return Clock::Real().MonotonicNs(); }

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

double PercentileMs(std::vector<int64_t>& samples, double share) {
  if (samples.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + static_cast<long>(at), samples.end());
  return static_cast<double>(samples[at]) / 1e6;
}

Figures Summarise(std::vector<int64_t>& latencies_ns, double seconds, double cpu_seconds,
                  int64_t failures) {
  Figures figures;
  figures.per_second = static_cast<double>(latencies_ns.size()) / seconds;
  figures.p50_ms = PercentileMs(latencies_ns, 0.5);
  figures.p99_ms = PercentileMs(latencies_ns, 0.99);
  figures.cpu_us =
      cpu_seconds * 1e6 / std::max<double>(1, static_cast<double>(latencies_ns.size()));
  figures.failures = failures;
  return figures;
}

std::unique_ptr<ChildProcess> StartEndpoint(const Settings& settings, int* port) {
  ChildOptions options;
  options.argv = {std::string(KERNELCAST_BIN_DIR) + "/fake-llm-endpoint",
                  "--latency-ms",
                  absl::StrCat(settings.latency_ms),
                  "--pieces",
                  absl::StrCat(settings.pieces),
                  "--repeat-first-answer"};
  auto child = ChildProcess::Spawn(options);
  if (!child.ok()) return nullptr;
  while ((*child)->output().find('\n') == std::string::npos) {
    if ((*child)->Poll()) return nullptr;
    usleep(1000);
  }
  *port = std::atoi((*child)->output().c_str());
  return std::move(*child);
}

// --- the client ---------------------------------------------------------------------------------

class ClientLoad {
 public:
  ClientLoad(const Settings& settings, const LlmConfig& config, ChatRequest request)
      : settings_(settings), request_(std::move(request)) {
    auto client = LlmClient::Create(config);
    if (!client.ok()) std::abort();
    client_ = std::move(*client);
  }

  Figures Run() {
    const int64_t start_ns = NowNs();
    begin_ns_ = start_ns + static_cast<int64_t>(settings_.warm_up_seconds * 1e9);
    end_ns_ = begin_ns_ + static_cast<int64_t>(settings_.seconds * 1e9);
    latencies_ns_.reserve(1 << 20);
    left_ = settings_.in_flight;
    for (int i = 0; i < settings_.in_flight; ++i) Ask();
    double cpu = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait_for(lock, std::chrono::nanoseconds(begin_ns_ - NowNs()), [] { return false; });
    cpu = CpuSeconds();
    done_.wait(lock, [this] { return left_ == 0; });
    cpu = CpuSeconds() - cpu;
    return Summarise(latencies_ns_, settings_.seconds, cpu, failures_);
  }

  ClientStats Stats() const { return client_->Stats(); }

 private:
  void Ask() {
    const int64_t asked_ns = NowNs();
    const auto call = client_->Submit(request_, [this, asked_ns](const ChatOutcome& outcome) {
      const int64_t now_ns = NowNs();
      if (now_ns >= begin_ns_ && now_ns < end_ns_) {
        latencies_ns_.push_back(now_ns - asked_ns);
        if (!outcome.ok()) ++failures_;
      }
      if (now_ns < end_ns_) return Ask();
      const std::lock_guard<std::mutex> lock(mutex_);
      if (--left_ == 0) done_.notify_all();
    });
    if (!call.ok()) std::abort();
  }

  const Settings& settings_;
  const ChatRequest request_;
  std::unique_ptr<LlmClient> client_;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
  // Used by the client's thread while it runs.
  std::vector<int64_t> latencies_ns_;
  int64_t failures_ = 0;
  std::mutex mutex_;
  std::condition_variable done_;
  int left_ = 0;  // protected by mutex_
};

// --- a bare loop --------------------------------------------------------------------------------

class BareLoad {
 public:
  BareLoad(const Settings& settings, int port, const std::string& body)
      : settings_(settings), port_(port) {
    request_ = absl::StrCat("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n",
                            "Content-Type: application/json\r\nContent-Length: ", body.size(),
                            "\r\n\r\n", body);
  }

  Figures Run() {
    const int epoll_fd = epoll_create1(0);
    const int64_t begin_ns = NowNs() + static_cast<int64_t>(settings_.warm_up_seconds * 1e9);
    const int64_t end_ns = begin_ns + static_cast<int64_t>(settings_.seconds * 1e9);
    struct Connection {
      std::string tail;
      int64_t asked_ns = 0;
    };
    std::vector<Connection> connections(1 << 16);
    std::vector<int> fds;
    for (int i = 0; i < settings_.in_flight; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(static_cast<uint16_t>(port_));
      if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) std::abort();
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = fd;
      epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
      fds.push_back(fd);
    }
    const auto ask = [&](int fd) {
      connections[static_cast<size_t>(fd)].asked_ns = NowNs();
      if (send(fd, request_.data(), request_.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(request_.size())) {
        std::abort();
      }
    };
    for (const int fd : fds) ask(fd);
    std::vector<int64_t> latencies_ns;
    latencies_ns.reserve(1 << 20);
    std::array<epoll_event, 256> events;
    std::array<char, 65536> buffer;
    double cpu = CpuSeconds();
    bool warm = false;
    while (NowNs() < end_ns) {
      const int ready = epoll_wait(epoll_fd, events.data(), static_cast<int>(events.size()), 100);
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<size_t>(i)].data.fd;
        Connection& connection = connections[static_cast<size_t>(fd)];
        const ssize_t got = read(fd, buffer.data(), buffer.size());
        if (got <= 0) std::abort();
        connection.tail.append(buffer.data(), static_cast<size_t>(got));
        if (connection.tail.size() > 5) connection.tail.erase(0, connection.tail.size() - 5);
        if (connection.tail != "0\r\n\r\n") continue;
        const int64_t now_ns = NowNs();
        if (now_ns >= begin_ns && !warm) {
          warm = true;
          cpu = CpuSeconds();
        }
        if (now_ns >= begin_ns) latencies_ns.push_back(now_ns - connection.asked_ns);
        connection.tail.clear();
        ask(fd);
      }
    }
    cpu = CpuSeconds() - cpu;
    for (const int fd : fds) close(fd);
    close(epoll_fd);
    return Summarise(latencies_ns, settings_.seconds, cpu, 0);
  }

 private:
  const Settings& settings_;
  const int port_;
  std::string request_;
};

// --- h2load -------------------------------------------------------------------------------------

Figures RunH2load(const Settings& settings, int port, const std::string& body) {
  Figures figures;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / absl::StrCat("bench_llm.", getpid());
  std::ofstream(file) << body;
  ChildOptions options;
  options.argv = {"h2load",
                  "--h1",
                  "-t",
                  "1",
                  "-c",
                  absl::StrCat(settings.in_flight),
                  "-D",
                  absl::StrCat(settings.seconds),
                  "--warm-up-time",
                  absl::StrCat(settings.warm_up_seconds),
                  "-d",
                  file.string(),
                  "-H",
                  "content-type: application/json",
                  absl::StrCat("http://127.0.0.1:", port, "/v1/chat/completions")};
  auto child = ChildProcess::Spawn(options);
  if (child.ok()) {
    const ChildExit exit = (*child)->Wait(int64_t{120} * 1'000'000'000);
    const size_t at = exit.output.find("finished in");
    const size_t comma = exit.output.find(", ", at);
    if (at != std::string::npos && comma != std::string::npos) {
      figures.per_second = std::strtod(exit.output.c_str() + comma + 2, nullptr);
    }
  }
  std::filesystem::remove(file);
  return figures;
}

void Print(const char* who, const Figures& figures) {
  if (figures.per_second == 0) {
    std::printf("  %-10s not run\n", who);
  } else if (figures.p50_ms == 0) {
    std::printf("  %-10s %8.0f answers/s\n", who, figures.per_second);
  } else {
    std::printf("  %-10s %8.0f answers/s   p50 %7.3f ms   p99 %7.3f ms   cpu %5.1f us/answer%s\n",
                who, figures.per_second, figures.p50_ms, figures.p99_ms, figures.cpu_us,
                figures.failures == 0 ? "" : absl::StrCat("   FAILED ", figures.failures).c_str());
  }
  std::fflush(stdout);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

int Run(const Settings& settings) {
  int port = 0;
  const std::unique_ptr<ChildProcess> endpoint = StartEndpoint(settings, &port);
  if (endpoint == nullptr) {
    std::fprintf(stderr, "fake-llm-endpoint cannot be started\n");
    return 1;
  }
  LlmConfig config = *ConfigForUrl(absl::StrCat("http://127.0.0.1:", port, "/v1"), "fake");
  config.endpoints[0].max_concurrency = settings.in_flight;
  config.endpoints[0].initial_concurrency = settings.in_flight;
  ChatRequest request;
  request.prompt = std::make_shared<const Prompt>(std::vector<ChatMessage>{
      {"system", "You forecast how fast kernels are."},
      {"user", std::string(static_cast<size_t>(settings.prompt_bytes), 'k')}});
  const std::string body = BuildRequestBody(config.endpoints[0], request, request.shape);
  std::printf("endpoint answers after %.0f ms, %d in flight, prompt of %d bytes\n",
              settings.latency_ms, settings.in_flight, settings.prompt_bytes);

  std::vector<double> share;
  std::vector<double> share_of_h2load;
  std::vector<double> added_ms;
  for (int round = 0; round < settings.rounds; ++round) {
    std::printf("round %d\n", round + 1);
    const Figures h2load = RunH2load(settings, port, body);
    Print("h2load", h2load);
    const Figures bare = BareLoad(settings, port, body).Run();
    Print("bare loop", bare);
    ClientLoad load(settings, config, request);
    const Figures client = load.Run();
    Print("client", client);
    share.push_back(client.per_second / bare.per_second);
    if (h2load.per_second > 0) share_of_h2load.push_back(client.per_second / h2load.per_second);
    added_ms.push_back(client.p50_ms - bare.p50_ms);
  }
  std::printf(
      "medians: %.1f%% of the bare loop, %.1f%% of h2load, p50 %+.3f ms against the bare loop\n",
      100 * Median(share), 100 * Median(share_of_h2load), Median(added_ms));
  return 0;
}

}  // namespace
}  // namespace kernelcast::llm

int main(int argc, char** argv) {
  kernelcast::llm::Settings settings;
  CLI::App app("Rate and latency of the LLM client, compared with plain load generators.");
  app.add_option("--seconds", settings.seconds, "Duration of each measurement")
      ->capture_default_str();
  app.add_option("--rounds", settings.rounds, "Rounds of all three")->capture_default_str();
  app.add_option("--in-flight", settings.in_flight, "Concurrent requests")->capture_default_str();
  app.add_option("--latency-ms", settings.latency_ms, "Latency of the endpoint")
      ->capture_default_str();
  app.add_option("--prompt-bytes", settings.prompt_bytes, "Length of each prompt")
      ->capture_default_str();
  app.add_option("--pieces", settings.pieces, "Text events per answer")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return kernelcast::llm::Run(settings);
}
