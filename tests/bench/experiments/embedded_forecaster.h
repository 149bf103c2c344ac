#ifndef KERNELCAST_TESTS_BENCH_EXPERIMENTS_EMBEDDED_FORECASTER_H_
#define KERNELCAST_TESTS_BENCH_EXPERIMENTS_EMBEDDED_FORECASTER_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/domain/bins.h"
#include "common/domain/forecast.h"
#include "services/forecaster/core/calibration.h"
#include "services/forecaster/embedded/problem_model.h"
#include "services/forecaster/embedded/random.h"
#include "services/forecaster/rpc/training_records.h"

namespace kernelcast::forecaster {

// The embedded forecaster of one search, without the services: it learns from each label at once.
class EmbeddedForecaster {
 public:
  // The problem must outlive this object.
  EmbeddedForecaster(const MeasuredProblem& problem, std::shared_ptr<const SharedModel> shared,
                     uint64_t seed)
      : problem_(problem),
        encoder_(problem.context->EncoderFor(problem.target)),
        shared_(std::move(shared)),
        seed_(seed) {
    Train();
  }

  // The forecast of a row.
  kernelcast::Forecast Predict(size_t row) const {
    const ProblemModel::Prediction prediction =
        model_.Predict(encoder_, problem_.rows[row].features);
    StudentT distribution = prediction.log2_speedup;
    distribution.scale *= calibration_.multiplier;
    kernelcast::Forecast forecast;
    forecast.bin_probabilities =
        BinsFromStudentT(BinScheme::Default(), distribution.location, distribution.scale,
                         distribution.degrees_of_freedom);
    forecast.failure_probability = prediction.failure_probability;
    forecast.predicted_bin = ArgmaxBin(forecast.bin_probabilities);
    forecast.expected_log2_speedup = distribution.location;
    forecast.stddev_log2_speedup = StandardDeviation(distribution);
    forecast.labels_seen = labels_.size();
    return forecast;
  }

  // The row was measured.
  void Learn(size_t row) {
    const TrainingRow& truth = problem_.rows[row];
    if (truth.log2_speedup.has_value() && !labels_.empty()) {
      records_.push_back(
          {model_.Predict(encoder_, truth.features).log2_speedup, *truth.log2_speedup, 1});
    }
    labels_.push_back(&truth);
    Train();
  }

 private:
  void Train() {
    ProblemModelOptions options;
    options.seed = DeriveSeed(seed_, problem_.name, labels_.size());
    model_ = ProblemModel::Train(encoder_, labels_, shared_, options);
    calibration_ = FitScale(records_);
  }

  const MeasuredProblem& problem_;
  const TunableEncoder& encoder_;
  const std::shared_ptr<const SharedModel> shared_;
  const uint64_t seed_;
  ProblemModel model_;
  ScaleCalibration calibration_;
  std::vector<const TrainingRow*> labels_;
  std::vector<PrequentialRecord> records_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_TESTS_BENCH_EXPERIMENTS_EMBEDDED_FORECASTER_H_
