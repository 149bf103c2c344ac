#ifndef KERNELCAST_COMMON_BASE_TRACE_CONTEXT_H_
#define KERNELCAST_COMMON_BASE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kernelcast {

// Position of a request in a distributed trace, as defined by W3C Trace Context.
struct TraceContext {
  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> span_id{};
  bool sampled = false;
  // Vendor-specific state, passed on unread.
  std::string state;

  // All-zero ids are invalid.
  bool valid() const { return trace_id != decltype(trace_id){} && span_id != decltype(span_id){}; }
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// Parses the header `traceparent`, and `tracestate` if present. Drops tracestate if it is malformed
// or longer than 512 bytes. Returns nothing if traceparent is invalid; the request then starts a
// new trace. A version above 0 is parsed as version 0.
std::optional<TraceContext> ParseTraceparent(std::string_view traceparent,
                                             std::string_view tracestate = {});
// The traceparent header, in version 00.
std::string FormatTraceparent(const TraceContext& context);

std::string TraceIdHex(const TraceContext& context);
std::string SpanIdHex(const TraceContext& context);

// Sets the trace context of the calling thread while this object lives: its log lines carry the
// ids, and calls that it starts belong to the trace. A null or invalid context means no trace.
// Scopes nest. The context must outlive the scope.
class TraceScope {
 public:
  explicit TraceScope(const TraceContext* context);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const TraceContext* const outer_;
};

// The trace context of the calling thread, or null.
const TraceContext* CurrentTrace();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_TRACE_CONTEXT_H_
