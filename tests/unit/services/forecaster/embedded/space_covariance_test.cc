#include "services/forecaster/embedded/space_covariance.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "services/forecaster/embedded/marginal_likelihood.h"
#include "services/forecaster/embedded/random.h"
#include "tests/unit/services/forecaster/planted_problem.h"

namespace kernelcast::forecaster {
namespace {

constexpr float kAbsent = std::numeric_limits<float>::quiet_NaN();

Likeness Compare(const SpacePosition& a, const SpacePosition& b,
                 const LikenessLengths& lengths = {}) {
  Likeness likeness;
  PositionTable({&a, 1}).Compare(b, lengths, PositionTable::Facts::kCompared, {&likeness, 1});
  return likeness;
}

// Tunables with few values, some missing, and facts for half of them.
std::vector<SpacePosition> RandomPositions(Random& random, int count) {
  std::vector<SpacePosition> points;
  for (int i = 0; i < count; ++i) {
    SpacePosition& point = points.emplace_back();
    point.template_index = static_cast<int>(random.Below(4));
    for (int d = 0; d < 5; ++d) {
      point.tunables.push_back(random.Below(3) == 0 ? kAbsent
                                                    : static_cast<float>(random.Below(4)) / 3);
    }
    if (random.Below(2) == 0) point.facts = {static_cast<float>(random.Uniform()), 0};
  }
  return points;
}

TEST_CASE("An unknown fact counts as zero", "[forecaster][covariance]") {
  CandidateFeatures features;
  features.facts = {0.5f, kAbsent};
  CHECK(PositionOf(TunableEncoder(), features).facts == std::vector<float>{0.5f, 0});
}

TEST_CASE("A position has full similarity to itself", "[forecaster][covariance]") {
  const SpacePosition at = {2, {0.5f, kAbsent, 1.0f}, {3.0f, 1.0f}};
  const Likeness likeness = Compare(at, at);
  CHECK(likeness.same_template);
  CHECK(likeness.main_effects == Approx(1));
  CHECK(likeness.interactions == Approx(1));
  CHECK(likeness.shared_effects == Approx(1));
  CHECK(likeness.facts == Approx(1));
}

TEST_CASE("Changing one tunable keeps the other main effects", "[forecaster][covariance]") {
  const Likeness one = Compare({0, {0, 0}, {}}, {0, {1, 0}, {}});
  const Likeness both = Compare({0, {0, 0}, {}}, {0, {1, 1}, {}});
  CHECK(one.main_effects == Approx(0.5 + 0.5 * Matern(1)));
  CHECK(one.interactions == Approx(Matern(1)));
  CHECK(both.main_effects == Approx(Matern(1)));
  CHECK(both.interactions == Approx(Matern(std::sqrt(2.0))));
}

TEST_CASE("Templates share the effects of their common tunables", "[forecaster][covariance]") {
  const Likeness likeness = Compare({0, {0.5f, kAbsent}, {}}, {1, {0.5f, 0.2f}, {}});
  CHECK_FALSE(likeness.same_template);
  CHECK(likeness.main_effects == 0);
  CHECK(likeness.interactions == 0);
  CHECK(likeness.shared_effects == Approx(1 / std::sqrt(2.0)));
}

TEST_CASE("Any mixture of similarities is a covariance", "[forecaster][covariance]") {
  Random random(5);
  for (int trial = 0; trial < 20; ++trial) {
    const std::vector<SpacePosition> points = RandomPositions(random, 40);
    CovarianceWeights weights;
    for (double CovarianceWeights::*field :
         {&CovarianceWeights::constant, &CovarianceWeights::same_template,
          &CovarianceWeights::main_effects, &CovarianceWeights::interactions,
          &CovarianceWeights::shared_effects, &CovarianceWeights::facts}) {
      weights.*field = random.Uniform();
    }
    MarginalLikelihood likelihood(points, std::vector<double>(points.size()));
    likelihood.Relate({});
    CHECK(likelihood.Factor({.weights = weights, .lengths = {}, .noise = 1e-6}));
  }
}

TEST_CASE("Batch comparison equals pairwise comparison in both directions",
          "[forecaster][covariance]") {
  Random random(6);
  const std::vector<SpacePosition> points = RandomPositions(random, 60);
  const LikenessLengths lengths = {
      .tunables = 0.7, .facts = 0.4, .weights = {1, 0.1f, 3, 0.33f, 9}};
  const PositionTable table(points);
  REQUIRE(table.size() == points.size());
  for (const SpacePosition& point : points) {
    std::vector<Likeness> all(points.size());
    table.Compare(point, lengths, PositionTable::Facts::kCompared, all);
    std::vector<Likeness> last(7);
    table.Compare(point, lengths, PositionTable::Facts::kLeftOut, last);
    const size_t skipped = points.size() - last.size();
    for (size_t i = 0; i < points.size(); ++i) {
      for (const Likeness& one :
           {Compare(points[i], point, lengths), Compare(point, points[i], lengths)}) {
        CHECK(all[i].same_template == one.same_template);
        CHECK(all[i].main_effects == one.main_effects);
        CHECK(all[i].interactions == one.interactions);
        CHECK(all[i].shared_effects == one.shared_effects);
        CHECK(all[i].facts == one.facts);
      }
      if (i < skipped) continue;
      CHECK(last[i - skipped].shared_effects == all[i].shared_effects);
      CHECK(last[i - skipped].facts == 0);
    }
  }
}

TEST_CASE("Distances are weighted, and missing values lie beyond the middle",
          "[forecaster][covariance]") {
  const LikenessLengths lengths = {.tunables = 0.5, .facts = 0.25, .weights = {4, 1}};
  const Likeness likeness =
      Compare({0, {0.25f, kAbsent}, {1, 2}}, {0, {0.5f, 1}, {1, 2.5f}}, lengths);
  // Twice 0.25 / 0.5, and half of the range and the square of another half apart.
  CHECK(likeness.main_effects == Approx(Matern(1) / std::sqrt(2.0)));
  CHECK(likeness.interactions == Approx(Matern(std::sqrt(1 + 1 + 0.25))));
  CHECK(likeness.facts == Approx(Matern(std::sqrt(0.25 / 2) / 0.25)));
}

TEST_CASE("Numbers are placed by their rank among the template's values",
          "[forecaster][covariance]") {
  const PlantedProblem problem;
  const TunableEncoder& encoder = problem.context()->EncoderFor("cpu");
  size_t column = 0;
  while (encoder.kind(column) != TunableEncoder::Kind::kNumber) ++column;
  const auto log = [](int value) { return static_cast<float>(std::log2(1.0 + value)); };
  int with_values = -1;
  for (int t = 0; t < 3; ++t) {
    if (encoder.Rank(t, column, 100) == 1) with_values = t;
  }
  REQUIRE(with_values >= 0);
  CHECK(encoder.Rank(with_values, column, -100) == 0);
  CHECK(std::isnan(encoder.Rank(with_values, column, kAbsent)));
  CHECK(encoder.Rank(with_values, column, log(2)) <= encoder.Rank(with_values, column, log(4)));
  // For an unknown template the range of the whole space is used.
  CHECK(encoder.Rank(-1, column, log(4)) == Approx(log(4) / encoder.range(column)));
}

}  // namespace
}  // namespace kernelcast::forecaster
