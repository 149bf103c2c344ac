// Routes a stream of Python candidates on a recorded GPU node, with real services.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/convert/convert.h"
#include "common/domain/facts.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/recorded_problem.h"
#include "tests/support/services.h"

namespace kernelcast::testing::python_routing_test {
namespace {

constexpr const char* kModel = "NVIDIA H200";
constexpr int kCandidates = 32;
constexpr double kReferenceNs = 50'000;
// Of the simulation, in octaves. Half of the candidates of a task are off by less than a third.
constexpr double kEstimateError = 0.35;

constexpr const char* kTask = R"(
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)

def get_inputs():
    return [torch.randn(4096, 4096)]

def get_init_inputs():
    return []
)";

// Facts of a Python candidate whose launch was recorded, with this estimate.
CompileFacts FactsOf(double estimated_ns, const std::string& not_recorded) {
  const FactSchema& schema = *FindFactSchema(kPythonSourceSchemaId).value();
  CompileFacts facts{std::string(schema.id), std::vector<double>(schema.names.size(), 1.0)};
  ShapeSimulation& simulation = facts.simulations.emplace_back();
  simulation.schema = std::string(kCudaSimulationSchemaId);
  simulation.gpu = kModel;
  LaunchSimulation& launch = simulation.launches.emplace_back();
  launch.kernel = "kernel";
  launch.not_covered = not_recorded;
  if (!not_recorded.empty()) return facts;
  const auto& names = (*FindSimulationSchema(simulation.schema))->names;
  launch.values.assign(names.size(), 1.0);
  launch.values[static_cast<size_t>(std::ranges::find(names, "estimated_ns") - names.begin())] =
      estimated_ns;
  return facts;
}

// A node that measures kCandidates candidates of a task, as recorded.
class Node {
 public:
  explicit Node(const std::string& not_recorded, unsigned seed) : folder_("python-routing") {
    recorded_.files = {{"task.py", kTask}};
    recorded_.problem = ParseProblem(recorded_.files).value();
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::map<std::string, double> estimated_ns;
    for (int i = 0; i < kCandidates; ++i) {
      Candidate candidate = ReferenceCandidate(recorded_.problem, kCudaTargetName).value();
      candidate.source = absl::StrCat("class ModelNew:\n    pass  # ", i, "\n");
      candidate.candidate_id = CandidateId(candidate);
      const double log2_speedup = 0.9 * normal(random);
      speedups_[candidate.candidate_id] = std::exp2(log2_speedup);
      estimated_ns[candidate.candidate_id] =
          kReferenceNs * std::exp2(-log2_speedup + kEstimateError * normal(random));
      recorded_.candidates.push_back(std::move(candidate));
    }
    WriteRecords(recorded_, folder_.File("records.jsonl"),
                 {.speedup = [&](const Candidate& one) { return speedups_.at(one.candidate_id); },
                  .facts =
                      [&](const Candidate* one) {
                        return FactsOf(
                            one == nullptr ? kReferenceNs : estimated_ns.at(one->candidate_id),
                            not_recorded);
                      },
                  .device_model = kModel});
    Start(worker_, "kernelcast-worker",
          {"--replay", folder_.File("records.jsonl"), "--replay-pace", "0.02", "--cache-dir",
           folder_.File("cache")});
    Start(forecaster_, "kernelcast-forecaster", {"--state-dir", folder_.File("forecaster")});
    Start(orchestrator_, "kernelcast-orchestrator",
          {"--state-dir", folder_.File("orchestrator"), "--worker", worker_->address(),
           "--forecaster", forecaster_->address()});
    stub_ = v1::Orchestrator::NewStub(
        grpc::CreateChannel(orchestrator_->address(), grpc::InsecureChannelCredentials()));
    v1::PutProblemRequest put;
    *put.mutable_problem() = ProblemFilesToProto(recorded_.problem);
    v1::PutProblemReply reply;
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    REQUIRE(stub_->PutProblem(&context, put, &reply).ok());
  }

  // Sends all candidates on one stream. Returns their evaluations by candidate.
  std::map<std::string, v1::Evaluation> RouteAll() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    const auto stream = stub_->EvaluateStream(&context);
    v1::EvaluateStreamRequest message;
    for (const Candidate& candidate : recorded_.candidates) {
      v1::EvaluateRequest& request = *message.add_requests();
      request.set_request_id(absl::StrCat("r", message.requests_size()));
      request.set_mode(v1::EVALUATE_MODE_ROUTE);
      *request.mutable_candidate() = ToProto(candidate);
    }
    REQUIRE(stream->Write(message));
    stream->WritesDone();
    std::map<std::string, v1::Evaluation> evaluations;
    v1::EvaluateStreamReply replies;
    while (stream->Read(&replies)) {
      for (const v1::EvaluateReply& reply : replies.replies()) {
        INFO(reply.error().message());
        REQUIRE(reply.has_evaluation());
        evaluations[reply.evaluation().candidate_id()] = reply.evaluation();
      }
    }
    const grpc::Status end = stream->Finish();
    INFO(end.error_message());
    REQUIRE(end.ok());
    REQUIRE(evaluations.size() == recorded_.candidates.size());
    return evaluations;
  }

  const std::map<std::string, double>& speedups() const { return speedups_; }
  double best() const {
    double best = 0;
    for (const auto& [id, speedup] : speedups_) best = std::max(best, speedup);
    return best;
  }

 private:
  void Start(std::unique_ptr<Service>& service, const std::string& program,
             const std::vector<std::string>& arguments) {
    service = std::make_unique<Service>(program, arguments, folder_);
    const absl::Status started = service->Start();
    INFO(started.ToString());
    REQUIRE(started.ok());
  }

  TemporaryFolder folder_;
  RecordedProblem recorded_;
  std::map<std::string, double> speedups_;
  std::unique_ptr<Service> worker_, forecaster_, orchestrator_;
  std::unique_ptr<v1::Orchestrator::Stub> stub_;
};

TEST_CASE("Python candidates with recorded launches are pruned on a GPU node, and the best kept") {
  constexpr unsigned kSeeds = 3;
  int measured = 0;
  double found = 0;
  for (unsigned seed = 1; seed <= kSeeds; ++seed) {
    Node node("", seed);
    double best = 0;
    for (const auto& [id, evaluation] : node.RouteAll()) {
      CHECK(evaluation.device_model() == kModel);
      if (evaluation.has_measured()) {
        ++measured;
        best = std::max(best, node.speedups().at(id));
        continue;
      }
      REQUIRE(evaluation.has_forecast());
      CHECK(evaluation.decision().kind() == v1::DECISION_KIND_PRUNE);
      CHECK(evaluation.forecast().basis() == v1::FORECAST_BASIS_RECORDING);
    }
    found += best / node.best() / kSeeds;
  }
  std::printf("recorded Python candidates: %d of %u measured, %.3f of the best found\n", measured,
              kSeeds * kCandidates, found);
  CHECK(measured <= 0.65 * kSeeds * kCandidates);
  CHECK(found >= 0.97);
}

TEST_CASE("Python candidates that are not recorded are all measured") {
  Node node("reads values of a tensor (item)", 1);
  for (const auto& [id, evaluation] : node.RouteAll()) {
    CHECK(evaluation.has_measured());
    CHECK(evaluation.decision().reason() == v1::DECISION_REASON_NO_FORECAST);
  }
}

}  // namespace
}  // namespace kernelcast::testing::python_routing_test
