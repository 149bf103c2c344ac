#include "services/forecaster/llm/response_ladder.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

namespace kernelcast::forecaster::response_ladder_test {
namespace {

using Walk = ResponseLadder::Walk;
using Outcome = RungOutcome;

constexpr int64_t kSecond = 1'000'000'000;
const ResponseLadder::Key kKey = {"here", "model"};
const ResponseLadder::Key kOther = {"there", "model"};

// Makes one attempt. Returns its rung.
Rung Attempt(ResponseLadder& ladder, Walk& walk, Outcome outcome, int64_t now_ns = 0) {
  const Rung rung = ladder.Next(kKey, walk, now_ns);
  ladder.Report(kKey, walk, rung, outcome, now_ns);
  return rung;
}

Rung Attempt(ResponseLadder& ladder, Outcome outcome, int64_t now_ns = 0) {
  Walk walk;
  return Attempt(ladder, walk, outcome, now_ns);
}

// A ladder whose key is at tools_named since time 0.
ResponseLadder Demoted() {
  ResponseLadder ladder({});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsNamed);
  return ladder;
}

TEST_CASE("A refused request moves down, and others follow once it is answered",
          "[forecaster][ladder]") {
  ResponseLadder ladder({});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kToolsNamed);
  // Until there is an answer the request may be at fault.
  CHECK(ladder.Current(kKey) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsAuto);
  CHECK(ladder.Current(kKey) == Rung::kToolsAuto);
  CHECK(Attempt(ladder, Outcome::kAnswered) == Rung::kToolsAuto);
  // Another endpoint is independent.
  CHECK(ladder.Current(kOther) == Rung::kJsonSchema);
}

TEST_CASE("A request refused at every rung moves nobody", "[forecaster][ladder]") {
  ResponseLadder ladder({});
  Walk walk;
  std::vector<bool> more;
  for (int i = 0; i < 4; ++i) {
    const Rung rung = ladder.Next(kKey, walk, 0);
    CHECK(rung == kRungs[i]);
    more.push_back(ladder.Report(kKey, walk, rung, Outcome::kRefused, 0));
  }
  CHECK(more == std::vector<bool>{true, true, true, false});
  CHECK(ladder.Current(kKey) == Rung::kJsonSchema);
}

TEST_CASE("Consecutive unparsable answers move everybody down", "[forecaster][ladder]") {
  ResponseLadder ladder({});
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kAnswered) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kNoVerdict) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(ladder.Current(kKey) == Rung::kToolsNamed);
  // The last rung has no lower one.
  for (int i = 0; i < 30; ++i) Attempt(ladder, Outcome::kUnparsable);
  CHECK(ladder.Current(kKey) == Rung::kText);
}

TEST_CASE("An unparsable request retries one rung lower", "[forecaster][ladder]") {
  ResponseLadder ladder({});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsNamed);
  // This says nothing about the rung above.
  CHECK(ladder.Current(kKey) == Rung::kJsonSchema);
}

TEST_CASE("After a while one request tries the rung above", "[forecaster][ladder]") {
  ResponseLadder ladder = Demoted();
  CHECK(Attempt(ladder, Outcome::kAnswered, 599 * kSecond) == Rung::kToolsNamed);
  Walk trial;
  CHECK(ladder.Next(kKey, trial, 600 * kSecond) == Rung::kJsonSchema);
  CHECK(trial.trial);
  // The others stay meanwhile.
  CHECK(Attempt(ladder, Outcome::kAnswered, 600 * kSecond) == Rung::kToolsNamed);
  ladder.Report(kKey, trial, Rung::kJsonSchema, Outcome::kAnswered, 601 * kSecond);
  CHECK(ladder.Current(kKey) == Rung::kJsonSchema);
}

TEST_CASE("A failed trial is repeated after twice the delay, up to a limit",
          "[forecaster][ladder]") {
  ResponseLadder ladder = Demoted();
  int64_t now = 600 * kSecond;
  for (const int64_t pause : {1200, 2400, 4800, 9600, 19200, 21600, 21600}) {
    Walk walk;
    CHECK(Attempt(ladder, walk, Outcome::kRefused, now) == Rung::kJsonSchema);
    // The same request continues at the others' rung.
    CHECK(Attempt(ladder, walk, Outcome::kAnswered, now) == Rung::kToolsNamed);
    CHECK(ladder.Current(kKey) == Rung::kToolsNamed);
    CHECK(Attempt(ladder, Outcome::kAnswered, now + pause * kSecond - 1) == Rung::kToolsNamed);
    now += pause * kSecond;
  }
}

TEST_CASE("A trial without a verdict is soon followed by another", "[forecaster][ladder]") {
  ResponseLadder ladder = Demoted();
  CHECK(Attempt(ladder, Outcome::kNoVerdict, 600 * kSecond) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kAnswered, 659 * kSecond) == Rung::kToolsNamed);
  CHECK(Attempt(ladder, Outcome::kAnswered, 660 * kSecond) == Rung::kJsonSchema);
}

TEST_CASE("Requests under way at a demotion do not lengthen the wait", "[forecaster][ladder]") {
  ResponseLadder ladder({});
  std::vector<Walk> under_way(100);
  for (Walk& walk : under_way) CHECK(ladder.Next(kKey, walk, 0) == Rung::kJsonSchema);
  Walk first;
  CHECK(Attempt(ladder, first, Outcome::kRefused) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, first, Outcome::kAnswered) == Rung::kToolsNamed);
  for (Walk& walk : under_way) {
    CHECK(ladder.Report(kKey, walk, Rung::kJsonSchema, Outcome::kRefused, 0));
    CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsNamed);
  }
  CHECK(Attempt(ladder, Outcome::kAnswered, 600 * kSecond) == Rung::kJsonSchema);
}

TEST_CASE("A prompt may have fewer rungs in its own order", "[forecaster][ladder]") {
  ResponseLadder ladder({.rungs = {Rung::kToolsAuto, Rung::kText}});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kToolsAuto);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kText);
  CHECK(ladder.Current(kKey) == Rung::kText);
}

TEST_CASE("A request is sent a bounded number of times and never moves up",
          "[forecaster][ladder]") {
  uint64_t state = 3;
  const auto draw = [&state](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  ResponseLadder ladder({});
  int64_t now = 0;
  for (int round = 0; round < 2000; ++round) {
    Walk walk;
    int attempts = 0;
    Rung before = Rung::kJsonSchema;
    for (bool more = true; more; ++attempts) {
      now += static_cast<int64_t>(draw(100)) * kSecond;
      const Rung rung = ladder.Next(kKey, walk, now);
      if (attempts > 0) CHECK(rung > before);
      before = rung;
      const auto outcome = static_cast<Outcome>(draw(4));
      more = ladder.Report(kKey, walk, rung, outcome, now);
    }
    CHECK(attempts <= 4);
  }
}

TEST_CASE("Rungs are looked up by name", "[forecaster][ladder]") {
  for (const Rung rung : kRungs) CHECK(ParseRung(Name(rung)).value() == rung);
  CHECK(ParseRung("grammar").status().message() ==
        "rung 'grammar' is not one of json_schema, tools_named, tools_auto, text");
}

}  // namespace
}  // namespace kernelcast::forecaster::response_ladder_test
