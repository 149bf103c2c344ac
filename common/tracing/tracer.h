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

// In the order of OTLP's SpanKind.
enum class SpanKind { kInternal = 1, kServer = 2, kClient = 3 };

using SpanValue = std::variant<std::string, int64_t, double, bool>;

// A span that has ended.
struct SpanData {
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  TraceContext context;
  std::array<uint8_t, 8> parent_span_id{};  // zeros: it is a root
  int64_t start_ns = 0;                     // since the Unix epoch
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, SpanValue>> attributes;
  bool failed = false;
  std::string failure;
};

// Takes spans to where they are kept. Called by one thread, which may be blocked as long as it
// takes.
class SpanSink {
 public:
  virtual ~SpanSink() = default;
  virtual absl::Status Export(const std::vector<SpanData>& spans) = 0;
};

// What the metrics need to know. Called on any thread, with a lock held: must not block.
class TracerObserver {
 public:
  virtual ~TracerObserver() = default;
  virtual void OnExported(uint64_t spans) = 0;
  // They came faster than the sink took them.
  virtual void OnQueueFull(uint64_t spans) = 0;
  virtual void OnExportFailed(uint64_t spans) = 0;
};

class Tracer;

// A piece of work in a trace, from its start until End or its destruction. Where it is not sampled,
// or nobody traces, it takes nothing down and costs next to nothing; its context is handed on all
// the same. A value that may be moved between threads; not thread-safe.
class Span {
 public:
  Span() = default;  // of no trace
  // Takes nothing down, and hands this on.
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

  // What its children have as a parent; not valid where there is no trace.
  const TraceContext& context() const { return context_; }
  bool recording() const { return recording_ != nullptr; }

  void Set(std::string_view key, SpanValue value);
  void Fail(std::string_view why);
  // Again: does nothing.
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
  // Of traces that begin here; where a caller began them, its word counts.
  double ratio = 0.01;
  // Spans that wait for the sink; more are dropped.
  size_t max_waiting = 8192;
  size_t max_batch = 512;
  // How long a span waits at most for others to go with it.
  int64_t batch_wait_ns = 1'000'000'000;
};

// Makes spans, and hands those that have ended to a sink on a thread of its own. Nothing ever waits
// for the sink: what it cannot keep up with is dropped and counted. Thread-safe.
class Tracer {
 public:
  // The observer, which may be null, and the clock must outlive the tracer.
  Tracer(const TracerOptions& options, std::unique_ptr<SpanSink> sink,
         TracerObserver* observer = nullptr, const Clock& clock = Clock::Real());
  // Exports what waits, once, and ends. Spans that end later are dropped.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  // A child, or with no valid parent the root of a trace, sampled as the options say. `start_ns`
  // since the Unix epoch; 0: now.
  Span Start(std::string_view name, SpanKind kind, const TraceContext* parent,
             int64_t start_ns = 0);

  const Clock& clock() const { return clock_; }
  // Waits until everything that has ended is with the sink, or dropped. For tests.
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

// The process's tracer, or null where nothing is traced. Set in main, before what uses it starts,
// and taken away after that has ended.
void SetTracer(Tracer* tracer);
Tracer* ActiveTracer();

// A span of the process's tracer. Without a tracer it takes nothing down and hands on its parent's
// context; without a valid parent it is of no trace unless it `may_begin` one.
Span StartSpan(std::string_view name, SpanKind kind, const TraceContext* parent,
               bool may_begin = false, int64_t start_ns = 0);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_TRACING_TRACER_H_
