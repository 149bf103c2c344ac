#ifndef KERNELCAST_COMMON_DOMAIN_SPACE_PARSER_H_
#define KERNELCAST_COMMON_DOMAIN_SPACE_PARSER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "common/domain/launch_parser.h"
#include "common/domain/problem.h"
#include "common/domain/problem_files.h"
#include "common/domain/yaml_cursor.h"

namespace kernelcast {

// The maximum length of the description of a problem or a template.
constexpr size_t kMaxDescriptionBytes = 16 << 10;

// The target and the names that the templates of a space use.
struct SpaceOwner {
  std::string target;
  CandidateKind kind;
  // Null: not known here, so that launches may use any.
  const DeclaredNames* names;
};

// Parses the template space in the file that `at` names, with its templates.
[[nodiscard]] absl::StatusOr<Space> ParseSpace(const Cursor& at, const SpaceOwner& owner,
                                               ProblemFileReader& files);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_SPACE_PARSER_H_
