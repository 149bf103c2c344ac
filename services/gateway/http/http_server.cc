#include "services/gateway/http/http_server.h"

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/host_and_port.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/file_watch.h"
#include "common/rpc/listener.h"

namespace kernelcast::gateway {
namespace {

// How long a client may take to send a body.
constexpr int64_t kBodyTimeNs = 60'000'000'000;
constexpr unsigned kIdleSeconds = 30;
constexpr size_t kHeadBytes = 32 << 10;
// The rest of a refused body is read and dropped, so that a client that is still sending gets the
// reply and not a reset connection. A connection with more is closed.
constexpr size_t kMaxDroppedBytes = size_t{32} << 20;
constexpr auto kLastReplies = std::chrono::seconds(2);
constexpr char kTlsPriorities[] = "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1:%NO_TICKETS";

int64_t NowNs() { return Clock::Real().MonotonicNs(); }

std::string HeaderOf(MHD_Connection* connection, const char* name) {
  const char* const value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

// A request while it is read and answered. One thread has it at a time.
struct Request {
  MHD_Connection* connection = nullptr;  // null until its head has been read
  RequestHead head;
  int64_t started_ns = 0;
  std::string body;
  size_t dropped_bytes = 0;
  bool complete = false;
  std::optional<HttpReply> reply;
};

MHD_Result Answer(MHD_Connection* connection, const HttpReply& reply) {
  std::string body = reply.page.empty()
                         ? reply.body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
                         : reply.page;
  MHD_Response* const response =
      MHD_create_response_from_buffer(body.size(), body.data(), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  const absl::Cleanup release = [response] { MHD_destroy_response(response); };
  MHD_add_response_header(response, "Content-Type",
                          reply.page.empty() ? "application/json" : "text/html; charset=utf-8");
  MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  MHD_add_response_header(response, "Cache-Control", "no-store");
  MHD_add_response_header(response, "Connection", "close");
  if (reply.retry_after_s > 0) {
    MHD_add_response_header(response, "Retry-After", absl::StrCat(reply.retry_after_s).c_str());
  }
  return MHD_queue_response(connection, static_cast<unsigned>(reply.status), response);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, Front* front) : options_(options), front_(front) {}
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Start(const HostAndPort& where);
  const std::string& address() const { return address_; }

 private:
  // The library's part: reads requests and writes replies on a thread of its own.
  struct StopDaemon {
    void operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }
  };
  struct Daemon {
    std::atomic<size_t> connections = 0;
    std::unique_ptr<MHD_Daemon, StopDaemon> daemon = {};  // stops first
  };

  absl::StatusOr<std::unique_ptr<Daemon>> MakeDaemon();
  // Uses the present TLS files for new connections.
  void Renew();
  void TakeConnection(int fd);

  static void* OnTarget(void* self, const char* target, MHD_Connection* connection);
  static MHD_Result OnRequest(void* self, MHD_Connection* connection, const char* url,
                              const char* method, const char* version, const char* data,
                              size_t* data_bytes, void** request);
  static void OnConnection(void* daemon, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode code);
  static void OnEnd(void* self, MHD_Connection* connection, void** request,
                    MHD_RequestTerminationCode why);

  bool HasValidCertificate(MHD_Connection* connection) const;
  MHD_Result ReadHead(Request& request, MHD_Connection* connection, const char* method);
  MHD_Result ReadBody(Request& request, std::string_view data);
  void ReleaseBody(Request& request);
  // Answers complete requests until the server stops.
  void AnswerRequests();

  // Constant once serving.
  const HttpServerOptions options_;
  Front* const front_;
  std::string address_;

  std::atomic<size_t> bodies_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request*> complete_ ABSL_GUARDED_BY(mutex_);
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // complete, but the reply is not sent yet
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  // The last one takes new connections; those before it end theirs.
  std::vector<std::unique_ptr<Daemon>> daemons_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::jthread> threads_;
  std::unique_ptr<FileWatch> watch_;
  std::unique_ptr<Listener> listener_;
};

HttpServer::Impl::~Impl() {
  listener_.reset();
  watch_.reset();
  std::vector<std::unique_ptr<Daemon>> daemons;
  {
    std::unique_lock lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  threads_.clear();  // answers what is complete
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kLastReplies,
                      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return unanswered_ == 0; });
    daemons.swap(daemons_);
  }
}

absl::Status HttpServer::Impl::Start(const HostAndPort& where) {
  KC_ASSIGN_OR_RETURN(auto daemon, MakeDaemon());
  KC_ASSIGN_OR_RETURN(listener_, Listener::Bind(options_.address));
  address_ = absl::StrCat(where.host, ":", listener_->port());
  {
    const std::lock_guard lock(mutex_);
    daemons_.push_back(std::move(daemon));
  }
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { AnswerRequests(); });
  if (const TlsOptions& tls = options_.tls; !tls.certificate_file.empty()) {
    std::vector<std::string> paths = {tls.certificate_file, tls.key_file};
    if (!tls.ca_file.empty()) paths.push_back(tls.ca_file);
    watch_ = std::make_unique<FileWatch>(paths, tls.reload_interval, [this] { Renew(); });
  }
  listener_->Start([this](int, int fd) { TakeConnection(fd); });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<HttpServer::Impl::Daemon>> HttpServer::Impl::MakeDaemon() {
  const TlsOptions& tls = options_.tls;
  // With epoll the library would take a full batch of 128 events and wait for more before it
  // handles them, for as long as a connection may be idle.
  unsigned flags =
      MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET;
  std::string certificate;
  std::string key;
  std::string authority;
  std::vector<MHD_OptionItem> settings;
  if (!tls.certificate_file.empty()) {
    KC_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
    KC_ASSIGN_OR_RETURN(certificate, ReadFile(tls.certificate_file));
    KC_ASSIGN_OR_RETURN(key, ReadFile(tls.key_file));
    flags |= MHD_USE_TLS;
    settings.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, certificate.data()});
    settings.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, key.data()});
    settings.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsPriorities)});
    if (!tls.ca_file.empty()) {
      KC_ASSIGN_OR_RETURN(authority, ReadFile(tls.ca_file));
      settings.push_back({MHD_OPTION_HTTPS_MEM_TRUST, 0, authority.data()});
    }
  }
  settings.push_back({MHD_OPTION_END, 0, nullptr});
  auto made = std::make_unique<Daemon>();
  made->daemon.reset(MHD_start_daemon(
      flags, 0, nullptr, nullptr, &Impl::OnRequest, this, MHD_OPTION_URI_LOG_CALLBACK,
      &Impl::OnTarget, this, MHD_OPTION_NOTIFY_COMPLETED, &Impl::OnEnd, this,
      MHD_OPTION_NOTIFY_CONNECTION, &Impl::OnConnection, made.get(), MHD_OPTION_CONNECTION_LIMIT,
      // Not reached: a daemon at its limit takes no connection later either.
      2 * options_.max_connections + 64, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kHeadBytes, MHD_OPTION_ARRAY, settings.data(),
      MHD_OPTION_END));
  if (made->daemon == nullptr) {
    return tls.certificate_file.empty()
               ? absl::UnavailableError("cannot start the HTTP server")
               : absl::InvalidArgumentError(absl::StrCat("GnuTLS cannot use ", tls.certificate_file,
                                                         " and ", tls.key_file));
  }
  return made;
}

void HttpServer::Impl::Renew() {
  auto daemon = MakeDaemon();
  if (!daemon.ok()) return;                   // CertificateExpiry logs it
  std::vector<std::unique_ptr<Daemon>> idle;  // stopped without the lock
  const std::lock_guard lock(mutex_);
  for (auto& earlier : std::exchange(daemons_, {})) {
    (earlier->connections == 0 ? idle : daemons_).push_back(std::move(earlier));
  }
  daemons_.push_back(*std::move(daemon));
}

void HttpServer::Impl::TakeConnection(int fd) {
  sockaddr_storage peer = {};
  socklen_t bytes = sizeof(peer);
  const std::lock_guard lock(mutex_);
  size_t connections = 0;
  for (const auto& daemon : daemons_) connections += daemon->connections;
  if (connections >= options_.max_connections ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) {
    close(fd);
    return;
  }
  Daemon& daemon = *daemons_.back();
  ++daemon.connections;
  // Closes the connection if it cannot be served.
  const MHD_Result added =
      MHD_add_connection(daemon.daemon.get(), fd, reinterpret_cast<sockaddr*>(&peer), bytes);
  if (added == MHD_NO) --daemon.connections;
}

void HttpServer::Impl::OnConnection(void* daemon, MHD_Connection*, void**,
                                    MHD_ConnectionNotificationCode code) {
  if (code == MHD_CONNECTION_NOTIFY_CLOSED) --static_cast<Daemon*>(daemon)->connections;
}

void* HttpServer::Impl::OnTarget(void*, const char* target, MHD_Connection*) {
  auto* const request = new Request();
  request->head.target = target;
  request->started_ns = NowNs();
  return request;
}

MHD_Result HttpServer::Impl::OnRequest(void* self, MHD_Connection* connection, const char*,
                                       const char* method, const char*, const char* data,
                                       size_t* data_bytes, void** request) {
  Impl& impl = *static_cast<Impl*>(self);
  Request& at = *static_cast<Request*>(*request);
  if (at.connection == nullptr) return impl.ReadHead(at, connection, method);
  if (*data_bytes > 0) {
    const std::string_view part(data, std::exchange(*data_bytes, 0));
    return impl.ReadBody(at, part);
  }
  if (at.reply.has_value()) return Answer(connection, *at.reply);
  const std::lock_guard lock(impl.mutex_);
  if (impl.stops_) return MHD_NO;
  MHD_suspend_connection(connection);
  at.complete = true;
  impl.complete_.push_back(&at);
  ++impl.unanswered_;
  impl.changed_.notify_one();
  return MHD_YES;
}

void HttpServer::Impl::OnEnd(void* self, MHD_Connection*, void** request,
                             MHD_RequestTerminationCode) {
  Impl& impl = *static_cast<Impl*>(self);
  const std::unique_ptr<Request> ended(static_cast<Request*>(*request));
  if (ended == nullptr) return;
  impl.ReleaseBody(*ended);
  if (!ended->complete) return;
  const std::lock_guard lock(impl.mutex_);
  --impl.unanswered_;
  impl.changed_.notify_all();
}

bool HttpServer::Impl::HasValidCertificate(MHD_Connection* connection) const {
  if (options_.tls.ca_file.empty()) return true;
  const MHD_ConnectionInfo* const info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  unsigned faults = 0;
  return info != nullptr &&
         gnutls_certificate_verify_peers2(static_cast<gnutls_session_t>(info->tls_session),
                                          &faults) == GNUTLS_E_SUCCESS &&
         faults == 0;
}

MHD_Result HttpServer::Impl::ReadHead(Request& request, MHD_Connection* connection,
                                      const char* method) {
  if (!HasValidCertificate(connection)) return MHD_NO;
  request.connection = connection;
  RequestHead& head = request.head;
  head.method = method;
  head.content_type = HeaderOf(connection, "Content-Type");
  head.authorization = HeaderOf(connection, "Authorization");
  head.popcorn_id = HeaderOf(connection, "X-Popcorn-Cli-Id");
  head.traceparent = HeaderOf(connection, "traceparent");
  head.tracestate = HeaderOf(connection, "tracestate");
  head.from_web_page =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin") != nullptr;
  request.reply = front_->Refusal(head);
  return MHD_YES;
}

MHD_Result HttpServer::Impl::ReadBody(Request& request, std::string_view data) {
  if (NowNs() - request.started_ns > kBodyTimeNs) return MHD_NO;
  if (!request.reply.has_value()) {
    absl::Status status;
    if (request.body.size() + data.size() > options_.max_body_bytes) {
      status = absl::OutOfRangeError(
          absl::StrCat("the body is larger than ", options_.max_body_bytes, " bytes"));
    } else if (bodies_bytes_.fetch_add(data.size()) + data.size() > options_.max_bodies_bytes) {
      bodies_bytes_ -= data.size();
      status = absl::ResourceExhaustedError("too many large requests at once");
    }
    if (status.ok()) {
      request.body.append(data);
      return MHD_YES;
    }
    request.reply = front_->Refuse(request.head, status);
    if (absl::IsOutOfRange(status)) request.reply->status = 413;
    ReleaseBody(request);
  }
  request.dropped_bytes += data.size();
  return request.dropped_bytes <= kMaxDroppedBytes ? MHD_YES : MHD_NO;
}

void HttpServer::Impl::ReleaseBody(Request& request) {
  bodies_bytes_ -= request.body.size();
  request.body = std::string();
}

void HttpServer::Impl::AnswerRequests() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock,
                  [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return stops_ || !complete_.empty(); });
    if (complete_.empty()) return;
    Request& request = *complete_.front();
    complete_.pop_front();
    lock.unlock();
    request.reply = front_->Handle(request.head, request.body);
    MHD_resume_connection(request.connection);
    lock.lock();
  }
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              Front* front) {
  KC_ASSIGN_OR_RETURN(const HostAndPort where, ParseHostAndPort(options.address));
  auto impl = std::make_unique<Impl>(options, front);
  KC_RETURN_IF_ERROR(impl->Start(where));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const std::string& HttpServer::address() const { return impl_->address(); }

}  // namespace kernelcast::gateway
