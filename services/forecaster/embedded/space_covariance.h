#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SPACE_COVARIANCE_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SPACE_COVARIANCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "services/forecaster/core/tunable_encoder.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// Where a candidate lies within one problem's space. Tunables without the template's own columns,
// such that a distance of one is far; NaN where a template has no such tunable. Facts are scaled
// logarithms, 0 where one is unknown, and none at all where all are.
struct SpacePosition {
  int template_index = -1;
  std::vector<float> tunables;
  std::vector<float> facts;
};

SpacePosition PositionOf(const TunableEncoder& encoder, const CandidateFeatures& features);

// Matern correlation of smoothness 3/2 at a distance in units of the length.
double Matern(double distance);

// What two positions have in common, before it is weighted.
struct Likeness {
  bool same_template = false;
  // Mean over the tunables that a template has of how alike their values are.
  double main_effects = 0;
  // How alike all of them are at once.
  double interactions = 0;
  // As main_effects, over the tunables that both have, whatever their templates.
  double shared_effects = 0;
  double facts = 0;
};

// Lengths of the correlations, and how much each tunable matters (1: as much as taken for granted).
struct LikenessLengths {
  double tunables = 1;
  double facts = 0.5;
  std::vector<float> weights;  // empty: all 1
};

// Positions of one space, arranged such that another is compared with all of them at once: tunables
// have few values each, and what two values have in common is worked out once for all positions
// that share them. Immutable; thread-safe.
class PositionTable {
 public:
  PositionTable() = default;
  // With as many tunables each.
  explicit PositionTable(std::span<const SpacePosition> positions);

  enum class Facts { kCompared, kLeftOut };

  size_t size() const { return templates_.size(); }
  // What each of the last out.size() positions has in common with `position`, which has as many
  // tunables. Facts that are left out have nothing in common.
  void Compare(const SpacePosition& position, const LikenessLengths& lengths, Facts facts,
               std::span<Likeness> out) const;

 private:
  struct Column {
    std::vector<float> values;    // each once
    std::vector<uint16_t> index;  // into them, by position
  };

  std::vector<int> templates_;
  std::vector<int> tunables_had_;
  std::vector<Column> tunables_;
  std::vector<size_t> fact_counts_;
  std::vector<std::vector<float>> facts_;  // by column, then position
};

// How much each kind of likeness makes the values alike; a covariance, for each kind is one.
struct CovarianceWeights {
  double constant = 0;
  double same_template = 0;
  double main_effects = 0;
  double interactions = 0;
  double shared_effects = 0;
  double facts = 0;

  double operator()(const Likeness& likeness) const;
  // Of a position with itself.
  double Variance() const;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_SPACE_COVARIANCE_H_
