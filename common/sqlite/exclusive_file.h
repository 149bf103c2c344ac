#ifndef KERNELCAST_COMMON_SQLITE_EXCLUSIVE_FILE_H_
#define KERNELCAST_COMMON_SQLITE_EXCLUSIVE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/sqlite/sqlite.h"

namespace kernelcast::sqlite {

// The contents of a database file.
struct FileLayout {
  int64_t application_id = 0;     // marks the files of one kind
  int64_t version = 1;            // of the tables
  const char* schema = "";        // creates the tables
  const char* upgrade = nullptr;  // upgrades from the version before; null: it is refused
  // SQLite's levels. FULL: a commit survives a crash of the machine. NORMAL: it may lose the newest
  // commits. OFF: it may damage the file.
  const char* synchronous = "FULL";
  // Whether to check the whole file for damage when it is opened.
  bool check = true;
};

// Opens FOLDER/NAME in write-ahead mode for this process alone. Creates both if they are missing.
// Waits up to two seconds for another process to end. UNAVAILABLE: another process has it open.
// DATA_LOSS: it is damaged or no database. FAILED_PRECONDITION: it is of another kind or version.
// PERMISSION_DENIED: it cannot be created or written. Errors have the path. `database` is new.
[[nodiscard]] absl::Status OpenExclusively(const std::string& folder, const std::string& name,
                                           const FileLayout& layout, Database& database);

}  // namespace kernelcast::sqlite

#endif  // KERNELCAST_COMMON_SQLITE_EXCLUSIVE_FILE_H_
