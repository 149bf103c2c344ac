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
  // A race: wrong, though a measurement need not notice.
  kRace,
};
std::string_view Name(ExpectedVerdict verdict);  // "wrong_result"

// What verification should make of the points of a template.
struct TemplateVerdicts {
  ExpectedVerdict verdict = ExpectedVerdict::kOk;
  std::string note;
  struct Exception {
    // Dimensions of the template with those of their values at which this verdict is due; all must
    // match.
    std::vector<SpaceTemplate::Dimension> at;
    ExpectedVerdict verdict = ExpectedVerdict::kOk;
  };
  std::vector<Exception> exceptions;
};

// One entry for each template of a space, in its order.
using ExpectedVerdicts = std::vector<TemplateVerdicts>;

// INVALID_ARGUMENT of the form "FILE:12: plain.verdict: 'good' is not one of ...": also where a
// template of the space is missing, or a template, tunable or value is named that the space does
// not have.
[[nodiscard]] absl::StatusOr<ExpectedVerdicts> ParseExpectedVerdicts(const std::string& file,
                                                                     const std::string& content,
                                                                     const Space& space);

// Of space/expected_verdicts_TARGET.yaml in a problem's folder, or nothing where there is none.
// `space` is the target's. INVALID_ARGUMENT as above; the file is named without the folder.
[[nodiscard]] absl::StatusOr<std::optional<ExpectedVerdicts>> ReadExpectedVerdicts(
    const std::string& folder, const Space& space);

// The first exception that matches a point of the space, or nullptr where its template's own
// verdict is due.
const TemplateVerdicts::Exception* ExceptionAt(const ExpectedVerdicts& verdicts, const Space& space,
                                               const SpacePoint& point);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_EXPECTED_VERDICTS_H_
