#ifndef KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_FAULTS_H_
#define KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_FAULTS_H_

#include <optional>
#include <string_view>
#include <vector>

namespace kernelcast::testing {

// What an endpoint can do to its clients, one thing a request.
enum class Fault {
  kNone,
  // Instead of an answer.
  kRateLimit,            // 429 without Retry-After
  kRateLimitRetryAfter,  // 429, Retry-After in seconds (FakeEndpointOptions::retry_after)
  kRateLimitDate,        // 429, Retry-After as a date one second ahead
  kSpendLimit,           // 429, insufficient_quota
  kServerError,          // 500
  kUnavailable,          // 503
  kBadRequest,           // 400
  kUnauthorized,         // 401, naming the key that was sent
  kNotFound,             // 404
  kRedirect,             // 307
  kErrorInStream,        // 200, and an error object as the first event
  kEmptyBody,            // 200 and nothing
  kHtml,                 // 200 and a page of a captive portal
  kGarbage,              // what is not HTTP
  kReset,                // connection reset before an answer
  kHang,                 // never an answer
  kHangAfterHead,        // head of an answer, and then nothing
  // During an answer.
  kStall,            // half of it, and then nothing
  kResetInStream,    // half of it, and a reset
  kHalfClosed,       // half of it, and the end of the connection
  kTruncatedStream,  // half of its events, and a proper end of the response
  kTruncatedJson,    // an event that is half a JSON object
  kSlowLoris,        // byte by byte
  kHugeAnswer,       // 10 MB of text
  kHugeEvent,        // 10 MB in one event
  kWhitespaceLoop,   // an answer, then blanks without end
  // An answer all the same.
  kResetAfter,   // a proper answer, and a reset where the next request would go
  kCloseAfter,   // the same with a quiet end
  kPlainJson,    // no stream although one was asked for
  kOddFraming,   // CRLF, comments, events over several data lines, bytes one by one in a few pieces
  kNoDone,       // no [DONE]
  kNoUsage,      // no token figures
  kStallsAtEnd,  // all of the answer, and the response never ends
  // What the answer says.
  kWrongTool,       // calls a tool that was not offered
  kBothTools,       // calls every tool offered
  kNoTool,          // prose
  kContentForTool,  // the arguments as text, no call
  kDefers,          // calls the tool whose name begins with "defer"
  kTruncatedArguments,
  kSumLow,   // probabilities that sum to 0.75
  kSumHigh,  // and to 1.10
  kNan,      // NaN in a JSON text
  kNegative,
  kStringNumbers,
  kMissingBins,
  kArgmaxMismatch,
  kUnicodeJunk,  // bytes that are no UTF-8, half surrogates, directional marks
};
inline constexpr int kFaultCount = static_cast<int>(Fault::kUnicodeJunk) + 1;

// "rate_limit_retry_after", ...
std::string_view FaultName(Fault fault);
std::optional<Fault> ParseFault(std::string_view name);
// All but kNone.
std::vector<Fault> AllFaults();
// Whether the content of the answer is where the fault is.
bool IsContentFault(Fault fault);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_FAULTS_H_
