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
  // "postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full&sslrootcert=FILE", or whatever else
  // libpq takes in such a URI, but for a password.
  std::string uri;
  // File whose first line is the password, read anew for each connection; empty: none, or libpq's
  // own password file.
  std::string password_file;
  // A statement that takes longer has failed, and its connection with it.
  absl::Duration statement_timeout = absl::Seconds(30);
  // How long a server that is away is waited for, by those who have a connection already.
  absl::Duration reconnect_timeout = absl::Seconds(30);
};

// INVALID_ARGUMENT: it is no such URI, or holds a password, which every process of the machine
// could read on the command line.
[[nodiscard]] absl::Status CheckPostgresqlUri(const std::string& uri);

// A parameter of a statement in PostgreSQL's binary form.
class PostgresqlValue {
 public:
  static PostgresqlValue Int(int64_t value);
  static PostgresqlValue Text(std::string_view value);
  // One-dimensional; empty elements become NULL where asked for.
  static PostgresqlValue TextArray(std::span<const std::string_view> values, bool empty_is_null);
  static PostgresqlValue BytesArray(std::span<const std::string> values);

  uint32_t type() const { return type_; }
  const std::string& bytes() const { return bytes_; }

 private:
  PostgresqlValue(uint32_t type, std::string bytes) : type_(type), bytes_(std::move(bytes)) {}
  uint32_t type_;
  std::string bytes_;
};

// What a statement returned, in binary form.
class PostgresqlRows {
 public:
  explicit PostgresqlRows(pg_result* result) : result_(result) {}

  int count() const;
  // Rows that were inserted, updated or deleted.
  int64_t affected() const;
  bool IsNull(int row, int column) const;
  int64_t Int(int row, int column) const;  // of smallint, integer or bigint
  bool Bool(int row, int column) const;
  // Of text or bytea; valid as long as the rows are.
  std::string_view Bytes(int row, int column) const;
  std::string Text(int row, int column) const { return std::string(Bytes(row, column)); }

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

// One connection to a PostgreSQL server. Every call is bounded in time. Errors have the code of
// their SQLSTATE: UNAVAILABLE (connection lost, server shutting down, ...), RESOURCE_EXHAUSTED
// (disk full, too many connections), DATA_LOSS (damaged), PERMISSION_DENIED, else UNAVAILABLE.
//
// Not thread-safe.
class PostgresqlConnection {
 public:
  // Whoever sets `stop` (which may be null and must outlive the connection) ends what is under way
  // with CANCELLED. The session commits durably, isolates as READ COMMITTED and ends itself when it
  // leaves a transaction open.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlConnection>> Open(
      const PostgresqlOptions& options, const std::atomic<bool>* stop);
  // As Open, again and again until the server answers or options.reconnect_timeout has passed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresqlConnection>> Reopen(
      const PostgresqlOptions& options, const std::atomic<bool>* stop);
  ~PostgresqlConnection();
  PostgresqlConnection(const PostgresqlConnection&) = delete;
  PostgresqlConnection& operator=(const PostgresqlConnection&) = delete;

  // Runs one statement, prepared under its own text the first time.
  [[nodiscard]] absl::StatusOr<PostgresqlRows> Execute(
      const std::string& sql, std::span<const PostgresqlValue> values = {});
  // Runs statements without parameters or results.
  [[nodiscard]] absl::Status Script(const std::string& sql);
  // Runs "COPY (...) TO STDOUT (FORMAT binary)" and calls back for each row, whose fields are valid
  // for the time of the call, while the server sends the next ones. An error of the callback's ends
  // the statement.
  using RowVisitor = std::function<absl::Status(std::span<const std::string_view> fields)>;
  [[nodiscard]] absl::Status CopyOut(const std::string& sql, const RowVisitor& visit);

  // False once it is lost: whether a statement that failed had an effect is then not known. One
  // that failed on a connection that stands had none.
  bool usable() const;

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  PostgresqlConnection(pg_conn* connection, const PostgresqlOptions& options,
                       const std::atomic<bool>* stop)
      : connection_(connection), statement_timeout_(options.statement_timeout), stop_(stop) {}

  absl::Status Configure();
  // Waits until the socket can be read, or, if asked for, written.
  absl::Status Wait(bool for_writing, int64_t deadline_ns);
  absl::Status Flush(int64_t deadline_ns);
  // The next result, null after the last one.
  absl::StatusOr<pg_result*> NextResult(int64_t deadline_ns);
  // The last result of what was sent, once there are no more.
  absl::StatusOr<PostgresqlRows> Finished();
  absl::Status Error(const pg_result* result, std::string_view doing) const;
  int64_t Deadline() const;

  std::unique_ptr<pg_conn, Finish> connection_;
  const absl::Duration statement_timeout_;
  const std::atomic<bool>* const stop_;
  std::set<std::string> prepared_;
  bool given_up_ = false;
};

// Big-endian, as PostgreSQL sends numbers; of 2, 4 or 8 bytes.
int64_t PostgresqlInt(std::string_view bytes);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_STORE_POSTGRESQL_CONNECTION_H_
