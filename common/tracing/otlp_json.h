#ifndef KERNELCAST_COMMON_TRACING_OTLP_JSON_H_
#define KERNELCAST_COMMON_TRACING_OTLP_JSON_H_

#include <string>
#include <utility>
#include <vector>

#include "common/tracing/tracer.h"

namespace kernelcast {

// What all spans of a process have in common, such as {"service.name", "kernelcast-worker"}.
using TraceResource = std::vector<std::pair<std::string, std::string>>;

// The body of a request to /v1/traces: an ExportTraceServiceRequest of OTLP in its JSON encoding,
// where ids are hexadecimal. What is not UTF-8 becomes U+FFFD.
std::string OtlpJson(const TraceResource& resource, const std::vector<SpanData>& spans);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_TRACING_OTLP_JSON_H_
