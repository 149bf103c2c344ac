#include "common/sqlite/exclusive_file.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/services.h"

namespace kernelcast::sqlite {
namespace {

constexpr FileLayout kFirst = {
    .application_id = 0x6b637473, .version = 1, .schema = "CREATE TABLE t (number INTEGER)"};
constexpr FileLayout kSecond = {.application_id = 0x6b637473,
                                .version = 2,
                                .schema = "CREATE TABLE t (number INTEGER, text TEXT)",
                                .upgrade = "ALTER TABLE t ADD COLUMN text TEXT DEFAULT 'old'"};

absl::Status OpenOnce(const std::string& folder, const FileLayout& layout) {
  Database database;
  return OpenExclusively(folder, "some.db", layout, database);
}

TEST_CASE("A database file is created with its folder, and found again", "[sqlite]") {
  const testing::TemporaryFolder folder("exclusive");
  const std::string state = folder.File("a/b");
  {
    Database database;
    REQUIRE(OpenExclusively(state, "some.db", kFirst, database).ok());
    REQUIRE(database.Execute("INSERT INTO t VALUES (7)").ok());
  }
  Database database;
  REQUIRE(OpenExclusively(state, "some.db", kFirst, database).ok());
  CHECK(database.QueryInteger("SELECT number FROM t").value() == 7);
  CHECK(absl::IsUnavailable(OpenOnce(state, kFirst)));
}

TEST_CASE("A database file of the version before is upgraded", "[sqlite]") {
  const testing::TemporaryFolder folder("exclusive");
  {
    Database database;
    REQUIRE(OpenExclusively(folder.path(), "some.db", kFirst, database).ok());
    REQUIRE(database.Execute("INSERT INTO t VALUES (7)").ok());
  }
  Database database;
  REQUIRE(OpenExclusively(folder.path(), "some.db", kSecond, database).ok());
  CHECK(database.QueryText("SELECT text FROM t").value() == "old");
  CHECK(database.QueryInteger("PRAGMA user_version").value() == 2);
}

TEST_CASE("A database file of another version or kind is refused and left alone", "[sqlite]") {
  const testing::TemporaryFolder folder("exclusive");
  REQUIRE(OpenOnce(folder.path(), kSecond).ok());
  CHECK(absl::IsFailedPrecondition(OpenOnce(folder.path(), kFirst)));
  FileLayout other = kSecond;
  other.application_id = 5;
  CHECK(absl::IsFailedPrecondition(OpenOnce(folder.path(), other)));
  FileLayout later = kSecond;
  later.version = 4;
  CHECK(absl::IsFailedPrecondition(OpenOnce(folder.path(), later)));
  CHECK(OpenOnce(folder.path(), kSecond).ok());
}

TEST_CASE("A failed upgrade changes nothing", "[sqlite]") {
  const testing::TemporaryFolder folder("exclusive");
  REQUIRE(OpenOnce(folder.path(), kFirst).ok());
  FileLayout wrong = kSecond;
  wrong.upgrade = "ALTER TABLE t ADD COLUMN text TEXT; ALTER TABLE none ADD COLUMN x";
  CHECK_FALSE(OpenOnce(folder.path(), wrong).ok());
  CHECK(OpenOnce(folder.path(), kFirst).ok());
  CHECK(OpenOnce(folder.path(), kSecond).ok());
}

TEST_CASE("A file that is no database is refused", "[sqlite]") {
  const testing::TemporaryFolder folder("exclusive");
  std::ofstream(folder.File("some.db")) << std::string(10'000, 'x');
  CHECK(absl::IsDataLoss(OpenOnce(folder.path(), kFirst)));
  CHECK(absl::IsPermissionDenied(OpenOnce("/proc/nowhere", kFirst)));
}

}  // namespace
}  // namespace kernelcast::sqlite
