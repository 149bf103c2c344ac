#include "tests/fakes/llm_endpoint/llm_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxRequestBytes = 64 << 20;
constexpr size_t kHugeBytes = 10 << 20;
constexpr size_t kKept = 64;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The next action of a response: waits, sends, and then possibly misbehaves.
struct Step {
  enum class Then { kGoOn, kDone, kClose, kReset, kHalfClose, kHang, kRepeat };
  int64_t wait_us = 0;
  std::string bytes;
  Then then = Then::kGoOn;
};
using Script = std::deque<Step>;

std::string Chunk(std::string_view bytes) {
  return absl::StrCat(absl::Hex(bytes.size()), "\r\n", std::string(bytes), "\r\n");
}

std::string Event(std::string_view data) {
  return absl::StrCat("data: ", std::string(data), "\n\n");
}

struct Request {
  std::string method;
  std::string path;
  std::string fault;
  std::string authorization;
  std::string traceparent;
  std::string tracestate;
  std::string body;
  bool keep_alive = true;
};

std::string_view Reason(int status) {
  switch (status) {
    case 200: return "OK";
    case 307: return "Temporary Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 429: return "Too Many Requests";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Status";
  }
}

std::string Plain(int status, const std::string& body, const std::string& more_headers = "",
                  const std::string& type = "application/json") {
  return absl::StrCat("HTTP/1.1 ", status, " ", std::string(Reason(status)),
                      "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(), "\r\n",
                      more_headers, "\r\n", body);
}

std::string ErrorBody(const std::string& message, const std::string& type,
                      const std::string& code) {
  return Dump({{"error", {{"message", message}, {"type", type}, {"code", code}}}});
}

const char kStreamHead[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    "Transfer-Encoding: chunked\r\n\r\n";

}  // namespace

class FakeLlmEndpoint::Impl {
 public:
  explicit Impl(FakeEndpointOptions options)
      : options_(std::move(options)), random_(options_.seed) {}
  ~Impl() {
    if (thread_.joinable()) {
      Post([this] { stopping_ = true; });
      thread_.join();
    }
    for (const int fd : {listen_fd_, reserve_fd_, epoll_fd_, wake_fd_}) {
      if (fd >= 0) close(fd);
    }
  }

  absl::Status Start(int port) {
    epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    Add(wake_fd_, EPOLLIN);
    // Reserves the port while nothing listens on it.
    reserve_fd_ = Bind(port);
    if (reserve_fd_ < 0) return absl::UnavailableError(absl::StrCat("cannot bind port ", port));
    sockaddr_in address{};
    socklen_t length = sizeof address;
    getsockname(reserve_fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    if (!Listen()) return absl::UnavailableError("cannot listen");
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  int port() const { return port_; }

  // Runs the task on the thread. Returns when it is done.
  void Post(std::function<void()> task) {
    std::unique_lock<std::mutex> lock(mutex_);
    tasks_.push_back(std::move(task));
    const uint64_t ticket = ++posted_;
    const uint64_t one = 1;
    (void)!write(wake_fd_, &one, sizeof one);
    task_done_.wait(lock, [&] { return ran_ >= ticket; });
  }

  FakeEndpointSeen Seen() {
    FakeEndpointSeen seen;
    Post([&] {
      seen = seen_;
      seen.open_connections = static_cast<int64_t>(connections_.size());
    });
    return seen;
  }
  void SetFaults(std::map<Fault, double> faults) {
    Post([&] { options_.faults = std::move(faults); });
  }
  void SetLatency(int64_t latency_us) {
    Post([&] { options_.latency_us = latency_us; });
  }
  void SetRetryAfter(std::string value) {
    Post([&] { options_.retry_after = std::move(value); });
  }
  void Die() {
    Post([&] {
      close(listen_fd_);
      listen_fd_ = -1;
      while (!connections_.empty()) CloseConnection(connections_.begin()->first, /*reset=*/true);
    });
  }
  void Return() {
    Post([&] {
      if (listen_fd_ < 0) Listen();
    });
  }

 private:
  struct Connection {
    int fd = -1;
    std::string in;
    std::string out;
    size_t sent = 0;
    Script script;
    bool answering = false;
    bool keep_alive = true;
    Step::Then after_output = Step::Then::kGoOn;
    bool reset_on_next = false;  // for kResetAfter
    bool wants_write = false;
    std::multimap<int64_t, int>::iterator timer;
    bool has_timer = false;
  };

  int Bind(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
    close(fd);
    return -1;
  }
  bool Listen() {
    listen_fd_ = Bind(port_);
    if (listen_fd_ < 0 || listen(listen_fd_, 4096) != 0) return false;
    Add(listen_fd_, EPOLLIN);
    return true;
  }
  void Add(int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  }

  void Run() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    std::array<epoll_event, 256> events;
    while (!stopping_) {
      int timeout_ms = -1;
      if (!timers_.empty()) {
        const int64_t left = timers_.begin()->first - Clock::Real().MonotonicNs();
        timeout_ms = left <= 0 ? 0 : static_cast<int>((left + 999'999) / 1'000'000);
      }
      const int ready =
          epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), timeout_ms);
      for (int i = 0; i < ready; ++i) {
        const epoll_event& event = events[static_cast<size_t>(i)];
        if (event.data.fd == wake_fd_) {
          RunTasks();
        } else if (event.data.fd == listen_fd_) {
          Accept();
        } else {
          OnSocket(event.data.fd, event.events);
        }
      }
      const int64_t now = Clock::Real().MonotonicNs();
      while (!timers_.empty() && timers_.begin()->first <= now) {
        Connection& connection = *connections_.at(timers_.begin()->second);
        timers_.erase(connection.timer);
        connection.has_timer = false;
        Advance(connection);
      }
    }
    while (!connections_.empty()) CloseConnection(connections_.begin()->first, /*reset=*/true);
    RunTasks();
  }

  void RunTasks() {
    uint64_t count = 0;
    (void)!read(wake_fd_, &count, sizeof count);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::function<void()>& task : tasks_) task();
    tasks_.clear();
    ran_ = posted_;
    task_done_.notify_all();
  }

  void Accept() {
    while (true) {
      const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int one = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
      auto connection = std::make_unique<Connection>();
      connection->fd = fd;
      connections_[fd] = std::move(connection);
      ++seen_.connections;
      Add(fd, EPOLLIN | EPOLLRDHUP);
    }
  }

  void OnSocket(int fd, uint32_t events) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
      std::array<char, 65536> buffer;
      while (true) {
        const ssize_t got = read(fd, buffer.data(), buffer.size());
        if (got > 0) {
          if (connection.reset_on_next) return CloseConnection(fd, /*reset=*/true);
          connection.in.append(buffer.data(), static_cast<size_t>(got));
          if (connection.in.size() > kMaxRequestBytes) return CloseConnection(fd, true);
          if (static_cast<size_t>(got) < buffer.size() && (events & ~EPOLLIN) == 0) break;
          continue;
        }
        if (got < 0 && errno == EAGAIN) break;
        if (connection.answering) ++seen_.closed_by_client;
        return CloseConnection(fd, /*reset=*/false);
      }
      if (!connection.answering && !ReadRequest(connection)) return;
    }
    if ((events & EPOLLOUT) != 0) Flush(connection);
  }

  void CloseConnection(int fd, bool reset) {
    const auto found = connections_.find(fd);
    if (found->second->has_timer) timers_.erase(found->second->timer);
    if (found->second->answering) --seen_.live;
    if (reset) {
      const linger now{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    connections_.erase(found);
    close(fd);
  }

  // Parses a request from the received bytes if it is complete. False: the connection is gone.
  bool ReadRequest(Connection& connection) {
    const size_t head_end = connection.in.find("\r\n\r\n");
    if (head_end == std::string::npos) return true;
    Request request;
    size_t length = 0;
    bool chunked = false;
    std::string_view head(connection.in.data(), head_end);
    std::string_view line = head.substr(0, head.find("\r\n"));
    request.method = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(line.size(), request.method.size() + 1));
    request.path = line.substr(0, line.find(' '));
    while (!head.empty()) {
      const size_t end = head.find("\r\n");
      line = head.substr(0, end);
      head.remove_prefix(end == std::string_view::npos ? head.size() : end + 2);
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos) continue;
      const std::string name = absl::AsciiStrToLower(absl::string_view(line.data(), colon));
      const std::string value(absl::StripAsciiWhitespace(
          absl::string_view(line.data() + colon + 1, line.size() - colon - 1)));
      if (name == "content-length") {
        std::from_chars(value.data(), value.data() + value.size(), length);
      } else if (name == "transfer-encoding") {
        chunked = absl::StrContains(value, "chunked");
      } else if (name == "connection") {
        request.keep_alive = !absl::StrContains(absl::AsciiStrToLower(value), "close");
      } else if (name == "x-fault") {
        request.fault = value;
      } else if (name == "authorization") {
        request.authorization = value;
      } else if (name == "traceparent") {
        request.traceparent = value;
      } else if (name == "tracestate") {
        request.tracestate = value;
      }
    }
    size_t at = head_end + 4;
    if (chunked) {
      while (true) {
        const size_t end = connection.in.find("\r\n", at);
        if (end == std::string::npos) return true;
        size_t size = 0;
        std::from_chars(connection.in.data() + at, connection.in.data() + end, size, 16);
        if (connection.in.size() < end + 2 + size + 2) return true;
        request.body.append(connection.in, end + 2, size);
        at = end + 2 + size + 2;
        if (size == 0) break;
      }
    } else {
      if (connection.in.size() < at + length) return true;
      request.body = connection.in.substr(at, length);
      at += length;
    }
    connection.in.erase(0, at);
    connection.answering = true;
    connection.keep_alive = request.keep_alive;
    ++seen_.live;
    connection.script = Respond(connection, request);
    return Arm(connection);
  }

  // Sets the timer of the next step, or continues immediately.
  bool Arm(Connection& connection) {
    if (!connection.script.empty() && connection.script.front().wait_us > 0) {
      const int64_t at_ns = Clock::Real().MonotonicNs() + connection.script.front().wait_us * 1000;
      connection.timer = timers_.emplace(at_ns, connection.fd);
      connection.has_timer = true;
      return true;
    }
    return Advance(connection);
  }

  // Runs the due step. False: the connection is gone.
  bool Advance(Connection& connection) {
    Step& step = connection.script.front();
    connection.out.append(step.bytes);
    connection.after_output = step.then;
    if (step.then != Step::Then::kRepeat) connection.script.pop_front();
    return Flush(connection);
  }

  bool Flush(Connection& connection) {
    while (connection.sent < connection.out.size()) {
      const ssize_t sent = send(connection.fd, connection.out.data() + connection.sent,
                                connection.out.size() - connection.sent, MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) {
        WantWrite(connection, true);
        return true;
      }
      if (sent < 0) {
        if (connection.answering) ++seen_.closed_by_client;
        CloseConnection(connection.fd, false);
        return false;
      }
      connection.sent += static_cast<size_t>(sent);
    }
    connection.out.clear();
    connection.sent = 0;
    WantWrite(connection, false);
    const Step::Then then = std::exchange(connection.after_output, Step::Then::kHang);
    switch (then) {
      case Step::Then::kGoOn:
      case Step::Then::kRepeat: return connection.script.empty() || Arm(connection);
      case Step::Then::kDone:
        ++seen_.completed;
        --seen_.live;
        connection.answering = false;
        if (!connection.keep_alive) {
          CloseConnection(connection.fd, false);
          return false;
        }
        return connection.in.empty() || ReadRequest(connection);
      case Step::Then::kClose: CloseConnection(connection.fd, false); return false;
      case Step::Then::kReset: CloseConnection(connection.fd, true); return false;
      case Step::Then::kHalfClose: shutdown(connection.fd, SHUT_WR); return true;
      case Step::Then::kHang: return true;
    }
    return true;
  }

  void WantWrite(Connection& connection, bool wanted) {
    if (connection.wants_write == wanted) return;
    connection.wants_write = wanted;
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP | (wanted ? static_cast<uint32_t>(EPOLLOUT) : 0U);
    event.data.fd = connection.fd;
    epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, connection.fd, &event);
  }

  Script Respond(Connection& connection, const Request& request) {
    const auto done = [](std::string bytes) {
      return Script{Step{0, std::move(bytes), Step::Then::kDone}};
    };
    if (request.method == "GET" && absl::EndsWith(request.path, "/models")) {
      if (!Authorized(request)) return done(Plain(401, ErrorBody("no", "auth", "invalid_api_key")));
      Json list = Json::array();
      for (const std::string& model : options_.models) {
        list.push_back({{"id", model}, {"object", "model"}});
      }
      return done(Plain(200, Dump({{"object", "list"}, {"data", list}})));
    }
    if (request.path == "/admin/seen") return done(Plain(200, SeenJson()));
    if (request.path == "/admin/faults") return done(ReadFaults(request.body));
    if (request.method != "POST" || !absl::EndsWith(request.path, "/chat/completions")) {
      return done(Plain(404, ErrorBody("no such path", "not_found", "not_found")));
    }
    return Complete(connection, request);
  }

  bool Authorized(const Request& request) const {
    return options_.api_key.empty() || request.authorization == "Bearer " + options_.api_key;
  }

  std::string SeenJson() const {
    Json faults = Json::object();
    for (const auto& [fault, count] : seen_.faults) faults[std::string(FaultName(fault))] = count;
    return Dump({{"connections", seen_.connections},
                 {"open_connections", connections_.size()},
                 {"requests", seen_.requests},
                 {"live", seen_.live},
                 {"completed", seen_.completed},
                 {"closed_by_client", seen_.closed_by_client},
                 {"traceparents", seen_.traceparents},
                 {"faults", faults}});
  }

  std::string ReadFaults(const std::string& body) {
    const nlohmann::json json = nlohmann::json::parse(body, nullptr, false);
    std::map<Fault, double> faults;
    bool valid = json.is_object();
    const nlohmann::json none = nlohmann::json::object();
    for (const auto& [name, share] : (valid ? json : none).items()) {
      const std::optional<Fault> fault = ParseFault(name);
      valid = valid && fault.has_value() && share.is_number();
      if (valid) faults[*fault] = share.get<double>();
    }
    if (!valid) return Plain(400, ErrorBody("an object of faults and shares", "invalid", "faults"));
    options_.faults = std::move(faults);
    return Plain(200, "{}");
  }

  Fault Draw() {
    double drawn = std::uniform_real_distribution<double>(0, 1)(random_);
    for (const auto& [fault, share] : options_.faults) {
      drawn -= share;
      if (drawn < 0) return fault;
    }
    return Fault::kNone;
  }

  Script Complete(Connection& connection, const Request& http) {
    ++seen_.requests;
    if (!repeated_.empty()) return repeated_;
    seen_.bodies.push_back(http.body);
    seen_.authorizations.push_back(http.authorization);
    seen_.traceparents.push_back(http.traceparent);
    seen_.tracestates.push_back(http.tracestate);
    if (seen_.bodies.size() > kKept) {
      for (auto* kept :
           {&seen_.bodies, &seen_.authorizations, &seen_.traceparents, &seen_.tracestates}) {
        kept->erase(kept->begin());
      }
    }
    const auto refuse = [this](int status, const std::string& message, const std::string& code) {
      return Script{Step{options_.latency_us,
                         Plain(status, ErrorBody(message, "invalid_request_error", code)),
                         Step::Then::kDone}};
    };
    if (!Authorized(http)) {
      return refuse(401, absl::StrCat("wrong key: ", http.authorization), "invalid_api_key");
    }
    nlohmann::json request = nlohmann::json::parse(http.body, nullptr, false);
    if (!request.is_object() || !request.contains("messages")) {
      return refuse(400, "the body is no chat completion request", "invalid_json");
    }
    Fault fault = Draw();
    std::string model = request.value("model", "");
    const size_t mark = model.rfind('!');
    const std::string asked = !http.fault.empty()         ? http.fault
                              : mark == std::string::npos ? ""
                                                          : model.substr(mark + 1);
    if (mark != std::string::npos) model.resize(mark);
    if (!asked.empty()) {
      const std::optional<Fault> parsed = ParseFault(asked);
      if (!parsed.has_value()) return refuse(400, absl::StrCat("no fault ", asked), "no_fault");
      fault = *parsed;
    }
    ++seen_.faults[fault];
    if (options_.check_model &&
        std::find(options_.models.begin(), options_.models.end(), model) == options_.models.end()) {
      return refuse(404, absl::StrCat("no model ", model), "model_not_found");
    }
    const bool names_tool = request.contains("tool_choice") && request["tool_choice"].is_object();
    if ((request.contains("response_format") && !options_.supports_json_schema) ||
        (request.contains("tools") && !options_.supports_tools) ||
        (names_tool && !options_.supports_named_tool_choice)) {
      return refuse(400, "this server does not know that parameter", "unsupported_parameter");
    }
    if (std::optional<Script> script = Instead(fault, http)) return *std::move(script);
    if (options_.reply) {
      if (const std::optional<FakeReply> reply = options_.reply(request)) {
        return Script{Step{options_.latency_us,
                           Plain(reply->status, reply->body, reply->headers, reply->type),
                           Step::Then::kDone}};
      }
    }

    FakeAnswer answer = options_.answers(request, fault, random_);
    if (answer.finish_reason.empty()) {
      answer.finish_reason = answer.tool_calls.empty() ? "stop" : "tool_calls";
    }
    if (fault == Fault::kHugeAnswer || fault == Fault::kHugeEvent) {
      answer.tool_calls.clear();
      answer.content.assign(kHugeBytes, 'x');
    }
    const Json usage = Usage(request, answer);
    connection.reset_on_next = fault == Fault::kResetAfter;
    Script script = request.value("stream", false) && fault != Fault::kPlainJson
                        ? Stream(fault, request, answer, usage, model)
                        : Whole(fault, answer, usage, model);
    if (fault == Fault::kCloseAfter) script.back().then = Step::Then::kClose;
    if (options_.repeat_first_answer && fault == Fault::kNone) repeated_ = script;
    return script;
  }

  // Faults without an answer.
  std::optional<Script> Instead(Fault fault, const Request& http) {
    const int64_t wait = options_.latency_us;
    const auto plain = [wait](std::string bytes, Step::Then then = Step::Then::kDone) {
      return Script{Step{wait, std::move(bytes), then}};
    };
    const std::string busy = ErrorBody("slow down", "rate_limit_error", "rate_limit_exceeded");
    switch (fault) {
      case Fault::kRateLimit: return plain(Plain(429, busy));
      case Fault::kRateLimitRetryAfter:
        return plain(Plain(429, busy, absl::StrCat("Retry-After: ", options_.retry_after, "\r\n")));
      case Fault::kRateLimitDate: {
        const std::string date = absl::FormatTime(
            "%a, %d %b %Y %H:%M:%S GMT", absl::Now() + absl::Seconds(1), absl::UTCTimeZone());
        return plain(Plain(429, busy, absl::StrCat("Retry-After: ", date, "\r\n")));
      }
      case Fault::kSpendLimit:
        return plain(Plain(429, ErrorBody("You exceeded your current quota.", "insufficient_quota",
                                          "insufficient_quota")));
      case Fault::kServerError:
        return plain(Plain(500, ErrorBody("boom", "server_error", "internal_error")));
      case Fault::kUnavailable: return plain(Plain(503, "no backend is ready\n", "", "text/plain"));
      case Fault::kBadRequest:
        return plain(Plain(400, ErrorBody("the prompt is too long", "invalid_request_error",
                                          "context_length_exceeded")));
      case Fault::kUnauthorized:
        return plain(Plain(401, ErrorBody(absl::StrCat("Incorrect key: ", http.authorization),
                                          "invalid_request_error", "invalid_api_key")));
      case Fault::kNotFound:
        return plain(Plain(404, ErrorBody("no such model", "not_found", "model_not_found")));
      case Fault::kRedirect: return plain(Plain(307, "", "Location: /v1/elsewhere\r\n"));
      case Fault::kErrorInStream:
        return plain(absl::StrCat(
            kStreamHead, Chunk(Event(ErrorBody("the engine died", "server_error", "engine"))),
            Chunk(Event("[DONE]")), "0\r\n\r\n"));
      case Fault::kEmptyBody: return plain(Plain(200, ""));
      case Fault::kHtml:
        return plain(
            Plain(200, "<html><body>Sign in to the network</body></html>", "", "text/html"));
      case Fault::kGarbage: return plain("\x16\x03\x01 what?\n\n", Step::Then::kClose);
      case Fault::kReset: return plain("", Step::Then::kReset);
      case Fault::kHang: return plain("", Step::Then::kHang);
      case Fault::kHangAfterHead: return plain(kStreamHead, Step::Then::kHang);
      default: return std::nullopt;
    }
  }

  Json Usage(const nlohmann::json& request, const FakeAnswer& answer) {
    size_t completion = answer.content.size() + answer.reasoning.size();
    for (const FakeToolCall& call : answer.tool_calls) completion += call.arguments.size();
    const std::string prompt =
        request["messages"].dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    const size_t prompt_tokens =
        answer.prompt_tokens > 0 ? answer.prompt_tokens : prompt.size() / 4 + 1;
    const size_t completion_tokens =
        answer.completion_tokens > 0 ? answer.completion_tokens : completion / 4 + 1;
    if (prompts_.size() > 10'000) prompts_.clear();
    const bool cached = !prompts_.insert(std::hash<std::string>()(prompt)).second;
    return {{"prompt_tokens", prompt_tokens},
            {"completion_tokens", completion_tokens},
            {"total_tokens", prompt_tokens + completion_tokens},
            {"prompt_tokens_details", {{"cached_tokens", cached ? prompt_tokens - 1 : 0}}},
            {"completion_tokens_details", {{"reasoning_tokens", answer.reasoning.size() / 4}}}};
  }

  int64_t LatencyOf(const FakeAnswer& answer) const {
    return answer.latency_us >= 0 ? answer.latency_us : options_.latency_us;
  }

  static Json CallJson(const FakeToolCall& call, size_t index, const std::string& arguments) {
    return {{"index", index},
            {"id", absl::StrCat("call_", index)},
            {"type", "function"},
            {"function", {{"name", call.name}, {"arguments", arguments}}}};
  }

  Script Whole(Fault fault, const FakeAnswer& answer, const Json& usage, const std::string& model) {
    Json message = {{"role", "assistant"}, {"content", answer.content}};
    if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
    for (size_t i = 0; i < answer.tool_calls.size(); ++i) {
      message["tool_calls"].push_back(
          CallJson(answer.tool_calls[i], i, answer.tool_calls[i].arguments));
    }
    Json body = {{"id", "chatcmpl-fake"},
                 {"object", "chat.completion"},
                 {"model", model},
                 {"choices",
                  {{{"index", 0}, {"message", message}, {"finish_reason", answer.finish_reason}}}}};
    if (fault != Fault::kNoUsage) body["usage"] = usage;
    return {Step{LatencyOf(answer), Plain(200, Dump(body)), Step::Then::kDone}};
  }

  // The data of an answer's events.
  std::vector<std::string> Events(Fault fault, const nlohmann::json& request,
                                  const FakeAnswer& answer, const Json& usage,
                                  const std::string& model) {
    std::vector<std::string> events;
    const auto add = [&](const Json& delta, const Json& finish_reason) {
      const Json object = {
          {"id", "chatcmpl-fake"},
          {"object", "chat.completion.chunk"},
          {"model", model},
          {"choices", {{{"index", 0}, {"delta", delta}, {"finish_reason", finish_reason}}}}};
      events.push_back(Dump(object));
    };
    const auto pieces = [this](const std::string& text) {
      std::vector<std::string> parts;
      const size_t count = static_cast<size_t>(std::max(options_.pieces, 1));
      const size_t size = std::max<size_t>((text.size() + count - 1) / count, 1);
      for (size_t at = 0; at < text.size(); at += size) parts.push_back(text.substr(at, size));
      return parts;
    };
    add({{"role", "assistant"}, {"content", ""}}, nullptr);
    if (!answer.reasoning.empty()) add({{"reasoning_content", answer.reasoning}}, nullptr);
    if (fault == Fault::kHugeEvent) {
      add({{"content", answer.content}}, nullptr);
    } else if (fault == Fault::kHugeAnswer) {
      const std::string piece(16 << 10, 'x');
      for (size_t sent = 0; sent < kHugeBytes; sent += piece.size()) {
        add({{"content", piece}}, nullptr);
      }
    } else {
      for (const std::string& part : pieces(answer.content)) add({{"content", part}}, nullptr);
    }
    for (size_t i = 0; i < answer.tool_calls.size(); ++i) {
      const FakeToolCall& call = answer.tool_calls[i];
      add({{"tool_calls", Json::array({CallJson(call, i, "")})}}, nullptr);
      for (const std::string& part : pieces(call.arguments)) {
        add({{"tool_calls", {{{"index", i}, {"function", {{"arguments", part}}}}}}}, nullptr);
      }
    }
    if (fault == Fault::kWhitespaceLoop) return events;
    add(Json::object(), answer.finish_reason);
    const bool wants_usage = request.contains("stream_options") &&
                             request["stream_options"].is_object() &&
                             request["stream_options"].value("include_usage", false);
    if (wants_usage && fault != Fault::kNoUsage) {
      events.push_back(Dump({{"id", "chatcmpl-fake"},
                             {"object", "chat.completion.chunk"},
                             {"model", model},
                             {"choices", Json::array()},
                             {"usage", usage}}));
    }
    if (fault == Fault::kUnicodeJunk) {
      for (std::string& event : events) {
        const size_t at = event.find("wide");
        if (at != std::string::npos) event.insert(at, "\xFF\xC0\\ud83d");
      }
    }
    if (fault != Fault::kNoDone) events.push_back("[DONE]");
    return events;
  }

  Script Stream(Fault fault, const nlohmann::json& request, const FakeAnswer& answer,
                const Json& usage, const std::string& model) {
    const std::vector<std::string> events = Events(fault, request, answer, usage, model);
    Script script;
    script.push_back({LatencyOf(answer), kStreamHead, Step::Then::kGoOn});
    const auto send = [&](std::string bytes) {
      if (options_.piece_interval_us > 0 && script.size() > 1) {
        script.push_back({options_.piece_interval_us, std::move(bytes), Step::Then::kGoOn});
      } else if (options_.piece_interval_us > 0) {
        script.push_back({0, std::move(bytes), Step::Then::kGoOn});
      } else {
        script.back().bytes.append(bytes);
      }
    };
    const auto end = [&](Step::Then then) {
      script.back().then = then;
      return std::move(script);
    };
    const size_t half = events.size() / 2;
    switch (fault) {
      case Fault::kStall:
      case Fault::kResetInStream:
      case Fault::kHalfClosed:
      case Fault::kTruncatedStream:
        for (size_t i = 0; i < half; ++i) send(Chunk(Event(events[i])));
        if (fault == Fault::kStall) return end(Step::Then::kHang);
        if (fault == Fault::kHalfClosed) return end(Step::Then::kHalfClose);
        if (fault == Fault::kResetInStream) {
          // Delayed, because a reset also discards unread data.
          script.push_back({10'000, "", Step::Then::kReset});
          return script;
        }
        send("0\r\n\r\n");
        return end(Step::Then::kDone);
      case Fault::kTruncatedJson:
        for (size_t i = 0; i < half; ++i) send(Chunk(Event(events[i])));
        send(Chunk(Event(events[half].substr(0, events[half].size() / 2))));
        send(Chunk(Event("[DONE]")) + "0\r\n\r\n");
        return end(Step::Then::kDone);
      case Fault::kSlowLoris: {
        for (const std::string& event : events) {
          for (const char c : Event(event)) {
            script.push_back(
                {options_.loris_interval_us, Chunk(std::string_view(&c, 1)), Step::Then::kGoOn});
          }
        }
        script.push_back({0, "0\r\n\r\n", Step::Then::kDone});
        return script;
      }
      case Fault::kWhitespaceLoop: {
        for (const std::string& event : events) send(Chunk(Event(event)));
        const Json blank = {{"choices", {{{"index", 0}, {"delta", {{"content", "\n  \t"}}}}}}};
        const Json arguments = {
            {"choices",
             {{{"index", 0},
               {"delta",
                {{"tool_calls", {{{"index", 0}, {"function", {{"arguments", "  \n\t"}}}}}}}}}}}};
        const std::string data = Dump(answer.tool_calls.empty() ? blank : arguments);
        script.push_back({1'000, Chunk(Event(data)), Step::Then::kRepeat});
        return script;
      }
      case Fault::kOddFraming: {
        std::string all = "\xEF\xBB\xBF: hello\r\nretry: 100\r\n\r\n";
        for (size_t i = 0; i < events.size(); ++i) {
          const std::string& event = events[i];
          // JSON may be cut between tokens, such as after the first comma.
          const size_t comma = i % 2 == 0 ? event.find(',') : std::string::npos;
          absl::StrAppend(&all, i % 3 == 0 ? ": keep-alive\r\n\r\n" : "", "event: message\r\n");
          if (comma == std::string::npos) {
            absl::StrAppend(&all, "data:", event, "\r\n\r\n");
          } else {
            absl::StrAppend(&all, "data:", event.substr(0, comma + 1),
                            "\r\ndata: ", event.substr(comma + 1), "\r\n\r\n");
          }
        }
        // Arbitrary pieces.
        for (size_t at = 0; at < all.size();) {
          const size_t size = 1 + random_() % 7;
          send(Chunk(std::string_view(all).substr(at, size)));
          at += size;
        }
        send("0\r\n\r\n");
        return end(Step::Then::kDone);
      }
      default:
        for (const std::string& event : events) send(Chunk(Event(event)));
        if (fault == Fault::kStallsAtEnd) return end(Step::Then::kHang);
        send("0\r\n\r\n");
        return end(Step::Then::kDone);
    }
  }

  // Constant after Start.
  int port_ = 0;
  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  int reserve_fd_ = -1;

  std::mutex mutex_;
  std::condition_variable task_done_;
  // State below is protected by mutex_.
  std::vector<std::function<void()>> tasks_;
  uint64_t posted_ = 0;
  uint64_t ran_ = 0;

  // Used by the thread and the tasks it runs.
  FakeEndpointOptions options_;
  std::mt19937_64 random_;
  int listen_fd_ = -1;
  bool stopping_ = false;
  std::unordered_map<int, std::unique_ptr<Connection>> connections_;
  std::multimap<int64_t, int> timers_;
  FakeEndpointSeen seen_;
  std::unordered_set<size_t> prompts_;
  Script repeated_;

  std::thread thread_;
};

FakeLlmEndpoint::FakeLlmEndpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FakeLlmEndpoint::~FakeLlmEndpoint() = default;

absl::StatusOr<std::unique_ptr<FakeLlmEndpoint>> FakeLlmEndpoint::Start(FakeEndpointOptions options,
                                                                        int port) {
  auto impl = std::make_unique<Impl>(std::move(options));
  absl::Status status = impl->Start(port);
  if (!status.ok()) return status;
  return std::unique_ptr<FakeLlmEndpoint>(new FakeLlmEndpoint(std::move(impl)));
}

int FakeLlmEndpoint::port() const { return impl_->port(); }
std::string FakeLlmEndpoint::url() const {
  return absl::StrCat("http://127.0.0.1:", impl_->port(), "/v1");
}
void FakeLlmEndpoint::SetFaults(std::map<Fault, double> faults) {
  impl_->SetFaults(std::move(faults));
}
void FakeLlmEndpoint::SetLatency(int64_t latency_us) { impl_->SetLatency(latency_us); }
void FakeLlmEndpoint::SetRetryAfter(std::string value) { impl_->SetRetryAfter(std::move(value)); }
void FakeLlmEndpoint::Die() { impl_->Die(); }
void FakeLlmEndpoint::Return() { impl_->Return(); }
FakeEndpointSeen FakeLlmEndpoint::Seen() const { return impl_->Seen(); }

}  // namespace kernelcast::testing
