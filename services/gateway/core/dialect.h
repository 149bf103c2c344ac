#ifndef KERNELCAST_SERVICES_GATEWAY_CORE_DIALECT_H_
#define KERNELCAST_SERVICES_GATEWAY_CORE_DIALECT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/gateway/core/catalogue.h"
#include "services/gateway/core/http_message.h"
#include "services/gateway/core/task_desk.h"

namespace kernelcast::gateway {

// The objects that dialects use. All outlive the dialects.
struct DialectContext {
  const Catalogue* catalogue = nullptr;
  TaskDesk* desk = nullptr;
  TaskArchive* archive = nullptr;
  const Evaluator* evaluator = nullptr;
  const Clock* clock = nullptr;
  // How long a request waits whose client expects the result in the reply.
  absl::Duration longest_wait = absl::Seconds(100);
};

// An HTTP API of another project, served under /NAME/. Thread-safe.
class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::string_view name() const = 0;
  // Answers a request whose path is without the name. May block while it waits for a task.
  virtual HttpReply Handle(const HttpRequest& request) = 0;
  // An error in the API's own form, with the status code of `error`.
  virtual HttpReply Refuse(const absl::Status& error) const = 0;
};

// A dialect whose answers are JSON with status 200.
class JsonDialect : public Dialect {
 public:
  HttpReply Handle(const HttpRequest& request) override {
    absl::StatusOr<nlohmann::json> body = Answer(request);
    if (!body.ok()) return Refuse(body.status());
    return {200, *std::move(body)};
  }
  HttpReply Refuse(const absl::Status& error) const override;

 protected:
  virtual absl::StatusOr<nlohmann::json> Answer(const HttpRequest& request) = 0;
};

// Whether the path has `words.size()` segments that equal `words`, where "*" stands for any.
bool Matches(const HttpRequest& request, std::string_view method,
             const std::vector<std::string_view>& words);

// Fills the request's subject.
void NoteSubject(const HttpRequest& request, const Task& task);

// {"detail": MESSAGE}, as FastAPI writes errors.
HttpReply DetailReply(const absl::Status& error);
// A reply with the status code and the Retry-After of `error`.
HttpReply ErrorReply(const absl::Status& error, nlohmann::json body);

// Why a task without a verdict has none, or why its candidate failed. For people.
std::string FailureText(const Verdict& verdict);

// Medians of the calls at all bench shapes, summed, in milliseconds.
double CandidateMs(const MeasuredOk& ok);
double ReferenceMs(const MeasuredOk& ok);

}  // namespace kernelcast::gateway

#endif  // KERNELCAST_SERVICES_GATEWAY_CORE_DIALECT_H_
