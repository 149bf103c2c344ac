// Kills real processes at random moments of a search and checks that nothing accepted is lost,
// nothing is settled twice, and a restarted orchestrator has the state of the killed one.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "common/convert/convert.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "services/orchestrator/core/state.h"
#include "services/orchestrator/store/sqlite_event_store.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast {
namespace {

using orchestrator::EvaluationAccepted;
using orchestrator::EvaluationSettled;
using orchestrator::SqliteEventStore;
using orchestrator::State;
using orchestrator::StoredEvent;

constexpr auto kCallLimit = std::chrono::seconds(20);
constexpr auto kTestLimit = std::chrono::seconds(150);
constexpr int kKills = 24;
constexpr int kExternal = 120;

struct Cluster {
  Cluster()
      : folder("chaos"),
        recorded(testing::MakeRecordedProblem(24, 16)),
        records([this] {
          testing::WriteRecords(recorded, folder.File("records.jsonl"));
          return folder.File("records.jsonl");
        }()),
        worker("kernelcast-worker", {"--replay", records, "--cache-dir", folder.File("cache")},
               folder),
        forecaster("kernelcast-forecaster", {"--state-dir", folder.File("forecaster")}, folder) {
    Require(worker.Start());
    Require(forecaster.Start());
    orchestrator = std::make_unique<testing::Service>(
        "kernelcast-orchestrator",
        std::vector<std::string>{"--state-dir", folder.File("orchestrator"), "--worker",
                                 worker.address(), "--forecaster", forecaster.address(),
                                 "--confirm", "2"},
        folder);
    Require(orchestrator->Start());
  }

  static void Require(const absl::Status& status) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }

  std::unique_ptr<v1::Orchestrator::Stub> Stub() const {
    return v1::Orchestrator::NewStub(
        grpc::CreateChannel(orchestrator->address(), grpc::InsecureChannelCredentials()));
  }

  std::string LogPath() const { return folder.File("orchestrator") + "/orchestrator.db"; }

  testing::TemporaryFolder folder;
  testing::RecordedProblem recorded;
  std::string records;
  testing::Service worker;
  testing::Service forecaster;
  std::unique_ptr<testing::Service> orchestrator;
};

// Retries until the service answers; a restarting service does not count as an answer.
template <class Call>
grpc::Status Insist(const Call& call) {
  const auto limit = std::chrono::steady_clock::now() + kTestLimit;
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
           std::chrono::steady_clock::now() < limit);
  return status;
}

// Digest of the orchestrator's state on disk after event `sequence`.
std::string DigestOnDisk(const std::string& log, uint64_t sequence) {
  auto store = SqliteEventStore::Open(log);
  REQUIRE(store.ok());
  State state;
  std::string digest;
  REQUIRE((*store)
              ->Replay(1,
                       [&](StoredEvent stored) {
                         absl::Status applied = state.Apply(stored);
                         if (stored.sequence == sequence) digest = state.DigestHash();
                         return applied;
                       })
              .ok());
  return digest;
}

TEST_CASE("Killing any process at any moment loses nothing and settles nothing twice") {
  const auto seed =
      static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  Cluster cluster;
  auto stub = cluster.Stub();

  v1::PutProblemReply put;
  REQUIRE(Insist([&](grpc::ClientContext& context) {
            v1::PutProblemRequest request;
            *request.mutable_problem() = ProblemFilesToProto(cluster.recorded.problem);
            return stub->PutProblem(&context, request, &put);
          }).ok());
  REQUIRE(Insist([&](grpc::ClientContext& context) {
            v1::StartSearchRequest request;
            request.set_search_id("chaos");
            auto* spec = request.mutable_spec();
            spec->set_problem_id(cluster.recorded.problem.problem_id);
            spec->set_target("cpu");
            spec->set_generator(v1::GENERATOR_TEMPLATE);
            spec->mutable_budget()->set_max_measurements(120);
            spec->set_seed(seed);
            v1::StartSearchReply reply;
            return stub->StartSearch(&context, request, &reply);
          }).ok());

  // A framework evaluates concurrently with the search and retries lost calls under the same id.
  std::atomic<int> external_failures = 0;
  std::thread framework([&] {
    auto own_stub = cluster.Stub();
    for (int i = 0; i < kExternal; ++i) {
      v1::EvaluateRequest request;
      request.set_request_id("external/" + std::to_string(i));
      request.set_mode(v1::EVALUATE_MODE_MEASURE);
      *request.mutable_candidate() = ToProto(
          cluster.recorded.candidates[static_cast<size_t>(i) % cluster.recorded.candidates.size()]);
      v1::EvaluateReply first, second;
      for (v1::EvaluateReply* reply : {&first, &second}) {
        const grpc::Status status = Insist([&](grpc::ClientContext& context) {
          return own_stub->Evaluate(&context, request, reply);
        });
        if (!status.ok() || !reply->evaluation().has_measured()) ++external_failures;
      }
      if (first.evaluation().SerializeAsString() != second.evaluation().SerializeAsString()) {
        ++external_failures;
      }
    }
  });

  auto describe = [&](bool digest, v1::OrchestratorDescription& description) {
    return Insist([&](grpc::ClientContext& context) {
      v1::OrchestratorDescribeRequest request;
      request.set_include_state_digest(digest);
      return stub->Describe(&context, request, &description);
    });
  };
  int digests_compared = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    // Kills after a few more events, or once there is no progress.
    v1::OrchestratorDescription description;
    REQUIRE(describe(false, description).ok());
    const uint64_t until = description.events() + std::uniform_int_distribution<int>(1, 60)(random);
    for (int polls = 0; polls < 200 && description.events() < until; ++polls) {
      REQUIRE(describe(false, description).ok());
    }
    testing::Service* const victims[] = {&cluster.worker, &cluster.forecaster,
                                         cluster.orchestrator.get()};
    testing::Service* const victim = victims[std::uniform_int_distribution<size_t>(0, 2)(random)];
    if (victim == cluster.orchestrator.get()) {
      REQUIRE(describe(true, description).ok());
      victim->Kill();
      CHECK(DigestOnDisk(cluster.LogPath(), description.state_sequence()) ==
            description.state_digest());
      ++digests_compared;
    } else {
      victim->Kill();
    }
    Cluster::Require(victim->Start());
  }
  framework.join();
  CHECK(external_failures == 0);

  v1::GetSearchReply search;
  const auto limit = std::chrono::steady_clock::now() + kTestLimit;
  do {
    REQUIRE(Insist([&](grpc::ClientContext& context) {
              v1::GetSearchRequest request;
              request.set_search_id("chaos");
              return stub->GetSearch(&context, request, &search);
            }).ok());
  } while (search.searches(0).status() != v1::SEARCH_STATUS_DONE &&
           std::chrono::steady_clock::now() < limit);
  REQUIRE(search.searches(0).status() == v1::SEARCH_STATUS_DONE);
  CHECK(search.searches(0).counts().measured() <= 120);
  REQUIRE(search.searches(0).has_confirmed_best());
  CHECK(search.searches(0).confirmed_best().measurement().ok().speedup().value() >=
        0.95 * cluster.recorded.best_speedup);

  CHECK(cluster.orchestrator->Terminate() == 0);
  CHECK(cluster.forecaster.Terminate() == 0);
  CHECK(cluster.worker.Terminate() == 0);

  auto store = SqliteEventStore::Open(cluster.LogPath());
  REQUIRE(store.ok());
  std::map<std::string, int> accepted, settled;
  REQUIRE((*store)
              ->Replay(1,
                       [&](StoredEvent stored) {
                         if (auto* a = std::get_if<EvaluationAccepted>(&stored.event.body)) {
                           ++accepted[a->request_id];
                         }
                         if (auto* s = std::get_if<EvaluationSettled>(&stored.event.body)) {
                           ++settled[s->request_id];
                         }
                         return absl::OkStatus();
                       })
              .ok());
  CHECK(accepted.size() == settled.size());
  for (const auto& [id, count] : accepted) {
    INFO(id);
    CHECK(count == 1);
    CHECK(settled[id] == 1);
  }
  for (int i = 0; i < kExternal; ++i) CHECK(accepted.contains("external/" + std::to_string(i)));
  WARN(kKills << " kills, " << digests_compared << " digests compared, " << accepted.size()
              << " evaluations");
}

}  // namespace
}  // namespace kernelcast
