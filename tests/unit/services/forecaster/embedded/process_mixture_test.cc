#include "services/forecaster/embedded/process_mixture.h"

#include <catch2/catch.hpp>
#include <vector>

#include "services/forecaster/embedded/random.h"

namespace kernelcast::forecaster {
namespace {

constexpr double kGrowth = 6;

ProcessPrior Novel() {
  ProcessPrior prior = UsualProcessPrior(RegressedValues::kErrorsOfSimulation, 0.2);
  prior.novelty = kGrowth;
  return prior;
}

SpacePosition At(float tunable, double novelty) {
  SpacePosition position = {0, {tunable}, {}};
  position.width = Novel().Width(novelty);
  return position;
}

// Labels of familiar and of novel candidates. The errors of the novel ones are larger by `growth`.
ProcessMixture Learnt(double growth, const ProcessPrior& prior) {
  Random random(7);
  std::vector<SpacePosition> points;
  std::vector<double> values;
  for (int i = 0; i < 16; ++i) {
    const double novelty = i % 2;
    points.push_back(At(static_cast<float>(i) / 4, novelty));
    values.push_back(0.4 * (random.Uniform() - 0.5) * (novelty > 0 ? growth : 1));
  }
  return ProcessMixture::Fit(points, values, prior);
}

TEST_CASE("Labels decide whether errors grow with novelty", "[forecaster][process]") {
  const ProcessMixture grows = Learnt(kGrowth, Novel());
  CHECK(grows.novelty_weight() > 0.9);
  const ProcessMixture plain = Learnt(1, Novel());
  CHECK(plain.novelty_weight() < 0.1);
  const SpacePosition novel = At(9, 1);
  CHECK(grows.Predict(novel).scale > 2 * plain.Predict(novel).scale);
  CHECK(plain.LeaveOneOut().size() == 16);
}

TEST_CASE("Without labels errors grow with novelty", "[forecaster][process]") {
  const ProcessMixture mixture = ProcessMixture::Fit({}, {}, Novel());
  CHECK(mixture.novelty_weight() == 1);
  const double familiar = mixture.Predict(At(1, 0)).scale;
  CHECK(mixture.Predict(At(1, 1)).scale == Approx(Novel().Width(1) * familiar));
  CHECK(mixture.slope() == 0);
  CHECK(mixture.transferred_share() == 0);
}

TEST_CASE("Where novelty means nothing the mixture is one process", "[forecaster][process]") {
  ProcessPrior prior = Novel();
  prior.novelty = 0;
  const std::vector<SpacePosition> points = {At(0, 0), At(1, 0)};
  const std::vector<double> values = {0.5, -0.2};
  const ProcessMixture mixture = ProcessMixture::Fit(points, values, prior);
  const GaussianProcess process = GaussianProcess::Fit(points, values, prior);
  CHECK(mixture.novelty_weight() == 1);
  for (const float tunable : {0.0f, 0.5f, 3.0f}) {
    const StudentT got = mixture.Predict(At(tunable, 0));
    const StudentT expected = process.Predict(At(tunable, 0));
    CHECK(got.location == expected.location);
    CHECK(got.scale == expected.scale);
    CHECK(got.degrees_of_freedom == expected.degrees_of_freedom);
  }
  CHECK(mixture.slope() == process.slope());
}

}  // namespace
}  // namespace kernelcast::forecaster
