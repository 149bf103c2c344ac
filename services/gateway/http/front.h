#ifndef KERNELCAST_SERVICES_GATEWAY_HTTP_FRONT_H_
#define KERNELCAST_SERVICES_GATEWAY_HTTP_FRONT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/metrics/metrics.h"
#include "common/rpc/token_check.h"
#include "services/gateway/core/dialect.h"

namespace kernelcast::gateway {

// A request before its body is read.
struct RequestHead {
  std::string method;
  std::string target;  // as sent: path and query
  std::string content_type;
  std::string authorization;
  std::string popcorn_id;  // X-Popcorn-Cli-Id
  std::string traceparent;
  std::string tracestate;
  bool from_web_page = false;
};

// Hands requests to the dialects, after it has checked their tokens. /health answers without a
// token: 200 while the orchestrator can be reached and submissions are accepted, else 503. Exports
// kernelcast_gateway_requests_total and kernelcast_gateway_request_seconds. Each other request that
// may be answered is a span, in the trace of its client if that has one. Thread-safe.
class Front {
 public:
  // `check` may be null: no tokens are needed. All arguments must outlive the front.
  Front(const DialectContext& context, std::vector<std::unique_ptr<Dialect>> dialects,
        const TokenCheck* check, MetricsRegistry* metrics);

  // A refusal, for which the body need not be read, or nothing.
  std::optional<HttpReply> Refusal(const RequestHead& head);
  // A refusal for a reason that the server found, in the form of the dialect.
  HttpReply Refuse(const RequestHead& head, const absl::Status& error);
  HttpReply Handle(const RequestHead& head, std::string body);

 private:
  struct Instruments {
    std::map<int, prometheus::Counter*> requests;  // by what CodeClass returns
    prometheus::Histogram* seconds = nullptr;
  };

  Dialect* DialectOf(const HttpRequest& request) const;
  HttpReply Answer(Dialect& dialect, const RequestHead& head, HttpRequest& request);
  HttpReply Health() const;
  // Counts the reply, and returns it.
  HttpReply Counted(const Dialect* dialect, HttpReply reply);

  const DialectContext context_;
  const std::vector<std::unique_ptr<Dialect>> dialects_;
  const TokenCheck* const check_;
  std::map<std::string, Instruments, std::less<>> instruments_;  // by dialect
};

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_HTTP_FRONT_H_
