#ifndef KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_FAULTS_H_
#define KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_FAULTS_H_

#include <optional>
#include <string_view>
#include <vector>

namespace kernelcast::testing {

// Faults of an endpoint, at most one per request.
enum class Fault {
  kNone,
  // Instead of an answer.
  kRateLimit,            // 429 without Retry-After
  kRateLimitRetryAfter,  // 429, Retry-After in seconds (FakeEndpointOptions::retry_after)
  kRateLimitDate,        // 429, Retry-After as a date one second ahead
  kSpendLimit,           // 429, insufficient_quota
  kServerError,          // 500
  kUnavailable,          // 503
  kBadRequest,           // 400, context_length_exceeded
  kUnauthorized,         // 401 with the key that was sent
  kNotFound,             // 404
  kRedirect,             // 307
  kErrorInStream,        // 200 with an error object as the first event
  kEmptyBody,            // 200 with an empty body
  kHtml,                 // 200 with the page of a captive portal
  kGarbage,              // not HTTP
  kReset,                // connection reset before an answer
  kHang,                 // never answers
  kHangAfterHead,        // head of an answer, then nothing
  // During an answer.
  kStall,            // half of it, then nothing
  kResetInStream,    // half of it, then a reset
  kHalfClosed,       // half of it, then the end of the connection
  kTruncatedStream,  // half of its events, then a proper end of the response
  kTruncatedJson,    // an event with half a JSON object
  kSlowLoris,        // byte by byte
  kHugeAnswer,       // 10 MB of text
  kHugeEvent,        // 10 MB in one event
  kWhitespaceLoop,   // an answer, then endless blanks
  // With a complete answer.
  kResetAfter,   // a proper answer, and a reset at the next request
  kCloseAfter,   // the same with a normal close
  kPlainJson,    // no stream although requested
  kOddFraming,   // CRLF, comments, events over several data lines, bytes split at random
  kNoDone,       // no [DONE]
  kNoUsage,      // no token figures
  kStallsAtEnd,  // the whole answer, but the response never ends
  // In the content of the answer.
  kWrongTool,       // calls a tool that was not offered
  kBothTools,       // calls every tool offered
  kNoTool,          // prose
  kContentForTool,  // the arguments as text, no call
  kDefers,          // calls the tool whose name begins with "defer"
  kTruncatedArguments,
  kSumLow,   // probabilities that sum to 0.75
  kSumHigh,  // or to 1.10
  kNan,      // NaN in a JSON text
  kNegative,
  kStringNumbers,
  kMissingBins,
  kArgmaxMismatch,
  kUnicodeJunk,  // invalid UTF-8, lone surrogates, directional marks
};
inline constexpr int kFaultCount = static_cast<int>(Fault::kUnicodeJunk) + 1;

// "rate_limit_retry_after", ...
std::string_view FaultName(Fault fault);
std::optional<Fault> ParseFault(std::string_view name);
// All but kNone.
std::vector<Fault> AllFaults();
// Whether the fault is in the content of the answer.
bool IsContentFault(Fault fault);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_FAKES_LLM_ENDPOINT_FAULTS_H_
