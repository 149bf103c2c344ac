#include "services/forecaster/embedded/shared_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/domain/scoring.h"
#include "services/forecaster/core/predictive.h"
#include "services/forecaster/core/simulation_features.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster::shared_model_test {
namespace {

// Rows of one problem whose speedup follows the first feature in all problems, or in none.
std::vector<TrainingRow> Problem(int count, bool lawful, uint64_t seed) {
  std::vector<TrainingRow> rows;
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    TrainingRow& row = rows.emplace_back();
    const double x = 4 * random.Uniform() - 2;
    row.features.shared = {static_cast<float>(x), static_cast<float>(random.Uniform())};
    row.log2_speedup = lawful ? 0.8 * x : 3 * random.Uniform() - 1.5;
  }
  return rows;
}

using ByProblem = std::map<std::string, ProblemRows>;

void Add(ByProblem& all, const std::string& name, const std::vector<TrainingRow>& rows) {
  for (const TrainingRow& row : rows) all[name].rows.push_back(&row);
}

TEST_CASE("Patterns that hold for all problems are learnt and trusted", "[forecaster][shared]") {
  std::vector<std::vector<TrainingRow>> problems;
  for (int i = 0; i < 6; ++i) problems.push_back(Problem(30, true, 10 + i));
  ByProblem rows;
  for (int i = 0; i < 6; ++i) Add(rows, "p" + std::to_string(i), problems[i]);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->problems() == 6);
  CHECK(model->trust() > 0.7);
  CHECK(model->process_prior().scale < 0.6 * kPrior.scale);

  std::vector<double> predicted;
  std::vector<double> truth;
  const std::vector<TrainingRow> unseen = Problem(40, true, 99);
  for (const TrainingRow& row : unseen) {
    predicted.push_back(model->Predict(row.features));
    truth.push_back(*row.log2_speedup);
  }
  CHECK(Spearman(predicted, truth) > 0.9);
}

TEST_CASE("A model whose patterns do not transfer is not trusted", "[forecaster][shared]") {
  std::vector<std::vector<TrainingRow>> problems;
  for (int i = 0; i < 6; ++i) problems.push_back(Problem(30, false, 20 + i));
  ByProblem rows;
  for (int i = 0; i < 6; ++i) Add(rows, "p" + std::to_string(i), problems[i]);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->trust() < 0.3);
  CHECK(model->process_prior().scale > 0.6);
}

TEST_CASE("One problem has little influence on another", "[forecaster][shared]") {
  const std::vector<TrainingRow> only = Problem(40, true, 1);
  ByProblem rows;
  Add(rows, "only", only);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->trust() <= 0.25);
  CHECK(model->process_prior().scale == Approx(kPrior.scale));
}

TEST_CASE("Failures and rows without facts are excluded", "[forecaster][shared]") {
  std::vector<TrainingRow> rows = Problem(20, true, 1);
  for (size_t i = 0; i < 7; ++i) rows[i].log2_speedup.reset();
  for (size_t i = 7; i < 13; ++i) rows[i].features.shared.clear();
  ByProblem all;
  Add(all, "p", rows);
  CHECK(absl::IsNotFound(SharedModel::Train(all, 1).status()));
  CHECK(absl::IsNotFound(SharedModel::Train({}, 1).status()));
}

// Rows whose simulation is right up to one error per problem and one per row.
std::vector<TrainingRow> Simulated(int count, double bias, double noise, uint64_t seed) {
  std::vector<TrainingRow> rows = Problem(count, false, seed);
  Random random(seed + 1000);
  for (TrainingRow& row : rows) {
    const double x = 4 * random.Uniform() - 2;
    row.features.simulation = {static_cast<float>(x), static_cast<float>(random.Uniform())};
    row.log2_speedup = x + bias + noise * (2 * random.Uniform() - 1);
  }
  return rows;
}

TEST_CASE("Simulations are trusted on unseen families", "[forecaster][shared]") {
  std::vector<std::vector<TrainingRow>> problems;
  for (int i = 0; i < 8; ++i) problems.push_back(Simulated(40, i % 2 == 0 ? 0.2 : -0.2, 0.1, i));
  ByProblem rows;
  for (int i = 0; i < 8; ++i) Add(rows, "p" + std::to_string(i), problems[i]);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  CHECK(model->uses_simulations());
  CHECK(model->simulated_slope() == Approx(1).margin(0.1));
  // Only the simulation has a pattern here.
  CHECK(model->correction_share() < 0.3);
  CHECK(model->process_prior().scale > 0.1);
  CHECK(model->process_prior().scale < 0.35);
  std::vector<double> predicted;
  std::vector<double> truth;
  for (const TrainingRow& row : Simulated(40, 0, 0.1, 99)) {
    predicted.push_back(model->Predict(row.features));
    truth.push_back(*row.log2_speedup);
  }
  CHECK(Spearman(predicted, truth) > 0.95);
  CandidateFeatures bare;
  bare.shared = {0, 0};
  CHECK_FALSE(model->Covers(bare));
}

TEST_CASE("A family is held out as a whole", "[forecaster][shared]") {
  // Each problem has a twin with the same error, so comparing them says nothing about others.
  std::vector<std::vector<TrainingRow>> problems;
  Random random(5);
  for (int i = 0; i < 6; ++i) {
    const double bias = 3 * random.Uniform() - 1.5;
    for (int twin = 0; twin < 2; ++twin) {
      problems.push_back(Simulated(30, bias, 0.05, static_cast<uint64_t>(2 * i + twin)));
      // Encodes the family.
      for (TrainingRow& row : problems.back()) row.features.simulation[1] = static_cast<float>(i);
    }
  }
  ByProblem alone;
  ByProblem families;
  for (size_t i = 0; i < problems.size(); ++i) {
    const std::string name = "p" + std::to_string(100 + i);
    Add(alone, name, problems[i]);
    Add(families, name, problems[i]);
    families[name].family = "f" + std::to_string(i / 2);
  }
  const absl::StatusOr<SharedModel> leaky = SharedModel::Train(alone, 1);
  const absl::StatusOr<SharedModel> honest = SharedModel::Train(families, 1);
  REQUIRE(leaky.ok());
  REQUIRE(honest.ok());
  CHECK(honest->process_prior().scale > 1.5 * leaky->process_prior().scale);
}

TEST_CASE("Candidates limited by a resource that limits no other problem are forecast wider",
          "[forecaster][shared]") {
  const std::span<const std::string> names = SimulationRowNames();
  const auto column = [&](std::string_view name) {
    return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  // Problems that DRAM limits less are simulated worse.
  const auto rows_of = [&](double dram, uint64_t seed) {
    std::vector<TrainingRow> rows = Simulated(40, 0, 2 * (1 - dram), seed);
    for (TrainingRow& row : rows) {
      row.features.simulation.resize(names.size(), 0.0f);
      row.features.simulation[column("sim.dram_ns")] = static_cast<float>(std::log2(dram + 0.05));
    }
    return rows;
  };
  std::vector<std::vector<TrainingRow>> problems;
  for (const double dram : {0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.65, 0.4}) {
    problems.push_back(rows_of(dram, problems.size()));
  }
  ByProblem rows;
  for (size_t i = 0; i < problems.size(); ++i) Add(rows, "p" + std::to_string(i), problems[i]);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(rows, 1);
  REQUIRE(model.ok());
  const CandidateFeatures& familiar = problems[0][0].features;
  CandidateFeatures novel = familiar;
  novel.simulation[column("sim.dram_ns")] = static_cast<float>(std::log2(0.05));
  novel.simulation[column("sim.tensor_ns")] = static_cast<float>(std::log2(1.0));
  CHECK(model->Width(familiar) < 1.5);
  CHECK(model->Width(novel) > 2 * model->Width(familiar));
}

TEST_CASE("The majority of rows decides whether simulations are used", "[forecaster][shared]") {
  std::vector<TrainingRow> rows = Simulated(30, 0, 0.1, 3);
  for (size_t i = 0; i < 16; ++i) rows[i].features.simulation.clear();
  ByProblem all;
  Add(all, "p", rows);
  const absl::StatusOr<SharedModel> model = SharedModel::Train(all, 1);
  REQUIRE(model.ok());
  CHECK_FALSE(model->uses_simulations());
  CHECK(model->Covers(rows[0].features));
}

}  // namespace
}  // namespace kernelcast::forecaster::shared_model_test
