#include "common/calibration/fit_calibrator.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

constexpr int kNewtonSteps = 100;
constexpr double kGradientTolerance = 1e-10;

std::vector<double> Logs(const CalibrationRecord& record) {
  std::vector<double> logs;
  logs.reserve(record.p.size());
  for (const double p : record.p) logs.push_back(std::log(std::max(p, kProbabilityFloor)));
  return logs;
}

// Returns the log of the sum of exponentials.
double SoftmaxInPlace(std::vector<double>& logits) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (double& value : logits) sum += value = std::exp(value - largest);
  for (double& value : logits) value /= sum;
  return largest + std::log(sum);
}

// Solves a x = b in place, for a symmetric positive definite `a`. Overwrites `a`. Returns false if
// `a` is not positive definite.
bool Solve(std::vector<double>& a, std::vector<double>& b) {
  const auto n = static_cast<Eigen::Index>(b.size());
  Eigen::Map<Eigen::MatrixXd> matrix(a.data(), n, n);
  const Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> factor(matrix);
  if (factor.info() != Eigen::Success) return false;
  Eigen::Map<Eigen::VectorXd> vector(b.data(), n);
  factor.solveInPlace(vector);
  return true;
}

// Penalised negative log likelihood of vector scaling. The parameters are the scales, then the
// biases.
class VectorObjective {
 public:
  VectorObjective(std::span<const CalibrationRecord> records, std::vector<double> toward,
                  double pull, double scale_pull)
      : records_(records), toward_(std::move(toward)), pull_(pull), scale_pull_(scale_pull) {
    for (const CalibrationRecord& record : records) logs_.push_back(Logs(record));
  }

  size_t bins() const { return toward_.size() / 2; }

  double Value(const std::vector<double>& parameters) const {
    double value = Penalty(parameters);
    for (size_t r = 0; r < records_.size(); ++r) {
      std::vector<double> logits = Logits(parameters, logs_[r]);
      const double at_truth = logits[static_cast<size_t>(records_[r].true_bin - 1)];
      value += records_[r].weight * (SoftmaxInPlace(logits) - at_truth);
    }
    return value;
  }

  // Gradient, and Hessian by rows.
  void Derivatives(const std::vector<double>& parameters, std::vector<double>& gradient,
                   std::vector<double>& hessian) const {
    const size_t k = bins();
    const size_t n = 2 * k;
    gradient.assign(n, 0);
    hessian.assign(n * n, 0);
    for (size_t i = 0; i < n; ++i) {
      const double pull = i < k ? scale_pull_ : pull_;
      gradient[i] = pull * (parameters[i] - toward_[i]);
      hessian[i * n + i] = pull;
    }
    for (size_t r = 0; r < records_.size(); ++r) {
      const std::vector<double>& logs = logs_[r];
      std::vector<double> p = Logits(parameters, logs);
      SoftmaxInPlace(p);
      const double w = records_[r].weight;
      for (size_t i = 0; i < k; ++i) {
        const double error = p[i] - (static_cast<int>(i) + 1 == records_[r].true_bin ? 1.0 : 0.0);
        gradient[i] += w * error * logs[i];
        gradient[k + i] += w * error;
        for (size_t j = 0; j < k; ++j) {
          const double curvature = w * p[i] * ((i == j ? 1 : 0) - p[j]);
          hessian[i * n + j] += curvature * logs[i] * logs[j];
          hessian[i * n + k + j] += curvature * logs[i];
          hessian[(k + i) * n + j] += curvature * logs[j];
          hessian[(k + i) * n + k + j] += curvature;
        }
      }
    }
  }

 private:
  std::vector<double> Logits(const std::vector<double>& parameters,
                             const std::vector<double>& logs) const {
    std::vector<double> logits(logs.size());
    for (size_t i = 0; i < logs.size(); ++i) {
      logits[i] = parameters[i] * logs[i] + parameters[logs.size() + i];
    }
    return logits;
  }

  double Penalty(const std::vector<double>& parameters) const {
    double sum = 0;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double pull = i < bins() ? scale_pull_ : pull_;
      sum += pull / 2 * (parameters[i] - toward_[i]) * (parameters[i] - toward_[i]);
    }
    return sum;
  }

  const std::span<const CalibrationRecord> records_;
  const std::vector<double> toward_;
  const double pull_;
  const double scale_pull_;
  std::vector<std::vector<double>> logs_;
};

}  // namespace

double EffectiveRecords(std::span<const CalibrationRecord> records) {
  double sum = 0;
  double squares = 0;
  for (const CalibrationRecord& record : records) {
    sum += record.weight;
    squares += record.weight * record.weight;
  }
  return squares > 0 ? sum * sum / squares : 0;
}

absl::Status CheckRecords(std::span<const CalibrationRecord> records) {
  double weight = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    const CalibrationRecord& record = records[i];
    const auto invalid = [&](const char* what) {
      return absl::InvalidArgumentError(absl::StrCat("records[", i, "].", what));
    };
    if (record.p.size() < 2 || record.p.size() != records[0].p.size()) {
      return invalid("p: must have at least two bins, and as many as the others");
    }
    for (const double p : record.p) {
      if (!(p >= 0) || std::isinf(p)) return invalid("p: a value is not a probability");
    }
    if (record.true_bin < 1 || record.true_bin > static_cast<int>(record.p.size())) {
      return invalid("true_bin: out of range");
    }
    if (!(record.weight >= 0) || std::isinf(record.weight)) return invalid("weight: out of range");
    weight += record.weight;
  }
  if (!(weight > 0)) return absl::InvalidArgumentError("there is no record with a weight");
  return absl::OkStatus();
}

VectorMap FitVector(std::span<const CalibrationRecord> records, const VectorFit& options) {
  const size_t k =
      records.empty() ? options.toward.scale.size() : static_cast<size_t>(records[0].p.size());
  std::vector<double> toward(2 * k, 0);
  for (size_t i = 0; i < k; ++i) {
    toward[i] = options.toward.scale.empty() ? 1 : options.toward.scale[i];
    toward[k + i] = options.toward.bias.empty() ? 0 : options.toward.bias[i];
  }
  const VectorObjective objective(records, toward, options.pull,
                                  options.scale_pull.value_or(options.pull));
  std::vector<double> parameters = toward;
  std::vector<double> gradient;
  std::vector<double> hessian;
  double value = objective.Value(parameters);
  for (int step = 0; step < kNewtonSteps; ++step) {
    objective.Derivatives(parameters, gradient, hessian);
    double largest = 0;
    for (const double g : gradient) largest = std::max(largest, std::abs(g));
    if (largest < kGradientTolerance) break;
    std::vector<double> direction = gradient;
    if (!Solve(hessian, direction)) break;
    double decrease = 0;
    for (size_t i = 0; i < gradient.size(); ++i) decrease += gradient[i] * direction[i];
    // Backtracking line search: halves the step until it gains a tenth of what the slope predicts.
    bool moved = false;
    for (double length = 1; length > 1e-9; length /= 2) {
      std::vector<double> next = parameters;
      for (size_t i = 0; i < next.size(); ++i) next[i] -= length * direction[i];
      const double there = objective.Value(next);
      if (there <= value - 0.1 * length * decrease) {
        moved = there < value;
        parameters = std::move(next);
        value = there;
        break;
      }
    }
    if (!moved) break;
  }
  VectorMap map;
  map.scale.assign(parameters.begin(), parameters.begin() + static_cast<ptrdiff_t>(k));
  map.bias.assign(parameters.begin() + static_cast<ptrdiff_t>(k), parameters.end());
  return map;
}

}  // namespace kernelcast
