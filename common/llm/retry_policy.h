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

// What an HTTP answer other than 2xx means. `code` and `type` are those of its error object.
ErrorKind ClassifyHttpStatus(int status, std::string_view code, std::string_view type);

// Whether the same request may go better at the same endpoint.
bool MayPass(ErrorKind kind);
// Whether the endpoint will serve nobody until somebody acts, while another one may.
bool IsEndpointFault(ErrorKind kind);
// Whether the endpoint says that it has too much to do.
bool IsOverload(ErrorKind kind);
// Whether it speaks of the endpoint's health rather than of the request.
bool IsFailure(ErrorKind kind);

// The value of a Retry-After header, seconds or an HTTP date in any of its three forms, as a
// duration from `wall_ns`, which counts from the Unix epoch; 0 for a date that has passed, nullopt
// for anything else.
std::optional<int64_t> ParseRetryAfter(std::string_view value, int64_t wall_ns);

// How long to wait before retry number `retry` (0 is the first): uniform between nothing and
// base * 2^retry, at most `cap_ns`, on top of what the endpoint asked for. Never less than that
// floor, and those who were given the same one do not come back together.
int64_t BackoffNs(int retry, int64_t base_ns, int64_t cap_ns, int64_t retry_after_ns,
                  double uniform);

// Allows retries as a share of calls: after n calls never more than reserve + ratio * n. Not
// thread-safe.
class RetryBudget {
 public:
  RetryBudget(double ratio, int reserve)
      : ratio_(ratio), cap_(reserve + kBurstCalls * ratio), tokens_(reserve) {}

  void OnCall() { tokens_ = tokens_ + ratio_ < cap_ ? tokens_ + ratio_ : cap_; }
  // Takes one retry out, if there is one.
  bool Take() {
    // Sums of 0.1 fall short of 1 by their rounding.
    if (tokens_ < 1 - 1e-9) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  // What was saved up longer ago is forgotten, so that a quiet day pays for no storm.
  static constexpr double kBurstCalls = 1000;

  const double ratio_;
  const double cap_;
  double tokens_;
};

}  // namespace kernelcast::llm

#endif  // KERNELCAST_COMMON_LLM_RETRY_POLICY_H_
