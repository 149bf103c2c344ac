#include "common/sqlite/sqlite.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::sqlite {
namespace {

absl::Status Fill(Database& database) {
  absl::Status status = database.Open(":memory:");
  status.Update(database.Execute("CREATE TABLE t (number UNIQUE, text)"));
  status.Update(database.Execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, '')"));
  return status;
}

TEST_CASE("An uncommitted transaction leaves nothing", "[sqlite]") {
  Database database;
  REQUIRE(Fill(database).ok());
  {
    Transaction transaction(database);
    REQUIRE(transaction.Begin().ok());
    REQUIRE(database.Execute("DELETE FROM t").ok());
  }
  CHECK(database.QueryInteger("SELECT count(*) FROM t").value() == 3);
  {
    Transaction transaction(database);
    REQUIRE(transaction.Begin().ok());
    REQUIRE(database.Execute("DELETE FROM t").ok());
    REQUIRE(transaction.Commit().ok());
  }
  CHECK(database.QueryInteger("SELECT count(*) FROM t").value() == 0);
  CHECK(absl::IsNotFound(database.QueryInteger("SELECT number FROM t").status()));
}

TEST_CASE("A statement visits all rows and can be used again", "[sqlite]") {
  Database database;
  REQUIRE(Fill(database).ok());
  Statement statement;
  REQUIRE(statement.Prepare(database, "SELECT text FROM t WHERE number >= ? ORDER BY number").ok());
  for (int i = 0; i < 2; ++i) {
    statement.BindInteger(1, 2);
    std::vector<std::string> texts;
    REQUIRE(statement
                .ForEachRow([&] {
                  CHECK(statement.Bytes(0) == statement.View(0));
                  texts.push_back(statement.Bytes(0));
                  return absl::OkStatus();
                })
                .ok());
    CHECK(texts == std::vector<std::string>{"two", ""});
  }
}

TEST_CASE("A visitor's error ends the visit and resets the statement", "[sqlite]") {
  Database database;
  REQUIRE(Fill(database).ok());
  Statement statement;
  REQUIRE(statement.Prepare(database, "SELECT number FROM t").ok());
  int visits = 0;
  const absl::Status status = statement.ForEachRow([&] {
    ++visits;
    return absl::CancelledError();
  });
  CHECK(absl::IsCancelled(status));
  CHECK(visits == 1);
  // With the statement still at a row, the table would be locked.
  CHECK(database.Execute("DROP TABLE t").ok());
}

TEST_CASE("SQLite's errors become statuses that name the file and the statement", "[sqlite]") {
  Database database;
  REQUIRE(Fill(database).ok());
  const absl::Status status = database.Execute("nonsense");
  CHECK(absl::IsInternal(status));
  CHECK_THAT(std::string(status.message()),
             Catch::Contains(":memory:") && Catch::Contains("nonsense"));
  CHECK(absl::IsPermissionDenied(Database().Open("/proc/nowhere/file")));
  CHECK(DefaultError(SQLITE_BUSY, "").code() == absl::StatusCode::kUnavailable);
  CHECK(DefaultError(SQLITE_FULL, "").code() == absl::StatusCode::kResourceExhausted);
  CHECK(DefaultError(SQLITE_CORRUPT, "").code() == absl::StatusCode::kDataLoss);
}

TEST_CASE("An owner can choose the statuses of its database", "[sqlite]") {
  Database database([](int code, const std::string& message) {
    return code == SQLITE_CONSTRAINT ? absl::AlreadyExistsError(message)
                                     : absl::UnavailableError(message);
  });
  REQUIRE(Fill(database).ok());
  CHECK(absl::IsUnavailable(database.Execute("nonsense")));
  Statement statement;
  REQUIRE(statement.Prepare(database, "INSERT INTO t VALUES (1, '')").ok());
  CHECK(absl::IsAlreadyExists(statement.Run()));
}

}  // namespace
}  // namespace kernelcast::sqlite
