#ifndef KERNELCAST_COMMON_DOMAIN_EXPRESSION_H_
#define KERNELCAST_COMMON_DOMAIN_EXPRESSION_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

using Variables = std::map<std::string, double, std::less<>>;

// An arithmetic expression over named values, in muParser's syntax plus min, max, floor, ceil,
// ceildiv(a, b), mod(a, b) and next_power_of_2(a). "/" is exact division. Immutable and
// thread-safe.
class Expression {
 public:
  // INVALID_ARGUMENT: a syntax error (with its position), an unknown name, or a text longer than 1
  // KiB.
  [[nodiscard]] static absl::StatusOr<Expression> Parse(std::string_view text,
                                                        const std::vector<std::string>& names);

  // INVALID_ARGUMENT: a name has no value, or the result is not finite.
  [[nodiscard]] absl::StatusOr<double> Evaluate(const Variables& variables) const;

  // Like Evaluate, but the result must be a whole number within [low, high].
  [[nodiscard]] absl::StatusOr<int64_t> EvaluateInteger(const Variables& variables, int64_t low,
                                                        int64_t high) const;

  // Whether the name has a built-in meaning in expressions, so that no variable may use it.
  static bool IsReservedName(std::string_view name);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> names_;  // names that occur in the text, sorted
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_EXPRESSION_H_
