#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_CONNECTION_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_CONNECTION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct pg_conn;
struct pg_result;

namespace kernelcast::orchestrator {

struct PostgresqlOptions {
  // "postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full&sslrootcert=FILE", or any other URI
  // that libpq accepts, but without a password.
  std::string uri;
  // File whose first line is the password, read again for each connection. Empty: none, or libpq's
  // own password file.
  std::string password_file;
  // A statement that takes longer fails, together with its connection.
  absl::Duration statement_timeout = absl::Seconds(30);
  // How long an existing user waits for an unavailable server.
  absl::Duration reconnect_timeout = absl::Seconds(30);
  // Opens a shard that has lost events, keeping those before the first loss.
  bool accept_loss = false;
};

// INVALID_ARGUMENT: not such a URI, or it contains a password. Every process of the machine could
// read a password on the command line.
[[nodiscard]] absl::Status CheckPostgresqlUri(const std::string& uri);

// A statement parameter in PostgreSQL's binary format.
class PostgresqlValue {
 public:
  static PostgresqlValue Int(int64_t value);
  static PostgresqlValue Text(std::string_view value);
  // One-dimensional arrays. With `empty_is_null`, empty elements become NULL.
  static PostgresqlValue TextArray(std::span<const std::string_view> values, bool empty_is_null);
  static PostgresqlValue BytesArray(std::span<const std::string> values);

  uint32_t type() const { return type_; }
  const std::string& bytes() const { return bytes_; }

 private:
  PostgresqlValue(uint32_t type, std::string bytes) : type_(type), bytes_(std::move(bytes)) {}
  uint32_t type_;
  std::string bytes_;
};

// Rows returned by a statement, in binary format.
class PostgresqlRows {
 public:
  explicit PostgresqlRows(pg_result* result) : result_(result) {}

  int count() const;
  // Number of rows inserted, updated or deleted.
  int64_t affected() const;
  int64_t Int(int row, int column) const;  // smallint, integer or bigint
  bool Bool(int row, int column) const;
  // text or bytea. Valid as long as the rows.
  std::string_view Bytes(int row, int column) const;
  std::string Text(int row, int column) const { return std::string(Bytes(row, column)); }

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

// A connection to a PostgreSQL server. Every call has a time limit. The error code follows the
// SQLSTATE: RESOURCE_EXHAUSTED (disk full, too many connections), DATA_LOSS (damaged),
// PERMISSION_DENIED, otherwise UNAVAILABLE (connection lost, server shutting down, ...).
//
// Not thread-safe.
class PostgresqlConnection {
 public:
  // Setting `stop` ends running calls with CANCELLED; it may be null and must outlive the
  // connection. The session commits durably, uses READ COMMITTED isolation, and ends itself if it
  // leaves a transaction open.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlConnection>> Open(
      const PostgresqlOptions& options, const std::atomic<bool>* stop);
  // Retries Open until the server responds or options.reconnect_timeout has passed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlConnection>> Reopen(
      const PostgresqlOptions& options, const std::atomic<bool>* stop);
  ~PostgresqlConnection();
  PostgresqlConnection(const PostgresqlConnection&) = delete;
  PostgresqlConnection& operator=(const PostgresqlConnection&) = delete;

  // Runs one statement. Prepares it on first use, under its own text.
  [[nodiscard]] absl::StatusOr<PostgresqlRows> Execute(
      const std::string& sql, std::span<const PostgresqlValue> values = {});
  // Runs statements without parameters and results.
  [[nodiscard]] absl::Status Script(const std::string& sql);
  // Runs "COPY (...) TO STDOUT (FORMAT binary)" and calls `visit` for each row while the server
  // sends the next ones. The fields are valid during the call. An error from `visit` ends the
  // statement.
  using RowVisitor = std::function<absl::Status(std::span<const std::string_view> fields)>;
  [[nodiscard]] absl::Status CopyOut(const std::string& sql, const RowVisitor& visit);

  // False once the connection is lost. Whether a failed statement took effect is then unknown. A
  // statement that failed on a usable connection had no effect.
  bool usable() const;

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  PostgresqlConnection(pg_conn* connection, const PostgresqlOptions& options,
                       const std::atomic<bool>* stop)
      : connection_(connection), statement_timeout_(options.statement_timeout), stop_(stop) {}

  absl::Status Configure();
  // Waits until the socket is readable or, with `for_writing`, writable.
  absl::Status Wait(bool for_writing, int64_t deadline_ns);
  absl::Status Flush(int64_t deadline_ns);
  // The next result, or null after the last one.
  absl::StatusOr<pg_result*> NextResult(int64_t deadline_ns);
  // The last result of the statement, after reading all of them.
  absl::StatusOr<PostgresqlRows> Finished();
  absl::Status Error(const pg_result* result, std::string_view doing) const;
  int64_t Deadline() const;

  std::unique_ptr<pg_conn, Finish> connection_;
  const absl::Duration statement_timeout_;
  const std::atomic<bool>* const stop_;
  std::set<std::string> prepared_;
  bool given_up_ = false;
};

// Decodes a big-endian number of 2, 4 or 8 bytes, as sent by PostgreSQL.
int64_t PostgresqlInt(std::string_view bytes);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_CONNECTION_H_
