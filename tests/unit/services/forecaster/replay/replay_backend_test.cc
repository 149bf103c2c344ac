#include "services/forecaster/replay/replay_backend.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster::replay_backend_test {
namespace {

const PlantedProblem& Planted() {
  static const PlantedProblem& problem = *new PlantedProblem();
  return problem;
}

ForecastInput Input(size_t candidate) {
  ForecastInput input;
  input.problem = Planted().context();
  input.candidate = Planted().candidates()[candidate];
  return input;
}

RecordedForecast Record(size_t candidate, uint64_t time, const std::string& rationale,
                        const std::string& backend = "llm:m") {
  RecordedForecast record;
  record.candidate_id = Planted().candidates()[candidate].candidate_id;
  record.problem_id = Planted().candidates()[candidate].problem_id;
  record.target = "cpu";
  record.time = time;
  Forecast forecast;
  forecast.backend = backend;
  forecast.backend_version = backend + "/1";
  forecast.rationale = rationale;
  forecast.token_usage.input_tokens = 7;
  record.result = forecast;
  return record;
}

std::string Ask(ReplayBackend& backend, const ForecastInput& input) {
  std::optional<ForecastResult> result;
  backend.Forecast(input, {}, [&](ForecastResult got) { result = std::move(got); });
  REQUIRE(result.has_value());
  if (const auto* forecast = std::get_if<Forecast>(&*result)) {
    CHECK(forecast->token_usage.input_tokens == 0);
    return forecast->rationale;
  }
  const auto& abstention = std::get<Abstention>(*result);
  if (abstention.backend == "replay") CHECK(abstention.cause == Abstention::Cause::kNotCovered);
  return "abstains: " + abstention.reason;
}

TEST_CASE("The n-th request gets the n-th recorded answer", "[forecaster][replay]") {
  ReplayBackend backend({Record(0, 1, "a"), Record(0, 3, "b"), Record(0, 5, "c")});
  CHECK(backend.size() == 3);
  for (const char* expected : {"a", "a", "b", "b", "c", "c"}) {
    CHECK(Ask(backend, Input(0)) == expected);
  }
  // Each question counts separately.
  CHECK_THAT(Ask(backend, Input(1)), Catch::StartsWith("abstains"));
}

TEST_CASE("Unrecorded requests are not covered", "[forecaster][replay]") {
  ReplayBackend backend({Record(0, 4, "a")});
  CHECK(Ask(backend, Input(1)) == "abstains: no forecast of this candidate is recorded");
  // A record that begins later is the nearest one.
  CHECK(Ask(backend, Input(0)) == "a");
  ForecastInput other = Input(0);
  other.baseline_candidate_id = "k_other";
  CHECK_THAT(Ask(backend, other), Catch::StartsWith("abstains: no forecast"));
  other = Input(0);
  other.bin_scheme = BinScheme::Find(BinScheme::kPaperFormulaId).value();
  CHECK_THAT(Ask(backend, other), Catch::StartsWith("abstains: no forecast"));
}

TEST_CASE("Labels are counted", "[forecaster][replay]") {
  ReplayBackend backend(std::vector<RecordedForecast>{});
  ObservedLabel good;
  good.problem = Planted().context();
  good.label = Planted().MakeLabel(0);
  ObservedLabel bad = good;
  bad.label = Planted().MakeFailure(1, FailureKind::kCrash);
  backend.Observe({good, bad});
  REQUIRE(backend.Describe().labels.size() == 1);
  CHECK(backend.Describe().labels.front().labels == 2);
  CHECK(backend.Describe().labels.front().failures == 1);
}

TEST_CASE("The last of several records with one time is used", "[forecaster][replay]") {
  ReplayBackend backend({Record(0, 0, "a"), Record(0, 0, "b")});
  CHECK(Ask(backend, Input(0)) == "b");
}

TEST_CASE("An abstention is replayed as recorded", "[forecaster][replay]") {
  RecordedForecast record = Record(0, 0, "");
  record.result = Abstention{Abstention::Cause::kModelDeferred, "llm", "atomics"};
  ReplayBackend backend({record});
  CHECK(Ask(backend, Input(0)) == "abstains: atomics");
}

}  // namespace
}  // namespace kernelcast::forecaster::replay_backend_test
