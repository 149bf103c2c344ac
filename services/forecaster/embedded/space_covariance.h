#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SPACE_COVARIANCE_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SPACE_COVARIANCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "services/forecaster/core/tunable_encoder.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// Position of a candidate within one problem's space. `tunables` are without the template columns
// and scaled so that a distance of 1 is large; NaN if the template lacks the tunable. `facts` are
// scaled logarithms, 0 if unknown; empty if all are unknown.
struct SpacePosition {
  int template_index = -1;
  std::vector<float> tunables;
  std::vector<float> facts;
  // Log2 speedup predicted from other problems.
  double predicted = 0;
  // Correction of another device model's forecast by its labels.
  double transferred = 0;
  // Size of the errors, relative to those at familiar positions.
  double width = 1;
  // The same if errors do not grow with novelty.
  double plain_width = 1;
};

// Leaves `predicted`, `transferred` and the widths at their defaults.
SpacePosition PositionOf(const TunableEncoder& encoder, const CandidateFeatures& features);

// Matern correlation with smoothness 3/2 at a distance in units of the length.
double Matern(double distance);

// Similarity of two positions, before weighting.
struct Likeness {
  bool same_template = false;
  // Mean similarity over the tunables of a template.
  double main_effects = 0;
  // Joint similarity of all tunables.
  double interactions = 0;
  // Like main_effects, over the tunables that both have, even in different templates.
  double shared_effects = 0;
  double facts = 0;
  // Product of the predicted values, which models an error in the slope. The same for
  // `transferred`.
  double predicted = 0;
  double transferred = 0;
  // Product of the widths.
  double width = 1;
};

// Correlation lengths, and the weight of each tunable (1: the default).
struct LikenessLengths {
  double tunables = 1;
  double facts = 0.5;
  std::vector<float> weights;  // empty: all 1
};

// Positions of one space, arranged for comparing another position with all of them at once.
// Tunables have few values each, so each pair of values is compared once for all positions that
// share them. Immutable and thread-safe.
class PositionTable {
 public:
  PositionTable() = default;
  // All positions must have the same number of tunables.
  explicit PositionTable(std::span<const SpacePosition> positions);

  enum class Facts { kCompared, kLeftOut };

  size_t size() const { return templates_.size(); }
  // Compares `position`, which must have the same number of tunables, with each of the last
  // out.size() positions. Facts that are left out have similarity 0.
  void Compare(const SpacePosition& position, const LikenessLengths& lengths, Facts facts,
               std::span<Likeness> out) const;

 private:
  struct Column {
    std::vector<float> values;    // distinct values
    std::vector<uint16_t> index;  // index into `values`, by position
  };

  std::vector<int> templates_;
  std::vector<int> tunables_had_;
  std::vector<Column> tunables_;
  std::vector<size_t> fact_counts_;
  std::vector<std::vector<float>> facts_;  // by column, then position
  std::vector<double> predicted_;
  std::vector<double> transferred_;
  std::vector<double> widths_;
};

// Weight of each kind of similarity. The sum is a covariance, because each kind is one.
struct CovarianceWeights {
  double constant = 0;
  double slope = 0;
  double transferred = 0;
  double same_template = 0;
  double main_effects = 0;
  double interactions = 0;
  double shared_effects = 0;
  double facts = 0;

  double operator()(const Likeness& likeness) const;
  // Covariance of a position of width 1 with itself if `predicted` and `transferred` are 0.
  double Variance() const;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SPACE_COVARIANCE_H_
