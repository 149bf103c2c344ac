#include "services/orchestrator/store/sqlite_archive.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/base/id.h"
#include "common/sqlite/sqlite.h"
#include "services/orchestrator/core/append_entry.h"
#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/unit/services/orchestrator/event_history.h"

namespace kernelcast::orchestrator::archive_test {
namespace {

namespace fs = std::filesystem;
using testing::EventHistory;

constexpr char kFile[] = "orchestrator.db";

// A folder with a log and its archives.
struct Site {
  Site() : folder(fs::temp_directory_path() / RandomId("kernelcast-archive-")) {
    fs::create_directory(folder);
  }
  ~Site() { fs::remove_all(folder); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  std::string log() const { return folder / kFile; }
  std::string archives() const { return folder / "archives"; }
  std::unique_ptr<SqliteEventStore> Open() const { return SqliteEventStore::Open(log()).value(); }
  ArchivedEvents Archive(int64_t before_ns) const {
    const auto store = Open();
    const auto archived = ArchiveSettled(*store, log(), before_ns, archives());
    INFO(archived.status().ToString());
    REQUIRE(archived.ok());
    return *archived;
  }
  std::vector<fs::path> ArchiveFiles() const {
    std::vector<fs::path> files;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(archives(), none)) {
      if (entry.path().extension() == ".partial") continue;
      files.push_back(entry.path() / "orchestrator" / kFile);
    }
    return files;
  }

  fs::path folder;
};

void Write(const EventHistory& history, SqliteEventStore& store) {
  State state;
  for (const StoredEvent& stored : history.events()) {
    const AppendEntry entry = EntryFor(stored.event, state);
    REQUIRE(state.Apply(stored).ok());
    REQUIRE(store.Append({&entry, 1}).ok());
  }
}

// The rows of a log by number: ids and payload.
std::map<uint64_t, std::string> Rows(const std::string& path) {
  sqlite::Database database;
  REQUIRE(database.Open(path, SQLITE_OPEN_READWRITE).ok());
  sqlite::Statement statement;
  REQUIRE(statement.Prepare(database, "SELECT sequence, request_id, search_id, payload FROM events")
              .ok());
  std::map<uint64_t, std::string> rows;
  REQUIRE(statement
              .ForEachRow([&] {
                rows[static_cast<uint64_t>(statement.Integer(0))] =
                    statement.Bytes(1) + "/" + statement.Bytes(2) + "/" + statement.Bytes(3);
                return absl::OkStatus();
              })
              .ok());
  return rows;
}

std::unique_ptr<State> StateOf(const std::string& path) {
  const auto store = SqliteEventStore::Open(path, {.read_only = true}).value();
  auto state = std::make_unique<State>();
  const absl::Status replayed =
      store->Replay(1, [&](const StoredEvent& stored) { return state->Apply(stored); });
  INFO(replayed.ToString());
  REQUIRE(replayed.ok());
  return state;
}

void Evaluate(EventHistory& history, const std::string& problem, const std::string& request_id,
              const std::string& search_id = "") {
  history.Accept(request_id, problem, "// " + request_id + "\n", search_id);
  history.Compile(request_id);
  history.Forecast(request_id, 1.5);
  history.Decide(request_id, DecisionReason::kPromising);
  history.Measure(request_id, 1.5);
}

// Old: the search s1 and the evaluation r1. Not old, or not over: s2 and r2; s3 and r3.
struct Logged {
  Logged() {
    problem = history.PutProblem();
    history.DescribeReference(problem);
    history.StartSearch(history.Spec(problem, GeneratorKind::kExternal), "s3");
    Evaluate(history, problem, "s3/1", "s3");
    history.StartSearch(history.Spec(problem, GeneratorKind::kExternal), "s1");
    history.Accept("r3", problem, "// r3\n");
    Evaluate(history, problem, "r1");
    Evaluate(history, problem, "s1/1", "s1");
    history.Add(LabelsObserved{{"r1", "s1/1"}});
    history.Add(LabelsObserved{{"s3/1"}});
    history.Add(SearchFinishing{"s1", "budget"});
    history.Add(SearchClosed{"s1", "", false, ""});
    before_ns = history.now_ns() + 1;
    history.StartSearch(history.Spec(problem, GeneratorKind::kExternal), "s2");
    Evaluate(history, problem, "s2/1", "s2");
    Evaluate(history, problem, "r2");
    history.Add(LabelsObserved{{"s2/1", "r2"}});
    history.Add(SearchFinishing{"s2", "budget"});
    history.Add(SearchClosed{"s2", "", false, ""});
    Write(history, *site.Open());
  }

  Site site;
  EventHistory history;
  std::string problem;
  int64_t before_ns = 0;
};

TEST_CASE("What was settled long ago moves to an archive, which is a log of its own",
          "[orchestrator][store]") {
  const Logged logged;
  const Site& site = logged.site;
  const std::map<uint64_t, std::string> all = Rows(site.log());
  const std::string search_before = logged.history.search("s1").end_reason;
  const ArchivedEvents archived = site.Archive(logged.before_ns);
  CHECK(archived.searches == 1);
  CHECK(archived.evaluations == 1);
  // s1: created, finishing, closed. Five of each evaluation.
  CHECK(archived.events == 13);
  REQUIRE(site.ArchiveFiles() ==
          std::vector<fs::path>{fs::path(archived.folder) / "orchestrator" / kFile});

  // Each event is in the log or in the archive, as it was.
  const std::map<uint64_t, std::string> left = Rows(site.log());
  std::map<uint64_t, std::string> both = Rows(site.ArchiveFiles().front());
  // Problem, reference and the acknowledgement are there, too.
  CHECK(both.size() == 16);
  CHECK(left.size() == all.size() - 14);
  both.insert(left.begin(), left.end());
  CHECK(both == all);

  const auto log = StateOf(site.log());
  CHECK(log->FindSearch("s1") == nullptr);
  CHECK(log->FindSearch("s2")->status == SearchStatus::kDone);
  CHECK(log->FindSearch("s3")->status == SearchStatus::kRunning);
  CHECK(log->FindEvaluation("r3") != nullptr);
  CHECK(log->FindProblem(logged.problem) != nullptr);
  CHECK(log->pending_labels().empty());
  CHECK_FALSE(log->MayHaveAccepted("r1"));
  CHECK(log->last_sequence() == logged.history.events().size());
  const auto store = site.Open();
  CHECK(store->ReadEvaluation("r1").value().empty());
  CHECK(store->ReadSearch("s1", 1, 100).value().empty());
  CHECK(FoldEvaluation(store->ReadEvaluation("r2").value()).has_value());

  const auto archive = StateOf(site.ArchiveFiles().front());
  CHECK(archive->FindSearch("s1")->status == SearchStatus::kDone);
  CHECK(archive->FindSearch("s1")->counts == logged.history.search("s1").counts);
  CHECK(archive->FindSearch("s2") == nullptr);
  CHECK(archive->FindReference(logged.problem, "cpu", EventHistory::kDevice) != nullptr);
  CHECK(archive->pending_labels().empty());
  const auto reader =
      SqliteEventStore::Open(site.ArchiveFiles().front(), {.read_only = true}).value();
  CHECK(FoldEvaluation(reader->ReadEvaluation("r1").value()).has_value());
  // No orchestrator continues it.
  CHECK(absl::IsDataLoss(SqliteEventStore::Open(site.ArchiveFiles().front()).status()));
}

TEST_CASE("A log continues after events have left it, and more leave later",
          "[orchestrator][store]") {
  Logged logged;
  const Site& site = logged.site;
  site.Archive(logged.before_ns);
  CHECK(site.Archive(logged.before_ns).folder.empty());
  CHECK(site.ArchiveFiles().size() == 1);
  {
    const auto store = site.Open();
    State state;
    REQUIRE(store->Replay(1, [&](const StoredEvent& stored) { return state.Apply(stored); }).ok());
    const Event event{logged.history.now_ns() + 1, LabelsObserved{{"nobody"}}};
    const AppendEntry entry = EntryFor(event, state);
    CHECK(store->Append({&entry, 1}).value() == logged.history.events().size() + 1);
  }
  // r2 and s2, which the newest event no longer belongs to.
  const ArchivedEvents second = site.Archive(logged.history.now_ns() + 1);
  CHECK(second.searches == 1);
  CHECK(second.evaluations == 1);
  const auto log = StateOf(site.log());
  CHECK(log->searches().size() == 1);
  CHECK(log->FindEvaluation("r3") != nullptr);
  CHECK(site.ArchiveFiles().size() == 2);
  // The newest event stays, because the mark names it.
  CHECK(log->last_sequence() == logged.history.events().size() + 1);
}

TEST_CASE("Evaluations with labels that no forecaster has stay in the log",
          "[orchestrator][store]") {
  const Site site;
  EventHistory history;
  const std::string problem = history.PutProblem();
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal));
  Evaluate(history, problem, "s1/1", "s1");
  Evaluate(history, problem, "r1");
  Evaluate(history, problem, "r2");
  history.Add(SearchFinishing{"s1", "budget"});
  history.Add(SearchClosed{"s1", "", false, ""});
  history.Add(LabelsObserved{{"r2"}});
  history.StartSearch(history.Spec(problem, GeneratorKind::kExternal), "s2");
  Write(history, *site.Open());
  CHECK(site.Archive(history.now_ns() + 1).evaluations == 1);
  const auto log = StateOf(site.log());
  CHECK(log->FindSearch("s1") != nullptr);
  CHECK(log->pending_labels().size() == 2);
}

TEST_CASE("Searches of one request on several device models leave together",
          "[orchestrator][store]") {
  const Site site;
  EventHistory history;
  const std::string problem = history.PutProblem();
  for (const char* id : {"s@a", "s@b", "t@a", "t@b"}) {
    history.StartSearch(history.Spec(problem, GeneratorKind::kExternal), id);
  }
  for (const char* id : {"s@a", "t@a", "t@b"}) {
    history.Add(SearchFinishing{id, "budget"});
    history.Add(SearchClosed{id, "", false, ""});
  }
  history.Accept("r", problem, "// r\n");
  Write(history, *site.Open());
  CHECK(site.Archive(history.now_ns() + 1).searches == 2);
  const auto log = StateOf(site.log());
  CHECK(log->FindSeveral("s").size() == 2);
  CHECK(log->FindSeveral("t").empty());
}

void Execute(const std::string& path, const std::string& sql) {
  sqlite::Database database;
  REQUIRE(database.Open(path).ok());
  REQUIRE(database.Execute(sql.c_str()).ok());
}

TEST_CASE("The loss of an event among those that have stayed is reported, or accepted",
          "[orchestrator][store]") {
  const Logged logged;
  const Site& site = logged.site;
  site.Archive(logged.before_ns);
  // r3 was accepted before the events that have left.
  Execute(site.log(), "DELETE FROM events WHERE request_id='r3'");
  {
    const auto store = site.Open();
    const absl::Status lost = store->Replay(1, [](const StoredEvent&) { return absl::OkStatus(); });
    CHECK(absl::IsDataLoss(lost));
    CHECK_THAT(std::string(lost.message()), Catch::Contains("events are missing"));
  }
  { REQUIRE(SqliteEventStore::Open(site.log(), {.accept_loss = true}).ok()); }
  CHECK(StateOf(site.log())->FindEvaluation("r3") == nullptr);
  // So is one after them.
  const uint64_t late = logged.history.events().size() - 1;
  Execute(site.log(), "DELETE FROM events WHERE sequence=" + std::to_string(late));
  CHECK(absl::IsDataLoss(
      site.Open()->Replay(1, [](const StoredEvent&) { return absl::OkStatus(); })));
  { REQUIRE(SqliteEventStore::Open(site.log(), {.accept_loss = true}).ok()); }
  CHECK(StateOf(site.log())->last_sequence() == late - 1);
}

TEST_CASE("A damaged event is reported, and the log stays as it is", "[orchestrator][store]") {
  const Logged logged;
  const Site& site = logged.site;
  Execute(site.log(), "UPDATE events SET payload=x'ffffffffffff' WHERE sequence=5");
  const std::map<uint64_t, std::string> before = Rows(site.log());
  {
    const auto store = site.Open();
    CHECK(absl::IsDataLoss(
        ArchiveSettled(*store, site.log(), logged.before_ns, site.archives()).status()));
  }
  CHECK(Rows(site.log()) == before);
  CHECK(site.ArchiveFiles().empty());
}

TEST_CASE("An archive that cannot be written leaves the log as it is", "[orchestrator][store]") {
  const Logged logged;
  const Site& site = logged.site;
  const std::map<uint64_t, std::string> before = Rows(site.log());
  {
    const auto store = site.Open();
    // A file stands where the folder must be.
    CHECK_FALSE(ArchiveSettled(*store, site.log(), logged.before_ns, site.log() + "/x").ok());
  }
  CHECK(Rows(site.log()) == before);
}

TEST_CASE("A process that is killed while it archives loses nothing", "[orchestrator][store]") {
  const auto any_in = [](const fs::path& folder, const std::string& part) {
    std::error_code none;
    for (const auto& entry : fs::recursive_directory_iterator(folder, none)) {
      if (entry.path().string().find(part) != std::string::npos) return true;
    }
    return false;
  };
  // What the parent sees when it kills the child.
  const std::vector<std::function<bool(const Site&)>> moments = {
      [&](const Site& site) { return any_in(site.archives(), ".partial"); },
      [&](const Site& site) { return any_in(site.archives(), "orchestrator.db"); },
      [&](const Site& site) { return any_in(site.archives(), "orchestrator.db-journal"); },
      [&](const Site& site) { return !site.ArchiveFiles().empty(); },
      [](const Site& site) {
        std::error_code none;
        return fs::file_size(site.log() + "-wal", none) > 0 && !none;
      }};
  for (size_t i = 0; i < moments.size(); ++i) {
    INFO("moment " << i);
    const Logged logged;
    const Site& site = logged.site;
    const std::map<uint64_t, std::string> all = Rows(site.log());
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto store = SqliteEventStore::Open(site.log());
      if (!store.ok()) _exit(1);
      const auto archived = ArchiveSettled(**store, site.log(), logged.before_ns, site.archives());
      _exit(archived.ok() ? 0 : 1);
    }
    int status = 0;
    pid_t ended = 0;
    while (!moments[i](site) && (ended = waitpid(child, &status, WNOHANG)) == 0) {
    }
    if (ended == 0) {
      kill(child, SIGKILL);
      REQUIRE(waitpid(child, &status, 0) == child);
    }
    CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));

    StateOf(site.log());
    std::map<uint64_t, std::string> both = Rows(site.log());
    for (const fs::path& file : site.ArchiveFiles()) {
      StateOf(file);
      both.merge(Rows(file));
    }
    CHECK(both == all);
    // The next start completes it.
    site.Archive(logged.before_ns);
    CHECK(StateOf(site.log())->FindSearch("s1") == nullptr);
    both = Rows(site.log());
    for (const fs::path& file : site.ArchiveFiles()) both.merge(Rows(file));
    CHECK(both == all);
    CHECK_FALSE(any_in(site.archives(), ".partial"));
  }
}

}  // namespace
}  // namespace kernelcast::orchestrator::archive_test
