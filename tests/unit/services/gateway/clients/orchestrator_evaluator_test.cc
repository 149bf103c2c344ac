#include "services/gateway/clients/orchestrator_evaluator.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;

v1::EvaluateReply Measured() {
  v1::EvaluateReply reply;
  v1::Evaluation& evaluation = *reply.mutable_evaluation();
  evaluation.set_text_feedback("2x");
  evaluation.set_device_model("AMD EPYC");
  evaluation.mutable_accepted_at()->set_seconds(1);
  evaluation.mutable_settled_at()->set_seconds(3);
  v1::MeasuredOk& ok = *evaluation.mutable_measured()->mutable_ok();
  ok.mutable_speedup()->set_value(2);
  ok.set_comparison(v1::COMPARISON_FASTER);
  evaluation.mutable_measured()->set_level(v1::MEASURE_LEVEL_SCREEN);
  return reply;
}

// Answers with the statuses of a list, then with a measurement.
class ScriptedOrchestrator final : public v1::Orchestrator::Service {
 public:
  ScriptedOrchestrator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~ScriptedOrchestrator() override { server_->Shutdown(); }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status Evaluate(grpc::ServerContext*, const v1::EvaluateRequest* request,
                        v1::EvaluateReply* reply) override {
    const std::lock_guard lock(mutex_);
    evaluated.push_back(*request);
    if (evaluated.size() <= errors.size()) return errors[evaluated.size() - 1];
    *reply = Measured();
    if (passes) {
      v1::Measurement& measured = *reply->mutable_evaluation()->mutable_measured();
      measured.set_level(v1::MEASURE_LEVEL_CHECK);
      measured.mutable_passed()->set_correctness_cases(9);
    }
    return grpc::Status::OK;
  }
  grpc::Status PutProblem(grpc::ServerContext*, const v1::PutProblemRequest* request,
                          v1::PutProblemReply* reply) override {
    const std::lock_guard lock(mutex_);
    put.push_back(*request);
    reply->set_default_target("cuda");
    return grpc::Status::OK;
  }

  std::vector<grpc::Status> errors;
  bool passes = false;  // the candidate is checked, not measured
  // Read them when the call has ended.
  std::vector<v1::EvaluateRequest> evaluated;
  std::vector<v1::PutProblemRequest> put;

 private:
  std::mutex mutex_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

Verdict Ask(const ScriptedOrchestrator& orchestrator,
            const std::function<void(OrchestratorEvaluatorOptions&)>& change = {},
            bool checks_only = false) {
  const std::vector<ProblemFile> files = {{"problem.yaml", "small"}};
  OrchestratorEvaluatorOptions options;
  options.address = orchestrator.address();
  options.files_of = [&files](std::string_view id) { return id == "p_1" ? &files : nullptr; };
  if (change) change(options);
  auto evaluator = OrchestratorEvaluator::Create(options);
  REQUIRE(evaluator.ok());
  auto submission = std::make_shared<Submission>();
  submission->dialect = "slime";
  submission->candidate.problem_id = "p_1";
  submission->candidate.target = "cuda";
  submission->candidate.source = "int x;\n";
  submission->device_model = "h200";
  submission->checks_only = checks_only;
  Verdict got;
  absl::Notification done;
  (*evaluator)->Evaluate("g_1-0", submission, [&](Verdict verdict) {
    got = std::move(verdict);
    done.Notify();
  });
  REQUIRE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
  return got;
}

TEST_CASE("An evaluation is asked for with mode measure", "[gateway][clients]") {
  ScriptedOrchestrator orchestrator;
  const Verdict verdict = Ask(orchestrator);
  REQUIRE(verdict.ok() != nullptr);
  CHECK(verdict.ok()->speedup.value == 2);
  CHECK(verdict.feedback == "2x");
  CHECK(verdict.device_model == "AMD EPYC");
  CHECK(verdict.settled_ns - verdict.accepted_ns == 2'000'000'000);
  REQUIRE(orchestrator.evaluated.size() == 1);
  const v1::EvaluateRequest& request = orchestrator.evaluated[0];
  CHECK(request.mode() == v1::EVALUATE_MODE_MEASURE);
  CHECK(request.request_id() == "g_1-0");
  CHECK(request.candidate().origin() == "gateway:slime");
  CHECK(request.candidate().source() == "int x;\n");
  REQUIRE(request.device_models_size() == 1);
  CHECK(request.device_models(0) == "h200");
}

TEST_CASE("A check is asked for without a measurement", "[gateway][clients]") {
  ScriptedOrchestrator orchestrator;
  orchestrator.passes = true;
  const Verdict verdict = Ask(orchestrator, {}, /*checks_only=*/true);
  CHECK(verdict.passed());
  CHECK(verdict.ok() == nullptr);
  REQUIRE(verdict.measurement.has_value());
  CHECK(verdict.measurement->level == MeasureLevel::kCheck);
  CHECK(std::get<Passed>(verdict.measurement->outcome).correctness_cases == 9);
  CHECK(orchestrator.evaluated.at(0).mode() == v1::EVALUATE_MODE_CHECK);
}

TEST_CASE("Calls that fail for a while are made again with the same id", "[gateway][clients]") {
  ScriptedOrchestrator orchestrator;
  orchestrator.errors = {grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting"),
                         grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full"),
                         grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "slow")};
  int repeats = 0;
  const Verdict verdict = Ask(orchestrator, [&repeats](OrchestratorEvaluatorOptions& options) {
    options.on_repeat = [&repeats] { ++repeats; };
  });
  CHECK(verdict.ok() != nullptr);
  CHECK(repeats == 3);
  REQUIRE(orchestrator.evaluated.size() == 4);
  CHECK(orchestrator.evaluated[3].request_id() == "g_1-0");
}

TEST_CASE("A problem that the orchestrator does not know is put", "[gateway][clients]") {
  ScriptedOrchestrator orchestrator;
  orchestrator.errors = {grpc::Status(grpc::StatusCode::NOT_FOUND, "no such problem")};
  CHECK(Ask(orchestrator).ok() != nullptr);
  REQUIRE(orchestrator.put.size() == 1);
  CHECK(orchestrator.put[0].problem().files(0).content() == "small");
}

TEST_CASE("Putting a problem returns its default target", "[gateway][clients]") {
  ScriptedOrchestrator orchestrator;
  OrchestratorEvaluatorOptions options;
  options.address = orchestrator.address();
  const auto evaluator = OrchestratorEvaluator::Create(options);
  REQUIRE(evaluator.ok());
  CHECK((*evaluator)->PutProblem({{"task.py", "small"}}, absl::Seconds(30)).value() == "cuda");
  REQUIRE(orchestrator.put.size() == 1);
  CHECK(orchestrator.put[0].problem().files(0).content() == "small");
}

TEST_CASE("A call that cannot succeed ends without a verdict", "[gateway][clients]") {
  ScriptedOrchestrator orchestrator;
  orchestrator.errors = {grpc::Status(grpc::StatusCode::NOT_FOUND, "no such problem"),
                         grpc::Status(grpc::StatusCode::NOT_FOUND, "no such problem")};
  CHECK(Ask(orchestrator).no_verdict == "no such problem");
  ScriptedOrchestrator other;
  other.errors = {grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "target: bad")};
  CHECK(Ask(other).no_verdict == "target: bad");
  ScriptedOrchestrator away;
  away.errors.assign(1000, grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting"));
  const Verdict given_up = Ask(away, [](OrchestratorEvaluatorOptions& options) {
    options.patience = absl::Milliseconds(300);
  });
  CHECK(given_up.no_verdict == "restarting");
}

TEST_CASE("Results are read as verdicts", "[gateway][clients]") {
  v1::Evaluation evaluation;
  CHECK_THAT(VerdictFrom(evaluation).no_verdict, Contains("no result"));
  evaluation.mutable_forecast()->set_expected_log2_speedup(1);
  CHECK_FALSE(VerdictFrom(evaluation).settled());
  CHECK_THAT(VerdictFrom(evaluation).no_verdict, Contains("not measured"));
  evaluation.mutable_rejected()->set_unavailable("no worker");
  CHECK(VerdictFrom(evaluation).no_verdict == "no worker");
  evaluation.mutable_rejected()->mutable_compile_error()->set_stage(
      v1::CompileError::STAGE_COMPILER);
  evaluation.mutable_rejected()->mutable_compile_error()->set_log("no ;");
  REQUIRE(VerdictFrom(evaluation).compile_error.has_value());
  CHECK(VerdictFrom(evaluation).compile_error->log == "no ;");
  evaluation.mutable_measured()->mutable_environment_unstable()->set_reason("busy");
  CHECK_FALSE(VerdictFrom(evaluation).settled());
  CHECK_THAT(VerdictFrom(evaluation).no_verdict, Contains("busy"));
}

}  // namespace
}  // namespace kernelcast::gateway
