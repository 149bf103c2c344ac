#include "services/forecaster/embedded/process_prior.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/gaussian_process.h"
#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

// Roughly normal with deviation one.
double Normal(Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += random.Uniform();
  return sum - 6;
}

// Problems whose errors are `bias` times one draw for all rows plus `noise` times one draw per row.
std::vector<ProblemErrors> Planted(double bias, double noise) {
  std::vector<ProblemErrors> problems;
  Random random(7);
  for (int p = 0; p < 16; ++p) {
    ProblemErrors& problem = problems.emplace_back();
    const double shared = bias * Normal(random);
    for (int i = 0; i < 40; ++i) {
      problem.positions.push_back({i % 4,
                                   {static_cast<float>(random.Uniform())},
                                   {static_cast<float>(4 * random.Uniform())}});
      problem.errors.push_back(shared + noise * Normal(random));
    }
  }
  return problems;
}

ProcessPrior Learnt(double bias, double noise) {
  return LearnProcessPrior(Planted(bias, noise),
                           UsualProcessPrior(RegressedValues::kErrorsOfSimulation, kPrior.scale),
                           0.1, 1);
}

double Share(double part, const ProcessPrior& prior) {
  return part / (prior.weights.Variance() + prior.noise);
}

TEST_CASE("Shared errors of candidates are separated from individual ones",
          "[forecaster][process]") {
  const ProcessPrior shared = Learnt(1, 0.1);
  CHECK(Share(shared.weights.constant, shared) > 0.6);
  CHECK(Share(shared.noise, shared) < 0.05);
  const ProcessPrior own = Learnt(0.02, 1);
  CHECK(Share(own.weights.constant, own) < 0.2);
  CHECK(Share(own.noise, own) > Share(shared.noise, shared));
  // As wide as the errors.
  CHECK(shared.scale > 0.4);
  CHECK(shared.scale < 1.3);
  CHECK(Learnt(0.1, 0.1).scale < 0.25);
}

TEST_CASE("One label corrects the error that candidates share, once that was learnt",
          "[forecaster][process]") {
  const std::vector<SpacePosition> points = {{0, {0.1f}, {1.0f}}};
  const std::vector<double> values = {0.9};
  const SpacePosition stranger = {2, {0.9f}, {4.0f}};
  const StudentT shared = GaussianProcess::Fit(points, values, Learnt(1, 0.1)).Predict(stranger);
  const StudentT own = GaussianProcess::Fit(points, values, Learnt(0.02, 1)).Predict(stranger);
  CHECK(shared.location > 0.55);
  CHECK(own.location < 0.3);
}

TEST_CASE("Errors that grow with novelty make forecasts of novel candidates wider",
          "[forecaster][process]") {
  const auto learnt = [](double growth) {
    std::vector<ProblemErrors> problems = Planted(0.1, 0.1);
    Random random(3);
    for (ProblemErrors& problem : problems) {
      const double novelty = random.Uniform();
      for (double& error : problem.errors) {
        error *= std::hypot(1.0, growth * novelty);
        problem.novelties.push_back(novelty);
      }
    }
    return LearnProcessPrior(
        problems, UsualProcessPrior(RegressedValues::kErrorsOfSimulation, kPrior.scale), 0.1, 1);
  };
  const ProcessPrior grows = learnt(8);
  CHECK(grows.Width(0) == 1);
  CHECK(grows.Width(1) > 4);
  CHECK(grows.scale < 0.25);
  CHECK(learnt(0).Width(1) < 2);

  const SpacePosition familiar = {0, {0.1f}, {1.0f}};
  SpacePosition novel = familiar;
  novel.width = grows.Width(1);
  const GaussianProcess none = GaussianProcess::Fit({}, {}, grows);
  CHECK(none.Predict(novel).scale == Approx(novel.width * none.Predict(familiar).scale));
  // A label corrects candidates as novel as its own by the same share.
  const std::vector<SpacePosition> points = {novel};
  const std::vector<double> values = {1.0};
  const std::vector<SpacePosition> familiar_points = {familiar};
  const GaussianProcess at_novel = GaussianProcess::Fit(points, values, grows);
  const GaussianProcess at_familiar = GaussianProcess::Fit(familiar_points, values, grows);
  CHECK(at_novel.Predict(novel).location == Approx(at_familiar.Predict(familiar).location));
  CHECK(at_novel.Predict(familiar).location < 0.5 * at_novel.Predict(novel).location);
}

TEST_CASE("The same errors and seed give the same prior of errors", "[forecaster][process]") {
  const ProcessPrior one = Learnt(0.5, 0.3);
  const ProcessPrior two = Learnt(0.5, 0.3);
  CHECK(one.scale == two.scale);
  CHECK(one.noise == two.noise);
  CHECK(one.weights.constant == two.weights.constant);
}

}  // namespace
}  // namespace kernelcast::forecaster
