#ifndef KERNELCAST_COMMON_TRACING_OTLP_JSON_H_
#define KERNELCAST_COMMON_TRACING_OTLP_JSON_H_

#include <string>
#include <utility>
#include <vector>

#include "common/tracing/tracer.h"

namespace kernelcast {

// Attributes common to all spans of a process, such as {"service.name", "kernelcast-worker"}.
using TraceResource = std::vector<std::pair<std::string, std::string>>;

// The body of a request to /v1/traces: an ExportTraceServiceRequest in OTLP's JSON encoding, with
// hexadecimal ids. Invalid UTF-8 becomes U+FFFD.
std::string OtlpJson(const TraceResource& resource, const std::vector<SpanData>& spans);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_TRACING_OTLP_JSON_H_
