#ifndef KERNELCAST_COMMON_DOMAIN_YAML_TREE_H_
#define KERNELCAST_COMMON_DOMAIN_YAML_TREE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kernelcast {

struct YamlEntry;

// A YAML document as a plain tree in which every node has a line number. A restricted subset: no
// anchors, aliases, tags or second documents, and bounded by the constants below.
struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMapping };
  Kind kind = Kind::kNull;
  int line = 0;  // 1-based
  std::string scalar;
  std::vector<YamlNode> items;
  std::vector<YamlEntry> entries;  // in the order of the file, keys unique

  // The value of a key of a mapping, or nullptr.
  const YamlNode* Find(std::string_view key) const;
};

// A key of a mapping and its value.
struct YamlEntry {
  std::string key;
  int line = 0;  // of the key
  YamlNode value;
};

inline constexpr int kMaxYamlBytes = 256 << 10;
inline constexpr int kMaxYamlDepth = 16;
inline constexpr int kMaxYamlNodes = 100'000;

// INVALID_ARGUMENT: "FILE:LINE: what is wrong".
[[nodiscard]] absl::StatusOr<YamlNode> ParseYaml(const std::string& file,
                                                 const std::string& content);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_YAML_TREE_H_
