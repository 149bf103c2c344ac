#include "common/domain/forecast.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace kernelcast {
namespace {

using Catch::Matchers::StartsWith;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Tail {
  double degrees;
  double t;
  double upper;
};

// P(T > t), computed to 40 digits with mpmath. 201 degrees of freedom represent the normal
// distribution.
constexpr Tail kTails[] = {
    {0.5, -3, 0.81634592200702828},
    {0.5, -0.1, 0.5268341894356968},
    {0.5, 1e-06, 0.49999973032369941},
    {0.5, 0.5, 0.37865903646471832},
    {0.5, 1, 0.30112161084132208},
    {0.5, 2.5, 0.20048526452664659},
    {0.5, 10, 0.10133867638566557},
    {0.5, 1000, 0.010141454540857095},
    {1, -3, 0.89758361765043327},
    {1, -0.1, 0.53172551743055357},
    {1, 1e-06, 0.49999968169011382},
    {1, 0.5, 0.35241638234956673},
    {1, 1, 0.25},
    {1, 2.5, 0.1211189415908434},
    {1, 10, 0.03172551743055357},
    {1, 1000, 0.00031830978008055894},
    {2, -3, 0.95226701686664543},
    {2, -0.1, 0.53526728079292992},
    {2, 1e-06, 0.49999964644660941},
    {2, 0.5, 0.33333333333333333},
    {2, 1, 0.21132486540518712},
    {2, 2.5, 0.064805860110755405},
    {2, 10, 0.0049262285116628454},
    {2, 1000, 4.9999925000125e-7},
    {3, -3, 0.97116555718878135},
    {3, -0.1, 0.53667382559959709},
    {3, 1e-06, 0.49999963244740305},
    {3, 0.5, 0.3257239824240755},
    {3, 1, 0.19550110947788532},
    {3, 2.5, 0.043853323504032774},
    {3, 10, 0.001064199529207075},
    {3, 1000, 1.1026538212882963e-9},
    {4, -3, 0.98002901596414059},
    {4, -0.1, 0.53742207953027336},
    {4, 1e-06, 0.499999625},
    {4, 0.5, 0.32166498159093164},
    {4, 1, 0.18695048315002944},
    {4, 2.5, 0.033383272405994073},
    {4, 10, 0.00028100181135799558},
    {4, 1000, 2.9999800001049995e-12},
    {7.5, -3, 0.99080453069589774},
    {7.5, -0.1, 0.53851733396610491},
    {7.5, 1e-06, 0.49999961409926444},
    {7.5, 0.5, 0.3157054823112272},
    {7.5, 1, 0.1742380128153757},
    {7.5, 2.5, 0.019410129136812779},
    {7.5, 10, 6.6829890746937312e-6},
    {7.5, 1000, 8.5194936519372891e-21},
    {10, -3, 0.99332817248871521},
    {10, -0.1, 0.53883964071779584},
    {10, 1e-06, 0.49999961089161603},
    {10, 0.5, 0.31394680287148647},
    {10, 1, 0.17044656615102994},
    {10, 2.5, 0.015723422118304402},
    {10, 10, 7.9477658779820598e-7},
    {10, 1000, 1.2304123550866356e-26},
    {30, -3, 0.99730501796717403},
    {30, -0.1, 0.53949519410486442},
    {30, 1e-06, 0.49999960436781511},
    {30, 0.5, 0.31036150244256364},
    {30, 1, 0.16265430771301495},
    {30, 2.5, 0.0090578245340333471},
    {30, 10, 2.2876257041148066e-11},
    {30, 1000, 1.0360017415558665e-69},
    {100, -3, 0.99829604232833528},
    {100, -0.1, 0.53972773445207438},
    {100, 1e-06, 0.49999960205381306},
    {100, 0.5, 0.30908678291544329},
    {100, 1, 0.15986207789206168},
    {100, 2.5, 0.0070228945620385887},
    {100, 10, 4.9508444922970696e-17},
    {100, 1000, 3.959809303973926e-202},
    {200, -3, 0.99847847644304705},
    {200, -0.1, 0.53977775374783948},
    {200, 1e-06, 0.49999960155608383},
    {200, 0.5, 0.30881237615823034},
    {200, 1, 0.15925942395487333},
    {200, 2.5, 0.0066115863208503955},
    {200, 10, 1.1887415722103796e-19},
    {201, -3, 0.99865010196836991},
    {201, 0, 0.5},
    {201, 0.5, 0.3085375387259869},
    {201, 1, 0.15865525393145705},
    {201, 2.5, 0.0062096653257761352},
    {201, 8, 6.2209605742717841e-16},
};

Forecast ValidForecast() {
  Forecast forecast;
  forecast.candidate_id = "k_1";
  forecast.bin_probabilities = {0.05, 0.05, 0.1, 0.2, 0.3, 0.15, 0.1, 0.05};
  forecast.failure_probability = 0.1;
  forecast.predicted_bin = 5;
  return forecast;
}

std::vector<double> RandomSimplex(std::mt19937_64& random, size_t size) {
  std::exponential_distribution<double> part(1);
  std::vector<double> p(size);
  for (double& value : p) value = part(random) < 0.3 ? 0 : part(random);
  p[random() % size] += 0.5;
  REQUIRE(NormalizeSimplex(p).ok());
  return p;
}

TEST_CASE("Student-t tail probabilities match tabulated values", "[forecast]") {
  for (const auto& [degrees, t, upper] : kTails) {
    CAPTURE(degrees, t);
    CHECK(StudentTUpperTail(t, 0, 1, degrees) == Approx(upper).epsilon(1e-10).margin(1e-300));
    CHECK(StudentTUpperTail(0.3 + 2 * t, 0.3, 2, degrees) == Approx(upper).margin(1e-10));
    CHECK(StudentTUpperTail(-t, 0, 1, degrees) == Approx(1 - upper).margin(1e-12));
  }
  CHECK(StudentTUpperTail(0, 0, 1, 5) == Approx(0.5).margin(1e-15));
  CHECK(StudentTUpperTail(kInfinity, 0, 1, 5) == 0);
  CHECK(StudentTUpperTail(-kInfinity, 0, 1, 5) == 1);
  CHECK(StudentTUpperTail(1e300, 0, 1, 2) == 0);
  CHECK(StudentTUpperTail(-1e300, 0, 1, 2) == 1);
}

TEST_CASE("Tail probabilities fall as the threshold rises", "[forecast][property]") {
  for (const double degrees : {0.7, 1.0, 3.0, 12.0, 199.0, 500.0}) {
    double before = 1;
    for (double t = -12; t <= 12; t += 0.01) {
      const double tail = StudentTUpperTail(t, 0, 1, degrees);
      REQUIRE(tail <= before + 1e-15);
      REQUIRE(tail >= 0);
      before = tail;
    }
  }
}

TEST_CASE("Student-t bin probabilities match worked values", "[forecast]") {
  const BinScheme& scheme = BinScheme::Default();
  const auto check = [&](double location, double scale, double degrees,
                         const std::vector<double>& expected) {
    const std::vector<double> p = BinsFromStudentT(scheme, location, scale, degrees);
    REQUIRE(p.size() == 8);
    for (size_t i = 0; i < p.size(); ++i) {
      CAPTURE(i);
      CHECK(p[i] == Approx(expected[i]).epsilon(1e-9));
    }
  };
  check(0.3, 0.4, 5,
        {0.001115779694474788, 0.010232163211483002, 0.039621796508971388, 0.19254238461472545,
         0.43733844014988086, 0.24888825632619324, 0.066215275831839963, 0.0040459036624313012});
  check(-1, 2, 2,
        {1.0 / 3, 0.16666666666666667, 0.087038827977848919, 0.079627838688817748,
         0.067593976166242432, 0.054414491761903784, 0.075128302959686578, 0.13619656244550054});
  check(
      6, 0.25, 3,
      {3.3532513150939359e-5, 1.6468181215066581e-5, 1.2403347626446459e-5, 1.6864218329046078e-5,
       2.3521965402417455e-5, 3.3811399399739929e-5, 0.00012886322338676282, 0.99973453515148958});
}

TEST_CASE("Student-t bin probabilities are always a simplex", "[forecast][property]") {
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> location(-20, 20);
  std::uniform_real_distribution<double> log_scale(-12, 4);
  std::uniform_real_distribution<double> log_degrees(-1, 6);
  for (const BinScheme* scheme : BinScheme::All()) {
    for (int i = 0; i < 3000; ++i) {
      const std::vector<double> p = BinsFromStudentT(
          *scheme, location(random), std::exp(log_scale(random)), std::exp(log_degrees(random)));
      REQUIRE(std::accumulate(p.begin(), p.end(), 0.0) == Approx(1).epsilon(1e-12));
      REQUIRE(std::ranges::all_of(p, [](double value) { return value >= 0 && value <= 1; }));
    }
  }
}

TEST_CASE("A narrow distribution puts its mass in the bin of its location", "[forecast]") {
  for (int bin = 1; bin <= 8; ++bin) {
    const double location = BinScheme::Default().Log2Midpoint(bin);
    const std::vector<double> p = BinsFromStudentT(BinScheme::Default(), location, 1e-9, 4);
    CHECK(ArgmaxBin(p) == bin);
    CHECK(p[bin - 1] == Approx(1));
  }
}

TEST_CASE("Ties for the most probable bin go to the lowest", "[forecast]") {
  CHECK(ArgmaxBin({0.1, 0.4, 0.4, 0.1}) == 2);
  CHECK(ArgmaxBin({1}) == 1);
  CHECK(ArgmaxBin({0, 0, 1}) == 3);
}

TEST_CASE("Normalizing keeps proportions", "[forecast]") {
  std::vector<double> p = {1, 3, 0, 4};
  REQUIRE(NormalizeSimplex(p).ok());
  CHECK(p == std::vector<double>{0.125, 0.375, 0, 0.5});
  std::vector<double> huge = {1e308, 1e308, 1e308};
  REQUIRE(NormalizeSimplex(huge).ok());
  CHECK(huge[0] == Approx(1.0 / 3));
  std::vector<double> tiny = {5e-324, 0, 5e-324};
  REQUIRE(NormalizeSimplex(tiny).ok());
  CHECK(tiny[2] == 0.5);
}

TEST_CASE("Probabilities that cannot be normalized are refused", "[forecast]") {
  for (std::vector<double> p :
       std::vector<std::vector<double>>{{}, {0, 0}, {1, -0.1}, {kNotANumber, 1}, {kInfinity, 1}}) {
    CHECK(NormalizeSimplex(p).code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("The win probability spreads a bin's mass evenly", "[forecast]") {
  Forecast forecast = ValidForecast();
  forecast.stddev_log2_speedup = 0;
  // 0.9 is the probability of a correct candidate.
  CHECK(*WinProbability(forecast, 0) == Approx(0.9));
  CHECK(*WinProbability(forecast, 0.125) == Approx(0.9));
  CHECK(*WinProbability(forecast, std::exp2(-2.5)) == Approx(0.9 * 0.975));
  CHECK(*WinProbability(forecast, 1) == Approx(0.9 * 0.6));
  CHECK(*WinProbability(forecast, std::exp2(0.25)) == Approx(0.9 * (0.15 + 0.3)));
  CHECK(*WinProbability(forecast, std::exp2(0.5)) == Approx(0.9 * 0.3));
  CHECK(*WinProbability(forecast, std::exp2(1.75)) == Approx(0.9 * (0.25 * 0.1 + 0.05)));
  CHECK(*WinProbability(forecast, 4) == Approx(0.9 * 0.05));
  CHECK(*WinProbability(forecast, std::exp2(2.5)) == Approx(0.9 * 0.025));
  CHECK(*WinProbability(forecast, 8) == Approx(0).margin(1e-15));
  CHECK(*WinProbability(forecast, 1e300) == 0);
}

TEST_CASE("Thresholds within a wide bin distinguish forecasts", "[forecast]") {
  // log2 S ~ normal(mean, 0.1), all of it between 2x and 4x; P(S > 3x) by the normal distribution.
  const auto win = [](double mean) {
    Forecast forecast = ValidForecast();
    forecast.failure_probability = 0;
    forecast.expected_log2_speedup = mean;
    forecast.stddev_log2_speedup = 0.1;
    forecast.bin_probabilities = BinsFromStudentT(BinScheme::Default(), mean, 0.1, 1e9);
    return *WinProbability(forecast, 3);
  };
  CHECK(win(1.3) == Approx(0.0022).margin(1e-3));
  CHECK(win(1.585) == Approx(0.5).margin(1e-3));
  CHECK(win(1.75) == Approx(0.9505).margin(1e-3));
}

TEST_CASE("Thresholds beyond the last edge still distinguish forecasts", "[forecast]") {
  // log2 S ~ normal(mean, 0.5), nearly all of it beyond 4x; P(S > 12x) by the normal distribution.
  const auto win = [](double mean) {
    Forecast forecast = ValidForecast();
    forecast.failure_probability = 0;
    forecast.expected_log2_speedup = mean;
    forecast.stddev_log2_speedup = 0.5;
    forecast.bin_probabilities = BinsFromStudentT(BinScheme::Default(), mean, 0.5, 1e9);
    return *WinProbability(forecast, 12);
  };
  CHECK(win(3.0) == Approx(0.1210).margin(1e-3));
  CHECK(win(3.585) == Approx(0.5).margin(1e-3));
  CHECK(win(4.0) == Approx(0.7968).margin(1e-3));
}

TEST_CASE("The win probability works with the paper's scheme edges", "[forecast]") {
  Forecast forecast = ValidForecast();
  forecast.bin_scheme_id = std::string(BinScheme::kPaperFormulaId);
  CHECK(*WinProbability(forecast, 1) == Approx(0.9 * 0.8));
}

TEST_CASE("A higher threshold is never easier to beat", "[forecast][property]") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 50; ++round) {
    Forecast forecast = ValidForecast();
    forecast.bin_scheme_id = BinScheme::All()[round % BinScheme::All().size()]->id();
    forecast.bin_probabilities = RandomSimplex(random, 8);
    double before = 1;
    for (double log2_threshold = -5; log2_threshold < 5; log2_threshold += 0.02) {
      const double win = *WinProbability(forecast, std::exp2(log2_threshold));
      REQUIRE(win <= before + 1e-12);
      REQUIRE(win >= 0);
      before = win;
    }
  }
}

TEST_CASE("The win probability needs a valid forecast and threshold", "[forecast]") {
  for (const double threshold : {-1.0, kNotANumber, kInfinity}) {
    CHECK(WinProbability(ValidForecast(), threshold).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  Forecast forecast = ValidForecast();
  forecast.bin_probabilities.pop_back();
  CHECK_FALSE(WinProbability(forecast, 1).ok());
  forecast = ValidForecast();
  forecast.bin_scheme_id = "other";
  CHECK_FALSE(WinProbability(forecast, 1).ok());
}

TEST_CASE("A valid forecast passes", "[forecast]") {
  CHECK(ValidateForecast(ValidForecast()).ok());
  Forecast tie = ValidForecast();
  tie.bin_probabilities = {0, 0, 0, 0.5, 0.5, 0, 0, 0};
  CHECK(ValidateForecast(tie).ok());
  Forecast rounded = ValidForecast();
  rounded.bin_probabilities[0] += 5e-7;
  CHECK(ValidateForecast(rounded).ok());
}

TEST_CASE("An invalid forecast is refused with its field", "[forecast]") {
  const std::vector<std::pair<void (*)(Forecast&), std::string>> cases = {
      {[](Forecast& f) { f.bin_scheme_id = "x"; }, "bin_scheme_id: bin scheme 'x' is not one of"},
      {[](Forecast& f) { f.bin_probabilities.pop_back(); }, "bin_probabilities: 7 values; scheme"},
      {[](Forecast& f) { f.bin_probabilities.clear(); }, "bin_probabilities: 0 values"},
      {[](Forecast& f) { f.bin_probabilities[0] = -0.05; }, "bin_probabilities: -0.05 is not"},
      {[](Forecast& f) { f.bin_probabilities[0] = kNotANumber; }, "bin_probabilities: "},
      {[](Forecast& f) { f.bin_probabilities[0] += 2e-6; },
       "bin_probabilities: the sum is 1.00000"},
      {[](Forecast& f) { f.failure_probability = 1.5; }, "failure_probability: 1.5"},
      {[](Forecast& f) { f.failure_probability = kNotANumber; }, "failure_probability: "},
      {[](Forecast& f) { f.predicted_bin = 0; }, "predicted_bin: 0 is not from 1 to 8"},
      {[](Forecast& f) { f.predicted_bin = 9; }, "predicted_bin: 9 is not from 1 to 8"},
      {[](Forecast& f) { f.predicted_bin = 4; }, "predicted_bin: 4 is not the most probable"},
      {[](Forecast& f) { f.expected_log2_speedup = kInfinity; }, "expected_log2_speedup: inf"},
      {[](Forecast& f) { f.stddev_log2_speedup = -1; },
       "stddev_log2_speedup: -1 is not a finite "
       "number from 0 on"},
      {[](Forecast& f) { f.raw_probability_sum = kNotANumber; }, "raw_probability_sum: "},
      {[](Forecast& f) { f.token_usage.cost_dollars = -1; }, "token_usage.cost_dollars: "},
      {[](Forecast& f) { f.latency_ns = -5; }, "latency_ns: -5 is negative"},
      {[](Forecast& f) { f.components.resize(9); }, "components: 9 are more than 8"},
      {[](Forecast& f) { f.components.resize(1); }, "components: 0 bin_probabilities; scheme"},
      {[](Forecast& f) {
         f.components = {{"a", "1", 1.5, f.bin_probabilities, 0}};
       },
       "components.weight: 1.5"},
      {[](Forecast& f) {
         f.components = {{"a", "1", 1, f.bin_probabilities, -0.5}};
       },
       "components.failure_probability: -0.5"},
  };
  for (const auto& [change, message] : cases) {
    Forecast forecast = ValidForecast();
    change(forecast);
    const absl::Status status = ValidateForecast(forecast);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), StartsWith(message));
  }
}

}  // namespace
}  // namespace kernelcast
