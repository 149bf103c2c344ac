#include "common/pages/page_server.h"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <functional>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/host_and_port.h"
#include "common/base/strings.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxRequestBytes = 8192;
constexpr const char kPlain[] = "text/plain; charset=utf-8";

constexpr const char kSecurityHeaders[] =
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n";

// The host in a Host header.
std::string_view HostOf(std::string_view header) {
  if (!header.empty() && header.front() == '[') return header.substr(0, header.find(']') + 1);
  return header.substr(0, header.find(':'));
}

bool IsAddress(std::string_view host) {
  return !host.empty() && (host.front() == '[' || std::all_of(host.begin(), host.end(), [](char c) {
                             return c == '.' || std::isdigit(static_cast<unsigned char>(c)) != 0;
                           }));
}

const char* ReasonOf(int status) {
  switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 421: return "Misdirected Request";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
  }
}

}  // namespace

std::string PageRequest::Parameter(const std::string& name) const {
  std::array<char, kMaxRequestBytes> value;
  const int size = mg_get_var(query.data(), query.size(), name.c_str(), value.data(), value.size());
  return size < 0 ? std::string() : std::string(value.data(), static_cast<size_t>(size));
}

class PageServer::Impl {
 public:
  Impl(const PageServerOptions& options, std::string host, Handler handler)
      : options_(options), host_(std::move(host)), handler_(std::move(handler)) {}

  ~Impl() {
    Stop();
    if (context_ != nullptr) mg_stop(context_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Start() {
    mg_callbacks callbacks = {};
    callbacks.begin_request = &Impl::OnRequest;
    callbacks.log_message = &Impl::OnMessage;
    const std::string max_request = absl::StrCat(kMaxRequestBytes);
    // Four clients that do not read can block the pages for five seconds, and nothing else.
    std::array<const char*, 11> settings = {"listening_ports",
                                            options_.address.c_str(),
                                            "num_threads",
                                            "4",
                                            "request_timeout_ms",
                                            "5000",
                                            "max_request_size",
                                            max_request.c_str(),
                                            "enable_keep_alive",
                                            "no",
                                            nullptr};
    context_ = mg_start(&callbacks, this, settings.data());
    const std::string failure =
        absl::StrCat("cannot serve the ", options_.what, " on '", options_.address, "'");
    if (context_ == nullptr) {
      const std::lock_guard lock(message_mutex_);
      return absl::UnavailableError(absl::StrCat(failure, ": ", message_));
    }
    mg_server_port port = {};
    if (mg_get_server_ports(context_, 1, &port) < 1) return absl::UnavailableError(failure);
    address_ = absl::StrCat(host_, ":", port.port);
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

  void Stop() {
    stopping_ = true;  // also where new requests would hold the lock for ever
    const std::unique_lock lock(mutex_);
    handler_ = nullptr;
  }

 private:
  static int OnMessage(const mg_connection* connection, const char* message) {
    auto* const self = static_cast<Impl*>(mg_get_user_data(mg_get_context(connection)));
    if (self != nullptr) {
      const std::lock_guard lock(self->message_mutex_);
      self->message_ = message;
    }
    return 1;  // suppresses the library's output
  }

  static int OnRequest(mg_connection* connection) {
    const mg_request_info* const request = mg_get_request_info(connection);
    static_cast<Impl*>(request->user_data)->Answer(connection, *request);
    return 1;
  }

  void Answer(mg_connection* connection, const mg_request_info& request) {
    const std::string_view method = request.request_method;
    const bool head = method == "HEAD";
    const char* const host = mg_get_header(connection, "Host");
    PageReply reply;
    std::string_view more_headers;
    if (host != nullptr && !IsOurs(HostOf(host))) {
      reply = {421, kPlain, "Ask for this page by the server's address, or as localhost.\n"};
    } else if (method != "GET" && !head) {
      reply = {405, kPlain, "GET or HEAD.\n"};
      more_headers = "Allow: GET, HEAD\r\n";
    } else {
      reply = Ask({request.local_uri, request.query_string == nullptr ? "" : request.query_string});
    }
    std::string answer =
        absl::StrCat("HTTP/1.1 ", reply.status, " ", ReasonOf(reply.status),
                     "\r\nContent-Type: ", reply.type, "\r\nContent-Length: ", reply.body.size(),
                     "\r\nContent-Security-Policy: ", options_.content_policy, "\r\n",
                     kSecurityHeaders, AbslView(more_headers), "\r\n");
    if (!head) answer += reply.body;
    mg_write(connection, answer.data(), answer.size());
  }

  PageReply Ask(const PageRequest& request) {
    if (!stopping_) {
      const std::shared_lock lock(mutex_);
      if (handler_) return InLargeStack(request);
    }
    return {503, kPlain, "The server is stopping.\n"};
  }

  // The library's threads have small stacks, which a large page would overflow. Requires mutex_.
  PageReply InLargeStack(const PageRequest& request) {
    std::future<PageReply> reply;
    try {
      reply = std::async(std::launch::async, std::cref(handler_), request);
    } catch (const std::system_error&) {
      return {503, kPlain, "The server has no thread left for this page.\n"};
    }
    return reply.get();
  }

  bool IsOurs(std::string_view host) const {
    return host == host_ || host == "localhost" || IsAddress(host);
  }

  // Constant once serving.
  const PageServerOptions options_;
  const std::string host_;
  std::string address_;
  mg_context* context_ = nullptr;

  std::atomic<bool> stopping_ = false;
  std::shared_mutex mutex_;  // shared while the handler runs
  Handler handler_;          // guarded by mutex_; empty: stopping
  std::mutex message_mutex_;
  std::string message_ ABSL_GUARDED_BY(message_mutex_);  // the library's last message
};

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Start(const PageServerOptions& options,
                                                              Handler handler) {
  absl::StatusOr<HostAndPort> parsed = ParseHostAndPort(options.address);
  if (!parsed.ok()) return parsed.status();
  auto impl = std::make_unique<Impl>(options, parsed->host, std::move(handler));
  if (absl::Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<PageServer>(new PageServer(std::move(impl)));
}

PageServer::PageServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PageServer::~PageServer() = default;
void PageServer::Stop() { impl_->Stop(); }
const std::string& PageServer::address() const { return impl_->address(); }

}  // namespace kernelcast
