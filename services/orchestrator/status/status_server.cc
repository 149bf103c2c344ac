#include "services/orchestrator/status/status_server.h"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/host_and_port.h"
#include "common/base/strings.h"
#include "services/orchestrator/status/status_page.h"

namespace kernelcast::orchestrator {
namespace {

constexpr int64_t kFreshForNs = 500'000'000;

constexpr const char kHtml[] = "text/html; charset=utf-8";
constexpr const char kCss[] = "text/css; charset=utf-8";
constexpr const char kPlain[] = "text/plain; charset=utf-8";

// Allows only the page's own style sheet, and no framing.
constexpr const char kSecurityHeaders[] =
    "Content-Security-Policy: default-src 'none'; style-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'\r\n"
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

}  // namespace

class StatusServer::Impl {
 public:
  Impl(std::string host, std::function<std::string()> render)
      : host_(std::move(host)), render_(std::move(render)) {}

  ~Impl() {
    Stop();
    if (context_ != nullptr) mg_stop(context_);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  absl::Status Start(const std::string& listen) {
    mg_callbacks callbacks = {};
    callbacks.begin_request = &Impl::OnRequest;
    callbacks.log_message = &Impl::OnMessage;
    // Four clients that do not read can block the page for five seconds, and nothing else.
    std::array<const char*, 11> settings = {"listening_ports",
                                            listen.c_str(),
                                            "num_threads",
                                            "4",
                                            "request_timeout_ms",
                                            "5000",
                                            "max_request_size",
                                            "8192",
                                            "enable_keep_alive",
                                            "no",
                                            nullptr};
    context_ = mg_start(&callbacks, this, settings.data());
    if (context_ == nullptr) {
      const std::lock_guard lock(mutex_);
      return absl::UnavailableError(
          absl::StrCat("cannot serve the status page on '", listen, "': ", message_));
    }
    mg_server_port port = {};
    if (mg_get_server_ports(context_, 1, &port) < 1) {
      return absl::UnavailableError(absl::StrCat("cannot serve the status page on '", listen, "'"));
    }
    address_ = absl::StrCat(host_, ":", port.port);
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

  void Stop() {
    const std::lock_guard lock(mutex_);
    render_ = nullptr;
  }

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
    const mg_request_info* const request = mg_get_request_info(connection);
    auto* const self = static_cast<Impl*>(request->user_data);
    const std::string_view method = request->request_method;
    const bool head = method == "HEAD";
    const char* const host = mg_get_header(connection, "Host");
    if (host != nullptr && !self->IsOurs(HostOf(host))) {
      Answer(connection, head, "421 Misdirected Request", kPlain,
             "Ask for this page by the server's address, or as localhost.\n");
    } else if (method != "GET" && !head) {
      Answer(connection, head, "405 Method Not Allowed", kPlain, "GET or HEAD.\n",
             "Allow: GET, HEAD\r\n");
    } else if (const std::string_view path = request->local_uri; path == "/") {
      const std::optional<std::string> page = self->Page();
      if (page.has_value()) {
        Answer(connection, head, "200 OK", kHtml, *page);
      } else {
        Answer(connection, head, "503 Service Unavailable", kPlain, "The server is stopping.\n");
      }
    } else if (path == kStatusStylePath) {
      Answer(connection, head, "200 OK", kCss, StatusStyle());
    } else {
      Answer(connection, head, "404 Not Found", kPlain, "There is one page, /.\n");
    }
    return 1;
  }

  static void Answer(mg_connection* connection, bool head, std::string_view status,
                     std::string_view type, std::string_view body, std::string_view headers = {}) {
    std::string answer = absl::StrCat(
        "HTTP/1.1 ", AbslView(status), "\r\nContent-Type: ", AbslView(type),
        "\r\nContent-Length: ", body.size(), "\r\n", kSecurityHeaders, AbslView(headers), "\r\n");
    if (!head) answer.append(body);
    mg_write(connection, answer.data(), answer.size());
  }

  bool IsOurs(std::string_view host) const {
    return host == host_ || host == "localhost" || IsAddress(host);
  }

  // Empty once the server stops.
  std::optional<std::string> Page() {
    const std::lock_guard lock(mutex_);
    if (!render_) return std::nullopt;
    const int64_t now_ns = Clock::Real().MonotonicNs();
    if (page_.empty() || now_ns - rendered_ns_ > kFreshForNs) {
      page_ = render_();
      rendered_ns_ = now_ns;
    }
    return page_;
  }

  // Constant once serving.
  const std::string host_;
  std::string address_;
  mg_context* context_ = nullptr;

  std::mutex mutex_;
  std::function<std::string()> render_ ABSL_GUARDED_BY(mutex_);  // empty: stopping
  std::string page_ ABSL_GUARDED_BY(mutex_);
  int64_t rendered_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string message_ ABSL_GUARDED_BY(mutex_);  // the library's last message
};

absl::StatusOr<std::unique_ptr<StatusServer>> StatusServer::Start(
    const std::string& address, std::function<std::string()> render) {
  absl::StatusOr<HostAndPort> parsed = ParseHostAndPort(address);
  if (!parsed.ok()) return parsed.status();
  auto impl = std::make_unique<Impl>(parsed->host, std::move(render));
  if (absl::Status status = impl->Start(address); !status.ok()) return status;
  return std::unique_ptr<StatusServer>(new StatusServer(std::move(impl)));
}

StatusServer::StatusServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StatusServer::~StatusServer() = default;
void StatusServer::Stop() { impl_->Stop(); }
const std::string& StatusServer::address() const { return impl_->address(); }

}  // namespace kernelcast::orchestrator
