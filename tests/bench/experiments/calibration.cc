// Measures how calibration changes a problem's forecasts as its labels arrive.
//
//   bench_calibration [--target cuda] [--hold-out family] [--seeds 5] [--output FILE]
//
// For each problem of the recorded spaces, a shared model learns only from other families (or
// problems). The problem's points are labelled in an order drawn by the seed. Models are trained at
// 0, 5, 10, 20 and 50 labels, and each forecasts the labels up to the next stage. Calibration
// learns from these forecasts, made before their labels arrived: those of other families give the
// common starting point, the problem's own give its deviation. The forecasts of all unlabelled
// points are scored. Each calibration error is printed with the error that the same number of
// perfectly calibrated forecasts would have by chance, with independent errors and with errors as
// correlated within a problem as observed.

#include "services/forecaster/core/calibration.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/statistics.h"
#include "common/base/status.h"
#include "common/calibration/fit_calibrator.h"
#include "common/domain/bins.h"
#include "common/domain/forecast.h"
#include "common/domain/problem.h"
#include "common/domain/scoring.h"
#include "common/domain/student_t.h"
#include "services/forecaster/embedded/problem_model.h"
#include "services/forecaster/embedded/random.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/rpc/training_records.h"
#include "tests/bench/experiments/held_out.h"

namespace kernelcast::forecaster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kLabelCounts[] = {0, 5, 10, 20, 50};
constexpr size_t kStages = std::size(kLabelCounts);
constexpr int kFloorDraws = 100;
constexpr double kPull = 20;

// One labelling order of a problem's points.
struct Run {
  // The forecasts of stage s for the points that have no label yet. The first `next[s]` of them are
  // labelled before the next stage.
  std::vector<PrequentialRecord> forecasts[kStages];
  size_t next[kStages] = {};
  bool reached[kStages] = {};
};

std::vector<double> Bins(const StudentT& t, double multiplier) {
  return BinsFromStudentT(BinScheme::Default(), t.location, t.scale * multiplier,
                          t.degrees_of_freedom);
}

int TrueBin(const PrequentialRecord& record) {
  return *BinScheme::Default().Label(std::exp2(record.measured_log2_speedup));
}

// Standard normal quantile of a probability.
double Normal(double p) { return StudentTQuantile(std::clamp(p, 1e-9, 1 - 1e-9), 1e6); }

// The calibration error of perfectly calibrated forecasts. `together` is the correlation of the
// normal scores of two errors of one problem; each forecast alone stays calibrated.
double ErrorByChance(std::vector<ScoredForecast> items, double together, uint64_t seed) {
  Random random(seed);
  const auto normal = [&random] {
    const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
    return radius * std::cos(2 * std::numbers::pi * random.Uniform());
  };
  double sum = 0;
  for (int draw = 0; draw < kFloorDraws; ++draw) {
    const double common = normal();
    for (ScoredForecast& item : items) {
      const double score = std::sqrt(together) * common + std::sqrt(1 - together) * normal();
      double left = 0.5 * std::erfc(-score / std::numbers::sqrt2);
      item.true_bin = static_cast<int>(item.p.size());
      for (size_t bin = 0; bin < item.p.size(); ++bin) {
        left -= item.p[bin];
        if (left < 0) {
          item.true_bin = static_cast<int>(bin) + 1;
          break;
        }
      }
    }
    sum += ScoreForecasts(items)->expected_calibration_error;
  }
  return sum / kFloorDraws;
}

// The correlation of errors within a problem: the share of the variance of their normal scores that
// lies between problems.
double Together(const std::vector<std::vector<PrequentialRecord>>& problems) {
  double within = 0, between = 0, count = 0, total = 0;
  std::vector<std::vector<double>> scores;
  for (const auto& records : problems) {
    std::vector<double>& of = scores.emplace_back();
    for (const PrequentialRecord& record : records) {
      const StudentT& t = record.predicted;
      of.push_back(std::clamp(-Normal(StudentTUpperTail(record.measured_log2_speedup, t.location,
                                                        t.scale, t.degrees_of_freedom)),
                              -4.0, 4.0));
      total += of.back();
    }
    count += static_cast<double>(of.size());
  }
  const double mean = total / count;
  for (const std::vector<double>& of : scores) {
    if (of.empty()) continue;
    const double own = std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
    between += static_cast<double>(of.size()) * (own - mean) * (own - mean);
    for (const double score : of) within += (score - own) * (score - own);
  }
  return between / (between + within);
}

// The data available to calibration: labelled forecasts of other problems and of the problem
// itself, made without labels of their problem (cold) or with some (warm).
struct Known {
  std::vector<PrequentialRecord> others_cold;
  std::vector<PrequentialRecord> others_warm;
  std::vector<PrequentialRecord> own_cold;
  std::vector<PrequentialRecord> own_warm;
  bool cold = false;  // the forecasts to calibrate are made without labels

  const std::vector<PrequentialRecord>& others() const { return cold ? others_cold : others_warm; }
};

using Calibrate = std::function<std::vector<double>(const StudentT&)>;

std::vector<CalibrationRecord> ToBins(const std::vector<PrequentialRecord>& records,
                                      double multiplier) {
  std::vector<CalibrationRecord> bins;
  for (const PrequentialRecord& record : records) {
    bins.push_back({Bins(record.predicted, multiplier), TrueBin(record), record.weight});
  }
  return bins;
}

double Start(const Known& known) { return known.cold ? 1 : FitScale(known.others()).multiplier; }
double Own(const Known& known) {
  if (known.cold) return 1;
  return FitScale(known.own_warm, FitScale(known.others())).multiplier;
}

VectorMap GlobalVector(const Known& known, double multiplier) {
  return FitVector(ToBins(known.others(), multiplier));
}
VectorMap OwnVector(const Known& known, double multiplier) {
  VectorFit options;
  options.toward = GlobalVector(known, multiplier);
  options.pull = kPull;
  std::vector<PrequentialRecord> own = known.own_cold;
  own.insert(own.end(), known.own_warm.begin(), known.own_warm.end());
  return FitVector(ToBins(known.cold ? std::vector<PrequentialRecord>() : own, multiplier),
                   options);
}

// Temperature scaling, p_i proportional to p_i^(1/T), as a map with equal scales.
VectorMap FitTemperature(const std::vector<CalibrationRecord>& records) {
  // The likelihood is concave in the scale 1/T: its maximum is where the slope changes sign.
  const auto slope = [&](double scale) {
    double sum = 0;
    for (const CalibrationRecord& record : records) {
      std::vector<double> logs;
      for (const double p : record.p) logs.push_back(std::log(std::max(p, kProbabilityFloor)));
      double total = 0;
      double mean = 0;
      for (const double log : logs) {
        const double share = std::exp(scale * log);
        total += share;
        mean += share * log;
      }
      sum += record.weight * (logs[static_cast<size_t>(record.true_bin - 1)] - mean / total);
    }
    return sum;
  };
  double low = 0.05;
  double high = 20;
  for (int i = 0; i < 200 && high - low > 1e-15 * high; ++i) {
    const double middle = (low + high) / 2;
    (slope(middle) > 0 ? low : high) = middle;
  }
  const size_t bins = records.empty() ? 0 : records[0].p.size();
  return {std::vector<double>(bins, (low + high) / 2), std::vector<double>(bins, 0)};
}

Calibrate Scaled(double multiplier) {
  return [multiplier](const StudentT& t) { return Bins(t, multiplier); };
}
Calibrate Mapped(double multiplier, VectorMap map) {
  BinCalibrator calibrator;
  calibrator.map = std::move(map);
  return
      [multiplier, calibrator](const StudentT& t) { return calibrator.Apply(Bins(t, multiplier)); };
}

struct Method {
  const char* name;
  std::function<Calibrate(const Known&)> make;
};

const std::vector<Method>& Methods() {
  static const auto* const methods = new std::vector<Method>{
      {"none", [](const Known&) { return Scaled(1); }},
      {"scale, common", [](const Known& known) { return Scaled(Start(known)); }},
      {"scale, own from common", [](const Known& known) { return Scaled(Own(known)); }},
      {"temperature, common",
       [](const Known& known) { return Mapped(1, FitTemperature(ToBins(known.others(), 1))); }},
      {"vector, common", [](const Known& known) { return Mapped(1, GlobalVector(known, 1)); }},
      {"vector, own from common",
       [](const Known& known) { return Mapped(1, OwnVector(known, 1)); }},
      {"scale own, then vector common",
       [](const Known& known) { return Mapped(Own(known), GlobalVector(known, Start(known))); }},
      {"scale own, then vector own", [](const Known& known) {
         const double multiplier = Own(known);
         return Mapped(multiplier, OwnVector(known, multiplier));
       }}};
  return *methods;
}

class Experiment {
 public:
  Experiment(const HeldOutOptions& options, std::vector<MeasuredProblem> tasks)
      : options_(options), tasks_(std::move(tasks)), models_(options_, tasks_) {}

  int Run() {
    for (size_t t = 0; t < tasks_.size(); ++t) {
      if (const absl::Status trained = Train(t); !trained.ok()) {
        std::fprintf(stderr, "%s: %s\n", tasks_[t].name.c_str(), trained.ToString().c_str());
        return 1;
      }
    }
    Json all = {{"target", options_.target},
                {"hold_out", options_.hold_out},
                {"seeds", options_.seeds},
                {"problems", tasks_.size()},
                {"pull", kPull}};
    Json& stages = all["stages"] = Json::array();
    for (size_t s = 0; s < kStages; ++s) stages.push_back(Stage(s));
    WriteFigures(options_, all.dump(1));
    return 0;
  }

 private:
  absl::Status Train(size_t t) {
    const MeasuredProblem& task = tasks_[t];
    KC_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedModel> shared, models_.For(task));
    const TunableEncoder& encoder = task.context->EncoderFor(task.target);
    for (int seed = 0; seed < options_.seeds; ++seed) {
      forecaster::Run& run = runs_[t].emplace_back();
      std::vector<size_t> order(task.rows.size());
      std::iota(order.begin(), order.end(), size_t{0});
      Random random(DeriveSeed(static_cast<uint64_t>(seed), task.name, 1));
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
      for (size_t s = 0; s < kStages; ++s) {
        const size_t labels = kLabelCounts[s];
        if (labels + 10 > order.size()) continue;
        std::vector<const TrainingRow*> given;
        for (size_t i = 0; i < labels; ++i) given.push_back(&task.rows[order[i]]);
        ProblemModelOptions model_options;
        model_options.seed = DeriveSeed(1, task.name, labels);
        const ProblemModel model = ProblemModel::Train(encoder, given, shared, model_options);
        run.reached[s] = true;
        const size_t next = s + 1 < kStages ? kLabelCounts[s + 1] : order.size();
        for (size_t i = labels; i < order.size(); ++i) {
          const TrainingRow& row = task.rows[order[i]];
          if (!row.log2_speedup.has_value()) continue;
          run.forecasts[s].push_back(
              {model.Predict(encoder, row.features).log2_speedup, *row.log2_speedup, 1});
          if (i < next) ++run.next[s];
        }
      }
    }
    return absl::OkStatus();
  }

  // Adds the forecasts made before their labels arrived, from the stages before `stage`, to cold
  // and warm.
  static void AddRecords(const forecaster::Run& run, size_t stage,
                         std::vector<PrequentialRecord>& cold,
                         std::vector<PrequentialRecord>& warm) {
    for (size_t s = 0; s < stage && s < kStages; ++s) {
      std::vector<PrequentialRecord>& to = kLabelCounts[s] == 0 ? cold : warm;
      to.insert(to.end(), run.forecasts[s].begin(),
                run.forecasts[s].begin() + static_cast<ptrdiff_t>(run.next[s]));
    }
  }

  Known KnownTo(size_t t, size_t seed, size_t stage) const {
    Known known;
    known.cold = kLabelCounts[stage] == 0;
    for (size_t other = 0; other < tasks_.size(); ++other) {
      if (!options_.Apart(tasks_[t], tasks_[other])) continue;
      // Searches of other problems are finished: their last models forecast all remaining points.
      const forecaster::Run& run = runs_.at(other)[seed];
      AddRecords(run, kStages, known.others_cold, known.others_warm);
      if (known.cold) {
        known.others_cold.insert(known.others_cold.end(), run.forecasts[0].begin(),
                                 run.forecasts[0].end());
      }
    }
    AddRecords(runs_.at(t)[seed], stage, known.own_cold, known.own_warm);
    return known;
  }

  Json Stage(size_t stage) const {
    std::printf("%zu labels of the problem, means of %d orders\n\n", kLabelCounts[stage],
                options_.seeds);
    double together = 0;
    for (size_t seed = 0; seed < static_cast<size_t>(options_.seeds); ++seed) {
      std::vector<std::vector<PrequentialRecord>> problems;
      for (const auto& [t, runs] : runs_) problems.push_back(runs[seed].forecasts[stage]);
      together += Together(problems) / options_.seeds;
    }
    std::printf("correlation of errors within a problem: %.2f\n\n", together);
    std::printf(
        "| calibration | ECE, median problem | by chance | by chance, correlated errors | worst "
        "problem | pooled | by chance | negative log likelihood | half-Brier | 8-bin accuracy "
        "|\n|---|---|---|---|---|---|---|---|---|---|\n");
    Json rows = Json::array();
    for (const Method& method : Methods()) {
      std::vector<double> errors, by_chance, by_chance_together;
      double pooled = 0, pooled_by_chance = 0, likelihood = 0, brier = 0, accuracy = 0;
      Json problems = Json::object();
      std::map<size_t, std::array<double, 3>> of_problem;
      for (size_t seed = 0; seed < static_cast<size_t>(options_.seeds); ++seed) {
        std::vector<ScoredForecast> all;
        for (size_t t = 0; t < tasks_.size(); ++t) {
          const forecaster::Run& run = runs_.at(t)[seed];
          if (!run.reached[stage] || run.forecasts[stage].empty()) continue;
          const Calibrate calibrate = method.make(KnownTo(t, seed, stage));
          std::vector<ScoredForecast> items;
          for (const PrequentialRecord& record : run.forecasts[stage]) {
            ScoredForecast& item = items.emplace_back();
            item.p = calibrate(record.predicted);
            item.true_bin = TrueBin(record);
          }
          of_problem[t][0] += ScoreForecasts(items)->expected_calibration_error;
          of_problem[t][1] += ErrorByChance(items, 0, seed * 1000 + t);
          of_problem[t][2] += ErrorByChance(items, together, seed * 1000 + t);
          all.insert(all.end(), items.begin(), items.end());
        }
        const ForecastMetrics metrics = *ScoreForecasts(all);
        pooled += metrics.expected_calibration_error / options_.seeds;
        pooled_by_chance += ErrorByChance(all, 0, seed) / options_.seeds;
        likelihood += metrics.negative_log_likelihood / options_.seeds;
        brier += metrics.half_brier / options_.seeds;
        accuracy += metrics.accuracy / options_.seeds;
      }
      for (const auto& [t, sums] : of_problem) {
        errors.push_back(sums[0] / options_.seeds);
        by_chance.push_back(sums[1] / options_.seeds);
        by_chance_together.push_back(sums[2] / options_.seeds);
        problems[tasks_[t].name] = {{"ece", errors.back()},
                                    {"by_chance", by_chance.back()},
                                    {"by_chance_together", by_chance_together.back()}};
      }
      const double worst = *std::max_element(errors.begin(), errors.end());
      std::printf("| %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n",
                  method.name, Median(errors), Median(by_chance), Median(by_chance_together), worst,
                  pooled, pooled_by_chance, likelihood, brier, accuracy);
      std::fflush(stdout);
      rows.push_back({{"calibration", method.name},
                      {"median_problem_ece", Median(errors)},
                      {"median_problem_ece_by_chance", Median(by_chance)},
                      {"median_problem_ece_by_chance_together", Median(by_chance_together)},
                      {"worst_problem_ece", worst},
                      {"pooled_ece", pooled},
                      {"pooled_ece_by_chance", pooled_by_chance},
                      {"negative_log_likelihood", likelihood},
                      {"half_brier", brier},
                      {"accuracy", accuracy},
                      {"problems", problems}});
    }
    std::printf("\n");
    return {{"labels", kLabelCounts[stage]}, {"errors_together", together}, {"methods", rows}};
  }

  const HeldOutOptions& options_;
  const std::vector<MeasuredProblem> tasks_;
  HeldOutModels models_;
  std::map<size_t, std::vector<forecaster::Run>> runs_;  // by task, then seed
};

int RunExperiment(const HeldOutOptions& options) {
  absl::StatusOr<std::vector<MeasuredProblem>> tasks = ReadMeasured(options);
  if (!tasks.ok()) {
    std::fprintf(stderr, "%s\n", tasks.status().ToString().c_str());
    return 1;
  }
  return Experiment(options, *std::move(tasks)).Run();
}

}  // namespace
}  // namespace kernelcast::forecaster

int main(int argc, char** argv) {
  CLI::App app("Prints what calibration does to forecasts while labels arrive.");
  kernelcast::forecaster::HeldOutOptions options;
  kernelcast::forecaster::AddHeldOutOptions(app, options, "Orders of the labels");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::forecaster::RunExperiment(options);
}
