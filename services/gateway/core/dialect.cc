#include "services/gateway/core/dialect.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/utf8.h"

namespace kernelcast::gateway {
namespace {

constexpr int kRetryAfterSeconds = 1;
constexpr size_t kMaxFailureBytes = 16 << 10;
constexpr double kMsPerNs = 1e-6;

}  // namespace

bool Matches(const HttpRequest& request, std::string_view method,
             const std::vector<std::string_view>& words) {
  if (request.method != method || request.path.size() != words.size()) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] != "*" && words[i] != request.path[i]) return false;
  }
  return true;
}

void NoteSubject(const HttpRequest& request, const Task& task) {
  if (request.subject == nullptr) return;
  *request.subject = {task.request_id, task.submission->candidate.candidate_id};
}

HttpReply JsonDialect::Refuse(const absl::Status& error) const { return DetailReply(error); }

HttpReply DetailReply(const absl::Status& error) {
  return ErrorReply(error, {{"detail", std::string(error.message())}});
}

HttpReply ErrorReply(const absl::Status& error, nlohmann::json body) {
  const bool later = absl::IsResourceExhausted(error) || absl::IsUnavailable(error);
  return {HttpStatus(error), std::move(body), later ? kRetryAfterSeconds : 0};
}

std::string FailureText(const Verdict& verdict) {
  if (!verdict.settled()) return absl::StrCat("no verdict: ", verdict.no_verdict);
  std::string text = verdict.feedback;
  if (text.empty() && verdict.compile_error.has_value()) text = verdict.compile_error->log;
  if (text.empty()) text = std::string(OutcomeName(verdict.measurement->outcome));
  return SanitizeUtf8(TruncateUtf8(text, kMaxFailureBytes));
}

double CandidateMs(const MeasuredOk& ok) {
  double ns = 0;
  for (const ShapeTiming& shape : ok.shapes) ns += shape.candidate.median_ns;
  return ns * kMsPerNs;
}

double ReferenceMs(const MeasuredOk& ok) {
  double ns = 0;
  for (const ShapeTiming& shape : ok.shapes) ns += shape.reference.median_ns;
  return ns * kMsPerNs;
}

}  // namespace kernelcast::gateway
