#ifndef KERNELCAST_COMMON_DOMAIN_EXPECTED_VERDICTS_H_
#define KERNELCAST_COMMON_DOMAIN_EXPECTED_VERDICTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/domain/problem.h"

namespace kernelcast {

enum class ExpectedVerdict {
  kOk,
  kWrongResult,
  kCompileError,
  // A data race: the result is wrong, but a measurement may miss it.
  kRace,
};
std::string_view Name(ExpectedVerdict verdict);  // "wrong_result"

// The verdicts that verification must give for the points of a template.
struct TemplateVerdicts {
  ExpectedVerdict verdict = ExpectedVerdict::kOk;
  std::string note;
  struct Exception {
    // Dimensions and the values at which this verdict applies. All must match.
    std::vector<SpaceTemplate::Dimension> at;
    ExpectedVerdict verdict = ExpectedVerdict::kOk;
  };
  std::vector<Exception> exceptions;
};

// One entry per template of a space, in the space's order.
using ExpectedVerdicts = std::vector<TemplateVerdicts>;

// INVALID_ARGUMENT: "FILE:12: plain.verdict: 'good' is not one of ...". It is also returned if a
// template of the space is missing, or if a template, tunable or value is not in the space.
[[nodiscard]] absl::StatusOr<ExpectedVerdicts> ParseExpectedVerdicts(const std::string& file,
                                                                     const std::string& content,
                                                                     const Space& space);

// Reads space/expected_verdicts_TARGET.yaml in a problem's folder. Returns nothing if there is no
// such file. `space` is the target's. INVALID_ARGUMENT as above; the message names the file without
// the folder.
[[nodiscard]] absl::StatusOr<std::optional<ExpectedVerdicts>> ReadExpectedVerdicts(
    const std::string& folder, const Space& space);

// Returns the first exception that matches a point of the space, or nullptr if the verdict of its
// template applies.
const TemplateVerdicts::Exception* ExceptionAt(const ExpectedVerdicts& verdicts, const Space& space,
                                               const SpacePoint& point);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_EXPECTED_VERDICTS_H_
