#include "services/forecaster/pool/answer_value.h"

#include <catch2/catch.hpp>

namespace kernelcast::forecaster::answer_value_test {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr double kEntropy = 1.5;

// A search with a label every `interval_ns`, up to the returned time.
int64_t Labels(AnswerValue& value, int count, int64_t interval_ns, double gain) {
  int64_t now_ns = kSecond;
  for (int i = 0; i < count; ++i) {
    value.Labelled(now_ns);
    value.Scored(gain);
    now_ns += interval_ns;
  }
  return now_ns;
}

void Answer(AnswerValue& value, int count, int64_t latency_ns, bool is_forecast, double cost = 0) {
  for (int i = 0; i < count; ++i) {
    value.Sent(0);
    value.Ended(is_forecast, 0, latency_ns, cost);
  }
}

}  // namespace

TEST_CASE("A first answer is awaited briefly, and not by everybody", "[forecaster][pool]") {
  AnswerValue value;
  CHECK(value.IsWorthAsking(kEntropy, 0));
  CHECK(value.PatienceNs(kEntropy, 0) == kSecond / 10);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(value.IsWorthAsking(kEntropy, 0));
    value.Sent(0);
  }
  // Too many without an answer.
  CHECK_FALSE(value.IsWorthAsking(kEntropy, 0));
  CHECK(value.PatienceNs(kEntropy, kSecond / 20) == kSecond / 10);
  // The model is slow.
  CHECK(value.PatienceNs(kEntropy, kSecond / 5) == 0);
  value.Ended(true, 0, 30 * kSecond, 0);
  CHECK(value.PatienceNs(kEntropy, 30 * kSecond) == 0);
  CHECK_FALSE(value.IsWorthAsking(kEntropy, 30 * kSecond));
  value.Ended(true, 0, 31 * kSecond, 0);
  value.Ended(true, 0, 32 * kSecond, 0);
  // One is in flight, of two.
  CHECK(value.IsWorthAsking(kEntropy, 32 * kSecond));
}

TEST_CASE("Questions to a quick model are not limited", "[forecaster][pool]") {
  AnswerValue value;
  Answer(value, 1, kSecond / 10, true);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(value.IsWorthAsking(kEntropy, 0));
    value.Sent(0);
  }
}

TEST_CASE("An answer is worth the part of a measurement that it replaces", "[forecaster][pool]") {
  AnswerValue value;
  Answer(value, 200, kSecond / 10, true);
  const int64_t now_ns = Labels(value, 200, 10 * kSecond, /*gain=*/0.75);
  // Nearly half of what a measurement tells, in 10 s, for nearly all questions.
  const double worth = 10e9 * value.share() * value.gain_nats() / kEntropy;
  CHECK(worth == Approx(3.92e9).epsilon(0.01));
  CHECK(value.PatienceNs(kEntropy, now_ns) == Approx(worth));
  // Nearly certain: it replaces a measurement.
  CHECK(value.PatienceNs(0.01, now_ns) == Approx(10e9 * value.share()));
  // An answer that comes later is not awaited.
  Answer(value, 200, 6 * kSecond, true);
  CHECK(value.PatienceNs(kEntropy, now_ns) == 0);
  // But asked for, because it has been seen to gain, and any number at once.
  for (int i = 0; i < 100; ++i) {
    REQUIRE(value.IsWorthAsking(kEntropy, now_ns));
    value.Sent(now_ns);
  }
}

TEST_CASE("A model that gains nothing is asked rarely", "[forecaster][pool]") {
  AnswerValue value;
  SECTION("its answers are no forecasts") { Answer(value, 200, kSecond / 10, false); }
  SECTION("its forecasts do not help") { Answer(value, 200, kSecond / 10, true); }
  const int64_t now_ns = Labels(value, 200, 10 * kSecond, value.share() > 0.5 ? -0.1 : 0.1);
  CHECK(value.PatienceNs(kEntropy, now_ns) < 20'000'000);
  int asked = 0;
  for (int i = 0; i < 320; ++i) asked += value.IsWorthAsking(kEntropy, now_ns) ? 1 : 0;
  CHECK(asked == 10);
}

TEST_CASE("A price is compared with that of measuring", "[forecaster][pool]") {
  // At 3 dollars an hour, 10 s of measuring cost 0.8 cents. An answer replaces nearly half.
  for (const auto& [cost, is_worth_it] : {std::pair(0.003, true), std::pair(0.005, false)}) {
    AnswerValue value;
    Answer(value, 200, kSecond / 10, true, cost);
    const int64_t now_ns = Labels(value, 200, 10 * kSecond, /*gain=*/0.75);
    CHECK(value.IsWorthAsking(kEntropy, now_ns) == is_worth_it);
  }
}

TEST_CASE("A pause is no measurement", "[forecaster][pool]") {
  AnswerValue value;
  Answer(value, 200, 1000, true);
  int64_t now_ns = Labels(value, 200, kSecond, 0.75);
  const int64_t before_ns = value.PatienceNs(kEntropy, now_ns);
  now_ns += 3600 * kSecond;
  value.Labelled(now_ns);
  CHECK(value.PatienceNs(kEntropy, now_ns) == before_ns);
}

}  // namespace kernelcast::forecaster::answer_value_test
