#ifndef KERNELCAST_COMMON_OTLP_OTLP_SINK_H_
#define KERNELCAST_COMMON_OTLP_OTLP_SINK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tracing/otlp_json.h"
#include "common/tracing/tracer.h"

namespace kernelcast {

// Posts spans to an OTLP/HTTP collector, as JSON. Not thread-safe.
class OtlpSink final : public SpanSink {
 public:
  // `endpoint` has the form of OTEL_EXPORTER_OTLP_ENDPOINT, "http://HOST:4318"; /v1/traces is
  // appended. INVALID_ARGUMENT: not an http or https URL.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<OtlpSink>> Create(const std::string& endpoint,
                                                                        TraceResource resource);
  ~OtlpSink() override;

  // Takes at most 10 s. UNAVAILABLE: the collector did not accept the spans. Does not retry.
  absl::Status Export(const std::vector<SpanData>& spans) override;

 private:
  struct Handles;
  OtlpSink(std::string url, TraceResource resource, std::unique_ptr<Handles> handles);

  const std::string url_;
  const TraceResource resource_;
  const std::unique_ptr<Handles> handles_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_OTLP_OTLP_SINK_H_
