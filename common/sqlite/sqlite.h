#ifndef KERNELCAST_COMMON_SQLITE_SQLITE_H_
#define KERNELCAST_COMMON_SQLITE_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast::sqlite {

// UNAVAILABLE: busy or locked. RESOURCE_EXHAUSTED: disk full. DATA_LOSS: damaged or not a database.
// PERMISSION_DENIED: read-only. INTERNAL: all others. `code` is SQLite's primary result code.
absl::Status DefaultError(int code, const std::string& message);

// A connection, closed by the destructor. Not thread-safe.
class Database {
 public:
  // All errors of this connection and its statements are made by `error_of`.
  explicit Database(absl::Status (*error_of)(int code, const std::string& message) = DefaultError)
      : error_of_(error_of) {}
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // By default, creates the file if it is missing.
  [[nodiscard]] absl::Status Open(const std::string& path,
                                  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  // Runs statements that return no rows.
  [[nodiscard]] absl::Status Execute(const char* sql);
  // The first column of the first row. NOT_FOUND: no row.
  [[nodiscard]] absl::StatusOr<int64_t> QueryInteger(const char* sql);
  [[nodiscard]] absl::StatusOr<std::string> QueryText(const char* sql);

  // Converts the last error.
  absl::Status Error(int code, std::string_view what) const;

  sqlite3* get() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  absl::Status (*error_of_)(int code, const std::string& message);
  std::string path_;
  sqlite3* handle_ = nullptr;
};

// A reusable prepared statement: bind, Step, Reset. Must not outlive its database.
class Statement {
 public:
  Statement() = default;
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  [[nodiscard]] absl::Status Prepare(Database& database, const char* sql);

  // Parameters count from 1. Text and blobs must live until Reset.
  void BindText(int index, std::string_view value);
  void BindBlob(int index, std::string_view value);
  void BindInteger(int index, int64_t value);
  void BindReal(int index, double value);

  // True: there is a row. False: done.
  [[nodiscard]] absl::StatusOr<bool> Step();
  // Calls `visit` at each row, until it returns an error or the rows end. Resets the statement.
  [[nodiscard]] absl::Status ForEachRow(absl::FunctionRef<absl::Status()> visit);
  // Steps to the end and resets.
  [[nodiscard]] absl::Status Run();
  void Reset();

  // Columns count from 0.
  bool IsNull(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double Real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string Bytes(int column) const { return std::string(View(column)); }
  // Valid until the next Step or Reset.
  std::string_view View(int column) const;

 private:
  Database* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

// Rolls back unless committed.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status Commit();

 private:
  Database& database_;
  bool open_ = false;
};

}  // namespace kernelcast::sqlite

#endif  // KERNELCAST_COMMON_SQLITE_SQLITE_H_
