#include "services/gateway/http/http_server.h"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/host_and_port.h"
#include "common/base/status.h"
#include "services/gateway/http/tls_relay.h"

namespace kernelcast::gateway {
namespace {

// How long a client may take to send a body.
constexpr int64_t kBodyTimeNs = 60'000'000'000;
// TLS connections beyond the number of threads, which wait for one.
constexpr size_t kWaitingConnections = 64;
// Read and dropped before a connection is closed, so that a client that is still sending gets the
// reply and not a reset connection.
constexpr size_t kMaxDroppedBytes = size_t{32} << 20;
constexpr int64_t kDropTimeNs = 5'000'000'000;

int64_t NowNs() { return Clock::Real().MonotonicNs(); }

std::string HeaderOf(const mg_connection* connection, const char* name) {
  const char* const value = mg_get_header(connection, name);
  return value == nullptr ? "" : value;
}

RequestHead HeadOf(const mg_connection* connection) {
  const mg_request_info& info = *mg_get_request_info(connection);
  RequestHead head;
  head.method = info.request_method;
  head.target = info.request_uri;
  if (info.query_string != nullptr) absl::StrAppend(&head.target, "?", info.query_string);
  head.content_type = HeaderOf(connection, "Content-Type");
  head.authorization = HeaderOf(connection, "Authorization");
  head.popcorn_id = HeaderOf(connection, "X-Popcorn-Cli-Id");
  head.from_web_page = mg_get_header(connection, "Origin") != nullptr;
  return head;
}

void Answer(mg_connection* connection, const HttpReply& reply) {
  const std::string body =
      reply.body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string answer = absl::StrCat(
      "HTTP/1.1 ", reply.status, " ", mg_get_response_code_text(connection, reply.status),
      "\r\nContent-Type: application/json\r\nContent-Length: ", body.size(),
      "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nConnection: close\r\n");
  if (reply.retry_after_s > 0)
    absl::StrAppend(&answer, "Retry-After: ", reply.retry_after_s, "\r\n");
  absl::StrAppend(&answer, "\r\n", body);
  mg_write(connection, answer.data(), answer.size());
}

void DropBody(mg_connection* connection) {
  std::array<char, 16 << 10> buffer;
  const int64_t end_ns = NowNs() + kDropTimeNs;
  for (size_t dropped = 0; dropped < kMaxDroppedBytes && NowNs() < end_ns;) {
    const int got = mg_read(connection, buffer.data(), buffer.size());
    if (got <= 0) return;
    dropped += static_cast<size_t>(got);
  }
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, Front* front) : options_(options), front_(front) {}
  ~Impl() {
    if (relay_ != nullptr) relay_->Stop();
    if (context_ != nullptr) mg_stop(context_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Start(const HostAndPort& where) {
    mg_callbacks callbacks = {};
    std::string listen = options_.address;
    if (!options_.tls.certificate_file.empty()) {
      const size_t connections = static_cast<size_t>(options_.threads) + kWaitingConnections;
      KC_ASSIGN_OR_RETURN(relay_, TlsRelay::Create(options_.address, options_.tls, connections));
      listen = "127.0.0.1:0";
    }
    callbacks.begin_request = &Impl::OnRequest;
    callbacks.log_message = &Impl::OnMessage;
    const std::string threads = absl::StrCat(options_.threads);
    std::array<const char*, 13> settings = {"listening_ports",
                                            listen.c_str(),
                                            "num_threads",
                                            threads.c_str(),
                                            "request_timeout_ms",
                                            "30000",
                                            "max_request_size",
                                            "16384",
                                            "enable_keep_alive",
                                            "no",
                                            "decode_url",
                                            "no",
                                            nullptr};
    context_ = mg_start(&callbacks, this, settings.data());
    mg_server_port port = {};
    if (context_ == nullptr || mg_get_server_ports(context_, 1, &port) < 1) {
      const std::lock_guard lock(mutex_);
      return absl::UnavailableError(
          absl::StrCat("cannot serve HTTP on '", listen, "': ", message_));
    }
    if (relay_ != nullptr) relay_->Start(port.port);
    address_ = absl::StrCat(where.host, ":", relay_ != nullptr ? relay_->port() : port.port);
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

 private:
  static int OnMessage(const mg_connection* connection, const char* message) {
    auto* const self = static_cast<Impl*>(mg_get_user_data(mg_get_context(connection)));
    if (self != nullptr) {
      const std::lock_guard lock(self->mutex_);
      self->message_ = message;
    }
    return 1;  // suppresses the library's output
  }

  static int OnRequest(mg_connection* connection) {
    auto* const self = static_cast<Impl*>(mg_get_request_info(connection)->user_data);
    const RequestHead head = HeadOf(connection);
    std::optional<HttpReply> refusal = self->front_->Refusal(head);
    // A client on this machine could otherwise bypass the check of its certificate.
    if (self->relay_ != nullptr &&
        !self->relay_->Owns(mg_get_request_info(connection)->remote_port)) {
      refusal = self->front_->Refuse(head, absl::PermissionDeniedError("use TLS"));
    }
    std::string body;
    const absl::Cleanup release = [&] { self->bodies_bytes_ -= body.size(); };
    if (!refusal.has_value()) {
      if (const absl::Status read = self->ReadBody(connection, body); !read.ok()) {
        refusal = self->front_->Refuse(head, read);
        if (absl::IsOutOfRange(read)) refusal->status = 413;
      }
    }
    if (refusal.has_value()) {
      Answer(connection, *refusal);
      DropBody(connection);
    } else {
      Answer(connection, self->front_->Handle(head, body));
    }
    return 1;
  }

  // OUT_OF_RANGE: the body is too long. RESOURCE_EXHAUSTED: all bodies together are.
  // INVALID_ARGUMENT: it ends early.
  absl::Status ReadBody(mg_connection* connection, std::string& body) {
    const int64_t announced = mg_get_request_info(connection)->content_length;
    const absl::Status too_long = absl::OutOfRangeError(
        absl::StrCat("the body is larger than ", options_.max_body_bytes, " bytes"));
    if (announced > static_cast<int64_t>(options_.max_body_bytes)) return too_long;
    std::array<char, 64 << 10> buffer;
    const int64_t end_ns = NowNs() + kBodyTimeNs;
    for (;;) {
      if (NowNs() > end_ns) return absl::InvalidArgumentError("the body arrives too slowly");
      const int got = mg_read(connection, buffer.data(), buffer.size());
      if (got < 0) return absl::InvalidArgumentError("the body cannot be read");
      if (got == 0) break;
      const auto bytes = static_cast<size_t>(got);
      if (body.size() + bytes > options_.max_body_bytes) return too_long;
      if (bodies_bytes_.fetch_add(bytes) + bytes > options_.max_bodies_bytes) {
        bodies_bytes_ -= bytes;
        return absl::ResourceExhaustedError("too many large requests at once");
      }
      body.append(buffer.data(), bytes);
    }
    if (announced >= 0 && body.size() != static_cast<size_t>(announced)) {
      return absl::InvalidArgumentError("the body ends early");
    }
    return absl::OkStatus();
  }

  // Constant once serving.
  const HttpServerOptions options_;
  Front* const front_;
  std::unique_ptr<TlsRelay> relay_;  // null: no TLS
  std::string address_;
  mg_context* context_ = nullptr;

  std::atomic<size_t> bodies_bytes_ = 0;

  std::mutex mutex_;
  std::string message_ ABSL_GUARDED_BY(mutex_);  // the library's last message
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpServerOptions& options,
                                                              Front* front) {
  absl::StatusOr<HostAndPort> where = ParseHostAndPort(options.address);
  if (!where.ok()) return where.status();
  auto impl = std::make_unique<Impl>(options, front);
  if (absl::Status status = impl->Start(*where); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;
const std::string& HttpServer::address() const { return impl_->address(); }

}  // namespace kernelcast::gateway
