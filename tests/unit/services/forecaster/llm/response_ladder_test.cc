#include "services/forecaster/llm/response_ladder.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

namespace kernelcast::forecaster {
namespace {

using Walk = ResponseLadder::Walk;
using Outcome = RungOutcome;

constexpr int64_t kSecond = 1'000'000'000;
const ResponseLadder::Key kKey = {"here", "model"};
const ResponseLadder::Key kOther = {"there", "model"};

// One attempt; the rung that it was made at.
Rung Attempt(ResponseLadder& ladder, Walk& walk, Outcome outcome, int64_t now_ns = 0) {
  const Rung rung = ladder.Next(kKey, walk, now_ns);
  ladder.Report(kKey, walk, rung, outcome, now_ns);
  return rung;
}

Rung Attempt(ResponseLadder& ladder, Outcome outcome, int64_t now_ns = 0) {
  Walk walk;
  return Attempt(ladder, walk, outcome, now_ns);
}

// A ladder whose key stands at tools_named since time 0.
ResponseLadder Demoted() {
  ResponseLadder ladder({});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsNamed);
  return ladder;
}

TEST_CASE("A refused request descends, and others follow once it is answered",
          "[forecaster][ladder]") {
  ResponseLadder ladder({});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kToolsNamed);
  // Until there is an answer it may be the request's fault.
  CHECK(ladder.Current(kKey) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsAuto);
  CHECK(ladder.Current(kKey) == Rung::kToolsAuto);
  CHECK(Attempt(ladder, Outcome::kAnswered) == Rung::kToolsAuto);
  // Another endpoint is another matter.
  CHECK(ladder.Current(kOther) == Rung::kJsonSchema);
}

TEST_CASE("A request that is refused everywhere moves nobody", "[forecaster][ladder]") {
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

TEST_CASE("Answers that cannot be read move everybody down when they come in a row",
          "[forecaster][ladder]") {
  ResponseLadder ladder({});
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kAnswered) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kNoVerdict) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(ladder.Current(kKey) == Rung::kToolsNamed);
  // From the last rung there is nowhere to go.
  for (int i = 0; i < 30; ++i) Attempt(ladder, Outcome::kUnparsable);
  CHECK(ladder.Current(kKey) == Rung::kText);
}

TEST_CASE("A request that could not be read asks one rung lower", "[forecaster][ladder]") {
  ResponseLadder ladder({});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kUnparsable) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kToolsNamed);
  // That says nothing of the rung above.
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

TEST_CASE("A trial that fails is repeated after twice as long, up to a limit",
          "[forecaster][ladder]") {
  ResponseLadder ladder = Demoted();
  int64_t now = 600 * kSecond;
  for (const int64_t pause : {1200, 2400, 4800, 9600, 19200, 21600, 21600}) {
    Walk walk;
    CHECK(Attempt(ladder, walk, Outcome::kRefused, now) == Rung::kJsonSchema);
    // The same request goes on where the others are.
    CHECK(Attempt(ladder, walk, Outcome::kAnswered, now) == Rung::kToolsNamed);
    CHECK(ladder.Current(kKey) == Rung::kToolsNamed);
    CHECK(Attempt(ladder, Outcome::kAnswered, now + pause * kSecond - 1) == Rung::kToolsNamed);
    now += pause * kSecond;
  }
}

TEST_CASE("A trial without a verdict is followed by another soon", "[forecaster][ladder]") {
  ResponseLadder ladder = Demoted();
  CHECK(Attempt(ladder, Outcome::kNoVerdict, 600 * kSecond) == Rung::kJsonSchema);
  CHECK(Attempt(ladder, Outcome::kAnswered, 659 * kSecond) == Rung::kToolsNamed);
  CHECK(Attempt(ladder, Outcome::kAnswered, 660 * kSecond) == Rung::kJsonSchema);
}

TEST_CASE("What was under way at a demotion does not lengthen the wait", "[forecaster][ladder]") {
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

TEST_CASE("A prompt may have fewer rungs, in an order of its own", "[forecaster][ladder]") {
  ResponseLadder ladder({.rungs = {Rung::kToolsAuto, Rung::kText}});
  Walk walk;
  CHECK(Attempt(ladder, walk, Outcome::kRefused) == Rung::kToolsAuto);
  CHECK(Attempt(ladder, walk, Outcome::kAnswered) == Rung::kText);
  CHECK(ladder.Current(kKey) == Rung::kText);
}

TEST_CASE("Whatever happens, a request asks a bounded number of times and never higher again",
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

TEST_CASE("Rungs are known by name", "[forecaster][ladder]") {
  for (const Rung rung : kRungs) CHECK(ParseRung(Name(rung)).value() == rung);
  CHECK(ParseRung("grammar").status().message() ==
        "rung 'grammar' is not one of json_schema, tools_named, tools_auto, text");
}

}  // namespace
}  // namespace kernelcast::forecaster
