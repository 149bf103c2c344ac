#include "services/worker/core/draw_plan.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "common/domain/problem.h"

namespace kernelcast::worker {
namespace {

constexpr uint64_t kSeed = 0x123456789abcdef0u;

template <class T>
std::vector<T> Drawn(DataType dtype, const DrawPlan& plan, uint64_t seed = kSeed,
                     size_t count = 20'000) {
  std::vector<T> values(count);
  DrawByCounter(dtype, plan, seed, std::as_writable_bytes(std::span(values)));
  return values;
}

double Mean(const std::vector<float>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Deviation(const std::vector<float>& values) {
  const double mean = Mean(values);
  double squares = 0;
  for (const float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

DrawPlan Normally(double mean, double deviation) {
  DrawPlan plan;
  plan.kind = kDrawNormal;
  plan.a = mean;
  plan.b = deviation;
  return plan;
}

TEST_CASE("Values drawn by counter follow the declared distribution") {
  const auto normal = Drawn<float>(DataType::kFloat32, Normally(3, 2));
  CHECK(Mean(normal) == Approx(3).margin(0.06));
  CHECK(Deviation(normal) == Approx(2).epsilon(0.03));
  DrawPlan uniform;
  uniform.kind = kDrawUniform;
  uniform.a = -1;
  uniform.b = 3;
  const auto flat = Drawn<float>(DataType::kFloat32, uniform);
  CHECK(Mean(flat) == Approx(1).margin(0.05));
  CHECK(*std::min_element(flat.begin(), flat.end()) >= -1);
  CHECK(*std::max_element(flat.begin(), flat.end()) <= 3);
  CHECK(Deviation(flat) == Approx(4 / std::sqrt(12.0)).epsilon(0.03));
  DrawPlan integers;
  integers.kind = kDrawIntegers;
  integers.low = -2;
  integers.range = 5;
  const auto whole = Drawn<int32_t>(DataType::kInt32, integers);
  CHECK(std::set<int32_t>(whole.begin(), whole.end()) == std::set<int32_t>{-2, -1, 0, 1, 2});
  DrawPlan log_normal = Normally(1, 0.5);
  log_normal.kind = kDrawLogNormal;
  auto logs = Drawn<float>(DataType::kFloat32, log_normal);
  for (float& value : logs) value = std::log(value);
  CHECK(Mean(logs) == Approx(1).margin(0.02));
  CHECK(Deviation(logs) == Approx(0.5).epsilon(0.03));
  DrawPlan power_law;
  power_law.kind = kDrawPowerLaw;
  power_law.a = 1;
  power_law.b = 1000;
  power_law.exponent = 2;
  const auto skewed = Drawn<float>(DataType::kFloat32, power_law);
  CHECK(*std::min_element(skewed.begin(), skewed.end()) >= 1);
  CHECK(*std::max_element(skewed.begin(), skewed.end()) <= 1000);
  // Half of the values of x^-2 over [1, 1000] lie below 2.
  CHECK(std::count_if(skewed.begin(), skewed.end(), [](float value) { return value < 2; }) ==
        Approx(10'000).epsilon(0.05));
  DrawPlan steps = Normally(0, 1);
  steps.step = 0.25;
  for (const float value : Drawn<float>(DataType::kFloat32, steps, kSeed, 100)) {
    CHECK(std::remainder(value, 0.25F) == 0);
  }
  DrawPlan constant;
  constant.a = 7;
  CHECK(Drawn<int64_t>(DataType::kInt64, constant, 1, 3) == std::vector<int64_t>{7, 7, 7});
}

TEST_CASE("Only the seed and the position decide a value") {
  const auto first = Drawn<float>(DataType::kFloat32, Normally(0, 1));
  CHECK(first == Drawn<float>(DataType::kFloat32, Normally(0, 1)));
  CHECK(first != Drawn<float>(DataType::kFloat32, Normally(0, 1), kSeed + 1));
  const auto fewer = Drawn<float>(DataType::kFloat32, Normally(0, 1), kSeed, 10);
  CHECK(std::equal(fewer.begin(), fewer.end(), first.begin()));
}

TEST_CASE("Adversarial changes match those on the host") {
  DrawPlan plan = Normally(0, 1);
  const auto plain = Drawn<float>(DataType::kFloat32, plan);
  plan.change = kDrawLarge;
  const auto large = Drawn<float>(DataType::kFloat32, plan);
  CHECK(large[5] == plain[5] * 1000.0f);
  plan.change = kDrawZeros;
  const auto zeros = Drawn<float>(DataType::kFloat32, plan);
  CHECK(std::count(zeros.begin(), zeros.end(), 0.0f) == Approx(10'000).epsilon(0.05));
  plan.change = kDrawExtreme;
  const auto extreme = Drawn<float>(DataType::kFloat32, plan);
  const auto is_extreme = [](float value) { return std::abs(value) == 10'000.0f; };
  CHECK(std::count_if(extreme.begin(), extreme.end(), is_extreme) == Approx(78).margin(40));
  // At least one, however few values there are.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto few = Drawn<float>(DataType::kFloat32, plan, seed, 3);
    CHECK(std::count_if(few.begin(), few.end(), is_extreme) >= 1);
  }
  plan.change = kDrawEqualRows;
  plan.row = 4;
  const auto rows = Drawn<float>(DataType::kFloat32, plan, kSeed, 16);
  CHECK(rows[0] == rows[3]);
  CHECK(rows[4] == rows[7]);
  CHECK(rows[0] != rows[4]);
}

TEST_CASE("Integers and narrow floats stay within their types") {
  const auto bytes = Drawn<uint8_t>(DataType::kUint8, Normally(0, 1000));
  CHECK(*std::min_element(bytes.begin(), bytes.end()) == 0);
  CHECK(*std::max_element(bytes.begin(), bytes.end()) == 255);
  DrawPlan one;
  one.a = 1;
  CHECK(Drawn<uint16_t>(DataType::kFloat16, one, 1, 2) == std::vector<uint16_t>{0x3c00, 0x3c00});
  CHECK(Drawn<uint16_t>(DataType::kBfloat16, one, 1, 1)[0] == 0x3f80);
  CHECK(Drawn<uint8_t>(DataType::kFloat8E4m3, one, 1, 1)[0] == 0x38);
}

TEST_CASE("Altering replaces about one value in 128 with the other draw's") {
  const auto base = Drawn<float>(DataType::kFloat32, Normally(0, 1), 1);
  const auto other = Drawn<float>(DataType::kFloat32, Normally(0, 1), 2);
  auto altered = base;
  AlterByCounter(4, 3, std::as_bytes(std::span(other)), std::as_writable_bytes(std::span(altered)));
  int changed = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    if (altered[i] == base[i]) continue;
    ++changed;
    CHECK(altered[i] == other[i]);
  }
  CHECK(changed > 140);
  CHECK(changed <= 157);
  // A single value is replaced too.
  std::vector<float> single = {1};
  const std::vector<float> instead = {2};
  AlterByCounter(4, 3, std::as_bytes(std::span(instead)),
                 std::as_writable_bytes(std::span(single)));
  CHECK(single[0] == 2);
}

TEST_CASE("A plan has the distribution's bounds at the axes and only listed changes") {
  TensorSpec tensor;
  tensor.dtype = DataType::kInt32;
  Integers integers;
  integers.low = Expression::Parse("0", {"n"}).value();
  integers.high = Expression::Parse("n - 1", {"n"}).value();
  tensor.init = integers;
  tensor.adversarial = {Adversarial::kZeros, Adversarial::kLarge};
  const TensorLayout layout{.dtype = DataType::kInt32, .shape = {3, 8}};
  CaseSpec spec{.axes = {{"n", 10}}};
  auto plan = PlanDraw(tensor, layout, spec);
  REQUIRE(plan.ok());
  REQUIRE(plan->has_value());
  CHECK((*plan)->kind == kDrawIntegers);
  CHECK((*plan)->low == 0);
  CHECK((*plan)->range == 10);
  CHECK((*plan)->row == 8);
  CHECK((*plan)->change == kDrawPlain);
  const auto change = [&](Adversarial adversarial) {
    spec.adversarial = adversarial;
    return PlanDraw(tensor, layout, spec).value()->change;
  };
  CHECK(change(Adversarial::kZeros) == kDrawZeros);
  // Integers would leave their range.
  CHECK(change(Adversarial::kLarge) == kDrawPlain);
  CHECK(change(Adversarial::kEqualRows) == kDrawPlain);
  // Not drawn by a kernel.
  TensorSpec file;
  file.init = FileValues();
  CHECK_FALSE(PlanDraw(file, layout, spec).value().has_value());
  TensorSpec narrow;
  narrow.quantisation.precision = DataType::kFloat8E4m3;
  CHECK_FALSE(PlanDraw(narrow, layout, spec).value().has_value());
  spec.axes = {};
  CHECK(absl::IsInvalidArgument(PlanDraw(tensor, layout, spec).status()));
}

}  // namespace
}  // namespace kernelcast::worker
