// Tests the program with several orchestrators that share a log in a real PostgreSQL: searches that
// lose their orchestrator are followed to their end.

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/cli/rpc/search_watch.h"
#include "tests/e2e/program.h"
#include "tests/support/eventually.h"
#include "tests/support/postgresql.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

namespace fs = std::filesystem;
using cli::SearchWatch;
using nlohmann::json;
using orchestrator::PostgresqlConnection;

constexpr auto kTestLimit = std::chrono::seconds(120);
constexpr int kReplicas = 3;

void Require(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

// Three orchestrators, and a home with a problem whose records their worker has.
class Site {
 public:
  Site()
      : home("cli-replicas"),
        recorded(MakeRecordedProblem(16, 10)),
        problem(home.File("problems/" + recorded.problem.name)),
        worker_("kernelcast-worker",
                // A measurement takes ten milliseconds.
                {"--replay", Records(), "--replay-pace", "0.02", "--cache-dir", home.File("cache")},
                home),
        forecaster_("kernelcast-forecaster", {"--state-dir", home.File("forecaster")}, home) {
    for (const ProblemFile& file : recorded.files) {
      const fs::path path = fs::path(problem) / file.path;
      fs::create_directories(path.parent_path());
      std::ofstream(path, std::ios::binary) << file.content;
    }
    Require(database_.Start());
    Require(worker_.Start());
    Require(forecaster_.Start());
    for (int i = 0; i < kReplicas; ++i) {
      ServiceSite site;
      site.name = absl::StrCat("orchestrator-", i);
      replicas.push_back(std::make_unique<Service>(
          "kernelcast-orchestrator",
          std::vector<std::string>{"--store", database_.Uri(), "--store-shards", "6",
                                   "--lease-seconds", "2", "--worker", worker_.address(),
                                   "--forecaster", forecaster_.address(), "--confirm", "1",
                                   "--status", ""},
          home, site));
      Require(replicas.back()->Start());
    }
  }

  // All of them as one address.
  std::string Address() const {
    std::vector<std::string> addresses;
    for (const auto& replica : replicas) addresses.push_back(replica->address());
    return "ipv4:" + absl::StrJoin(addresses, ",");
  }

  // The replica that holds the shard of a search; -1 if none does at the moment.
  int HolderOf(const std::string& search_id) {
    auto connection = PostgresqlConnection::Open(database_.Options(), nullptr);
    Require(connection.status());
    auto rows = (*connection)
                    ->Execute(absl::StrCat(
                        "SELECT address FROM kernelcast_shards WHERE expires_at > now() AND shard ="
                        " (SELECT shard FROM kernelcast_events WHERE search_id = '",
                        search_id, "' LIMIT 1)"));
    Require(rows.status());
    for (int i = 0; i < kReplicas && rows->count() == 1; ++i) {
      if (replicas[static_cast<size_t>(i)]->address() == rows->Text(0, 0)) return i;
    }
    return -1;
  }

  // A search that measures the whole space one candidate at a time, so that it takes a while and
  // its result does not depend on chance.
  std::vector<std::string> Search(const std::string& id, const std::string& address) const {
    return {"search",
            problem,
            "--search-id",
            id,
            "--measure-everything",
            "--budget-measurements",
            "1000",
            "--in-flight",
            "1",
            "--json",
            "--orchestrator",
            address};
  }

  // All events of an ended search.
  std::vector<v1::SearchEvent> Events(const std::string& search_id) const {
    auto channel = MakeChannel(Address());
    Require(channel.status());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
    v1::WatchSearchRequest request;
    request.set_search_id(search_id);
    const auto stub = v1::Orchestrator::NewStub(*channel);
    const auto stream = stub->WatchSearch(&context, request);
    std::vector<v1::SearchEvent> events;
    for (v1::SearchEvent event; stream->Read(&event);) events.push_back(event);
    const grpc::Status status = stream->Finish();
    INFO(status.error_message());
    REQUIRE(status.ok());
    return events;
  }

  // Checks that the program reported an undisturbed search.
  void CheckUndisturbed(const Outcome& outcome) const {
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const json result = json::parse(outcome.out);
    CHECK(result["counts"]["measured"] == recorded.candidates.size());
    CHECK(result["best"]["confirmed"] == true);
    CHECK(result["best"]["speedup"]["value"].get<double>() ==
          Approx(recorded.best_speedup).epsilon(0.001));
  }

 private:
  std::string Records() const {
    WriteRecords(recorded, home.File("records.jsonl"));
    return home.File("records.jsonl");
  }

 public:
  const TemporaryFolder home;
  const RecordedProblem recorded;
  const std::string problem;  // its folder

 private:
  PostgresqlServer database_;
  Service worker_;
  Service forecaster_;

 public:
  std::vector<std::unique_ptr<Service>> replicas;
};

// The events of a watch so far.
class Watched {
 public:
  explicit Watched(SearchWatch& watch) : watch_(watch) {}

  // Reads what is available.
  void Look() { Take(watch_.Next(absl::Milliseconds(100))); }
  // Waits until this many candidates are settled.
  bool AwaitSettled(int count) {
    return Eventually([&] {
      Look();
      return settled_ >= count;
    });
  }
  absl::Status AwaitEnd() {
    REQUIRE(Eventually([&] {
      Look();
      return ended_.has_value();
    }));
    return *ended_;
  }
  const std::vector<v1::SearchEvent>& events() const { return events_; }
  int settled() const { return settled_; }
  // Number of lost connections.
  int troubles() const { return troubles_; }

 private:
  void Take(const SearchWatch::Update& update) {
    for (const v1::SearchEvent& event : update.events) {
      settled_ += event.has_settled() ? 1 : 0;
      events_.push_back(event);
    }
    const bool trouble = !update.trouble.empty();
    troubles_ += trouble && !trouble_ ? 1 : 0;
    trouble_ = trouble;
    ended_ = update.ended;
  }

  SearchWatch& watch_;
  std::vector<v1::SearchEvent> events_;
  int settled_ = 0;
  bool trouble_ = false;
  int troubles_ = 0;
  std::optional<absl::Status> ended_;
};

TEST_CASE("A search survives the death of its orchestrators and shows each event once", "[e2e]") {
  if (PostgresqlServer::Missing()) return;
  Site site;
  const std::string id = "s_moved";
  Program program(site.home, site.Search(id, site.Address()));
  REQUIRE(program.AwaitErr("search " + id));
  SearchWatch watch(id, [&] { return MakeChannel(site.Address()); });
  Watched watched(watch);
  // It is killed at each orchestrator it moves to.
  for (const int settled : {20, 60, 100}) {
    REQUIRE(watched.AwaitSettled(settled));
    int holder = -1;
    REQUIRE(Eventually([&] { return (holder = site.HolderOf(id)) >= 0; }));
    Service& victim = *site.replicas[static_cast<size_t>(holder)];
    victim.Kill();
    REQUIRE(Eventually([&] {
      watched.Look();
      const int next = site.HolderOf(id);
      return next >= 0 && next != holder;
    }));
    Require(victim.Start());
  }
  const absl::Status ended = watched.AwaitEnd();
  INFO(ended.ToString());
  CHECK(ended.ok());
  CHECK(watched.troubles() > 0);

  const Outcome outcome = program.Wait(150);
  site.CheckUndisturbed(outcome);
  CHECK_THAT(outcome.err, Catch::Contains("connection lost: "));
  const size_t all = site.recorded.candidates.size();
  CHECK_THAT(outcome.err, Catch::Contains(absl::StrCat("considered ", all, ", measured ", all)));

  const std::vector<v1::SearchEvent> events = site.Events(id);
  CHECK(watched.settled() == static_cast<int>(all) + 1);  // its best is settled twice
  REQUIRE(watched.events().size() == events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    INFO(events[i].ShortDebugString());
    const v1::SearchEvent& seen = watched.events()[i];
    CHECK(seen.sequence() == events[i].sequence());
    CHECK(seen.event_case() == events[i].event_case());
    CHECK(seen.ShortDebugString() == events[i].ShortDebugString());
  }
}

TEST_CASE("A search is watched through one orchestrator while others drain", "[e2e]") {
  if (PostgresqlServer::Missing()) return;
  Site site;
  const std::string id = "s_handed_over";
  const Program start(site.home, site.Search(id, site.Address()));
  REQUIRE(Eventually([&] { return site.HolderOf(id) >= 0; }));
  const int holder = site.HolderOf(id);
  const int other = (holder + 1) % kReplicas;
  const std::string by = site.replicas[static_cast<size_t>(other)]->address();
  Program program(site.home, {"watch", id, "--json", "--orchestrator", by});
  REQUIRE(program.AwaitErr("considered "));
  CHECK(site.replicas[static_cast<size_t>(holder)]->Terminate() == 0);
  CHECK(site.replicas[static_cast<size_t>((holder + 2) % kReplicas)]->Terminate() == 0);
  CHECK(Eventually([&] { return site.HolderOf(id) == other; }));
  site.CheckUndisturbed(program.Wait(150));
}

}  // namespace
}  // namespace kernelcast::testing
