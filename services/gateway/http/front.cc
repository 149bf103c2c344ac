#include "services/gateway/http/front.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/trace_context.h"
#include "common/base/version.h"
#include "common/tracing/tracer.h"

namespace kernelcast::gateway {
namespace {

using nlohmann::json;

constexpr std::string_view kHealthPath = "/health";
constexpr std::string_view kNoDialect = "none";
// The role and the calls per second of tokens apply as for this method.
constexpr std::string_view kMethod = "/kernelcast.v1.Orchestrator/Evaluate";
constexpr std::string_view kBearerPrefix = "Bearer ";

constexpr int kTooMany = 429;
constexpr std::pair<int, const char*> kCodeClasses[] = {
    {2, "2xx"}, {4, "4xx"}, {kTooMany, "429"}, {5, "5xx"}};

int CodeClass(int status) { return status == kTooMany ? kTooMany : status / 100; }

std::string CredentialsOf(const RequestHead& head) {
  if (!head.authorization.empty()) return BearerFromHeader(head.authorization);
  if (head.popcorn_id.empty()) return "";
  return absl::StrCat(std::string(kBearerPrefix), head.popcorn_id);
}

std::string CallerOf(const std::string& credentials) {
  return credentials.empty() ? "" : ContentHasher().Add("caller").Add(credentials).Hex128();
}

HttpReply PlainError(const absl::Status& error) { return DetailReply(error); }

}  // namespace

Front::Front(const DialectContext& context, std::vector<std::unique_ptr<Dialect>> dialects,
             const TokenCheck* check, MetricsRegistry* metrics)
    : context_(context), dialects_(std::move(dialects)), check_(check) {
  std::vector<std::string> names = {std::string(kNoDialect)};
  for (const auto& dialect : dialects_) names.emplace_back(dialect->name());
  for (const std::string& name : names) {
    Instruments& instruments = instruments_[name];
    for (const auto& [code, label] : kCodeClasses) {
      instruments.requests[code] =
          &metrics->Counter("kernelcast_gateway_requests_total",
                            "HTTP requests that were answered, by dialect and status code.",
                            {{"dialect", name}, {"code", label}});
    }
    instruments.seconds = &metrics->Histogram(
        "kernelcast_gateway_request_seconds", "Time from a request's head to its reply.",
        MetricsRegistry::DurationBounds(), {{"dialect", name}});
  }
}

Dialect* Front::DialectOf(const HttpRequest& request) const {
  for (const auto& dialect : dialects_) {
    if (!request.path.empty() && request.path[0] == dialect->name()) return dialect.get();
  }
  return nullptr;
}

HttpReply Front::Health() const {
  if (context_.desk->draining()) {
    return {503, {{"status", "draining"}}};
  }
  if (!context_.evaluator->healthy()) return {503, {{"status", "orchestrator unavailable"}}};
  return {200, {{"status", "ok"}, {"version", std::string(Version())}}};
}

HttpReply Front::Counted(const Dialect* dialect, HttpReply reply) {
  const Instruments& instruments =
      instruments_.find(dialect != nullptr ? dialect->name() : kNoDialect)->second;
  if (const auto found = instruments.requests.find(CodeClass(reply.status));
      found != instruments.requests.end()) {
    found->second->Increment();
  }
  return reply;
}

HttpReply Front::Refuse(const RequestHead& head, const absl::Status& error) {
  HttpRequest request;
  const Dialect* const dialect =
      ParseTarget(head.target, request).ok() ? DialectOf(request) : nullptr;
  return Counted(dialect, dialect != nullptr ? dialect->Refuse(error) : PlainError(error));
}

std::optional<HttpReply> Front::Refusal(const RequestHead& head) {
  if (head.target == kHealthPath) return std::nullopt;
  // A page in a browser on this machine must not submit code.
  if (head.from_web_page) {
    return Refuse(head, absl::PermissionDeniedError("requests of web pages are refused"));
  }
  if (check_ == nullptr) return std::nullopt;
  if (const absl::Status status = check_->Check(kMethod, CredentialsOf(head)); !status.ok()) {
    return Refuse(head, status);
  }
  return std::nullopt;
}

HttpReply Front::Handle(const RequestHead& head, std::string body) {
  if (head.target == kHealthPath) return Counted(nullptr, Health());
  HttpRequest request;
  if (const absl::Status status = ParseTarget(head.target, request); !status.ok()) {
    return Refuse(head, status);
  }
  Dialect* const dialect = DialectOf(request);
  if (dialect == nullptr) {
    std::string known;
    for (const auto& one : dialects_) absl::StrAppend(&known, " /", std::string(one->name()));
    return Refuse(head, absl::NotFoundError(absl::StrCat("the APIs are at", known)));
  }
  request.path.erase(request.path.begin());
  request.method = head.method;
  request.content_type = head.content_type;
  request.body = std::move(body);
  return Answer(*dialect, head, request);
}

HttpReply Front::Answer(Dialect& dialect, const RequestHead& head, HttpRequest& request) {
  const int64_t started_ns = context_.clock->MonotonicNs();
  const std::optional<TraceContext> parent = ParseTraceparent(head.traceparent, head.tracestate);
  Span span = StartSpan(absl::StrCat(head.method, " /", std::string(dialect.name())),
                        SpanKind::kServer, parent ? &*parent : nullptr, /*may_begin=*/true);
  // The evaluations that the request starts, and log lines, belong to its trace.
  const TraceContext trace = span.context();
  const TraceScope scope(&trace);
  const std::string credentials = CredentialsOf(head);
  request.caller = CallerOf(credentials);
  RequestSubject subject;
  request.subject = &subject;
  HttpReply reply;
  try {
    reply = dialect.Handle(request);
  } catch (const std::exception& error) {  // a fault of ours, in reading JSON
    Log(LogLevel::kError, "a request failed", {{"error", std::string_view(error.what())}});
    reply = dialect.Refuse(absl::InternalError("internal error"));
  }
  const double seconds =
      absl::ToDoubleSeconds(absl::Nanoseconds(context_.clock->MonotonicNs() - started_ns));
  instruments_.find(dialect.name())->second.seconds->Observe(seconds);
  const std::string token = check_ == nullptr ? "" : check_->NameOf(credentials);
  Log(LogLevel::kDebug, "request",
      {{"dialect", dialect.name()},
       {"method", head.method},
       {"status", reply.status},
       {"token", token},
       {"request_id", subject.request_id},
       {"candidate_id", subject.candidate_id},
       {"seconds", seconds}});
  if (span.recording()) {
    span.Set("http.request.method", head.method);
    span.Set("http.route", absl::StrCat("/", std::string(dialect.name())));
    span.Set("http.response.status_code", int64_t{reply.status});
    if (!subject.request_id.empty()) span.Set("kernelcast.request_id", subject.request_id);
    if (!subject.candidate_id.empty()) span.Set("kernelcast.candidate_id", subject.candidate_id);
    if (reply.status >= 500) span.Fail(absl::StrCat("status ", reply.status));
  }
  return Counted(&dialect, std::move(reply));
}

}  // namespace kernelcast::gateway
