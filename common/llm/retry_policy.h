#ifndef KERNELCAST_COMMON_LLM_RETRY_POLICY_H_
#define KERNELCAST_COMMON_LLM_RETRY_POLICY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "common/llm/chat.h"

namespace kernelcast::llm {

// Uniform in [0, 1).
using Random = std::function<double()>;

// Classifies an HTTP status other than 2xx. `code` and `type` are from the response's error object.
// They matter where the status covers several kinds: 429 and the statuses of refused requests.
ErrorKind ClassifyHttpStatus(int status, std::string_view code, std::string_view type);

// The HTTP status that an error's code or type stands for, such as 429 for "rate_limit_exceeded" or
// "429". 0: none is known.
int StatusOfErrorName(std::string_view name);

// Whether the same request may succeed later at the same endpoint.
bool MayPass(ErrorKind kind);
// Whether the endpoint will fail until an operator acts, while other endpoints may work.
bool IsEndpointFault(ErrorKind kind);
// Whether the endpoint reports overload.
bool IsOverload(ErrorKind kind);
// Whether the error is a fault of the endpoint rather than of the request.
bool IsFailure(ErrorKind kind);

// Parses a Retry-After header: seconds, or an HTTP date in any of its three forms. Returns a
// duration from `wall_ns`, which counts from the Unix epoch. 0 for a date in the past, nullopt for
// anything else.
std::optional<int64_t> ParseRetryAfter(std::string_view value, int64_t wall_ns);

// Delay before retry number `retry` (0 is the first). It is `retry_after_ns` plus a uniformly
// random part between 0 and min(base * 2^retry, `cap_ns`), so that calls with the same Retry-After
// do not return together.
int64_t BackoffNs(int retry, int64_t base_ns, int64_t cap_ns, int64_t retry_after_ns,
                  double uniform);

// Allows retries as a share of calls: after n calls at most reserve + ratio * n. Not thread-safe.
class RetryBudget {
 public:
  RetryBudget(double ratio, int reserve)
      : ratio_(ratio), cap_(reserve + kBurstCalls * ratio), tokens_(reserve) {}

  void OnCall() { tokens_ = tokens_ + ratio_ < cap_ ? tokens_ + ratio_ : cap_; }
  // Takes one retry if available.
  bool Take() {
    // Sums of 0.1 fall short of 1 because of rounding.
    if (tokens_ < 1 - 1e-9) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  // Limits the saved budget, so that a quiet period does not pay for a storm of retries.
  static constexpr double kBurstCalls = 1000;

  const double ratio_;
  const double cap_;
  double tokens_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_RETRY_POLICY_H_
