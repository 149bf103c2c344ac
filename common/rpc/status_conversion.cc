#include "common/rpc/status_conversion.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"

namespace kernelcast {
namespace {

constexpr size_t kMaxMessageBytes = 4 << 10;
constexpr char kRetryPayload[] = "kernelcast.v1/retry-after-ms";
constexpr char kRetryMetadata[] = "retry-after-ms";
constexpr char kNotStartedPayload[] = "kernelcast.v1/not-started";
constexpr char kNotStartedMetadata[] = "not-started";

void SetRetryAfter(absl::Status& status, absl::Duration retry_after) {
  const int64_t ms = std::max<int64_t>(
      0, absl::ToInt64Milliseconds(absl::Ceil(retry_after, absl::Milliseconds(1))));
  status.SetPayload(kRetryPayload, absl::Cord(absl::StrCat(ms)));
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  const std::string message =
      SanitizeUtf8(std::string_view(status.message().data(), status.message().size()));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(TruncateUtf8(message, kMaxMessageBytes)));
}

absl::Status FromGrpc(const grpc::Status& status) {
  const int code = status.error_code();
  const bool known = code >= 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      status.error_message());
}

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context) {
  absl::Status result = FromGrpc(status);
  if (!result.ok()) {
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto hint = metadata.find(kRetryMetadata);
    int64_t ms = 0;
    if (hint != metadata.end() &&
        absl::SimpleAtoi(absl::string_view(hint->second.data(), hint->second.size()), &ms)) {
      SetRetryAfter(result, absl::Milliseconds(ms));
    }
    if (metadata.find(kNotStartedMetadata) != metadata.end()) {
      result.SetPayload(kNotStartedPayload, absl::Cord());
    }
  }
  return result;
}

absl::Status OverloadedError(std::string_view message, absl::Duration retry_after) {
  absl::Status status = absl::ResourceExhaustedError(AbslView(message));
  SetRetryAfter(status, retry_after);
  return status;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryPayload);
  int64_t ms = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &ms)) {
    return std::nullopt;
  }
  return std::clamp(absl::Milliseconds(ms), absl::ZeroDuration(), kLongestRetryAfter);
}

absl::Status NotStartedError(std::string_view message) {
  absl::Status status = absl::UnavailableError(AbslView(message));
  status.SetPayload(kNotStartedPayload, absl::Cord());
  return status;
}

bool IsNotStarted(const absl::Status& status) {
  return status.GetPayload(kNotStartedPayload).has_value();
}

grpc::Status FinishStatus(grpc::CallbackServerContext* context, const absl::Status& status) {
  if (const std::optional<absl::Duration> retry_after = RetryAfter(status)) {
    context->AddTrailingMetadata(kRetryMetadata,
                                 absl::StrCat(absl::ToInt64Milliseconds(*retry_after)));
  }
  if (IsNotStarted(status)) {
    context->AddTrailingMetadata(kNotStartedMetadata, "1");
  }
  return ToGrpc(status);
}

absl::Duration RemainingTime(const grpc::ServerContextBase& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return std::max(absl::ZeroDuration(), absl::FromChrono(deadline) - absl::Now());
}

void SetTimeout(grpc::ClientContext& context, absl::Duration timeout) {
  // The range of the clock ends in some centuries; a longer timeout means no deadline.
  if (timeout < absl::Hours(24 * 365 * 100)) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }
}

absl::Status CancellationStatus(const grpc::ServerContextBase& context) {
  return RemainingTime(context) <= absl::ZeroDuration()
             ? absl::DeadlineExceededError("the caller's deadline has passed")
             : absl::CancelledError("the caller has left");
}

}  // namespace kernelcast
