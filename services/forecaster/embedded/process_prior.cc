#include "services/forecaster/embedded/process_prior.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "services/forecaster/core/predictive.h"
#include "services/forecaster/embedded/marginal_likelihood.h"
#include "services/forecaster/embedded/random.h"
#include "services/forecaster/embedded/yield.h"

namespace kernelcast::forecaster {
namespace {

constexpr size_t kSamples = 3;
constexpr size_t kSamplePoints = 24;
constexpr int kSweeps = 8;
constexpr double kSteps[] = {0.4, 0.7, 1.4, 2.5};
// Prior standard deviation, in natural log, of each value around its default.
constexpr double kLogDeviation = 0.6;
constexpr double kLeastGain = 1e-6;

struct Figure {
  double& (*of)(ProcessPrior&);
  bool is_length;
};

// Shares of the variance, and lengths.
constexpr Figure kFigures[] = {
    {[](ProcessPrior& p) -> double& { return p.noise; }, false},
    {[](ProcessPrior& p) -> double& { return p.weights.constant; }, false},
    {[](ProcessPrior& p) -> double& { return p.weights.same_template; }, false},
    {[](ProcessPrior& p) -> double& { return p.weights.main_effects; }, false},
    {[](ProcessPrior& p) -> double& { return p.weights.interactions; }, false},
    {[](ProcessPrior& p) -> double& { return p.weights.shared_effects; }, false},
    {[](ProcessPrior& p) -> double& { return p.weights.facts; }, false},
    {[](ProcessPrior& p) -> double& { return p.lengths.tunables; }, true},
    {[](ProcessPrior& p) -> double& { return p.lengths.facts; }, true},
};

// Scale of the errors: for kernels like the reference, the increase per octave of predicted
// difference, and the growth with novelty.
struct ErrorScales {
  double level = 0;
  double slope = 0;
  double novelty = 0;
};

// Values of one of the scales on a grid, from 0.
struct ScaleGrid {
  double ErrorScales::*scale;
  double step;
  double most;
};

// Minimises the cost of independent Student-t errors, with equal weight per problem and
// `prior_weight` further problems at the scale of `start`. Uses grids of the level and one other
// scale in turns.
class ErrorScaleFit {
 public:
  ErrorScaleFit(std::span<const ProblemErrors> problems, const ProcessPrior& start,
                double prior_weight)
      : problems_(problems), start_(start), prior_weight_(prior_weight) {
    for (const ProblemErrors& problem : problems) {
      for (const double novelty : problem.novelties) {
        most_novel_ = std::max(most_novel_, novelty);
      }
    }
  }

  ErrorScales Run() {
    constexpr int kRounds = 2;
    constexpr ScaleGrid kSlopes = {&ErrorScales::slope, 0.05, 0.6};
    constexpr ScaleGrid kNovelties = {&ErrorScales::novelty, 0.5, 10};
    const bool has_slope = start_.weights.slope > 0;
    for (int round = 0; round < kRounds; ++round) {
      Search(has_slope ? kSlopes : ScaleGrid{&ErrorScales::slope, 1, 0});
      if (!(most_novel_ > 0)) break;
      Search(kNovelties);
    }
    return best_;
  }

 private:
  void Search(const ScaleGrid& grid) {
    constexpr double kLeastLevel = 0.05;
    constexpr double kStep = 1.04;
    ErrorScales trial = best_;
    for (double value = 0; value <= grid.most + 1e-9; value += grid.step) {
      trial.*grid.scale = value;
      for (trial.level = kLeastLevel; trial.level < 2 * start_.scale; trial.level *= kStep) {
        const double cost = Cost(trial);
        if (cost >= least_) continue;
        least_ = cost;
        best_ = trial;
      }
    }
  }

  double Cost(const ErrorScales& scales) const {
    const double dof = 2 * start_.shape;
    const auto cost = [dof](double error, double variance) {
      return 0.5 * std::log(variance) +
             0.5 * (dof + 1) * std::log1p(error * error / variance / dof);
    };
    const double variance = scales.level * scales.level;
    double sum = prior_weight_ * cost(start_.scale, variance);
    for (const ProblemErrors& problem : problems_) {
      const double weight = 1 / static_cast<double>(problem.errors.size());
      for (size_t i = 0; i < problem.errors.size(); ++i) {
        const double sloped = scales.slope * problem.positions[i].predicted;
        const double novel = problem.novelties.empty() ? 0 : scales.novelty * problem.novelties[i];
        sum += weight * cost(problem.errors[i], variance * (1 + novel * novel) + sloped * sloped);
      }
    }
    return sum;
  }

  const std::span<const ProblemErrors> problems_;
  const ProcessPrior& start_;
  const double prior_weight_;
  double most_novel_ = 0;
  ErrorScales best_;
  double least_ = std::numeric_limits<double>::infinity();
};

// Scales the shares of the variance to a sum of 1. `slope` is relative to that, per octave.
void Normalise(ProcessPrior& prior, double slope) {
  const double sum = prior.weights.Variance() + prior.noise;
  for (const Figure& figure : kFigures) {
    if (!figure.is_length) figure.of(prior) /= sum;
  }
  prior.weights.slope = slope * slope / (prior.scale * prior.scale);
}

}  // namespace

ProcessPrior UsualProcessPrior(RegressedValues of, double scale) {
  ProcessPrior prior;
  prior.scale = scale;
  prior.shape = 0.5 * kPrior.degrees_of_freedom;
  prior.weights = {.constant = 0.5,
                   .slope = 0,
                   .same_template = 0.4,
                   .main_effects = 0.3,
                   .interactions = 0.15,
                   .shared_effects = 0.2,
                   .facts = 0.15};
  prior.noise = 0.01;
  if (of == RegressedValues::kErrorsOfSimulation) {
    // Tunables matter less once their effect has been simulated. Candidates that look alike to the
    // simulator have similar errors.
    prior.weights = {.constant = 0.5,
                     .slope = 0.1,
                     .same_template = 0.4,
                     .main_effects = 0.2,
                     .interactions = 0.2,
                     .shared_effects = 0.1,
                     .facts = 0.4};
    prior.noise = 0.03;
  }
  return prior;
}

ProcessPrior LearnProcessPrior(std::span<const ProblemErrors> problems, const ProcessPrior& usual,
                               double prior_problems, uint64_t seed) {
  ProcessPrior start = usual;
  const ErrorScales scales = ErrorScaleFit(problems, usual, prior_problems).Run();
  start.scale = scales.level;
  start.novelty = scales.novelty;
  Normalise(start, scales.slope);

  std::vector<MarginalLikelihood> samples;  // a few rows of a problem each
  std::vector<double> weights;
  for (size_t p = 0; p < problems.size(); ++p) {
    const ProblemErrors& problem = problems[p];
    std::vector<size_t> order(problem.errors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    Random random(DeriveSeed(seed, "process prior", p));
    for (size_t s = 0; s < kSamples; ++s) {
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
      const size_t n = std::min(order.size(), kSamplePoints);
      std::vector<SpacePosition> points;
      std::vector<double> values;
      for (size_t i = 0; i < n; ++i) {
        points.push_back(problem.positions[order[i]]);
        if (!problem.novelties.empty()) {
          points.back().width = start.Width(problem.novelties[order[i]]);
        }
        values.push_back(problem.errors[order[i]]);
      }
      samples.emplace_back(points, values);
      weights.push_back(1.0 / kSamples);
      samples.back().Relate(start.lengths);
    }
  }

  ProcessPrior best = start;
  const auto cost_of = [&](ProcessPrior& prior) {
    ProcessPrior from = start;
    double sum = 0;
    for (const Figure& figure : kFigures) {
      sum += 0.5 * std::pow(std::log(figure.of(prior) / figure.of(from)) / kLogDeviation, 2);
    }
    for (size_t i = 0; i < samples.size(); ++i)
      sum += weights[i] * samples[i].Cost(prior, prior.rate());
    Yield();
    return sum;
  };
  double least = cost_of(best);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const double before = least;
    for (const Figure& figure : kFigures) {
      const ProcessPrior from = best;
      for (const double step : kSteps) {
        ProcessPrior trial = from;
        figure.of(trial) *= step;
        Normalise(trial, scales.slope);
        if (figure.is_length) {
          for (MarginalLikelihood& sample : samples) sample.Relate(trial.lengths);
        }
        const double cost = cost_of(trial);
        if (cost >= least - kLeastGain) continue;
        least = cost;
        best = trial;
      }
      if (figure.is_length) {
        for (MarginalLikelihood& sample : samples) sample.Relate(best.lengths);
      }
    }
    if (least > before - 1e-3) break;
  }
  return best;
}

}  // namespace kernelcast::forecaster
