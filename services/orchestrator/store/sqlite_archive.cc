#include "services/orchestrator/store/sqlite_archive.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/descriptor.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/sqlite/sqlite.h"
#include "services/orchestrator/core/engine_ids.h"
#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/sqlite_log.h"

namespace kernelcast::orchestrator {
namespace {

constexpr char kPartial[] = ".partial";
constexpr char kNamePrefix[] = "settled-";

// What leaves the log, apart from evaluations outside searches, which are found one by one.
struct Leaving {
  std::set<std::string, std::less<>> searches;
  // Evaluations that stay although they are old.
  std::set<std::string, std::less<>> staying_requests;
  bool any_outside = false;
  // The mark next to the log names its newest event, which must stay.
  uint64_t newest = 0;
};

// The id of a search, or of the searches of one request on several device models.
std::string GroupOf(const std::string& search_id) { return std::string(IdOfSeveral(search_id)); }

absl::StatusOr<std::string> SearchOf(sqlite::Statement& of_request, const std::string& request_id) {
  std::string search_id;
  of_request.BindText(1, request_id);
  KC_RETURN_IF_ERROR(of_request.ForEachRow([&] {
    search_id = of_request.Bytes(0);
    return absl::OkStatus();
  }));
  return search_id;
}

absl::StatusOr<Leaving> FindLeaving(const SqliteEventStore& store, sqlite::Database& log,
                                    int64_t before_ns) {
  State state;
  std::set<std::string> recent;  // searches with a recent event of an evaluation
  Leaving leaving;
  KC_RETURN_IF_ERROR(store.Replay(1, [&](const StoredEvent& stored) {
    if (const auto* settled = std::get_if<EvaluationSettled>(&stored.event.body)) {
      const Evaluation* const evaluation = state.FindEvaluation(settled->request_id);
      const bool is_old = stored.event.time_ns < before_ns;
      if (evaluation != nullptr && evaluation->search_id.empty()) {
        leaving.any_outside = leaving.any_outside || is_old;
      } else if (evaluation != nullptr && !is_old) {
        recent.insert(evaluation->search_id);
      }
    }
    return state.Apply(stored);
  }));
  sqlite::Statement of_request;
  KC_RETURN_IF_ERROR(of_request.Prepare(
      log, "SELECT search_id FROM events WHERE request_id=? AND search_id IS NOT NULL LIMIT 1"));
  for (const auto& [request_id, label] : state.pending_labels()) {
    KC_ASSIGN_OR_RETURN(std::string search_id, SearchOf(of_request, request_id));
    leaving.staying_requests.insert(request_id);
    recent.insert(std::move(search_id));
  }
  for (const auto& [request_id, evaluation] : state.evaluations()) {
    recent.insert(evaluation.search_id);
  }
  sqlite::Statement newest;
  KC_RETURN_IF_ERROR(
      newest.Prepare(log, absl::StrCat(kSelectEvent, " ORDER BY sequence DESC LIMIT 1").c_str()));
  KC_RETURN_IF_ERROR(ForEachEventRow(newest, [&](const EventRow& row) {
    leaving.newest = row.sequence;
    leaving.staying_requests.emplace(row.request_id);
    recent.emplace(row.search_id);
    return absl::OkStatus();
  }));
  std::map<std::string, bool> stays;  // by group
  for (const auto& [search_id, search] : state.searches()) {
    const bool is_old = search.ended_ns != 0 && search.ended_ns < before_ns;
    bool& group_stays = stays[GroupOf(search_id)];
    group_stays = group_stays || !is_old || recent.contains(search_id);
  }
  for (const auto& [search_id, search] : state.searches()) {
    if (!stays[GroupOf(search_id)]) leaving.searches.insert(search_id);
  }
  return leaving;
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  const Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0 || fsync(descriptor.get()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("sync ", folder.string()));
  }
  return absl::OkStatus();
}

// A log with the events that leave another one.
class ArchiveLog {
 public:
  absl::Status Create(const std::filesystem::path& file) {
    KC_RETURN_IF_ERROR(MakeFolders(file.parent_path()));
    KC_RETURN_IF_ERROR(database_.Open(file));
    KC_RETURN_IF_ERROR(database_.Execute(kSqlitePageSize));
    KC_RETURN_IF_ERROR(database_.Execute("PRAGMA synchronous=FULL"));
    KC_RETURN_IF_ERROR(database_.Execute(kSqliteLogSchema));
    KC_RETURN_IF_ERROR(database_.Execute("BEGIN IMMEDIATE"));
    KC_RETURN_IF_ERROR(insert_.Prepare(database_, kInsertEvent));
    return has_.Prepare(database_, "SELECT 1 FROM events WHERE request_id=? LIMIT 1");
  }

  absl::Status Add(const EventRow& row) {
    insert_.BindInteger(1, static_cast<int64_t>(row.sequence));
    if (!row.request_id.empty()) insert_.BindText(2, row.request_id);
    if (!row.search_id.empty()) insert_.BindText(3, row.search_id);
    insert_.BindBlob(4, row.payload);
    last_ = std::max(last_, row.sequence);
    return insert_.Run();
  }

  absl::StatusOr<bool> Has(std::string_view request_id) {
    has_.BindText(1, request_id);
    const absl::StatusOr<bool> found = has_.Step();
    has_.Reset();
    return found;
  }

  // Makes it durable, in a folder whose name is not.
  absl::Status Finish() {
    KC_ASSIGN_OR_RETURN(const KeptEvents kept, CountKeptEvents(database_, last_));
    KC_RETURN_IF_ERROR(WriteKeptEvents(database_, kept));
    KC_RETURN_IF_ERROR(database_.Execute("COMMIT"));
    const std::filesystem::path folder = std::filesystem::path(database_.path()).parent_path();
    KC_RETURN_IF_ERROR(SyncFolder(folder));
    return SyncFolder(folder.parent_path());
  }

 private:
  sqlite::Database database_{SqliteLogError};
  sqlite::Statement insert_;
  sqlite::Statement has_;
  uint64_t last_ = 0;
};

// Copies what leaves to the archive. Returns the numbers of the events without an evaluation or a
// search that leave the log, too: acknowledgements of labels.
absl::StatusOr<std::vector<uint64_t>> Copy(sqlite::Database& log, const Leaving& leaving,
                                           int64_t before_ns, ArchiveLog& archive,
                                           ArchivedEvents& counts) {
  sqlite::Statement all;
  KC_RETURN_IF_ERROR(all.Prepare(log, absl::StrCat(kSelectEvent, " ORDER BY sequence").c_str()));
  sqlite::Statement by_request;
  KC_RETURN_IF_ERROR(
      by_request.Prepare(log, absl::StrCat(kSelectEvent, " WHERE request_id=?").c_str()));
  sqlite::Statement in_log;
  KC_RETURN_IF_ERROR(in_log.Prepare(log, "SELECT 1 FROM events WHERE request_id=? LIMIT 1"));
  std::vector<uint64_t> acknowledgements;
  const auto add = [&](const EventRow& row) {
    ++counts.events;
    return archive.Add(row);
  };
  const absl::Status copied = ForEachEventRow(all, [&](const EventRow& row) -> absl::Status {
    if (!row.search_id.empty()) {
      return leaving.searches.contains(row.search_id) ? add(row) : absl::OkStatus();
    }
    KC_ASSIGN_OR_RETURN(const StoredEvent stored, DecodeEvent(row));
    const EventBody& body = stored.event.body;
    if (!row.request_id.empty()) {
      if (!std::holds_alternative<EvaluationSettled>(body) || stored.event.time_ns >= before_ns ||
          leaving.staying_requests.contains(row.request_id)) {
        return absl::OkStatus();
      }
      ++counts.evaluations;
      by_request.BindText(1, row.request_id);
      return ForEachEventRow(by_request, add);
    }
    const auto* observed = std::get_if<LabelsObserved>(&body);
    if (observed == nullptr) return archive.Add(row);  // a problem or a reference
    bool is_about_archived = false;
    bool stays = row.sequence == leaving.newest;
    for (const std::string& request_id : observed->request_ids) {
      KC_ASSIGN_OR_RETURN(const bool archived, archive.Has(request_id));
      is_about_archived = is_about_archived || archived;
      if (archived) continue;
      in_log.BindText(1, request_id);
      const absl::StatusOr<bool> found = in_log.Step();
      in_log.Reset();
      KC_RETURN_IF_ERROR(found.status());
      stays = stays || *found;
    }
    if (!stays) acknowledgements.push_back(row.sequence);
    return is_about_archived ? archive.Add(row) : absl::OkStatus();
  });
  KC_RETURN_IF_ERROR(copied);
  return acknowledgements;
}

// Deletes what is in the archive. In a transaction.
absl::Status Delete(sqlite::Database& log, const std::vector<uint64_t>& acknowledgements) {
  constexpr char kMoved[] =
      "SELECT sequence FROM archive.events WHERE request_id IS NOT NULL OR search_id IS NOT NULL";
  KC_ASSIGN_OR_RETURN(KeptEvents kept, ReadKeptEvents(log));
  KC_ASSIGN_OR_RETURN(
      const int64_t last,
      log.QueryInteger(absl::StrCat("SELECT MAX(sequence) FROM (", kMoved, ")").c_str()));
  uint64_t through = std::max(kept.through, static_cast<uint64_t>(last));
  KC_RETURN_IF_ERROR(log.Execute(
      absl::StrCat("DELETE FROM main.events WHERE sequence IN (", kMoved, ")").c_str()));
  sqlite::Statement one;
  KC_RETURN_IF_ERROR(one.Prepare(log, "DELETE FROM main.events WHERE sequence=?"));
  for (const uint64_t sequence : acknowledgements) {
    through = std::max(through, sequence);
    one.BindInteger(1, static_cast<int64_t>(sequence));
    KC_RETURN_IF_ERROR(one.Run());
  }
  KC_ASSIGN_OR_RETURN(kept, CountKeptEvents(log, through));
  return WriteKeptEvents(log, kept);
}

// Deletes what a crash has left behind.
void RemovePartial(const std::filesystem::path& archives) {
  std::error_code error;
  std::vector<std::filesystem::path> partial;
  for (const auto& entry : std::filesystem::directory_iterator(archives, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kNamePrefix) && name.ends_with(kPartial)) partial.push_back(entry.path());
  }
  for (const auto& folder : partial) std::filesystem::remove_all(folder, error);
}

// A name that no archive has.
std::filesystem::path NewFolder(const std::filesystem::path& archives, int64_t before_ns) {
  const std::string name = absl::StrCat(
      kNamePrefix, "before-",
      absl::FormatTime("%Y%m%dT%H%M%SZ", absl::FromUnixNanos(before_ns), absl::UTCTimeZone()));
  std::filesystem::path folder = archives / name;
  std::error_code error;
  for (int i = 2; std::filesystem::exists(folder, error); ++i) {
    folder = archives / absl::StrCat(name, "-", i);
  }
  return folder;
}

}  // namespace

absl::StatusOr<ArchivedEvents> ArchiveSettled(const SqliteEventStore& store,
                                              const std::string& path, int64_t before_ns,
                                              const std::string& archives) {
  ArchivedEvents counts;
  sqlite::Database log(SqliteLogError);
  KC_RETURN_IF_ERROR(log.Open(path, SQLITE_OPEN_READWRITE));
  sqlite3_busy_timeout(log.get(), kBusyTimeoutMs);
  KC_RETURN_IF_ERROR(log.Execute("PRAGMA synchronous=FULL"));
  // Debian's SQLite overwrites deleted rows by default, which would write the log once more.
  KC_RETURN_IF_ERROR(log.Execute("PRAGMA secure_delete=OFF"));
  RemovePartial(archives);
  KC_ASSIGN_OR_RETURN(const Leaving leaving, FindLeaving(store, log, before_ns));
  if (leaving.searches.empty() && !leaving.any_outside) return counts;

  const std::filesystem::path folder = NewFolder(std::filesystem::absolute(archives), before_ns);
  const std::filesystem::path partial = folder.string() + kPartial;
  const std::filesystem::path file = partial / "orchestrator" / "orchestrator.db";
  absl::Cleanup remove_partial = [&partial] {
    std::error_code error;
    std::filesystem::remove_all(partial, error);
  };
  std::vector<uint64_t> acknowledgements;
  {
    ArchiveLog archive;
    KC_RETURN_IF_ERROR(archive.Create(file));
    KC_ASSIGN_OR_RETURN(acknowledgements, Copy(log, leaving, before_ns, archive, counts));
    if (counts.events == 0) return counts;
    KC_RETURN_IF_ERROR(archive.Finish());
  }

  sqlite::Statement attach;
  KC_RETURN_IF_ERROR(attach.Prepare(log, "ATTACH ? AS archive"));
  attach.BindText(1, file.native());
  KC_RETURN_IF_ERROR(attach.Run());
  sqlite::Transaction transaction(log);
  KC_RETURN_IF_ERROR(transaction.Begin());
  KC_RETURN_IF_ERROR(Delete(log, acknowledgements));
  State rest;
  KC_RETURN_IF_ERROR(ReplaySqliteLog(
      log, 1, 0, [&rest](const StoredEvent& stored) { return rest.Apply(stored); }));
  std::error_code error;
  std::filesystem::rename(partial, folder, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("rename ", partial.string()));
  }
  std::move(remove_partial).Cancel();
  KC_RETURN_IF_ERROR(SyncFolder(folder.parent_path()));
  KC_RETURN_IF_ERROR(SyncFolder(folder.parent_path().parent_path()));
  KC_RETURN_IF_ERROR(transaction.Commit());
  counts.searches = leaving.searches.size();
  counts.folder = folder;
  // Returns the space of a write-ahead log that is as long as what was deleted. Without it, the
  // next checkpoint reuses that space.
  (void)log.Execute("PRAGMA wal_checkpoint(TRUNCATE)");
  return counts;
}

}  // namespace kernelcast::orchestrator
