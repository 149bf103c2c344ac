#include "services/orchestrator/store/sqlite_event_store.h"

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

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

TEST_CASE("a store in a SQLite file does what every store must") {
  TemporaryFolder folder;
  const std::string path = folder.File("log.db");
  testing::CheckEventStore([&path] {
    testing::StoreUnderTest log;
    log.name = "sqlite";
    log.open = [path]() -> absl::StatusOr<std::unique_ptr<EventStore>> {
      return SqliteEventStore::Open(path);
    };
    log.damage = [path](uint64_t sequence) {
      sqlite3* database = nullptr;
      REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
      const std::string sql =
          "UPDATE events SET payload=x'ffffff' WHERE sequence=" + std::to_string(sequence);
      REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
      sqlite3_close(database);
    };
    return log;
  });
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

}  // namespace
}  // namespace kernelcast::orchestrator
