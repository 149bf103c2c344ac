#include "services/orchestrator/store/event_codec.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "services/orchestrator/convert/convert.h"
#include "tests/unit/services/orchestrator/fakes.h"

namespace kernelcast::orchestrator {
namespace {

using testing::FakeForecasters;
using testing::FakeWorkers;
using testing::SmallProblemFiles;
using testing::ToyKernel;

// Events of every kind, with every alternative of their results.
std::vector<EventBody> EveryKind() {
  Candidate candidate = ToyKernel("int k;\n", 8, 4);
  candidate.problem_id = "p";
  candidate.target = "cpu";
  candidate.candidate_id = CandidateId(candidate);
  SearchSpec spec;
  spec.problem_id = "p";
  spec.target = "cpu";
  spec.policy = "threshold";
  spec.strategy = "puct";
  spec.strategy_parameters = {{"children", 8}};
  spec.budget.max_measurements = 3;
  spec.gate = GateMode::kDrawn;
  spec.time_in_full = true;
  SearchSpec advised = spec;
  advised.generator = GeneratorKind::kLlm;
  advised.critic = true;
  advised.lessons = {{.family = "softmax",
                      .target = "cpu",
                      .device_model = "fake cpu",
                      .bottleneck = "memory",
                      .aspect = "vector bytes",
                      .from = "4",
                      .to = "16",
                      .trials = 7,
                      .held = 6,
                      .mean_log2_gain = 0.1,
                      .stddev_log2_gain = 0.3,
                      .searches = 2,
                      .text = "wide"}};
  Decision decision;
  decision.kind = DecisionKind::kMeasure;
  decision.reason = DecisionReason::kSelected;
  Measurement measurement;
  measurement.candidate_id = candidate.candidate_id;
  measurement.problem_id = "p";
  measurement.target = "cpu";
  measurement.device.model = "fake cpu";
  measurement.outcome = FakeWorkers::Ok(2);
  GenerationSettled generation;
  generation.search_id = "s";
  generation.number = 1;
  generation.outcome = GenerationOutcome::kUnusable;
  generation.detail = "prose";
  const CompileError error{CompileStage::kCompiler, "x.cc:1: error"};
  return {
      ProblemPut{SmallProblemFiles()},
      ReferenceDescribed{"p", "cpu", FakeWorkers::Facts(), "g++", "fake cpu"},
      SearchCreated{"s", spec, "fake cpu"},
      DeviceChosen{"s", "", "fake cpu"},
      DeviceChosen{"", "r", "fake cpu"},
      EvaluationAccepted{"r", "s", EvaluateMode::kRoute, candidate, true, "fake", "fake cpu"},
      EvaluationCompiled{"r", FakeWorkers::Facts(), {}},
      EvaluationCompiled{"r", error, {}},
      EvaluationForecast{"r", FakeForecasters::Make(candidate, 2, 0.2, 5)},
      EvaluationForecast{"r", Abstention{Abstention::Cause::kBudget, "llm", "spent"}},
      EvaluationDecided{"r", decision},
      MeasurementRepeated{"r", {5, 2}},
      EvaluationSettled{"r", measurement, false},
      EvaluationSettled{"r", Pruned{}, false},
      EvaluationSettled{"r", Rejection{Rejection::Cause::kCompileError, error, ""}, false},
      EvaluationSettled{"r", Rejection{Rejection::Cause::kDuplicate, {}, "r0"}, false},
      EvaluationSettled{"r", Rejection{Rejection::Cause::kBudget, {}, "max_candidates"}, false},
      EvaluationSettled{"r", Rejection{Rejection::Cause::kUnavailable, {}, "away"}, false},
      EvaluationSettled{"r", Rejection{Rejection::Cause::kCancelled, {}, "stopped"}, false},
      SearchCreated{"s", advised, "fake cpu"},
      GenerationRequested{"s", 1, "c_parent"},
      GenerationAdvised{
          "s", 1, "Use wider loads.", "", "fake/1@00000000", "m", "e", {100, 60, 20, true, 0.5}, 7},
      GenerationAdvised{"s", 2, "", "unreachable", "", "", "", {}, 0},
      generation,
      PrunedRanked{"s", 3, 40, 5, "c_best"},
      LabelsObserved{{"r", "r1"}},
      SearchFinishing{"s", "stopped"},
      SearchClosed{"s", "r", false, "stopped"},
  };
}

TEST_CASE("Every kind of event is read as it was written") {
  std::set<size_t> kinds;
  for (const EventBody& body : EveryKind()) {
    INFO("kind " << body.index());
    kinds.insert(body.index());
    const Event event{1'700'000'000'000'000'000, body};
    AppendEntry entry;
    entry.event = &event;
    entry.request_id = "r";
    entry.search_id = "s";
    std::string payload;
    EncodeEvent(7, entry, payload);
    const auto stored = DecodeEvent(EventRow{7, "r", "s", payload});
    REQUIRE(stored.ok());
    CHECK(stored->sequence == 7);
    CHECK(stored->event.time_ns == event.time_ns);
    CHECK(stored->event.body.index() == body.index());
    // Equal bytes mean equal events.
    entry.event = &stored->event;
    std::string again;
    EncodeEvent(7, entry, again);
    CHECK(again == payload);
  }
  CHECK(kinds.size() == std::variant_size_v<EventBody>);
}

TEST_CASE("The time of a repeated measurement is read, and is zero in logs without it") {
  v1::Event message;
  message.mutable_measurement_repeated()->set_request_id("r");
  CHECK(std::get<MeasurementRepeated>(FromProto(message)->body).time == DeviceTime());
  message.mutable_measurement_repeated()->mutable_device_time()->set_seconds(2);
  message.mutable_measurement_repeated()->mutable_preparation_time()->set_nanos(7);
  CHECK(std::get<MeasurementRepeated>(FromProto(message)->body).time ==
        DeviceTime{2'000'000'000, 7});
}

}  // namespace
}  // namespace kernelcast::orchestrator
