#include "services/worker/core/tensor.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::worker {

std::string ShapeText(const AxisValues& axes) {
  std::string text;
  for (const auto& [name, value] : axes) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, "=", value);
  }
  return text;
}

Variables ToVariables(const AxisValues& axes) {
  Variables variables;
  for (const auto& [name, value] : axes) {
    variables[name] = static_cast<double>(value);
  }
  return variables;
}

}  // namespace kernelcast::worker
