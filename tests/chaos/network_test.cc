// Real processes, each with an address of its own on a network of the test's, killed, cut off,
// stopped, drained and moved about while searches run: nothing accepted is lost, nothing is settled
// twice, and every search ends with the kernel that it ends with undisturbed.
//
// In the environment:
//   KERNELCAST_CHAOS_SECONDS        how long the disturbance lasts, 45 unless told
//   KERNELCAST_CHAOS_SEED           what it is drawn from; the clock unless told
//   KERNELCAST_CHAOS_ORCHESTRATORS  how many, 1 unless told. More need one log:
//   KERNELCAST_CHAOS_LOG            arguments of theirs for it, instead of a folder for each
//   KERNELCAST_CHAOS_KEEP           a folder for their logs, which then stay

#include <fcntl.h>
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
#include "absl/strings/str_split.h"
#include "common/convert/convert.h"
#include "common/rpc/channel.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"
#include "tests/support/test_network.h"

namespace kernelcast {
namespace {

using orchestrator::EvaluationAccepted;
using orchestrator::EvaluationSettled;
using orchestrator::Rejection;
using orchestrator::SearchClosed;
using orchestrator::SqliteEventStore;
using orchestrator::StoredEvent;
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
// What records are replayed as; real measurements are of the target cpu.
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

// What goes wrong on any thread, for the test's own thread to report.
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

// Service processes that can be disturbed.
struct Member {
  enum class Kind { kForecaster, kWorker, kOrchestrator };
  enum class State { kWell, kDead, kStopped, kCut, kUnlisted };
  Kind kind;
  int number;  // in the network
  std::string name;
  std::unique_ptr<Service> service;
  State state = State::kWell;
  SteadyClock::time_point heals_at;
};

class Cluster {
 public:
  explicit Cluster(TestNetwork& network)
      : network_(network), folder_("network"), logs_(FromEnvironment("KERNELCAST_CHAOS_KEEP", "")) {
    if (logs_.empty()) logs_ = folder_.File("logs");
    std::filesystem::create_directories(logs_);
    std::ofstream records(folder_.File("records.jsonl"));
    // Spaces whose best point has no equal.
    for (const auto& [blocks, unrolls] : {std::pair{12, 8}, {16, 10}, {10, 10}}) {
      problems_.push_back(testing::MakeRecordedProblem(blocks, unrolls, kTarget));
      testing::WriteRecords(problems_.back(), folder_.File("one.jsonl"));
      records << std::ifstream(folder_.File("one.jsonl")).rdbuf();
    }
    records.close();
    StartForecasters();
    StartWorkers();
    StartOrchestrators();
    ChannelOptions options;
    channel_ = Require(MakeChannel("ipv4:" + absl::StrJoin(orchestrators_, ","), options));
  }

  const std::vector<RecordedProblem>& problems() const { return problems_; }
  std::vector<Member>& members() { return members_; }
  TestNetwork& network() { return network_; }
  const std::string& logs() const { return logs_; }
  std::unique_ptr<v1::Orchestrator::Stub> Stub() const {
    return v1::Orchestrator::NewStub(channel_);
  }
  std::vector<std::string> ForecasterAddresses() const { return forecasters_; }
  std::string LogPath() const { return folder_.File("orchestrator-0") + "/orchestrator.db"; }

  // Which workers their name leads to.
  void WriteRecords() {
    std::string hosts = "127.0.0.1 localhost\n";
    for (const Member& member : members_) {
      if (member.kind == Member::Kind::kWorker && member.state != Member::State::kUnlisted) {
        absl::StrAppend(&hosts, network_.address(member.number), " workers.test\n");
      }
    }
    // In place, for the file is mounted.
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
  void StartOrchestrators() {
    const int count = std::stoi(FromEnvironment("KERNELCAST_CHAOS_ORCHESTRATORS", "1"));
    const std::string shared_log = FromEnvironment("KERNELCAST_CHAOS_LOG", "");
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
      arguments.insert(arguments.end(), {"--state-dir", folder_.File(name)});
      for (const absl::string_view argument : absl::StrSplit(shared_log, ' ', absl::SkipEmpty())) {
        arguments.emplace_back(argument);
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
  std::vector<Member> members_;
  std::vector<std::string> forecasters_;
  std::vector<std::string> orchestrators_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Calls until the service answers; one that is away is no answer.
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
           SteadyClock::now() < limit);
  return status;
}

// Runs searches whose best is known: each measures all that it proposes, be it because it forecasts
// nothing or because its policy promotes whatever is forecast.
class Searches {
 public:
  Searches(Cluster& cluster, Complaints& complaints) : cluster_(cluster), complaints_(complaints) {}

  static bool Forecasts(int seat) { return seat >= 3; }

  // To the end, until `limit`. Returns the candidate that it ended with.
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

    // Watching is waiting for its end.
    bool ended = false;
    const grpc::Status watched = Insist(limit, [&](grpc::ClientContext& context) {
      v1::WatchSearchRequest watch;
      watch.set_search_id(search_id);
      const auto stream = stub->WatchSearch(&context, watch);
      v1::SearchEvent event;
      while (stream->Read(&event)) ended = ended || event.has_ended();
      return stream->Finish();
    });
    if (!watched.ok() || !ended) {
      return Complain(search_id, "has not ended: " + watched.error_message());
    }
    v1::GetSearchReply got;
    const grpc::Status found = Insist(limit, [&](grpc::ClientContext& context) {
      v1::GetSearchRequest request;
      request.set_search_id(search_id);
      return stub->GetSearch(&context, request, &got);
    });
    if (!found.ok()) return Complain(search_id, "is not found: " + found.error_message());
    const v1::Search& search = got.search();
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

  Cluster& cluster_;
  Complaints& complaints_;
};

// A framework beside the searches: evaluates one candidate after the other, each twice under the
// same id, which must give the same.
void EvaluateUntil(const std::atomic<bool>& stop, Cluster& cluster, Complaints& complaints,
                   const std::string& prefix, v1::EvaluateMode mode,
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
      }
    }
    if (replies[0].evaluation().SerializeAsString() !=
        replies[1].evaluation().SerializeAsString()) {
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

// Does something to one member after the other, by a schedule drawn from a seed, and undoes it.
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
    HealDue(SteadyClock::time_point::max());
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
    // Mostly short; now and then longer than silence is put up with.
    int milliseconds_away = Draw(0, 1) == 0 ? Draw(0, 500) : Draw(500, 4000);
    if (what < 30) {
      Count("kills", member);
      member.service->Kill();
      member.state = Member::State::kDead;
    } else if (what < 50) {
      Count("drains", member);
      const int code = member.service->Terminate();
      INFO(member.name << " drained");
      CHECK(code == 0);
      member.state = Member::State::kDead;
    } else if (what < 72) {
      Count("cuts", member);
      Require(cluster_.network().Cut(member.number));
      member.state = Member::State::kCut;
      if (Draw(0, 14) == 0) milliseconds_away = Draw(15'000, 22'000);
    } else if (what < 90 || member.kind != Member::Kind::kWorker) {
      Count("stops", member);
      member.service->Signal(SIGSTOP);
      member.state = Member::State::kStopped;
      if (Draw(0, 14) == 0) milliseconds_away = Draw(15'000, 22'000);
    } else {
      Count("leaves of the name", member);
      member.state = Member::State::kUnlisted;
      cluster_.WriteRecords();
    }
    member.heals_at = SteadyClock::now() + milliseconds(milliseconds_away);
  }

  void HealDue(SteadyClock::time_point now) {
    for (Member& member : cluster_.members()) {
      if (member.state == Member::State::kWell || member.heals_at > now) continue;
      const Member::State was = std::exchange(member.state, Member::State::kWell);
      switch (was) {
        case Member::State::kDead: Require(member.service->Start()); break;
        case Member::State::kStopped: member.service->Signal(SIGCONT); break;
        case Member::State::kCut: Require(cluster_.network().Mend(member.number)); break;
        case Member::State::kUnlisted: cluster_.WriteRecords(); break;
        case Member::State::kWell: break;
      }
    }
  }

  void Count(const std::string& what, const Member& member) {
    static const std::map<Member::Kind, std::string> kNames = {
        {Member::Kind::kForecaster, "forecasters"},
        {Member::Kind::kWorker, "workers"},
        {Member::Kind::kOrchestrator, "orchestrators"}};
    ++counts_[absl::StrCat(what, " of ", kNames.at(member.kind))];
  }

  Cluster& cluster_;
  std::mt19937_64 random_;
  std::map<std::string, int> counts_;
};

// How often a line with this text is in the orchestrators' logs.
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

// From the log: what was accepted is settled once, and nothing was given up.
size_t CheckLog(const std::string& path, const std::map<std::string, std::string>& bests) {
  auto store = Require(SqliteEventStore::Open(path));
  std::map<std::string, int> accepted, settled, closed;
  std::map<std::string, std::string> candidates;
  int unavailable = 0;
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
    } else if (const auto* search = std::get_if<SearchClosed>(&stored.event.body)) {
      ++closed[search->search_id];
      if (bests.contains(search->search_id)) {
        CHECK(candidates[search->confirmed_request_id] == bests.at(search->search_id));
      }
    }
    return absl::OkStatus();
  }));
  CHECK(unavailable == 0);
  CHECK(accepted.size() == settled.size());
  size_t wrong = 0;
  for (const auto& [id, times] : accepted) wrong += times != 1 || settled[id] != 1 ? 1 : 0;
  CHECK(wrong == 0);
  for (const auto& [id, best] : bests) {
    INFO(id);
    CHECK(closed[id] == 1);
  }
  return accepted.size();
}

// Every forecaster has every label when nothing is on its way any more.
void CheckLabels(Cluster& cluster) {
  const auto stub = cluster.Stub();
  const auto limit = SteadyClock::now() + kSettleLimit;
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
  std::set<uint64_t> counts;
  for (const std::string& address : cluster.ForecasterAddresses()) {
    auto channel = Require(MakeChannel(address));
    v1::ForecasterDescription told;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + seconds(30));
    REQUIRE(v1::Forecaster::NewStub(channel)->Describe(&context, {}, &told).ok());
    counts.insert(told.labels());
  }
  CHECK(counts.size() == 1);
  CHECK(*counts.begin() > 0);
}

Problem LoadProblem(const std::string& folder) {
  auto files = Require(ReadProblemFolder(testing::SourcePath(folder)));
  return Require(ParseProblem(std::move(files)));
}

TEST_CASE("any process may be killed, cut off, stopped, drained or moved while searches run") {
  // Before there are other threads.
  auto created = TestNetwork::Create();
  if (!created.ok()) {
    std::cout << "skipped: " << created.status().message() << "\n";
    return;
  }
  const auto seed = static_cast<uint64_t>(std::stoull(
      FromEnvironment("KERNELCAST_CHAOS_SEED",
                      absl::StrCat(SteadyClock::now().time_since_epoch().count() % 1'000'000))));
  const seconds duration(std::stoi(FromEnvironment("KERNELCAST_CHAOS_SECONDS", "45")));
  CAPTURE(seed);
  std::cout << "seed " << seed << ", " << duration.count() << " s" << std::endl;

  Cluster cluster(**created);
  Complaints complaints;
  Searches searches(cluster, complaints);
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

  // Undisturbed, and what is the best by the records.
  std::map<int, std::string> undisturbed;
  for (int seat = 0; seat < kSeats; ++seat) {
    const auto& candidates = searches.ProblemOf(seat).candidates;
    const Candidate& best = *std::ranges::max_element(candidates, {}, testing::RecordedSpeedup);
    undisturbed[seat] = searches.Run(seat, absl::StrCat("undisturbed-", seat), seed,
                                     SteadyClock::now() + kSettleLimit);
    CHECK(undisturbed[seat] == best.candidate_id);
  }
  REQUIRE(complaints.Get().empty());

  std::atomic<bool> stop = false;
  std::map<std::string, std::string> bests;
  std::mutex mutex;
  std::atomic<int> replayed = 0, compiled = 0;
  std::vector<std::thread> threads;
  const auto limit = SteadyClock::now() + duration + kSettleLimit;
  for (int seat = 0; seat < kSeats; ++seat) {
    threads.emplace_back([&, seat] {
      for (int i = 0; !stop; ++i) {
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
  threads.emplace_back([&] {
    const auto& candidates = cluster.problems()[0].candidates;
    EvaluateUntil(
        stop, cluster, complaints, "replayed", v1::EVALUATE_MODE_MEASURE,
        [&](int i) { return candidates[static_cast<size_t>(i) % candidates.size()]; }, replayed);
  });
  threads.emplace_back([&] {
    EvaluateUntil(
        stop, cluster, complaints, "compiled", v1::EVALUATE_MODE_FORECAST,
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
  stop = true;
  for (std::thread& thread : threads) thread.join();

  const std::vector<std::string> texts = complaints.Get();
  INFO(absl::StrJoin(texts, "\n"));
  CHECK(texts.empty());
  CheckLabels(cluster);
  // Whoever calls goes first.
  for (auto member = cluster.members().rbegin(); member != cluster.members().rend(); ++member) {
    INFO(member->name);
    CHECK(member->service->Terminate() == 0);
  }
  size_t evaluations = 0;
  if (FromEnvironment("KERNELCAST_CHAOS_LOG", "").empty()) {
    evaluations = CheckLog(cluster.LogPath(), bests);
  }
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
            << CountInLogs(cluster, "\"log replayed\"") << " logs replayed" << std::endl;
}

}  // namespace
}  // namespace kernelcast
