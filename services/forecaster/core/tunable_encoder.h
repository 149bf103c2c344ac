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

// Turns the tunables, flags and template of a candidate into numbers, by what one problem's
// template space says there is. The columns mean nothing outside that space. Immutable;
// thread-safe.
//
// Columns: one per template (0 or 1); per tunable either its signed log2(1 + |value|), where all
// its values are integers, or one per value (0 or 1); one per compiler flag that some template may
// add. A tunable that a candidate does not have, or a value that the space does not know, is NaN.
class TunableEncoder {
 public:
  // No space: no columns.
  TunableEncoder() = default;
  explicit TunableEncoder(const Space& space);

  size_t columns() const { return names_.size(); }
  const std::string& name(size_t column) const { return names_[column]; }
  // How far apart the values of a column lie in the space, > 0.
  float range(size_t column) const { return ranges_[column]; }
  // What a column says: the template, a number, whether an identifier is this one, whether a flag
  // is set.
  enum class Kind { kTemplate, kNumber, kValue, kFlag };
  Kind kind(size_t column) const { return kinds_[column]; }

  std::vector<float> Encode(const Candidate& candidate) const;

  // Index of the candidate's template in the space, -1 where it names none that is known.
  int TemplateIndex(const Candidate& candidate) const;

  // Where an encoded number lies among those that a template allows in that column: 0 for the
  // least, 1 for the greatest, the values between at equal steps. NaN for NaN; the number divided
  // by range() where the template has no two values to lie between.
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
