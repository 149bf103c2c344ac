// Crashes searches at random points and continues them. Measurements and answers of models are
// replayed, and forecasts are functions of the candidate and the number of labels. So an
// uninterrupted search always takes the same course, and a continued one must take it too.
//
// Compared is the log, event by event, in order: proposals, compilations, forecasts, decisions with
// all their figures, rankings, requests for kernels, settlements, reasons of ends, and results.
// Left out are the time stamps, and LabelsObserved: after a crash labels are delivered again, in
// other groups.
//
// A crash keeps whole appends, as stores do. Half of the crashes copy the beginning of a recorded
// log and continue the copy. The others stop a live engine once or twice, by failing its appends,
// and open its store again. A search whose crash is live with one store is copied with the other,
// and the next round over the searches swaps them.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "services/orchestrator/core/append_entry.h"
#include "services/orchestrator/store/postgresql_event_store.h"
#include "services/orchestrator/store/postgresql_leases.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/integration/orchestrator/crash_points_world.h"
#include "tests/support/postgresql.h"
#include "tests/support/services.h"

namespace kernelcast::orchestrator::crash_points_test {
namespace {

using kernelcast::testing::PostgresqlServer;
using kernelcast::testing::TemporaryFolder;
using testing::OpenStore;
using testing::Outcome;
using testing::Run;
using testing::Scenario;

// In each store.
constexpr size_t kPoints = 30;
constexpr size_t kManyPoints = 250;

std::vector<Scenario> Scenarios() {
  std::vector<Scenario> scenarios;
  const std::vector<std::string> policies = {"threshold", "top_k", "risk"};
  for (const GeneratorKind kind :
       {GeneratorKind::kTemplate, GeneratorKind::kLlm, GeneratorKind::kExternal}) {
    for (uint32_t i = 0; i < 4; ++i) {
      Scenario& scenario = scenarios.emplace_back();
      scenario.kind = kind;
      scenario.seed = 10 * static_cast<uint64_t>(kind) + i;
      scenario.policy = policies[i % policies.size()];
      scenario.max_in_flight = i == 1 ? 1 : 0;
      scenario.slots = i == 2 ? 2 : 1;
    }
  }
  uint64_t seed = 100;
  for (const StrategyKind& kind : StrategyKinds()) {
    if (kind.name == kDefaultStrategy) continue;
    for (const GeneratorKind generator : {GeneratorKind::kTemplate, GeneratorKind::kLlm}) {
      Scenario& scenario = scenarios.emplace_back();
      scenario.kind = generator;
      scenario.seed = ++seed;
      scenario.strategy = kind.name;
    }
  }
  return scenarios;
}

// Logs of one kind of store.
class Logs {
 public:
  virtual ~Logs() = default;
  // An empty log, which can be opened again after its store is destroyed.
  virtual OpenStore NewLog() = 0;
  // Whether the crash of the first search is live.
  virtual bool StartsLive() const = 0;
};

class SqliteLogs final : public Logs {
 public:
  OpenStore NewLog() override {
    return [path = folder_.File(absl::StrCat("log-", ++logs_))]() -> std::unique_ptr<EventStore> {
      auto store = SqliteEventStore::Open(path);
      INFO(store.status().ToString());
      REQUIRE(store.ok());
      return *std::move(store);
    };
  }
  bool StartsLive() const override { return false; }

 private:
  TemporaryFolder folder_{"crash-points"};
  int logs_ = 0;
};

// Each log is a shard. A crashed orchestrator's shard is released and taken again.
class PostgresqlLogs final : public Logs {
 public:
  PostgresqlLogs() { REQUIRE(server_.Start().ok()); }

  OpenStore NewLog() override {
    constexpr int kShards = 100;
    if (next_shard_ % kShards == 0) {
      options_ = server_.Options(server_.NewDatabase());
      auto leases = PostgresqlLeases::Open(options_, "me", kShards, nullptr);
      REQUIRE(leases.ok());
      leases_ = *std::move(leases);
    }
    const int shard = next_shard_++ % kShards;
    return [options = options_, leases = leases_, shard]() -> std::unique_ptr<EventStore> {
      REQUIRE(leases->Release(shard).ok());
      const auto writer = leases->Acquire(shard, "here:1", absl::Minutes(10));
      REQUIRE(writer.ok());
      REQUIRE(writer->has_value());
      auto store = PostgresqlEventStore::Open(options, shard, **writer);
      INFO(store.status().ToString());
      REQUIRE(store.ok());
      return *std::move(store);
    };
  }
  bool StartsLive() const override { return true; }

 private:
  PostgresqlServer server_;
  PostgresqlOptions options_;
  std::shared_ptr<PostgresqlLeases> leases_;  // also of logs that are still in use
  int next_shard_ = 0;
};

// Copies the events of a log up to a sequence number.
void CopyBeginning(const OpenStore& from, uint64_t last, const OpenStore& to) {
  const auto source = from();
  const auto copy = to();
  State state;
  std::vector<Event> events;
  std::vector<AppendEntry> entries;
  REQUIRE(source
              ->Replay(1,
                       [&](StoredEvent stored) {
                         if (stored.sequence > last) return absl::OkStatus();
                         entries.push_back(EntryFor(stored.event, state));
                         REQUIRE(state.Apply(stored).ok());
                         events.push_back(std::move(stored.event));
                         return absl::OkStatus();
                       })
              .ok());
  if (events.empty()) return;
  for (size_t i = 0; i < events.size(); ++i) entries[i].event = &events[i];
  REQUIRE(copy->Append(entries).ok());
}

void CheckSame(const Outcome& continued, const Outcome& uninterrupted) {
  const std::vector<std::string>& got = continued.decisions;
  const std::vector<std::string>& want = uninterrupted.decisions;
  const auto [difference, expected] =
      std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  const auto at = difference - got.begin();
  CAPTURE(at, got.size(), want.size());
  CAPTURE(difference == got.end() ? "the end" : *difference);
  CAPTURE(expected == want.end() ? "the end" : *expected);
  CHECK(difference == got.end());
  CHECK(expected == want.end());
}

// Crashes one search and continues it to its end.
Outcome CrashAndContinue(Logs& logs, const Scenario& scenario, const OpenStore& recorded,
                         const Outcome& uninterrupted, bool live, std::mt19937& random) {
  const OpenStore log = logs.NewLog();
  const std::vector<uint64_t>& boundaries = uninterrupted.boundaries;
  const auto any = [&] {
    return std::uniform_int_distribution<size_t>(0, boundaries.size() - 1)(random);
  };
  if (!live) {
    CopyBeginning(recorded, boundaries[any()], log);
    return Run(scenario, log);
  }
  const int crashes = 1 + static_cast<int>(random() % 2);
  for (int crash = 0; crash < crashes; ++crash) Run(scenario, log, any());
  return Run(scenario, log);
}

void CheckCrashPoints(Logs& logs, size_t points) {
  SetLogLevel(LogLevel::kError);
  const std::vector<Scenario> scenarios = Scenarios();
  std::vector<OpenStore> recorded;
  std::vector<Outcome> uninterrupted;
  std::map<std::string, int> kinds;
  for (const Scenario& scenario : scenarios) {
    CAPTURE(scenario.seed);
    recorded.push_back(logs.NewLog());
    uninterrupted.push_back(Run(scenario, recorded.back()));
    CHECK_FALSE(uninterrupted.back().crashed);
    CheckSame(Run(scenario, logs.NewLog()), uninterrupted.back());
    for (const std::string& decision : uninterrupted.back().decisions) {
      ++kinds[decision.substr(0, decision.find(' '))];
    }
  }
  // The searches contain what a restart could change.
  for (const char* kind : {"ranked", "repeated", "kernel", "answer", "accepted", "closed"}) {
    CAPTURE(kind);
    CHECK(kinds[kind] >= 4);
  }
  std::mt19937 random(20);
  std::map<GeneratorKind, size_t> live_crashes;
  for (size_t point = 0; point < points; ++point) {
    const size_t which = point % scenarios.size();
    const size_t round = point / scenarios.size();
    // Pairs of searches alternate too, because the generators of the last ones alternate.
    const bool live = (which + which / 2 + round) % 2 == (logs.StartsLive() ? 0 : 1);
    if (live) ++live_crashes[scenarios[which].kind];
    CAPTURE(point, scenarios[which].seed, live);
    CheckSame(CrashAndContinue(logs, scenarios[which], recorded[which], uninterrupted[which], live,
                               random),
              uninterrupted[which]);
  }
  for (const GeneratorKind kind :
       {GeneratorKind::kTemplate, GeneratorKind::kLlm, GeneratorKind::kExternal}) {
    CAPTURE(static_cast<int>(kind));
    CHECK(live_crashes[kind] >= 2 * (points / scenarios.size()));
  }
}

TEST_CASE("A search continued after a crash decides as without it, with SQLite") {
  SqliteLogs logs;
  CheckCrashPoints(logs, kPoints);
}

TEST_CASE("A search continued after a crash decides as without it, with PostgreSQL", "[slow]") {
  if (PostgresqlServer::Missing()) return;
  PostgresqlLogs logs;
  CheckCrashPoints(logs, kPoints);
}

TEST_CASE("Searches continued after many crashes decide as without them, with SQLite", "[long]") {
  SqliteLogs logs;
  CheckCrashPoints(logs, kManyPoints);
}

TEST_CASE("Searches continued after many crashes decide as without them, with PostgreSQL",
          "[long]") {
  if (PostgresqlServer::Missing()) return;
  PostgresqlLogs logs;
  CheckCrashPoints(logs, kManyPoints);
}

}  // namespace
}  // namespace kernelcast::orchestrator::crash_points_test
