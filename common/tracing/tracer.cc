#include "common/tracing/tracer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>

#include "common/base/id.h"
#include "common/base/log.h"

namespace kernelcast {
namespace {

// Limits per span.
constexpr size_t kMaxAttributes = 32;
constexpr size_t kMaxTextBytes = 1024;
// Minimum interval between log messages about an unavailable sink.
constexpr int64_t kComplaintNs = 60'000'000'000;

std::atomic<Tracer*> active = nullptr;

uint64_t Random() {
  thread_local std::mt19937_64 generator(SecretSeed());
  return generator();
}

template <size_t N>
void Fill(std::array<uint8_t, N>& bytes) {
  do {
    for (size_t i = 0; i < N; i += sizeof(uint64_t)) {
      const uint64_t word = Random();
      std::memcpy(bytes.data() + i, &word, sizeof word);
    }
  } while (bytes == std::array<uint8_t, N>{});
}

std::string Cut(std::string_view text) { return std::string(text.substr(0, kMaxTextBytes)); }

}  // namespace

struct Span::Recording {
  Tracer* tracer = nullptr;
  SpanData data;
};

void Span::Drop::operator()(Recording* recording) const { delete recording; }

void Span::Set(std::string_view key, SpanValue value) {
  if (recording_ == nullptr || recording_->data.attributes.size() >= kMaxAttributes) return;
  if (auto* text = std::get_if<std::string>(&value)) *text = Cut(*text);
  recording_->data.attributes.emplace_back(std::string(key), std::move(value));
}

void Span::Fail(std::string_view why) {
  if (recording_ == nullptr) return;
  recording_->data.failed = true;
  recording_->data.failure = Cut(why);
}

void Span::End() {
  if (recording_ != nullptr) EndAt(recording_->tracer->clock().WallNs());
}

void Span::EndAt(int64_t wall_ns) {
  if (recording_ == nullptr) return;
  const std::unique_ptr<Recording, Drop> recording = std::move(recording_);
  recording->data.end_ns = std::max(wall_ns, recording->data.start_ns);
  recording->tracer->Ended(std::move(recording->data));
}

Tracer::Tracer(const TracerOptions& options, std::unique_ptr<SpanSink> sink,
               TracerObserver* observer, const Clock& clock)
    : options_(options), sink_(std::move(sink)), observer_(observer), clock_(clock) {
  thread_ = std::thread([this] { Run(); });
}

Tracer::~Tracer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

Span Tracer::Start(std::string_view name, SpanKind kind, const TraceContext* parent,
                   int64_t start_ns) {
  Span span;
  const bool child = parent != nullptr && parent->valid();
  if (child) {
    span.context_ = *parent;
    if (!parent->sampled) return span;
  } else {
    Fill(span.context_.trace_id);
    span.context_.sampled = static_cast<double>(Random() >> 11) * 0x1.0p-53 < options_.ratio;
  }
  Fill(span.context_.span_id);
  if (!span.context_.sampled) return span;
  span.recording_.reset(new Span::Recording);
  span.recording_->tracer = this;
  SpanData& data = span.recording_->data;
  data.name = Cut(name);
  data.kind = kind;
  data.context = span.context_;
  if (child) data.parent_span_id = parent->span_id;
  data.start_ns = start_ns != 0 ? start_ns : clock_.WallNs();
  return span;
}

void Tracer::Ended(SpanData span) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || waiting_.size() >= options_.max_waiting) {
    if (observer_ != nullptr) observer_->OnQueueFull(1);
    return;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() == 1 || waiting_.size() == options_.max_batch) changed_.notify_all();
}

void Tracer::Flush() {
  std::unique_lock lock(mutex_);
  flush_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return stopping_ || (waiting_.empty() && !exporting_); });
  flush_ = false;
}

void Tracer::Run() {
  int64_t next_complaint_ns = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    changed_.wait_for(lock, std::chrono::nanoseconds(options_.batch_wait_ns), [this] {
      return stopping_ || flush_ || waiting_.size() >= options_.max_batch;
    });
    std::vector<SpanData> batch;
    while (!waiting_.empty() && batch.size() < options_.max_batch) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    exporting_ = true;
    lock.unlock();
    const absl::Status exported = sink_->Export(batch);
    lock.lock();
    exporting_ = false;
    if (exported.ok()) {
      if (observer_ != nullptr) observer_->OnExported(batch.size());
    } else {
      if (observer_ != nullptr) observer_->OnExportFailed(batch.size());
      const int64_t now_ns = clock_.MonotonicNs();
      if (now_ns >= next_complaint_ns) {
        next_complaint_ns = now_ns + kComplaintNs;
        Log(LogLevel::kWarning, "spans dropped: export failed",
            {{"error", std::string(exported.message())}});
      }
      // When stopping, the remaining batches are dropped after the first failure.
      if (stopping_) {
        if (observer_ != nullptr) observer_->OnExportFailed(waiting_.size());
        waiting_.clear();
      }
    }
    changed_.notify_all();
  }
}

void SetTracer(Tracer* tracer) { active = tracer; }

Tracer* ActiveTracer() { return active.load(std::memory_order_acquire); }

Span StartSpan(std::string_view name, SpanKind kind, const TraceContext* parent, bool may_begin,
               int64_t start_ns) {
  Tracer* const tracer = ActiveTracer();
  const bool child = parent != nullptr && parent->valid();
  if (tracer == nullptr) return child ? Span::Passing(*parent) : Span();
  if (!child && !may_begin) return Span();
  return tracer->Start(name, kind, parent, start_ns);
}

}  // namespace kernelcast
