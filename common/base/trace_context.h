#ifndef KERNELCAST_COMMON_BASE_TRACE_CONTEXT_H_
#define KERNELCAST_COMMON_BASE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kernelcast {

// Where a request belongs in a distributed trace, as W3C Trace Context has it.
struct TraceContext {
  std::array<uint8_t, 16> trace_id{};
  std::array<uint8_t, 8> span_id{};
  bool sampled = false;
  // The vendors' own, handed on unread.
  std::string state;

  // A context that says nothing is not.
  bool valid() const { return trace_id != decltype(trace_id){} && span_id != decltype(span_id){}; }
  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// From the header `traceparent`, and `tracestate` where there is one, which is dropped if it is
// malformed or longer than 512 bytes. Nothing where traceparent is not valid: then the request
// begins a trace of its own. A version above 0 is read as far as version 0 goes.
std::optional<TraceContext> ParseTraceparent(std::string_view traceparent,
                                             std::string_view tracestate = {});
// The header, in version 00.
std::string FormatTraceparent(const TraceContext& context);

std::string TraceIdHex(const TraceContext& context);
std::string SpanIdHex(const TraceContext& context);

// What the calling thread works on, while this lives: lines that it logs carry the ids, and calls
// that it starts belong there. Null or not valid: nothing. Scopes nest. The context must outlive
// the scope.
class TraceScope {
 public:
  explicit TraceScope(const TraceContext* context);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  const TraceContext* const outer_;
};

// Null where there is none.
const TraceContext* CurrentTrace();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_TRACE_CONTEXT_H_
