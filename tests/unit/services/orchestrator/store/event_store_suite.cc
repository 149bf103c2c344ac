#include "tests/unit/services/orchestrator/store/event_store_suite.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace kernelcast::orchestrator::testing {
namespace {

std::vector<int64_t> Times(const EventStore& store, uint64_t from_sequence) {
  std::vector<int64_t> times;
  uint64_t next = std::max<uint64_t>(1, from_sequence);
  const absl::Status status = store.Replay(from_sequence, [&](const StoredEvent& stored) {
    CHECK(stored.sequence == next++);
    times.push_back(stored.event.time_ns);
    return absl::OkStatus();
  });
  INFO(status.ToString());
  CHECK(status.ok());
  return times;
}

std::vector<uint64_t> Sequences(const absl::StatusOr<std::vector<StoredEvent>>& events) {
  REQUIRE(events.ok());
  std::vector<uint64_t> sequences;
  for (const StoredEvent& stored : *events) sequences.push_back(stored.sequence);
  return sequences;
}

std::unique_ptr<EventStore> Open(const StoreUnderTest& log) {
  auto store = log.open();
  INFO(store.status().ToString());
  REQUIRE(store.ok());
  return *std::move(store);
}

}  // namespace

Event Finishing(const std::string& search_id, int64_t time_ns) {
  return Event{time_ns, SearchFinishing{search_id, "because"}};
}

absl::StatusOr<uint64_t> AppendOne(EventStore& store, const Event& event,
                                   const std::string& request_id, const std::string& search_id) {
  AppendEntry entry{&event, request_id, search_id};
  return store.Append(std::span(&entry, 1));
}

void CheckEventStore(const std::function<StoreUnderTest()>& fresh) {
  const StoreUnderTest log = fresh();

  SECTION("an empty log has no events") {
    auto store = Open(log);
    CHECK(store->LastSequence().value() == 0);
    CHECK(Times(*store, 1).empty());
    CHECK(Sequences(store->ReadSearch("", 1, 10)).empty());
    CHECK(Sequences(store->ReadEvaluation("r1")).empty());
  }

  SECTION("events come back in order, by search and by request, after reopening") {
    {
      auto store = Open(log);
      CHECK(AppendOne(*store, Finishing("s1", 1), "r1", "s1").value() == 1);
      CHECK(AppendOne(*store, Finishing("s2", 2), "r2", "s2").value() == 2);
      CHECK(AppendOne(*store, Finishing("s1", 3), "r1", "s1").value() == 3);
      CHECK(AppendOne(*store, Finishing("none", 4), "", "").value() == 4);
    }
    auto store = Open(log);
    CHECK(store->LastSequence().value() == 4);
    CHECK(Times(*store, 0) == std::vector<int64_t>{1, 2, 3, 4});
    CHECK(Times(*store, 2) == std::vector<int64_t>{2, 3, 4});
    CHECK(Times(*store, 5).empty());
    CHECK(Times(*store, UINT64_MAX >> 1).empty());
    CHECK(Times(*store, UINT64_MAX).empty());
    CHECK(Sequences(store->ReadSearch("", UINT64_MAX, 10)).empty());
    CHECK(Sequences(store->ReadSearch("s1", UINT64_MAX, 10)).empty());
    CHECK(Sequences(store->ReadEvaluation("r1")) == std::vector<uint64_t>{1, 3});
    CHECK(Sequences(store->ReadEvaluation("nobody")).empty());
    // The empty id matches nothing.
    CHECK(Sequences(store->ReadEvaluation("")).empty());
    CHECK(Sequences(store->ReadSearch("s1", 0, 10)) == std::vector<uint64_t>{1, 3});
    CHECK(Sequences(store->ReadSearch("s1", 2, 10)) == std::vector<uint64_t>{3});
    CHECK(Sequences(store->ReadSearch("s1", 1, 1)) == std::vector<uint64_t>{1});
    CHECK(Sequences(store->ReadSearch("", 1, 3)) == std::vector<uint64_t>{1, 2, 3});
    CHECK(Sequences(store->ReadSearch("", 4, SIZE_MAX >> 1)) == std::vector<uint64_t>{4});
    CHECK(Sequences(store->ReadSearch("s1", 1, 0)).empty());
    CHECK(AppendOne(*store, Finishing("s3", 5), "", "s3").value() == 5);
  }

  SECTION("ids and payloads of any bytes come back unchanged") {
    std::string source;
    for (int i = 0; i < 100'000; ++i) source.push_back(static_cast<char>(i * 31));
    ProblemPut put;
    put.files.push_back({"problem.yaml", source});
    const std::string id = "s'; DROP TABLE kernelcast_events; -- %s \\ \"{},NULL";
    auto store = Open(log);
    REQUIRE(AppendOne(*store, Event{7, put}, id, id).ok());
    CHECK(AppendOne(*store, Finishing("NULL", 8), "NULL", "NULL").value() == 2);
    const auto events = store->ReadSearch(id, 1, 10);
    REQUIRE(Sequences(events) == std::vector<uint64_t>{1});
    CHECK(std::get<ProblemPut>(events->front().event.body).files.at(0).content == source);
    CHECK(Sequences(store->ReadEvaluation(id)) == std::vector<uint64_t>{1});
    CHECK(Sequences(store->ReadEvaluation("NULL")) == std::vector<uint64_t>{2});
  }

  SECTION("an append larger than one statement is complete and in order") {
    ProblemPut put;
    put.files.push_back({"problem.yaml", std::string(size_t{3} << 20, 'x')});
    std::vector<Event> events(24, Event{1, put});
    std::vector<AppendEntry> entries;
    entries.reserve(events.size());
    for (const Event& event : events) entries.push_back({&event, "", "s"});
    auto store = Open(log);
    REQUIRE(AppendOne(*store, Finishing("s", 0), "", "s").ok());
    CHECK(store->Append(entries).value() == 2);
    CHECK(store->LastSequence().value() == 25);
    CHECK(Times(*store, 2).size() == 24);
  }

  SECTION("a replay ends where its visitor stops and the store remains readable") {
    auto store = Open(log);
    for (int i = 1; i <= 50; ++i) REQUIRE(AppendOne(*store, Finishing("s", i), "", "s").ok());
    int visited = 0;
    const absl::Status status = store->Replay(1, [&](const StoredEvent&) -> absl::Status {
      if (++visited < 20) return absl::OkStatus();
      return absl::AbortedError("enough");
    });
    CHECK(status.code() == absl::StatusCode::kAborted);
    CHECK(visited == 20);
    CHECK(Times(*store, 1).size() == 50);
    CHECK(AppendOne(*store, Finishing("s", 51), "", "s").value() == 51);
  }

  SECTION("a damaged event is reported by its number and nothing is skipped") {
    {
      auto store = Open(log);
      for (int i = 1; i <= 5; ++i) REQUIRE(AppendOne(*store, Finishing("s1", i), "r1", "s1").ok());
    }
    log.damage(3);
    auto store = Open(log);
    uint64_t last = 0;
    const absl::Status status = store->Replay(1, [&](const StoredEvent& stored) {
      last = stored.sequence;
      return absl::OkStatus();
    });
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK_THAT(std::string(status.message()), Catch::Contains("event 3"));
    CHECK(last == 2);
    CHECK(store->ReadEvaluation("r1").status().code() == absl::StatusCode::kDataLoss);
    CHECK(store->ReadSearch("s1", 1, 10).status().code() == absl::StatusCode::kDataLoss);
    CHECK(store->ReadSearch("s1", 4, 10).ok());
  }

  const auto append_five = [&] {
    auto store = Open(log);
    for (int i = 1; i <= 5; ++i) {
      const std::string id = "r" + std::to_string(i);
      REQUIRE(AppendOne(*store, Finishing("s1", i), id, "s1").ok());
    }
  };
  const auto replay = [](const EventStore& store) {
    return store.Replay(1, [](const StoredEvent&) { return absl::OkStatus(); });
  };

  SECTION("a missing, changed or misplaced event is reported by its number") {
    const std::pair<const char*, const char*> damages[] = {
        {"DELETE FROM EVENTS WHERE sequence = 3", "event 3 is missing"},
        {"DELETE FROM EVENTS WHERE sequence < 3", "event 1 is missing"},
        {"UPDATE EVENTS SET sequence = 100 WHERE sequence = 3", "event 3 is missing"},
        {"UPDATE EVENTS SET request_id = 'r9' WHERE sequence = 3", "event 3 is damaged"},
        {"UPDATE EVENTS SET search_id = NULL WHERE sequence = 3", "event 3 is damaged"},
        {"UPDATE EVENTS SET payload = (SELECT payload FROM EVENTS WHERE sequence = 4)"
         " WHERE sequence = 3",
         "event 3 is damaged"},
    };
    const size_t which = GENERATE(range(0, 6));
    const auto& [sql, message] = damages[which];
    INFO(sql);
    append_five();
    log.execute(sql);
    auto store = log.open();
    const absl::Status status = store.ok() ? replay(**store) : store.status();
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    // A sequence number that is too large is detected when the log is opened.
    if (store.ok()) CHECK_THAT(std::string(status.message()), Catch::Contains(message));
    CHECK_THAT(std::string(status.message()), Catch::Contains("--accept-loss"));
  }

  SECTION("a truncated log is refused until the loss is accepted") {
    append_five();
    const int kept = GENERATE(0, 1, 4);
    INFO(kept);
    log.execute("DELETE FROM EVENTS WHERE sequence > " + std::to_string(kept));
    for (int attempt = 0; attempt < 2; ++attempt) {
      const absl::Status refused = log.open().status();
      CHECK(refused.code() == absl::StatusCode::kDataLoss);
      CHECK_THAT(std::string(refused.message()),
                 Catch::Contains("5 events were acknowledged") && Catch::Contains("--accept-loss"));
    }
    {
      auto store = log.open_accepting_loss();
      REQUIRE(store.ok());
      CHECK(Times(**store, 1).size() == static_cast<size_t>(kept));
      CHECK(AppendOne(**store, Finishing("s1", 9), "r", "s1").value() ==
            static_cast<uint64_t>(kept) + 1);
    }
    CHECK(Times(*Open(log), 1).size() == static_cast<size_t>(kept) + 1);
  }

  SECTION("accepting the loss of an event keeps those before it") {
    append_five();
    log.damage(3);
    {
      auto store = log.open_accepting_loss();
      REQUIRE(store.ok());
      CHECK((*store)->LastSequence().value() == 2);
    }
    auto store = Open(log);
    CHECK(Times(*store, 1) == std::vector<int64_t>{1, 2});
    CHECK(AppendOne(*store, Finishing("s1", 7), "r7", "s1").value() == 3);
    CHECK(Times(*store, 1) == std::vector<int64_t>{1, 2, 7});
  }

  SECTION("accepting losses leaves an intact log unchanged") {
    append_five();
    CHECK(log.open_accepting_loss().ok());
    CHECK(Times(*Open(log), 1) == std::vector<int64_t>{1, 2, 3, 4, 5});
  }

  SECTION("readers see whole appends while another thread writes") {
    auto store = Open(log);
    std::atomic<bool> stop = false;
    std::atomic<int> torn = 0, failed = 0;
    std::thread reader([&] {
      while (!stop) {
        const auto events = store->ReadSearch("s", 1, SIZE_MAX >> 1);
        if (!events.ok()) ++failed;
        if (events.ok() && events->size() % 10 != 0) ++torn;
        int replayed = 0;
        if (!store
                 ->Replay(1,
                          [&](const StoredEvent&) {
                            ++replayed;
                            return absl::OkStatus();
                          })
                 .ok()) {
          ++failed;
        }
        if (replayed % 10 != 0) ++torn;
      }
    });
    for (int round = 0; round < 50; ++round) {
      std::vector<Event> events(10, Finishing("s", round));
      std::vector<AppendEntry> entries;
      entries.reserve(events.size());
      for (const Event& event : events) entries.push_back({&event, "", "s"});
      CHECK(store->Append(entries).value() == static_cast<uint64_t>(round) * 10 + 1);
    }
    stop = true;
    reader.join();
    CHECK(torn == 0);
    CHECK(failed == 0);
    CHECK(store->LastSequence().value() == 500);
  }
}

}  // namespace kernelcast::orchestrator::testing
