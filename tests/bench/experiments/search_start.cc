// Measures how close to the best of a recorded space a search gets with few measurements, on
// operations that the forecaster has never seen.
//
//   bench_search_start [--target cuda] [--hold-out family] [--seeds 20] [--budget-shares 0.1 0.2]
//                      [--leave-out 0.15] [--output FILE]
//   bench_search_start --strategies selection puct ... [the same options] [--forecasts none
//   embedded]
//                      [--sources template author] [--timing full early] [--only PROBLEM ...]
//                      [--llm URL [--llm-model NAME] [--llm-key-file FILE]] [--jobs N]
//
// Runs the selecting parts (TemplateGenerator, Policy, ChooseNext) and the forecasting parts
// (ProblemModel with a SharedModel of other families, ScaleCalibration) like the services, one
// measurement at a time, but without the services: bench_search_quality runs those. Measurements
// are looked up in the records. Each figure is compared with the same number of random points.
//
// A search draws so little at random that all seeds of a space measure the same points. With
// --leave-out, each seed searches a space of its own, without that share of the points. Then the
// figures do not depend on one order of points. Besides the searches that find the fastest point on
// record, those are counted whose best the records cannot distinguish from it: the logarithms of
// both speedups differ by at most 1.96 standard errors.
//
// With --strategies these are compared at equal device time instead, each with and without
// forecasts, with --llm also with those of a language model: strategy_comparison.h.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/domain/selection.h"
#include "services/forecaster/embedded/random.h"
#include "services/orchestrator/core/next_measurement.h"
#include "services/orchestrator/core/policy.h"
#include "services/orchestrator/core/template_generator.h"
#include "tests/bench/experiments/embedded_forecaster.h"
#include "tests/bench/experiments/held_out.h"
#include "tests/bench/experiments/simulated_search.h"
#include "tests/bench/experiments/strategy_comparison.h"

namespace kernelcast::forecaster {
namespace {

using Json = nlohmann::ordered_json;

// Goals for searches of device CUDA held out by family.
struct Goal {
  double share;
  double mean;
  double worst;
};
constexpr Goal kGoals[] = {{0.1, 0.98, 0.92}, {0.2, 0.999, 0.99}};

// One search of one problem's space.
class Search {
 public:
  Search(const MeasuredProblem& task, std::shared_ptr<const SharedModel> shared, uint64_t seed,
         double budget_share, double leave_out)
      : task_(task),
        forecaster_(task, std::move(shared), seed),
        problem_(std::make_shared<const Problem>(task.context->problem)),
        generator_(problem_, task.target, seed),
        policy_(*orchestrator::MakePolicy(orchestrator::kDefaultPolicy, {})) {
    Random random(DeriveSeed(seed, "left out", 0));
    for (size_t row = 0; row < task.rows.size(); ++row) {
      const bool left_out = random.Uniform() < leave_out;
      left_out_.push_back(left_out ? 1 : 0);
      if (!left_out) KeepBest(row, best_there_, best_row_there_);
    }
    const auto points = static_cast<double>(std::ranges::count(left_out_, 0));
    budget_ = static_cast<uint64_t>(std::max(1.0, std::floor(budget_share * points)));
  }

  void Run() {
    // The first pass, in proposal order, ends with all points known and the start measured.
    std::vector<size_t> waiting;
    for (const size_t row : Proposals()) {
      orchestrator::PolicyInput input = Counts();
      const kernelcast::Forecast forecast = forecaster_.Predict(row);
      input.forecast = &forecast;
      input.start = generator_.IsStart(task_.candidate_ids[row]);
      input.audit_draw = 1;
      if (policy_->Decide(input).kind == DecisionKind::kMeasure && measured_ < budget_) {
        Measure(row);
      } else {
        waiting.push_back(row);
      }
    }
    while (measured_ < budget_ && !waiting.empty()) {
      std::vector<kernelcast::Forecast> forecasts;
      for (const size_t row : waiting) forecasts.push_back(forecaster_.Predict(row));
      std::vector<const kernelcast::Forecast*> measurable;
      for (const kernelcast::Forecast& forecast : forecasts) {
        orchestrator::PolicyInput input = Counts();
        input.forecast = &forecast;
        input.reconsidered = true;
        input.audit_draw = 1;
        const bool may = policy_->Decide(input).kind == DecisionKind::kMeasure;
        measurable.push_back(may ? &forecast : nullptr);
      }
      const std::optional<size_t> next = orchestrator::ChooseNext(measurable, std::max(1.0, best_));
      if (!next.has_value()) break;
      Measure(waiting[*next]);
      waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(*next));
    }
  }

  // The best measured speedup, relative to the best of the points that are not left out; 0 if all
  // failed.
  double share() const { return best_ / best_there_; }
  size_t best_row() const { return best_row_; }
  // The row of the best of the points that are not left out.
  size_t best_row_there() const { return best_row_there_; }
  size_t measured() const { return measured_; }
  uint64_t budget() const { return budget_; }
  // The expected share() of as many random points.
  double AtRandom() const {
    std::vector<double> speedups;
    for (size_t row = 0; row < task_.rows.size(); ++row) {
      const std::optional<double>& log2_speedup = task_.rows[row].log2_speedup;
      if (left_out_[row] == 0) speedups.push_back(log2_speedup ? std::exp2(*log2_speedup) : 0);
    }
    return LargestOfDraws(std::move(speedups), budget_).expected / best_there_;
  }

 private:
  // Rows in the order in which the generator proposes them.
  std::vector<size_t> Proposals() {
    std::map<std::string, size_t> row_of;
    for (size_t i = 0; i < task_.rows.size(); ++i) row_of[task_.candidate_ids[i]] = i;
    std::vector<size_t> order;
    while (const std::optional<Candidate> next = generator_.Next()) {
      generator_.Accept(next->candidate_id);
      // A point that does not compile has no record and costs no measurement.
      const auto row = row_of.find(next->candidate_id);
      if (row != row_of.end() && left_out_[row->second] == 0) order.push_back(row->second);
    }
    return order;
  }

  orchestrator::PolicyInput Counts() const {
    orchestrator::PolicyInput input;
    input.incumbent_speedup = std::max(1.0, best_);
    input.measured = measured_;
    input.max_measurements = budget_;
    input.expected_decisions = task_.rows.size();
    input.selects = true;
    input.start_size = generator_.start_size();
    return input;
  }

  void KeepBest(size_t row, double& speedup, size_t& best) const {
    const std::optional<double>& log2_speedup = task_.rows[row].log2_speedup;
    if (!log2_speedup.has_value() || !(std::exp2(*log2_speedup) > speedup)) return;
    speedup = std::exp2(*log2_speedup);
    best = row;
  }

  void Measure(size_t row) {
    KeepBest(row, best_, best_row_);
    ++measured_;
    forecaster_.Learn(row);
  }

  const MeasuredProblem& task_;
  EmbeddedForecaster forecaster_;
  const std::shared_ptr<const Problem> problem_;
  orchestrator::TemplateGenerator generator_;
  const std::unique_ptr<const orchestrator::Policy> policy_;
  size_t measured_ = 0;
  double best_ = 0;
  size_t best_row_ = 0;
  std::vector<char> left_out_;  // by row
  uint64_t budget_ = 1;
  double best_there_ = 0;
  size_t best_row_there_ = 0;
};

// Whether the records cannot tell which of two rows is faster.
bool Indistinguishable(const RecordedSpace& space, size_t a, size_t b) {
  constexpr double kQuantile = 1.96;
  if (a == b) return true;
  const auto& speedup_a = space.problem->rows[a].log2_speedup;
  const auto& speedup_b = space.problem->rows[b].log2_speedup;
  if (!speedup_a || !speedup_b) return false;
  double variance = 0;
  for (const size_t row : {a, b}) {
    const RecordedTiming& timing = space.timings[row];
    if (timing.groups == 0) return false;
    variance += timing.noise_variance / timing.groups;
  }
  const double difference = std::numbers::ln2 * (*speedup_a - *speedup_b);
  return std::abs(difference) <= kQuantile * std::sqrt(variance);
}

double ShareAtLeast(const std::vector<double>& values, double least) {
  return static_cast<double>(std::ranges::count_if(values, [&](double v) { return v >= least; })) /
         static_cast<double>(values.size());
}

absl::Status Run(const HeldOutOptions& options, const std::vector<double>& shares,
                 double leave_out) {
  KC_ASSIGN_OR_RETURN(const std::vector<MeasuredProblem> tasks, ReadMeasured(options));
  HeldOutModels models(options, tasks);
  Json all = {{"target", options.target},
              {"hold_out", options.hold_out},
              {"seeds", options.seeds},
              {"left_out", leave_out},
              {"problems", tasks.size()}};
  Json rows = Json::array();
  for (const double share : shares) {
    std::printf(
        "\n%.0f%% of the space measured, %d seeds: best found / best of the space\n\n"
        "| problem | points | budget | measured | mean | worst seed | best found | "
        "not distinguished | 99%% found | at random |\n|---|---|---|---|---|---|---|---|---|---|\n",
        100 * share, options.seeds);
    std::vector<double> means, randoms, best_shares, tied_shares, near_shares;
    Json problems = Json::object();
    double worst_mean = 2;
    std::string worst_name;
    for (const MeasuredProblem& task : tasks) {
      KC_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedModel> shared, models.For(task));
      KC_ASSIGN_OR_RETURN(
          const RecordedSpace space,
          ReadSpace(task, absl::StrCat(RecordsFolder(options), "/", task.name, ".jsonl.gz")));
      std::vector<double> found;
      double spent = 0;
      double budget = 0;
      double random = 0;
      double tied = 0;
      for (int seed = 1; seed <= options.seeds; ++seed) {
        Search search(task, shared, static_cast<uint64_t>(seed), share, leave_out);
        search.Run();
        found.push_back(search.share());
        if (search.share() > 0 &&
            Indistinguishable(space, search.best_row(), search.best_row_there())) {
          tied += 1.0 / options.seeds;
        }
        spent += static_cast<double>(search.measured()) / options.seeds;
        budget += static_cast<double>(search.budget()) / options.seeds;
        random += search.AtRandom() / options.seeds;
      }
      const double mean = Mean(found);
      const double least = *std::min_element(found.begin(), found.end());
      best_shares.push_back(ShareAtLeast(found, 1 - 1e-9));
      tied_shares.push_back(tied);
      near_shares.push_back(ShareAtLeast(found, 0.99));
      std::printf("| %s | %zu | %.1f | %.1f | %.3f | %.3f | %.2f | %.2f | %.2f | %.3f |\n",
                  task.name.c_str(), task.rows.size(), budget, spent, mean, least,
                  best_shares.back(), tied, near_shares.back(), random);
      means.push_back(mean);
      randoms.push_back(random);
      if (mean < worst_mean) {
        worst_mean = mean;
        worst_name = task.name;
      }
      problems[task.name] = {{"points", task.rows.size()},
                             {"budget", budget},
                             {"measured", spent},
                             {"mean", mean},
                             {"worst_seed", least},
                             {"best_found", best_shares.back()},
                             {"indistinguishable", tied},
                             {"near_best_found", near_shares.back()},
                             {"random", random}};
    }
    const double random_worst = *std::min_element(randoms.begin(), randoms.end());
    std::printf(
        "| **all** | | | | %.4f | | %.2f | %.2f | %.2f | %.3f |\n"
        "| **worst problem** | | | | %.3f (%s) | | | | | %.3f |\n",
        Mean(means), Mean(best_shares), Mean(tied_shares), Mean(near_shares), Mean(randoms),
        worst_mean, worst_name.c_str(), random_worst);
    Json row = {{"share", share},
                {"mean", Mean(means)},
                {"best_found", Mean(best_shares)},
                {"indistinguishable", Mean(tied_shares)},
                {"near_best_found", Mean(near_shares)},
                {"worst_problem_mean", worst_mean},
                {"worst_problem", worst_name},
                {"random_mean", Mean(randoms)},
                {"random_worst", random_worst},
                {"problems", problems}};
    for (const Goal& goal : kGoals) {
      if (std::abs(goal.share - share) > 1e-9) continue;
      std::printf("goal: mean %.3f, %s; worst problem %.3f, %s\n", goal.mean,
                  Mean(means) >= goal.mean ? "reached" : "missed", goal.worst,
                  worst_mean >= goal.worst ? "reached" : "missed");
      row["goal_mean"] = goal.mean;
      row["goal_worst"] = goal.worst;
    }
    std::fflush(stdout);
    rows.push_back(std::move(row));
  }
  all["shares"] = rows;
  WriteFigures(options, all.dump(1));
  return absl::OkStatus();
}

}  // namespace
}  // namespace kernelcast::forecaster

int main(int argc, char** argv) {
  CLI::App app("Prints how near the best a search comes with few measurements.");
  kernelcast::forecaster::HeldOutOptions options;
  options.seeds = 20;
  std::vector<double> shares = {0.1, 0.2};
  kernelcast::forecaster::AddHeldOutOptions(app, options, "Seeds of each search");
  app.add_option("--budget-shares", shares, "Measured shares of the space");
  double leave_out = 0;
  app.add_option("--leave-out", leave_out, "Share of the points that each seed leaves out")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
  std::vector<std::string> strategies;
  app.add_option("--strategies", strategies, "Strategies to compare; all: every one");
  kernelcast::forecaster::ComparisonOptions comparison;
  app.add_option("--forecasts", comparison.forecasts, "Sources of forecasts to compare")
      ->check(CLI::IsMember({"none", "embedded", "llm"}))
      ->capture_default_str();
  app.add_option("--sources", comparison.sources,
                 "Sources of candidates: template, or an author who replays recorded kernels")
      ->check(CLI::IsMember({"template", "author"}))
      ->capture_default_str();
  app.add_option("--timing", comparison.timing,
                 "full, or early: less time for candidates that are behind")
      ->check(CLI::IsMember({"full", "early"}))
      ->capture_default_str();
  app.add_option("--only", comparison.only, "Names of the spaces [all]");
  app.add_option("--llm", comparison.llm.url,
                 "Also compare forecasts of the model at this endpoint");
  app.add_option("--llm-model", comparison.llm.model, "The model's name there");
  app.add_option("--llm-key-file", comparison.llm.key_file, "File with the endpoint's API key");
  app.add_option("--jobs", comparison.jobs, "Searches at a time, each on one core")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::vector<std::string>& forecasts = comparison.forecasts;
  const bool asks_model = std::ranges::find(forecasts, "llm") != forecasts.end();
  if (comparison.llm.url.empty() == asks_model) {
    if (asks_model) {
      std::fprintf(stderr, "--forecasts llm needs --llm URL\n");
      return 1;
    }
    forecasts.emplace_back("llm");
  }
  comparison.strategies = strategies;
  comparison.shares = shares;
  const absl::Status status = strategies.empty()
                                  ? kernelcast::forecaster::Run(options, shares, leave_out)
                                  : kernelcast::forecaster::CompareStrategies(options, comparison);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.ToString()).c_str());
  return 1;
}
