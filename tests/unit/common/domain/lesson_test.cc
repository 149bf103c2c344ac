#include "common/domain/lesson.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>

namespace kernelcast {
namespace {

using Catch::Matchers::Contains;

Lesson Vector(double mean, uint32_t trials, uint32_t held, double deviation = 0,
              uint32_t searches = 1) {
  Lesson lesson;
  lesson.family = "softmax";
  lesson.target = "cuda";
  lesson.device_model = "NVIDIA H200";
  lesson.aspect = "parameter VEC";
  lesson.from = "1";
  lesson.to = "4";
  lesson.trials = trials;
  lesson.held = held;
  lesson.mean_log2_gain = mean;
  lesson.stddev_log2_gain = deviation;
  lesson.searches = searches;
  return lesson;
}

TEST_CASE("Pooled lessons have the moments of all their pairs") {
  // Gains 1, 2, 3 and -1, 0.
  Lesson lesson = Vector(2, 3, 3, 1);
  Pool(Vector(-0.5, 2, 2, std::sqrt(0.5)), lesson);
  CHECK(lesson.trials == 5);
  CHECK(lesson.searches == 2);
  CHECK(lesson.mean_log2_gain == Approx(1));
  CHECK(lesson.stddev_log2_gain == Approx(std::sqrt(10.0 / 4)));
  CHECK(lesson.held == 3);
  // The sign of the mean turns.
  Lesson turned = Vector(0.5, 2, 2, 0);
  Pool(Vector(-3, 4, 3, 0), turned);
  CHECK(turned.mean_log2_gain == Approx(-11.0 / 6));
  CHECK(turned.held == 3);
}

TEST_CASE("Few pairs and few searches make an estimate uncertain") {
  // sqrt(0.25^2 / 1 + 0.15^2 / 1), one degree of freedom.
  const GainEstimate one = EstimateOf(Vector(1, 1, 1), "NVIDIA H200");
  CHECK(one.error == Approx(std::sqrt(0.0625 + 0.0225)));
  CHECK(one.low() == Approx(1 - 12.7062 * one.error).epsilon(1e-4));
  // 0.5 + atan(1 / 0.2915) / pi
  CHECK(one.SignProbability() == Approx(0.90966).epsilon(1e-4));
  CHECK(one.Expected() == Approx(0.25 / (0.25 + 0.085)));
  const GainEstimate many = EstimateOf(Vector(1, 100, 90, 0.5, 10), "NVIDIA H200");
  CHECK(many.error == Approx(std::sqrt((99 * 0.25 + 0.0625) / 1e4 + 0.0225 / 10)));
  CHECK(many.Expected() > 0.97);
}

TEST_CASE("Lessons from another device model count less") {
  const Lesson lesson = Vector(0.6, 20, 18, 0.2, 3);
  const double same = EstimateOf(lesson, "NVIDIA H200").Expected();
  const double other = EstimateOf(lesson, "NVIDIA L40S").Expected();
  CHECK(other > 0);
  CHECK(other < 0.75 * same);
}

TEST_CASE("A lesson that does not hold is not used") {
  CHECK(EstimateOf(Vector(0.05, 20, 11, 0.6), "NVIDIA H200").Expected() == 0);
  // The mean comes from a few large gains.
  CHECK(EstimateOf(Vector(0.8, 20, 9, 0.6, 5), "NVIDIA H200").Expected() == 0);
  CHECK(EstimateOf(Vector(0.8, 20, 11, 0.6, 5), "NVIDIA H200").Expected() > 0.5);
  // It loses weight with each search that contradicts it.
  Lesson lesson = Vector(0.5, 4, 4, 0.1);
  double before = EstimateOf(lesson, "NVIDIA H200").Expected();
  for (int search = 0; search < 4; ++search) {
    Pool(Vector(-0.2, 1, 1), lesson);
    const double now = EstimateOf(lesson, "NVIDIA H200").Expected();
    CHECK(now < before);
    before = now;
  }
  CHECK(before == 0);
}

TEST_CASE("Lessons out of range are refused with field, value and what is allowed") {
  CHECK(ValidateLesson(Vector(1, 3, 2)).ok());
  const auto error = [](const auto& change) {
    Lesson lesson = Vector(1, 3, 2);
    change(lesson);
    return std::string(ValidateLesson(lesson).message());
  };
  CHECK_THAT(error([](Lesson& l) { l.mean_log2_gain = 15.5; }),
             Contains("mean_log2_gain: 15.5 is not a number from -15 to 15"));
  CHECK_THAT(error([](Lesson& l) { l.mean_log2_gain = std::numeric_limits<double>::quiet_NaN(); }),
             Contains("mean_log2_gain: nan"));
  CHECK_THAT(error([](Lesson& l) { l.stddev_log2_gain = -1; }), Contains("stddev_log2_gain: -1"));
  CHECK_THAT(error([](Lesson& l) { l.trials = 0; }), Contains("trials: 0"));
  CHECK_THAT(error([](Lesson& l) { l.held = 4; }), Contains("held: 4"));
  CHECK_THAT(error([](Lesson& l) { l.searches = 4; }), Contains("searches: 4"));
  CHECK_THAT(error([](Lesson& l) { l.family.clear(); }), Contains("family: ''"));
  CHECK_THAT(error([](Lesson& l) { l.aspect = std::string(129, 'a'); }), Contains("aspect: 'aaa"));
  CHECK_THAT(error([](Lesson& l) { l.text = "a\nb"; }), Contains("without control characters"));
  CHECK_THAT(error([](Lesson& l) { l.text = "\xff"; }), Contains("UTF-8"));
  CHECK_THAT(error([](Lesson& l) { l.to = l.from; }), Contains("to: '1' is the same as from"));
}

}  // namespace
}  // namespace kernelcast
