#include "services/forecaster/embedded/marginal_likelihood.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace kernelcast::forecaster {
namespace {

ProcessPrior PlainPrior() {
  ProcessPrior prior;
  prior.weights = {};
  prior.weights.constant = 0.5;
  prior.weights.same_template = 0.3;
  prior.noise = 0.2;
  prior.scale = 0.7;
  return prior;
}

TEST_CASE("The cost is the negative log density of a multivariate Student-t",
          "[forecaster][process]") {
  const ProcessPrior prior = PlainPrior();
  const std::vector<SpacePosition> points = {{0, {}, {}}, {1, {}, {}}};
  const std::vector<double> values = {0.4, -1.1};
  MarginalLikelihood likelihood(points, values);
  likelihood.Relate(prior.lengths);
  // Two templates share only the constant part.
  const double variance = prior.weights.Variance() + prior.noise;
  const double covariance = prior.weights.constant;
  const double determinant = variance * variance - covariance * covariance;
  const double square = (variance * (values[0] * values[0] + values[1] * values[1]) -
                         2 * covariance * values[0] * values[1]) /
                        determinant;
  const double rate = prior.rate();
  const double log_density = -0.5 * std::log(determinant) + prior.shape * std::log(rate) -
                             (prior.shape + 1) * std::log(rate + 0.5 * square) +
                             std::lgamma(prior.shape + 1) - std::lgamma(prior.shape);
  CHECK(likelihood.Cost(prior, prior.rate()) == Approx(-log_density));
  REQUIRE(likelihood.Factor(prior));
  CHECK(likelihood.factor()[0] == Approx(std::sqrt(variance)));
  CHECK(likelihood.factor()[1] == Approx(covariance / std::sqrt(variance)));
  CHECK(likelihood.factor()[3] == Approx(std::sqrt(determinant / variance)));
}

TEST_CASE("A covariance that is not positive definite is impossible", "[forecaster][process]") {
  ProcessPrior prior = PlainPrior();
  MarginalLikelihood likelihood(std::vector<SpacePosition>{{0, {}, {}}, {1, {}, {}}},
                                std::vector<double>{1, 2});
  likelihood.Relate(prior.lengths);
  for (const double noise : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    prior.noise = noise;
    CHECK_FALSE(likelihood.Factor(prior));
    CHECK(likelihood.Cost(prior, prior.rate()) == std::numeric_limits<double>::infinity());
  }
}

}  // namespace
}  // namespace kernelcast::forecaster
