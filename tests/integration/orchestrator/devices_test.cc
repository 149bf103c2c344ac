// Tests one orchestrator process with worker pools of two device models that rank kernels
// differently.

#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing::devices_test {
namespace {

using Catch::Contains;

int Block(const Candidate& candidate) {
  for (const Tunable& tunable : candidate.tunables) {
    if (tunable.name == "BLOCK") return std::atoi(tunable.value.c_str());
  }
  return 0;
}

// Large blocks are fast on one device, small ones on the other.
double PlantedSpeedup(const Candidate& candidate, bool large) {
  return 3 * std::exp2(-0.3 * std::abs(Block(candidate) - (large ? 8 : 1)));
}

struct Pools {
  Pools() : folder("devices"), recorded(MakeRecordedProblem(8, 3)) {
    forecaster = std::make_unique<Service>(
        "kernelcast-forecaster",
        std::vector<std::string>{"--state-dir", folder.File("forecaster"), "--prior", "none"},
        folder);
    Require(forecaster->Start());
    std::vector<std::string> arguments = {"--state-dir",
                                          folder.File("orchestrator"),
                                          "--forecaster",
                                          forecaster->address(),
                                          "--confirm",
                                          "1",
                                          "--device-grace-seconds",
                                          "1"};
    for (const bool large : {false, true}) {
      const std::string records = folder.File(large ? "large.jsonl" : "small.jsonl");
      RecordOptions options;
      options.speedup = [large](const Candidate& candidate) {
        return PlantedSpeedup(candidate, large);
      };
      options.device_model = large ? "Planted L" : "Planted S";
      WriteRecords(recorded, records, options);
      std::unique_ptr<Service>& worker = large ? large_worker : small_worker;
      worker = std::make_unique<Service>(
          "kernelcast-worker",
          std::vector<std::string>{"--replay", records, "--cache-dir",
                                   folder.File(large ? "cache-l" : "cache-s")},
          folder, ServiceSite{.name = large ? "worker-large" : "worker-small", .launcher = {}});
      Require(worker->Start());
      arguments.insert(arguments.end(), {"--worker", worker->address()});
    }
    orchestrator = std::make_unique<Service>("kernelcast-orchestrator", arguments, folder);
    Require(orchestrator->Start());
    stub = v1::Orchestrator::NewStub(
        grpc::CreateChannel(orchestrator->address(), grpc::InsecureChannelCredentials()));
    v1::PutProblemRequest put;
    *put.mutable_problem() = ProblemFilesToProto(recorded.problem);
    v1::PutProblemReply reply;
    RequireOk([&](auto* context) { return stub->PutProblem(context, put, &reply); });
    REQUIRE(Eventually([&] { return Describe().devices_size() == 2; }));
  }

  static void Require(const absl::Status& status) {
    INFO(status.ToString());
    REQUIRE(status.ok());
  }
  template <class F>
  static void RequireOk(const F& call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const grpc::Status status = call(&context);
    INFO(status.error_message());
    REQUIRE(status.ok());
  }
  v1::OrchestratorDescription Describe() {
    v1::OrchestratorDescription description;
    RequireOk([&](auto* context) { return stub->Describe(context, {}, &description); });
    return description;
  }
  v1::GetSearchReply Get(const std::string& id) {
    v1::GetSearchRequest request;
    request.set_search_id(id);
    v1::GetSearchReply reply;
    RequireOk([&](auto* context) { return stub->GetSearch(context, request, &reply); });
    return reply;
  }
  v1::Search AwaitEnd(const std::string& id) {
    v1::Search search;
    REQUIRE(Eventually([&] {
      search = Get(id).searches(0);
      return search.has_ended_at();
    }));
    return search;
  }
  v1::StartSearchRequest Search(const std::vector<std::string>& models) const {
    v1::StartSearchRequest request;
    request.set_search_id("s");
    v1::SearchSpec& spec = *request.mutable_spec();
    spec.set_problem_id(recorded.problem.problem_id);
    spec.set_target("cpu");
    spec.set_generator(v1::GENERATOR_TEMPLATE);
    spec.mutable_budget()->set_max_measurements(12);
    spec.set_seed(5);
    for (const std::string& model : models) spec.add_device_models(model);
    return request;
  }

  TemporaryFolder folder;
  RecordedProblem recorded;
  std::unique_ptr<Service> forecaster, small_worker, large_worker, orchestrator;
  std::unique_ptr<v1::Orchestrator::Stub> stub;
};

TEST_CASE("Searches on two device models name the right kernel for each") {
  Pools pools;
  v1::StartSearchReply started;
  const v1::StartSearchRequest request = pools.Search({"Planted S", "Planted L"});
  Pools::RequireOk(
      [&](auto* context) { return pools.stub->StartSearch(context, request, &started); });
  REQUIRE(started.searches_size() == 2);
  for (const bool large : {false, true}) {
    const v1::Search search = pools.AwaitEnd(large ? "s@planted-l" : "s@planted-s");
    INFO(search.end_reason());
    CHECK(search.device_model() == (large ? "Planted L" : "Planted S"));
    REQUIRE(search.has_confirmed_best());
    CHECK(search.confirmed_best().measurement().device().model() == search.device_model());
    const Candidate best = FromProto(search.confirmed_best().candidate()).value();
    CHECK(Block(best) == (large ? 8 : 1));
    CHECK(search.counts().measured() <= 12);
  }
  CHECK(pools.Get("s").searches_size() == 2);

  // One id covers both searches: their events are exported in log order, and an interrupted export
  // resumes.
  const auto exported = [&](const std::string& id, uint64_t from) {
    v1::ExportRequest export_request;
    export_request.set_search_id(id);
    export_request.set_from_sequence(from);
    grpc::ClientContext context;
    const auto reader = pools.stub->Export(&context, export_request);
    std::map<uint64_t, std::string> searches;
    uint64_t last = 0;
    for (v1::ExportRecord record; reader->Read(&record);) {
      CHECK(record.sequence() > last);
      last = record.sequence();
      searches[last] = record.evaluation().search_id();
    }
    CHECK(reader->Finish().ok());
    return searches;
  };
  std::map<uint64_t, std::string> parts = exported("s@planted-l", 0);
  parts.merge(exported("s@planted-s", 0));
  CHECK(parts.size() > 20);
  CHECK(exported("s", 0) == parts);
  const uint64_t middle = std::next(parts.begin(), static_cast<long>(parts.size() / 2))->first;
  parts.erase(parts.begin(), parts.find(middle));
  CHECK(exported("s", middle) == parts);

  // Events belong to one search, so the error names both.
  v1::WatchSearchRequest watch;
  watch.set_search_id("s");
  grpc::ClientContext context;
  const auto events = pools.stub->WatchSearch(&context, watch);
  v1::SearchEvent event;
  CHECK_FALSE(events->Read(&event));
  const grpc::Status refused = events->Finish();
  CHECK(refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(refused.error_message(), Contains("s@planted-l, s@planted-s"));
}

TEST_CASE("A candidate is measured independently on each requested device model") {
  Pools pools;
  v1::EvaluateRequest request;
  request.set_request_id("r");
  request.set_mode(v1::EVALUATE_MODE_MEASURE);
  *request.mutable_candidate() = ToProto(pools.recorded.candidates.front());
  request.add_device_models("Planted L");
  request.add_device_models("Planted S");
  v1::EvaluateReply reply;
  Pools::RequireOk([&](auto* context) { return pools.stub->Evaluate(context, request, &reply); });
  CHECK(reply.request_id() == "r");
  REQUIRE(reply.further_size() == 1);
  CHECK(reply.evaluation().device_model() == "Planted L");
  CHECK(reply.evaluation().measured().device().model() == "Planted L");
  CHECK(reply.further(0).measured().device().model() == "Planted S");
  const Candidate& first = pools.recorded.candidates.front();
  CHECK(reply.evaluation().measured().ok().speedup().value() ==
        Approx(PlantedSpeedup(first, true)));
  CHECK(reply.further(0).measured().ok().speedup().value() == Approx(PlantedSpeedup(first, false)));
}

TEST_CASE("A search on an absent device fails within seconds and lists the available devices") {
  Pools pools;
  v1::StartSearchReply started;
  const v1::StartSearchRequest request = pools.Search({"NVIDIA H200"});
  Pools::RequireOk(
      [&](auto* context) { return pools.stub->StartSearch(context, request, &started); });
  const v1::Search search = pools.AwaitEnd("s");
  CHECK(search.status() == v1::SEARCH_STATUS_FAILED);
  CHECK_THAT(search.end_reason(), Contains("no worker measures cpu on NVIDIA H200") &&
                                      Contains("cpu on Planted L") && Contains("cpu on Planted S"));
}

TEST_CASE(
    "A search whose worker is gone shows that it waits, and stop ends it even after a restart") {
  Pools pools;
  v1::StartSearchRequest request = pools.Search({"Planted L"});
  request.mutable_spec()->set_generator(v1::GENERATOR_EXTERNAL);
  v1::StartSearchReply started;
  Pools::RequireOk(
      [&](auto* context) { return pools.stub->StartSearch(context, request, &started); });
  CHECK(started.searches(0).device_model() == "Planted L");
  pools.large_worker->Kill();
  REQUIRE(Eventually([&] { return pools.Get("s").searches(0).has_waiting(); }));
  CHECK_THAT(pools.Get("s").searches(0).waiting().reason(),
             Contains("no worker measures cpu on Planted L"));
  pools.orchestrator->Kill();
  Pools::Require(pools.orchestrator->Start());
  REQUIRE(Eventually([&] {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    v1::GetSearchRequest get;
    get.set_search_id("s");
    v1::GetSearchReply reply;
    return pools.stub->GetSearch(&context, get, &reply).ok() && reply.searches(0).has_waiting();
  }));
  CHECK(pools.Get("s").searches(0).status() == v1::SEARCH_STATUS_RUNNING);
  v1::StopSearchRequest stop;
  stop.set_search_id("s");
  v1::StopSearchReply stopped;
  Pools::RequireOk([&](auto* context) { return pools.stub->StopSearch(context, stop, &stopped); });
  CHECK(pools.AwaitEnd("s").end_reason() == "stopped");
}

}  // namespace
}  // namespace kernelcast::testing::devices_test
