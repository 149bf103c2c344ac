#include "services/worker/replay/replay_target.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <variant>
#include <vector>

#include "common/base/clock.h"

namespace kernelcast::worker {
namespace {

CompileFacts Facts(double value) {
  const FactSchema& schema = AllFactSchemas()[0];
  return {std::string(schema.id), std::vector<double>(schema.names.size(), value)};
}

ReplayRecord Measured(const std::string& candidate, double speedup) {
  Measurement measurement;
  measurement.candidate_id = candidate;
  measurement.target = "cpu";
  measurement.device.model = "recorded device";
  MeasuredOk ok;
  ok.speedup = {speedup, speedup, speedup, 0.95};
  measurement.outcome = ok;
  ReplayRecord record;
  record.candidate_id = candidate;
  record.problem_id = "p_1";
  record.target = "cpu";
  record.facts = Facts(1);
  record.reference_facts = Facts(2);
  record.result = measurement;
  return record;
}

Candidate Named(const std::string& id) {
  Candidate candidate;
  candidate.candidate_id = id;
  candidate.target = "cpu";
  return candidate;
}

absl::StatusOr<CompileResult> Compiled(ReplayTarget& target, const std::string& id,
                                       const CancelToken& cancel = CancelToken()) {
  const Candidate candidate = Named(id);
  return target.Compile({Problem(), &candidate}, cancel);
}

TEST_CASE("Recorded requests are answered and unrecorded ones are refused") {
  ReplayRecord refused;
  refused.candidate_id = "k_2";
  refused.problem_id = "p_1";
  refused.target = "cpu";
  refused.result = CompileError{CompileStage::kCompiler, "error"};
  ReplayRecord pruned;
  pruned.candidate_id = "k_3";
  pruned.problem_id = "p_1";
  pruned.target = "cpu";
  pruned.facts = Facts(3);
  ReplayTarget target("cpu", {Measured("k_1", 1.5), refused, pruned});
  const CancelToken cancel;
  const Problem problem;

  auto compiled = Compiled(target, "k_1");
  REQUIRE(compiled.ok());
  CHECK(std::get<CompileSuccess>(compiled->result).facts.values[0] == 1);
  auto measurement =
      target.Measure({problem, Named("k_1"), Artifact(), MeasureLevel::kFinal}, cancel);
  REQUIRE(measurement.ok());
  CHECK(MeasuredSpeedup(*measurement)->value == 1.5);
  CHECK(measurement->level == MeasureLevel::kFinal);
  measurement = target.Measure({problem, Named("k_1"), Artifact(), MeasureLevel::kCheck}, cancel);
  REQUIRE(measurement.ok());
  CHECK(std::holds_alternative<Passed>(measurement->outcome));

  compiled = Compiled(target, "k_2");
  CHECK(std::get<CompileError>(compiled->result).stage == CompileStage::kCompiler);
  compiled = Compiled(target, "k_3");
  CHECK(std::holds_alternative<CompileSuccess>(compiled->result));
  CHECK(absl::IsFailedPrecondition(
      target.Measure({problem, Named("k_3"), Artifact(), MeasureLevel::kScreen}, cancel).status()));
  compiled = Compiled(target, "k_9");
  CHECK(std::get<CompileError>(compiled->result).stage == CompileStage::kAdmission);
  CHECK(absl::IsFailedPrecondition(
      target.Measure({problem, Named("k_9"), Artifact(), MeasureLevel::kScreen}, cancel).status()));
}

TEST_CASE("The reference has the facts recorded with its problem") {
  ReplayTarget target("cpu", {Measured("k_1", 1.5)});
  Problem problem;
  problem.problem_id = "p_1";
  auto compiled = target.Compile({problem}, CancelToken());
  REQUIRE(compiled.ok());
  CHECK(std::get<CompileSuccess>(compiled->result).facts.values[0] == 2);
  problem.problem_id = "p_2";
  compiled = target.Compile({problem}, CancelToken());
  CHECK(std::holds_alternative<CompileError>(compiled->result));
}

TEST_CASE("The last measurement counts, and an earlier one stays when a later record has none") {
  ReplayRecord without = Measured("k_1", 9);
  without.result = std::monostate();
  ReplayTarget target("cpu", {Measured("k_1", 1.5), Measured("k_1", 1.6), without});
  CHECK(target.size() == 1);
  auto measurement =
      target.Measure({Problem(), Named("k_1"), Artifact(), MeasureLevel::kScreen}, CancelToken());
  REQUIRE(measurement.ok());
  CHECK(MeasuredSpeedup(*measurement)->value == 1.6);
}

TEST_CASE("Records of other targets are ignored") {
  ReplayRecord other = Measured("k_1", 1.5);
  other.target = "h100";
  const ReplayTarget target("cpu", {other});
  CHECK(target.size() == 0);
  CHECK(target.Describe().target == "cpu");
  CHECK(ReplayTarget("h100", {other}).Describe().device.model == "recorded device");
}

TEST_CASE("Paced measurements run in sequence and take their share of the recorded time") {
  ReplayRecord record = Measured("k_1", 2);
  std::get<Measurement>(record.result).device_time_ns = 400'000'000;
  ReplayTarget target("cpu", {record}, 0.05);
  const int64_t start_ns = Clock::Real().MonotonicNs();
  std::vector<std::jthread> callers;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      const CancelToken cancel;
      answered += target.Measure({{}, Named("k_1"), {}, MeasureLevel::kScreen}, cancel).ok();
    });
  }
  callers.clear();
  CHECK(answered == 3);
  CHECK(Clock::Real().MonotonicNs() - start_ns >= 60'000'000);

  const CancelToken expired(Clock::Real().MonotonicNs() + 1'000'000);
  ReplayTarget slow("cpu", {record}, 1000);
  CHECK(slow.Measure({{}, Named("k_1"), {}, MeasureLevel::kScreen}, expired).status().code() ==
        absl::StatusCode::kDeadlineExceeded);
}

TEST_CASE("A stopped token stops a replay too") {
  ReplayTarget target("cpu", {Measured("k_1", 1.5)});
  CancelToken cancel;
  cancel.Cancel();
  CHECK(absl::IsCancelled(Compiled(target, "k_1", cancel).status()));
}

}  // namespace
}  // namespace kernelcast::worker
