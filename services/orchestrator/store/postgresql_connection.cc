#include "services/orchestrator/store/postgresql_connection.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace kernelcast::orchestrator {
namespace {

// Object ids of PostgreSQL's built-in types, which never change.
constexpr uint32_t kBytea = 17;
constexpr uint32_t kInt8 = 20;
constexpr uint32_t kText = 25;
constexpr uint32_t kByteaArray = 1001;
constexpr uint32_t kTextArray = 1009;

constexpr int kBinary = 1;
// How quickly a stop request is noticed.
constexpr int kSliceMs = 50;
constexpr auto kReopenPause = std::chrono::milliseconds(100);

void AppendInt(std::string& out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

template <class Value>
std::string ArrayBytes(uint32_t type, std::span<const Value> values, bool empty_is_null) {
  std::string bytes;
  AppendInt(bytes, 1, 4);  // dimensions
  AppendInt(bytes, empty_is_null ? 1 : 0, 4);
  AppendInt(bytes, type, 4);
  AppendInt(bytes, values.size(), 4);
  AppendInt(bytes, 1, 4);  // the first index
  for (const Value& value : values) {
    if (empty_is_null && value.empty()) {
      AppendInt(bytes, ~uint64_t{0}, 4);
      continue;
    }
    AppendInt(bytes, value.size(), 4);
    bytes.append(value);
  }
  return bytes;
}

// libpq's messages end with a newline.
std::string Message(const char* text) {
  return std::string(absl::StripTrailingAsciiWhitespace(text != nullptr ? text : ""));
}

absl::StatusCode CodeOf(std::string_view sqlstate) {
  const std::string_view kind = sqlstate.substr(0, 2);
  if (kind == "53") return absl::StatusCode::kResourceExhausted;
  if (kind == "XX") return absl::StatusCode::kDataLoss;
  if (sqlstate == "42501" || kind == "28") return absl::StatusCode::kPermissionDenied;
  return absl::StatusCode::kUnavailable;
}

absl::StatusOr<std::string> ReadPassword(const std::string& path) {
  std::ifstream file(path);
  std::string password;
  if (!file || !std::getline(file, password)) {
    return absl::InvalidArgumentError(
        absl::StrCat("event log: the password file ", path, " cannot be read"));
  }
  if (!password.empty() && password.back() == '\r') password.pop_back();
  if (password.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("event log: the password file ", path, " begins with an empty line"));
  }
  return password;
}

struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};

void LogNotice(void*, const char* message) {
  Log(LogLevel::kWarning, "notice from the database", {{"notice", Message(message)}});
}

}  // namespace

absl::Status CheckPostgresqlUri(const std::string& uri) {
  if (uri.rfind("postgresql://", 0) != 0 && uri.rfind("postgres://", 0) != 0) {
    return absl::InvalidArgumentError("it does not begin with postgresql://");
  }
  char* error = nullptr;
  const std::unique_ptr<PQconninfoOption, FreeOptions> parsed(PQconninfoParse(uri.c_str(), &error));
  if (parsed == nullptr) {
    // The message may contain a misplaced password.
    PQfreemem(error);
    return absl::InvalidArgumentError("libpq cannot parse this URI");
  }
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    const std::string_view keyword = option->keyword;
    if (option->val != nullptr && (keyword == "password" || keyword == "sslpassword")) {
      return absl::InvalidArgumentError(
          "it holds a password, which every process of this machine can read; put the password "
          "into a file");
    }
  }
  return absl::OkStatus();
}

int64_t PostgresqlInt(std::string_view bytes) {
  // Sign-extends from the first byte.
  auto value = static_cast<uint64_t>(
      bytes.empty() ? 0 : static_cast<int64_t>(static_cast<signed char>(bytes.front())));
  for (const char byte : bytes.substr(std::min<size_t>(1, bytes.size()))) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return static_cast<int64_t>(value);
}

PostgresqlValue PostgresqlValue::Int(int64_t value) {
  std::string bytes;
  AppendInt(bytes, static_cast<uint64_t>(value), 8);
  return {kInt8, std::move(bytes)};
}

PostgresqlValue PostgresqlValue::Text(std::string_view value) {
  return {kText, std::string(value)};
}

PostgresqlValue PostgresqlValue::TextArray(std::span<const std::string_view> values,
                                           bool empty_is_null) {
  return {kTextArray, ArrayBytes(kText, values, empty_is_null)};
}

PostgresqlValue PostgresqlValue::BytesArray(std::span<const std::string> values) {
  return {kByteaArray, ArrayBytes(kBytea, values, false)};
}

void PostgresqlRows::Clear::operator()(pg_result* result) const { PQclear(result); }

int PostgresqlRows::count() const { return PQntuples(result_.get()); }

int64_t PostgresqlRows::affected() const {
  return std::strtoll(PQcmdTuples(result_.get()), nullptr, 10);
}

std::string_view PostgresqlRows::Bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<size_t>(PQgetlength(result_.get(), row, column))};
}

int64_t PostgresqlRows::Int(int row, int column) const { return PostgresqlInt(Bytes(row, column)); }

bool PostgresqlRows::Bool(int row, int column) const {
  return PostgresqlInt(Bytes(row, column)) != 0;
}

void PostgresqlConnection::Finish::operator()(pg_conn* connection) const { PQfinish(connection); }

PostgresqlConnection::~PostgresqlConnection() = default;

absl::StatusOr<std::unique_ptr<PostgresqlConnection>> PostgresqlConnection::Open(
    const PostgresqlOptions& options, const std::atomic<bool>* stop) {
  KC_RETURN_IF_ERROR(CheckPostgresqlUri(options.uri));
  std::string password;
  if (!options.password_file.empty()) {
    KC_ASSIGN_OR_RETURN(password, ReadPassword(options.password_file));
  }
  // The last occurrence of a keyword counts, so the URI overrides the settings before it. The
  // keepalive settings detect a vanished server within seconds.
  std::vector<std::pair<const char*, const char*>> settings = {
      {"application_name", "kernelcast-orchestrator"},
      {"connect_timeout", "5"},
      {"keepalives_idle", "5"},
      {"keepalives_interval", "2"},
      {"keepalives_count", "3"},
      {"tcp_user_timeout", "15000"},
      {"dbname", options.uri.c_str()},
      {"client_encoding", "UTF8"},
  };
  if (!password.empty()) settings.emplace_back("password", password.c_str());
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : settings) {
    keywords.push_back(keyword);
    values.push_back(value);
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  std::unique_ptr<PostgresqlConnection> connection(new PostgresqlConnection(
      PQconnectdbParams(keywords.data(), values.data(), /*expand_dbname=*/1), options, stop));
  pg_conn* const raw = connection->connection_.get();
  if (raw == nullptr) return absl::ResourceExhaustedError("event log: no memory to connect");
  if (PQstatus(raw) != CONNECTION_OK) {
    return absl::UnavailableError(
        absl::StrCat("event log: connect: ", Message(PQerrorMessage(raw))));
  }
  PQsetNoticeProcessor(raw, LogNotice, nullptr);
  if (PQsetnonblocking(raw, 1) != 0) return connection->Error(nullptr, "connect");
  KC_RETURN_IF_ERROR(connection->Configure());
  return connection;
}

absl::Status PostgresqlConnection::Configure() {
  return Script(
      "SET client_min_messages = warning;"
      "SET default_transaction_isolation = 'read committed';"
      "SET default_transaction_read_only = off;"
      "SET idle_in_transaction_session_timeout = '10s';"
      "SELECT set_config('synchronous_commit', 'on', false)"
      "  WHERE current_setting('synchronous_commit') = 'off'");
}

absl::StatusOr<std::unique_ptr<PostgresqlConnection>> PostgresqlConnection::Reopen(
    const PostgresqlOptions& options, const std::atomic<bool>* stop) {
  const int64_t limit_ns =
      Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(options.reconnect_timeout);
  while (true) {
    auto connection = Open(options, stop);
    if (connection.ok() || Clock::Real().MonotonicNs() >= limit_ns) return connection;
    if (stop != nullptr && *stop) return absl::CancelledError("event log: stopped");
    // Nothing signals the server's return, so this polls.
    std::this_thread::sleep_for(kReopenPause);
  }
}

bool PostgresqlConnection::usable() const {
  return !given_up_ && PQstatus(connection_.get()) == CONNECTION_OK;
}

int64_t PostgresqlConnection::Deadline() const {
  return Clock::Real().MonotonicNs() + absl::ToInt64Nanoseconds(statement_timeout_);
}

absl::Status PostgresqlConnection::Error(const pg_result* result, std::string_view doing) const {
  const char* const sqlstate =
      result != nullptr ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const std::string message =
      Message(result != nullptr ? PQresultErrorMessage(result) : PQerrorMessage(connection_.get()));
  const absl::StatusCode code =
      usable() && sqlstate != nullptr ? CodeOf(sqlstate) : absl::StatusCode::kUnavailable;
  return {code, absl::StrCat("event log: ", std::string(doing), ": ", message)};
}

absl::Status PostgresqlConnection::Wait(bool for_writing, int64_t deadline_ns) {
  pollfd watched = {.fd = PQsocket(connection_.get()),
                    .events = static_cast<short>(for_writing ? POLLIN | POLLOUT : POLLIN),
                    .revents = 0};
  while (true) {
    const int ready = poll(&watched, 1, kSliceMs);
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "event log: poll");
    if (stop_ != nullptr && *stop_) {
      given_up_ = true;
      return absl::CancelledError("event log: stopped");
    }
    if (Clock::Real().MonotonicNs() >= deadline_ns) {
      given_up_ = true;
      return absl::UnavailableError("event log: the database does not answer");
    }
  }
}

absl::Status PostgresqlConnection::Flush(int64_t deadline_ns) {
  while (true) {
    const int left = PQflush(connection_.get());
    if (left == 0) return absl::OkStatus();
    if (left < 0) return Error(nullptr, "send");
    KC_RETURN_IF_ERROR(Wait(/*for_writing=*/true, deadline_ns));
    // Reads what the server sends in the meantime; otherwise both sides could wait for each other.
    if (PQconsumeInput(connection_.get()) == 0) return Error(nullptr, "send");
  }
}

absl::StatusOr<pg_result*> PostgresqlConnection::NextResult(int64_t deadline_ns) {
  while (PQisBusy(connection_.get()) != 0) {
    KC_RETURN_IF_ERROR(Wait(/*for_writing=*/false, deadline_ns));
    if (PQconsumeInput(connection_.get()) == 0) return Error(nullptr, "receive");
  }
  return PQgetResult(connection_.get());
}

absl::StatusOr<PostgresqlRows> PostgresqlConnection::Finished() {
  const int64_t deadline_ns = Deadline();
  KC_RETURN_IF_ERROR(Flush(deadline_ns));
  PostgresqlRows last(nullptr);
  absl::Status status;
  while (true) {
    KC_ASSIGN_OR_RETURN(pg_result * result, NextResult(deadline_ns));
    if (result == nullptr) break;
    PostgresqlRows rows(result);
    const ExecStatusType kind = PQresultStatus(result);
    if (kind == PGRES_COMMAND_OK || kind == PGRES_TUPLES_OK) {
      last = std::move(rows);
    } else if (status.ok()) {
      status = Error(result, "statement");
    }
    if (!usable()) break;
  }
  KC_RETURN_IF_ERROR(status);
  if (!usable()) return Error(nullptr, "statement");
  return last;
}

absl::StatusOr<PostgresqlRows> PostgresqlConnection::Execute(
    const std::string& sql, std::span<const PostgresqlValue> values) {
  std::vector<Oid> types;
  std::vector<const char*> bytes;
  std::vector<int> lengths;
  for (const PostgresqlValue& value : values) {
    types.push_back(value.type());
    bytes.push_back(value.bytes().data());
    lengths.push_back(static_cast<int>(value.bytes().size()));
  }
  const std::vector<int> formats(values.size(), kBinary);
  const auto count = static_cast<int>(values.size());
  // Statement names are limited to 63 bytes.
  const std::string name = absl::StrCat("k", std::hash<std::string>()(sql));
  if (!prepared_.contains(sql)) {
    if (PQsendPrepare(connection_.get(), name.c_str(), sql.c_str(), count, types.data()) == 0) {
      return Error(nullptr, "prepare");
    }
    KC_RETURN_IF_ERROR(Finished().status());
    prepared_.insert(sql);
  }
  if (PQsendQueryPrepared(connection_.get(), name.c_str(), count, bytes.data(), lengths.data(),
                          formats.data(), kBinary) == 0) {
    return Error(nullptr, "send");
  }
  return Finished();
}

absl::Status PostgresqlConnection::Script(const std::string& sql) {
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) return Error(nullptr, "send");
  return Finished().status();
}

absl::Status PostgresqlConnection::CopyOut(const std::string& sql, const RowVisitor& visit) {
  // "PGCOPY\n\377\r\n\0", flags, and the length of an extension, which is empty.
  constexpr size_t kHeaderBytes = 19;
  if (PQsendQuery(connection_.get(), sql.c_str()) == 0) return Error(nullptr, "send");
  KC_RETURN_IF_ERROR(Flush(Deadline()));
  {
    KC_ASSIGN_OR_RETURN(pg_result * result, NextResult(Deadline()));
    const PostgresqlRows begun(result);
    if (PQresultStatus(result) != PGRES_COPY_OUT) {
      absl::Status status = Error(result, "read");
      // Reads the rest of the server's reply, so that the connection can be reused.
      if (usable()) Finished().IgnoreError();
      return status;
    }
  }
  bool header = true;
  std::vector<std::string_view> fields;
  while (true) {
    char* data = nullptr;
    int length = 0;
    while ((length = PQgetCopyData(connection_.get(), &data, /*async=*/1)) == 0) {
      KC_RETURN_IF_ERROR(Wait(/*for_writing=*/false, Deadline()));
      if (PQconsumeInput(connection_.get()) == 0) return Error(nullptr, "read");
    }
    if (length == -1) return Finished().status();
    if (length < 0) return Error(nullptr, "read");
    const std::unique_ptr<char, void (*)(void*)> owned(data, PQfreemem);
    std::string_view rest(data, static_cast<size_t>(length));
    if (header) {
      rest.remove_prefix(std::min(rest.size(), kHeaderBytes));
      header = false;
    }
    const auto take = [&rest](size_t bytes) {
      const std::string_view taken = rest.substr(0, bytes);
      rest.remove_prefix(taken.size());
      return taken;
    };
    if (rest.empty()) continue;
    const int64_t count = PostgresqlInt(take(2));
    if (count < 0) continue;  // end of data
    fields.clear();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bytes = PostgresqlInt(take(4));
      fields.push_back(take(static_cast<size_t>(std::max<int64_t>(0, bytes))));
    }
    if (absl::Status status = visit(fields); !status.ok()) {
      given_up_ = true;  // do not read the rest
      return status;
    }
  }
}

}  // namespace kernelcast::orchestrator
