// Kills, partitions, stops, drains and moves real processes on a private network while searches
// run, and checks that nothing accepted is lost, nothing is settled twice, replies to clients match
// the log, and every search ends with the same kernel as without disturbance.
//
// Environment:
//
//   KERNELCAST_CHAOS_SECONDS  duration of the disturbance; default 45, 20 with one log file
//
//   KERNELCAST_CHAOS_SEED     seed of the schedule; default from the clock
//
//   KERNELCAST_CHAOS_KEEP     a folder in which the logs are kept

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/convert/convert.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/convert/convert.h"
#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/postgresql_event_store.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/support/postgresql.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"
#include "tests/support/test_network.h"

namespace kernelcast {
namespace {

using orchestrator::EvaluationAccepted;
using orchestrator::EvaluationSettled;
using orchestrator::EventStore;
using orchestrator::PostgresqlEventStore;
using orchestrator::Rejection;
using orchestrator::SearchClosed;
using orchestrator::SearchCreated;
using orchestrator::SqliteEventStore;
using orchestrator::State;
using orchestrator::StoredEvent;
using testing::PostgresqlServer;
using testing::RecordedProblem;
using testing::Service;
using testing::TestNetwork;

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kCallLimit = seconds(10);
constexpr auto kSettleLimit = seconds(180);
constexpr int kPort = 50051;
constexpr int kForecasters = 3;
constexpr int kReplayWorkers = 4;
constexpr int kWorkers = 6;
constexpr int kSeats = 5;
constexpr size_t kDisturbedAtOnce = 3;
// With several orchestrators.
constexpr int kShards = 6;
constexpr int kLeaseMs = 2000;
// The target of replayed records; real measurements use the target cpu.
constexpr const char* kTarget = "recorded";

std::string FromEnvironment(const char* name, const std::string& otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

void Require(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}
template <class T>
T Require(absl::StatusOr<T> result) {
  Require(result.status());
  return *std::move(result);
}

// Errors of any thread, reported by the test's own thread.
class Complaints {
 public:
  void Add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (texts_.size() < 50) texts_.push_back(text);
  }
  std::vector<std::string> Get() const {
    const std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Serializes deterministically, including maps.
std::string BytesOf(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// Replies to clients from any thread: all of them must be in the final log.
class Answers {
 public:
  void Evaluated(const std::string& request_id, const v1::Evaluation& evaluation) {
    const std::lock_guard lock(mutex_);
    evaluations_[request_id] = BytesOf(evaluation);
  }
  void Watched(const std::string& search_id, std::map<uint64_t, std::string> settled) {
    const std::lock_guard lock(mutex_);
    watched_[search_id] = std::move(settled);
  }
  // By request id, as bytes.
  std::map<std::string, std::string> evaluations() const {
    const std::lock_guard lock(mutex_);
    return evaluations_;
  }
  // The settlements of each search that was watched to its end, by sequence number, as bytes.
  std::map<std::string, std::map<uint64_t, std::string>> watched() const {
    const std::lock_guard lock(mutex_);
    return watched_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> evaluations_;
  std::map<std::string, std::map<uint64_t, std::string>> watched_;
};

// Processes that can be disturbed.
struct Member {
  enum class Kind { kForecaster, kWorker, kOrchestrator, kDatabase };
  enum class State { kWell, kDead, kStopped, kCut, kUnlisted };
  Kind kind;
  int number;  // in the network
  std::string name;
  std::unique_ptr<Service> service;  // null for the database, which the cluster owns
  State state = State::kWell;
  SteadyClock::time_point heals_at;
};

class Cluster {
 public:
  // Several orchestrators share a log in a database; a single one uses a file.
  Cluster(TestNetwork& network, int orchestrators)
      : network_(network), folder_("network"), logs_(FromEnvironment("KERNELCAST_CHAOS_KEEP", "")) {
    logs_ = logs_.empty() ? folder_.File("logs") : absl::StrCat(logs_, "/", orchestrators);
    std::filesystem::create_directories(logs_);
    std::ofstream records(folder_.File("records.jsonl"));
    // Spaces with a unique best point.
    for (const auto& [blocks, unrolls] : {std::pair{12, 8}, {16, 10}, {10, 10}}) {
      problems_.push_back(testing::MakeRecordedProblem(blocks, unrolls, kTarget));
      testing::WriteRecords(problems_.back(), folder_.File("one.jsonl"));
      records << std::ifstream(folder_.File("one.jsonl")).rdbuf();
    }
    records.close();
    StartForecasters();
    StartWorkers();
    if (orchestrators > 1) StartDatabase();
    StartOrchestrators(orchestrators);
    // Calls go to any of them.
    channel_ = Require(MakeChannel("ipv4:" + absl::StrJoin(orchestrators_, ",")));
    // Wait until every replica has an equal share.
    if (database_ != nullptr) REQUIRE(SharesBecomeEqual());
  }

  const std::vector<RecordedProblem>& problems() const { return problems_; }
  std::vector<Member>& members() { return members_; }
  TestNetwork& network() { return network_; }
  const std::string& logs() const { return logs_; }
  std::unique_ptr<v1::Orchestrator::Stub> Stub() const {
    return v1::Orchestrator::NewStub(channel_);
  }
  const std::vector<std::string>& forecasters() const { return forecasters_; }
  const std::vector<std::string>& orchestrators() const { return orchestrators_; }
  // Null: the log is in a file.
  PostgresqlServer* database() { return database_.get(); }

  // Call when nothing is disturbed.
  bool SharesBecomeEqual() {
    const std::string sql = absl::StrCat(
        "SELECT count(*) FROM (SELECT address FROM kernelcast_shards WHERE expires_at > now()"
        " GROUP BY address HAVING count(*) = ",
        kShards / orchestrators_.size(), ") AS equal");
    const auto limit = SteadyClock::now() + kSettleLimit;
    while (Require(database_->Number(sql)) != static_cast<int64_t>(orchestrators_.size())) {
      if (SteadyClock::now() > limit) return false;
      std::this_thread::sleep_for(milliseconds(10));
    }
    return true;
  }

  // The final log: one store per shard.
  std::vector<std::unique_ptr<EventStore>> Log() {
    std::vector<std::unique_ptr<EventStore>> stores;
    if (database_ == nullptr) {
      stores.push_back(
          Require(SqliteEventStore::Open(folder_.File("orchestrator-0") + "/orchestrator.db")));
      return stores;
    }
    for (int shard = 0; shard < kShards; ++shard) {
      // A stopping replica has released it.
      stores.push_back(Require(PostgresqlEventStore::Open(database_->Options(), shard, "")));
    }
    return stores;
  }

  // Writes the workers' name to the hosts file.
  void WriteRecords() {
    std::string hosts = "127.0.0.1 localhost\n";
    for (const Member& member : members_) {
      if (member.kind == Member::Kind::kWorker && member.state != Member::State::kUnlisted) {
        absl::StrAppend(&hosts, network_.address(member.number), " workers.test\n");
      }
    }
    // Written in place, because the file is mounted.
    const int fd = open(folder_.File("hosts").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    const bool written =
        fd >= 0 &&
        pwrite(fd, hosts.data(), hosts.size(), 0) == static_cast<ssize_t>(hosts.size()) &&
        ftruncate(fd, static_cast<off_t>(hosts.size())) == 0;
    close(fd);
    REQUIRE(written);
  }

 private:
  Member& Add(Member::Kind kind, const std::string& name, const std::string& program,
              const std::vector<std::string>& arguments, const std::string& hosts = "") {
    const int number = Require(network_.AddMember());
    testing::ServiceSite site;
    site.name = name;
    site.host = network_.address(number);
    site.port = kPort;
    site.launcher = network_.Launcher(number, logs_ + "/" + name + ".log", hosts);
    Member member{kind,
                  number,
                  name,
                  std::make_unique<Service>(program, arguments, folder_, std::move(site)),
                  Member::State::kWell,
                  {}};
    members_.push_back(std::move(member));
    return members_.back();
  }

  void StartForecasters() {
    for (int i = 0; i < kForecasters; ++i) {
      const std::string name = absl::StrCat("forecaster-", i);
      Member& member = Add(Member::Kind::kForecaster, name, "kernelcast-forecaster",
                           {"--state-dir", folder_.File(name), "--drain-seconds", "5"});
      Require(member.service->Start());
      forecasters_.push_back(member.service->address());
    }
  }
  void StartWorkers() {
    for (int i = 0; i < kWorkers; ++i) {
      const std::string name = absl::StrCat("worker-", i);
      std::vector<std::string> arguments = {"--cache-dir",       folder_.File(name),
                                            "--lease-file",      folder_.File("lease"),
                                            "--compile-jobs",    "1",
                                            "--compile-credits", "8",
                                            "--measure-credits", absl::StrCat(2 + i),
                                            "--drain-seconds",   "5"};
      if (i < kReplayWorkers) {
        // A measurement takes ten milliseconds.
        arguments.insert(arguments.end(),
                         {"--replay", folder_.File("records.jsonl"), "--replay-pace", "0.02"});
      }
      Require(Add(Member::Kind::kWorker, name, "kernelcast-worker", arguments).service->Start());
    }
    WriteRecords();
  }
  void StartDatabase() {
    Member member{Member::Kind::kDatabase,
                  Require(network_.AddMember()),
                  "database",
                  nullptr,
                  Member::State::kWell,
                  {}};
    testing::PostgresqlSite site;
    site.host = network_.address(member.number);
    site.launcher = network_.Launcher(member.number, logs_ + "/database.log");
    database_ = std::make_unique<PostgresqlServer>(std::move(site));
    Require(database_->Start());
    members_.push_back(std::move(member));
  }
  void StartOrchestrators(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string name = absl::StrCat("orchestrator-", i);
      std::vector<std::string> arguments = {"--worker",
                                            absl::StrCat("dns:///workers.test:", kPort),
                                            "--discovery-interval-seconds",
                                            "1",
                                            "--confirm",
                                            "2",
                                            "--drain-seconds",
                                            "5"};
      for (const std::string& address : forecasters_) {
        arguments.insert(arguments.end(), {"--forecaster", address});
      }
      if (database_ == nullptr) {
        arguments.insert(arguments.end(), {"--state-dir", folder_.File(name)});
      } else {
        arguments.insert(arguments.end(),
                         {"--store", database_->NetworkUri(), "--store-shards",
                          absl::StrCat(kShards), "--lease-seconds", absl::StrCat(kLeaseMs / 1000)});
      }
      Member& member = Add(Member::Kind::kOrchestrator, name, "kernelcast-orchestrator", arguments,
                           folder_.File("hosts"));
      Require(member.service->Start());
      orchestrators_.push_back(member.service->address());
    }
  }

  TestNetwork& network_;
  testing::TemporaryFolder folder_;
  std::string logs_;
  std::vector<RecordedProblem> problems_;
  std::unique_ptr<PostgresqlServer> database_;
  std::vector<Member> members_;
  std::vector<std::string> forecasters_;
  std::vector<std::string> orchestrators_;
  std::shared_ptr<grpc::Channel> channel_;
};

// The test has failed, so nothing waits any longer.
std::atomic<bool> abandoned = false;

// Retries with the same ids until any service answers; an unavailable service does not count.
template <class Call>
grpc::Status Insist(SteadyClock::time_point limit, const Call& call) {
  grpc::Status status;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
    context.set_wait_for_ready(true);
    status = call(context);
  } while (!status.ok() &&
           (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
            status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
            status.error_code() == grpc::StatusCode::CANCELLED ||
            status.error_code() == grpc::StatusCode::UNKNOWN) &&
           SteadyClock::now() < limit && !abandoned);
  return status;
}

// Threads that are joined at the latest when the test fails.
class Clients {
 public:
  ~Clients() {
    if (threads_.empty()) return;
    abandoned = true;
    Join();
  }
  template <class Work>
  void Add(Work work) {
    threads_.emplace_back(std::move(work));
  }
  // Lets each thread finish its current work.
  void Join() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  const std::atomic<bool>& stop() const { return stop_; }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// Runs searches with a known best: each measures everything it proposes, because it has no
// forecasts or because its policy promotes every candidate.
class Searches {
 public:
  Searches(Cluster& cluster, Complaints& complaints, Answers& answers)
      : cluster_(cluster), complaints_(complaints), answers_(answers) {}

  static bool Forecasts(int seat) { return seat >= 3; }

  // Runs a search to its end, within `limit`. Returns the candidate that it ended with.
  std::string Run(int seat, const std::string& search_id, uint64_t seed,
                  SteadyClock::time_point limit) {
    const auto stub = cluster_.Stub();
    const RecordedProblem& recorded = ProblemOf(seat);
    v1::StartSearchRequest start;
    start.set_search_id(search_id);
    v1::SearchSpec* const spec = start.mutable_spec();
    spec->set_problem_id(recorded.problem.problem_id);
    spec->set_target(kTarget);
    spec->set_generator(v1::GENERATOR_TEMPLATE);
    spec->mutable_budget()->set_max_measurements(10 * recorded.candidates.size());
    spec->set_seed(seed);
    if (Forecasts(seat)) {
      spec->set_policy("threshold");
      (*spec->mutable_policy_parameters())["promote_above"] = 0;
      (*spec->mutable_policy_parameters())["prune_below"] = 0;
      (*spec->mutable_policy_parameters())["stop_below"] = 0;
      (*spec->mutable_policy_parameters())["fail_above"] = 1;
    } else {
      spec->set_measure_everything(true);
    }
    const grpc::Status started = Insist(limit, [&](grpc::ClientContext& context) {
      v1::StartSearchReply reply;
      return stub->StartSearch(&context, start, &reply);
    });
    if (!started.ok()) return Complain(search_id, "cannot be started: " + started.error_message());

    // Watching waits for the end.
    const grpc::Status watched = Watch(search_id, limit);
    if (!watched.ok()) {
      return Complain(search_id, "has not ended: " + watched.error_message());
    }
    v1::GetSearchReply got;
    const grpc::Status found = Insist(limit, [&](grpc::ClientContext& context) {
      v1::GetSearchRequest request;
      request.set_search_id(search_id);
      return stub->GetSearch(&context, request, &got);
    });
    if (!found.ok()) return Complain(search_id, "is not found: " + found.error_message());
    const v1::Search& search = got.searches(0);
    if (search.status() != v1::SEARCH_STATUS_DONE || !search.has_confirmed_best()) {
      return Complain(search_id, "ended without a best: " + search.ShortDebugString());
    }
    return search.confirmed_best().candidate().candidate_id();
  }

  const RecordedProblem& ProblemOf(int seat) const {
    return cluster_.problems()[static_cast<size_t>(seat) % cluster_.problems().size()];
  }

 private:
  std::string Complain(const std::string& search_id, const std::string& text) {
    complaints_.Add(absl::StrCat(search_id, " ", text));
    return "";
  }

  // Follows a search to its end and resumes a broken stream after the last event.
  grpc::Status Watch(const std::string& search_id, SteadyClock::time_point limit) {
    const auto stub = cluster_.Stub();
    uint64_t last = 0;
    std::set<int> kinds;  // of the events with that number
    std::map<uint64_t, std::string> settled;
    bool ended = false;
    grpc::Status status = Insist(limit, [&](grpc::ClientContext& context) {
      v1::WatchSearchRequest watch;
      watch.set_search_id(search_id);
      watch.set_from_sequence(last);
      const auto stream = stub->WatchSearch(&context, watch);
      std::set<std::pair<uint64_t, int>> streamed;
      uint64_t newest = last;
      for (v1::SearchEvent event; stream->Read(&event);) {
        const uint64_t sequence = event.sequence();
        const int kind = event.event_case();
        if (sequence < newest) Complain(search_id, "has events out of order");
        newest = sequence;
        if (!streamed.emplace(sequence, kind).second) Complain(search_id, "has an event twice");
        if (sequence == last && kinds.contains(kind)) continue;  // as requested
        if (sequence != last) kinds.clear();
        last = sequence;
        kinds.insert(kind);
        if (event.has_settled()) settled[sequence] = BytesOf(event.settled());
        ended = ended || event.has_ended();
      }
      return stream->Finish();
    });
    if (!status.ok()) return status;
    if (!ended) return {grpc::StatusCode::UNKNOWN, "no event says so"};
    answers_.Watched(search_id, std::move(settled));
    return status;
  }

  Cluster& cluster_;
  Complaints& complaints_;
  Answers& answers_;
};

// A framework next to the searches: evaluates candidates one by one, each twice under the same id,
// which must give the same result.
void EvaluateUntil(const std::atomic<bool>& stop, Cluster& cluster, Complaints& complaints,
                   Answers& answers, const std::string& prefix, v1::EvaluateMode mode,
                   const std::function<Candidate(int)>& candidate, std::atomic<int>& evaluated) {
  const auto stub = cluster.Stub();
  for (int i = 0; !stop; ++i) {
    v1::EvaluateRequest request;
    request.set_request_id(absl::StrCat(prefix, "/", i));
    request.set_mode(mode);
    *request.mutable_candidate() = ToProto(candidate(i));
    v1::EvaluateReply replies[2];
    for (v1::EvaluateReply& reply : replies) {
      const grpc::Status status = Insist(
          SteadyClock::now() + kSettleLimit,
          [&](grpc::ClientContext& context) { return stub->Evaluate(&context, request, &reply); });
      if (!status.ok()) {
        complaints.Add(absl::StrCat(request.request_id(), ": ", status.error_message()));
      } else {
        answers.Evaluated(request.request_id(), reply.evaluation());
      }
    }
    if (BytesOf(replies[0].evaluation()) != BytesOf(replies[1].evaluation())) {
      complaints.Add(absl::StrCat(request.request_id(), " was answered in two ways"));
    }
    const v1::Evaluation& evaluation = replies[0].evaluation();
    if (evaluation.has_rejected() ||
        (mode == v1::EVALUATE_MODE_MEASURE && !evaluation.has_measured())) {
      complaints.Add(absl::StrCat(request.request_id(), ": ", evaluation.ShortDebugString()));
    }
    ++evaluated;
  }
}

// Disturbs one member after the other by a schedule drawn from a seed, and undoes it.
class Disturbance {
 public:
  Disturbance(Cluster& cluster, uint64_t seed) : cluster_(cluster), random_(seed) {}

  void RunUntil(SteadyClock::time_point end) {
    while (SteadyClock::now() < end) {
      HealDue(SteadyClock::now());
      Begin();
      std::this_thread::sleep_until(
          std::min(end, SteadyClock::now() + milliseconds(Draw(100, 900))));
    }
    while (!HealDue(SteadyClock::time_point::max())) {
    }
  }

  std::string Figures() const {
    std::vector<std::string> parts;
    for (const auto& [what, times] : counts_) parts.push_back(absl::StrCat(times, " ", what));
    return absl::StrJoin(parts, ", ");
  }

 private:
  int Draw(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }

  void Begin() {
    std::vector<Member*> well;
    for (Member& member : cluster_.members()) {
      if (member.state == Member::State::kWell) well.push_back(&member);
    }
    if (cluster_.members().size() - well.size() >= kDisturbedAtOnce) return;
    Member& member = *well[static_cast<size_t>(Draw(0, static_cast<int>(well.size()) - 1))];
    const int what = Draw(0, 99);
    // Mostly short; sometimes longer than the tolerated silence.
    int milliseconds_away = Draw(0, 1) == 0 ? Draw(0, 500)
                            : member.kind == Member::Kind::kOrchestrator
                                ? Draw(kLeaseMs, 3 * kLeaseMs)
                                : Draw(500, 4000);
    const bool for_long = Draw(0, 14) == 0;
    if (what < 30) {
      Count("kills", member);
      if (member.service != nullptr) {
        member.service->Kill();
      } else {
        cluster_.database()->Crash();
      }
      member.state = Member::State::kDead;
    } else if (what < 50) {
      Count("drains", member);
      INFO(member.name << " drained");
      if (member.service != nullptr) {
        CHECK(member.service->Terminate() == 0);
      } else {
        cluster_.database()->Stop();
      }
      member.state = Member::State::kDead;
    } else if (what < 72 || member.kind == Member::Kind::kDatabase) {
      if (for_long && member.kind != Member::Kind::kDatabase)
        milliseconds_away = Draw(15000, 22000);
      Count("cuts", member, milliseconds_away);
      Require(cluster_.network().Cut(member.number));
      member.state = Member::State::kCut;
    } else if (what < 90 || member.kind != Member::Kind::kWorker) {
      if (for_long) milliseconds_away = Draw(15000, 22000);
      Count("stops", member, milliseconds_away);
      member.service->Signal(SIGSTOP);
      member.state = Member::State::kStopped;
    } else {
      Count("leaves of the name", member);
      member.state = Member::State::kUnlisted;
      cluster_.WriteRecords();
    }
    member.heals_at = SteadyClock::now() + milliseconds(milliseconds_away);
  }

  // Returns whether all members are healthy.
  bool HealDue(SteadyClock::time_point now) {
    bool well = true;
    for (Member& member : cluster_.members()) {
      if (member.state != Member::State::kWell && member.heals_at <= now) Heal(member);
      well = well && member.state == Member::State::kWell;
    }
    return well;
  }

  void Heal(Member& member) {
    const Member::State was = std::exchange(member.state, Member::State::kWell);
    INFO(member.name);
    switch (was) {
      case Member::State::kDead: StartAgain(member); break;
      case Member::State::kStopped: member.service->Signal(SIGCONT); break;
      case Member::State::kCut: Require(cluster_.network().Mend(member.number)); break;
      case Member::State::kUnlisted: cluster_.WriteRecords(); break;
      case Member::State::kWell: break;
    }
  }

  void StartAgain(Member& member) {
    if (member.kind == Member::Kind::kDatabase) {
      Require(cluster_.database()->Start());
      return;
    }
    const absl::Status started = member.service->Start();
    if (!started.ok() && member.kind == Member::Kind::kOrchestrator &&
        SteadyClock::now() < member.heals_at + kSettleLimit) {
      // It exits when it cannot reach its database, and its supervisor restarts it.
      member.state = Member::State::kDead;
      return;
    }
    Require(started);
  }

  void Count(const std::string& what, const Member& member, int milliseconds_away = 0) {
    static const std::map<Member::Kind, std::string> kNames = {
        {Member::Kind::kForecaster, "forecasters"},
        {Member::Kind::kWorker, "workers"},
        {Member::Kind::kOrchestrator, "orchestrators"},
        {Member::Kind::kDatabase, "the database"}};
    const std::string of = absl::StrCat(what, " of ", kNames.at(member.kind));
    ++counts_[of];
    if (member.kind == Member::Kind::kOrchestrator && milliseconds_away > kLeaseMs) {
      ++counts_[absl::StrCat(of, " for longer than ", kLeaseMs / 1000, " s")];
    }
  }

  Cluster& cluster_;
  std::mt19937_64 random_;
  std::map<std::string, int> counts_;
};

// Number of lines with this text in the orchestrators' logs.
int CountInLogs(const Cluster& cluster, const std::string& text) {
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(cluster.logs())) {
    if (file.path().filename().string().rfind("orchestrator", 0) != 0) continue;
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);) {
      if (line.find(text) != std::string::npos) ++count;
    }
  }
  return count;
}

// Checks the log of all shards: every accepted request is settled once, nothing was abandoned,
// replies to clients match, and no search is left. `bests`: the required results of searches.
// Returns the number of evaluations.
size_t CheckLog(Cluster& cluster, const std::map<std::string, std::string>& bests,
                const Answers& answers) {
  std::map<std::string, int> accepted, settled, created, closed;
  std::map<std::string, std::string> candidates, evaluations;
  std::map<std::string, std::map<uint64_t, std::string>> searched;
  int unavailable = 0;
  for (const std::unique_ptr<EventStore>& store : cluster.Log()) {
    State state;
    Require(store->Replay(1, [&](const StoredEvent& stored) {
      if (const auto* event = std::get_if<EvaluationAccepted>(&stored.event.body)) {
        ++accepted[event->request_id];
        candidates[event->request_id] = event->candidate.candidate_id;
      } else if (const auto* end = std::get_if<EvaluationSettled>(&stored.event.body)) {
        ++settled[end->request_id];
        const auto* rejection = std::get_if<Rejection>(&end->result);
        if (rejection != nullptr && rejection->cause == Rejection::Cause::kUnavailable) {
          UNSCOPED_INFO(end->request_id << ": " << rejection->detail);
          ++unavailable;
        }
        const orchestrator::Evaluation* evaluation = state.FindEvaluation(end->request_id);
        if (evaluation != nullptr && evaluation->decision) {
          const std::string bytes = BytesOf(orchestrator::ToProto(
              MakeRecord(*evaluation, *end, stored.event.time_ns, stored.sequence),
              /*with_feedback=*/true));
          evaluations[end->request_id] = bytes;
          searched[evaluation->search_id][stored.sequence] = bytes;
        }
      } else if (const auto* begin = std::get_if<SearchCreated>(&stored.event.body)) {
        ++created[begin->search_id];
      } else if (const auto* search = std::get_if<SearchClosed>(&stored.event.body)) {
        ++closed[search->search_id];
        if (bests.contains(search->search_id)) {
          CHECK(candidates[search->confirmed_request_id] == bests.at(search->search_id));
        }
      }
      return state.Apply(stored);
    }));
    CHECK(state.evaluations().empty());
  }
  CHECK(unavailable == 0);
  CHECK(accepted.size() == settled.size());
  size_t wrong = 0;
  for (const auto& [id, times] : accepted) wrong += times != 1 || settled[id] != 1 ? 1 : 0;
  CHECK(wrong == 0);
  CHECK(created == closed);
  for (const auto& [id, best] : bests) {
    INFO(id);
    CHECK(created[id] == 1);
    CHECK(closed[id] == 1);
  }
  size_t otherwise = 0;
  for (const auto& [id, bytes] : answers.evaluations())
    otherwise += evaluations[id] != bytes ? 1 : 0;
  CHECK(otherwise == 0);
  const auto watched = answers.watched();
  CHECK(watched.size() == created.size());
  for (const auto& [id, settlements] : watched) {
    INFO(id);
    CHECK(settlements.size() == searched[id].size());
    CHECK((settlements == searched[id]));
  }
  return accepted.size();
}

// Every forecaster has every label once none is in transit.
void CheckLabels(Cluster& cluster) {
  const auto limit = SteadyClock::now() + kSettleLimit;
  for (const std::string& address : cluster.orchestrators()) {
    const auto stub = v1::Orchestrator::NewStub(Require(MakeChannel(address)));
    v1::OrchestratorDescription description;
    bool even = false;
    while (!even && SteadyClock::now() < limit) {
      REQUIRE(Insist(limit, [&](grpc::ClientContext& context) {
                return stub->Describe(&context, {}, &description);
              }).ok());
      even = description.forecasters_size() == kForecasters &&
             std::ranges::all_of(description.forecasters(), [](const auto& forecaster) {
               return forecaster.healthy() && forecaster.pending_labels() == 0;
             });
    }
    INFO(description.DebugString());
    CHECK(even);
  }
  std::set<uint64_t> counts;
  for (const std::string& address : cluster.forecasters()) {
    auto channel = Require(MakeChannel(address));
    v1::ForecasterDescription description;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + seconds(30));
    REQUIRE(v1::Forecaster::NewStub(channel)->Describe(&context, {}, &description).ok());
    counts.insert(description.labels());
  }
  CHECK(counts.size() == 1);
  CHECK(*counts.begin() > 0);
}

Problem LoadProblem(const std::string& folder) {
  auto files = Require(ReadProblemFolder(testing::SourcePath(folder)));
  return Require(ParseProblem(std::move(files)));
}

void RunDisturbed(int orchestrators, const std::string& default_seconds) {
  // Created before other threads exist, so only once.
  static const auto network = TestNetwork::Create();
  if (!network.ok()) {
    std::cout << "skipped: " << network.status().message() << "\n";
    return;
  }
  abandoned = false;
  const auto seed = static_cast<uint64_t>(std::stoull(
      FromEnvironment("KERNELCAST_CHAOS_SEED",
                      absl::StrCat(SteadyClock::now().time_since_epoch().count() % 1'000'000))));
  const seconds duration(std::stoi(FromEnvironment("KERNELCAST_CHAOS_SECONDS", default_seconds)));
  CAPTURE(seed);
  std::cout << "seed " << seed << ", " << duration.count() << " s" << std::endl;

  Cluster cluster(**network, orchestrators);
  Complaints complaints;
  Answers answers;
  Searches searches(cluster, complaints, answers);
  const Problem real = LoadProblem("tests/candidates/iterated_map");
  std::ifstream source_file(
      testing::SourcePath("tests/candidates/iterated_map/candidates/vectorised.cc"));
  const std::string source(std::istreambuf_iterator<char>(source_file), {});
  REQUIRE_FALSE(source.empty());
  std::vector<const Problem*> problems = {&real};
  for (const RecordedProblem& recorded : cluster.problems()) problems.push_back(&recorded.problem);
  for (const Problem* problem : problems) {
    const auto stub = cluster.Stub();
    REQUIRE(Insist(SteadyClock::now() + kSettleLimit, [&](grpc::ClientContext& context) {
              v1::PutProblemRequest request;
              *request.mutable_problem() = ProblemFilesToProto(*problem);
              v1::PutProblemReply reply;
              return stub->PutProblem(&context, request, &reply);
            }).ok());
  }

  // The undisturbed results, which are the best by the records.
  std::map<int, std::string> undisturbed;
  for (int seat = 0; seat < kSeats; ++seat) {
    const auto& candidates = searches.ProblemOf(seat).candidates;
    const Candidate& best = *std::ranges::max_element(candidates, {}, testing::RecordedSpeedup);
    undisturbed[seat] = searches.Run(seat, absl::StrCat("undisturbed-", seat), seed,
                                     SteadyClock::now() + kSettleLimit);
    CHECK(undisturbed[seat] == best.candidate_id);
  }
  REQUIRE(complaints.Get().empty());

  std::map<std::string, std::string> bests;
  std::mutex mutex;
  std::atomic<int> replayed = 0, compiled = 0;
  const auto limit = SteadyClock::now() + duration + kSettleLimit;
  Clients clients;  // last: they use the others
  for (int seat = 0; seat < kSeats; ++seat) {
    clients.Add([&, seat] {
      for (int i = 0; !clients.stop(); ++i) {
        const std::string id = absl::StrCat("seat-", seat, "-", i);
        const std::string best = searches.Run(seat, id, seed + static_cast<uint64_t>(i), limit);
        const std::lock_guard lock(mutex);
        bests[id] = undisturbed[seat];
        if (best != undisturbed[seat]) {
          complaints.Add(absl::StrCat(id, " ended with '", best, "'"));
        }
      }
    });
  }
  clients.Add([&] {
    const auto& candidates = cluster.problems()[0].candidates;
    EvaluateUntil(
        clients.stop(), cluster, complaints, answers, "replayed", v1::EVALUATE_MODE_MEASURE,
        [&](int i) { return candidates[static_cast<size_t>(i) % candidates.size()]; }, replayed);
  });
  clients.Add([&] {
    EvaluateUntil(
        clients.stop(), cluster, complaints, answers, "compiled", v1::EVALUATE_MODE_FORECAST,
        [&](int i) {
          Candidate candidate;
          candidate.problem_id = real.problem_id;
          candidate.target = "cpu";
          candidate.source = absl::StrCat("// ", i, "\n", source);
          candidate.candidate_id = CandidateId(candidate);
          return candidate;
        },
        compiled);
  });
  Disturbance disturbance(cluster, seed);
  disturbance.RunUntil(SteadyClock::now() + duration);
  clients.Join();

  const std::vector<std::string> texts = complaints.Get();
  INFO(absl::StrJoin(texts, "\n"));
  CHECK(texts.empty());
  CheckLabels(cluster);
  if (cluster.database() != nullptr) CHECK(cluster.SharesBecomeEqual());
  // Callers are stopped first.
  for (auto member = cluster.members().rbegin(); member != cluster.members().rend(); ++member) {
    INFO(member->name);
    if (member->service != nullptr) CHECK(member->service->Terminate() == 0);
  }
  const size_t evaluations = CheckLog(cluster, bests, answers);
  CHECK(bests.size() >= kSeats);
  CHECK(replayed > 0);
  CHECK(compiled > 0);
  std::cout << disturbance.Figures() << "\n"
            << bests.size() << " searches, " << evaluations << " evaluations, " << replayed
            << " replayed and " << compiled << " compiled from outside\n"
            << CountInLogs(cluster, "\"worker lost\"") << " workers lost, "
            << CountInLogs(cluster, "\"worker is left out") << " left out, "
            << CountInLogs(cluster, "\"worker found\"") << " found, "
            << CountInLogs(cluster, "\"forecaster lost\"") << " forecasters lost, "
            << CountInLogs(cluster, "\"log replayed\"") << " logs replayed, "
            << CountInLogs(cluster, "\"shard taken\"") << " shards taken, "
            << CountInLogs(cluster, "\"because\":\"lost\"") << " lost, "
            << CountInLogs(cluster, "lost during an append") << " appends in doubt" << std::endl;
}

TEST_CASE(
    "Replicated orchestrators with their database, forecasters and workers survive kills, "
    "partitions, stops, drains and moves during searches") {
  if (PostgresqlServer::Missing()) return;
  RunDisturbed(3, "45");
}

TEST_CASE(
    "A single orchestrator with a file log, and everything it depends on, survives the same "
    "faults") {
  RunDisturbed(1, "20");
}

}  // namespace
}  // namespace kernelcast
