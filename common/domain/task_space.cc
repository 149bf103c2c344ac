#include "common/domain/task_space.h"

#include <string>

#include "common/domain/space_parser.h"
#include "common/domain/yaml_cursor.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {

absl::StatusOr<Space> ParseTaskSpace(ProblemFileReader& files) {
  static const std::string kFile(kTaskSpaceFile);
  YamlNode name;
  name.kind = YamlNode::Kind::kScalar;
  name.line = 1;
  name.scalar = kFile;
  return ParseSpace({&kFile, &name, "", name.line},
                    {std::string(kCudaTargetName), CandidateKind::kDeviceCuda, nullptr}, files);
}

}  // namespace kernelcast
