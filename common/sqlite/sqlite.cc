#include "common/sqlite/sqlite.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::sqlite {

absl::Status DefaultError(int code, const std::string& message) {
  switch (code) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::UnavailableError(message);
    case SQLITE_FULL: return absl::ResourceExhaustedError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return absl::DataLossError(message);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM: return absl::PermissionDeniedError(message);
    default: return absl::InternalError(message);
  }
}

Database::~Database() {
  // Cannot fail if all statements are finalized. A failure would only leak.
  if (handle_ != nullptr) sqlite3_close(handle_);
}

absl::Status Database::Open(const std::string& path, int flags) {
  path_ = path;
  const int code = sqlite3_open_v2(path.c_str(), &handle_,
                                   flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, "opening");
}

absl::Status Database::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, sql);
}

absl::StatusOr<int64_t> Database::QueryInteger(const char* sql) {
  Statement statement;
  KC_RETURN_IF_ERROR(statement.Prepare(*this, sql));
  KC_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::NotFoundError(absl::StrCat(path_, ": no row: ", sql));
  return statement.Integer(0);
}

absl::StatusOr<std::string> Database::QueryText(const char* sql) {
  Statement statement;
  KC_RETURN_IF_ERROR(statement.Prepare(*this, sql));
  KC_ASSIGN_OR_RETURN(const bool row, statement.Step());
  if (!row) return absl::NotFoundError(absl::StrCat(path_, ": no row: ", sql));
  return statement.Bytes(0);
}

absl::Status Database::Error(int code, std::string_view what) const {
  return error_of_(
      code & 0xff,
      absl::StrCat(path_, ": ", std::string(what), ": ", sqlite3_errstr(code),
                   handle_ != nullptr ? absl::StrCat(" (", sqlite3_errmsg(handle_), ")") : ""));
}

Statement::~Statement() { sqlite3_finalize(statement_); }

absl::Status Statement::Prepare(Database& database, const char* sql) {
  database_ = &database;
  const int code =
      sqlite3_prepare_v3(database.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement_, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : database.Error(code, sql);
}

// Binding fails only for an index out of range or a value above 1 GB, which callers must avoid.
void Statement::BindText(int index, std::string_view value) {
  sqlite3_bind_text64(statement_, index, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void Statement::BindBlob(int index, std::string_view value) {
  sqlite3_bind_blob64(statement_, index, value.data(), value.size(), SQLITE_STATIC);
}

void Statement::BindInteger(int index, int64_t value) {
  sqlite3_bind_int64(statement_, index, value);
}

void Statement::BindReal(int index, double value) { sqlite3_bind_double(statement_, index, value); }

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return database_->Error(code, sqlite3_sql(statement_));
}

absl::Status Statement::ForEachRow(absl::FunctionRef<absl::Status()> visit) {
  absl::Status status;
  while (status.ok()) {
    const absl::StatusOr<bool> row = Step();
    if (row.ok() && !*row) break;
    status = row.ok() ? visit() : row.status();
  }
  Reset();
  return status;
}

absl::Status Statement::Run() {
  return ForEachRow([] { return absl::OkStatus(); });
}

void Statement::Reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

std::string_view Statement::View(int column) const {
  // SQLite returns nullptr for an empty value.
  const void* const bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
}

Transaction::~Transaction() {
  // After an error the transaction is already rolled back, or the next Begin reports it.
  if (open_) (void)database_.Execute("ROLLBACK");
}

absl::Status Transaction::Begin() {
  KC_RETURN_IF_ERROR(database_.Execute("BEGIN IMMEDIATE"));
  open_ = true;
  return absl::OkStatus();
}

absl::Status Transaction::Commit() {
  KC_RETURN_IF_ERROR(database_.Execute("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace kernelcast::sqlite
