#include "services/orchestrator/store/sqlite_event_store.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_replace.h"
#include "common/base/file.h"
#include "common/base/id.h"
#include "tests/unit/services/orchestrator/store/event_store_suite.h"

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

TEST_CASE("The SQLite store meets the requirements of every store") {
  TemporaryFolder folder;
  const std::string path = folder.File("log.db");
  testing::CheckEventStore([&path] {
    testing::StoreUnderTest log;
    log.name = "sqlite";
    log.open = [path]() -> absl::StatusOr<std::unique_ptr<EventStore>> {
      return SqliteEventStore::Open(path);
    };
    log.open_accepting_loss = [path]() -> absl::StatusOr<std::unique_ptr<EventStore>> {
      return SqliteEventStore::Open(path, {.accept_loss = true});
    };
    log.execute = [path](const std::string& sql) {
      sqlite3* database = nullptr;
      REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
      const std::string on_events = absl::StrReplaceAll(sql, {{"EVENTS", "events"}});
      REQUIRE(sqlite3_exec(database, on_events.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
      sqlite3_close(database);
    };
    log.damage = [execute = log.execute](uint64_t sequence) {
      execute("UPDATE EVENTS SET payload=x'ffffffffffff' WHERE sequence=" +
              std::to_string(sequence));
    };
    return log;
  });
}

TEST_CASE("Another orchestrator on the same log is refused") {
  TemporaryFolder folder;
  auto store = SqliteEventStore::Open(folder.File("log.db")).value();
  const auto second = SqliteEventStore::Open(folder.File("log.db"));
  CHECK(second.status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("A log is read without its lock, and nothing is written") {
  TemporaryFolder folder;
  const std::string path = folder.File("log.db");
  // A missing log is empty, and stays missing.
  const auto missing = SqliteEventStore::Open(path, {.read_only = true});
  REQUIRE(missing.ok());
  CHECK((*missing)->LastSequence().value() == 0);
  CHECK(std::filesystem::is_empty(folder.path));

  auto writer = SqliteEventStore::Open(path).value();
  const Event event = {1, SearchFinishing{"s", "because"}};
  const AppendEntry entry = {&event, "", "s"};
  REQUIRE(writer->Append({&entry, 1}).ok());
  auto reader = SqliteEventStore::Open(path, {.read_only = true}).value();
  CHECK(reader->LastSequence().value() == 1);
  CHECK(reader->ReadSearch("s", 1, 10).value().size() == 1);
  CHECK(reader->Append({&entry, 1}).status().code() == absl::StatusCode::kFailedPrecondition);
  // It sees what is appended meanwhile.
  REQUIRE(writer->Append({&entry, 1}).ok());
  CHECK(reader->LastSequence().value() == 2);
  writer.reset();
  uint64_t replayed = 0;
  CHECK(reader
            ->Replay(1,
                     [&](const StoredEvent&) {
                       ++replayed;
                       return absl::OkStatus();
                     })
            .ok());
  CHECK(replayed == 2);
}

TEST_CASE("A file that is not a database is refused and left unchanged") {
  TemporaryFolder folder;
  std::ofstream(folder.File("log.db")) << std::string(4096, 'x');
  CHECK(SqliteEventStore::Open(folder.File("log.db")).status().code() ==
        absl::StatusCode::kDataLoss);
  CHECK(std::filesystem::file_size(folder.File("log.db")) == 4096);
}

TEST_CASE("A log of a newer version is refused") {
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

TEST_CASE("A log of an earlier version is refused with the remedy") {
  TemporaryFolder folder;
  { auto store = SqliteEventStore::Open(folder.File("log.db")).value(); }
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(folder.File("log.db").c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, "PRAGMA user_version=1", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  const auto store = SqliteEventStore::Open(folder.File("log.db"));
  CHECK(store.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(store.status().message()), Catch::Contains("Export it"));
}

constexpr int kAcknowledged = 121;

// A log of kAcknowledged events as left by a killed process: the last of them are only in the
// write-ahead log or, if `closed`, in the file.
class Killed {
 public:
  explicit Killed(bool closed) {
    const std::string path = folder_.File("log.db");
    auto store = SqliteEventStore::Open(path).value();
    for (int i = 1; i <= kAcknowledged; ++i) {
      const std::string id = "r" + std::to_string(i % 7);
      REQUIRE(testing::AppendOne(*store, testing::Finishing("s1", i), id, "s1").ok());
    }
    if (closed) store.reset();
    for (const char* const part : {"", "-wal", ".mark"}) {
      auto content = ReadFile(path + part);
      if (content.ok()) parts_[part] = *std::move(content);
    }
  }

  const std::string& part(const std::string& name) const { return parts_.at(name); }
  bool has(const std::string& name) const { return parts_.contains(name); }

  // The result of Open and Replay on a copy with one part changed or missing.
  absl::Status With(const std::string& name, const std::optional<std::string>& content,
                    bool accept_loss = false) {
    const std::string path = folder_.File("copy.db");
    for (const char* const part : {"", "-wal", "-shm", ".mark", ".lock"}) {
      std::filesystem::remove(path + part);
    }
    for (const auto& [part, as_it_was] : parts_) {
      if (part == name && !content.has_value()) continue;
      std::ofstream(path + part, std::ios::binary) << (part == name ? *content : as_it_was);
    }
    auto store = SqliteEventStore::Open(path, {.accept_loss = accept_loss});
    if (!store.ok()) return store.status();
    replayed_ = 0;
    return (*store)->Replay(1, [&](const StoredEvent& stored) {
      CHECK(stored.event.time_ns == ++replayed_);
      return absl::OkStatus();
    });
  }
  int replayed() const { return replayed_; }
  std::string CopyOf(const std::string& part) { return *ReadFile(folder_.File("copy.db") + part); }

  // The damage is reported or has lost nothing.
  void CheckReported(const std::string& name, const std::optional<std::string>& content) {
    const absl::Status status = With(name, content);
    if (status.ok()) CHECK(replayed_ == kAcknowledged);
    reported_ += status.ok() ? 0 : 1;
  }
  int reported() const { return reported_; }

 private:
  TemporaryFolder folder_;
  std::map<std::string, std::string> parts_;
  int replayed_ = 0;
  int reported_ = 0;
};

TEST_CASE("A killed process leaves everything it acknowledged") {
  for (const bool closed : {false, true}) {
    Killed log(closed);
    CHECK(log.With("none", std::nullopt).ok());
    CHECK(log.replayed() == kAcknowledged);
    CHECK(log.has("-wal") == !closed);
  }
}

TEST_CASE("A deleted, truncated or changed write-ahead log is reported and left alone") {
  Killed log(/*closed=*/false);
  const std::string whole = log.part("-wal");
  CHECK(absl::IsDataLoss(log.With("-wal", std::nullopt)));
  for (size_t size = 0; size < whole.size(); size += whole.size() / 60) {
    const std::string cut = whole.substr(0, size);
    const absl::Status status = log.With("-wal", cut);
    INFO(size << ": " << status.ToString());
    CHECK_THAT(std::string(status.message()), Catch::Contains("--accept-loss"));
    CHECK(absl::IsDataLoss(status));
    if (size > 32) CHECK(log.CopyOf("-wal") == cut);
  }
  for (size_t at = 0; at < whole.size(); at += whole.size() / 120 + 1) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    log.CheckReported("-wal", flipped);
  }
  CHECK(log.reported() > 100);
  REQUIRE(log.With("-wal", whole.substr(0, whole.size() / 2), /*accept_loss=*/true).ok());
  CHECK(log.replayed() > 0);
  CHECK(log.replayed() < kAcknowledged);
}

TEST_CASE("A deleted, truncated or changed file is reported") {
  for (const bool closed : {false, true}) {
    Killed log(closed);
    const std::string whole = log.part("");
    CHECK(absl::IsDataLoss(log.With("", std::nullopt)));
    CHECK(absl::IsDataLoss(log.With("", "")));
    for (size_t size = 0; size < whole.size(); size += whole.size() / 20 + 1) {
      log.CheckReported("", whole.substr(0, size));
    }
    for (size_t at = 0; at < whole.size(); at += 61) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      log.CheckReported("", flipped);
    }
    // While everything is also in the write-ahead log, little of the file matters.
    CHECK(log.reported() > (closed ? 50 : 0));
  }
}

TEST_CASE("A deleted or damaged mark is reported, but a log that continued is not") {
  Killed log(/*closed=*/true);
  for (const auto& content : {std::optional<std::string>(), std::optional<std::string>(""),
                              std::optional<std::string>(std::string(128, '\x5a'))}) {
    const absl::Status status = log.With(".mark", content);
    CHECK(absl::IsDataLoss(status));
    CHECK_THAT(std::string(status.message()), Catch::Contains(".mark"));
    CHECK(log.With(".mark", content, /*accept_loss=*/true).ok());
    CHECK(log.replayed() == kAcknowledged);
  }
  // Either of its two halves is enough: the other is one event older.
  std::string half = log.part(".mark");
  std::fill_n(half.begin(), 64, '\0');
  CHECK(log.With(".mark", half).ok());
  half = log.part(".mark");
  std::fill_n(half.begin() + 64, 64, '\0');
  CHECK(log.With(".mark", half).ok());
  CHECK(log.replayed() == kAcknowledged);
}

TEST_CASE("The mark of another log is reported") {
  Killed log(/*closed=*/true);
  TemporaryFolder folder;
  {
    auto store = SqliteEventStore::Open(folder.File("log.db")).value();
    for (int i = 1; i <= kAcknowledged; ++i) {
      REQUIRE(testing::AppendOne(*store, testing::Finishing("other", i), "r", "s1").ok());
    }
  }
  const absl::Status status = log.With(".mark", *ReadFile(folder.File("log.db") + ".mark"));
  CHECK(absl::IsDataLoss(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("not the one that was acknowledged"));
}

}  // namespace
}  // namespace kernelcast::orchestrator
