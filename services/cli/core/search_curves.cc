#include "services/cli/core/search_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "common/base/statistics.h"

namespace kernelcast::cli {
namespace {

// The searches of a line on one problem: what each had found at each point.
struct ProblemSearches {
  std::vector<std::vector<double>> found;
  std::vector<const SearchCurve*> curves;
};

double FoundAt(const SearchCurve& curve, double device_seconds) {
  double speedup = 1;
  for (const SearchCurve::Step& step : curve.steps) {
    if (step.device_seconds > device_seconds) break;
    speedup = std::max(speedup, step.speedup);
  }
  return speedup;
}

// Means over problems of the means over searches, and at the end the candidates per measurement.
class CurveSample {
 public:
  explicit CurveSample(size_t points) : sums_(points, 0.0) {}
  void Add(const ProblemSearches& problem, const std::vector<size_t>& searches) {
    for (const size_t search : searches) {
      for (size_t i = 0; i < sums_.size(); ++i) {
        sums_[i] += problem.found[search][i] / static_cast<double>(searches.size());
      }
      measured_ += static_cast<double>(problem.curves[search]->measured);
      pruned_ += static_cast<double>(problem.curves[search]->pruned);
    }
    ++problems_;
  }
  std::vector<double> Figures() const {
    std::vector<double> figures;
    for (const double sum : sums_) figures.push_back(sum / problems_);
    figures.push_back(measured_ > 0 ? (measured_ + pruned_) / measured_
                                    : std::numeric_limits<double>::quiet_NaN());
    return figures;
  }

 private:
  std::vector<double> sums_;
  double measured_ = 0;
  double pruned_ = 0;
  int problems_ = 0;
};

Interval IntervalOf(double value, std::vector<double>& resampled) {
  std::erase_if(resampled, [](double drawn) { return !std::isfinite(drawn); });
  if (resampled.empty()) return {value, value, value};
  return {value, Quantile(resampled, 0.025), Quantile(resampled, 0.975)};
}

MeanCurve MeanOf(const std::vector<ProblemSearches>& problems, const std::vector<double>& at,
                 int resamples, uint64_t seed) {
  CurveSample whole(at.size());
  for (const ProblemSearches& problem : problems) {
    std::vector<size_t> all(problem.curves.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    whole.Add(problem, all);
  }
  const std::vector<double> figures = whole.Figures();
  std::mt19937_64 random(seed);
  const auto draw = [&random](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  std::vector<std::vector<double>> resampled(figures.size());
  for (int r = 0; r < resamples; ++r) {
    CurveSample sample(at.size());
    for (size_t p = 0; p < problems.size(); ++p) {
      const ProblemSearches& problem = problems[draw(problems.size())];
      std::vector<size_t> searches(problem.curves.size());
      for (size_t& search : searches) search = draw(problem.curves.size());
      sample.Add(problem, searches);
    }
    const std::vector<double> drawn = sample.Figures();
    for (size_t i = 0; i < drawn.size(); ++i) resampled[i].push_back(drawn[i]);
  }
  MeanCurve mean;
  for (const ProblemSearches& problem : problems) {
    mean.searches += problem.curves.size();
    for (const SearchCurve* curve : problem.curves) mean.device_seconds += curve->device_seconds;
  }
  mean.device_seconds /= static_cast<double>(mean.searches);
  for (size_t i = 0; i < at.size(); ++i) {
    mean.points.push_back({at[i], IntervalOf(figures[i], resampled[i])});
  }
  mean.candidates_per_measurement = IntervalOf(figures.back(), resampled.back());
  return mean;
}

}  // namespace

std::vector<MeanCurve> MeanCurves(const std::vector<SearchCurve>& curves, int resamples,
                                  uint64_t seed) {
  struct OfProblem {
    double best = 1;
    double longest = 0;
  };
  std::map<std::string, OfProblem> problems;
  for (const SearchCurve& curve : curves) {
    OfProblem& problem = problems[curve.problem];
    problem.best = std::max(problem.best, FoundAt(curve, std::numeric_limits<double>::infinity()));
    problem.longest = std::max(problem.longest, curve.device_seconds);
  }
  double longest = 0;
  for (const auto& [name, problem] : problems) {
    longest += problem.longest / static_cast<double>(problems.size());
  }
  std::vector<double> shares;
  std::vector<double> at;
  for (int i = 0; i <= kCurvePoints; ++i) {
    shares.push_back(static_cast<double>(i) / kCurvePoints);
    at.push_back(longest * shares.back());
  }
  std::vector<std::string> lines;
  std::map<std::string, std::map<std::string, ProblemSearches>> by_line;
  for (const SearchCurve& curve : curves) {
    if (by_line.count(curve.line) == 0) lines.push_back(curve.line);
    ProblemSearches& searches = by_line[curve.line][curve.problem];
    searches.curves.push_back(&curve);
    std::vector<double>& found = searches.found.emplace_back();
    const OfProblem& problem = problems.at(curve.problem);
    for (const double share : shares) {
      found.push_back(FoundAt(curve, share * problem.longest) / problem.best);
    }
  }
  std::vector<MeanCurve> means;
  for (const std::string& line : lines) {
    std::vector<ProblemSearches> of_line;
    for (auto& [name, searches] : by_line[line]) of_line.push_back(std::move(searches));
    means.push_back(MeanOf(of_line, at, resamples, seed));
    means.back().line = line;
  }
  return means;
}

}  // namespace kernelcast::cli
