#ifndef KERNELCAST_COMMON_DOMAIN_YAML_CURSOR_H_
#define KERNELCAST_COMMON_DOMAIN_YAML_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/domain/expression.h"
#include "common/domain/yaml_tree.h"

namespace kernelcast {

inline constexpr size_t kMaxYamlNameBytes = 64;

// A value in a file and its path. The functions below read it. Their errors are INVALID_ARGUMENT
// and name file, line and path.
struct Cursor {
  const std::string* file;
  const YamlNode* node;
  std::string path;  // "outputs[0].dtype"; empty for the whole file
  int line;

  Cursor Child(const YamlNode& child, std::string_view key) const {
    return {file, &child,
            path.empty() ? std::string(key) : absl::StrCat(path, ".", std::string(key)),
            child.line};
  }
  Cursor Item(size_t i) const {
    return {file, &node->items[i], absl::StrCat(path, "[", i, "]"), node->items[i].line};
  }
  // The value of a key. The key must exist.
  Cursor At(std::string_view key) const { return Child(*node->Find(key), key); }
  bool Has(std::string_view key) const { return node->Find(key) != nullptr; }
};

absl::Status ErrorAtLine(const Cursor& at, int line, const std::string& what);
absl::Status Error(const Cursor& at, const std::string& what);
absl::Status Error(const Cursor& at, const absl::Status& cause);

[[nodiscard]] absl::Status ExpectMapping(const Cursor& at);
// Checks for a mapping with all of `required` and otherwise only `optional` keys.
[[nodiscard]] absl::Status ExpectKeys(const Cursor& at, const std::vector<std::string>& required,
                                      const std::vector<std::string>& optional);
[[nodiscard]] absl::Status ExpectList(const Cursor& at, size_t at_least, size_t at_most);

[[nodiscard]] absl::StatusOr<std::string> ReadText(const Cursor& at, size_t max_bytes);
[[nodiscard]] absl::StatusOr<int64_t> ReadInteger(const Cursor& at, int64_t low, int64_t high);
[[nodiscard]] absl::StatusOr<double> ReadNumber(const Cursor& at);
[[nodiscard]] absl::StatusOr<double> ReadNumber(const Cursor& at, double low, double high);
[[nodiscard]] absl::StatusOr<Expression> ReadExpression(const Cursor& at,
                                                        const std::vector<std::string>& names);
// Reads a name of a-z, 0-9 and _.
[[nodiscard]] absl::StatusOr<std::string> ReadLowerName(const Cursor& at);
// Checks that a name may be used in expressions: an axis, a tensor or a tunable.
[[nodiscard]] absl::Status CheckVariableName(const Cursor& at, int line, const std::string& name);

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_DOMAIN_YAML_CURSOR_H_
