#ifndef KERNELCAST_SERVICES_WORKER_CORE_VARIATION_H_
#define KERNELCAST_SERVICES_WORKER_CORE_VARIATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "common/domain/problem.h"

namespace kernelcast::worker {

// The rule against trivial answers. Where all expected values are small, or close to each other, a
// format's tolerance accepts zeros or the mean. So an output must also follow the variation of the
// expected values. It is no rule of precision: that is the format's.

// Sums over the elements of a floating-point output that agree by the format's rule. The kernels of
// the CUDA judge write the same layout.
struct VariationSums {
  double count = 0;
  double expected = 0;
  double expected_squares = 0;
  double got = 0;
  double got_squares = 0;
  double error = 0;  // got - expected
  double error_squares = 0;

  // Inline, because it is called for every element.
  void Add(double expected_value, double got_value) {
    const double difference = got_value - expected_value;
    count += 1;
    expected += expected_value;
    expected_squares += expected_value * expected_value;
    got += got_value;
    got_squares += got_value * got_value;
    error += difference;
    error_squares += difference * difference;
  }
  VariationSums& operator+=(const VariationSums& other);
};

// An output with fewer elements is judged together with those of other draws.
inline constexpr double kFewestToVary = 5;

// The largest variation of the error, relative to that of the expected values.
inline constexpr double kMostUnexplained = 0.3;

// Which answers the rule refuses.
enum class VariationRule {
  kFollow,       // those whose error varies too much
  kNotConstant,  // those of them that are constant; for tasks that accept several answers
};

// Returns the variation of the error over that of the expected values, if the rule refuses the
// output. `noise`: what rounding inside a right kernel may change, relative to the norm of the
// expected values. The rule is silent where that is not known, or where the expected values vary by
// no more than rounding explains.
std::optional<double> Unexplained(const VariationSums& sums, DataType dtype,
                                  std::optional<double> noise, VariationRule rule);

// "kernelcast: ...", for WrongResult. `other_rules` accept the output; they may be empty.
std::string VariationText(double unexplained, const std::string& other_rules);

// Judges the outputs of one candidate. It remembers outputs of few elements, to judge those of
// several draws together. Not thread-safe.
class VariationCheck {
 public:
  struct Draw {
    AxisValues axes;
    std::string distribution;
    size_t output;
    uint64_t id;  // differs between draws of the same shape and distribution
  };
  std::optional<double> Judge(const Draw& draw, const VariationSums& sums, DataType dtype,
                              std::optional<double> noise, VariationRule rule);

 private:
  using Key = std::tuple<AxisValues, std::string, size_t>;
  std::map<Key, std::map<uint64_t, VariationSums>> small_outputs_;
};

}  // namespace kernelcast::worker

#endif  // KERNELCAST_SERVICES_WORKER_CORE_VARIATION_H_
