#ifndef KERNELCAST_COMMON_TRACING_TRACER_H_
#define KERNELCAST_COMMON_TRACING_TRACER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/trace_context.h"

namespace kernelcast {

// Values are those of OTLP's SpanKind.
enum class SpanKind { kInternal = 1, kServer = 2, kClient = 3 };

using SpanValue = std::variant<std::string, int64_t, double, bool>;

// A span that has ended.
struct SpanData {
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  TraceContext context;
  std::array<uint8_t, 8> parent_span_id{};  // zeros: a root span
  int64_t start_ns = 0;                     // since the Unix epoch
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, SpanValue>> attributes;
  bool failed = false;
  std::string failure;
};

// Exports spans. Called by one thread; may block.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual absl::Status Export(const std::vector<SpanData>& spans) = 0;
};

// Receives events for metrics. Called on any thread, with a lock held; must not block.
class TracerObserver {
 public:
  virtual ~TracerObserver() = default;
  virtual void OnExported(uint64_t spans) = 0;
  // Spans were dropped because the sink was too slow.
  virtual void OnQueueFull(uint64_t spans) = 0;
  virtual void OnExportFailed(uint64_t spans) = 0;
};

class Tracer;

// A unit of work in a trace, from its start until End or its destruction. If the trace is not
// sampled or tracing is disabled, the span records nothing and costs almost nothing, but still
// passes its context on. A value that may be moved between threads. Not thread-safe.
class Span {
 public:
  Span() = default;  // without a trace
  // Records nothing and passes `context` on.
  static Span Passing(TraceContext context) {
    Span span;
    span.context_ = std::move(context);
    return span;
  }
  Span(Span&& other) noexcept = default;
  Span& operator=(Span&& other) noexcept {
    End();
    context_ = std::move(other.context_);
    recording_ = std::move(other.recording_);
    return *this;
  }
  ~Span() { End(); }

  // The parent context for child spans. Invalid if there is no trace.
  const TraceContext& context() const { return context_; }
  bool recording() const { return recording_ != nullptr; }

  void Set(std::string_view key, SpanValue value);
  void Fail(std::string_view why);
  // Idempotent.
  void End();
  void EndAt(int64_t wall_ns);

 private:
  friend class Tracer;
  struct Recording;
  struct Drop {
    void operator()(Recording* recording) const;
  };

  TraceContext context_;
  std::unique_ptr<Recording, Drop> recording_;
};

struct TracerOptions {
  // Share of the traces started here that are sampled. For other traces the caller's decision
  // applies.
  double ratio = 0.01;
  // Maximum number of spans waiting for the sink. Further spans are dropped.
  size_t max_waiting = 8192;
  size_t max_batch = 512;
  // Maximum time that a span waits for a batch to fill.
  int64_t batch_wait_ns = 1'000'000'000;
};

// Creates spans and exports finished ones to a sink on its own thread. Callers never wait for the
// sink: spans that it cannot keep up with are dropped and counted. Thread-safe.
class Tracer {
 public:
  // `observer` (may be null) and `clock` must outlive the tracer.
  Tracer(const TracerOptions& options, std::unique_ptr<SpanSink> sink,
         TracerObserver* observer = nullptr, const Clock& clock = Clock::Real());
  // Exports the waiting spans once, then stops. Spans that end later are dropped.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // Starts a child span, or a root span if there is no valid parent. Root spans are sampled
  // according to the options. `start_ns` counts from the Unix epoch; 0: now.
  Span Start(std::string_view name, SpanKind kind, const TraceContext* parent,
             int64_t start_ns = 0);

  const Clock& clock() const { return clock_; }
  // Waits until all finished spans are exported or dropped. For tests.
  void Flush();

 private:
  friend class Span;
  void Ended(SpanData span);
  void Run();

  const TracerOptions options_;
  const std::unique_ptr<SpanSink> sink_;
  TracerObserver* const observer_;
  const Clock& clock_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<SpanData> waiting_ ABSL_GUARDED_BY(mutex_);
  bool exporting_ ABSL_GUARDED_BY(mutex_) = false;
  bool flush_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The process's tracer, or null if tracing is disabled. Set in main before its users start, and
// reset after they have ended.
void SetTracer(Tracer* tracer);
Tracer* ActiveTracer();

// Starts a span of the process's tracer. Without a tracer, the span only passes its parent's
// context on. Without a valid parent, it belongs to no trace unless `may_begin` is true.
Span StartSpan(std::string_view name, SpanKind kind, const TraceContext* parent,
               bool may_begin = false, int64_t start_ns = 0);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_TRACING_TRACER_H_
