// Measures what the policies lose and save on streams of candidates with recorded speedups and
// forecasts with known errors.
//
//   bench_risk_control --records DIR [--only NAME ...] [--replays 100] [--candidates 1000]
//                      [--policy risk] [--alpha 0.01 0.05 0.1] [--json FILE]
//
// DIR holds NAME.jsonl as written by `kernelcast export`. A replay draws candidates from the
// correct points of a space, each with its own noise of 2%, and decides on them in order like the
// orchestrator, with the production policy and history. Measurements end immediately. Forecasts by
// name:
//
//   honest        the truth in log2 with an error of 0.35, which they state
//   vague         the same with an error of 1
//   confident     an error of 0.7, of which they state 0.1
//   constant      the same forecast for every candidate
//   inverted      the negative of the truth
//   breaks        honest, then another candidate's forecast after the first half
//
// Prints the mean share pruned, the share of winners among the pruned (the mean over all pruned
// candidates of all replays, and the number of replays above alpha), how often the best found is
// more than 2% below the stream's best, and the mean shortfall.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/route_history.h"

namespace kernelcast::orchestrator {
namespace {

using nlohmann::json;

constexpr double kNoise = 0.02;

struct Options {
  std::string records;
  std::vector<std::string> only;
  int replays = 100;
  int candidates = 1000;
  std::string policy = "risk";
  std::vector<double> alphas = {0.01, 0.05, 0.1};
  std::string json;
};

struct Space {
  std::string name;
  std::vector<double> log2_speedups;
};

// The speedups of the correct points.
std::vector<Space> ReadSpaces(const Options& options) {
  std::vector<Space> spaces;
  for (const auto& file : std::filesystem::directory_iterator(options.records)) {
    if (file.path().extension() != ".jsonl") continue;
    Space space{file.path().stem().string(), {}};
    if (!options.only.empty() &&
        std::find(options.only.begin(), options.only.end(), space.name) == options.only.end()) {
      continue;
    }
    std::ifstream stream(file.path());
    for (std::string line; std::getline(stream, line);) {
      const json record = json::parse(line);
      const auto speedup = json::json_pointer("/evaluation/measured/ok/speedup/value");
      if (record.contains(speedup)) {
        space.log2_speedups.push_back(std::log2(record[speedup].get<double>()));
      }
    }
    if (!space.log2_speedups.empty()) spaces.push_back(std::move(space));
  }
  std::sort(spaces.begin(), spaces.end(),
            [](const Space& a, const Space& b) { return a.name < b.name; });
  return spaces;
}

struct ForecastKind {
  const char* name;
  double error;
  double stated;
};
constexpr ForecastKind kKinds[] = {{"honest", 0.35, 0.35},   {"vague", 1, 1},
                                   {"confident", 0.7, 0.1},  {"constant", 0, 0.35},
                                   {"inverted", 0.35, 0.35}, {"breaks", 0.35, 0.35}};

Forecast MakeForecast(const ForecastKind& kind, double truth, double other, bool late, double mean,
                      std::mt19937_64& random) {
  const std::string name = kind.name;
  std::normal_distribution<double> normal;
  double location = truth;
  if (name == "constant") location = mean;
  if (name == "inverted") location = 2 * mean - truth;
  if (name == "breaks" && late) location = other;
  location += kind.error * normal(random);
  Forecast forecast;
  forecast.bin_probabilities = BinsFromStudentT(BinScheme::Default(), location, kind.stated, 1e9);
  forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
  forecast.expected_log2_speedup = location;
  forecast.stddev_log2_speedup = kind.stated;
  return forecast;
}

struct Totals {
  double pruned = 0;
  double pruned_winners = 0;
  double pruned_share = 0;
  int exceeding = 0;
  int short_of_best = 0;
  double best_share = 0;
  double alarms = 0;
};

void Replay(const Space& space, const ForecastKind& kind, const Policy& policy, double alpha,
            int candidates, uint64_t seed, Totals& totals) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<size_t> draw(0, space.log2_speedups.size() - 1);
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal(0, std::log2(1 + kNoise));
  double mean = 0;
  for (const double value : space.log2_speedups) {
    mean += value / static_cast<double>(space.log2_speedups.size());
  }
  RouteHistory history(policy.risk_options());
  PolicyInput input;
  input.history = &history;
  double best = 1;
  double stream_best = 1;
  double pruned = 0;
  double pruned_winners = 0;
  for (int i = 0; i < candidates; ++i) {
    const double truth = space.log2_speedups[draw(random)] + normal(random);
    const double other = space.log2_speedups[draw(random)];
    const double speedup = std::exp2(truth);
    stream_best = std::max(stream_best, speedup);
    const Forecast forecast = MakeForecast(kind, truth, other, 2 * i >= candidates, mean, random);
    input.forecast = &forecast;
    input.incumbent_speedup = best;
    input.audit_draw = uniform(random);
    const Decision decision = policy.Decide(input);
    const std::string id = absl::StrCat(i);
    history.Decide(id, decision, &forecast);
    ++input.decided;
    if (decision.kind == DecisionKind::kMeasure) {
      ++input.measured;
      history.Settle(id, decision, speedup, policy.win_margin());
      best = std::max(best, speedup);
    } else {
      pruned += 1;
      pruned_winners += speedup > input.incumbent_speedup * (1 + policy.win_margin()) ? 1 : 0;
    }
  }
  totals.pruned += pruned;
  totals.pruned_winners += pruned_winners;
  totals.pruned_share += pruned / candidates;
  totals.exceeding += pruned_winners > alpha * std::max(1.0, pruned) ? 1 : 0;
  totals.short_of_best += best < stream_best / (1 + kNoise) ? 1 : 0;
  totals.best_share += best / stream_best;
  totals.alarms += static_cast<double>(history.risk().alarms());
}

int Run(const Options& options) {
  const std::vector<Space> spaces = ReadSpaces(options);
  if (spaces.empty()) {
    std::fprintf(stderr, "--records: '%s' holds no records\n", options.records.c_str());
    return 2;
  }
  std::ofstream file;
  if (!options.json.empty()) file.open(options.json);
  std::printf("%zu spaces, %d replays of %d candidates, policy %s\n", spaces.size(),
              options.replays, options.candidates, options.policy.c_str());
  std::printf("%-10s %6s | %8s %9s %9s | %9s %9s %7s\n", "forecasts", "alpha", "pruned", "winners",
              "exceeding", "fell short", "best", "alarms");
  const std::vector<double> alphas =
      options.policy == "risk" ? options.alphas : std::vector<double>{0.05};
  for (const ForecastKind& kind : kKinds) {
    for (const double alpha : alphas) {
      const auto policy = MakePolicy(
          options.policy, options.policy == "risk" ? std::map<std::string, double>{{"alpha", alpha}}
                                                   : std::map<std::string, double>{});
      if (!policy.ok()) {
        std::fprintf(stderr, "%s\n", policy.status().ToString().c_str());
        return 2;
      }
      Totals totals;
      for (int replay = 0; replay < options.replays; ++replay) {
        const Space& space = spaces[static_cast<size_t>(replay) % spaces.size()];
        Replay(space, kind, **policy, alpha, options.candidates, 1000 + replay, totals);
      }
      const double runs = options.replays;
      const double risk = totals.pruned > 0 ? totals.pruned_winners / totals.pruned : 0;
      std::printf("%-10s %5.0f%% | %7.1f%% %8.2f%% %6d/%d | %6d/%d %8.2f%% %7.2f\n", kind.name,
                  100 * alpha, 100 * totals.pruned_share / runs, 100 * risk, totals.exceeding,
                  options.replays, totals.short_of_best, options.replays,
                  100 * totals.best_share / runs, totals.alarms / runs);
      if (file.is_open()) {
        file << json{{"experiment", "risk_control"},
                     {"policy", options.policy},
                     {"forecasts", kind.name},
                     {"alpha", alpha},
                     {"delta", (*policy)->risk_options().delta},
                     {"replays", options.replays},
                     {"candidates", options.candidates},
                     {"pruned_share", totals.pruned_share / runs},
                     {"winners_among_pruned", risk},
                     {"replays_above_alpha", totals.exceeding},
                     {"replays_short_of_best", totals.short_of_best},
                     {"best_share", totals.best_share / runs},
                     {"alarms", totals.alarms / runs}}
                    .dump()
             << "\n";
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::orchestrator

int main(int argc, char** argv) {
  kernelcast::orchestrator::Options options;
  CLI::App app{"What the policies lose and save under forecasts that err in known ways"};
  app.add_option("--records", options.records, "Folder of records, one file per problem")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--only", options.only, "Names of problems");
  app.add_option("--replays", options.replays, "Number of streams")->capture_default_str();
  app.add_option("--candidates", options.candidates, "Candidates per stream")
      ->capture_default_str();
  app.add_option("--policy", options.policy, "Policy")->capture_default_str();
  app.add_option("--alpha", options.alphas, "Allowed shares of winners");
  app.add_option("--json", options.json, "File for one line per figure");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::orchestrator::Run(options);
}
