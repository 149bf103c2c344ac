#include "tests/bench/experiments/lesson_comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "services/cli/core/lesson_book.h"
#include "services/cli/core/lesson_learning.h"
#include "services/orchestrator/core/search_strategy.h"
#include "tests/bench/experiments/simulated_search.h"

namespace kernelcast::forecaster {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kLessonResamples = 2000;

// Seeds' results of one space.
struct Compared {
  std::string name;
  std::vector<double> without;
  std::vector<double> with;

  std::vector<double> Differences() const {
    std::vector<double> differences;
    for (size_t i = 0; i < with.size(); ++i) differences.push_back(with[i] - without[i]);
    return differences;
  }
};

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

// Of the mean over the groups of the means of their values, by resampling both.
Interval MeanOf(const std::vector<std::vector<double>>& groups) {
  std::mt19937_64 random(1);
  const auto any = [&](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  std::vector<double> means;
  for (const std::vector<double>& group : groups) means.push_back(Mean(group));
  Interval interval{Mean(means), 0, 0};
  std::vector<double> resampled;
  for (int i = 0; i < kLessonResamples; ++i) {
    double sum = 0;
    for (size_t j = 0; j < groups.size(); ++j) {
      const std::vector<double>& group = groups[any(groups.size())];
      double of_group = 0;
      for (size_t k = 0; k < group.size(); ++k) of_group += group[any(group.size())];
      sum += of_group / static_cast<double>(group.size());
    }
    resampled.push_back(sum / static_cast<double>(groups.size()));
  }
  std::sort(resampled.begin(), resampled.end());
  interval.low = resampled[kLessonResamples / 40];
  interval.high = resampled[kLessonResamples - 1 - kLessonResamples / 40];
  return interval;
}

// What a search that measured the whole space showed.
cli::SearchOutcome OutcomeOf(const RecordedSpace& space) {
  const MeasuredProblem& problem = *space.problem;
  cli::SearchOutcome outcome;
  outcome.family = problem.family;
  outcome.target = problem.target;
  outcome.device_model = problem.device_model;
  const Problem& of = problem.context->problem;
  const Space& points = *of.targets.at(problem.target).space;
  for (const SpacePoint& point : EnumeratePoints(points)) {
    Candidate candidate = CandidateFromPoint(points, point, of.problem_id);
    const auto row = space.row_of.find(candidate.candidate_id);
    if (row == space.row_of.end()) continue;
    const std::optional<double>& log2_speedup = problem.rows[row->second].log2_speedup;
    if (!log2_speedup) continue;
    const double speedup = std::exp2(*log2_speedup);
    outcome.kernels.push_back(
        {std::move(candidate), space.facts[row->second], {speedup, speedup, speedup, 0}});
  }
  return outcome;
}

// Lessons of all spaces but this one, as lessons about its family.
std::vector<Lesson> LessonsFrom(const std::vector<RecordedSpace>& spaces,
                                const RecordedSpace& space, bool family_only) {
  cli::LessonBook book;
  for (const RecordedSpace& other : spaces) {
    const MeasuredProblem& problem = *other.problem;
    if (&other == &space || (family_only && problem.family != space.problem->family)) continue;
    cli::SearchOutcome outcome = OutcomeOf(other);
    outcome.family = space.problem->family;
    const absl::Status added = AddSearch(problem.name, cli::LearnLessons(outcome), book);
    if (!added.ok()) std::fprintf(stderr, "%s\n", std::string(added.message()).c_str());
  }
  return book.lessons;
}

double SearchIn(const RecordedSpace& space, std::shared_ptr<const SharedModel> shared,
                orchestrator::SearchSpec spec, double share) {
  spec.budget.max_device_time_ns =
      static_cast<int64_t>(share * static_cast<double>(space.device_time_ns));
  // As in strategy_comparison.cc.
  spec.budget.max_measurements =
      static_cast<uint64_t>(std::ceil(2 * share * static_cast<double>(space.facts.size())));
  spec.time_in_full = true;
  EmbeddedSearchForecaster forecaster(space, std::move(shared), spec.seed);
  return SimulateSearch(space, &forecaster, std::move(spec)).speedup / space.best_speedup;
}

Json PrintComparison(const std::string& title, const std::vector<Compared>& results) {
  std::vector<std::vector<double>> without, with, differences;
  Json spaces = Json::object();
  std::printf(
      "\n%s\n\n| space | without lessons | with lessons | difference |\n|---|---|---|---|\n",
      title.c_str());
  for (const Compared& one : results) {
    const Interval difference = MeanOf({one.Differences()});
    std::printf("| %s | %.3f | %.3f | %+.3f [%+.3f, %+.3f] |\n", one.name.c_str(),
                Mean(one.without), Mean(one.with), difference.mean, difference.low,
                difference.high);
    without.push_back(one.without);
    with.push_back(one.with);
    differences.push_back(one.Differences());
    spaces[one.name] = {{"without", one.without}, {"with", one.with}};
  }
  const Interval before = MeanOf(without), after = MeanOf(with), difference = MeanOf(differences);
  std::printf("| **all %zu** | %.3f [%.3f, %.3f] | %.3f [%.3f, %.3f] | %+.3f [%+.3f, %+.3f] |\n",
              results.size(), before.mean, before.low, before.high, after.mean, after.low,
              after.high, difference.mean, difference.low, difference.high);
  std::fflush(stdout);
  const auto json = [](const Interval& of) {
    return Json{{"mean", of.mean}, {"low", of.low}, {"high", of.high}};
  };
  return {{"without", json(before)},
          {"with", json(after)},
          {"difference", json(difference)},
          {"spaces", spaces}};
}

}  // namespace

absl::Status CompareLessons(const HeldOutOptions& options, std::vector<std::string> strategies,
                            const std::vector<double>& device_time_shares) {
  if (strategies.empty()) strategies.emplace_back(orchestrator::kDefaultStrategy);
  for (const std::string& name : strategies) {
    KC_RETURN_IF_ERROR(orchestrator::MakeStrategy(name, {}).status());
  }
  KC_ASSIGN_OR_RETURN(const std::vector<MeasuredProblem> problems, ReadMeasured(options));
  HeldOutModels models(options, problems);
  std::vector<RecordedSpace> spaces;
  for (const MeasuredProblem& problem : problems) {
    KC_ASSIGN_OR_RETURN(
        RecordedSpace space,
        ReadSpace(problem, absl::StrCat(RecordsFolder(options), "/", problem.name, ".jsonl.gz")));
    spaces.push_back(std::move(space));
  }
  Json rows = Json::array();
  for (const std::string forecasts : {"none", "embedded without a prior", "embedded"}) {
    for (const char* scope : {"family", "parameters"}) {
      std::map<const RecordedSpace*, std::vector<Lesson>> lessons;
      for (const RecordedSpace& space : spaces) {
        std::vector<Lesson> learnt = LessonsFrom(spaces, space, std::string(scope) == "family");
        if (!learnt.empty()) lessons[&space] = std::move(learnt);
      }
      for (const double share : device_time_shares) {
        for (const std::string& strategy : strategies) {
          std::vector<Compared> results;
          for (const RecordedSpace& space : spaces) {
            if (!lessons.contains(&space)) continue;
            std::shared_ptr<const SharedModel> shared;
            if (forecasts == "embedded") {
              KC_ASSIGN_OR_RETURN(shared, models.For(*space.problem));
            }
            Compared& one = results.emplace_back();
            one.name = space.problem->name;
            for (int seed = 1; seed <= options.seeds; ++seed) {
              orchestrator::SearchSpec spec;
              spec.strategy = strategy;
              spec.seed = static_cast<uint64_t>(seed);
              spec.measure_everything = forecasts == "none";
              one.without.push_back(SearchIn(space, shared, spec, share));
              spec.lessons = lessons[&space];
              one.with.push_back(SearchIn(space, shared, std::move(spec), share));
            }
          }
          Json row =
              PrintComparison(absl::StrCat(options.target, ", strategy ", strategy, ", lessons by ",
                                           scope, ", forecasts: ", forecasts, ", ",
                                           std::lround(100 * share), "% of the device time, ",
                                           options.seeds, " seeds: best found / best of the space"),
                              results);
          row["strategy"] = strategy;
          row["lessons"] = scope;
          row["forecasts"] = forecasts;
          row["device_time_share"] = share;
          rows.push_back(std::move(row));
        }
      }
    }
  }
  WriteFigures(options, Json{{"target", options.target},
                             {"hold_out", options.hold_out},
                             {"seeds", options.seeds},
                             {"comparisons", rows}}
                            .dump(1));
  return absl::OkStatus();
}

}  // namespace kernelcast::forecaster
