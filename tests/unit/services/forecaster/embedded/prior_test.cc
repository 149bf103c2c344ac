#include "services/forecaster/embedded/prior.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "services/forecaster/core/simulation_features.h"
#include "services/forecaster/embedded/embedded_backend.h"
#include "services/forecaster/embedded/random.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

std::vector<TrainingRow> Rows(uint64_t seed) {
  std::vector<TrainingRow> rows;
  Random random(seed);
  for (int i = 0; i < 40; ++i) {
    TrainingRow& row = rows.emplace_back();
    row.features.shared = {0};
    for (size_t k = 0; k < SimulationRowNames().size(); ++k) {
      row.features.simulation.push_back(static_cast<float>(2 * random.Uniform() - 1));
    }
    row.log2_speedup = row.features.simulation[0] + row.features.simulation[3];
  }
  return rows;
}

SharedModel Trained(uint64_t seed) {
  static const std::vector<std::vector<TrainingRow>>& kRows =
      *new std::vector<std::vector<TrainingRow>>{Rows(1), Rows(2), Rows(3)};
  std::map<std::string, ProblemRows> rows;
  for (size_t p = 0; p < kRows.size(); ++p) {
    for (const TrainingRow& row : kRows[p]) rows["p" + std::to_string(p)].rows.push_back(&row);
  }
  absl::StatusOr<SharedModel> model = SharedModel::Train(rows, seed);
  REQUIRE(model.ok());
  return *std::move(model);
}

const PriorKey kKey("cuda", "NVIDIA H200");

std::string Content(uint64_t seed) { return SerializePrior({{kKey, Trained(seed)}}); }

TEST_CASE("The same rows and seed give the same prior", "[forecaster][prior]") {
  CHECK(Content(1) == Content(1));
  CHECK(Content(1) != Content(2));
  CHECK(ParsePrior(Content(1))->id == ParsePrior(Content(1))->id);
  CHECK(ParsePrior(Content(1))->id != ParsePrior(Content(2))->id);
}

TEST_CASE("A prior predicts the same after writing and reading", "[forecaster][prior]") {
  const SharedModel written = Trained(1);
  const absl::StatusOr<Prior> prior = ParsePrior(SerializePrior({{kKey, written}}));
  REQUIRE(prior.ok());
  CHECK(prior->id.substr(0, 6) == "prior/");
  const SharedModel& read = *prior->models.at(kKey);
  CHECK(read.uses_simulations());
  CHECK(read.problems() == 3);
  CHECK(read.process_prior().scale == written.process_prior().scale);
  CHECK(read.process_prior().shape == written.process_prior().shape);
  CHECK(read.process_prior().noise == written.process_prior().noise);
  CHECK(read.process_prior().weights.constant == written.process_prior().weights.constant);
  CHECK(read.process_prior().weights.slope == written.process_prior().weights.slope);
  CHECK(read.process_prior().lengths.facts == written.process_prior().lengths.facts);
  CHECK(read.process_prior().novelty == written.process_prior().novelty);
  CHECK(written.correction_share() > 0.3);
  for (const TrainingRow& row : Rows(9)) {
    CHECK(read.Predict(row.features) == written.Predict(row.features));
    CHECK(read.Width(row.features) == written.Width(row.features));
  }
  CHECK(SerializePrior({{kKey, read}}) == SerializePrior({{kKey, written}}));
}

TEST_CASE("An invalid prior is refused", "[forecaster][prior]") {
  const std::string content = Content(1);
  const auto refused = [](const std::string& text) {
    return ParsePrior(text).status().code() == absl::StatusCode::kInvalidArgument;
  };
  CHECK(refused(""));
  CHECK(refused("[]"));
  CHECK(refused("{}"));
  CHECK(refused(content.substr(0, content.size() / 2)));
  const auto changed = [&](const std::string& from, const std::string& to) {
    const std::string text = absl::StrReplaceAll(content, {{from, to}});
    REQUIRE(text != content);
    return refused(text);
  };
  CHECK(changed("kernelcast-prior/4", "kernelcast-prior/3"));
  CHECK(changed("embedded-sim/1", "embedded-sim/0"));
  CHECK(changed("\"features\":[", "\"features\":[4000,"));
  // A missing column, and leaves turned into inner nodes without children.
  CHECK(changed("\"features\":[", "\"features\":[4000,-1,-1,"));
  CHECK(changed(",-1]", ",1]"));
  CHECK(changed("\"values\":[", "\"values\":[1e300,"));
  CHECK(changed("\"centres\":[[", "\"centres\":[[0.5,"));
  CHECK(changed("\"centres\":[[", "\"centres\":[[1e300],["));
  CHECK(ReadPrior("/nowhere/prior.json").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("A backend starts from its prior and names it", "[forecaster][prior]") {
  const PlantedProblem problem;
  EmbeddedOptions options;
  absl::StatusOr<Prior> prior = ParsePrior(Content(1));
  REQUIRE(prior.ok());
  // Only the model knows a target's problems; here the target is just a name.
  prior->models = {{{"cpu", "unknown"}, prior->models.at(kKey)}};
  const std::string id = prior->id;
  options.prior = *std::move(prior);
  const EmbeddedBackend backend(std::move(options));
  CHECK(backend.version() == std::string(EmbeddedBackend::kVersion) + "+" + id);
  CHECK(backend.Describe().version == backend.version());
  ForecastInput input;
  input.problem = problem.context();
  input.candidate = problem.candidates()[0];
  input.facts = problem.Facts(0);
  input.reference_facts = problem.ReferenceFacts();
  const kernelcast::Forecast forecast = backend.ForecastNow(input);
  CHECK(forecast.backend_version == backend.version());
  CHECK(forecast.labels_seen == 0);
  // Host code was not simulated, so the prior does not apply.
  CHECK(forecast.expected_log2_speedup == 0);
}

}  // namespace
}  // namespace kernelcast::forecaster
