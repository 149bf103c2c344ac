#include "common/otlp/process_tracing.h"

#include <utility>

#include "common/base/status.h"
#include "common/base/version.h"
#include "common/otlp/otlp_sink.h"

namespace kernelcast {

class ProcessTracing::Counters final : public TracerObserver {
 public:
  explicit Counters(MetricsRegistry* metrics)
      : exported_(Make(metrics, "exported")),
        queue_full_(Make(metrics, "queue_full")),
        failed_(Make(metrics, "export_failed")) {}

  void OnExported(uint64_t spans) override { exported_.Increment(static_cast<double>(spans)); }
  void OnQueueFull(uint64_t spans) override { queue_full_.Increment(static_cast<double>(spans)); }
  void OnExportFailed(uint64_t spans) override { failed_.Increment(static_cast<double>(spans)); }

 private:
  static prometheus::Counter& Make(MetricsRegistry* metrics, const char* outcome) {
    return metrics->Counter("kernelcast_tracing_spans_total",
                            "Finished spans, by what happened to them.", {{"outcome", outcome}});
  }

  prometheus::Counter& exported_;
  prometheus::Counter& queue_full_;
  prometheus::Counter& failed_;
};

ProcessTracing::ProcessTracing() = default;

absl::StatusOr<std::unique_ptr<ProcessTracing>> ProcessTracing::Start(const TracingOptions& options,
                                                                      const std::string& service,
                                                                      const std::string& instance,
                                                                      MetricsRegistry* metrics) {
  std::unique_ptr<ProcessTracing> tracing(new ProcessTracing);
  tracing->counters_ = std::make_unique<Counters>(metrics);
  if (options.endpoint.empty()) return tracing;
  const TraceResource resource = {{"service.name", service},
                                  {"service.version", std::string(Version())},
                                  {"service.instance.id", instance},
                                  {"telemetry.sdk.name", "kernelcast"},
                                  {"telemetry.sdk.language", "cpp"}};
  KC_ASSIGN_OR_RETURN(auto sink, OtlpSink::Create(options.endpoint, resource));
  TracerOptions tracer_options;
  tracer_options.ratio = options.ratio;
  tracing->tracer_ =
      std::make_unique<Tracer>(tracer_options, std::move(sink), tracing->counters_.get());
  SetTracer(tracing->tracer_.get());
  return tracing;
}

ProcessTracing::~ProcessTracing() { SetTracer(nullptr); }

}  // namespace kernelcast
