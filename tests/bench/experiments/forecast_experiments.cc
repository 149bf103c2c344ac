// Measures the embedded model on unseen problems, without labels and with a few.
//
//   bench_forecast_experiments [--target cuda] [--hold-out family] [--seeds 5] [--output FILE]
//
// For each problem of the recorded spaces, a shared model learns from all other problems
// (--hold-out problem) or only from those of other families (--hold-out family: layernorm resembles
// rmsnorm). (a) Forecasts without a label of the problem. (b) With some labels, drawn at random and
// including failures; the other points are forecast. (c) Only the share of the pool that is
// forecast fastest is measured. (d) P(failure) of everything that compiles, against the recorded
// verdicts: the spaces contain templates with planted defects. No figure depends on a label of a
// point that it scores.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/statistics.h"
#include "common/base/status.h"
#include "common/domain/bins.h"
#include "common/domain/forecast.h"
#include "common/domain/problem.h"
#include "common/domain/scoring.h"
#include "common/domain/selection.h"
#include "services/forecaster/core/calibration.h"
#include "services/forecaster/embedded/problem_model.h"
#include "services/forecaster/embedded/random.h"
#include "services/forecaster/embedded/shared_model.h"
#include "services/forecaster/rpc/training_records.h"
#include "tests/bench/experiments/held_out.h"

namespace kernelcast::forecaster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kLabelCounts[] = {0, 5, 10, 20, 50};
constexpr double kShares[] = {0.01, 0.02, 0.05, 0.1, 0.2};
constexpr int kFloorDraws = 200;
// Goal for the AUC of P(failure) without labels, mean over problems.
constexpr double kFailureGoal = 0.75;

double Simulated(const TrainingRow& row) {
  return row.features.simulation.empty() ? kNaN : row.features.simulation[0];
}

// Forecast P(failure) and whether the candidate failed.
using FailureForecast = std::pair<double, bool>;

// The forecasts of one model for its unlabelled points.
struct Trial {
  std::vector<PrequentialRecord> records;
  std::vector<FailureForecast> failures;
};

// Probability that a failure gets a higher forecast than a success; ties count half. NaN if either
// is missing.
double AreaUnderCurve(const std::vector<FailureForecast>& forecasts) {
  double above = 0;
  double pairs = 0;
  for (const auto& [failure, failed] : forecasts) {
    if (!failed) continue;
    for (const auto& [success, other_failed] : forecasts) {
      if (other_failed) continue;
      ++pairs;
      above += failure > success ? 1 : failure == success ? 0.5 : 0;
    }
  }
  return pairs > 0 ? above / pairs : kNaN;
}

// Mean of -ln of the probability given to the outcome.
double LogLoss(const std::vector<FailureForecast>& forecasts) {
  double sum = 0;
  for (const auto& [p, failed] : forecasts) sum -= std::log(failed ? p : 1 - p);
  return sum / static_cast<double>(forecasts.size());
}

struct Score {
  double spearman = kNaN;
  double accuracy = 0;
  double within_one = 0;
  double ece = 0;
  double nll = 0;
};

ScoredForecast Scored(const StudentT& predicted, double measured) {
  const BinScheme& bins = BinScheme::Default();
  return {.p = BinsFromStudentT(bins, predicted.location, predicted.scale,
                                predicted.degrees_of_freedom),
          .true_bin = *bins.Label(std::exp2(measured)),
          .expected_log2_speedup = predicted.location,
          .measured_log2_speedup = measured};
}

std::vector<ScoredForecast> Scored(const Trial& trial, double multiplier) {
  std::vector<ScoredForecast> items;
  for (const PrequentialRecord& record : trial.records) {
    StudentT predicted = record.predicted;
    predicted.scale *= multiplier;
    items.push_back(Scored(predicted, record.measured_log2_speedup));
  }
  return items;
}

Score ScoreOf(const std::vector<ScoredForecast>& items) {
  const auto metrics = ScoreForecasts(items);
  if (!metrics.ok()) return {};
  return {metrics->spearman, metrics->accuracy, metrics->off_by_one_accuracy,
          metrics->expected_calibration_error, metrics->negative_log_likelihood};
}

// The calibration error that this many perfectly calibrated forecasts have by chance.
double CalibrationFloor(std::vector<ScoredForecast> items, uint64_t seed) {
  Random random(seed);
  double sum = 0;
  for (int draw = 0; draw < kFloorDraws; ++draw) {
    for (ScoredForecast& item : items) {
      double left = random.Uniform();
      item.true_bin = static_cast<int>(item.p.size());
      for (size_t bin = 0; bin < item.p.size(); ++bin) {
        left -= item.p[bin];
        if (left < 0) {
          item.true_bin = static_cast<int>(bin) + 1;
          break;
        }
      }
    }
    sum += ScoreOf(items).ece;
  }
  return sum / kFloorDraws;
}

double Least(const std::vector<double>& values) {
  return values.empty() ? kNaN : *std::min_element(values.begin(), values.end());
}

class Experiment {
 public:
  Experiment(const HeldOutOptions& options, std::vector<MeasuredProblem> tasks)
      : options_(options), tasks_(std::move(tasks)), models_(options_, tasks_) {}

  int Run() {
    Json all = {{"target", options_.target},
                {"hold_out", options_.hold_out},
                {"seeds", options_.seeds},
                {"problems", tasks_.size()}};
    for (size_t t = 0; t < tasks_.size(); ++t) {
      const absl::Status trained = Train(t);
      if (!trained.ok()) {
        std::fprintf(stderr, "%s: %s\n", tasks_[t].name.c_str(), trained.ToString().c_str());
        return 1;
      }
    }
    all["unseen"] = Unseen();
    all["few_labels"] = FewLabels();
    all["top_share"] = TopShare();
    all["failures"] = Failures();
    Latency();
    WriteFigures(options_, all.dump(1));
    return 0;
  }

 private:
  absl::Status Train(size_t t) {
    const MeasuredProblem& task = tasks_[t];
    KC_ASSIGN_OR_RETURN(const std::shared_ptr<const SharedModel> shared, models_.For(task));
    for (const size_t labels : kLabelCounts) {
      const int seeds = labels == 0 ? 1 : options_.seeds;
      for (int seed = 0; seed < seeds; ++seed) {
        if (labels + 10 > task.rows.size()) continue;
        std::vector<size_t> order(task.rows.size());
        std::iota(order.begin(), order.end(), size_t{0});
        Random random(DeriveSeed(static_cast<uint64_t>(seed), task.name, labels));
        for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
        std::vector<const TrainingRow*> given;
        for (size_t i = 0; i < labels; ++i) given.push_back(&task.rows[order[i]]);
        ProblemModelOptions model_options;
        model_options.seed = DeriveSeed(1, task.name, labels);
        const ProblemModel model = ProblemModel::Train(task.context->EncoderFor(task.target), given,
                                                       shared, model_options);
        Trial& trial = trials_[{t, labels}].emplace_back();
        for (size_t i = labels; i < order.size(); ++i) {
          const TrainingRow& row = task.rows[order[i]];
          const ProblemModel::Prediction prediction =
              model.Predict(task.context->EncoderFor(task.target), row.features);
          trial.failures.emplace_back(prediction.failure_probability,
                                      !row.log2_speedup.has_value());
          if (!row.log2_speedup.has_value()) continue;
          trial.records.push_back({prediction.log2_speedup, *row.log2_speedup, 1});
        }
        if (labels > 0) continue;
        for (const TrainingRow& row : task.rows) {
          forecasts_[t].push_back(model.Predict(task.context->EncoderFor(task.target), row.features)
                                      .log2_speedup.location);
        }
      }
    }
    return absl::OkStatus();
  }

  // The calibration from the records of independent problems, as the backend uses it before the
  // problem's own labels count.
  double Multiplier(size_t t, size_t labels) const {
    // Without labels the scale is that of errors on held-out families, unchanged.
    if (labels == 0) return 1;
    std::vector<PrequentialRecord> records;
    for (size_t other = 0; other < tasks_.size(); ++other) {
      const auto found = trials_.find({other, labels});
      if (!options_.Apart(tasks_[t], tasks_[other]) || found == trials_.end()) continue;
      const Trial& trial = found->second.front();
      records.insert(records.end(), trial.records.begin(), trial.records.end());
    }
    return FitScale(records).multiplier;
  }

  Json Unseen() {
    std::printf("(a) unseen problems, held out by %s\n\n", options_.hold_out.c_str());
    std::printf(
        "| problem | points | virtual GPU alone | Spearman | 8-bin accuracy | within one | ECE | "
        "ECE by chance | constant: accuracy | ECE |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n");
    Json rows = Json::array();
    std::vector<double> alone_all, spearman_all, accuracy_all, within_all, ece_all, floor_all,
        constant_all;
    std::vector<ScoredForecast> pooled, pooled_constant;
    for (size_t t = 0; t < tasks_.size(); ++t) {
      const MeasuredProblem& task = tasks_[t];
      std::vector<double> simulated, measured;
      for (const TrainingRow& row : task.rows) {
        if (!row.log2_speedup.has_value() || std::isnan(Simulated(row))) continue;
        simulated.push_back(Simulated(row));
        measured.push_back(*row.log2_speedup);
      }
      const double alone = Spearman(simulated, measured);
      const Trial& trial = trials_.at({t, 0}).front();
      const std::vector<ScoredForecast> raw = Scored(trial, 1);
      const Score score = ScoreOf(raw);
      const double floor = CalibrationFloor(raw, t);
      // Frequencies of the bins over the other problems' points, independent of the candidate.
      std::vector<double> frequencies(static_cast<size_t>(BinScheme::Default().size()), 0.5);
      for (const MeasuredProblem& other : tasks_) {
        if (!options_.Apart(task, other)) continue;
        for (const TrainingRow& row : other.rows) {
          if (!row.log2_speedup.has_value()) continue;
          const int bin = *BinScheme::Default().Label(std::exp2(*row.log2_speedup));
          frequencies[static_cast<size_t>(bin - 1)] += 1.0 / static_cast<double>(other.rows.size());
        }
      }
      if (!NormalizeSimplex(frequencies).ok()) continue;
      std::vector<ScoredForecast> constant = raw;
      for (ScoredForecast& item : constant) {
        item.p = frequencies;
        item.expected_log2_speedup = 0;
      }
      const Score constant_score = ScoreOf(constant);
      std::printf("| %s | %zu | %.3f | %.3f | %.2f | %.2f | %.3f | %.3f | %.2f | %.3f |\n",
                  task.name.c_str(), raw.size(), alone, score.spearman, score.accuracy,
                  score.within_one, score.ece, floor, constant_score.accuracy, constant_score.ece);
      rows.push_back({{"problem", task.name},
                      {"points", raw.size()},
                      {"virtual_gpu_spearman", alone},
                      {"spearman", score.spearman},
                      {"accuracy", score.accuracy},
                      {"within_one", score.within_one},
                      {"ece", score.ece},
                      {"ece_by_chance", floor},
                      {"constant_accuracy", constant_score.accuracy},
                      {"constant_ece", constant_score.ece}});
      alone_all.push_back(alone);
      spearman_all.push_back(score.spearman);
      accuracy_all.push_back(score.accuracy);
      within_all.push_back(score.within_one);
      ece_all.push_back(score.ece);
      floor_all.push_back(floor);
      constant_all.push_back(constant_score.accuracy);
      pooled.insert(pooled.end(), raw.begin(), raw.end());
      pooled_constant.insert(pooled_constant.end(), constant.begin(), constant.end());
    }
    const Score pool = ScoreOf(pooled);
    const Score pool_constant = ScoreOf(pooled_constant);
    std::printf("| **median** | | %.3f | %.3f | %.2f | %.2f | %.3f | %.3f | %.2f | |\n",
                Median(alone_all), Median(spearman_all), Median(accuracy_all), Median(within_all),
                Median(ece_all), Median(floor_all), Median(constant_all));
    std::printf("| **worst** | | %.3f | %.3f | %.2f | %.2f | %.3f | | %.2f | |\n", Least(alone_all),
                Least(spearman_all), Least(accuracy_all), Least(within_all),
                *std::max_element(ece_all.begin(), ece_all.end()), Least(constant_all));
    std::printf("| **pooled** | %zu | | %.3f | %.2f | %.2f | %.3f | %.3f | %.2f | %.3f |\n\n",
                pooled.size(), pool.spearman, pool.accuracy, pool.within_one, pool.ece,
                CalibrationFloor(pooled, 99), pool_constant.accuracy, pool_constant.ece);
    std::fflush(stdout);
    return {{"problems", rows},
            {"median_virtual_gpu_spearman", Median(alone_all)},
            {"median_spearman", Median(spearman_all)},
            {"worst_spearman", Least(spearman_all)},
            {"pooled_accuracy", pool.accuracy},
            {"pooled_within_one", pool.within_one},
            {"pooled_ece", pool.ece},
            {"pooled_nll", pool.nll}};
  }

  Json FewLabels() {
    std::printf(
        "(b) with labels of the problem, means of %d draws\n\n"
        "| labels | Spearman, median problem | worst | 8-bin accuracy, pooled | median | within "
        "one | NLL | ECE of a problem, median | worst | by chance, median | pooled | pooled, "
        "calibrated |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        options_.seeds);
    Json rows = Json::array();
    for (const size_t labels : kLabelCounts) {
      std::vector<double> spearman_all, accuracy_all, within_all, ece_all, floor_all;
      std::vector<ScoredForecast> pooled, pooled_calibrated;
      Json problems = Json::object();
      for (size_t t = 0; t < tasks_.size(); ++t) {
        const auto found = trials_.find({t, labels});
        if (found == trials_.end()) continue;
        const double multiplier = Multiplier(t, labels);
        std::vector<double> spearman, accuracy, within, ece;
        for (const Trial& trial : found->second) {
          const std::vector<ScoredForecast> items = Scored(trial, 1);
          const std::vector<ScoredForecast> calibrated = Scored(trial, multiplier);
          const Score score = ScoreOf(items);
          if (!std::isnan(score.spearman)) spearman.push_back(score.spearman);
          accuracy.push_back(score.accuracy);
          within.push_back(score.within_one);
          ece.push_back(ScoreOf(calibrated).ece);
          pooled.insert(pooled.end(), items.begin(), items.end());
          pooled_calibrated.insert(pooled_calibrated.end(), calibrated.begin(), calibrated.end());
        }
        spearman_all.push_back(Mean(spearman));
        accuracy_all.push_back(Mean(accuracy));
        within_all.push_back(Mean(within));
        ece_all.push_back(Mean(ece));
        floor_all.push_back(
            CalibrationFloor(Scored(found->second.front(), multiplier), 1000 * labels + t));
        problems[tasks_[t].name] = {{"spearman", Mean(spearman)},
                                    {"accuracy", Mean(accuracy)},
                                    {"ece_calibrated", Mean(ece)},
                                    {"multiplier", multiplier}};
      }
      const Score pool = ScoreOf(pooled);
      const Score calibrated = ScoreOf(pooled_calibrated);
      const double worst_ece = *std::max_element(ece_all.begin(), ece_all.end());
      std::printf(
          "| %zu | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f |\n",
          labels, Median(spearman_all), Least(spearman_all), pool.accuracy, Median(accuracy_all),
          pool.within_one, calibrated.nll, Median(ece_all), worst_ece, Median(floor_all), pool.ece,
          calibrated.ece);
      rows.push_back({{"labels", labels},
                      {"median_spearman", Median(spearman_all)},
                      {"worst_spearman", Least(spearman_all)},
                      {"pooled_accuracy", pool.accuracy},
                      {"median_accuracy", Median(accuracy_all)},
                      {"pooled_within_one", pool.within_one},
                      {"pooled_nll", calibrated.nll},
                      {"median_ece_calibrated", Median(ece_all)},
                      {"worst_ece_calibrated", worst_ece},
                      {"median_ece_by_chance", Median(floor_all)},
                      {"pooled_ece", pool.ece},
                      {"pooled_ece_calibrated", calibrated.ece},
                      {"problems", problems}});
    }
    std::printf("\n");
    std::fflush(stdout);
    return rows;
  }

  Json TopShare() {
    std::printf(
        "(c) best found / best of the pool, measuring only the share forecast fastest\n\n"
        "| share | median | worst | (problem) | random, median | random, worst | gap closed | "
        "virtual GPU alone, median | worst | gap closed "
        "|\n|---|---|---|---|---|---|---|---|---|---|\n");
    Json rows = Json::array();
    for (const double share : kShares) {
      std::vector<double> found_all, random_all, alone_all;
      double gap = 0, closed = 0, closed_alone = 0;
      std::string worst;
      Json problems = Json::object();
      for (size_t t = 0; t < tasks_.size(); ++t) {
        const MeasuredProblem& task = tasks_[t];
        std::vector<PoolItem> forecast, simulated;
        for (size_t i = 0; i < task.rows.size(); ++i) {
          const TrainingRow& row = task.rows[i];
          const double speedup = row.log2_speedup.has_value() ? std::exp2(*row.log2_speedup) : 0;
          forecast.push_back({forecasts_.at(t)[i], speedup, false});
          simulated.push_back({Simulated(row), speedup, false});
        }
        const double found = SelectFromPool(forecast, share).best_found;
        const double alone = SelectFromPool(simulated, share).best_found;
        const double random = SelectAtRandom(forecast, share).best_found;
        if (found_all.empty() || found < Least(found_all)) worst = task.name;
        found_all.push_back(found);
        alone_all.push_back(alone);
        random_all.push_back(random);
        gap += 1 - random;
        closed += found - random;
        closed_alone += alone - random;
        problems[task.name] = {{"found", found}, {"virtual_gpu", alone}, {"random", random}};
      }
      std::printf("| %.0f%% | %.3f | %.3f | %s | %.3f | %.3f | %.0f%% | %.3f | %.3f | %.0f%% |\n",
                  100 * share, Median(found_all), Least(found_all), worst.c_str(),
                  Median(random_all), Least(random_all), 100 * closed / gap, Median(alone_all),
                  Least(alone_all), 100 * closed_alone / gap);
      rows.push_back({{"share", share},
                      {"median", Median(found_all)},
                      {"worst", Least(found_all)},
                      {"random_median", Median(random_all)},
                      {"random_worst", Least(random_all)},
                      {"gap_closed", closed / gap},
                      {"virtual_gpu_median", Median(alone_all)},
                      {"virtual_gpu_worst", Least(alone_all)},
                      {"problems", problems}});
    }
    return rows;
  }

  Json Failures() {
    std::printf(
        "\n(d) P(failure) of candidates that compile\n\n"
        "| labels | AUC, mean of problems | median | worst | (problem) | pooled | log loss | of "
        "the "
        "rate alone | goal |\n|---|---|---|---|---|---|---|---|---|\n");
    Json rows = Json::array();
    for (const size_t labels : kLabelCounts) {
      std::vector<double> aucs;
      std::vector<FailureForecast> pooled;
      std::string worst;
      Json problems = Json::object();
      for (size_t t = 0; t < tasks_.size(); ++t) {
        const auto found = trials_.find({t, labels});
        if (found == trials_.end()) continue;
        std::vector<double> own;
        for (const Trial& trial : found->second) {
          const double auc = AreaUnderCurve(trial.failures);
          if (!std::isnan(auc)) own.push_back(auc);
          pooled.insert(pooled.end(), trial.failures.begin(), trial.failures.end());
        }
        if (own.empty()) continue;
        if (aucs.empty() || Mean(own) < Least(aucs)) worst = tasks_[t].name;
        aucs.push_back(Mean(own));
        problems[tasks_[t].name] = Mean(own);
      }
      double rate = 0;
      for (const auto& [p, failed] : pooled) {
        if (failed) rate += 1 / static_cast<double>(pooled.size());
      }
      std::vector<FailureForecast> constant = pooled;
      for (FailureForecast& forecast : constant) forecast.first = rate;
      const double auc = AreaUnderCurve(pooled);
      std::printf("| %zu | %.3f | %.3f | %.3f | %s | %.3f | %.3f | %.3f | %s |\n", labels,
                  Mean(aucs), Median(aucs), Least(aucs), worst.c_str(), auc, LogLoss(pooled),
                  LogLoss(constant),
                  labels > 0                   ? ""
                  : Mean(aucs) >= kFailureGoal ? "0.75, reached"
                                               : "0.75, missed");
      rows.push_back({{"labels", labels},
                      {"candidates", pooled.size()},
                      {"rate", rate},
                      {"mean_auc", Mean(aucs)},
                      {"median_auc", Median(aucs)},
                      {"worst_auc", Least(aucs)},
                      {"pooled_auc", auc},
                      {"log_loss", LogLoss(pooled)},
                      {"rate_log_loss", LogLoss(constant)},
                      {"problems", problems}});
    }
    std::fflush(stdout);
    return rows;
  }

  // From facts to a distribution over bins, with all labels of the last problem.
  void Latency() {
    const MeasuredProblem& task = tasks_.back();
    std::vector<const TrainingRow*> labels;
    for (const TrainingRow& row : task.rows) labels.push_back(&row);
    const auto shared = models_.For(task);
    if (!shared.ok()) return;
    const TunableEncoder& encoder = task.context->EncoderFor(task.target);
    const ProblemModel model = ProblemModel::Train(encoder, labels, *shared, {});
    const auto candidate = ReferenceCandidate(task.context->problem, task.target);
    if (!candidate.ok()) return;
    const bool cuda = task.target == kCudaTargetName;
    CompileFacts facts;
    facts.schema = std::string(cuda ? kCudaPtxSchemaId : kCpuAssemblySchemaId);
    facts.values.assign((*FindFactSchema(facts.schema))->names.size(), 3.0);
    if (cuda) {
      LaunchSimulation launch;
      launch.values.assign((*FindSimulationSchema(kCudaSimulationSchemaId))->names.size(), 2.0);
      facts.simulations = {{std::string(kCudaSimulationSchemaId), "NVIDIA H200", {launch}}};
    }
    constexpr int kTimes = 5000;
    double sum = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) {
      const CandidateFeatures features =
          MakeFeatures(*task.context, *candidate, facts, facts, "NVIDIA H200");
      sum += Scored(model.Predict(encoder, features).log2_speedup, 0).p[0];
    }
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    std::printf("\na forecast with %zu labels takes %.1f us, features included%s\n", labels.size(),
                took.count() / kTimes, sum >= 0 ? "" : "!");
  }

  const HeldOutOptions& options_;
  const std::vector<MeasuredProblem> tasks_;
  HeldOutModels models_;
  std::map<std::pair<size_t, size_t>, std::vector<Trial>> trials_;  // by task and labels
  std::map<size_t, std::vector<double>> forecasts_;                 // of all rows, without labels
};

int Run(const HeldOutOptions& options) {
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
  CLI::App app("Prints how good the embedded model is on problems that it has not seen.");
  kernelcast::forecaster::HeldOutOptions options;
  kernelcast::forecaster::AddHeldOutOptions(app, options, "Draws of labels");
  CLI11_PARSE(app, argc, argv);
  return kernelcast::forecaster::Run(options);
}
