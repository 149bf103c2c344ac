// Measures what `evaluate --mode route` measures and finds on spaces recorded on real devices:
// candidates in random order, forecasts with known errors, and the production policy and history of
// a problem outside searches.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/problem_history.h"
#include "tests/integration/orchestrator/recorded_spaces.h"

namespace kernelcast::orchestrator::recorded_routing_test {
namespace {

constexpr int kRoutingSeeds = 10;

// Errors in octaves. `error` applies per candidate. `offset` is the average size of an error shared
// by a whole problem, which each label reduces when the forecaster learns.
struct ForecastKind {
  const char* name;
  double error;
  double offset;
  bool learns;
  double stated;  // 0: equal to the error
  bool blind;     // the same forecast for all
  // On both devices.
  double most_measured;
  double least_found;
};
constexpr ForecastKind kKinds[] = {
    {"honest", 0.35, 0, false, 0, false, 0.42, 0.995},
    {"learning", 0.2, 0.7, true, 0, false, 0.34, 0.995},
    {"offset", 0.35, 0.5, false, 0, false, 0.55, 0.99},
    {"vague", 1, 0, false, 0, false, 0.65, 0.99},
    {"too sure", 0.7, 0, false, 0.1, false, 0.4, 0.985},
    {"blind", 0, 0, false, 1, true, 0.7, 0.9},
};

struct Routed {
  double measured = 0;
  double audited = 0;
  double found = 0;  // best measured / best there is
};

Routed Route(const RecordedSpace& space, const ForecastKind& kind, const Policy& policy,
             uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<RecordedCandidate> candidates = space.candidates;
  std::shuffle(candidates.begin(), candidates.end(), random);
  const double offset = kind.offset * normal(random);
  double best = 0;
  double mean = 0;
  for (const RecordedCandidate& one : candidates) {
    if (!one.log2_speedup) continue;
    best = std::max(best, std::exp2(*one.log2_speedup));
    mean += *one.log2_speedup / static_cast<double>(candidates.size());
  }
  ProblemHistory history;
  Routed routed;
  double found = 0;
  uint64_t labels = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const RecordedCandidate& one = candidates[i];
    const double left = kind.learns ? 1 / (1 + static_cast<double>(labels)) : 1;
    const double truth = one.log2_speedup.value_or(mean + normal(random));
    Forecast forecast;
    forecast.expected_log2_speedup =
        kind.blind ? mean : truth + left * offset + kind.error * normal(random);
    forecast.stddev_log2_speedup =
        kind.stated > 0 ? kind.stated : std::hypot(kind.error, left * kind.offset);
    forecast.bin_probabilities = BinsFromStudentT(
        BinScheme::Default(), forecast.expected_log2_speedup, forecast.stddev_log2_speedup, 1e9);
    // The forecaster knows part of the failures.
    forecast.failure_probability = (one.log2_speedup ? 0.1 : 0.3) * 2 * uniform(random);
    PolicyInput input = history.Input();
    input.forecast = &forecast;
    input.audit_draw = uniform(random);
    const Decision decision = policy.Decide(input);
    const std::string id = std::to_string(i);
    history.Decide(id, decision, &forecast);
    if (decision.kind != DecisionKind::kMeasure) continue;
    ++labels;
    routed.measured += 1;
    routed.audited += decision.reason == DecisionReason::kAudit ? 1 : 0;
    Candidate candidate;
    candidate.candidate_id = id;
    Measurement measurement;
    const double speedup = one.log2_speedup ? std::exp2(*one.log2_speedup) : 0;
    if (speedup > 0) {
      MeasuredOk ok;
      ok.speedup.value = speedup;
      measurement.outcome = ok;
    } else {
      measurement.outcome = WrongResult{};
    }
    history.Measured(candidate, {}, measurement);
    history.Settle(id, decision, speedup, policy.win_margin());
    found = std::max(found, speedup);
  }
  routed.measured /= static_cast<double>(candidates.size());
  routed.audited /= static_cast<double>(candidates.size());
  routed.found = found / best;
  return routed;
}

struct Summary {
  double measured = 0;
  double audited = 0;
  double found = 0;
  double worst_problem = 1;
};

Summary RouteAll(const std::vector<RecordedSpace>& spaces, const ForecastKind& kind,
                 const Policy& policy) {
  Summary summary;
  for (const RecordedSpace& space : spaces) {
    double found = 0;
    for (uint32_t seed = 1; seed <= kRoutingSeeds; ++seed) {
      const Routed one = Route(space, kind, policy, seed);
      const double weight = 1.0 / (kRoutingSeeds * static_cast<double>(spaces.size()));
      summary.measured += weight * one.measured;
      summary.audited += weight * one.audited;
      summary.found += weight * one.found;
      found += one.found / kRoutingSeeds;
    }
    summary.worst_problem = std::min(summary.worst_problem, found);
  }
  return summary;
}

TEST_CASE("Outside searches few candidates are measured and the best are among them",
          "[recorded][routing]") {
  std::printf("%-12s %-10s %11s %9s %9s %9s %9s\n", "device", "forecasts", "prune_below",
              "measured", "audited", "found", "worst");
  for (const std::string device : {"nvidia-h200", "amd-epyc"}) {
    const std::vector<RecordedSpace> spaces = ReadRecordedSpaces(device);
    REQUIRE(spaces.size() > 10);
    for (const ForecastKind& kind : kKinds) {
      CAPTURE(device, kind.name);
      std::map<double, Summary> summaries;
      for (const double prune_below : {0.05, 0.1, 0.2, 0.3}) {
        const auto policy = MakePolicy("threshold", {{"prune_below", prune_below}}).value();
        const Summary& one = summaries[prune_below] = RouteAll(spaces, kind, *policy);
        std::printf("%-12s %-10s %11.2f %8.1f%% %8.1f%% %9.3f %9.3f\n", device.c_str(), kind.name,
                    prune_below, 100 * one.measured, 100 * one.audited, one.found,
                    one.worst_problem);
      }
      const Summary routed = RouteAll(spaces, kind, DefaultPolicy());
      CHECK(routed.measured == Approx(summaries.at(0.2).measured));
      CHECK(routed.measured <= kind.most_measured);
      CHECK(routed.found >= kind.least_found);
      // The policy of searches measures more and finds little more.
      CHECK(routed.measured < summaries.at(0.05).measured);
      if (!kind.blind) CHECK(routed.found > summaries.at(0.05).found - 0.01);
    }
  }
}

}  // namespace
}  // namespace kernelcast::orchestrator::recorded_routing_test
