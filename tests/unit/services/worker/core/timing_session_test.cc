#include "services/worker/core/timing_session.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "services/worker/core/random.h"
#include "services/worker/core/statistics.h"

namespace kernelcast::worker {
namespace {

// Time of a call of a side at a moment of the session.
using CallTime = std::function<double(Side, double now_ns, Random&)>;

struct Simulation {
  CallTime call;
  std::function<bool(Random&)> disturbed = [](Random&) { return false; };
  double disturbed_factor = 8;
  uint64_t seed = 1;
};

// Runs a session to its end with synthetic calls. Returns it for inspection.
TimingSession Run(const Simulation& simulation, const MeasureOptions& options,
                  const PrecisionOptions& precision, double candidate_ns, double reference_ns) {
  TimingSession session(options, precision, candidate_ns, reference_ns);
  Random random(simulation.seed);
  double now_ns = 0;
  int blocks = 0;
  for (auto block = session.Next(); !block.finished; block = session.Next()) {
    REQUIRE(++blocks < 10'000);
    REQUIRE(block.calls >= 1);
    TimingSession::BlockTimes times;
    double elapsed_ns = 0;
    while (std::ssize(times.calls_ns) < block.calls &&
           elapsed_ns <
               static_cast<double>(times.calls_ns.empty() ? block.give_up_ns : block.max_ns)) {
      double ns = simulation.call(block.side, now_ns, random);
      if (simulation.disturbed(random)) {
        ns *= simulation.disturbed_factor;
        times.disturbed_calls_ns.push_back(ns);
      } else {
        times.calls_ns.push_back(ns);
      }
      elapsed_ns += ns;
      now_ns += ns;
    }
    times.elapsed_ns = static_cast<int64_t>(elapsed_ns);
    session.Add(times);
  }
  return session;
}

Simulation PlantedTimes(double reference_ns, double ratio, double noise) {
  Simulation simulation;
  simulation.call = [=](Side side, double, Random& random) {
    const double base = side == Side::kReference ? reference_ns : reference_ns / ratio;
    return base * (1 + noise * std::abs(random.Normal()));
  };
  return simulation;
}

TEST_CASE("A planted ratio is found with the requested precision") {
  const MeasureOptions options;
  const TimingSession session =
      Run(PlantedTimes(200'000, 1.25, 0.01), options, options.screen, 160'000, 200'000);
  const Ratio ratio = session.Estimate();
  CHECK(ratio.value == Approx(1.25).epsilon(0.005));
  CHECK(RelativeHalfWidth(ratio) <= options.screen.half_width);
  CHECK(session.stop_reason() == "precision");
  CHECK(session.discarded_blocks() == 0);
  CHECK(session.blocks() >= 32);
  CHECK(std::ssize(session.CallTimes(Side::kCandidate)) >= options.screen.min_samples);
}

TEST_CASE("Drift shared by both sides does not affect the ratio") {
  const MeasureOptions options;
  Simulation simulation;
  simulation.call = [](Side side, double now_ns, Random& random) {
    // Twice as slow after one second, like a processor that heats up.
    const double drift = 1 + now_ns / 1e9;
    return (side == Side::kReference ? 250'000 : 200'000) * drift *
           (1 + 0.005 * std::abs(random.Normal()));
  };
  const TimingSession session = Run(simulation, options, options.screen, 200'000, 250'000);
  CHECK(session.Estimate().value == Approx(1.25).epsilon(0.005));
  CHECK(session.stop_reason() == "precision");
}

TEST_CASE("Disturbed calls are excluded") {
  const MeasureOptions options;
  Simulation simulation = PlantedTimes(200'000, 1.25, 0.005);
  simulation.disturbed = [](Random& random) { return random.Uniform() < 0.4; };
  const TimingSession session = Run(simulation, options, options.screen, 160'000, 200'000);
  CHECK(session.Estimate().value == Approx(1.25).epsilon(0.01));
  const std::vector<double> times = session.CallTimes(Side::kCandidate);
  CHECK(*std::max_element(times.begin(), times.end()) < 200'000);
}

TEST_CASE("A call that does the work of others is charged to its block") {
  const MeasureOptions options;
  Simulation simulation;
  int calls = 0;
  simulation.call = [&calls](Side side, double, Random&) {
    // One of three candidate calls takes all the time.
    return side == Side::kReference ? 200'000.0 : ++calls % 3 == 0 ? 580'000.0 : 10'000.0;
  };
  const TimingSession session = Run(simulation, options, options.screen, 10'000, 200'000);
  CHECK(session.Estimate().value == Approx(1.0).epsilon(0.02));
  CHECK(session.call_ns(Side::kCandidate) == Approx(200'000).epsilon(0.05));
}

TEST_CASE("Neighbours are compared on a machine where almost every call is disturbed") {
  const MeasureOptions options;
  // Long calls: few per block, and few of them undisturbed.
  Simulation simulation = PlantedTimes(8'000'000, 1.25, 0.002);
  simulation.disturbed = [](Random& random) { return random.Uniform() < 0.8; };
  simulation.disturbed_factor = 3;
  const TimingSession session = Run(simulation, options, options.screen, 6'400'000, 8'000'000);
  CHECK(session.stop_reason() == "time_cap");
  CHECK(session.discarded_blocks() > 0);
  CHECK(session.Estimate().value == Approx(1.25).epsilon(0.02));
}

TEST_CASE("Where every call is disturbed the result is wide rather than missing") {
  const MeasureOptions options;
  Simulation simulation;
  simulation.call = [](Side side, double, Random& random) {
    return (side == Side::kReference ? 250'000 : 200'000) * (1 + 4 * random.Uniform());
  };
  simulation.disturbed = [](Random&) { return true; };
  simulation.disturbed_factor = 1;
  const TimingSession session = Run(simulation, options, options.screen, 200'000, 250'000);
  CHECK(session.stop_reason() == "time_cap");
  CHECK(session.discarded_blocks() == session.blocks());
  CHECK(session.Estimate().value > 0);
}

TEST_CASE("A block far slower than others of its side is discarded") {
  const MeasureOptions options;
  Simulation simulation;
  int calls = 0;
  simulation.call = [&calls](Side side, double, Random& random) {
    // Some calls run at a fifth of the speed, without any wait that the system reports.
    const double throttled = ++calls % 500 < 60 && calls > 500 ? 5 : 1;
    return (side == Side::kReference ? 250'000 : 200'000) * throttled *
           (1 + 0.002 * std::abs(random.Normal()));
  };
  const TimingSession session = Run(simulation, options, options.screen, 200'000, 250'000);
  CHECK(session.Estimate().value == Approx(1.25).epsilon(0.01));
}

TEST_CASE("Constant noise ends the session before the cap") {
  MeasureOptions options;
  options.plateau_groups = 12;
  PrecisionOptions precision = options.screen;
  precision.half_width = 1e-9;
  precision.cap_ns = 60'000'000'000;
  const TimingSession session =
      Run(PlantedTimes(200'000, 1.25, 0.05), options, precision, 160'000, 200'000);
  CHECK(session.stop_reason() == "plateau");
}

TEST_CASE("A kernel slower than the cap is still timed a few times") {
  const MeasureOptions options;
  const TimingSession session = Run(PlantedTimes(2'000'000'000, 0.5, 0.001), options,
                                    options.screen, 4'000'000'000, 2'000'000'000);
  CHECK(session.stop_reason() == "time_cap");
  CHECK(session.Estimate().value == Approx(0.5).epsilon(0.01));
}

TEST_CASE("A clearly slow kernel is settled sooner except at final level") {
  const MeasureOptions options;
  const Simulation slow = PlantedTimes(400'000, 0.1, 0.01);
  const TimingSession screen = Run(slow, options, options.screen, 4'000'000, 400'000);
  const TimingSession final_level = Run(slow, options, options.final, 4'000'000, 400'000);
  CHECK(screen.stop_reason() == "precision");
  CHECK(screen.blocks() < final_level.blocks());
  CHECK(screen.Estimate().value == Approx(0.1).epsilon(0.03));
}

// Runs at screening level where kernels do not differ between processes by more than 1%.
TimingSession Screen(double ratio, double noise, double stop_below, uint64_t seed = 1) {
  MeasureOptions options;
  options.spread = SpreadOptions::Cuda();
  Simulation simulation = PlantedTimes(200'000, ratio, noise);
  simulation.seed = seed;
  TimingSession session(options, options.screen, 200'000 / ratio, 200'000,
                        {stop_below, RunnerSpread(options.spread).Of("problem")});
  Random random(seed);
  for (auto block = session.Next(); !block.finished; block = session.Next()) {
    TimingSession::BlockTimes times;
    for (int i = 0; i < block.calls; ++i) {
      times.calls_ns.push_back(simulation.call(block.side, 0, random));
      times.elapsed_ns += static_cast<int64_t>(times.calls_ns.back());
    }
    session.Add(times);
  }
  return session;
}

TEST_CASE("Timing ends at the first check that finds the whole interval below the bound") {
  const TimingSession behind = Screen(1, 0.01, 1.25);
  CHECK(behind.stop_reason() == kStoppedBehind);
  CHECK(behind.blocks() == 12);  // three groups
  CHECK(Screen(1, 0.01, 0).blocks() >= 32);
  CHECK(Screen(1, 0.01, 0).stop_reason() == "precision");
  // A value below the bound is not enough.
  CHECK(Screen(1, 0.01, 1.01).stop_reason() == "precision");
  CHECK(Screen(1.5, 0.01, 1.25).stop_reason() == "precision");
}

TEST_CASE("Noise of more than 10% delays the end to the next check") {
  MeasureOptions options;
  options.spread = SpreadOptions::Cuda();
  TimingSession session(options, options.screen, 200'000, 200'000,
                        {1.25, RunnerSpread(options.spread).Of("problem")});
  // The median of the first three lies between 0.9 and 1.18.
  const std::vector<double> ratios = {0.9, 1, 1.18, 1, 1, 1};
  const auto run_group = [&](double ratio) {
    for (int i = 0; i < 4; ++i) {
      const auto block = session.Next();
      REQUIRE_FALSE(block.finished);
      TimingSession::BlockTimes times;
      times.calls_ns.assign(20, block.side == Side::kCandidate ? 200'000 / ratio : 200'000);
      times.elapsed_ns = 4'000'000;
      session.Add(times);
    }
  };
  for (size_t i = 0; i < 5; ++i) run_group(ratios[i]);
  CHECK(session.stop_reason().empty());
  run_group(ratios[5]);
  CHECK(session.stop_reason() == kStoppedBehind);
}

TEST_CASE("Repeated checks stop a candidate that is not slower in at most 5% of sessions") {
  // The value that a later measurement would have is exactly at the bound.
  int behind = 0;
  constexpr int kSessions = 400;
  for (uint64_t seed = 1; seed <= kSessions; ++seed) {
    behind += Screen(1, 0.03, 1, seed).stop_reason() == kStoppedBehind ? 1 : 0;
  }
  CHECK(behind <= kSessions / 20);
}

TEST_CASE("The interval of few groups is wider than that of many") {
  const MeasureOptions options;
  RunnerSpread spread(SpreadOptions::Cuda());
  const auto width = [&](double stop_below) {
    const std::vector<double> ratios = Screen(1, 0.05, stop_below).Ratios();
    const RunnerValue value = RunnerValueOf(ratios, options).value();
    return SpeedupInterval({&value, 1}, spread.Of("problem"), SpreadOptions::Cuda(), 0.95);
  };
  const Ratio behind = width(2);
  const Ratio full = width(0);
  CHECK(behind.high / behind.low > full.high / full.low);
  CHECK(behind.high < 2);
}

TEST_CASE("Very short calls fill a block, within bounds") {
  const MeasureOptions options;
  const TimingSession session(options, options.screen, 1, 500);
  CHECK(session.Next().calls <= 4096);
  CHECK(session.Next().side == Side::kCandidate);
}

TEST_CASE("The block order cancels drift") {
  const MeasureOptions options;
  TimingSession session(options, options.screen, 100'000, 100'000);
  std::string order;
  for (int i = 0; i < 8; ++i) {
    const auto block = session.Next();
    order += block.side == Side::kCandidate ? 'A' : 'B';
    TimingSession::BlockTimes times;
    times.calls_ns.assign(static_cast<size_t>(block.calls), 100'000);
    times.elapsed_ns = 4'000'000;
    session.Add(times);
  }
  CHECK(order == "ABBAABBA");
}

TEST_CASE("A wrong estimate of the call time is corrected by observation") {
  const MeasureOptions options;
  TimingSession session(options, options.screen, 4'000, 4'000);
  const int first = session.Next().calls;
  for (int i = 0; i < 4; ++i) {
    TimingSession::BlockTimes times;
    times.calls_ns.assign(10, 400'000);
    times.elapsed_ns = 4'000'000;
    session.Add(times);
  }
  CHECK(first == 1000);
  CHECK(session.Next().calls == 10);
}

}  // namespace
}  // namespace kernelcast::worker
