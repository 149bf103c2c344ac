#include "services/worker/core/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "services/worker/core/inputs.h"

namespace kernelcast::worker {
namespace {

constexpr int kDraws = 200'000;

Expression ParseSize(const std::string& text) { return Expression::Parse(text, {"n"}).value(); }

Sampler Make(const InitDistribution& init, int64_t n = 1000) {
  const absl::StatusOr<Sampler> sampler = Sampler::Make(init, {{"n", n}});
  INFO(sampler.status());
  REQUIRE(sampler.ok());
  return *sampler;
}

TEST_CASE("Zipf ranks have their expected frequencies") {
  for (const double exponent : {0.5, 1.0, 1.3, 3.0}) {
    const Sampler sampler = Make(Zipf{exponent, ParseSize("5"), ParseSize("n + 4")}, 1000);
    std::vector<double> counts(1000);
    Random random(7);
    for (int i = 0; i < kDraws; ++i) {
      const int64_t value = sampler.Whole(random);
      REQUIRE(value >= 5);
      REQUIRE(value <= 1004);
      ++counts[static_cast<size_t>(value - 5)];
    }
    double sum = 0;
    for (int k = 1; k <= 1000; ++k) sum += std::pow(k, -exponent);
    CAPTURE(exponent);
    for (const int rank : {1, 2, 3, 10}) {
      const double expected = kDraws * std::pow(rank, -exponent) / sum;
      CHECK(counts[static_cast<size_t>(rank - 1)] ==
            Approx(expected).margin(5 * std::sqrt(expected) + 1));
    }
  }
}

TEST_CASE("Zipf over a single value is that value") {
  const Sampler sampler = Make(Zipf{1.1, ParseSize("3"), ParseSize("3")});
  Random random(1);
  for (int i = 0; i < 100; ++i) CHECK(sampler.Whole(random) == 3);
}

TEST_CASE("The logarithm of log-normal values is normal") {
  const Sampler sampler = Make(LogNormal{-1, 0.5});
  Random random(3);
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double log = std::log(sampler.Real(random));
    sum += log;
    squares += log * log;
  }
  const double mean = sum / kDraws;
  CHECK(mean == Approx(-1).margin(0.01));
  CHECK(std::sqrt(squares / kDraws - mean * mean) == Approx(0.5).epsilon(0.02));
}

TEST_CASE("A power law has its expected share below each value") {
  for (const double exponent : {0.0, 1.0, 2.5}) {
    const Sampler sampler = Make(PowerLaw{exponent, 0.5, 2000});
    Random random(5);
    int below = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double value = sampler.Real(random);
      REQUIRE(value >= 0.5);
      REQUIRE(value <= 2000);
      below += value < 20;
    }
    const double power = 1 - exponent;
    const double expected = power == 0 ? std::log(20 / 0.5) / std::log(2000 / 0.5)
                                       : (std::pow(20, power) - std::pow(0.5, power)) /
                                             (std::pow(2000, power) - std::pow(0.5, power));
    CAPTURE(exponent);
    CHECK(static_cast<double>(below) / kDraws == Approx(expected).margin(0.006));
  }
}

TEST_CASE("Quantised inputs lie on their grid and within their precision") {
  TensorSpec tensor;
  tensor.name = "x";
  tensor.shape = {ParseSize("n")};
  tensor.init = Normal{0, 3};
  tensor.quantisation = {0.25, DataType::kFloat8E4m3};
  tensor.adversarial = {Adversarial::kLarge};
  std::vector<float> values(1000);
  const TensorLayout layout{DataType::kFloat32, {1000}};
  for (const bool large : {false, true}) {
    CaseSpec spec{.axes = {{"n", 1000}}};
    if (large) spec.adversarial = Adversarial::kLarge;
    Random random(9);
    REQUIRE(
        FillInput(tensor, layout, spec, random, std::as_writable_bytes(std::span(values))).ok());
    for (const float value : values) {
      CHECK(std::fmod(value, 0.25f) == 0);
      // Three bits after the first, and no value above 448.
      int exponent = 0;
      const double mantissa = std::frexp(value, &exponent) * 16;
      CHECK(mantissa == std::floor(mantissa));
      CHECK(std::abs(value) <= 448);
    }
    CHECK(std::ranges::any_of(values, [](float value) { return value != 0; }));
  }
}

TEST_CASE("Values of a file are read in order from a random or the first position") {
  const std::vector<int32_t> held = {10, 20, 30, 40, 50};
  auto bytes = std::make_shared<std::string>(held.size() * 4, '\0');
  std::memcpy(bytes->data(), held.data(), bytes->size());
  TensorSpec tensor;
  tensor.name = "x";
  tensor.dtype = DataType::kInt32;
  const CaseSpec spec{.axes = {{"n", 1}}};
  const auto draw = [&](bool random_start, size_t count, uint64_t seed) {
    tensor.init = FileValues{"x.bin", bytes, random_start};
    std::vector<int32_t> values(count);
    Random random(seed);
    const TensorLayout layout{DataType::kInt32, {static_cast<int64_t>(count)}};
    REQUIRE(
        FillInput(tensor, layout, spec, random, std::as_writable_bytes(std::span(values))).ok());
    return values;
  };
  CHECK(draw(false, 3, 1) == std::vector<int32_t>{10, 20, 30});
  std::vector<bool> started(held.size());
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const std::vector<int32_t> values = draw(true, 12, seed);
    const size_t start = static_cast<size_t>(values[0]) / 10 - 1;
    started[start] = true;
    for (size_t i = 0; i < values.size(); ++i) {
      CHECK(values[i] == held[(start + i) % held.size()]);
    }
  }
  CHECK(std::ranges::all_of(started, [](bool seen) { return seen; }));
  // Fewer than the tensor needs: the parser refuses it, and so does this.
  tensor.init = FileValues{"x.bin", bytes, false};
  std::vector<int32_t> values(6);
  Random random(1);
  CHECK(absl::IsInvalidArgument(FillInput(tensor, {DataType::kInt32, {6}}, spec, random,
                                          std::as_writable_bytes(std::span(values)))));
}

}  // namespace
}  // namespace kernelcast::worker
