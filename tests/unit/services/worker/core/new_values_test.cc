#include "services/worker/core/new_values.h"

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

TEST_CASE("Noise of the candidate alone is neither charged nor convicted") {
  // Its memory is quick to get in a few rounds, and slow in most.
  const Rounds known = Of({{308, 200}, {310, 200}, {440, 200}, {450, 200}, {490, 200}, {520, 200}});
  const Rounds fresh = Of({{530, 200}, {480, 200}, {450, 200}, {455, 200}, {500, 200}, {445, 200}});
  CHECK(ChargeFor(std::vector{SlowdownOf(known, fresh)}) == 1);
  CHECK_FALSE(SurelySlowerBy(1.5, known, fresh));
}

TEST_CASE("Of a single round only a large slowdown is certain") {
  Rounds known(0.01);
  known.Add({100, 200});
  Rounds little(0.01);
  little.Add({103.5, 200});
  Rounds much(0.01);
  much.Add({105, 200});
  CHECK(ChargeFor(std::vector{SlowdownOf(known, little)}) == 1);
  CHECK(ChargeFor(std::vector{SlowdownOf(known, much)}) == Approx(1.05));
}

TEST_CASE("A candidate that varies on purpose hides nothing") {
  Rounds fresh;
  for (int i = 0; i < 16; ++i) fresh.Add({400 + 0.1 * i, 200});
  for (int quick = 1; quick <= 16; ++quick) {
    Rounds known;
    for (int i = 0; i < 16; ++i) known.Add({(i < quick ? 100 : 400) + 0.1 * ((5 * i) % 16), 200});
    INFO(quick << " of 16 rounds are as quick as timed calls");
    const double charge =
        ChargeFor(std::vector{SlowdownOf(known, fresh)}) * (1 + PauseShare(100, 200, known, 0));
    CHECK(charge > 3.5);
  }
}

TEST_CASE("Only many rounds convict") {
  CHECK(SurelySlowerBy(1.5, About({100, 200}, 16), About({160, 200}, 16)));
  CHECK_FALSE(SurelySlowerBy(1.5, About({100, 200}, 16), About({149, 200}, 16)));
  CHECK_FALSE(SurelySlowerBy(1.5, About({100, 200}, 16), About({160, 220}, 16)));
  CHECK_FALSE(SurelySlowerBy(1.5, About({100, 200}, 8), About({400, 200}, 8)));
}

TEST_CASE("A pause may cost the candidate twice what it costs the reference") {
  const Rounds known = Of({{160'000, 230'000}});
  CHECK(PauseShare(100'000, 200'000, known, 2000) == 0);
  CHECK(PauseShare(100'000, 229'000, known, 2000) == Approx(0.51));
  CHECK(PauseShare(200'000, 229'000, known, 2000) == 0);
}

std::vector<RelativeTimes> Blocks(const RelativeTimes& block, size_t count) {
  return std::vector<RelativeTimes>(count, block);
}

TEST_CASE("Some calls that do the work of others are found, steady ones and outliers are not") {
  const RelativeTimes steady = {1, 1.01, 0.99, 1, 1.02, 1, 1, 1};
  const RelativeTimes grouped = {1, 1, 8, 1, 1, 8, 1, 1};
  const RelativeTimes outlier = {1, 1, 1, 1, 9, 1, 1, 1};
  CHECK(DoOthersWork(Blocks(grouped, 8), Blocks(steady, 8)));
  CHECK_FALSE(DoOthersWork(Blocks(steady, 8), Blocks(steady, 8)));
  // As noisy a reference: the machine's doing.
  CHECK_FALSE(DoOthersWork(Blocks(grouped, 8), Blocks(outlier, 8)));
  std::vector<RelativeTimes> now_and_then = Blocks(steady, 8);
  now_and_then[1] = now_and_then[5] = outlier;
  CHECK_FALSE(DoOthersWork(now_and_then, Blocks(steady, 8)));
  // Too little to tell.
  CHECK_FALSE(DoOthersWork(Blocks(grouped, 3), Blocks(steady, 8)));
  CHECK_FALSE(DoOthersWork(Blocks({1, 9, 1}, 8), Blocks(steady, 8)));
}

}  // namespace
}  // namespace kernelcast::worker
