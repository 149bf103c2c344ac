#include "common/sqlite/exclusive_file.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::sqlite {
namespace {

constexpr int kBusyTimeoutMs = 2000;

absl::Status SetPragma(Database& database, const char* name, int64_t value) {
  return database.Execute(absl::StrCat("PRAGMA ", name, " = ", value).c_str());
}

// Runs statements and sets the version, or does neither.
absl::Status ChangeLayout(Database& database, const char* statements, const FileLayout& layout) {
  Transaction transaction(database);
  KC_RETURN_IF_ERROR(transaction.Begin());
  KC_RETURN_IF_ERROR(database.Execute(statements));
  KC_RETURN_IF_ERROR(SetPragma(database, "application_id", layout.application_id));
  KC_RETURN_IF_ERROR(SetPragma(database, "user_version", layout.version));
  return transaction.Commit();
}

absl::Status TakeLayout(Database& database, const FileLayout& layout) {
  KC_ASSIGN_OR_RETURN(const int64_t id, database.QueryInteger("PRAGMA application_id"));
  KC_ASSIGN_OR_RETURN(const int64_t version, database.QueryInteger("PRAGMA user_version"));
  KC_ASSIGN_OR_RETURN(const int64_t tables,
                      database.QueryInteger("SELECT count(*) FROM sqlite_schema"));
  if (tables == 0 && id == 0) return ChangeLayout(database, layout.schema, layout);
  if (id != layout.application_id) {
    return absl::FailedPreconditionError(
        absl::StrCat(database.path(), ": a database of another kind"));
  }
  if (version == layout.version) return absl::OkStatus();
  if (version == layout.version - 1 && layout.upgrade != nullptr) {
    return ChangeLayout(database, layout.upgrade, layout);
  }
  return absl::FailedPreconditionError(absl::StrCat(database.path(), ": has layout ", version,
                                                    ", this program knows ", layout.version));
}

absl::Status Open(const std::string& path, const FileLayout& layout, Database& database) {
  KC_RETURN_IF_ERROR(database.Open(path));
  sqlite3_busy_timeout(database.get(), kBusyTimeoutMs);
  // Exclusive before the first access, so that nobody else can access the file while it is open and
  // no shared-memory file is needed.
  KC_RETURN_IF_ERROR(database.Execute("PRAGMA locking_mode = EXCLUSIVE"));
  KC_RETURN_IF_ERROR(database.Execute("PRAGMA journal_mode = WAL"));
  KC_RETURN_IF_ERROR(
      database.Execute(absl::StrCat("PRAGMA synchronous = ", layout.synchronous).c_str()));
  // Takes the lock even if nothing is written now.
  KC_RETURN_IF_ERROR(database.Execute("BEGIN EXCLUSIVE; COMMIT"));
  if (layout.check) {
    KC_ASSIGN_OR_RETURN(const std::string found, database.QueryText("PRAGMA quick_check(1)"));
    if (found != "ok") return absl::DataLossError(absl::StrCat(path, ": damaged: ", found));
  }
  return TakeLayout(database, layout);
}

}  // namespace

absl::Status OpenExclusively(const std::string& folder, const std::string& name,
                             const FileLayout& layout, Database& database) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::PermissionDeniedError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  const std::string path = absl::StrCat(folder, "/", name);
  const absl::Status status = Open(path, layout, database);
  if (!absl::IsUnavailable(status)) return status;
  return absl::UnavailableError(
      absl::StrCat(path, ": in use by another process (", status.message(), ")"));
}

}  // namespace kernelcast::sqlite
