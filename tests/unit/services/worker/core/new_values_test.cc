#include "services/worker/core/new_values.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace kernelcast::worker {
namespace {

Rounds Of(const std::vector<RoundTimes>& all) {
  Rounds rounds;
  for (const RoundTimes& times : all) rounds.Add(times);
  return rounds;
}

// `count` rounds whose times are 0%, 1%, 2%, 0% ... above these.
Rounds About(const RoundTimes& times, int count = 8) {
  Rounds rounds;
  for (int i = 0; i < count; ++i) {
    const double factor = 1 + 0.01 * (i % 3);
    rounds.Add({times.candidate_ns * factor, times.reference_ns * factor});
  }
  return rounds;
}

TEST_CASE("A kernel as quick on new values as on known ones is charged nothing") {
  const Slowdown slowdown = SlowdownOf(About({100, 200}), About({101, 202}));
  CHECK(std::abs(slowdown.log_value) < kAsQuickLog);
  CHECK(ChargeFor(std::vector{slowdown}) == 1);
}

TEST_CASE("A kernel that is slower on new values is charged the difference") {
  CHECK(ChargeFor(std::vector{SlowdownOf(About({100, 200}), About({140, 200}))}) ==
        Approx(1.4).epsilon(0.02));
}

TEST_CASE("A slowdown that the reference has too is not charged") {
  CHECK(ChargeFor(std::vector{SlowdownOf(About({100, 200}), About({140, 281}))}) == 1);
}

TEST_CASE("A few rounds that the machine held up are not charged") {
  const Rounds known = Of({{100, 200}, {900, 200}, {101, 1000}, {102, 201}, {100, 203}});
  const Rounds fresh = Of({{800, 700}, {101, 202}, {900, 900}, {100, 201}, {101, 200}});
  CHECK(ChargeFor(std::vector{SlowdownOf(known, fresh)}) == 1);
}

TEST_CASE("Noise of the candidate alone is not charged") {
  // Its memory is quick to get in a few rounds, and slow in most.
  const Rounds known = Of({{308, 200}, {310, 200}, {440, 200}, {450, 200}, {490, 200}, {520, 200}});
  const Rounds fresh = Of({{530, 200}, {480, 200}, {450, 200}, {455, 200}, {500, 200}, {445, 200}});
  CHECK(ChargeFor(std::vector{SlowdownOf(known, fresh)}) == 1);
}

TEST_CASE("Of few rounds a slowdown is certain beyond the noise") {
  const Rounds known = About({100, 200});
  for (const int rounds : {1, 4}) {
    const double middle = known.least().candidate_ns;
    const Rounds little =
        Of(std::vector<RoundTimes>(static_cast<size_t>(rounds), {1.035 * middle, 200}));
    const Rounds much =
        Of(std::vector<RoundTimes>(static_cast<size_t>(rounds), {1.05 * middle, 200}));
    CHECK(ChargeFor(std::vector{SlowdownOf(known, little, 0.04)}) == 1);
    CHECK(ChargeFor(std::vector{SlowdownOf(known, much, 0.04)}) == Approx(1.05));
  }
}

TEST_CASE("A candidate that varies on purpose after pauses hides nothing") {
  Rounds fresh;
  for (int i = 0; i < 16; ++i) fresh.Add({400 + 0.1 * i, 200});
  for (int quick = 1; quick <= 16; ++quick) {
    Rounds known;
    for (int i = 0; i < 16; ++i) known.Add({(i < quick ? 100 : 400) + 0.1 * ((5 * i) % 16), 200});
    INFO(quick << " of 16 rounds are as quick as timed calls");
    const Rounds timed = About({100, 200});
    CHECK(ChargeFor(std::vector{SlowdownOf(timed, known), SlowdownOf(timed, fresh)}) > 3.5);
  }
}

TEST_CASE("Work after every answer is charged, whatever a pause costs a slow reference") {
  // Timed calls take 5 us, those of a round 77. The pause costs the reference 40 us of 519.
  const Rounds timed = About({5'000, 519'000});
  const Rounds round = About({77'000, 560'000}, 16);
  CHECK(ChargeFor(std::vector{SlowdownOf(timed, round)}) * 5'000 > 0.9 * 77'000);
}

// `count` rounds in which a call took between `least_ns` and `most_ns`.
Rounds Between(double least_ns, double most_ns, int count) {
  Rounds rounds;
  for (int i = 0; i < count; ++i) rounds.Add({least_ns, 200}, {most_ns, 200});
  return rounds;
}

TEST_CASE("Rounds that the machine held up leave bounds for a slowdown") {
  const Slowdown slowdown = SlowdownOf(Between(50, 100, 16), Between(80, 400, 16));
  CHECK(slowdown.log_value == Approx(std::log(80. / 100)));
  CHECK(slowdown.most_log_value == Approx(std::log(400. / 50)));
  CHECK_FALSE(slowdown.certain);
}

TEST_CASE("What is not charged and cannot be ruled out is a doubt") {
  CHECK(DoubtOf({}) == 0);
  const Slowdown quiet = SlowdownOf(About({100, 200}, 16), About({101, 202}, 16));
  CHECK(DoubtOf({&quiet, 1}) == 0);
  const Slowdown held_up = SlowdownOf(Between(50, 100, 16), Between(80, 400, 16));
  CHECK(DoubtOf({&held_up, 1}) == Approx(std::log(8) - kAsQuickLog));
  // Charged by 40% where at most 60% is possible.
  const Slowdown charged = SlowdownOf(Between(100, 100, 16), Between(140, 160, 16));
  REQUIRE(charged.certain);
  CHECK(DoubtOf({&charged, 1}) == Approx(std::log(1.6 / 1.4)));
  // A charge for one kind of values covers the doubt about another.
  CHECK(DoubtOf(std::vector{quiet, charged}) == Approx(std::log(1.6 / 1.4)));
}

TEST_CASE("Processor time beyond the reference's is charged, and a reference held up less is not") {
  RoundOverhead overhead;
  CHECK(overhead.WorkNs(500, 0) == 500);
  // The process polls while the judge waits, which is no overhead of a quiet round.
  overhead.AddReference(400'070, 400'000);
  CHECK(overhead.WorkNs(1000, 0) == 1000 - 1.25 * 70);
  for (const double ns : {50, 40, 60}) overhead.AddReference(ns, 0);
  CHECK(overhead.WorkNs(1000, 0) == 1000 - 1.25 * 50);
  CHECK(overhead.WorkNs(1000, 300) == 1000 - 1.25 * 50 - 300);
  CHECK(overhead.WorkNs(60, 0) == 0);
  overhead.AddReference(900'000, 800'000);
  CHECK(overhead.WorkNs(1000, 0) == 1000 - 1.25 * 50);
  CHECK(overhead.WorkNs(0, 0) == 0);
}

std::vector<RelativeTimes> Blocks(const RelativeTimes& block, size_t count) {
  return std::vector<RelativeTimes>(count, block);
}

TEST_CASE("Some calls that do the work of others are found, steady ones and outliers are not") {
  const RelativeTimes steady = {1, 1.01, 0.99, 1, 1.02, 1, 1, 1};
  const RelativeTimes grouped = {1, 1, 16, 1, 1, 16, 1, 1};
  const RelativeTimes outlier = {1, 1, 1, 1, 17, 1, 1, 1};
  CHECK(DoOthersWork(Blocks(grouped, 8), Blocks(steady, 8)));
  CHECK_FALSE(DoOthersWork(Blocks(steady, 8), Blocks(steady, 8)));
  // As noisy a reference: the machine's doing.
  CHECK_FALSE(DoOthersWork(Blocks(grouped, 8), Blocks(outlier, 8)));
  std::vector<RelativeTimes> now_and_then = Blocks(steady, 8);
  now_and_then[1] = now_and_then[5] = outlier;
  CHECK_FALSE(DoOthersWork(now_and_then, Blocks(steady, 8)));
  // Calls of an honest kernel on a busy machine, 2.3 on average: some find cold caches, one was
  // interrupted.
  RelativeTimes busy(80, 1);
  std::fill_n(busy.begin(), 10, 8.5);
  busy[40] = 29;
  CHECK_FALSE(DoOthersWork(Blocks(busy, 34), Blocks(steady, 34)));
  // Too little to tell.
  CHECK_FALSE(DoOthersWork(Blocks(grouped, 3), Blocks(steady, 8)));
  CHECK_FALSE(DoOthersWork(Blocks({1, 9, 1}, 8), Blocks(steady, 8)));
}

}  // namespace
}  // namespace kernelcast::worker
