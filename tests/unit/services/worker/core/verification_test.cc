#include "services/worker/core/verification.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "services/worker/core/narrow_float.h"
#include "services/worker/core/random.h"

namespace kernelcast::worker {
namespace {

constexpr Tolerance kTolerance{.atol = 1e-6, .rtol = 1e-5, .normwise = 1e-5};

ExpectedTensor Expect(const std::vector<double>& values, Tolerance tolerance = kTolerance,
                      DataType dtype = DataType::kFloat32) {
  const TensorLayout layout{dtype, {static_cast<int64_t>(values.size())}};
  return ExpectedTensor(layout, tolerance, std::as_bytes(std::span(values)));
}

ExpectedTensor ExpectIntegers(const std::vector<int32_t>& values, Tolerance tolerance = {}) {
  const TensorLayout layout{DataType::kInt32, {static_cast<int64_t>(values.size())}};
  return ExpectedTensor(layout, tolerance, std::as_bytes(std::span(values)));
}

template <class T>
TensorVerdict Compare(const ExpectedTensor& expected, const std::vector<T>& got,
                      std::optional<Poison> poison = std::nullopt) {
  return CompareTensor(expected, std::as_bytes(std::span(got)), poison);
}

TEST_CASE("Values within the tolerance match and the first beyond it is reported") {
  const ExpectedTensor expected = Expect({1, 2, 3, 4});
  CHECK(Compare<float>(expected, {1, 2, 3, 4}).ok);
  CHECK(Compare<float>(expected, {1.000005f, 2, 3, 4}).ok);
  const TensorVerdict verdict = Compare<float>(expected, {1, 2, 3.5f, 4.5f});
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.cause == WrongResult::Cause::kValue);
  CHECK(verdict.mismatches == 2);
  CHECK(verdict.index == 2);
  CHECK(verdict.got == 3.5);
  CHECK(verdict.expected == 3);
}

TEST_CASE("An output also agrees within what the reference's own error allows") {
  // The root mean square is 5, so that an element may be off by 3 * 0.01 * 5 = 0.15, and the norm
  // of all errors may be 3 * 0.005 * 10 = 0.15.
  Tolerance tolerance = kTolerance;
  tolerance.own_error = {.largest = 0.01, .normwise = 0.005};
  const ExpectedTensor expected = Expect({1, 7, -7, 1}, tolerance);
  const TensorVerdict exact = Compare<float>(expected, {1, 7, -7, 1});
  CHECK(exact.ok);
  CHECK_FALSE(exact.by_own_error);
  const TensorVerdict one = Compare<float>(expected, {1.125f, 7, -7, 1.0625f});
  CHECK(one.ok);
  CHECK(one.by_own_error);
  CHECK(one.mismatches == 2);
  CHECK(one.variation.count == 4);
  CHECK(OwnErrorText(one.mismatches, 4, "y") ==
        "; decided by the latter: the former refuses 2 of 4 values of output y");
  CHECK_FALSE(Compare<float>(expected, {1.1875f, 7, -7, 1}).ok);
  // Each is near enough, but not all together.
  CHECK_FALSE(Compare<float>(expected, {1.125f, 7.125f, -7, 1}).ok);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(Compare<float>(expected, {nan, 7, -7, 1}).ok);
  CHECK_FALSE(Compare<float>(Expect({HUGE_VAL, 7, -7, 1}, tolerance), {7, 7.0625f, -7, 1}).ok);
}

TEST_CASE("The absolute tolerance grows with the magnitude of the tensor") {
  // An element that is zero by cancellation may be off in proportion to the large ones.
  const ExpectedTensor large =
      Expect({1e6, 0, 1e6, 1e6}, {.atol = 1e-6, .rtol = 1e-6, .normwise = 1e-3});
  CHECK(Compare<float>(large, {1e6, 0.5f, 1e6, 1e6}).ok);
  const ExpectedTensor small = Expect({1, 0, 1, 1}, {.atol = 1e-6, .rtol = 1e-6, .normwise = 1e-3});
  CHECK_FALSE(Compare<float>(small, {1, 0.5f, 1, 1}).ok);
}

TEST_CASE("NaN matches nothing and an infinity matches itself") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const ExpectedTensor expected = Expect({1, HUGE_VAL, -HUGE_VAL, 2});
  CHECK(Compare<float>(expected, {1, inf, -inf, 2}).ok);
  CHECK_FALSE(Compare<float>(expected, {1, -inf, -inf, 2}).ok);
  CHECK_FALSE(Compare<float>(expected, {1, 3e38f, -inf, 2}).ok);
  const TensorVerdict verdict = Compare<float>(expected, {nan, inf, -inf, 2});
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.cause == WrongResult::Cause::kNonFinite);
  const ExpectedTensor with_nan = Expect({std::nan(""), 1});
  CHECK(with_nan.has_nan());
  CHECK_FALSE(Compare<float>(with_nan, {nan, 1}).ok);
}

TEST_CASE("NaN agrees with an expected NaN where the tolerance says so") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tolerance tolerance{.atol = 1e-2, .rtol = 1e-2, .nan_agrees = true};
  const ExpectedTensor expected = Expect({std::nan(""), 1, 2}, tolerance);
  CHECK(expected.rms() == std::sqrt(2.5));
  CHECK(Compare<float>(expected, {nan, 1, 2}).ok);
  CHECK(Compare<float>(expected, {-nan, 1, 2}).normwise_error == 0);
  CHECK(Compare<float>(expected, {0, 1, 2}).mismatches == 1);
  CHECK(Compare<float>(expected, {nan, nan, 2}).mismatches == 1);
  CHECK(Compare<float>(expected, {nan, 1, 3}).mismatches == 1);
  CHECK(Compare<float>(Expect({std::nan("")}, tolerance), {nan}).ok);

  // Wrong values are planted elsewhere only.
  SecretRandom random("test");
  std::vector<float> output(3, 0);
  Sentinels sentinels;
  sentinels.Plant(expected, 64, random, std::as_writable_bytes(std::span(output)));
  CHECK(sentinels.planted() == 2);
  CHECK(output[0] == 0);
}

TEST_CASE("A value that overflows the declared type is an infinity") {
  const ExpectedTensor expected = Expect({1e200, -1e39, 1});
  CHECK(Compare<float>(expected, {HUGE_VALF, -HUGE_VALF, 1}).ok);
  const ExpectedTensor wide = Expect({1e200, -1e39, 1}, kTolerance, DataType::kFloat64);
  CHECK(Compare<double>(wide, {1e200, -1e39, 1}).ok);
}

TEST_CASE("Errors too small per element add up in the norm") {
  std::vector<double> want(1000, 1);
  std::vector<float> got(1000, 1.0f + 9e-6f);
  const Tolerance strict{.atol = 0, .rtol = 1e-5, .normwise = 1e-6};
  const TensorVerdict verdict = Compare(Expect(want, strict), got);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.cause == WrongResult::Cause::kNormwise);
  CHECK(verdict.normwise_error == Approx(9e-6).epsilon(0.05));
  CHECK(ExceedsOnlyNormwise(verdict));
  got[1] = 2;
  CHECK_FALSE(ExceedsOnlyNormwise(Compare(Expect(want, strict), got)));
  got[1] = got[0];
  const Tolerance loose{.atol = 0, .rtol = 1e-5, .normwise = 1e-4};
  CHECK(Compare(Expect(want, loose), got).ok);
}

TEST_CASE("A few elements may be off by the rounding of their type") {
  const Tolerance tolerance{.atol = 1e-6, .rtol = 4.5e-3, .normwise = 2.4e-3};
  const auto compare = [&](size_t elements, float error) {
    const std::vector<double> want(elements, 1 + error);
    const uint16_t one = 0x3f80;
    const std::vector<uint16_t> got(elements, one);
    return Compare(Expect(want, tolerance, DataType::kBfloat16), got).ok;
  };
  // 2^-8, for a value halfway between 1 and the next bfloat16.
  CHECK(compare(1, 3.9e-3f));
  CHECK(compare(63, 3.9e-3f));
  CHECK_FALSE(compare(64, 3.9e-3f));
  CHECK(compare(64, 2.3e-3f));
  CHECK(NormwiseLimit(tolerance, DataType::kFloat32, 1) == Approx(2.4e-3).epsilon(1e-4));
  CHECK(NormwiseLimit({}, DataType::kBfloat16, 1) == 0);
}

TEST_CASE("A tensor that should be zero has no relative norm limit") {
  const ExpectedTensor expected = Expect(std::vector<double>(100, 0));
  CHECK(Compare(expected, std::vector<float>(100, 1e-7f)).ok);
  CHECK_FALSE(Compare(expected, std::vector<float>(100, 1e-5f)).ok);
}

TEST_CASE("Integers are exact by default") {
  CHECK(Compare<int32_t>(ExpectIntegers({1, -2, 3}), {1, -2, 3}).ok);
  CHECK_FALSE(Compare<int32_t>(ExpectIntegers({1, -2, 3}), {1, -2, 4}).ok);
  CHECK(Compare<int32_t>(ExpectIntegers({1, -2, 3}, {.atol = 1}), {1, -2, 4}).ok);
}

TEST_CASE("Large 64-bit integers are not compared as doubles") {
  const std::vector<int64_t> want = {int64_t{1} << 62};
  const ExpectedTensor expected({DataType::kInt64, {1}}, {}, std::as_bytes(std::span(want)));
  CHECK(Compare<int64_t>(expected, {int64_t{1} << 62}).ok);
  CHECK_FALSE(Compare<int64_t>(expected, {(int64_t{1} << 62) + 1}).ok);
}

TEST_CASE("Remaining poison is distinguished from wrong values") {
  const std::vector<double> want(64, 0.5);
  const ExpectedTensor expected = Expect(want);
  for (const PoisonKind kind : {PoisonKind::kNonFinite, PoisonKind::kPlausible}) {
    std::vector<float> output(64);
    FillPoison(kind, 42, expected, std::as_writable_bytes(std::span(output)));
    for (size_t i = 0; i < 60; ++i) {
      output[i] = 0.5f;
    }
    const TensorVerdict tail = Compare(expected, output, Poison{kind, 42});
    CHECK_FALSE(tail.ok);
    CHECK(tail.cause == WrongResult::Cause::kNotWritten);
    CHECK(tail.index == 60);
    CHECK(tail.mismatches == 4);
    // The same, with one independently wrong value.
    output[3] = 9;
    const TensorVerdict mixed = Compare(expected, output, Poison{kind, 42});
    CHECK(mixed.cause != WrongResult::Cause::kNotWritten);
  }
}

TEST_CASE("Poison depends on its seed, and is plausible or NaN as requested") {
  const ExpectedTensor expected = Expect(std::vector<double>(256, 3));
  std::vector<float> first(256);
  std::vector<float> second(256);
  FillPoison(PoisonKind::kNonFinite, 1, expected, std::as_writable_bytes(std::span(first)));
  for (const float value : first) {
    CHECK(std::isnan(value));
  }
  FillPoison(PoisonKind::kNonFinite, 2, expected, std::as_writable_bytes(std::span(second)));
  CHECK(std::memcmp(first.data(), second.data(), sizeof(float) * 256) != 0);
  FillPoison(PoisonKind::kPlausible, 1, expected, std::as_writable_bytes(std::span(first)));
  for (const float value : first) {
    CHECK(std::abs(value) < 5);
  }
}

TEST_CASE("Sentinels are wrong, look like data, and are found where planted") {
  Random random(7);
  SecretRandom secret(SecretKey{7}, "sentinels");
  std::vector<double> want;
  for (int i = 0; i < 500; ++i) {
    want.push_back(random.Normal());
  }
  const ExpectedTensor expected = Expect(want);
  std::vector<float> output(want.begin(), want.end());
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(output));
  Sentinels sentinels;
  sentinels.Plant(expected, 16, secret, bytes);
  CHECK(sentinels.planted() <= 16);
  CHECK(sentinels.planted() >= 14);
  int changed = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    CHECK(std::abs(output[i]) < 10);
    changed += output[i] == static_cast<float>(want[i]) ? 0 : 1;
  }
  CHECK(changed == sentinels.planted());
  const Sentinels::Check untouched = sentinels.Look(expected, bytes);
  CHECK(untouched.wrong == sentinels.planted());
  CHECK(untouched.untouched == sentinels.planted());

  std::copy(want.begin(), want.end(), output.begin());
  CHECK(sentinels.Look(expected, bytes).wrong == 0);
  std::fill(output.begin(), output.end(), 77.0f);
  const Sentinels::Check overwritten = sentinels.Look(expected, bytes);
  CHECK(overwritten.wrong == sentinels.planted());
  CHECK(overwritten.untouched == 0);
}

TEST_CASE("Sentinels are wrong in constant, zero, infinite and tiny outputs too") {
  SecretRandom secret(SecretKey{8}, "sentinels");
  for (const std::vector<double>& want :
       {std::vector<double>(40, 0.0), std::vector<double>(40, 5.0), std::vector<double>{1.0},
        std::vector<double>(40, HUGE_VAL), std::vector<double>(40, 1e-30)}) {
    const ExpectedTensor expected = Expect(want);
    std::vector<float> output(want.begin(), want.end());
    Sentinels sentinels;
    sentinels.Plant(expected, 16, secret, std::as_writable_bytes(std::span(output)));
    REQUIRE(sentinels.planted() > 0);
    CHECK(sentinels.Look(expected, std::as_bytes(std::span(output))).wrong == sentinels.planted());
  }
  const std::vector<int32_t> counts(30, 4);
  const ExpectedTensor expected = ExpectIntegers(counts);
  std::vector<int32_t> output = counts;
  Sentinels sentinels;
  sentinels.Plant(expected, 16, secret, std::as_writable_bytes(std::span(output)));
  CHECK(sentinels.Look(expected, std::as_bytes(std::span(output))).wrong == sentinels.planted());
}

TEST_CASE("Reported values are rounded") {
  CHECK(RoundForReport(1.23456789) == Approx(1.235));
  CHECK(RoundForReport(-98765.4321) == Approx(-98770));
  double got = 7990.1234;
  double expected = 7990.1334;
  RoundForReport(got, expected);
  CHECK(got == Approx(7990.12).epsilon(1e-9));
  CHECK(expected == Approx(7990.13).epsilon(1e-9));
  CHECK(RoundForReport(0) == 0);
  CHECK(std::isinf(RoundForReport(HUGE_VAL)));
}

TEST_CASE("An element may agree within the larger of two bounds") {
  const Tolerance tolerance{
      .atol = 0.01, .rtol = 0.01, .normwise = 0, .scaled = false, .larger_of_both = true};
  const ExpectedTensor expected = Expect({100, 0, 1}, tolerance);
  CHECK(Compare<float>(expected, {100.9f, 0.009f, 1.009f}).ok);
  // Within the sum of both bounds, but not within either.
  CHECK_FALSE(Compare<float>(expected, {101.005f, 0, 1}).ok);
  CHECK_FALSE(Compare<float>(expected, {100, 0, 1.015f}).ok);
  CHECK(Compare<int32_t>(ExpectIntegers({200, 3}, tolerance), {202, 3}).ok);
  CHECK_FALSE(Compare<int32_t>(ExpectIntegers({200, 3}, tolerance), {200, 4}).ok);
}

TEST_CASE("A share of the elements may disagree, but each is finite and not far off") {
  const Tolerance tolerance{.atol = 0.01,
                            .rtol = 0,
                            .normwise = 0,
                            .scaled = false,
                            .matched_ratio = 0.75,
                            .max_error = 5,
                            .infinities = Tolerance::Infinities::kNegative};
  const ExpectedTensor expected = Expect({1, 2, -HUGE_VAL, 4}, tolerance);
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(Compare<float>(expected, {1, 3, -inf, 4}).ok);
  CHECK(Compare<float>(expected, {1, 3, -inf, 4}).mismatches == 1);
  CHECK_FALSE(Compare<float>(expected, {2, 3, -inf, 4}).ok);
  CHECK_FALSE(Compare<float>(expected, {1, 8, -inf, 4}).ok);
  CHECK_FALSE(Compare<float>(expected, {1, inf, -inf, 4}).ok);
  CHECK_FALSE(Compare<float>(Expect({1, 2, HUGE_VAL, 4}, tolerance), {1, 2, inf, 4}).ok);
  // What was not written is wrong, however few.
  const Poison poison{PoisonKind::kPlausible, 7};
  std::vector<float> output(4);
  const ExpectedTensor finite = Expect({1, 2, 3, 4}, tolerance);
  FillPoison(poison.kind, poison.seed, finite, std::as_writable_bytes(std::span(output)));
  for (const size_t i : {0, 1, 2}) output[i] = static_cast<float>(i + 1);
  const TensorVerdict verdict = Compare<float>(finite, output, poison);
  CHECK_FALSE(verdict.ok);
  CHECK(verdict.cause == WrongResult::Cause::kNotWritten);
}

TEST_CASE("An output of zeros is wrong where the rule says so, even within the tolerance") {
  Tolerance tolerance{.atol = 1, .rtol = 0, .normwise = 0, .scaled = false};
  CHECK(Compare<float>(Expect({0.1, 0}, tolerance), {0, 0}).ok);
  tolerance.not_all_zero = true;
  CHECK_FALSE(Compare<float>(Expect({0.1, 0}, tolerance), {0, 0}).ok);
  CHECK(Compare<float>(Expect({0.1, 0}, tolerance), {0.2f, 0}).ok);
  CHECK(Compare<float>(Expect({0, 0}, tolerance), {0, 0}).ok);
}

TEST_CASE("Outputs of narrow types are compared by their values") {
  const Tolerance tolerance{.atol = 0.01, .rtol = 0.01, .normwise = 0, .scaled = false};
  for (const DataType dtype : {DataType::kBfloat16, DataType::kFloat16, DataType::kFloat8E5m2}) {
    INFO(Name(dtype));
    const std::vector<double> values = {1, -2, 0.5, 4};
    const ExpectedTensor expected = Expect(values, tolerance, dtype);
    const auto size = static_cast<size_t>(SizeBytes(dtype));
    std::vector<std::byte> output(values.size() * size);
    const Poison poison{PoisonKind::kNonFinite, 3};
    FillPoison(poison.kind, poison.seed, expected, output);
    CHECK(CompareTensor(expected, output, poison).cause == WrongResult::Cause::kNotWritten);
    const auto write = [&](size_t i, double value) {
      const uint32_t bits = EncodeNarrow(dtype, value);
      std::memcpy(output.data() + i * size, &bits, size);
    };
    for (size_t i = 0; i < values.size(); ++i) write(i, values[i]);
    CHECK(CompareTensor(expected, output, poison).ok);
    SecretRandom random("test");
    Sentinels sentinels;
    sentinels.Plant(expected, 2, random, output);
    CHECK(sentinels.Look(expected, output).untouched == sentinels.planted());
    for (size_t i = 0; i < values.size(); ++i) write(i, values[i]);
    CHECK(sentinels.Look(expected, output).wrong == 0);
    write(3, 5);
    const TensorVerdict verdict = CompareTensor(expected, output, std::nullopt);
    CHECK_FALSE(verdict.ok);
    CHECK(verdict.index == 3);
    CHECK(verdict.got == 5);
  }
}

}  // namespace
}  // namespace kernelcast::worker
