#include "services/orchestrator/core/log_writer.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

using testing::MemoryEventStore;

LogBatch Finishing(const std::string& search_id, uint64_t sequence = 7) {
  LogBatch batch;
  batch.events.push_back(std::make_unique<Event>(Event{1, SearchFinishing{search_id, "stopped"}}));
  batch.entries.push_back(AppendEntry{batch.events.back().get(), "", search_id});
  batch.settled.push_back(search_id);
  batch.last_sequence = sequence;
  return batch;
}

LogBatch WaitedFor(LogBatch batch) {
  batch.effects.emplace_back([] {});
  return batch;
}

// Options under which events without a waiter are not written on their own.
LogWriterOptions Patient() {
  LogWriterOptions options;
  options.interval = std::chrono::nanoseconds(0);
  options.max_delay = std::chrono::hours(1);
  return options;
}

TEST_CASE("A log writer reports what it has written") {
  MemoryEventStore store;
  std::promise<void> notified;
  LogWriter writer(Patient(), &store, [&] { notified.set_value(); });
  CHECK(writer.idle());
  CHECK(writer.Take().empty());
  store.HoldAppends();
  writer.Add(WaitedFor(Finishing("s1")));
  CHECK_FALSE(writer.idle());
  CHECK(writer.Take().empty());
  CHECK(store.LastSequence().value() == 0);
  store.ReleaseAppends();
  notified.get_future().wait();
  CHECK_FALSE(writer.idle());
  const auto written = writer.Take();
  REQUIRE(written.size() == 1);
  CHECK(written[0].status.ok());
  CHECK(written[0].batch.settled == std::vector<std::string>{"s1"});
  CHECK(written[0].batch.effects.size() == 1);
  CHECK(written[0].batch.last_sequence == 7);
  CHECK(writer.idle());
  CHECK(store.All<SearchFinishing>().size() == 1);
}

TEST_CASE("A log writer batches events that arrive while it writes") {
  MemoryEventStore store;
  std::promise<void> notified;
  std::atomic<int> times = 0;
  LogWriter writer(Patient(), &store, [&] {
    if (++times == 2) notified.set_value();
  });
  store.HoldAppends();
  writer.Add(WaitedFor(Finishing("s1", 1)));
  while (store.appends() == 0) std::this_thread::yield();
  writer.Add(Finishing("s2", 2));
  writer.Add(WaitedFor(Finishing("s3", 3)));
  store.ReleaseAppends();
  notified.get_future().wait();
  const auto written = writer.Take();
  REQUIRE(written.size() == 2);
  CHECK(written[0].batch.settled == std::vector<std::string>{"s1"});
  CHECK(written[1].batch.settled == std::vector<std::string>{"s2", "s3"});
  CHECK(written[1].batch.last_sequence == 3);
  const auto events = store.All<SearchFinishing>();
  REQUIRE(events.size() == 3);
  CHECK(events[1].search_id == "s2");
  CHECK(events[2].search_id == "s3");
}

TEST_CASE("A log writer holds events without waiters until something is waited for") {
  MemoryEventStore store;
  std::promise<void> notified;
  LogWriter writer(Patient(), &store, [&] { notified.set_value(); });
  writer.Add(Finishing("s1"));
  CHECK_FALSE(writer.idle());
  LogBatch effect;
  effect.effects.emplace_back([] {});
  effect.last_sequence = 7;
  writer.Add(std::move(effect));
  notified.get_future().wait();
  const auto written = writer.Take();
  REQUIRE(written.size() == 1);
  CHECK(written[0].batch.settled == std::vector<std::string>{"s1"});
  CHECK(written[0].batch.effects.size() == 1);
}

TEST_CASE("A log writer limits the size and age of a batch") {
  MemoryEventStore store;
  LogWriterOptions options = Patient();
  SECTION("large") { options.large = 2; }
  SECTION("long") { options.max_delay = std::chrono::milliseconds(1); }
  std::promise<void> notified;
  LogWriter writer(options, &store, [&, first = true]() mutable {
    if (std::exchange(first, false)) notified.set_value();
  });
  writer.Add(Finishing("s1"));
  writer.Add(Finishing("s2"));
  notified.get_future().wait();
  CHECK(store.LastSequence().value() >= 1);
}

TEST_CASE("A log writer's appends start an interval apart") {
  MemoryEventStore store;
  LogWriterOptions options = Patient();
  options.interval = std::chrono::milliseconds(20);
  std::atomic<int> times = 0;
  std::promise<void> twice;
  LogWriter writer(options, &store, [&] {
    if (++times == 2) twice.set_value();
  });
  const auto start = std::chrono::steady_clock::now();
  writer.Add(WaitedFor(Finishing("s1")));
  while (writer.Take().empty()) std::this_thread::yield();
  writer.Add(WaitedFor(Finishing("s2")));
  twice.get_future().wait();
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(20));
  CHECK(store.LastSequence().value() == 2);
}

TEST_CASE("A log writer can be flushed and reports why it failed") {
  MemoryEventStore store;
  LogWriter writer(Patient(), &store, [] {});
  CHECK(writer.Flush().empty());
  writer.Add(Finishing("s1"));
  const auto flushed = writer.Flush();
  REQUIRE(flushed.size() == 1);
  CHECK(flushed[0].status.ok());
  CHECK(store.LastSequence().value() == 1);
  store.FailFromNowOn();
  writer.Add(Finishing("s2"));
  const auto failed = writer.Flush();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(writer.Flush().empty());
}

TEST_CASE("Destroying a log writer writes its pending events") {
  MemoryEventStore store;
  for (int i = 0; i < 50; ++i) {
    LogWriter writer(Patient(), &store, [] {});
    writer.Add(Finishing("s1"));
  }
  CHECK(store.LastSequence().value() == 50);
}

}  // namespace
}  // namespace kernelcast::orchestrator
