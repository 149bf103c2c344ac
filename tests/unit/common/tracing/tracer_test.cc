#include "common/tracing/tracer.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace kernelcast {
namespace {

// Exported spans, shared with a sink that can be made to wait or fail.
struct Kept {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<SpanData> spans;
  std::vector<size_t> batches;
  bool fail = false;
  bool blocked = false;
  bool entered = false;

  void Block(bool block) {
    const std::lock_guard lock(mutex);
    blocked = block;
    changed.notify_all();
  }
  bool WaitUntilEntered() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [this] { return entered; });
  }
};

class KeepingSink final : public SpanSink {
 public:
  explicit KeepingSink(std::shared_ptr<Kept> kept) : kept_(std::move(kept)) {}
  absl::Status Export(const std::vector<SpanData>& spans) override {
    std::unique_lock lock(kept_->mutex);
    kept_->entered = true;
    kept_->changed.notify_all();
    kept_->changed.wait(lock, [this] { return !kept_->blocked; });
    if (kept_->fail) return absl::UnavailableError("nobody there");
    kept_->batches.push_back(spans.size());
    kept_->spans.insert(kept_->spans.end(), spans.begin(), spans.end());
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Kept> kept_;
};

struct Counts final : TracerObserver {
  std::atomic<uint64_t> exported = 0;
  std::atomic<uint64_t> full = 0;
  std::atomic<uint64_t> failed = 0;
  void OnExported(uint64_t spans) override { exported += spans; }
  void OnQueueFull(uint64_t spans) override { full += spans; }
  void OnExportFailed(uint64_t spans) override { failed += spans; }
};

struct Fixture {
  explicit Fixture(TracerOptions options = {.ratio = 1})
      : tracer(std::make_unique<Tracer>(options, std::make_unique<KeepingSink>(kept), &counts)) {}

  Counts counts;
  std::shared_ptr<Kept> kept = std::make_shared<Kept>();
  std::unique_ptr<Tracer> tracer;
};

TEST_CASE("A child belongs to its parent and is exported when it ends") {
  Fixture f;
  {
    Span root = f.tracer->Start("root", SpanKind::kServer, nullptr);
    REQUIRE(root.recording());
    Span child = f.tracer->Start("child", SpanKind::kClient, &root.context());
    child.Set("answer", int64_t{42});
    child.Fail("it broke");
    child.End();
    child.End();
  }
  f.tracer->Flush();
  REQUIRE(f.kept->spans.size() == 2);
  const SpanData& child = f.kept->spans[0];
  const SpanData& root = f.kept->spans[1];
  CHECK(child.name == "child");
  CHECK(child.context.trace_id == root.context.trace_id);
  CHECK(child.parent_span_id == root.context.span_id);
  CHECK(child.context.span_id != root.context.span_id);
  CHECK(child.failed);
  CHECK(child.failure == "it broke");
  REQUIRE(child.attributes.size() == 1);
  CHECK(std::get<int64_t>(child.attributes[0].second) == 42);
  CHECK(child.end_ns >= child.start_ns);
  CHECK(root.parent_span_id == std::array<uint8_t, 8>{});
  CHECK_FALSE(root.failed);
  CHECK(f.counts.exported == 2);
}

TEST_CASE("The parent decides sampling, and the ratio decides for roots") {
  TraceContext parent =
      *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=1");
  SECTION("a sampled parent") {
    Fixture f({.ratio = 0});
    const Span child = f.tracer->Start("child", SpanKind::kServer, &parent);
    CHECK(child.recording());
    CHECK(child.context().state == "vendor=1");
    CHECK_FALSE(f.tracer->Start("root", SpanKind::kServer, nullptr).recording());
  }
  SECTION("an unsampled parent is passed on") {
    Fixture f({.ratio = 1});
    parent.sampled = false;
    const Span child = f.tracer->Start("child", SpanKind::kServer, &parent);
    CHECK_FALSE(child.recording());
    CHECK(child.context() == parent);
  }
  SECTION("an unsampled root is propagated to its children") {
    Fixture f({.ratio = 0});
    const Span root = f.tracer->Start("root", SpanKind::kServer, nullptr);
    CHECK(root.context().valid());
    CHECK_FALSE(root.context().sampled);
  }
  SECTION("a tenth of the roots") {
    Fixture f({.ratio = 0.1});
    int sampled = 0;
    for (int i = 0; i < 10'000; ++i) {
      sampled += f.tracer->Start("root", SpanKind::kServer, nullptr).recording() ? 1 : 0;
    }
    CHECK(sampled > 800);
    CHECK(sampled < 1200);
  }
}

TEST_CASE("Ids differ between threads and traces") {
  Fixture f;
  std::mutex mutex;
  std::set<std::string> ids;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const Span span = f.tracer->Start("root", SpanKind::kServer, nullptr);
        const std::lock_guard lock(mutex);
        ids.insert(TraceIdHex(span.context()));
        ids.insert(SpanIdHex(span.context()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ids.size() == 4 * 500 * 2);
}

TEST_CASE("A slow sink loses spans but never costs time or memory") {
  Fixture f({.ratio = 1, .max_waiting = 100, .max_batch = 10, .batch_wait_ns = 1});
  f.kept->Block(true);
  f.tracer->Start("first", SpanKind::kServer, nullptr).End();
  REQUIRE(f.kept->WaitUntilEntered());
  for (int i = 0; i < 1000; ++i) f.tracer->Start("more", SpanKind::kServer, nullptr).End();
  CHECK(f.counts.full == 900);
  f.kept->Block(false);
  f.tracer->Flush();
  CHECK(f.counts.exported == 101);
  CHECK(f.kept->spans.size() == 101);
  for (const size_t batch : f.kept->batches) CHECK(batch <= 10);
}

TEST_CASE("Spans refused by a sink are counted and the next ones are tried") {
  Fixture f;
  f.kept->fail = true;
  f.tracer->Start("lost", SpanKind::kServer, nullptr).End();
  f.tracer->Flush();
  CHECK(f.counts.failed == 1);
  {
    const std::lock_guard lock(f.kept->mutex);
    f.kept->fail = false;
  }
  f.tracer->Start("kept", SpanKind::kServer, nullptr).End();
  f.tracer->Flush();
  CHECK(f.counts.exported == 1);
}

TEST_CASE("Shutdown exports pending spans") {
  Fixture f({.ratio = 1, .batch_wait_ns = 3'600'000'000'000});
  f.tracer->Start("last", SpanKind::kServer, nullptr).End();
  f.tracer.reset();
  CHECK(f.kept->spans.size() == 1);
}

TEST_CASE("Without a tracer a span forwards its context and records nothing") {
  REQUIRE(ActiveTracer() == nullptr);
  const TraceContext parent =
      *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  Span span = StartSpan("child", SpanKind::kServer, &parent, true);
  CHECK(span.context() == parent);
  CHECK_FALSE(span.recording());
  span.Set("key", true);
  span.End();
  CHECK_FALSE(StartSpan("root", SpanKind::kServer, nullptr, true).context().valid());

  Fixture f;
  SetTracer(f.tracer.get());
  CHECK(StartSpan("root", SpanKind::kServer, nullptr, true).recording());
  CHECK_FALSE(StartSpan("no root", SpanKind::kServer, nullptr).context().valid());
  SetTracer(nullptr);
}

}  // namespace
}  // namespace kernelcast
