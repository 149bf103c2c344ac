#include "services/orchestrator/store/sqlite_event_store.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/base/id.h"

namespace kernelcast::orchestrator {
namespace {

struct TemporaryFolder {
  TemporaryFolder() : path(std::filesystem::temp_directory_path() / RandomId("kernelcast-store-")) {
    std::filesystem::create_directory(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string File(const std::string& name) const { return path / name; }
  std::filesystem::path path;
};

Event Finishing(const std::string& search_id, int64_t time_ns) {
  return Event{time_ns, SearchFinishing{search_id, "because"}};
}

absl::StatusOr<uint64_t> AppendOne(EventStore& store, const Event& event,
                                   const std::string& request_id, const std::string& search_id) {
  AppendEntry entry{&event, request_id, search_id};
  return store.Append(std::span(&entry, 1));
}

TEST_CASE("events come back in order, by search and by request, after reopening") {
  TemporaryFolder folder;
  {
    auto store = SqliteEventStore::Open(folder.File("log.db")).value();
    CHECK(AppendOne(*store, Finishing("s1", 1), "r1", "s1").value() == 1);
    CHECK(AppendOne(*store, Finishing("s2", 2), "r2", "s2").value() == 2);
    CHECK(AppendOne(*store, Finishing("s1", 3), "r1", "s1").value() == 3);
    CHECK(AppendOne(*store, Finishing("none", 4), "", "").value() == 4);
  }
  auto store = SqliteEventStore::Open(folder.File("log.db")).value();
  CHECK(store->LastSequence().value() == 4);
  std::vector<int64_t> times;
  REQUIRE(store
              ->Replay(2,
                       [&](StoredEvent stored) {
                         times.push_back(stored.event.time_ns);
                         return absl::OkStatus();
                       })
              .ok());
  CHECK(times == std::vector<int64_t>{2, 3, 4});
  CHECK(store->ReadEvaluation("r1")->size() == 2);
  CHECK(store->ReadEvaluation("nobody")->empty());
  CHECK(store->ReadSearch("s1", 2, 10)->size() == 1);
  CHECK(store->ReadSearch("", 1, 3)->size() == 3);
  CHECK(AppendOne(*store, Finishing("s3", 5), "", "s3").value() == 5);
}

TEST_CASE("a second orchestrator on the same log is refused") {
  TemporaryFolder folder;
  auto store = SqliteEventStore::Open(folder.File("log.db")).value();
  const auto second = SqliteEventStore::Open(folder.File("log.db"));
  CHECK(second.status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a file that is no database is refused, and left as it was") {
  TemporaryFolder folder;
  std::ofstream(folder.File("log.db")) << std::string(4096, 'x');
  CHECK(SqliteEventStore::Open(folder.File("log.db")).status().code() ==
        absl::StatusCode::kDataLoss);
  CHECK(std::filesystem::file_size(folder.File("log.db")) == 4096);
}

TEST_CASE("a log of a newer version is refused") {
  TemporaryFolder folder;
  { auto store = SqliteEventStore::Open(folder.File("log.db")).value(); }
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(folder.File("log.db").c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, "PRAGMA user_version=99", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const auto store = SqliteEventStore::Open(folder.File("log.db"));
  CHECK(store.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(store.status().message()), Catch::Contains("99"));
}

TEST_CASE("a damaged event is reported by its number") {
  TemporaryFolder folder;
  {
    auto store = SqliteEventStore::Open(folder.File("log.db")).value();
    REQUIRE(AppendOne(*store, Finishing("s1", 1), "r1", "s1").ok());
  }
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(folder.File("log.db").c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, "UPDATE events SET payload=x'ffffff'", nullptr, nullptr,
                       nullptr) == SQLITE_OK);
  sqlite3_close(database);
  auto store = SqliteEventStore::Open(folder.File("log.db")).value();
  const absl::Status status = store->Replay(1, [](StoredEvent) { return absl::OkStatus(); });
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(status.message()), Catch::Contains("event 1"));
}

TEST_CASE("readers see whole appends while another thread writes") {
  TemporaryFolder folder;
  auto store = SqliteEventStore::Open(folder.File("log.db")).value();
  std::atomic<bool> stop = false;
  std::atomic<int> torn = 0;
  std::thread reader([&] {
    while (!stop) {
      if (store->ReadSearch("s", 1, SIZE_MAX >> 1)->size() % 10 != 0) ++torn;
    }
  });
  for (int round = 0; round < 50; ++round) {
    std::vector<Event> events(10, Finishing("s", round));
    std::vector<AppendEntry> entries;
    for (const Event& event : events) entries.push_back({&event, "", "s"});
    REQUIRE(store->Append(entries).ok());
  }
  stop = true;
  reader.join();
  CHECK(torn == 0);
  CHECK(store->LastSequence().value() == 500);
}

}  // namespace
}  // namespace kernelcast::orchestrator
