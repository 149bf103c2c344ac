#include "services/orchestrator/core/log_writer.h"

#include <catch2/catch.hpp>
#include <future>

#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

using testing::MemoryEventStore;

LogBatch Finishing(const std::string& search_id) {
  LogBatch batch;
  batch.events.push_back(std::make_unique<Event>(Event{1, SearchFinishing{search_id, "stopped"}}));
  batch.entries.push_back(AppendEntry{batch.events.back().get(), "", search_id});
  batch.settled.push_back(search_id);
  batch.last_sequence = 7;
  return batch;
}

TEST_CASE("a log writer gives back what it has written") {
  MemoryEventStore store;
  std::promise<void> told;
  LogWriter writer(&store, [&] { told.set_value(); });
  CHECK_FALSE(writer.busy());
  CHECK_FALSE(writer.Take().has_value());
  store.HoldAppends();
  writer.Write(Finishing("s1"));
  CHECK(writer.busy());
  CHECK_FALSE(writer.Take().has_value());
  CHECK(store.LastSequence().value() == 0);
  store.ReleaseAppends();
  told.get_future().wait();
  const auto written = writer.Take();
  REQUIRE(written.has_value());
  CHECK(written->status.ok());
  CHECK(written->batch.settled == std::vector<std::string>{"s1"});
  CHECK(written->batch.last_sequence == 7);
  CHECK_FALSE(writer.busy());
  CHECK(store.All<SearchFinishing>().size() == 1);
}

TEST_CASE("a log writer can be waited for, and says why it failed") {
  MemoryEventStore store;
  LogWriter writer(&store, [] {});
  store.FailFromNowOn();
  writer.Write(Finishing("s1"));
  const LogWriter::Written written = writer.Wait();
  CHECK(written.status.code() == absl::StatusCode::kResourceExhausted);
  CHECK_FALSE(writer.busy());
}

TEST_CASE("a log writer that ends has written what it was given") {
  MemoryEventStore store;
  for (int i = 0; i < 50; ++i) {
    LogWriter writer(&store, [] {});
    writer.Write(Finishing("s1"));
  }
  CHECK(store.LastSequence().value() == 50);
}

}  // namespace
}  // namespace kernelcast::orchestrator
