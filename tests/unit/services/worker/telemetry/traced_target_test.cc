#include "services/worker/telemetry/traced_target.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/trace_context.h"
#include "common/tracing/tracer.h"

namespace kernelcast::worker {
namespace {

class VectorSink final : public SpanSink {
 public:
  explicit VectorSink(std::vector<SpanData>& spans) : spans_(spans) {}
  absl::Status Export(const std::vector<SpanData>& spans) override {
    spans_.insert(spans_.end(), spans.begin(), spans.end());
    return absl::OkStatus();
  }

 private:
  std::vector<SpanData>& spans_;
};

// Notes the trace in which it is called.
class NotingTarget final : public Target {
 public:
  explicit NotingTarget(std::vector<TraceContext>& seen) : seen_(seen) {}
  TargetInfo Describe() const override { return {}; }
  absl::StatusOr<CompileResult> Compile(const CompileRequest&, const CancelToken&) override {
    Note();
    return CompileResult();
  }
  absl::StatusOr<Artifact> Resolve(const Candidate&, const Artifact&) override {
    return Artifact();
  }
  absl::StatusOr<Measurement> Measure(const MeasureRequest&, const CancelToken&) override {
    Note();
    return Measurement();
  }
  absl::StatusOr<Profile> ProfileCandidate(const MeasureRequest&, const CancelToken&) override {
    Note();
    return Profile();
  }

 private:
  void Note() { seen_.push_back(CurrentTrace() == nullptr ? TraceContext() : *CurrentTrace()); }
  std::vector<TraceContext>& seen_;
};

TEST_CASE("Each call of a traced target is a span in the caller's trace", "[worker]") {
  const auto caller = ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  REQUIRE(caller);
  std::vector<SpanData> spans;
  std::vector<TraceContext> seen;
  Tracer tracer({}, std::make_unique<VectorSink>(spans));
  SetTracer(&tracer);
  TracedTarget target(std::make_unique<NotingTarget>(seen));
  {
    const TraceScope scope(&*caller);
    CHECK(target.Compile({{}}, CancelToken()).ok());
    CHECK(target.Measure({{}, {}, {}}, CancelToken()).ok());
    CHECK(target.ProfileCandidate({{}, {}, {}}, CancelToken()).ok());
    CHECK(*CurrentTrace() == *caller);
  }
  CHECK(target.Compile({{}}, CancelToken()).ok());  // in no trace
  tracer.Flush();
  SetTracer(nullptr);

  REQUIRE(spans.size() == 3);
  const std::vector<std::string> names = {"kernelcast.compile", "kernelcast.measure",
                                          "kernelcast.profile"};
  REQUIRE(seen.size() == 4);
  for (size_t i = 0; i < spans.size(); ++i) {
    CHECK(spans[i].name == names[i]);
    CHECK(seen[i].trace_id == caller->trace_id);
    CHECK(SpanIdHex(seen[i]) != SpanIdHex(*caller));
  }
  CHECK_FALSE(seen[3].valid());
}

}  // namespace
}  // namespace kernelcast::worker
