// Tests the orchestrator with several worker and forecaster processes.

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/metrics_page.h"
#include "tests/support/one_by_one.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::scale_out_test {
namespace {

using testing::Eventually;
using testing::Service;

void Require(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

template <class Stub, class F>
grpc::Status Call(const Stub&, const F& call) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return call(&context);
}

class ScaledCluster {
 public:
  // Each worker measures one candidate at a time, taking `pace` times half a second.
  ScaledCluster(const std::vector<int>& measure_credits, int forecasters, const std::string& pace)
      : folder_("scale-out"), recorded_(testing::MakeRecordedProblem(12, 8)) {
    testing::WriteRecords(recorded_, folder_.File("records.jsonl"));
    std::vector<std::string> arguments = {"--state-dir", folder_.File("orchestrator"), "--confirm",
                                          "1"};
    for (const int credits : measure_credits) {
      const std::string name = absl::StrCat("worker-", workers_.size());
      workers_.push_back(std::make_unique<Service>(
          "kernelcast-worker",
          std::vector<std::string>{"--replay", folder_.File("records.jsonl"), "--replay-pace", pace,
                                   "--cache-dir", folder_.File(name), "--measure-credits",
                                   absl::StrCat(credits)},
          folder_, testing::ServiceSite{.name = name, .launcher = {}}));
      Require(workers_.back()->Start());
      arguments.insert(arguments.end(), {"--worker", workers_.back()->address()});
    }
    for (int i = 0; i < forecasters; ++i) {
      const std::string name = absl::StrCat("forecaster-", i);
      forecasters_.push_back(std::make_unique<Service>(
          "kernelcast-forecaster", std::vector<std::string>{"--state-dir", folder_.File(name)},
          folder_, testing::ServiceSite{.name = name, .launcher = {}}));
      Require(forecasters_.back()->Start());
      arguments.insert(arguments.end(), {"--forecaster", forecasters_.back()->address()});
    }
    orchestrator_ = std::make_unique<Service>("kernelcast-orchestrator", arguments, folder_);
    Require(orchestrator_->Start());
    stub_ = v1::Orchestrator::NewStub(
        grpc::CreateChannel(orchestrator_->address(), grpc::InsecureChannelCredentials()));
    v1::PutProblemRequest request;
    *request.mutable_problem() = ProblemFilesToProto(recorded_.problem);
    v1::PutProblemReply reply;
    REQUIRE(Call(stub_, [&](auto* c) { return stub_->PutProblem(c, request, &reply); }).ok());
    REQUIRE(Eventually([&] {
      const v1::OrchestratorDescription description = Describe();
      for (const auto& worker : description.workers()) {
        if (!worker.healthy()) return false;
      }
      for (const auto& forecaster : description.forecasters()) {
        if (!forecaster.healthy()) return false;
      }
      return true;
    }));
  }

  v1::OrchestratorDescription Describe() {
    v1::OrchestratorDescription description;
    REQUIRE(Call(stub_, [&](auto* c) { return stub_->Describe(c, {}, &description); }).ok());
    return description;
  }
  uint32_t InFlight(size_t worker) {
    const auto stub = v1::Worker::NewStub(
        grpc::CreateChannel(workers_[worker]->address(), grpc::InsecureChannelCredentials()));
    v1::WorkerDescription description;
    REQUIRE(Call(stub, [&](auto* c) { return stub->Describe(c, {}, &description); }).ok());
    return description.measures_in_flight();
  }
  uint64_t Labels(size_t forecaster) {
    const auto stub = v1::Forecaster::NewStub(grpc::CreateChannel(
        forecasters_[forecaster]->address(), grpc::InsecureChannelCredentials()));
    v1::ForecasterDescription description;
    REQUIRE(Call(stub, [&](auto* c) { return stub->Describe(c, {}, &description); }).ok());
    return description.labels();
  }
  double Metric(const std::string& series) {
    const auto page = testing::MetricsPage::Fetch(orchestrator_->metrics_port());
    REQUIRE(page.ok());
    return page->Value(series);
  }

  testing::TemporaryFolder folder_;
  testing::RecordedProblem recorded_;
  std::vector<std::unique_ptr<Service>> workers_;
  std::vector<std::unique_ptr<Service>> forecasters_;
  std::unique_ptr<Service> orchestrator_;
  std::unique_ptr<v1::Orchestrator::Stub> stub_;
};

// Requests measurements of the first `count` candidates on one stream.
class Evaluations {
 public:
  Evaluations(ScaledCluster& cluster, int count) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(100));
    stream_ = testing::OneByOne(cluster.stub_->EvaluateStream(&context_));
    for (int i = 0; i < count; ++i) {
      v1::EvaluateRequest request;
      request.set_request_id(absl::StrCat("r", i));
      request.set_mode(v1::EVALUATE_MODE_MEASURE);
      *request.mutable_candidate() = ToProto(cluster.recorded_.candidates[static_cast<size_t>(i)]);
      REQUIRE(stream_->Write(request));
    }
    stream_->WritesDone();
  }
  // Returns how many were measured exactly once.
  size_t WaitForAll() {
    std::set<std::string> measured;
    v1::EvaluateReply reply;
    while (stream_->Read(&reply)) {
      if (reply.evaluation().has_measured()) CHECK(measured.insert(reply.request_id()).second);
    }
    CHECK(stream_->Finish().ok());
    return measured.size();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<testing::OneByOneStream<v1::EvaluateStreamRequest, v1::EvaluateStreamReply>>
      stream_;
};

TEST_CASE("Workers have as many jobs under way as credits, however long the queue is") {
  ScaledCluster cluster({2, 6}, 1, "0.5");
  Evaluations evaluations(cluster, 24);
  CHECK(Eventually([&] { return cluster.InFlight(0) == 2 && cluster.InFlight(1) == 6; }));
  CHECK(evaluations.WaitForAll() == 24);
}

TEST_CASE("A stopping worker hands back its queued jobs and others measure them") {
  ScaledCluster cluster({6, 6}, 1, "1");
  Evaluations evaluations(cluster, 14);
  REQUIRE(Eventually([&] { return cluster.InFlight(0) == 6 && cluster.InFlight(1) == 6; }));
  CHECK(cluster.workers_[0]->Terminate() == 0);
  CHECK(evaluations.WaitForAll() == 14);
  // It finished its running job. Metrics are polled once per second.
  const std::string repeated = "kernelcast_orchestrator_worker_calls_repeated_total{reason=";
  CHECK(Eventually([&] { return cluster.Metric(repeated + "\"handed_back\"}") >= 4; }));
  CHECK(cluster.Metric(repeated + "\"lost\"}") == 0);
  CHECK(cluster.Metric(repeated + "\"failed\"}") == 0);
}

TEST_CASE(
    "Every forecaster gets every label, including one that was away, and a search keeps its own") {
  ScaledCluster cluster({4, 4}, 3, "0");
  cluster.forecasters_[1]->Kill();
  v1::StartSearchRequest request;
  request.set_search_id("s1");
  request.mutable_spec()->set_problem_id(cluster.recorded_.problem.problem_id);
  request.mutable_spec()->set_target("cpu");
  request.mutable_spec()->set_generator(v1::GENERATOR_TEMPLATE);
  request.mutable_spec()->mutable_budget()->set_max_measurements(30);
  v1::StartSearchReply started;
  REQUIRE(Call(cluster.stub_, [&](auto* c) {
            return cluster.stub_->StartSearch(c, request, &started);
          }).ok());
  REQUIRE(Eventually([&] {
    v1::GetSearchRequest get;
    get.set_search_id("s1");
    v1::GetSearchReply got;
    REQUIRE(
        Call(cluster.stub_, [&](auto* c) { return cluster.stub_->GetSearch(c, get, &got); }).ok());
    return got.searches(0).status() == v1::SEARCH_STATUS_DONE;
  }));
  REQUIRE(
      Eventually([&] { return cluster.Labels(0) > 0 && cluster.Labels(0) == cluster.Labels(2); }));
  const uint64_t pending = cluster.Describe().forecasters(1).pending_labels();
  CHECK(pending > 0);
  CHECK(Eventually([&] { return cluster.Describe().forecasters(0).pending_labels() == 0; }));
  Require(cluster.forecasters_[1]->Start());
  CHECK(Eventually([&] { return cluster.Describe().forecasters(1).pending_labels() == 0; }));
  CHECK(Eventually([&] { return cluster.Labels(1) == cluster.Labels(0); }));
  CHECK(Eventually([&] { return cluster.Metric("kernelcast_orchestrator_pending_labels") == 0; }));
}

}  // namespace
}  // namespace kernelcast::scale_out_test
