#ifndef KERNELCAST_SERVICES_FORECASTER_CORE_TUNABLE_ENCODER_H_
#define KERNELCAST_SERVICES_FORECASTER_CORE_TUNABLE_ENCODER_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/domain/candidate.h"
#include "common/domain/problem.h"

namespace kernelcast::forecaster {

// Encodes the tunables, flags and template of a candidate as numbers, for the template space of one
// problem. The columns have no meaning outside that space. Immutable and thread-safe.
//
// Columns: one per template (0 or 1); for each tunable either its signed log2(1 + |value|), if all
// its values are integers, or one per value (0 or 1); one per compiler flag that a template may
// add. A tunable that the candidate lacks, or a value unknown in the space, is NaN.
class TunableEncoder {
 public:
  // Without a space: no columns.
  TunableEncoder() = default;
  explicit TunableEncoder(const Space& space);

  size_t columns() const { return names_.size(); }
  const std::string& name(size_t column) const { return names_[column]; }
  // Range of a column's values in the space, > 0.
  float range(size_t column) const { return ranges_[column]; }
  // Meaning of a column: the template, a number, whether an identifier has this value, or whether a
  // flag is set.
  enum class Kind { kTemplate, kNumber, kValue, kFlag };
  Kind kind(size_t column) const { return kinds_[column]; }

  std::vector<float> Encode(const Candidate& candidate) const;

  // Index of the candidate's template in the space, or -1 if it has no known template.
  int TemplateIndex(const Candidate& candidate) const;

  // Position of an encoded number among the values that a template allows in that column: 0 for the
  // smallest, 1 for the largest, in equal steps. NaN for NaN. If the template has fewer than two
  // values, the number divided by range().
  float Rank(int template_index, size_t column, float value) const;

 private:
  struct Tunable {
    // Column of a numeric tunable, or the column of each value.
    bool numeric = false;
    size_t column = 0;
    std::map<std::string, size_t, std::less<>> value_columns;
  };

  std::vector<std::string> names_;
  std::vector<float> ranges_;
  std::vector<Kind> kinds_;
  std::map<std::string, int, std::less<>> templates_;
  std::map<std::string, Tunable, std::less<>> tunables_;
  std::map<std::string, size_t, std::less<>> flag_columns_;
  // Encoded values of a template's numeric tunables, ascending, by template and column.
  std::map<std::pair<int, size_t>, std::vector<float>> values_;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_CORE_TUNABLE_ENCODER_H_
