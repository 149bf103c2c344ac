#include "tests/fakes/llm_endpoint/faults.h"

#include <array>
#include <cstddef>

namespace kernelcast::testing {
namespace {

constexpr std::array<std::string_view, kFaultCount> kNames = {
    "none",
    "rate_limit",
    "rate_limit_retry_after",
    "rate_limit_date",
    "spend_limit",
    "server_error",
    "unavailable",
    "bad_request",
    "unauthorized",
    "not_found",
    "redirect",
    "error_in_stream",
    "empty_body",
    "html",
    "garbage",
    "reset",
    "hang",
    "hang_after_head",
    "stall",
    "reset_in_stream",
    "half_closed",
    "truncated_stream",
    "truncated_json",
    "slow_loris",
    "huge_answer",
    "huge_event",
    "whitespace_loop",
    "reset_after",
    "close_after",
    "plain_json",
    "odd_framing",
    "no_done",
    "no_usage",
    "stalls_at_end",
    "wrong_tool",
    "both_tools",
    "no_tool",
    "content_for_tool",
    "defers",
    "truncated_arguments",
    "sum_low",
    "sum_high",
    "nan",
    "negative",
    "string_numbers",
    "missing_bins",
    "argmax_mismatch",
    "unicode_junk",
};

}  // namespace

std::string_view FaultName(Fault fault) { return kNames[static_cast<size_t>(fault)]; }

std::optional<Fault> ParseFault(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Fault>(i);
  }
  return std::nullopt;
}

std::vector<Fault> AllFaults() {
  std::vector<Fault> faults;
  for (int i = 1; i < kFaultCount; ++i) faults.push_back(static_cast<Fault>(i));
  return faults;
}

bool IsContentFault(Fault fault) { return fault >= Fault::kWrongTool; }

}  // namespace kernelcast::testing
