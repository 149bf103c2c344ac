#include "services/worker/telemetry/traced_target.h"

#include <string_view>

#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"

namespace kernelcast::worker {
namespace {

// Makes the call in a span.
template <class Call>
auto Traced(std::string_view name, const Call& call) {
  const Span span = StartSpan(name, SpanKind::kInternal, CurrentTrace());
  const TraceScope scope(&span.context());
  return call();
}

}  // namespace

absl::StatusOr<CompileResult> TracedTarget::Compile(const CompileRequest& request,
                                                    const CancelToken& cancel) {
  return Traced("kernelcast.compile", [&] { return inner().Compile(request, cancel); });
}

absl::StatusOr<Measurement> TracedTarget::Measure(const MeasureRequest& request,
                                                  const CancelToken& cancel) {
  return Traced("kernelcast.measure", [&] { return inner().Measure(request, cancel); });
}

absl::StatusOr<Profile> TracedTarget::ProfileCandidate(const MeasureRequest& request,
                                                       const CancelToken& cancel) {
  return Traced("kernelcast.profile", [&] { return inner().ProfileCandidate(request, cancel); });
}

}  // namespace kernelcast::worker
