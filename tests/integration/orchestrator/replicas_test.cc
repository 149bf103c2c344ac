// Tests several orchestrator processes on one log in a real PostgreSQL, with a replaying worker and
// a real forecaster. Covers calls to any replica, and searches during the loss of a replica or the
// database.

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "common/rpc/channel.h"
#include "common/rpc/token.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/postgresql_event_store.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_page.h"
#include "tests/support/one_by_one.h"
#include "tests/support/postgresql.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"
#include "tests/unit/common/rpc/test_certificates.h"

namespace kernelcast::replicas_test {
namespace {

using orchestrator::EvaluationAccepted;
using orchestrator::EvaluationSettled;
using orchestrator::PostgresqlConnection;
using orchestrator::PostgresqlEventStore;
using orchestrator::PostgresqlRows;
using orchestrator::State;
using orchestrator::StoredEvent;
using testing::Eventually;
using testing::PostgresqlServer;

constexpr auto kCallLimit = std::chrono::seconds(20);
constexpr auto kTestLimit = std::chrono::seconds(90);
constexpr int kReplicas = 3;
constexpr int kShards = 6;

void Require(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

// Retries until a service answers; an unavailable service is not an answer.
template <class Call>
grpc::Status Insist(const Call& call) {
  const auto limit = std::chrono::steady_clock::now() + kTestLimit;
  grpc::Status status;
  do {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallLimit);
    context.set_wait_for_ready(true);
    status = call(&context);
  } while ((status.error_code() == grpc::StatusCode::UNAVAILABLE ||
            status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
            status.error_code() == grpc::StatusCode::CANCELLED ||
            status.error_code() == grpc::StatusCode::UNKNOWN) &&
           std::chrono::steady_clock::now() < limit);
  return status;
}

// Certificates and tokens of a cluster that requires both. Clients hold a submit token that only
// orchestrators know, and orchestrators have their own.
class Site {
 public:
  explicit Site(const testing::TemporaryFolder& folder) : folder_(folder) {
    const PemPair authority = MakeAuthority("authority");
    const PemPair pair = MakeCertificate(authority, "kernelcast");
    Write("ca.crt", authority.certificate);
    Write("tls.crt", pair.certificate);
    Write("tls.key", pair.key);
    const std::string client = Token("client", "submit");
    const std::string own = Token("orchestrator", "submit, measure");
    Write("inner.yaml", "tokens:\n" + own);
    Write("outer.yaml", "tokens:\n" + client + own);
  }

  // Start arguments of a service; its known tokens are in a file.
  std::vector<std::string> Server(std::vector<std::string> arguments,
                                  const std::string& tokens) const {
    arguments.insert(arguments.end(),
                     {"--tls-certificate-file", folder_.File("tls.crt"), "--tls-key-file",
                      folder_.File("tls.key"), "--tls-client-ca-file", folder_.File("ca.crt"),
                      "--auth-tokens-file", folder_.File(tokens)});
    return arguments;
  }
  std::vector<std::string> Client() const {
    return {"--client-ca-file",          folder_.File("ca.crt"),
            "--client-certificate-file", folder_.File("tls.crt"),
            "--client-key-file",         folder_.File("tls.key"),
            "--client-token-file",       folder_.File("orchestrator.token")};
  }
  ChannelOptions Channel() const {
    ChannelOptions options;
    options.tls.ca_file = folder_.File("ca.crt");
    options.tls.certificate_file = folder_.File("tls.crt");
    options.tls.key_file = folder_.File("tls.key");
    options.token_file = folder_.File("client.token");
    return options;
  }

 private:
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_.File(name)) << content;
  }
  std::string Token(const std::string& name, const std::string& roles) const {
    const std::string token = MakeToken();
    Write(name + ".token", token);
    return absl::StrCat("  - name: ", name, "\n    sha256: ", TokenHashText(HashToken(token)),
                        "\n    roles: [", roles, "]\n");
  }

  const testing::TemporaryFolder& folder_;
};

class Cluster {
 public:
  explicit Cluster(double lease_seconds = 2, bool secured = false)
      : folder("replicas"),
        site(secured ? std::make_unique<Site>(folder) : nullptr),
        recorded(testing::MakeRecordedProblem(24, 16)),
        worker("kernelcast-worker",
               Server({"--replay", Records(), "--cache-dir", folder.File("cache")}, "inner.yaml"),
               folder),
        forecaster("kernelcast-forecaster",
                   Server({"--state-dir", folder.File("forecaster")}, "inner.yaml"), folder) {
    Require(database.Start());
    Require(worker.Start());
    Require(forecaster.Start());
    for (int i = 0; i < kReplicas; ++i) {
      folders.push_back(std::make_unique<testing::TemporaryFolder>("replica"));
      std::vector<std::string> arguments =
          Server({"--store", database.Uri(), "--store-shards", std::to_string(kShards),
                  "--lease-seconds", std::to_string(lease_seconds), "--worker", worker.address(),
                  "--forecaster", forecaster.address(), "--confirm", "1", "--status", ""},
                 "outer.yaml");
      if (site != nullptr) {
        const std::vector<std::string> client = site->Client();
        arguments.insert(arguments.end(), client.begin(), client.end());
      }
      replicas.push_back(std::make_unique<testing::Service>("kernelcast-orchestrator",
                                                            std::move(arguments), *folders.back()));
      Require(replicas.back()->Start());
    }
    // Wait until every replica has an equal share.
    REQUIRE(Eventually([&] {
      return Number(
                 "SELECT count(*) FROM (SELECT address FROM kernelcast_shards WHERE expires_at >"
                 " now() GROUP BY address HAVING count(*) = 2) AS equal") == kReplicas;
    }));
    REQUIRE(Insist([&](auto* context) {
              v1::PutProblemRequest request;
              *request.mutable_problem() = ProblemFilesToProto(recorded.problem);
              v1::PutProblemReply reply;
              return Stub(0)->PutProblem(context, request, &reply);
            }).ok());
  }

  std::string Records() {
    testing::WriteRecords(recorded, folder.File("records.jsonl"));
    return folder.File("records.jsonl");
  }

  std::vector<std::string> Server(std::vector<std::string> arguments,
                                  const std::string& tokens) const {
    return site != nullptr ? site->Server(std::move(arguments), tokens) : arguments;
  }

  // Callable from any thread, so it makes no assertions.
  std::unique_ptr<v1::Orchestrator::Stub> Stub(int replica) const {
    return v1::Orchestrator::NewStub(
        MakeChannel(replicas[static_cast<size_t>(replica)]->address(),
                    site != nullptr ? site->Channel() : ChannelOptions())
            .value());
  }

  int64_t Number(const std::string& sql) {
    const auto number = database.Number(sql);
    INFO(number.status().ToString());
    REQUIRE(number.ok());
    return *number;
  }

  // The replica that holds the shard of a search; -1 if none does.
  int HolderOf(const std::string& search_id) {
    auto connection = PostgresqlConnection::Open(database.Options(), nullptr);
    REQUIRE(connection.ok());
    auto rows = (*connection)
                    ->Execute(absl::StrCat(
                        "SELECT address FROM kernelcast_shards WHERE expires_at > now() AND shard ="
                        " (SELECT shard FROM kernelcast_events WHERE search_id = '",
                        search_id, "' LIMIT 1)"));
    REQUIRE(rows.ok());
    for (int i = 0; i < kReplicas && rows->count() == 1; ++i) {
      if (replicas[static_cast<size_t>(i)]->address() == rows->Text(0, 0)) return i;
    }
    return -1;
  }

  // A search that measures the whole space, so that its best does not depend on chance, one
  // candidate at a time, so that it takes a while.
  void StartSearch(int replica, const std::string& search_id,
                   v1::Generator generator = v1::GENERATOR_TEMPLATE) {
    auto stub = Stub(replica);
    v1::StartSearchRequest request;
    request.set_search_id(search_id);
    auto* spec = request.mutable_spec();
    spec->set_problem_id(recorded.problem.problem_id);
    spec->set_target("cpu");
    spec->set_generator(generator);
    spec->mutable_budget()->set_max_measurements(1000);
    spec->set_seed(1);
    spec->set_max_in_flight(1);
    spec->set_measure_everything(true);
    const grpc::Status status = Insist([&](auto* context) {
      v1::StartSearchReply reply;
      return stub->StartSearch(context, request, &reply);
    });
    INFO(status.error_message());
    REQUIRE(status.ok());
  }

  v1::Search GetSearch(int replica, const std::string& search_id) {
    auto stub = Stub(replica);
    v1::GetSearchReply reply;
    const grpc::Status status = Insist([&](auto* context) {
      v1::GetSearchRequest request;
      request.set_search_id(search_id);
      return stub->GetSearch(context, request, &reply);
    });
    INFO(status.error_message());
    REQUIRE(status.ok());
    return reply.searches(0);
  }

  void WaitMeasured(int replica, const std::string& search_id, uint64_t count) {
    REQUIRE(Eventually([&] { return GetSearch(replica, search_id).counts().measured() >= count; }));
  }

  // Checks that the search ends with the best of the space and measured each candidate once.
  void CheckUndisturbed(int replica, const std::string& search_id) {
    INFO(search_id);
    REQUIRE(Eventually(
        [&] { return GetSearch(replica, search_id).status() == v1::SEARCH_STATUS_DONE; }));
    const v1::Search search = GetSearch(replica, search_id);
    CHECK(search.counts().considered() == recorded.candidates.size());
    CHECK(search.counts().measured() == recorded.candidates.size());
    REQUIRE(search.has_confirmed_best());
    CHECK(search.confirmed_best().measurement().ok().speedup().value() ==
          Approx(recorded.best_speedup).epsilon(0.001));
  }

  // Checks the final log: every shard can be folded, and every accepted request is settled once.
  std::map<std::string, int> CheckLog() {
    std::map<std::string, int> accepted, settled;
    for (int shard = 0; shard < kShards; ++shard) {
      auto connection = PostgresqlConnection::Open(database.Options(), nullptr);
      REQUIRE(connection.ok());
      auto rows =
          (*connection)
              ->Execute(absl::StrCat("SELECT writer FROM kernelcast_shards WHERE shard = ", shard));
      REQUIRE(rows.ok());
      auto store = PostgresqlEventStore::Open(database.Options(), shard, rows->Text(0, 0));
      Require(store.status());
      State state;
      Require((*store)->Replay(1, [&](const StoredEvent& stored) {
        if (const auto* a = std::get_if<EvaluationAccepted>(&stored.event.body)) {
          ++accepted[a->request_id];
        }
        if (const auto* s = std::get_if<EvaluationSettled>(&stored.event.body)) {
          ++settled[s->request_id];
        }
        return state.Apply(stored);
      }));
    }
    CHECK(accepted.size() == settled.size());
    for (const auto& [id, count] : accepted) {
      INFO(id);
      CHECK(count == 1);
      CHECK(settled[id] == 1);
    }
    return accepted;
  }

  double Metric(int replica, const std::string& name) {
    const auto page =
        testing::MetricsPage::Fetch(replicas[static_cast<size_t>(replica)]->metrics_port());
    return page.ok() ? page->Value(name) : -1;
  }

  v1::EvaluateRequest Evaluation(const std::string& request_id, size_t candidate) const {
    v1::EvaluateRequest request;
    request.set_request_id(request_id);
    request.set_mode(v1::EVALUATE_MODE_MEASURE);
    *request.mutable_candidate() = ToProto(recorded.candidates[candidate]);
    return request;
  }

  testing::TemporaryFolder folder;
  std::unique_ptr<Site> site;  // null: no authentication
  testing::RecordedProblem recorded;
  PostgresqlServer database;
  testing::Service worker;
  testing::Service forecaster;
  std::vector<std::unique_ptr<testing::TemporaryFolder>> folders;
  std::vector<std::unique_ptr<testing::Service>> replicas;
};

TEST_CASE("Any orchestrator answers for any search", "[slow]") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster;
  std::vector<std::string> ids;
  std::set<int> holders;
  for (int i = 0; i < 9; ++i) {
    ids.push_back(absl::StrCat("search-", i));
    cluster.StartSearch(i % kReplicas, ids.back());
    holders.insert(cluster.HolderOf(ids.back()));
  }
  CHECK(holders.size() > 1);
  {
    // A search without a name gets one.
    v1::StartSearchRequest request;
    request.mutable_spec()->set_problem_id(cluster.recorded.problem.problem_id);
    request.mutable_spec()->set_target("cpu");
    request.mutable_spec()->set_generator(v1::GENERATOR_EXTERNAL);
    v1::StartSearchReply reply;
    REQUIRE(Insist([&](auto* context) {
              return cluster.Stub(1)->StartSearch(context, request, &reply);
            }).ok());
    REQUIRE(!reply.searches(0).search_id().empty());
    CHECK(cluster.GetSearch(2, reply.searches(0).search_id()).status() ==
          v1::SEARCH_STATUS_RUNNING);
    v1::StopSearchRequest stop;
    stop.set_search_id(reply.searches(0).search_id());
    v1::StopSearchReply stopped;
    REQUIRE(Insist([&](auto* context) {
              return cluster.Stub(0)->StopSearch(context, stop, &stopped);
            }).ok());
    ids.push_back(reply.searches(0).search_id());
  }
  std::sort(ids.begin(), ids.end());

  for (int replica = 0; replica < kReplicas; ++replica) {
    auto stub = cluster.Stub(replica);
    // Pages are in order, with each search once.
    std::vector<std::string> listed;
    v1::ListSearchesRequest list;
    list.set_page_size(4);
    do {
      v1::ListSearchesReply page;
      REQUIRE(Insist([&](auto* context) { return stub->ListSearches(context, list, &page); }).ok());
      for (const auto& search : page.searches()) listed.push_back(search.search_id());
      list.set_page_token(page.next_page_token());
    } while (!list.page_token().empty());
    CHECK(listed == ids);
    // An unknown search belongs to no replica.
    v1::GetSearchRequest unknown;
    unknown.set_search_id("nobody");
    v1::GetSearchReply reply;
    CHECK(Insist([&](auto* context) {
            return stub->GetSearch(context, unknown, &reply);
          }).error_code() == grpc::StatusCode::NOT_FOUND);
  }

  // Followed to its end from another replica.
  const int elsewhere = (cluster.HolderOf("search-0") + 1) % kReplicas;
  {
    auto stub = cluster.Stub(elsewhere);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
    v1::WatchSearchRequest request;
    request.set_search_id("search-0");
    auto stream = stub->WatchSearch(&context, request);
    v1::SearchEvent event;
    uint64_t last = 0, settled = 0;
    bool ended = false, ordered = true;
    while (stream->Read(&event)) {
      ordered &= event.sequence() >= last;
      last = event.sequence();
      settled += event.has_settled() ? 1 : 0;
      ended |= event.has_ended();
    }
    const grpc::Status status = stream->Finish();
    INFO(status.error_message());
    CHECK(status.ok());
    CHECK(ordered);
    CHECK(ended);
    CHECK(settled == cluster.recorded.candidates.size() + 1);
  }
  for (int i = 0; i < 9; ++i) cluster.CheckUndisturbed(i % kReplicas, absl::StrCat("search-", i));

  // A full export, or one of a search, works on every replica.
  for (int replica = 0; replica < kReplicas; ++replica) {
    auto stub = cluster.Stub(replica);
    for (const std::string one : {"", "search-3"}) {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
      v1::ExportRequest request;
      request.set_search_id(one);
      auto stream = stub->Export(&context, request);
      std::set<std::string> exported;
      v1::ExportRecord record;
      int records = 0;
      while (stream->Read(&record)) {
        ++records;
        exported.insert(record.evaluation().request_id());
        CHECK(record.problem_name() == cluster.recorded.problem.name);
      }
      CHECK(stream->Finish().ok());
      const size_t each = cluster.recorded.candidates.size() + 1;
      CHECK(exported.size() == (one.empty() ? 9 * each : each));
      CHECK(static_cast<size_t>(records) == exported.size());
    }
    grpc::ClientContext context;
    v1::ExportRequest request;
    request.set_from_sequence(5);
    v1::ExportRecord record;
    auto stream = stub->Export(&context, request);
    CHECK(!stream->Read(&record));
    const grpc::Status refused = stream->Finish();
    CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
    CHECK_THAT(refused.error_message(), Catch::StartsWith("from_sequence: "));
    CHECK_THAT(refused.error_message(), Catch::Contains("search_id"));
    // An export of one search is valid.
    grpc::ClientContext again;
    request.set_search_id("search-3");
    auto one = stub->Export(&again, request);
    bool late = true;
    int records_left = 0;
    while (one->Read(&record)) {
      late = late && record.sequence() >= 5;
      ++records_left;
    }
    CHECK(one->Finish().ok());
    CHECK(late);
    CHECK(records_left > 0);
  }
  cluster.CheckLog();
  CHECK(cluster.Metric(elsewhere, "kernelcast_orchestrator_forwarded_calls_total") > 0);
  for (int i = 0; i < kReplicas; ++i) {
    CHECK(cluster.Metric(i, "kernelcast_orchestrator_shards_held") == kShards / kReplicas);
  }
  for (const auto& replica : cluster.replicas) CHECK(replica->Terminate() == 0);
}

TEST_CASE("A request received by several orchestrators is settled once") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster;
  constexpr int kRequests = 40;
  std::vector<std::thread> clients;
  std::vector<std::map<std::string, std::string>> replies(3 * kReplicas);
  std::atomic<int> failures = 0;
  for (int client = 0; client < 3 * kReplicas; ++client) {
    clients.emplace_back([&, client] {
      auto stub = cluster.Stub(client % kReplicas);
      auto& got = replies[static_cast<size_t>(client)];
      if (client < kReplicas) {
        for (int i = 0; i < kRequests; ++i) {
          v1::EvaluateReply reply;
          const auto request =
              cluster.Evaluation(absl::StrCat("request-", i), static_cast<size_t>(i));
          if (!Insist([&](auto* context) {
                 return stub->Evaluate(context, request, &reply);
               }).ok()) {
            ++failures;
          }
          got[reply.request_id()] = reply.evaluation().SerializeAsString();
        }
        return;
      }
      // The same over a stream, with one request per message and with all in one.
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
      const auto settled = [&](const v1::EvaluateReply& reply) {
        if (!reply.has_evaluation()) ++failures;
        got[reply.request_id()] = reply.evaluation().SerializeAsString();
      };
      if (client >= 2 * kReplicas) {
        auto stream = stub->EvaluateStream(&context);
        v1::EvaluateStreamRequest all;
        for (int i = 0; i < kRequests; ++i) {
          *all.add_requests() =
              cluster.Evaluation(absl::StrCat("request-", i), static_cast<size_t>(i));
        }
        stream->Write(all);
        stream->WritesDone();
        v1::EvaluateStreamReply answers;
        while (stream->Read(&answers)) {
          for (const v1::EvaluateReply& reply : answers.replies()) settled(reply);
        }
        if (!stream->Finish().ok()) ++failures;
        return;
      }
      auto stream = testing::OneByOne(stub->EvaluateStream(&context));
      for (int i = 0; i < kRequests; ++i) {
        stream->Write(cluster.Evaluation(absl::StrCat("request-", i), static_cast<size_t>(i)));
      }
      stream->WritesDone();
      v1::EvaluateReply reply;
      while (stream->Read(&reply)) settled(reply);
      if (!stream->Finish().ok()) ++failures;
    });
  }
  for (std::thread& client : clients) client.join();
  CHECK(failures == 0);
  for (const auto& got : replies) {
    CHECK(got.size() == kRequests);
    CHECK(got == replies.front());
  }
  CHECK(cluster.CheckLog().size() == kRequests);
}

TEST_CASE("Calls are forwarded over TLS with the orchestrator's own token", "[slow]") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster(/*lease_seconds=*/2, /*secured=*/true);
  for (int i = 0; i < kReplicas; ++i) cluster.StartSearch(i, absl::StrCat("search-", i));
  for (int search = 0; search < kReplicas; ++search) {
    for (int replica = 0; replica < kReplicas; ++replica) {
      cluster.CheckUndisturbed(replica, absl::StrCat("search-", search));
    }
  }
  auto stub = cluster.Stub(0);
  v1::ListSearchesReply page;
  REQUIRE(Insist([&](auto* context) {
            return stub->ListSearches(context, v1::ListSearchesRequest(), &page);
          }).ok());
  CHECK(page.searches_size() == kReplicas);
  // An unauthenticated request is not forwarded either.
  auto nobody = cluster.site->Channel();
  nobody.token_file.clear();
  auto channel = MakeChannel(cluster.replicas[0]->address(), nobody);
  Require(channel.status());
  grpc::ClientContext context;
  context.AddMetadata("kernelcast-shard", "0");
  CHECK(v1::Orchestrator::NewStub(*channel)
            ->ListSearches(&context, v1::ListSearchesRequest(), &page)
            .error_code() == grpc::StatusCode::UNAUTHENTICATED);
  CHECK(cluster.CheckLog().size() == kReplicas * (cluster.recorded.candidates.size() + 1));
}

TEST_CASE("A killed orchestrator's work is taken over and continues") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster;
  for (int i = 0; i < 5; ++i) cluster.StartSearch(i % kReplicas, absl::StrCat("search-", i));
  cluster.WaitMeasured(0, "search-0", 40);
  const int victim = cluster.HolderOf("search-0");
  REQUIRE(victim >= 0);
  const int other = (victim + 1) % kReplicas;

  // A call forwarded by another replica is answered even if the shard's holder dies.
  std::atomic<int> unanswered = 0;
  std::vector<std::thread> calls;
  for (int i = 0; i < 20; ++i) {
    calls.emplace_back([&, i] {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
      v1::EvaluateReply reply;
      const grpc::Status status = cluster.Stub(other)->Evaluate(
          &context, cluster.Evaluation(absl::StrCat("extra-", i), static_cast<size_t>(i)), &reply);
      if (!status.ok() || !reply.evaluation().has_measured()) ++unanswered;
    });
  }
  cluster.replicas[static_cast<size_t>(victim)]->Kill();
  for (std::thread& call : calls) call.join();
  CHECK(unanswered == 0);
  for (int i = 0; i < 5; ++i) cluster.CheckUndisturbed(other, absl::StrCat("search-", i));
  CHECK(cluster.HolderOf("search-0") != victim);
  CHECK(cluster.Metric(other, "kernelcast_orchestrator_shards_held") == kShards / 2);

  // The restarted replica gets its share.
  Require(cluster.replicas[static_cast<size_t>(victim)]->Start());
  CHECK(Eventually([&] {
    return cluster.Metric(victim, "kernelcast_orchestrator_shards_held") == kShards / kReplicas;
  }));
  cluster.CheckUndisturbed(victim, "search-0");
  cluster.CheckLog();
}

TEST_CASE("An orchestrator that sleeps through its lease writes nothing and rejoins", "[slow]") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.StartSearch(i, absl::StrCat("search-", i));
  cluster.WaitMeasured(0, "search-0", 40);
  const int sleeper = cluster.HolderOf("search-0");
  REQUIRE(sleeper >= 0);
  const int other = (sleeper + 1) % kReplicas;
  const pid_t pid = cluster.replicas[static_cast<size_t>(sleeper)]->pid();
  REQUIRE(kill(pid, SIGSTOP) == 0);
  const uint64_t before = cluster.GetSearch(other, "search-0").counts().measured();
  CHECK(Eventually([&] { return cluster.HolderOf("search-0") != sleeper; }));
  // The others continue meanwhile, and its stale ownership must not count when it wakes.
  CHECK(Eventually(
      [&] { return cluster.GetSearch(other, "search-0").counts().measured() > before; }));
  REQUIRE(kill(pid, SIGCONT) == 0);
  for (int i = 0; i < 3; ++i) cluster.CheckUndisturbed(i, absl::StrCat("search-", i));
  CHECK(Eventually([&] {
    return cluster.Metric(sleeper, "kernelcast_orchestrator_shards_held") == kShards / kReplicas;
  }));
  CHECK(cluster.Metric(sleeper, "kernelcast_orchestrator_shards_lost_total") > 0);
  cluster.CheckLog();
  for (int i = 0; i < kReplicas; ++i) {
    CHECK(cluster.replicas[static_cast<size_t>(i)]->Terminate() == 0);
  }
}

TEST_CASE("Searches survive a database crash and an administrator's shutdown", "[slow]") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster;
  for (int i = 0; i < 3; ++i) cluster.StartSearch(i, absl::StrCat("search-", i));
  for (const bool crash : {true, false, true}) {
    const uint64_t measured = cluster.GetSearch(0, "search-0").counts().measured();
    cluster.WaitMeasured(1, "search-0",
                         std::min<uint64_t>(measured + 40, cluster.recorded.candidates.size()));
    if (crash) {
      cluster.database.Crash();
    } else {
      cluster.database.Stop();
    }
    Require(cluster.database.Start());
  }
  for (int i = 0; i < 3; ++i) cluster.CheckUndisturbed(i, absl::StrCat("search-", i));
  cluster.CheckLog();
  for (int i = 0; i < kReplicas; ++i) {
    CHECK(cluster.replicas[static_cast<size_t>(i)]->Terminate() == 0);
  }
}

TEST_CASE("Metrics show that the database is away and which shards are unserved", "[slow]") {
  if (PostgresqlServer::Missing()) return;
  Cluster cluster;
  const std::string failed = "kernelcast_orchestrator_lease_renewals_total{result=\"failed\"}";
  const std::string renewed = "kernelcast_orchestrator_leases_renewed_timestamp_seconds";
  const auto all_well = [&](int replica, int alive) {
    return cluster.Metric(replica, "kernelcast_orchestrator_replicas") == alive &&
           cluster.Metric(replica, "kernelcast_orchestrator_shards_unserved") == 0;
  };
  for (int i = 0; i < kReplicas; ++i) {
    CHECK(Eventually([&] { return all_well(i, kReplicas); }));
    CHECK(cluster.Metric(i, failed) == 0);
  }
  cluster.database.Stop();
  const double failures = cluster.Metric(0, failed);
  CHECK(Eventually([&] { return cluster.Metric(0, failed) > failures + 2; }));
  // Its leases expire, and it does not know what the others serve.
  CHECK(Eventually([&] {
    return cluster.Metric(0, "kernelcast_orchestrator_shards_unserved") == kShards / kReplicas;
  }));
  const double last = cluster.Metric(0, renewed);
  CHECK(last > 0);
  Require(cluster.database.Start());
  for (int i = 0; i < kReplicas; ++i) CHECK(Eventually([&] { return all_well(i, kReplicas); }));
  CHECK(cluster.Metric(0, renewed) > last);
  // A lost replica is noticed once its leases have expired.
  cluster.replicas[2]->Kill();
  for (int i = 0; i < 2; ++i) CHECK(Eventually([&] { return all_well(i, 2); }));
}

TEST_CASE("A stopping orchestrator hands over immediately") {
  if (PostgresqlServer::Missing()) return;
  // The leases are too long to expire during the test.
  Cluster cluster(/*lease_seconds=*/600);
  for (int i = 0; i < 3; ++i) cluster.StartSearch(i, absl::StrCat("search-", i));
  cluster.WaitMeasured(0, "search-0", 40);
  const int leaver = cluster.HolderOf("search-0");
  REQUIRE(leaver >= 0);
  const int other = (leaver + 1) % kReplicas;
  // Clients watching there do not keep a shard, wherever the searches are. These searches do not
  // end.
  std::vector<std::string> followed;
  for (int i = 0; i < 6; ++i) {
    followed.push_back(absl::StrCat("open-", i));
    cluster.StartSearch(other, followed.back(), v1::GENERATOR_EXTERNAL);
  }
  std::vector<std::thread> followers;
  std::vector<grpc::StatusCode> ends(followed.size(), grpc::StatusCode::DO_NOT_USE);
  std::atomic<size_t> following = 0;
  for (size_t i = 0; i < followed.size(); ++i) {
    followers.emplace_back([&, i] {
      auto stub = cluster.Stub(leaver);
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + kTestLimit);
      v1::WatchSearchRequest request;
      request.set_search_id(followed[i]);
      auto stream = stub->WatchSearch(&context, request);
      v1::SearchEvent event;
      if (stream->Read(&event)) ++following;
      while (stream->Read(&event)) {
      }
      ends[i] = stream->Finish().error_code();
    });
  }
  CHECK(Eventually([&] { return following == followed.size(); }));
  const auto start = std::chrono::steady_clock::now();
  CHECK(cluster.replicas[static_cast<size_t>(leaver)]->Terminate() == 0);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));  // drain limit: 30 s
  for (std::thread& follower : followers) follower.join();
  for (const grpc::StatusCode end : ends) CHECK(end == grpc::StatusCode::UNAVAILABLE);
  for (int i = 0; i < 3; ++i) cluster.CheckUndisturbed(other, absl::StrCat("search-", i));
  CHECK(cluster.Number("SELECT count(*) FROM kernelcast_replicas") == kReplicas - 1);
  cluster.CheckLog();
}

TEST_CASE("Orchestrators and the database go away in any order without loss or duplication",
          "[chaos][slow]") {
  if (PostgresqlServer::Missing()) return;
  const auto seed =
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Cluster cluster(/*lease_seconds=*/1);
  for (int i = 0; i < 5; ++i) cluster.StartSearch(i % kReplicas, absl::StrCat("search-", i));

  constexpr int kRequests = 150;
  std::atomic<int> failures = 0, answered = 0;
  std::thread framework([&] {
    std::vector<std::unique_ptr<v1::Orchestrator::Stub>> stubs;
    for (int i = 0; i < kReplicas; ++i) stubs.push_back(cluster.Stub(i));
    for (int i = 0; i < kRequests; ++i) {
      const auto request = cluster.Evaluation(
          absl::StrCat("extra-", i), static_cast<size_t>(i) % cluster.recorded.candidates.size());
      // Two requests to different orchestrators get the same answer.
      v1::EvaluateReply replies[2];
      for (int ask = 0; ask < 2; ++ask) {
        const auto& stub = stubs[static_cast<size_t>((i + ask) % kReplicas)];
        const grpc::Status status =
            Insist([&](auto* context) { return stub->Evaluate(context, request, &replies[ask]); });
        if (!status.ok() || !replies[ask].evaluation().has_measured()) ++failures;
      }
      if (replies[0].SerializeAsString() != replies[1].SerializeAsString()) ++failures;
      ++answered;
    }
  });
  constexpr int kEnds = 16;
  std::map<std::string, int> ends;
  for (int end = 0; end < kEnds; ++end) {
    const int before = answered;
    const int until = std::min(
        kRequests, before + std::uniform_int_distribution<int>(1, kRequests / kEnds)(random));
    CHECK(Eventually([&] { return answered >= until; }));
    const int victim = std::uniform_int_distribution<int>(0, kReplicas - 1)(random);
    testing::Service& replica = *cluster.replicas[static_cast<size_t>(victim)];
    switch (std::uniform_int_distribution<int>(0, 4)(random)) {
      case 0:
        ++ends["killed"];
        replica.Kill();
        Require(replica.Start());
        break;
      case 1:
        ++ends["stopped"];
        CHECK(replica.Terminate() == 0);
        Require(replica.Start());
        break;
      case 2: {
        ++ends["asleep"];
        const std::string held = absl::StrCat(
            "SELECT count(*) FROM kernelcast_shards WHERE address = '", replica.address(), "'");
        REQUIRE(kill(replica.pid(), SIGSTOP) == 0);
        CHECK(Eventually([&] { return cluster.Number(held) == 0; }));
        REQUIRE(kill(replica.pid(), SIGCONT) == 0);
        break;
      }
      case 3:
        ++ends["database crashed"];
        cluster.database.Crash();
        Require(cluster.database.Start());
        break;
      default:
        ++ends["database restarted"];
        cluster.database.Stop();
        Require(cluster.database.Start());
    }
  }
  framework.join();
  CHECK(failures == 0);
  for (int i = 0; i < 5; ++i) cluster.CheckUndisturbed(i % kReplicas, absl::StrCat("search-", i));
  const std::map<std::string, int> accepted = cluster.CheckLog();
  for (int i = 0; i < kRequests; ++i) CHECK(accepted.contains(absl::StrCat("extra-", i)));
  for (const auto& replica : cluster.replicas) CHECK(replica->Terminate() == 0);
  std::string text;
  for (const auto& [what, count] : ends) absl::StrAppend(&text, what, " ", count, ", ");
  WARN(text << accepted.size() << " evaluations");
}

}  // namespace
}  // namespace kernelcast::replicas_test
