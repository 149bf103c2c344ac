#include "common/domain/bins.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

namespace kernelcast {
namespace {

const BinScheme& Paper() { return **BinScheme::Find(BinScheme::kPaperFormulaId); }

// The published labelling formula, verbatim.
int PaperFormula(double speedup) {
  return std::clamp(static_cast<int>(std::floor(2 * std::log2(speedup))) + 4, 1, 8);
}

TEST_CASE("The default scheme has eight bins that include their upper edge", "[bins]") {
  const BinScheme& scheme = BinScheme::Default();
  CHECK(scheme.id() == "sqrt2/1");
  CHECK(scheme.size() == 8);
  CHECK(scheme.upper_closed());
  const std::vector<std::pair<double, int>> cases = {{1e-300, 1},
                                                     {0.1, 1},
                                                     {0.25, 1},
                                                     {0.2501, 2},
                                                     {0.5, 2},
                                                     {0.6, 3},
                                                     {0.70710678118654752, 3},
                                                     {0.7072, 4},
                                                     {1, 4},
                                                     {1.01, 5},
                                                     {1.2, 5},
                                                     {1.4142, 5},
                                                     {1.4143, 6},
                                                     {2, 6},
                                                     {2.001, 7},
                                                     {4, 7},
                                                     {4.01, 8},
                                                     {1e300, 8}};
  for (const auto& [speedup, bin] : cases) {
    CAPTURE(speedup);
    CHECK(*scheme.Label(speedup) == bin);
  }
}

TEST_CASE("The paper's scheme labels match its formula", "[bins]") {
  const BinScheme& scheme = Paper();
  CHECK(scheme.id() == "paper-floor/1");
  CHECK_FALSE(scheme.upper_closed());
  CHECK(*scheme.Label(1.2) == 4);
  CHECK(*BinScheme::Default().Label(1.2) == 5);
  SECTION("at and near the powers of the square root of two") {
    for (int k = -20; k <= 20; ++k) {
      const double power = std::pow(2.0, k / 2.0);
      for (const double speedup : {std::nextafter(power, 0.0), power, std::nextafter(power, 1e9),
                                   power * (1 - 1e-12), power * (1 + 1e-12)}) {
        CAPTURE(k, speedup);
        CHECK(*scheme.Label(speedup) == PaperFormula(speedup));
      }
    }
  }
  SECTION("at every edge, which belongs to the bin above it") {
    for (int i = 0; i < scheme.size() - 1; ++i) {
      const double edge = scheme.edges()[i];
      CHECK(*scheme.Label(edge) == i + 2);
      CHECK(PaperFormula(edge) == i + 2);
      CHECK(*scheme.Label(std::nextafter(edge, 0.0)) == i + 1);
    }
  }
  SECTION("at random") {
    std::mt19937_64 random(20260531);
    std::uniform_real_distribution<double> log2_speedup(-6, 6);
    for (int i = 0; i < 100'000; ++i) {
      const double speedup = std::exp2(log2_speedup(random));
      REQUIRE(*scheme.Label(speedup) == PaperFormula(speedup));
    }
  }
}

TEST_CASE("Bins partition the positive numbers", "[bins][property]") {
  const BinScheme* scheme = GENERATE(from_range(BinScheme::All().begin(), BinScheme::All().end()));
  CAPTURE(scheme->id());
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> log2_speedup(-5, 5);
  for (int i = 0; i < 20'000; ++i) {
    const double speedup = std::exp2(log2_speedup(random));
    const int bin = *scheme->Label(speedup);
    int holders = 0;
    for (int b = 1; b <= scheme->size(); ++b) {
      const double low = b == 1 ? 0 : scheme->edges()[b - 2];
      const double high =
          b == scheme->size() ? std::numeric_limits<double>::infinity() : scheme->edges()[b - 1];
      const bool holds = scheme->upper_closed() ? speedup > low && speedup <= high
                                                : speedup >= low && speedup < high;
      holders += holds ? 1 : 0;
      if (holds) REQUIRE(b == bin);
    }
    REQUIRE(holders == 1);
  }
}

TEST_CASE("A greater speedup never has a lower bin", "[bins][property]") {
  for (const BinScheme* scheme : BinScheme::All()) {
    int before = 1;
    for (double speedup = 0.01; speedup < 100; speedup *= 1.0007) {
      const int bin = *scheme->Label(speedup);
      REQUIRE(bin >= before);
      before = bin;
    }
    CHECK(before == scheme->size());
  }
}

TEST_CASE("Only positive finite speedups have a bin", "[bins]") {
  for (const double speedup : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(BinScheme::Default().Label(speedup).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  CHECK(*BinScheme::Default().Label(std::numeric_limits<double>::denorm_min()) == 1);
}

TEST_CASE("Midpoints lie in the middle of their bin in log space", "[bins]") {
  const std::vector<double> expected = {-2.5, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 2.5};
  const std::vector<double> paper = {-1.5, -0.75, -0.25, 0.25, 0.75, 1.25, 1.75, 2.5};
  for (int bin = 1; bin <= 8; ++bin) {
    CAPTURE(bin);
    CHECK(BinScheme::Default().Log2Midpoint(bin) == Approx(expected[bin - 1]).margin(1e-12));
    CHECK(Paper().Log2Midpoint(bin) == Approx(paper[bin - 1]).margin(1e-12));
    CHECK(*BinScheme::Default().Label(std::exp2(expected[bin - 1])) == bin);
  }
}

TEST_CASE("Bins are written as intervals with the closed side marked", "[bins]") {
  const BinScheme& scheme = BinScheme::Default();
  CHECK(scheme.IntervalText(1) == "(0, 0.25]");
  CHECK(scheme.IntervalText(4) == "(0.7071, 1]");
  CHECK(scheme.IntervalText(5) == "(1, 1.4142]");
  CHECK(scheme.IntervalText(8) == "(4, inf)");
  CHECK(Paper().IntervalText(1) == "(0, 0.5)");
  CHECK(Paper().IntervalText(2) == "[0.5, 0.7071)");
  CHECK(Paper().IntervalText(7) == "[2.8284, 4)");
  CHECK(Paper().IntervalText(8) == "[4, inf)");
}

TEST_CASE("The prompt table has one line per bin with name and interval", "[bins]") {
  CHECK(BinScheme::Default().PromptTable() ==
        "1. severe_slowdown: S in (0, 0.25]\n"
        "2. significant_slowdown: S in (0.25, 0.5]\n"
        "3. moderate_slowdown: S in (0.5, 0.7071]\n"
        "4. minor_slowdown: S in (0.7071, 1]\n"
        "5. minor_speedup: S in (1, 1.4142]\n"
        "6. significant_speedup: S in (1.4142, 2]\n"
        "7. high_speedup: S in (2, 4]\n"
        "8. extreme_speedup: S in (4, inf)\n");
}

TEST_CASE("An unknown scheme is not found and the known ones are listed", "[bins]") {
  const absl::StatusOr<const BinScheme*> scheme = BinScheme::Find("sqrt3/1");
  CHECK(scheme.status().code() == absl::StatusCode::kNotFound);
  std::string known;
  for (const BinScheme* each : BinScheme::All()) {
    known += (known.empty() ? "" : ", ") + each->id();
  }
  CHECK(scheme.status().message() == "bin scheme 'sqrt3/1' is not one of " + known);
}

TEST_CASE("Schemes have distinct ids and one name per bin", "[bins]") {
  std::set<std::string> ids;
  for (const BinScheme* scheme : BinScheme::All()) {
    CHECK(ids.insert(scheme->id()).second);
    CHECK(*BinScheme::Find(scheme->id()) == scheme);
    CHECK(scheme->edges().size() + 1 == static_cast<size_t>(scheme->size()));
    CHECK(std::ranges::is_sorted(scheme->edges()));
    std::set<std::string> names;
    for (int bin = 1; bin <= scheme->size(); ++bin) CHECK(names.insert(scheme->name(bin)).second);
  }
}

}  // namespace
}  // namespace kernelcast
