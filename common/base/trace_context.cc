#include "common/base/trace_context.h"

#include <algorithm>
#include <span>

namespace kernelcast {
namespace {

constexpr size_t kTraceparentBytes = 55;
constexpr size_t kMaxTracestateBytes = 512;
constexpr char kDigits[] = "0123456789abcdef";

thread_local const TraceContext* current = nullptr;

// Value of a hex digit, or -1. Capitals are not allowed.
int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool ReadHex(std::string_view text, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = Digit(text[2 * i]);
    const int low = Digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

std::string Hex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Printable ASCII, spaces and tabs.
bool IsHeaderText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view traceparent,
                                             std::string_view tracestate) {
  if (traceparent.size() < kTraceparentBytes || traceparent[2] != '-' || traceparent[35] != '-' ||
      traceparent[52] != '-') {
    return std::nullopt;
  }
  std::array<uint8_t, 1> version{};
  std::array<uint8_t, 1> flags{};
  TraceContext context;
  if (!ReadHex(traceparent.substr(0, 2), version) ||
      !ReadHex(traceparent.substr(3, 32), context.trace_id) ||
      !ReadHex(traceparent.substr(36, 16), context.span_id) ||
      !ReadHex(traceparent.substr(53, 2), flags)) {
    return std::nullopt;
  }
  if (version[0] == 0xFF || !context.valid()) return std::nullopt;
  const bool longer = traceparent.size() > kTraceparentBytes;
  if (longer && (version[0] == 0 || traceparent[kTraceparentBytes] != '-')) return std::nullopt;
  context.sampled = (flags[0] & 1) != 0;
  if (tracestate.size() <= kMaxTracestateBytes && IsHeaderText(tracestate)) {
    context.state = std::string(tracestate);
  }
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  return "00-" + TraceIdHex(context) + "-" + SpanIdHex(context) + (context.sampled ? "-01" : "-00");
}

std::string TraceIdHex(const TraceContext& context) { return Hex(context.trace_id); }
std::string SpanIdHex(const TraceContext& context) { return Hex(context.span_id); }

TraceScope::TraceScope(const TraceContext* context) : outer_(current) {
  current = context != nullptr && context->valid() ? context : nullptr;
}
TraceScope::~TraceScope() { current = outer_; }

const TraceContext* CurrentTrace() { return current; }

}  // namespace kernelcast
